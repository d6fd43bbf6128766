// Owns rates: never more than so many in any window, kept as one number per rate.
// May never read a clock: whoever asks says what time it is.

/**
 * A rate in the form in which it is counted. `intervalUs` and `toleranceUs` are whole
 * microseconds, so that sums with an instant are exact on every store (epoch microseconds stay
 * below 2^53 for another two centuries).
 */
export interface RateTerms {
  readonly count: number
  readonly perMs: number
  /** How many may come at one instant after a pause. */
  readonly burst: number
  readonly intervalUs: number
  readonly toleranceUs: number
}

/** The largest burst that a rate has by itself: one of so many. It keeps timers few. */
const BURST_SHARE = 50

/**
 * The terms of "never more than `count` in any half-open window of `perMs`".
 *
 * Without a burst of its own a rate lets `max(1, count / 50)` come at once, and is spaced so that
 * the bound holds all the same. A `burst` that is given comes on top: then at most
 * `count + burst - 1` in any window.
 *
 * The generic cell rate algorithm (ITU-T I.371): the state is the instant at which the bucket
 * would be empty again, the theoretical arrival time.
 */
export function rateTerms(count: number, perMs: number, burst?: number): RateTerms {
  const size = burst ?? Math.max(1, Math.floor(count / BURST_SHARE))
  const spaced = burst === undefined ? count - size + 1 : count
  const intervalUs = Math.max(1, Math.ceil((perMs * 1_000) / spaced))
  return { count, perMs, burst: size, intervalUs, toleranceUs: (size - 1) * intervalUs }
}

/** How many may come at `now` (ms); `tat` is the state, microseconds, 0 at first. */
export function allowance(terms: RateTerms, tat: number, now: number): number {
  const ahead = Math.max(tat - now * 1_000, 0)
  if (ahead > terms.toleranceUs) return 0
  return Math.floor((terms.toleranceUs - ahead) / terms.intervalUs) + 1
}

/** The state after `taken` have come at `now`. */
export function taken(terms: RateTerms, tat: number, now: number, count: number): number {
  return count === 0 ? tat : Math.max(tat, now * 1_000) + count * terms.intervalUs
}

/** The first millisecond at which one more may come. */
export function freeAt(terms: RateTerms, tat: number): number {
  return Math.ceil((tat - terms.toleranceUs) / 1_000)
}
