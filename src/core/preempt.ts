// Owns the choice of the job that has to give way to an urgent one.
// May never read a clock, or look at anything but the jobs of the pool that hold its slots.

import type { StoredJob } from './job.ts'
import type { Preempt } from './settings.ts'

/** A job is displaced at most so many times: it gets its turn in the end. */
export const MAX_DISPLACED = 3

/** `at`: the first instant at which time alone makes a victim of somebody; Infinity for none. */
export interface Choice<T> {
  readonly victim: T | undefined
  readonly at: number
}

/** What is looked at of a job that holds a slot. */
export type Runner = Pick<
  StoredJob,
  'seq' | 'priority' | 'terms' | 'preempted' | 'startedAt' | 'lease' | 'evictor'
>

/**
 * Which of those that hold a slot has to give way to the urgent job: the lowest priority, then
 * the latest start (it loses least), then the highest seq. Nobody, if a slot is about to be free
 * anyway. `of`: only the jobs of that worker, where its share of the pool is used up too.
 * Pure. O(held).
 */
export function victimOf<T extends Runner>(
  held: Iterable<T>,
  urgent: Pick<StoredJob, 'priority'>,
  terms: Preempt,
  now: number,
  of?: string,
): Choice<T> {
  let victim: T | undefined
  let at = Number.POSITIVE_INFINITY
  for (const job of held) {
    if (job.lease?.hold === true || job.evictor !== undefined) {
      return { victim: undefined, at: Number.POSITIVE_INFINITY }
    }
    if (of !== undefined && job.lease?.holder !== of) continue
    if (!mayGiveWay(job, urgent, terms)) continue
    const from = job.startedAt + terms.minRunMs
    if (from > now) at = Math.min(at, from)
    else if (victim === undefined || givesWayBefore(job, victim)) victim = job
  }
  return victim === undefined ? { victim, at } : { victim, at: Number.POSITIVE_INFINITY }
}

function mayGiveWay(
  job: Runner,
  urgent: Pick<StoredJob, 'priority'>,
  { minGap }: Preempt,
): boolean {
  if (!job.terms.preemptible || job.preempted >= MAX_DISPLACED) return false
  return job.priority + minGap <= urgent.priority
}

function givesWayBefore(a: Runner, b: Runner): boolean {
  if (a.priority !== b.priority) return a.priority < b.priority
  if (a.startedAt !== b.startedAt) return a.startedAt > b.startedAt
  return a.seq > b.seq
}
