// Owns the answer to "why is this job not running?": a kind for programs, a sentence for people.
// May never leave a job without an answer, and may never decide anything.

import { showMs } from './duration.ts'
import { explainEnd } from './explain-end.ts'
import { explainReady, type PoolFacts } from './explain-ready.ts'
import {
  type Blocker,
  blockersOf,
  doubtOf,
  inText,
  named,
  namesOf,
  times,
  UNTIL_GONE,
  whyOf,
} from './explain-words.ts'
import { hasEnded, type JobStatus, type StoredJob } from './job.ts'
import { show } from './options.ts'
import { isDoomed, quorumOf } from './quorum.ts'
import type { Ageing } from './rank.ts'
import type { Explanation } from './types.ts'

/** Whatever keeps a job from running, or how it ended. */
export const REASONS = [
  'success',
  'failed',
  'cancelled',
  'running',
  'stopping',
  'dependency',
  'unknown-dependency',
  'doomed',
  'lane',
  'delayed',
  'backoff',
  'lost',
  'budget',
  'no-handler',
  'zombies',
  'paused',
  'breaker',
  'rate',
  'suspect',
  'type-full',
  'preempting',
  'pool-full',
  'worker-full',
  'next',
] as const

export type Reason = (typeof REASONS)[number]

export interface ExplainFacts {
  readonly standing: {
    readonly ahead: number
    readonly pool: PoolFacts
    readonly laneHolder: string | undefined
    /** Those that are not satisfied. */
    readonly deps: readonly Blocker[]
    readonly served: boolean
    /** Served only by workers that take nothing now. */
    readonly full: boolean
    /** A suspect, and those workers all have one already; see suspect.ts. */
    readonly barred: boolean
    /** Served only by workers that run as many of its pool as one may. */
    readonly spent: boolean
    /** The cap of its type over all pools, null for none, and how many of it run. */
    readonly type: { readonly concurrency: number | null; readonly running: number }
    /** When the budget lets it go, if it is that which holds it; else 0. */
    readonly budgetAt: number
    /** The job that has been told to give way to it. */
    readonly victim: string | undefined
  }
  /** On the store's clock. */
  readonly now: number
  /** What is set; absent or null: nothing ages. Urgent is only what lies above its ceiling. */
  readonly ageing?: Ageing | null
  /** Absent: nobody knows. */
  readonly leaseHolderAlive?: boolean
}

/** What a reason has to say beside the job's id and status. */
export interface Answer {
  readonly reason: Reason
  readonly text: string
  readonly blockedBy?: Explanation['blockedBy'] & object
  readonly until?: number
  readonly position?: number
}

/**
 * Why a job does not run, what it waits for, and what to do about it. Total: every job has an
 * answer, and where several things stop it, the order in explain-ready.ts says which is named.
 * O(dependencies).
 */
export function explain(job: StoredJob, facts: ExplainFacts): Explanation {
  return { id: job.id, status: job.status, ...answerFor(job, facts) }
}

function answerFor(job: StoredJob, facts: ExplainFacts): Answer {
  switch (job.status) {
    case 'pending':
      return explainPending(job, facts)
    case 'waiting':
      return explainWaiting(job, facts)
    case 'ready':
      return explainReady(job, facts)
    case 'running':
      return explainRunning(job, facts)
    case 'success':
    case 'failed':
    case 'cancelled':
      return explainEnd(job, facts.now)
  }
}

/** The budget holds only what is due, so it is never one of two reasons. */
function explainPending(job: StoredJob, { standing, now }: ExplainFacts): Answer {
  const failures = job.attempts - job.attemptsBefore
  const losses = job.lost - job.lostBefore
  const attempt = `Attempt ${failures} of ${job.terms.retries + 1} of ${inText(job)} failed`
  const count = failures > 0 ? `${attempt}${whyOf(job)}` : `${named(job)} is to run again`
  if (standing.budgetAt > 0) {
    const until = standing.budgetAt
    const text =
      `${count}; the next one is due, and waits for the retry budget, which lets it go ` +
      `${inSpan(until - now)} at the earliest, after better-ranked retries. Nothing has to be done.`
    return { reason: 'budget', text: text + doubtOf(job), until }
  }
  const until = job.availableAt
  const when = inSpan(until - now)
  const lastWasLost = job.log.at(-1)?.outcome === 'lost'
  if (losses > 0 && (lastWasLost || failures === 0)) {
    const text =
      `${named(job)} was lost ${times(losses)}, as its worker died or stalled; it runs again ` +
      `${when}. Look at the memory and the log of that worker.${doubtOf(job)}`
    return { reason: 'lost', text, until }
  }
  if (failures > 0) {
    const text = `${count}; the next one is due ${when}.${doubtOf(job)}`
    return { reason: 'backoff', text, until }
  }
  const text = `${named(job)} is not to start yet: it is due ${when}. Nothing has to be done.`
  return { reason: 'delayed', text, until }
}

