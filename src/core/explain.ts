// Owns the answer to "why is this job not running?": a kind for programs, a sentence for people.
// May never leave a job without an answer, and may never decide anything.

import { showMs } from './duration.ts'
import { type Dep, hasEnded, type JobStatus, type StoredJob } from './job.ts'
import { clip, show } from './options.ts'
import { isDoomed, quorumOf } from './quorum.ts'
import type { Explanation } from './types.ts'

/** Whatever keeps a job from running, or how it ended. */
export type Reason =
  | 'success'
  | 'failed'
  | 'cancelled'
  | 'running'
  | 'stopping'
  | 'dependency'
  | 'unknown-dependency'
  | 'doomed'
  | 'lane'
  | 'delayed'
  | 'backoff'
  | 'lost'
  | 'no-handler'
  | 'zombies'
  | 'paused'
  | 'pool-full'
  | 'next'

export interface ExplainFacts {
  readonly standing: {
    readonly ahead: number
    readonly pool: {
      readonly concurrency: number
      readonly paused: boolean
      readonly running: number
    }
    readonly laneHolder: string | undefined
    /** Those that are not satisfied. */
    readonly deps: readonly (Dep & { readonly status: JobStatus | 'unknown' })[]
    readonly served: boolean
    /** Served only by workers that take nothing now. */
    readonly full: boolean
  }
  /** On the store's clock. */
  readonly now: number
  /** Absent: nobody knows. */
  readonly leaseHolderAlive?: boolean
}

/** Named in a sentence; the rest is counted. */
const NAMED = 3

/** Named in `blockedBy`: what a program can show. */
const BLOCKERS = 100

/** Stores count the jobs ahead up to here. */
const MAX_POSITION = 1_000

/** What a reason has to say beside the job's id and status. */
interface Answer {
  readonly reason: Reason
  readonly text: string
  readonly blockedBy?: Explanation['blockedBy'] & object
  readonly until?: number
  readonly position?: number
}

/** Why a job does not run, what it waits for, and what to do about it. Total. O(dependencies). */
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

