// Owns a circuit breaker as a state machine: closed, open, half-open.
// May never read a clock or use a timer: whoever asks says what time it is.

import { type Duration, toMs } from './duration.ts'
import { countOf, integer, plain, refuseUnknown, refuseValue, share } from './options.ts'

export interface BreakerOptions {
  /** Opens after this many failures in a row; default 5, or never if `failureRate` is given. */
  readonly failures?: number | undefined
  /** Opens when at least this share (0 to 1) of the last `window` outcomes were failures. */
  readonly failureRate?: number | undefined
  /** How many outcomes the rate is taken over; default 20. */
  readonly window?: number | undefined
  /** How long it stays open before it lets a probe through; default 10 s. */
  readonly resetMs?: Duration | undefined
}

/** Breaker options, checked: plain JSON. 0: that rule never opens it. */
export interface BreakerTerms {
  readonly failures: number
  readonly failureRate: number
  readonly window: number
  readonly resetMs: number
}

export type BreakerState = 'closed' | 'open' | 'half-open'

/**
 * What an attempt has shown about the downstream. Only transient failures and timeouts are
 * `failure`; `neutral`: nothing (a failure of its own making, an abort).
 */
export type BreakerVerdict = 'success' | 'failure' | 'neutral'

/** Everything a breaker knows, as plain data: for whoever keeps it elsewhere. */
export interface BreakerData {
  readonly state: BreakerState
  /** Counts the changes of state; a pass is the period it was given in. */
  readonly period: number
  readonly consecutive: number
  /** The last outcomes, oldest first, true for a failure. */
  readonly outcomes: readonly boolean[]
  readonly openUntil: number
  readonly probing: boolean
}

const KEYS: readonly (keyof BreakerOptions)[] = ['failures', 'failureRate', 'window', 'resetMs']
const MAX_WINDOW = 100_000

/** Checks breaker options. Refuses with `INVALID_OPTION`. */
export function breakerTerms(options: BreakerOptions): BreakerTerms {
  plain('breaker', options)
  refuseUnknown('breaker', options, KEYS)
  const { failureRate, window = 20, resetMs = 10_000 } = options
  if (options.window !== undefined && failureRate === undefined) {
    refuseValue('window of breaker', window, 'left out without failureRate')
  }
  const { failures = failureRate === undefined ? 5 : Number.POSITIVE_INFINITY } = options
  const byCount = countOf('failures of breaker', failures, 1)
  if (!Number.isFinite(byCount) && failureRate === undefined) {
    refuseValue('failures of breaker', failures, 'a number, where no failureRate opens it')
  }
  return {
    failures: Number.isFinite(byCount) ? byCount : 0,
    failureRate: failureRate === undefined ? 0 : share('failureRate of breaker', failureRate),
    window: integer('window of breaker', window, 1, MAX_WINDOW),
    resetMs: toMs(resetMs, 'resetMs of breaker'),
  }
}

/**
 * A circuit breaker. Ask `admit` before an attempt, and give the pass back to `record` with what
 * came of it. Times are milliseconds on any clock that does not go back. All is O(1).
 *
 * Closed: all pass; it opens after `failures` in a row, or when `failureRate` of the last
 * `window` failed. Open: nobody passes for `resetMs`. Then half-open: exactly one passes, the
 * probe; its success closes the breaker, its failure opens it anew, and if it shows neither, the
 * next one is the probe. What attempts of an earlier period show no longer counts.
 */
export class Breaker {
  readonly #terms: BreakerTerms
  #state: BreakerState = 'closed'
  #period = 0
  #consecutive = 0
  #openUntil = 0
  #probing = false
  // A ring of the last outcomes, and how many of them are failures.
  readonly #ring: Uint8Array
  #next = 0
  #seen = 0
  #failed = 0

  constructor(terms: BreakerTerms, data?: BreakerData) {
    this.#terms = terms
    this.#ring = new Uint8Array(terms.failureRate > 0 ? terms.window : 0)
    if (data === undefined) return
    this.#state = data.state
    this.#period = data.period
    this.#consecutive = data.consecutive
    this.#openUntil = data.openUntil
    this.#probing = data.probing
    for (const failed of data.outcomes) this.#push(failed)
  }

