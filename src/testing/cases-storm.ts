// Owns the named cases about more retries at once than any one call looks at.
// May never depend on how fast a store is.

import { rateTerms } from '../core/gcra.ts'
import { decide } from '../core/machine.ts'
import { type Bench, type Case, ERROR, KEEP, LEASE_MS, PATIENT, TYPES } from './cases-bench.ts'
import { ids, many } from './cases-pools.ts'

/** More than one call puts in line; each is due a millisecond after the one before. */
const STORM = 1_100

const AGAIN = { type: 'failed', error: ERROR, retryable: true } as const

async function storm({ store, add, take, clock }: Bench): Promise<void> {
  await store.configure({ pool: 'default', by: 'operator', terms: { concurrency: 10_000 } })
  await add(...many('j', STORM, PATIENT), { id: 'best', ...PATIENT, priority: 90 })
  for (let delayMs = 0; ; ) {
    const taken = await take(1_000)
    if (taken.length === 0) break
    const moves = taken.map((job) => {
      const isBest = job.id === 'best'
      if (!isBest) delayMs += 1
      const late = { ...AGAIN, delayMs: isBest ? STORM + 1 : delayMs }
      return decide(job, late, KEEP)
    })
    await store.apply(
      moves.filter((move) => move !== null),
      false,
    )
  }
  clock.advance(STORM + 1)
}

/** Starts nobody. */
async function wakesIn({ store, clock }: Bench): Promise<number> {
  const ask = { holder: 'idle', leaseMs: LEASE_MS, max: 0, types: TYPES }
  return (await store.lease(ask, false)).answer.nextAt - clock.now()
}

export const STORM_CASES: readonly Case[] = [
  {
    name: 'has the budget let nobody out before all retries that are due stand in line',
    run: async (bench) => {
      const { store, clock, expect } = bench
      await store.configure({ budget: rateTerms(1, 60_000) })
      await storm(bench)
      expect((await store.count()).budgeted).toBe(STORM + 1)
      const places = async (...names: string[]) => {
        const all = await Promise.all(names.map((id) => store.standing(id)))
        return all.map(({ budgetAt }) => (budgetAt === 0 ? 0 : budgetAt - clock.now()))
      }
      const waits = [0, 60_000, 120_000, 1_000 * 60_000]
      expect(await places('best', 'j0', 'j1', `j${STORM - 1}`)).toEqual(waits)
      expect(await wakesIn(bench)).toBe(1_000 - STORM)
      expect(await places('best', 'j0', 'j1', `j${STORM - 1}`)).toEqual(waits)
      expect((await store.count()).budgeted).toBe(STORM + 1)
      expect(await ids(bench)).toEqual(['best'])
      expect(await wakesIn(bench)).toBe(60_000)
    },
  },
  {
    name: 'takes who is in line out of it, the best first, once there is no budget',
    run: async (bench) => {
      const { store, statuses, expect } = bench
      await store.configure({ budget: rateTerms(1, 1_000_000) })
      await storm(bench)
      await ids(bench, 0)
      await ids(bench, 1)
      expect(await wakesIn(bench)).toBe(1_000_000)
      await store.configure({ budget: null })
      await ids(bench, 0)
      const last = await statuses('j998', 'j999', 'j1000', `j${STORM - 1}`)
      expect(last).toEqual(['ready', 'ready', 'pending', 'pending'])
      await ids(bench, 0)
      expect(await statuses(`j${STORM - 1}`)).toEqual(['ready'])
    },
  },
]
