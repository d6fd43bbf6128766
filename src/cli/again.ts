// Owns what a run that is taken up again tries once more, and what it leaves to people to decide.
// May never start a job, or change what one does.

import type { StoredJob } from '../core/job.ts'
import type { Job } from '../core/types.ts'
import { type AxScheduler, isAxError, type Store } from '../index.ts'
import { jobsOf, type RunRef } from './runs.ts'

/**
 * Jobs that were lost with their process, that must not be repeated, and of which nobody has been
 * told yet: they ended after the run was last handed back by a process that could still speak.
 */
export function untoldOf(head: Job, jobs: readonly StoredJob[]): ReadonlySet<string> {
  const last = head.attemptLog.findLast(({ outcome }) => outcome && outcome !== 'lost')
  const toldAt = last === undefined ? 0 : last.startedAt + (last.callMs ?? 0)
  const isUntold = ({ status, error, log, finishedAt }: StoredJob) =>
    status === 'failed' &&
    error?.code === 'OUTCOME_UNKNOWN' &&
    log.at(-1)?.outcome === 'lost' &&
    finishedAt >= toldAt
  return new Set(jobs.filter(isUntold).map(({ id }) => id))
}

/** Revives all that failed or was cancelled, but for `untold` and what cannot run without it. */
export async function reviveAll(
  scheduler: AxScheduler,
  store: Store,
  run: RunRef,
  untold: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  const revive = () =>
    untold.size === 0
      ? scheduler.retryWhere({ flow: run.id })
      : reviveOthers(scheduler, store, run, untold)
  // Once more, as long as that brings something: a job may stand before the one it depends on.
  while ((await revive()) > 0) signal.throwIfAborted()
}

async function reviveOthers(
  scheduler: AxScheduler,
  store: Store,
  run: RunRef,
  untold: ReadonlySet<string>,
): Promise<number> {
  let count = 0
  for (const { id, status } of await jobsOf(store, run)) {
    const isDue = (status === 'failed' || status === 'cancelled') && !untold.has(id)
    if (isDue && (await revive(scheduler, id))) count += 1
  }
  return count
}

/** False for one that stays dead: its dependency does, or its key is somebody else's. */
async function revive(scheduler: AxScheduler, id: string): Promise<boolean> {
  try {
    return await scheduler.retry(id)
  } catch (error) {
    if (isAxError(error, 'DEPENDENCY_FAILED') || isAxError(error, 'KEY_TAKEN')) return false
    throw error
  }
}

export function untoldNotice(names: readonly string[]): string {
  const what = names.length === 1 ? 'was' : 'were'
  const it = names.length === 1 ? 'it' : 'them'
  return (
    `${names.join(', ')} ${what} running when the process of this run died, and must not be ` +
    `repeated (idempotent: false). Look what became of ${it}: the next command tries ${it} again.`
  )
}
