// Owns sleeping that is never too short and hardly too long, which timers alone are not: they
// count whole milliseconds and fire up to one early or late. May never block the thread.

import { setImmediate, setTimeout } from 'node:timers/promises'

/** The last stretch is spent looking at the clock, a turn of the event loop at a time. */
const WATCH_MS = 1

/**
 * Resolves at an instant of `performance.now()`, or in the first turn after it; never at once.
 *
 * @param {number} instant
 */
export async function sleepUntil(instant) {
  const coarse = Math.floor(instant - performance.now() - WATCH_MS)
  if (coarse > 0) await setTimeout(coarse)
  do await setImmediate()
  while (performance.now() < instant)
}
