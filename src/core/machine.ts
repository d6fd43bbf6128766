// THE HEART. Owns the one function that decides; the table of transitions is in steps.ts.
// May never see a clock, a random number or a store: a job and a fact go in, a move comes out.

import { backoffMs, lossDelayMs, seededRandom } from './backoff.ts'
import type { AxErrorCode } from './errors.ts'
import {
  type ErrorData,
  type Fact,
  hasEnded,
  type JobStatus,
  type Move,
  type StepName,
  type StoredJob,
} from './job.ts'
import { clip } from './options.ts'
import { isDoomed } from './quorum.ts'

/** For how long ended jobs, outcomes and log entries are kept, in milliseconds. */
export interface Keep {
  readonly successMs: number
  readonly failedMs: number
  readonly cancelledMs: number
  readonly outcomesMs: number
  readonly logMs: number
}

/**
 * What a fact means for a job: the move to make, or null where it means nothing (cancelling a job
 * that has ended). Pure and total: every status and every fact has an answer. O(1).
 */
export function decide(job: StoredJob, fact: Fact, keep: Keep): Move | null {
  switch (fact.type) {
    case 'succeeded':
      return isHeld(job) ? succeed(job, fact, keep) : null
    case 'failed':
      return isHeld(job) ? afterFailure(job, fact, keep) : null
    case 'timedOut':
      return isHeld(job) ? afterTimeout(job, fact, keep) : null
    case 'returned':
      return isHeld(job) ? handBack(job, fact.unbegun === true, keep) : null
    case 'preempted':
      return isHeld(job) ? displace(job, fact.unbegun === true, keep) : null
    case 'abandoned':
      return isHeld(job) ? { ...lose(job, keep), expect: leaseOf(job) } : null
    case 'settled':
      return job.lease?.hold === true ? settle(job, leaseOf(job)) : null
    case 'overdue':
      return overdue(job, keep)
    case 'cancel':
      return hasEnded(job.status) || isDoomed(job) ? null : cancel(job, fact, keep)
    case 'retry':
      return canRevive(job) ? revive(job) : null
  }
}

function isHeld(job: StoredJob): boolean {
  return job.status === 'running' && job.lease !== undefined
}

/** Written out in one piece: it is the one decision that is made for nearly every job. */
function succeed(job: StoredJob, fact: { readonly result: Move['result'] }, keep: Keep): Move {
  return {
    id: job.id,
    expect: leaseOf(job),
    step: 'succeed',
    to: 'success',
    delayMs: 0,
    keepRank: false,
    charge: 'attempt',
    outcome: 'success',
    code: undefined,
    result: fact.result,
    error: undefined,
    keepMs: keepOf('success', job, keep),
    unknown: false,
    verdict: 'success',
  }
}

function afterFailure(job: StoredJob, fact: Fact & { type: 'failed' }, keep: Keep): Move {
  const code = fact.error.code ?? 'HANDLER_FAILED'
  const verdict = fact.transient === true ? 'failure' : 'neutral'
  const shown = { verdict, unknown: fact.asked === true ? undefined : false } as const
  if (!fact.retryable || !mayRunAgain(job)) {
    const move = { ...held(job, 'fail', 'failed'), ...shown }
    return failWith(move, job, code, fact.error, keep, 'failure')
  }
  const own = fact.delayMs ?? ownBackoff(job)
  return {
    ...held(job, 'retry', 'ready'),
    ...shown,
    delayMs: Math.max(own, Math.ceil(Math.min(fact.retryAfterMs ?? 0, MAX_DELAY_MS))),
    outcome: 'failure',
    code,
    error: fact.error,
  }
}

/** Some 69 years: more than anybody waits, and sums with an instant stay exact. */
const MAX_DELAY_MS = 2 ** 41 - 1

