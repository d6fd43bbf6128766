// Owns what a runner knows about itself: counters, percentiles, and the timeline it tells others.
// May never decide anything, or let those who watch change what they see.

import { hasAttemptSubscribers, publishAttempt } from '../channel.ts'
import { tell } from '../hooks.ts'
import type { AttemptRecord, RunnerLogger } from '../runner.ts'
import type { Runtime } from '../runtime.ts'
import { Counts, Histogram, Rate } from '../stats.ts'

/** Who wants to hear of attempts. */
export interface Watchers {
  readonly onAttempt: ((record: AttemptRecord) => void) | undefined
  readonly logger: RunnerLogger | undefined
}

export type Outcome = AttemptRecord['outcome']

export class Meter {
  calls = 0
  succeeded = 0
  failed = 0
  cancelled = 0
  deduplicated = 0
  /** Attempts that are over; of those, the ones that took effect. */
  attempts = 0
  landed = 0
  retried = 0
  readonly codes = new Counts()
  readonly latency = new Histogram()
  readonly queueWait = new Histogram()
  readonly call = new Histogram()
  readonly #rate: Rate
  readonly #runtime: Runtime
  readonly #watchers: Watchers
  readonly #hasWatchers: boolean

  constructor(runtime: Runtime, watchers: Watchers) {
    this.#runtime = runtime
    this.#watchers = watchers
    this.#hasWatchers = watchers.onAttempt !== undefined || watchers.logger !== undefined
    this.#rate = new Rate(runtime.monotonic())
  }

  /** A call has ended in success. */
  success(ms: number, now: number): void {
    this.succeeded += 1
    this.latency.record(ms)
    this.#rate.add(now)
  }

  /** Whether anybody would hear of an attempt. */
  get isWatched(): boolean {
    return this.#hasWatchers || hasAttemptSubscribers()
  }

  throughput(now: number): number {
    return this.#rate.perSecond(now)
  }

  /** Tells those who watch, if any, of an attempt. */
  record(
    key: string,
    attempt: number,
    queuedMs: number,
    callMs: number,
    outcome: Outcome,
    code?: string,
  ): void {
    if (!this.isWatched) return
    const at = this.#runtime.now()
    const fields = { key, attempt, queuedMs, callMs, outcome, at }
    const record: AttemptRecord = code === undefined ? fields : { ...fields, code }
    tell(this.#watchers.onAttempt, record)
    const level = outcome === 'failure' || outcome === 'timeout' ? 'warn' : 'info'
    this.log(level, record, `attempt ${attempt} of ${key}: ${outcome}`)
    if (hasAttemptSubscribers()) publishAttempt(record)
  }

  log(level: 'info' | 'warn' | 'error', fields: object, message: string): void {
    const { logger } = this.#watchers
    if (logger === undefined) return
    tell(() => logger[level](fields, message), undefined)
  }
}
