// Owns the errors of refused submissions: which job, why, and what to do about it; batch bounds.
// May never hide one: a batch that is refused names the first reason and carries them all.

import { AxError } from '../core/errors.ts'
import type { NewJob } from '../core/job.ts'
import { show } from '../core/options.ts'
import type { JobInput } from '../core/types.ts'
import { LIMITS } from '../store/limits.ts'
import type { Refusal } from '../store/store.ts'

/**
 * Where refused jobs stand: the place of the first of them, unless it came on its own, and whether
 * a running job waits for them to be stored.
 */
export interface Place {
  readonly from: number | undefined
  readonly isInside: boolean
}

/**
 * The error of a refused group: the first refusal speaks for which waiting would be in vain,
 * `refusals` has the others, too. A job that was submitted on its own has no place.
 */
export function refusalError(
  refusals: readonly Refusal[],
  jobs: readonly NewJob[],
  place?: Place,
): AxError {
  const mayWait = place?.isInside === true ? () => false : canWait
  const first = (refusals.find((each) => !mayWait(each)) ?? refusals[0]) as Refusal
  const id = jobs[first.index]?.id ?? ''
  const from = place?.from
  const index = first.index + (from ?? 0)
  const where = from === undefined ? '' : `jobs[${index}]: `
  const more = refusals.length - 1
  const rest =
    more === 0 ? '' : ` ${more} more of the batch ${more === 1 ? 'was' : 'were'} refused.`
  const details = from === undefined ? {} : { index, refusals: refusalsFrom(from, refusals) }
  const [code, text, extra] =
    first.reason === 'full' ? describeFull(first, jobs.length, place) : describe(first, id)
  return new AxError(code, `${where}${text}${rest}`, { jobId: id, ...details, ...extra })
}

/** Whether room is all that is missing, and its pool lets callers wait for it. */
export function canWait(refusal: Refusal): boolean {
  return refusal.reason === 'full' && refusal.overflow === 'wait' && !refusal.never
}

function refusalsFrom(from: number, refusals: readonly Refusal[]): readonly Refusal[] {
  if (from === 0) return refusals
  return refusals.map((refusal) => ({ ...refusal, index: refusal.index + from }))
}

type Full = Refusal & { readonly reason: 'full' }

function describeFull(
  { pool, maxQueue, overflow, never }: Full,
  count: number,
  place: Place | undefined,
): [string, string, object] {
  const most = maxQueue === 1 ? '1 of its jobs' : `${maxQueue} of its jobs`
  const full = `The pool ${show(pool)} is full: at most ${most} may wait to start (maxQueue)`
  let text = `${full}. Come back later, or let callers wait: overflow: 'wait'.`
  if (never && count > 1) text = `${full}, and this batch has more. Split it, or raise maxQueue.`
  else if (never) text = `${full}. Raise maxQueue to let any job in.`
  else if (overflow === 'wait' && place?.isInside === true) {
    text = `${full}, and a running job does not wait for room. Raise maxQueue, or use another pool.`
  }
  return ['QUEUE_OVERFLOW', text, { pool, maxQueue }]
}

function describe(refusal: Exclude<Refusal, Full>, id: string): [string, string, object] {
  switch (refusal.reason) {
    case 'duplicate':
      return [
        'DUPLICATE_ID',
        `The id ${show(refusal.id)} is taken by a job with another type or payload, or stands ` +
          'twice in the batch. Give it an id of its own, or leave the id out.',
        {},
      ]
    case 'key':
      return [
        'KEY_TAKEN',
        `The key ${show(refusal.key)} belongs to job ${show(refusal.owner)}, which has not ended ` +
          'or whose window is open. Leave the id out to get that job instead.',
        { key: refusal.key, owner: refusal.owner },
      ]
    case 'unknown':
      return [
        'UNKNOWN_DEPENDENCY',
        `Job ${show(id)} depends on ${show(refusal.dep)}, which nobody has submitted. Submit it ` +
          "first or in the same batch, or allow it with unknownDeps: 'wait'.",
        { dependency: refusal.dep },
      ]
    case 'cycle':
      return [
        'CYCLE',
        `These jobs wait for each other in a loop: ${refusal.path.join(' > ')}. ` +
          'Take one of the dependencies out.',
        { path: refusal.path },
      ]
  }
}

/** A list of jobs that one atomic insertion takes. */
export function checkBatch(jobs: readonly JobInput[]): void {
  if (!Array.isArray(jobs)) {
    throw new AxError('INVALID_JOB', 'addJobs wants a list of jobs. For one job, use addJob.')
  }
  if (jobs.length > LIMITS.batch) throw tooLarge('jobs', jobs.length, LIMITS.batch)
}

/** What addMany can pull jobs from. */
export function checkSource(jobs: Iterable<JobInput> | AsyncIterable<JobInput>): void {
  const source = jobs as Partial<Iterable<JobInput> & AsyncIterable<JobInput>> | null | undefined
  if (typeof source?.[Symbol.iterator] === 'function') return
  if (typeof source?.[Symbol.asyncIterator] === 'function') return
  throw new AxError(
    'INVALID_JOB',
    `addMany wants an iterable, or an async iterable, of jobs, got ${show(jobs)}.`,
  )
}

export function checkEdges(jobs: readonly { readonly deps: readonly unknown[] }[]): void {
  let edges = 0
  for (const job of jobs) edges += job.deps.length
  if (edges > LIMITS.edges) throw tooLarge('dependencies', edges, LIMITS.edges)
}

function tooLarge(what: string, size: number, limit: number): AxError {
  return new AxError(
    'TOO_LARGE',
    `A batch takes up to ${limit} ${what}, this one has ${size}. Split it, or stream the jobs ` +
      'with addMany(iterable), which is not all or nothing.',
    { size, limit },
  )
}
