// Owns the proof that a storm of retries is worked off in bounded calls, and still the best first.
// May never depend on how large a chunk is, only on that there are chunks.

import { describe, expect, it } from 'vitest'
import { rateTerms } from '../../src/core/gcra.ts'
import type { Move } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import { LIMITS } from '../../src/store/limits.ts'
import { memoryStore } from '../../src/store/memory.ts'
import type { LeaseAnswer, Store } from '../../src/store/store.ts'
import { ERROR, KEEP, PATIENT } from '../../src/testing/cases-bench.ts'
import { newJob, START } from '../../src/testing/history-commands.ts'
import { manualClock } from '../../src/testing/history-side.ts'

const COUNT = 2 * LIMITS.chunk + 500
const BEST = 'job 2400'

async function lease(store: Store, max = LIMITS.moves): Promise<LeaseAnswer> {
  const ask = { holder: 'w', leaseMs: 1e9, max, types: ['alpha'] }
  return (await store.lease(ask, false)).answer
}

/** Many jobs that have failed once, due one millisecond after the other; one is urgent. */
async function storm() {
  const clock = manualClock(START)
  const store = memoryStore({ now: clock.now })
  await store.configure({ pool: 'default', by: 'operator', terms: { concurrency: 1e6 } })
  await store.configure({ budget: rateTerms(1, 60_000) })
  const jobs = Array.from({ length: COUNT }, (_, at) => {
    const id = `job ${at}`
    return newJob(id, { ...PATIENT, priority: id === BEST ? 90 : 50 })
  })
  await store.insert([{ jobs, unknownDeps: 'wait' }], false)
  for (let at = 0; ; ) {
    const { jobs: held } = await lease(store)
    if (held.length === 0) break
    const moves = held.map((job): Move => {
      at += 1
      const fact = { type: 'failed', error: ERROR, retryable: true, delayMs: at } as const
      return decide(job, fact, KEEP) as Move
    })
    await store.apply(moves, false)
  }
  clock.advance(COUNT)
  return { store, clock }
}

/** Leases until time has to pass: how many calls that took, and what they granted. */
async function drain(store: Store, now: number) {
  const ids: string[] = []
  for (let calls = 1; ; calls += 1) {
    const { jobs, nextAt } = await lease(store)
    ids.push(...jobs.map(({ id }) => id))
    expect(jobs.length).toBeLessThanOrEqual(LIMITS.moves)
    if (jobs.length === 0 && nextAt > now) return { calls, ids, nextAt }
    expect(calls).toBeLessThan(20)
  }
}

describe('a storm of retries', () => {
  it('gives the budget to the best of all that are due, though no call looks at all', async () => {
    const { store, clock } = await storm()
    const { calls, ids, nextAt } = await drain(store, clock.now())
    expect(calls).toBeGreaterThan(2)
    expect(ids).toEqual([BEST])
    expect(nextAt).toBe(clock.now() + 60_000)
    expect((await store.standing('job 10')).budgetAt).toBe(clock.now() + 11 * 60_000)
  })

  it('is over soon after the budget is taken away, with nobody lost', async () => {
    const { store, clock } = await storm()
    await drain(store, clock.now())
    await store.configure({ budget: null })
    const { ids, nextAt } = await drain(store, clock.now())
    expect(new Set(ids).size).toBe(COUNT - 1)
    expect(nextAt).toBe(Number.POSITIVE_INFINITY)
    expect((await store.inspect()).damage).toEqual([])
  })

  it('takes as many as a larger budget has, at once', async () => {
    const { store, clock } = await storm()
    await drain(store, clock.now())
    const burst = COUNT - 100
    await store.configure({ budget: rateTerms(burst, 60_000, burst) })
    const { ids } = await drain(store, clock.now())
    expect(new Set(ids).size).toBe(burst - 1)
    expect((await store.count()).pools.default?.states.pending).toBe(100)
  })
})
