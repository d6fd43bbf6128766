// Owns why a ready job does not start, in one fixed order of reasons.
// May never decide anything: what may start is the store's rule, this only puts it in words.

import type { BreakerState } from './breaker.ts'
import { showMs } from './duration.ts'
import type { Answer, ExplainFacts } from './explain.ts'
import { doubtOf, inText, named, times, UNTIL_GONE } from './explain-words.ts'
import type { StoredJob } from './job.ts'
import { show } from './options.ts'
import { type Elastic, isUrgent, raiseOf } from './settings.ts'

/** What has to be known of its pool. */
export interface PoolFacts {
  readonly concurrency: number
  readonly perWorker: number
  readonly paused: boolean
  /** Leases and holds. */
  readonly running: number
  readonly elastic: Elastic | null
  /** When the rate lets one more start; 0 if it does now, or there is none. */
  readonly rateAt: number
  readonly breakerState: BreakerState
  /** When an open breaker lets a probe through; 0 if it is not open. */
  readonly breakerUntil: number
}

/** Stores count the jobs ahead up to here. */
const MAX_POSITION = 1_000

type Check = (job: StoredJob, facts: ExplainFacts) => Answer | undefined

/**
 * All that stops a job stops it, so any order would be true. This one names first what would
 * still hold if everything after it went away by itself:
 *
 * 1. what only a person can change: no handler, workers choked by zombies, a paused pool, a cap
 *    of 0 (of the pool, then of the type);
 * 2. what time changes, the ill downstream before the rate: the breaker, the rate;
 * 3. what the end of other jobs changes, the narrower cap before the wider one where raising the
 *    wider would be in vain: that workers have one suspect at a time, the type's cap, the victim
 *    that is stopping for it, the pool's cap, the share of the workers.
 *
 * If none holds, the job starts at once.
 */
const CHECKS: readonly Check[] = [
  unserved,
  choked,
  paused,
  closed,
  tripped,
  throttled,
  suspected,
  typeFull,
  preempting,
  poolFull,
  workerFull,
]

export function explainReady(job: StoredJob, facts: ExplainFacts): Answer {
  for (const check of CHECKS) {
    const answer = check(job, facts)
    if (answer !== undefined) return { ...answer, text: answer.text + remarksOn(job) }
  }
  const pool = `pool ${show(job.pool)}`
  const text =
    `${named(job)} is ready and ${pool} has a free slot. It starts as soon as a worker ` +
    'with room for it asks.'
  return { reason: 'next', text: text + remarksOn(job) }
}

/** What is to be said of the attempt before. */
function remarksOn(job: StoredJob): string {
  if (job.log.at(-1)?.outcome !== 'preempted') return doubtOf(job)
  const count = times(Math.max(1, job.preempted))
  return ` It gave way to an urgent job (${count} so far), and has kept its place.${doubtOf(job)}`
}

function unserved(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  if (standing.served) return undefined
  const text =
    job.body === undefined
      ? `No live worker has a handler for type ${show(job.type)}, so ${inText(job)} waits. ` +
        'Define the type in a running scheduler, or start a worker that serves it.'
      : `${named(job)} brings its own handler, and no scheduler is running that could call it. ` +
        'Start the one that it was submitted to.'
  return { reason: 'no-handler', text }
}

function choked(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  if (!standing.full) return undefined
  const text =
    `Every worker that could run ${inText(job)} has as many zombies as it may, bodies that ` +
    'ignore their abort, and takes nothing more. Restart it, and mend the handlers.'
  return { reason: 'zombies', text }
}

function paused(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  if (!standing.pool.paused) return undefined
  const text = `${named(job)} waits because pool ${show(job.pool)} is paused. Resume the pool.`
  return { reason: 'paused', text }
}

/** A cap of 0 lets nothing start, however long one waits. */
function closed(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  const pool = show(job.pool)
  if (standing.pool.concurrency === 0) {
    const text = `Pool ${pool} has a concurrency of 0, so ${inText(job)} cannot start. Raise it.`
    return { reason: 'pool-full', text, ...placeOf(standing.ahead) }
  }
  if (standing.type.concurrency === 0) {
    const type = `Type ${show(job.type)}`
    const text = `${type} has a concurrency of 0, so ${inText(job)} cannot start. Raise it.`
    return { reason: 'type-full', text }
  }
  if (standing.pool.perWorker > 0) return undefined
  const text = `Pool ${pool} has a perWorker of 0, so ${inText(job)} cannot start. Raise it.`
  return { reason: 'worker-full', text }
}

