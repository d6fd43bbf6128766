// Owns the search for the concurrency a downstream can bear, from what its answers look like.
// May never read a clock or start anything: it is told, and answers a number.

import { integer, isPlain, refuseUnknown, refuseValue } from '../core/options.ts'

export interface AdaptiveOptions {
  readonly min: number
  readonly max: number
  /** Where to begin; default `min`. */
  readonly initial?: number | undefined
}

/**
 * What an attempt has shown: `ok`: it succeeded, so its latency means something; `overload`: it
 * timed out or was refused for load; `neutral`: it says nothing (any other failure, an abort).
 */
export type LoadVerdict = 'ok' | 'overload' | 'neutral'

/** Latency above the baseline by more than this is growth, if it lasts. */
const TOLERANCE = 1.1
/** ... and above this it need not last. */
const STEEP = 1.5
/**
 * What chance does to a median: its standard error is 0.93 of the distance between the quartiles
 * over the root of their number. Twice that is not taken for growth.
 */
const CHANCE = 2 * 0.93
/** A fall goes below where the growth began, so that the queue drains and the baseline is seen. */
const BELOW = 0.9
const LARGEST_FALL = 0.5
const OVERLOAD_FALL = 0.8
/** How fast the baseline follows: a lower latency (any, at `min`), a usual one, a grown one. */
const DOWN = 0.3
const ALONG = 0.03
const UP = 0.01
const MIN_SAMPLES = 20
const MAX_SAMPLES = 64

/**
 * Additive increase, multiplicative decrease (Chiu and Jain, 1989), on latency as well as on
 * errors, with the guard of Netflix's concurrency-limits against rising while nobody uses the
 * limit there is.
 *
 * Answers are taken in windows of 20 to 64 attempts that have *started* since the limit last
 * changed: what is older tells about the limit before. The median of a window is compared with a
 * slowly moving baseline:
 * - About the same, and at least half the limit was in flight: the limit rises, by half its
 *   root, at least 1. With less in flight it stays, whatever the latency.
 * - More than 10 % above it twice running, or 50 % above it once (and by more than chance would
 *   have it): it falls by as much and a tenth more, at most to half; the queue drains.
 * - One sign of overload: it falls to 80 %, once for what was in flight.
 *
 * The baseline follows growth slowly, and fast while the limit is at its lowest: a downstream that
 * has become slower for good is accepted. O(1), and O(64 log 64) once a window; fixed memory.
 */
export class Adaptive {
  readonly #min: number
  readonly #max: number
  #limit: number
  #changedAt = Number.NEGATIVE_INFINITY
  /** Median latency when all is well; 0: not known yet. */
  #baseline = 0
  readonly #latencies = new Float64Array(MAX_SAMPLES)
  #count = 0
  #peak = 0
  #grown = false

  /** Refuses with `INVALID_OPTION`. */
  constructor(options: AdaptiveOptions) {
    if (!isPlain(options)) refuseValue('concurrency', options, 'a number, or { min, max, initial }')
    refuseUnknown('concurrency', options, ['min', 'max', 'initial'])
    this.#min = integer('min of concurrency', options.min, 1)
    this.#max = integer('max of concurrency', options.max, this.#min)
    const { initial = this.#min } = options
    this.#limit = integer('initial of concurrency', initial, this.#min, this.#max)
  }

  /** How many may be in flight. */
  get limit(): number {
    return Math.floor(this.#limit)
  }

  /** Goes on from there, within the bounds. */
  set limit(value: number) {
    this.#limit = Math.min(this.#max, Math.max(this.#min, value))
    this.#forget(this.#changedAt)
  }

  /** An attempt has ended; `inFlight` counts it. Times are milliseconds on one clock. */
  sample(startedAt: number, now: number, inFlight: number, verdict: LoadVerdict): void {
    if (startedAt < this.#changedAt || verdict === 'neutral') return
    if (verdict === 'overload') {
      this.#move(this.#limit * OVERLOAD_FALL, now)
      return
    }
    this.#latencies[this.#count] = now - startedAt
    this.#count += 1
    if (inFlight > this.#peak) this.#peak = inFlight
    if (this.#count >= Math.min(MAX_SAMPLES, Math.max(MIN_SAMPLES, this.#limit))) this.#judge(now)
  }

  #judge(now: number): void {
    const sorted = this.#latencies.slice(0, this.#count).sort()
    const [low, latency, high] = [0.25, 0.5, 0.75].map((share) => {
      return sorted[Math.floor(share * this.#count)]
    }) as [number, number, number]
    const isUsed = this.#peak >= this.limit / 2
    const growth = this.#baseline === 0 ? 1 : latency / this.#baseline
    const chance = (CHANCE * (high - low)) / Math.sqrt(this.#count) / (this.#baseline || 1)
    this.#follow(latency, growth)
    if (!isUsed) this.#forget(this.#changedAt)
    else if (growth <= TOLERANCE + chance) this.#move(this.#limit + step(this.#limit), now)
    else if (this.#grown || growth >= STEEP + chance) {
      this.#move(this.#limit * Math.max(LARGEST_FALL, BELOW / growth), now)
    } else {
      this.#forget(this.#changedAt)
      this.#grown = true
    }
  }

  #follow(latency: number, growth: number): void {
    // At its lowest the limit is not what makes anything slow.
    const isDown = growth < 1 || this.#limit === this.#min
    const weight = isDown ? DOWN : growth <= TOLERANCE ? ALONG : UP
    // A latency of nothing would make every other one look like growth without end.
    const next = this.#baseline + (latency - this.#baseline) * weight
    this.#baseline = this.#baseline === 0 ? latency : Math.max(next, Number.MIN_VALUE)
  }

  #move(limit: number, now: number): void {
    this.#limit = Math.min(this.#max, Math.max(this.#min, limit))
    this.#forget(now)
  }

  /** Begins a new window, of attempts that start from then on. */
  #forget(from: number): void {
    this.#changedAt = from
    this.#count = 0
    this.#peak = 0
    this.#grown = false
  }
}

/** Half the root: a large limit is found in tens of windows, a small one is not overshot. */
function step(limit: number): number {
  return Math.max(1, Math.floor(Math.sqrt(limit) / 2))
}
