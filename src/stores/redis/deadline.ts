// Owns that every wait for a client ends, also where the client itself would wait for ever.
// May never say that a call has not happened: it only stops waiting for the answer.

import type { RedisClient } from './driver.ts'

/** Timers, as a runtime has them. */
export type After = (ms: number, run: () => void) => { cancel(): void }

/** The words of the library for the same. */
const TIMED_OUT = 'Command timed out'

/** The answer, or an error after so long; whatever comes later goes unheard. */
export function within<T>(after: After, ms: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = after(ms, () => reject(new Error(TIMED_OUT)))
    const settle = (how: () => void) => {
      timer.cancel()
      how()
    }
    promise.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    )
  })
}

/**
 * Whether each call of this client ends by itself. One of a cluster keeps calls for as long as it
 * can reach no node, whatever limit its connections have.
 */
export function hasLimit({ isCluster, options }: RedisClient): boolean {
  return isCluster !== true && typeof options?.commandTimeout === 'number'
}