function tripped(job: StoredJob, { standing, now }: ExplainFacts): Answer | undefined {
  const { breakerState: state, breakerUntil: until, running } = standing.pool
  if (state === 'closed') return undefined
  const pool = show(job.pool)
  const ill = `The breaker of pool ${pool} is open, as what lies behind it kept failing`
  if (state === 'open' && until > now) {
    const when = `${ill}; in ${showMs(until - now)} one job starts as a probe.`
    const text = `${when} Mend what lies behind, and ${inText(job)} goes on by itself.`
    return { reason: 'breaker', text, until }
  }
  // Nothing runs and nobody is ahead: this one is the probe.
  if (running === 0 && standing.ahead === 0) return undefined
  const text =
    `${ill}; one job at a time is let through as a probe, and ${inText(job)} waits for what it ` +
    'shows. If it succeeds, the pool goes on by itself.'
  return { reason: 'breaker', text }
}

function throttled(job: StoredJob, { standing, now }: ExplainFacts): Answer | undefined {
  const { rateAt: until } = standing.pool
  if (until <= now) return undefined
  const others =
    standing.ahead === 0
      ? 'then it is the turn of'
      : `${aheadText(standing.ahead)} ${standing.ahead === 1 ? 'comes' : 'come'} before`
  const text =
    `The rate of pool ${show(job.pool)} lets the next job start in ${showMs(until - now)}; ` +
    `${others} ${inText(job)}. Nothing has to be done, unless the rate is too low.`
  return { reason: 'rate', text, until, ...placeOf(standing.ahead) }
}

function suspected(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  if (!standing.barred) return undefined
  const text =
    `${named(job)} was lost ${times(job.lost - job.lostBefore)} with its worker and may be what ` +
    'kills it, so no worker takes it beside another such job, and every one that could run it ' +
    'has one. It starts when that one has ended, or on another worker. Look at the memory and ' +
    'the log of the workers that died.'
  return { reason: 'suspect', text }
}

function typeFull(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  const { concurrency, running } = standing.type
  if (concurrency === null || running < concurrency) return undefined
  const text =
    `As many jobs of type ${show(job.type)} run as its concurrency allows, over all pools ` +
    `(${running} of ${concurrency}), and ${inText(job)} waits for one to end. ` +
    'Wait, or raise the concurrency of the type.'
  return { reason: 'type-full', text }
}

function preempting(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  const { victim } = standing
  if (victim === undefined) return undefined
  const text =
    `Job ${show(victim)} has been told to give its slot to ${inText(job)}, and keeps it ` +
    `${UNTIL_GONE}. Nothing has to be done.`
  return { reason: 'preempting', text, blockedBy: [{ id: victim, status: 'running' }] }
}

function poolFull(job: StoredJob, { standing, ageing = null }: ExplainFacts): Answer | undefined {
  const { running, concurrency, elastic } = standing.pool
  const mayRise = elastic !== null && isUrgent(job.priority, elastic.minPriority, ageing)
  const cap = mayRise ? concurrency + raiseOf(concurrency, elastic) : concurrency
  if (running < cap) return undefined
  const pool = show(job.pool)
  const slots = `(${running} of ${concurrency} running)`
  const taken =
    elastic !== null && !mayRise && running > concurrency
      ? `Urgent jobs run above the cap of pool ${pool} ${slots}, and others wait until fewer ` +
        'than the cap run'
      : `All slots of pool ${pool} are taken ${slots}`
  const place =
    standing.ahead >= MAX_POSITION
      ? `the place of ${inText(job)} in line is beyond 1,000`
      : `${inText(job)} is number ${standing.ahead + 1} in line`
  const text =
    `${taken}; ${place}. ` +
    'Wait, or raise the concurrency if what lies behind the pool can bear it.'
  return { reason: 'pool-full', text, ...placeOf(standing.ahead) }
}

function workerFull(job: StoredJob, { standing }: ExplainFacts): Answer | undefined {
  if (!standing.spent) return undefined
  const { perWorker } = standing.pool
  const share = perWorker === Number.POSITIVE_INFINITY ? '' : ` (perWorker ${perWorker})`
  const text =
    `Every worker that could run ${inText(job)} runs as many jobs of pool ${show(job.pool)} as ` +
    `one may${share}, while the pool has room. Start another worker, or raise perWorker.`
  return { reason: 'worker-full', text, ...placeOf(standing.ahead) }
}

function aheadText(ahead: number): string {
  if (ahead >= MAX_POSITION) return 'more than 1,000 others'
  return ahead === 1 ? '1 other' : `${ahead} others`
}

/** Absent where nobody counts any more. */
function placeOf(ahead: number): { readonly position?: number } {
  return ahead >= MAX_POSITION ? {} : { position: ahead + 1 }
}
