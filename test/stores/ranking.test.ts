// Owns the proof that a change of ageing leaves the order that would have been without the old one.
// May never look at a rank: the oracle knows when each job asked, and what it has reached since.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rateTerms } from '../../src/core/gcra.ts'
import { decide } from '../../src/core/machine.ts'
import type { Ageing } from '../../src/core/rank.ts'
import { LIMITS } from '../../src/store/limits.ts'
import { memoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { ERROR, KEEP, PATIENT } from '../../src/testing/cases-bench.ts'
import { newJob, START } from '../../src/testing/history-commands.ts'
import { type ManualClock, manualClock } from '../../src/testing/history-side.ts'

interface Known {
  readonly id: string
  readonly priority: number
  readonly askedAt: number
}

const ageings = fc.option(
  fc.record({
    everyMs: fc.integer({ min: 1, max: 2_000 }),
    ceiling: fc.integer({ min: 1, max: 100 }),
  }),
)

const steps = fc.array(
  fc.record({
    gap: fc.nat(5_000),
    priorities: fc.array(fc.integer({ min: 1, max: 100 }), { maxLength: 8 }),
    ageing: fc.option(ageings, { nil: undefined }),
    sweeps: fc.nat(1),
  }),
  { minLength: 1, maxLength: 8 },
)

/** By what they have reached at `now`; the order in which they were added breaks ties. */
function inOrder(jobs: readonly Known[], ageing: Ageing | null, now: number): string[] {
  const isAbove = ({ priority }: Known) => ageing === null || priority > ageing.ceiling
  const reach = ({ priority, askedAt }: Known) =>
    priority * (ageing?.everyMs ?? 0) + (now - askedAt)
  const compare = (a: Known, b: Known): number => {
    if (isAbove(a) !== isAbove(b)) return isAbove(a) ? -1 : 1
    if (isAbove(a)) return b.priority - a.priority || a.askedAt - b.askedAt
    return reach(b) - reach(a)
  }
  return [...jobs].sort(compare).map(({ id }) => id)
}

async function sweep(store: Store): Promise<boolean> {
  return (await store.overdue({ limit: 10, keepLogMs: KEEP.logMs }, false)).answer.more
}

async function takeAll(store: Store): Promise<string[]> {
  const ids: string[] = []
  await store.configure({ pool: 'default', by: 'operator', terms: { concurrency: 1e6 } })
  for (;;) {
    const ask = { holder: 'w', leaseMs: 1_000, max: 1, types: ['alpha'] }
    const [job] = (await store.lease(ask, false)).answer.jobs
    if (job === undefined) return ids
    ids.push(job.id)
  }
}

async function fail(store: Store, clock: ManualClock, priorities: readonly number[], at: number) {
  const known = priorities.map((priority, index) => {
    return { id: `${at}-${index}`, priority, askedAt: clock.now() }
  })
  const jobs = known.map(({ id, priority }) => newJob(id, { ...PATIENT, priority }))
  await store.insert([{ jobs, unknownDeps: 'wait' }], false)
  const ask = { holder: 'w', leaseMs: 1e9, max: 100, types: ['alpha'] }
  const { answer } = await store.lease(ask, false)
  const failed = { type: 'failed', error: ERROR, retryable: true } as const
  const moves = answer.jobs.map((job) => decide(job, failed, KEEP))
  await store.apply(
    moves.filter((move) => move !== null),
    false,
  )
  return known
}

describe('a change of ageing', () => {
  it('gives ready jobs the order that they would have had under it from the beginning', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (list) => {
        const clock = manualClock(START)
        const store = memoryStore({ now: clock.now })
        const known: Known[] = []
        let set: Ageing | null = null
        for (const [at, { gap, priorities, ageing, sweeps }] of list.entries()) {
          clock.advance(gap)
          if (ageing !== undefined) await store.configure({ ageing })
          set = ageing === undefined ? set : ageing
          if (sweeps > 0) await sweep(store)
          const fresh = priorities.map((priority, index) => {
            return { id: `${at}-${index}`, priority, askedAt: clock.now() }
          })
          known.push(...fresh)
          const jobs = fresh.map(({ id, priority }) => newJob(id, { priority }))
          await store.insert([{ jobs, unknownDeps: 'wait' }], false)
        }
        while (await sweep(store));
        expect((await store.inspect()).damage).toEqual([])
        expect(await takeAll(store)).toEqual(inOrder(known, set, clock.now()))
      }),
      { numRuns: 150 },
    )
  })

  it('gives retries that the budget holds the same order', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (list) => {
        const clock = manualClock(START)
        const store = memoryStore({ now: clock.now })
        await store.configure({ pool: 'default', by: 'operator', terms: { concurrency: 1e6 } })
        await store.configure({ budget: rateTerms(1, 1e9) })
        const spent = await fail(store, clock, [50], -1)
        expect((await takeAll(store)).length).toBe(spent.length)
        const known: Known[] = []
        let set: Ageing | null = null
        for (const [at, { gap, priorities, ageing, sweeps }] of list.entries()) {
          clock.advance(gap)
          if (ageing !== undefined) await store.configure({ ageing })
          set = ageing === undefined ? set : ageing
          if (sweeps > 0) await sweep(store)
          known.push(...(await fail(store, clock, priorities, at)))
        }
        while (await sweep(store));
        const held = (await store.count()).pools.default?.states.pending ?? 0
        expect(held).toBe(known.length)
        const order: string[] = []
        for (let count = 0; count < held; count += 1) {
          clock.advance(1e9)
          order.push(...(await takeAll(store)))
        }
        expect(order).toEqual(inOrder(known, set, clock.now()))
      }),
      { numRuns: 60 },
    )
  })

  it('is worked off a chunk at a time, however the chunks fall', async () => {
    const clock = manualClock(START)
    const store = memoryStore({ now: clock.now })
    const known: Known[] = []
    for (let batch = 0; batch < 5; batch += 1) {
      const fresh = Array.from({ length: LIMITS.chunk - 100 }, (_, at) => {
        return { id: `${batch}-${at}`, priority: 1 + ((at * 7) % 100), askedAt: clock.now() }
      })
      known.push(...fresh)
      const jobs = fresh.map(({ id, priority }) => newJob(id, { priority }))
      await store.insert([{ jobs, unknownDeps: 'wait' }], false)
      clock.advance(3_000)
    }
    const ageing = { everyMs: 400, ceiling: 80 }
    await store.configure({ ageing })
    const left: number[] = []
    for (let more = true; more; ) {
      more = await sweep(store)
      left.push((await store.count()).unranked)
    }
    expect(left.length).toBe(Math.ceil(known.length / LIMITS.chunk))
    expect(left).toEqual([...left].sort((a, b) => b - a))
    expect(left.at(-1)).toBe(0)
    expect(await takeAll(store)).toEqual(inOrder(known, ageing, clock.now()))
  })
})
