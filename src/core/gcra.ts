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

/**
 * The state after the terms have changed at `now`; null stands for no rate. Equal terms change
 * nothing. A rate that was taken away is forgotten: one that comes later, be it the same, begins
 * with a fresh burst.
 *
 * What was started and not yet worked off is owed at the new price: so many starts, rounded up, at
 * most as many as may come at once, times the new interval. So the new rate holds in every window
 * that begins at the change, and a window across the change has fewer than
 * `window / shorter interval + larger burst` starts: no more than the looser of the two rates
 * allows (two allowances never add up). One interval from the change is the longest wait before
 * the next start, unless the terms change again: a part of a start that has been worked off is owed
 * anew each time, so whoever changes them more than once in an interval can put that off for ever.
 *
 * Rejected: the state as it is. From 1 a minute to 100 a second it lets nothing start for up to
 * a minute. Rejected too: starting anew at each change of one rate into another; whoever switches
 * to and fro would get a burst each time.
 */
export function carried(
  before: RateTerms | null,
  after: RateTerms | null,
  tat: number,
  now: number,
): number {
  if (before === null || after === null) return 0
  const { intervalUs, toleranceUs } = after
  if (before.intervalUs === intervalUs && before.toleranceUs === toleranceUs) return tat
  const ahead = Math.max(tat - now * 1_000, 0)
  const owed = Math.min(Math.ceil(ahead / before.intervalUs), after.burst)
  return now * 1_000 + owed * intervalUs
}
