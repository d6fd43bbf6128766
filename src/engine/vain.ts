// Owns the question whether a batch that waits behind others for room waits in vain.
// May never refuse what a store would let in: where that is not certain, it says nothing.

import type { AxError } from '../core/errors.ts'
import type { NewJob } from '../core/job.ts'
import { LIMITS } from '../store/limits.ts'
import type { Store } from '../store/store.ts'
import { refusalError } from './errors.ts'
import { rulesOf } from './survey.ts'

/**
 * The error of a batch that takes more places in a pool than that has at all; undefined for any
 * other. The store would say so, but only when it is the turn of the batch. O(jobs).
 */
export async function vainError(
  store: Store,
  jobs: readonly NewJob[],
): Promise<AxError | undefined> {
  const settings = await store.settings()
  for (const [pool, own] of byPool(jobs)) {
    const { maxQueue, overflow } = rulesOf(settings, pool)
    if (own.length <= maxQueue) continue
    const sure = await surelyNew(store, own)
    const first = sure[0]
    if (first === undefined || sure.length <= maxQueue) continue
    const index = jobs.indexOf(first)
    const refusal = { index, reason: 'full', pool, maxQueue, overflow, never: true } as const
    return refusalError([refusal], jobs, { from: 0, isInside: false })
  }
  return undefined
}

/** Jobs that begin pending or ready: without dependencies, a lane, or a key to be merged by. */
function byPool(jobs: readonly NewJob[]): ReadonlyMap<string, readonly NewJob[]> {
  const pools = new Map<string, NewJob[]>()
  for (const job of jobs) {
    if (job.deps.length > 0 || job.exclusive !== undefined || job.key !== undefined) continue
    const own = pools.get(job.pool)
    if (own === undefined) pools.set(job.pool, [job])
    else own.push(job)
  }
  return pools
}

/** Those that are not there yet, and that nobody waits for: such need no room. */
async function surelyNew(store: Store, jobs: readonly NewJob[]): Promise<readonly NewJob[]> {
  const sure: NewJob[] = []
  for (let at = 0; at < jobs.length; at += LIMITS.page) {
    const page = jobs.slice(at, at + LIMITS.page)
    const known = await store.get(page.map(({ id }) => id))
    const named = await Promise.all(page.map(({ id, minted }) => minted || isFree(store, id)))
    sure.push(...page.filter((_, index) => known[index] === null && named[index] === true))
  }
  return sure
}

async function isFree(store: Store, id: string): Promise<boolean> {
  return (await store.dependents(id, 0, 1)).length === 0
}