/** The outcome is unknown: the body may have done its work before or after the deadline. */
function afterTimeout(job: StoredJob, fact: Fact & { type: 'timedOut' }, keep: Keep): Move {
  const { timeoutMs, heartbeatMs } = job.terms
  const code = fact.silent === true ? 'HEARTBEAT_LOST' : 'EXECUTION_TIMEOUT'
  const text =
    fact.silent === true
      ? `The attempt showed no progress for its heartbeat of ${heartbeatMs} ms.`
      : `The attempt did not end within its timeout of ${timeoutMs} ms.`
  const shown = { unknown: true, verdict: 'failure' } as const
  const move = { ...held(job, 'timeout', 'failed'), ...shown }
  if (!mayRunAgain(job)) return failWith(move, job, code, errorOf(code, text), keep, 'timeout')
  if (!mayRepeat(job)) return unknownOutcome(move, job, text, keep, 'timeout')
  return {
    ...move,
    to: 'ready',
    delayMs: fact.delayMs ?? ownBackoff(job),
    outcome: 'timeout',
    code,
    error: errorOf(code, text),
  }
}

/** A stop interrupted it. That is no failure: the job goes back to its place, uncharged. */
function handBack(job: StoredJob, unbegun: boolean, keep: Keep): Move {
  const move: Move = { ...held(job, 'return', 'ready'), charge: 'free', keepRank: true }
  if (unbegun) return { ...move, outcome: 'returned' }
  if (mayRepeat(job)) return { ...move, outcome: 'returned', unknown: true }
  const text = 'The worker stopped while the attempt was running.'
  return unknownOutcome({ ...move, charge: 'attempt' }, job, text, keep, 'returned')
}

/** It gave way to an urgent job. It has lost nothing: its place is its own, and no attempt is. */
function displace(job: StoredJob, unbegun: boolean, keep: Keep): Move {
  const move: Move = { ...held(job, 'preempt', 'ready'), charge: 'preempted', keepRank: true }
  if (unbegun) return { ...move, outcome: 'preempted' }
  if (mayRepeat(job)) return { ...move, outcome: 'preempted', unknown: true }
  const text = 'The attempt gave way to an urgent job.'
  return unknownOutcome(move, job, text, keep, 'preempted')
}

/** Whether another start may follow an attempt that nobody knows the outcome of. */
function mayRepeat(job: StoredJob): boolean {
  return job.terms.idempotent || job.terms.confirm
}

function overdue(job: StoredJob, keep: Keep): Move | null {
  const expect = { seq: job.seq, rev: job.rev, overdue: true } as const
  if (job.lease?.hold === true) return settle(job, expect)
  if (job.status === 'running') return { ...lose(job, keep), expect }
  if (job.status === 'ready') return { ...expire(job, keep), expect }
  if (job.status === 'waiting' && isDoomed(job)) return { ...cascade(job, keep), expect }
  if (!hasEnded(job.status)) return null
  return { ...blank(job, 'forget', 'gone'), expect, keepMs: keep.outcomesMs }
}

/** The promise is "at least once": a lost job runs again, with no retries too, but not for ever. */
function lose(job: StoredJob, keep: Keep): Move {
  const losses = job.lost - job.lostBefore + 1
  const move: Move = { ...blank(job, 'lose', 'failed'), charge: 'lost', unknown: true }
  if (!mayRepeat(job)) {
    const text = 'Its worker died, stalled, or was cut off from the store.'
    return unknownOutcome(move, job, text, keep, 'lost')
  }
  if (losses > job.terms.maxLost) {
    const text = `The job was lost ${losses} times: each time its worker died or stalled.`
    return failWith(move, job, 'LOST', errorOf('LOST', text), keep, 'lost')
  }
  return {
    ...move,
    to: 'ready',
    delayMs: lossDelayMs(losses, seededRandom(job.id, job.starts)),
    keepRank: true,
    outcome: 'lost',
    code: 'LOST',
  }
}

function expire(job: StoredJob, keep: Keep): Move {
  const text = `The job waited for a slot longer than its ${job.enqueueTimeoutMs} ms.`
  const error = errorOf('ENQUEUE_TIMEOUT', text)
  const move = blank(job, 'expire', 'failed')
  return failWith(move, job, 'ENQUEUE_TIMEOUT', error, keep, undefined)
}

