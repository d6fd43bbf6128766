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

/** Whether two rates are one and the same: then a change from one to the other is none. */
export function isSameRate(a: RateTerms | null, b: RateTerms | null): boolean {
  if (a === null || b === null) return a === b
  return (
    a.count === b.count &&
    a.perMs === b.perMs &&
    a.burst === b.burst &&
    a.intervalUs === b.intervalUs &&
    a.toleranceUs === b.toleranceUs
  )
}

/**
 * The state under new terms of a rate that had others until `now`.
 *
 * What has been taken lately and is not made up for yet counts as so many of the new terms, at
 * most a full bucket: after a change the next one waits for one new interval at the longest, and
 * from then on the new bound holds in every window, as it does from any state. (The instant could
 * be kept instead; then one an hour, raised to a hundred a minute, would still wait the hour.)
 * A rate that begins, or begins again after there was none, begins empty.
 */
export function carried(
  from: RateTerms | null,
  to: RateTerms | null,
  tat: number,
  now: number,
): number {
  if (from === null || to === null) return 0
  const ahead = Math.max(tat - now * 1_000, 0)
  if (ahead === 0) return 0
  const due = Math.ceil((ahead / from.intervalUs) * to.intervalUs)
  return now * 1_000 + Math.min(due, to.burst * to.intervalUs)
}
