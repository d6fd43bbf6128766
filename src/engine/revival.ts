// Owns running again what has ended: one job, and the branch that its failure had cancelled.
// May never revive what a rule forbids: a key that is taken, dependencies that stay dead.

import { AxError } from '../core/errors.ts'
import type { StoredJob } from '../core/job.ts'
import { Breath } from '../kit/breath.ts'
import { LIMITS } from '../store/limits.ts'
import type { RefusedMove } from '../store/store.ts'
import type { Hub } from './hub.ts'
import { settle } from './settle.ts'

/** What came of an attempt to revive one job. */
export type Revived = 'revived' | 'nothing' | RefusedMove

/** What came of a branch: the jobs that run again, and those that could not, with the reason. */
export interface Branch {
  readonly revived: readonly string[]
  readonly stuck: ReadonlyMap<string, RefusedMove>
}

/** Whether the job runs again by this call, as it is in the store. */
export async function revive(
  hub: Hub,
  job: StoredJob,
  applies?: (job: StoredJob) => boolean,
): Promise<Revived> {
  const moved = await settle(hub, job, { type: 'retry' }, applies)
  if (moved === null) return 'nothing'
  return moved.status === 'refused' ? moved.why : 'revived'
}

/**
 * Revives what the failure of a job had cancelled, in order of dependency: a job is looked at
 * again whenever one of those it waits for has been revived. One that stays dead, or whose key
 * is taken, ends its path.
 */
export async function reviveBranch(hub: Hub, root: string): Promise<Branch> {
  const stuck = new Map<string, RefusedMove>()
  const revived = [root]
  const seen = new Set(revived)
  const breath = new Breath(hub.runtime)
  for (const id of revived) {
    for await (const page of dependentsOf(hub, id)) {
      const branch = page.filter((job) => !seen.has(job.id) && isCascaded(job))
      const moved = await Promise.all(branch.map((job) => settle(hub, job, { type: 'retry' })))
      branch.forEach((job, index) => {
        const answer = moved[index]
        if (answer?.status === 'refused') stuck.set(job.id, answer.why)
        if (answer?.status !== 'moved') return
        stuck.delete(job.id)
        seen.add(job.id)
        revived.push(job.id)
      })
      await breath.take()
    }
  }
  return { revived: revived.slice(1), stuck }
}

/** Says which jobs of a branch could not be revived with it. */
export function warnOfStuck(hub: Hub, stuck: Branch['stuck']): void {
  for (const [id, why] of stuck) {
    const text = `not revived with its branch: ${cannotRetry(id, why).message}`
    hub.settings.logger.warn({ jobId: id, why }, text)
  }
}

async function* dependentsOf(hub: Hub, id: string): AsyncGenerator<readonly StoredJob[]> {
  for (let after = 0; ; ) {
    const page = await hub.store.dependents(id, after, LIMITS.page)
    yield page
    const last = page.at(-1)
    if (last === undefined || page.length < LIMITS.page) return
    after = last.seq
  }
}

/** Cancelled because of a dependency, or about to be. */
function isCascaded(job: StoredJob): boolean {
  if (job.status === 'waiting') return true
  return job.status === 'cancelled' && job.code === 'DEPENDENCY_FAILED'
}

/** The error of a revival that a rule forbids. */
export function cannotRetry(id: string, why: RefusedMove): AxError {
  if (why.reason === 'key') {
    return new AxError(
      'KEY_TAKEN',
      `Job ${id} cannot run again: job ${why.owner} has taken its key. Wait for that one to end.`,
      { jobId: id, owner: why.owner },
    )
  }
  const dep = why.reason === 'doomed' ? why.dep : 'a dependency'
  return new AxError(
    'DEPENDENCY_FAILED',
    `Job ${id} cannot run again while its dependency ${dep} has not succeeded. ` +
      `Retry ${dep} with { downstream: true }.`,
    { jobId: id, dependency: dep },
  )
}