function explainPending(job: StoredJob, { now }: ExplainFacts): Answer {
  const until = job.availableAt
  const when = until > now ? `in ${showMs(until - now)}` : 'now'
  const failures = job.attempts - job.attemptsBefore
  const losses = job.lost - job.lostBefore
  const lastWasLost = job.log.at(-1)?.outcome === 'lost'
  if (losses > 0 && (lastWasLost || failures === 0)) {
    const times = losses === 1 ? 'once' : `${losses} times`
    const text =
      `${named(job)} was lost ${times}, as its worker died or stalled; it runs again ${when}. ` +
      'Look at the memory and the log of that worker.'
    return { reason: 'lost', text, until }
  }
  if (failures > 0) {
    const count = `Attempt ${failures} of ${job.terms.retries + 1} of ${inText(job)} failed`
    return { reason: 'backoff', text: `${count}${whyOf(job)}; the next one is due ${when}.`, until }
  }
  const text = `${named(job)} is not to start yet: it is due ${when}. Nothing has to be done.`
  return { reason: 'delayed', text, until }
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

function canDeliver(dep: Dep & { readonly status: JobStatus | 'unknown' }): boolean {
  return dep.status === 'unknown' || !hasEnded(dep.status) || dep.status === 'success'
}

function statusText(status: JobStatus | 'unknown'): string {
  return status === 'unknown' ? 'not submitted' : status
}

/** The order of precedence: what would still stop it if the others were mended comes first. */
function explainReady(job: StoredJob, { standing }: ExplainFacts): Answer {
  const pool = show(job.pool)
  if (!standing.served) return { reason: 'no-handler', text: unservedText(job) }
  if (standing.full) {
    const text =
      `Every worker that could run ${inText(job)} has as many zombies as it may, bodies that ` +
      'ignore their abort, and takes nothing more. Restart it, and mend the handlers.'
    return { reason: 'zombies', text }
  }
  if (standing.pool.paused) {
    const text = `${named(job)} waits because pool ${pool} is paused. Resume the pool.`
    return { reason: 'paused', text }
  }
  const { running, concurrency } = standing.pool
  if (running < concurrency) {
    const text = `${named(job)} is ready and pool ${pool} has a free slot. It starts at once.`
    return { reason: 'next', text }
  }
  const closed = concurrency === 0
  const full = closed
    ? `Pool ${pool} has a concurrency of 0, so nothing in it starts`
    : `All slots of pool ${pool} are taken (${running} of ${concurrency} running)`
  const wait = closed
    ? 'Raise it.'
    : 'Wait, or raise the concurrency if what lies behind the pool can bear it.'
  if (standing.ahead >= MAX_POSITION) {
    const text = `${full}, and the place of ${inText(job)} in line is beyond 1,000. ${wait}`
    return { reason: 'pool-full', text }
  }
  const position = standing.ahead + 1
  const text = `${full}, and ${inText(job)} is number ${position} in line. ${wait}`
  return { reason: 'pool-full', text, position }
}

function unservedText(job: StoredJob): string {
  if (job.body !== undefined) {
    return (
      `${named(job)} brings its own handler, and no scheduler is running that could call it. ` +
      'Start the one that it was submitted to.'
    )
  }
  return (
    `No live worker has a handler for type ${show(job.type)}, so ${inText(job)} waits. ` +
    'Define the type in a running scheduler, or start a worker that serves it.'
  )
}

function explainRunning(job: StoredJob, { now, leaseHolderAlive }: ExplainFacts): Answer {
  const worker = show(job.lease?.holder ?? 'unknown')
  const since = showMs(now - job.startedAt)
  const runs = `${named(job)} is running on worker ${worker}, attempt ${job.starts}`
  if (leaseHolderAlive !== false) {
    const text = `${runs}, for ${since}. Cancel it if that is too long.`
    return { reason: 'running', text }
  }
  const left = showMs(job.deadline - now)
  const text = `${runs}, which has not been heard of. The lease ends in ${left}; then it is lost.`
  return { reason: 'running', text, until: job.deadline }
}

function explainEnd(job: StoredJob, now: number): Answer {
  const ago = `${showMs(now - job.finishedAt)} ago`
  if (job.status === 'success') {
    const starts = job.starts === 1 ? '1 attempt' : `${job.starts} attempts`
    return { reason: 'success', text: `${named(job)} succeeded ${ago}, after ${starts}.` }
  }
  if (job.status === 'failed') {
    const text = `${named(job)} failed ${ago}${whyOf(job)}. Mend the cause, then retry it.`
    return { reason: 'failed', text }
  }
  if (job.lease?.hold === true) {
    const text =
      `${named(job)} was cancelled ${ago}, but its body has not stopped yet: it keeps its slot ` +
      `on worker ${show(job.lease.holder)} until it does, or its grace is over.`
    return { reason: 'stopping', text, until: job.deadline }
  }
  if (job.cause !== undefined) {
    const text =
      `${named(job)} was cancelled ${ago}, as job ${show(job.cause)} did not succeed. ` +
      `Mend the cause, then retry job ${show(job.cause)} with its downstream.`
    return { reason: 'cancelled', text }
  }
  return { reason: 'cancelled', text: `${named(job)} was cancelled ${ago}${whyOf(job)}.` }
}

/** ` with CODE: message`, as far as it is known. */
function whyOf(job: StoredJob): string {
  const message = job.error?.message.replace(/\s+/g, ' ').replace(/[.\s]+$/, '')
  const parts = [job.code, message === undefined ? undefined : clip(message, 200)]
  const text = parts.filter((part) => part !== undefined && part !== '').join(': ')
  return text === '' ? '' : ` with ${text}`
}

function blockersOf(deps: ExplainFacts['standing']['deps']): Pick<Answer, 'blockedBy'> {
  if (deps.length === 0) return {}
  return { blockedBy: deps.slice(0, BLOCKERS).map(({ id, status }) => ({ id, status })) }
}

/** `job "a"`, `jobs "a" and "b"`, `jobs "a", "b", "c" and 4 more`. */
function namesOf(names: readonly string[]): string {
  if (names.length === 1) return `job ${names[0]}`
  const last = names.length > NAMED ? `${names.length - NAMED} more` : (names.at(-1) ?? 'none')
  const first = names.length > NAMED ? names.slice(0, NAMED) : names.slice(0, -1)
  return `jobs ${first.join(', ')} and ${last}`
}

function named(job: StoredJob): string {
  return `Job ${show(job.id)}`
}

function inText(job: StoredJob): string {
  return `job ${show(job.id)}`
}