function cascade(job: StoredJob, keep: Keep): Move {
  const text = `A job that it depends on did not succeed: ${job.cause ?? 'unknown'}.`
  return {
    ...blank(job, 'cascade', 'cancelled'),
    code: 'DEPENDENCY_FAILED',
    error: errorOf('DEPENDENCY_FAILED', text),
    keepMs: keepOf('cancelled', job, keep),
  }
}

function cancel(job: StoredJob, fact: Fact & { type: 'cancel' }, keep: Keep): Move {
  return {
    ...blank(job, 'cancel', 'cancelled'),
    charge: 'attempt',
    outcome: job.status === 'running' ? 'cancelled' : undefined,
    code: 'CANCELLED',
    error: errorOf('CANCELLED', clip(fact.reason ?? 'The job was cancelled.', 8_192)),
    keepMs: keepOf('cancelled', job, keep),
  }
}

/** A job doomed but not yet cancelled counts as cancelled; one whose body still runs does not. */
function canRevive(job: StoredJob): boolean {
  if (job.status === 'waiting') return isDoomed(job)
  return (job.status === 'failed' || job.status === 'cancelled') && job.lease === undefined
}

function revive(job: StoredJob): Move {
  return blank(job, 'revive', 'ready')
}

function settle(job: StoredJob, expect: Move['expect']): Move {
  return { ...blank(job, 'settle', 'cancelled'), expect }
}

/** Whether the charged attempts, the current one among them, leave room for another. */
function mayRunAgain(job: StoredJob): boolean {
  return job.attempts - job.attemptsBefore <= job.terms.retries
}

function ownBackoff(job: StoredJob): number {
  const failure = job.attempts - job.attemptsBefore
  return backoffMs(job.terms.backoff, failure, seededRandom(job.id, job.starts))
}

function unknownOutcome(
  move: Move,
  job: StoredJob,
  text: string,
  keep: Keep,
  outcome: Move['outcome'],
): Move {
  const error = errorOf(
    'OUTCOME_UNKNOWN',
    `${text} Whether it took effect is unknown, and it is not idempotent, so it is not repeated.`,
  )
  return failWith({ ...move, unknown: true }, job, 'OUTCOME_UNKNOWN', error, keep, outcome)
}

function failWith(
  move: Move,
  job: StoredJob,
  code: string,
  error: ErrorData,
  keep: Keep,
  outcome: Move['outcome'],
): Move {
  const keepMs = keepOf('failed', job, keep)
  return { ...move, to: 'failed', keepRank: false, code, error, outcome, keepMs }
}

/** A record outlives the window of its key, or a key would name an owner that nobody can read. */
function keepOf(end: 'success' | 'failed' | 'cancelled', job: StoredJob, keep: Keep): number {
  if (end === 'success') return Math.max(keep.successMs, job.keyForMs)
  return end === 'failed' ? keep.failedMs : keep.cancelledMs
}

/** What the holder of a lease writes compares the lease. */
function held(job: StoredJob, step: StepName, to: JobStatus): Move {
  return { ...blank(job, step, to), expect: leaseOf(job) }
}

function leaseOf(job: StoredJob): Move['expect'] {
  return { lease: job.lease?.number ?? 0 }
}

/** What anybody else writes compares the revision. */
function blank(job: StoredJob, step: StepName, to: JobStatus | 'gone'): Move {
  return {
    id: job.id,
    expect: { seq: job.seq, rev: job.rev, overdue: false },
    step,
    to,
    delayMs: 0,
    keepRank: false,
    charge: 'attempt',
    outcome: undefined,
    code: undefined,
    result: undefined,
    error: undefined,
    keepMs: 0,
    unknown: undefined,
    verdict: 'neutral',
  }
}

function errorOf(code: AxErrorCode, message: string): ErrorData {
  return { name: 'AxError', message, code }
}
