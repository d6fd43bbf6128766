// THE HEART. Owns the table of legal transitions and the one function that decides.
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

/** One kind of transition: where it may begin, where it may lead, and who takes it. */
export interface Step {
  readonly from: readonly (JobStatus | 'new')[]
  readonly to: readonly (JobStatus | 'gone')[]
  /** `rule`: a store takes it by arithmetic alone. `decision`: only `decide` does. */
  readonly by: 'rule' | 'decision'
  /** What the log calls it. */
  readonly event: string
  /** One line for the picture and for the reader. */
  readonly says: string
}

/**
 * Every legal transition. There is no other way to change a state: stores ask this table before
 * they write, and the picture in ARCHITECTURE.md is drawn from it.
 */
export const STEPS: Readonly<Record<StepName, Step>> = {
  add: {
    from: ['new'],
    to: ['waiting', 'pending', 'ready'],
    by: 'rule',
    event: 'job:added',
    says: 'submitted',
  },
  release: {
    from: ['waiting'],
    to: ['pending', 'ready'],
    by: 'rule',
    event: 'job:ready',
    says: 'its dependencies are met',
  },
  due: {
    from: ['pending'],
    to: ['ready', 'waiting'],
    by: 'rule',
    event: 'job:ready',
    says: 'its time has come',
  },
  admit: {
    from: ['waiting'],
    to: ['ready'],
    by: 'rule',
    event: 'job:ready',
    says: 'its lane is free',
  },
  yield: {
    from: ['ready'],
    to: ['waiting'],
    by: 'rule',
    event: 'job:waiting',
    says: 'a better-ranked job took its lane before it had started',
  },
  lease: {
    from: ['ready'],
    to: ['running'],
    by: 'rule',
    event: 'job:running',
    says: 'a worker took it',
  },
  unheard: {
    from: ['running'],
    to: ['ready'],
    by: 'rule',
    event: 'job:returned',
    says: 'its worker never heard of the lease',
  },
  succeed: {
    from: ['running'],
    to: ['success'],
    by: 'decision',
    event: 'job:success',
    says: 'the handler returned',
  },
  fail: {
    from: ['running'],
    to: ['failed'],
    by: 'decision',
    event: 'job:failed',
    says: 'the handler threw, and no attempt is left',
  },
  retry: {
    from: ['running'],
    to: ['pending', 'ready'],
    by: 'decision',
    event: 'job:retry',
    says: 'the handler threw, and an attempt is left',
  },
  timeout: {
    from: ['running'],
    to: ['pending', 'ready', 'failed'],
    by: 'decision',
    event: 'job:timeout',
    says: 'the attempt ran out of time',
  },
  lose: {
    from: ['running'],
    to: ['pending', 'ready', 'failed'],
    by: 'decision',
    event: 'job:lost',
    says: 'its worker let the lease run out, or was cut off from the store',
  },
  return: {
    from: ['running'],
    to: ['ready', 'failed'],
    by: 'decision',
    event: 'job:returned',
    says: 'its worker is stopping',
  },
  cancel: {
    from: ['waiting', 'pending', 'ready', 'running'],
    to: ['cancelled'],
    by: 'decision',
    event: 'job:cancelled',
    says: 'somebody cancelled it',
  },
  settle: {
    from: ['cancelled'],
    to: ['cancelled'],
    by: 'decision',
    event: 'job:settled',
    says: 'the body of a cancelled job has ended, or its grace has',
  },
  expire: {
    from: ['ready'],
    to: ['failed'],
    by: 'decision',
    event: 'job:failed',
    says: 'it waited for a slot longer than it may',
  },
  cascade: {
    from: ['waiting'],
    to: ['cancelled'],
    by: 'decision',
    event: 'job:cancelled',
    says: 'its dependencies can no longer be met',
  },
  revive: {
    from: ['failed', 'cancelled', 'waiting'],
    to: ['waiting', 'pending', 'ready'],
    by: 'decision',
    event: 'job:revived',
    says: 'somebody asked for another try',
  },
  forget: {
    from: ['success', 'failed', 'cancelled'],
    to: ['gone'],
    by: 'decision',
    event: 'job:forgotten',
    says: 'its retention is over',
  },
}

/** Whether the table knows this transition. O(1). */
export function isLegal(step: StepName, from: JobStatus | 'new', to: JobStatus | 'gone'): boolean {
  const { from: begins, to: ends } = STEPS[step]
  return begins.includes(from) && ends.includes(to)
}

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
  }
}

function afterFailure(job: StoredJob, fact: Fact & { type: 'failed' }, keep: Keep): Move {
  const code = fact.error.code ?? 'HANDLER_FAILED'
  if (!fact.retryable || !mayRunAgain(job)) {
    return failWith(held(job, 'fail', 'failed'), job, code, fact.error, keep, 'failure')
  }
  const own = fact.delayMs ?? ownBackoff(job)
  return {
    ...held(job, 'retry', 'ready'),
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
  const move = held(job, 'timeout', 'failed')
  const text = `The attempt did not end within its timeout of ${job.terms.timeoutMs} ms.`
  if (!mayRunAgain(job)) {
    const error = errorOf('EXECUTION_TIMEOUT', text)
    return failWith(move, job, 'EXECUTION_TIMEOUT', error, keep, 'timeout')
  }
  if (!job.terms.idempotent) return unknownOutcome(move, job, text, keep, 'timeout')
  return {
    ...move,
    to: 'ready',
    delayMs: fact.delayMs ?? ownBackoff(job),
    outcome: 'timeout',
    code: 'EXECUTION_TIMEOUT',
    error: errorOf('EXECUTION_TIMEOUT', text),
  }
}

/** A stop interrupted it. That is no failure: the job goes back to its place, uncharged. */
function handBack(job: StoredJob, unbegun: boolean, keep: Keep): Move {
  const move: Move = { ...held(job, 'return', 'ready'), charge: 'free', keepRank: true }
  if (unbegun || job.terms.idempotent) return { ...move, outcome: 'returned' }
  const text = 'The worker stopped while the attempt was running.'
  return unknownOutcome({ ...move, charge: 'attempt' }, job, text, keep, 'returned')
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
  const move: Move = { ...blank(job, 'lose', 'failed'), charge: 'lost' }
  if (!job.terms.idempotent) {
    return unknownOutcome(move, job, 'The worker let its lease run out.', keep, 'lost')
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
  return failWith({ ...move, to: 'failed' }, job, 'OUTCOME_UNKNOWN', error, keep, outcome)
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
  }
}

function errorOf(code: AxErrorCode, message: string): ErrorData {
  return { name: 'AxError', message, code }
}