function inSpan(ms: number): string {
  return ms > 0 ? `in ${showMs(ms)}` : 'now'
}

function explainWaiting(job: StoredJob, facts: ExplainFacts): Answer {
  if (isDoomed(job)) return explainDoomed(job, facts)
  if (job.needs > 0) return explainDependencies(job, facts)
  const lane = `its lane ${show(job.exclusive ?? '')}`
  const { laneHolder } = facts.standing
  if (laneHolder === undefined) {
    const text = `${named(job)} waits for ${lane}, which has just become free. It is next.`
    return { reason: 'lane', text }
  }
  const text =
    `${named(job)} waits for ${lane}, which job ${show(laneHolder)} keeps until it has ended ` +
    'for good. It goes on then; explain or cancel that job if it takes too long.'
  return { reason: 'lane', text }
}

function explainDoomed(job: StoredJob, { standing }: ExplainFacts): Answer {
  const dead = standing.deps.filter((dep) => !canDeliver(dep))
  const culprit = job.cause ?? dead[0]?.id ?? 'a dependency'
  const text =
    `${named(job)} can no longer start, as job ${show(culprit)} did not succeed; it is about to ` +
    `be cancelled. Mend the cause, then retry job ${show(culprit)} with its downstream.`
  return { reason: 'doomed', text, ...blockersOf(dead) }
}

function explainDependencies(job: StoredJob, { standing }: ExplainFacts): Answer {
  const open = standing.deps.filter(canDeliver)
  const unknown = open.filter((dep) => dep.status === 'unknown')
  const known = open.filter((dep) => dep.status !== 'unknown')
  if (unknown.length > 0 && known.length < job.needs) {
    const jobs = namesOf(unknown.map(({ id }) => show(id)))
    const text =
      `${named(job)} waits for ${jobs}, which nobody has submitted. ` +
      `Submit ${unknown.length === 1 ? 'it' : 'them'}, or cancel this job if the id is a slip.`
    return { reason: 'unknown-dependency', text, ...blockersOf([...unknown, ...known]) }
  }
  const jobs = namesOf(open.map(({ id, status }) => `${show(id)} (${statusText(status)})`))
  const wants = wishOf(job, open.length)
  const text =
    open.length === 0
      ? `${named(job)} has its dependencies met just now. Nothing has to be done.`
      : `${named(job)} waits for ${wants}${jobs}. It starts by itself; explain those to see why.`
  return { reason: 'dependency', text, ...blockersOf(open) }
}

/** What it wants of those that are open, unless it simply wants them all. */
function wishOf(job: StoredJob, open: number): string {
  if (job.needs >= open) return ''
  const quorum = quorumOf(job.depMode, job.deps.length)
  const more = job.needs === quorum ? `${job.needs}` : `${job.needs} more`
  return `${more} of ${open} (any ${quorum} of its ${job.deps.length} dependencies will do): `
}

function canDeliver(dep: Blocker): boolean {
  return dep.status === 'unknown' || !hasEnded(dep.status) || dep.status === 'success'
}

function statusText(status: JobStatus | 'unknown'): string {
  return status === 'unknown' ? 'not submitted' : status
}

function explainRunning(job: StoredJob, { now, leaseHolderAlive }: ExplainFacts): Answer {
  const worker = show(job.lease?.holder ?? 'unknown')
  const since = showMs(now - job.startedAt)
  const runs = `${named(job)} is running on worker ${worker}, attempt ${job.starts}`
  if (leaseHolderAlive === false) {
    const left = showMs(job.deadline - now)
    const text = `${runs}, which has not been heard of. The lease ends in ${left}; then it is lost.`
    return { reason: 'running', text, until: job.deadline }
  }
  const told = toldToStop(job, now)
  const rest =
    told === ''
      ? 'Cancel it if that is too long.'
      : `${told} It keeps its slot ${UNTIL_GONE}. Let its handler follow its signal.`
  return { reason: 'running', text: `${runs}, for ${since}. ${rest}` }
}

/** As far as its record shows it: a body that is silent, or whose worker stops, is not known of. */
function toldToStop({ evictor, startedAt, terms: { timeoutMs } }: StoredJob, now: number): string {
  const isLate = timeoutMs > 0 && now - startedAt > timeoutMs
  const back = isLate
    ? ''
    : ', and goes back to its place, with no attempt used, unless it succeeds'
  const evicted = `It has been told to give its slot to the urgent job ${show(evictor)}${back}.`
  const late = `Its timeout of ${showMs(timeoutMs)} is over, at which its worker tells it to stop.`
  const parts = [evictor === undefined ? '' : evicted, isLate ? late : '']
  return parts.filter((part) => part !== '').join(' ')
}
