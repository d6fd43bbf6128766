// Owns what an entry of the log says about a job's counts, and what follows from these alone.
// May never look at another job.

import type { JobEvent } from '../../core/job.ts'
import type { Ended, Seen } from './view.ts'

/** Whether it was lost twice with its worker since somebody revived it. */
export function isSuspect({ lost, lostBefore }: Seen): boolean {
  return lost >= lostBefore + 2
}

/** What an event says about the counts of a job. */
export function foldCounts(seen: Seen, event: JobEvent): void {
  if (event.event === 'job:running') {
    seen.starts += 1
    seen.attempts += 1
    seen.startedSinceAdmission = true
  }
  if (event.event === 'job:lost') {
    seen.attempts -= 1
    seen.lost += 1
  }
  if (event.event === 'job:preempted') {
    seen.attempts -= 1
    seen.preempted += 1
  }
  if (event.event === 'job:returned' && event.to !== 'failed') seen.attempts -= 1
}

/** What is known of an attempt once it is over. A question that failed leaves it as it was. */
export function foldUnknown(seen: Seen, event: JobEvent, { begun }: Ended): void {
  const { event: name } = event
  if (name === 'job:success') seen.unknown = false
  if (name === 'job:timeout' || name === 'job:lost') seen.unknown = true
  if (name === 'job:returned' || name === 'job:preempted') seen.unknown ||= begun
  if ((name === 'job:retry' || name === 'job:failed') && begun) seen.unknown = false
}