  /** What it is at that time. An open one whose time is over is half-open. */
  state(now: number): BreakerState {
    return this.#state === 'open' && now >= this.#openUntil ? 'half-open' : this.#state
  }

  /** A pass for one attempt, which `record` wants back; undefined if it may not be made. */
  admit(now: number): number | undefined {
    if (this.#state === 'closed') return this.#period
    if (this.#state === 'open') {
      if (now < this.#openUntil) return undefined
      this.#change('half-open')
    }
    if (this.#probing) return undefined
    this.#probing = true
    return this.#period
  }

  /** From when on it lets somebody through; Infinity while only the probe's end can tell. */
  freeAt(now: number): number {
    if (this.state(now) === 'open') return this.#openUntil
    return this.#probing ? Number.POSITIVE_INFINITY : 0
  }

  /** What the attempt with that pass has shown. To be called once for each pass. */
  record(pass: number, verdict: BreakerVerdict, now: number): void {
    if (pass !== this.#period) return
    if (this.#state === 'half-open') {
      this.#probing = false
      if (verdict === 'success') this.#change('closed')
      else if (verdict === 'failure') this.#open(now)
      return
    }
    if (verdict === 'neutral') return
    const failed = verdict === 'failure'
    this.#consecutive = failed ? this.#consecutive + 1 : 0
    this.#push(failed)
    if (failed && this.#isTooMuch()) this.#open(now)
  }

  /**
   * Milliseconds until it lets somebody through. While a probe is under way: until it would,
   * if the probe failed now.
   */
  retryAfter(now: number): number {
    if (this.#state === 'closed') return 0
    if (this.#state === 'open') return Math.max(0, this.#openUntil - now)
    return this.#probing ? this.#terms.resetMs : 0
  }

  /** A closed one under other terms, for which no pass that was given before counts. */
  renewed(terms: BreakerTerms): Breaker {
    const period = this.#period + 1
    const nothing = { consecutive: 0, outcomes: [], openUntil: 0, probing: false }
    return new Breaker(terms, { state: 'closed', period, ...nothing })
  }

  toData(): BreakerData {
    const outcomes: boolean[] = []
    for (let i = 0; i < this.#seen; i += 1) {
      const at = (this.#next - this.#seen + i + this.#ring.length) % this.#ring.length
      outcomes.push(this.#ring[at] === 1)
    }
    return {
      state: this.#state,
      period: this.#period,
      consecutive: this.#consecutive,
      outcomes,
      openUntil: this.#openUntil,
      probing: this.#probing,
    }
  }

  #push(failed: boolean): void {
    const { length } = this.#ring
    if (length === 0) return
    if (this.#seen === length) this.#failed -= this.#ring[this.#next] as number
    else this.#seen += 1
    this.#ring[this.#next] = failed ? 1 : 0
    if (failed) this.#failed += 1
    this.#next = (this.#next + 1) % length
  }

  #isTooMuch(): boolean {
    const { failures, failureRate, window } = this.#terms
    if (failures > 0 && this.#consecutive >= failures) return true
    if (failureRate === 0) return false
    return this.#seen >= window && this.#failed >= failureRate * this.#seen
  }

  #open(now: number): void {
    this.#openUntil = now + this.#terms.resetMs
    this.#change('open')
  }

  #change(state: BreakerState): void {
    this.#state = state
    this.#period += 1
    this.#probing = false
    this.#consecutive = 0
    this.#seen = 0
    this.#failed = 0
    this.#next = 0
  }
}

/** Whether two settings of a breaker say the same; null: there is none. */
export function isSameBreaker(a: BreakerTerms | null, b: BreakerTerms | null): boolean {
  if (a === null || b === null) return a === b
  const isEqual = a.failures === b.failures && a.failureRate === b.failureRate
  return isEqual && a.window === b.window && a.resetMs === b.resetMs
}

/** The breaker of a pool, and the last one that it had, for as long as it has none. */
export interface BreakerPlace {
  breaker: Breaker | null
  oldBreaker: Breaker | null
}

/** Other terms begin anew; passes that were given before count for nothing from here on. */
export function renewBreaker(place: BreakerPlace, terms: BreakerTerms | null): void {
  const before = place.breaker ?? place.oldBreaker
  place.oldBreaker = terms === null ? before : null
  if (terms === null) place.breaker = null
  else place.breaker = before?.renewed(terms) ?? new Breaker(terms)
}
