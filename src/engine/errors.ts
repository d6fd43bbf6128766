// Owns the errors of refused submissions: which job, why, and what to do about it; batch bounds.
// May never hide one: a batch that is refused names the first reason and carries them all.

import { AxError } from '../core/errors.ts'
import type { NewJob } from '../core/job.ts'
import { show } from '../core/options.ts'
import type { JobInput } from '../core/types.ts'
import { LIMITS } from '../store/limits.ts'
import type { Refusal } from '../store/store.ts'

/** The error of a refused group: the first refusal speaks, `refusals` has the others, too. */
export function refusalError(
  refusals: readonly Refusal[],
  jobs: readonly NewJob[],
  single: boolean,
): AxError {
  const first = refusals[0] as Refusal
  const id = jobs[first.index]?.id ?? ''
  const where = single ? '' : `jobs[${first.index}]: `
  const more = refusals.length - 1
  const rest =
    more === 0 ? '' : ` ${more} more of the batch ${more === 1 ? 'was' : 'were'} refused.`
  const details = single ? {} : { index: first.index, refusals }
  const [code, text, extra] = describe(first, id)
  return new AxError(code, `${where}${text}${rest}`, { jobId: id, ...details, ...extra })
}

function describe(refusal: Refusal, id: string): [string, string, object] {
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
    case 'full':
      return [
        'QUEUE_OVERFLOW',
        `The pool ${show(refusal.pool)} is full: at most ${refusal.maxQueue} of its jobs may ` +
          (refusal.never
            ? 'wait to start, and this batch alone has more. Split it, or raise maxQueue.'
            : "wait to start (maxQueue). Come back later, or let callers wait: overflow: 'wait'."),
        { pool: refusal.pool, maxQueue: refusal.maxQueue },
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
