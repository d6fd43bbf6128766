// Owns the arithmetic of dependencies: one pair of counts says it all, for all, any and k of n.
// May never look a dependency up.

import type { Dep, DepMode, JobStatus } from './job.ts'

/** `needs`: successes still missing. `open`: dependencies that can still deliver one. */
export interface Counts {
  readonly needs: number
  readonly open: number
}

/** How many satisfied dependencies a job wants, out of `count` distinct ones. */
export function quorumOf(depMode: DepMode, count: number): number {
  if (count === 0) return 0
  if (depMode === 'all') return count
  return depMode === 'any' ? 1 : depMode
}

/** Whether an end of that kind satisfies that dependency. */
export function satisfies(dep: Dep, end: JobStatus): boolean {
  return dep.on === 'end' || end === 'success'
}

/**
 * How a dependency that is not satisfied is shown, by what its id stands for now. Dead is dead: its
 * id may have been forgotten since, or given to a job that has nothing to do with this one.
 */
export function shownAs(isDead: boolean, now: JobStatus | 'unknown'): JobStatus | 'unknown' {
  return isDead && now !== 'cancelled' ? 'failed' : now
}

/** A satisfying end takes one from both counts; any other end takes one from `open` alone. */
export function afterEnd(counts: Counts, satisfied: boolean): Counts {
  return {
    needs: satisfied ? Math.max(0, counts.needs - 1) : counts.needs,
    open: counts.open - 1,
  }
}

/** True once the quorum can no longer be reached. */
export function isDoomed(counts: Counts): boolean {
  return counts.needs > 0 && counts.open < counts.needs
}
