// Owns the time limit of one call.
// May never leave a timer or a listener behind, or wait for a body that ignores its signal.

import { type Duration, showMs, toMs } from '../core/duration.ts'
import { AxError } from '../core/errors.ts'
import { callable, checkOptions } from '../core/options.ts'
import { captureContext } from './context.ts'
import { type Runtime, runtimeOf } from './runtime.ts'
import { optionalSignal, Signals } from './signals.ts'

export interface TimeoutOptions {
  /** Ends the call early: it rejects with the reason of this signal. */
  readonly signal?: AbortSignal | undefined
  /** Clock and timers, for tests. */
  readonly runtime?: Runtime | undefined
}

/** Everyone who waits under somebody's signal; empty when nothing is running. */
const waiting = new Signals<(reason: unknown) => void>((stop, reason) => stop(reason))

/**
 * Calls `factory(signal)` and gives it `ms` to settle. At the deadline its signal is aborted and
 * the call rejects with `EXECUTION_TIMEOUT`, whether the body listens or not; what the body does
 * after that reaches nobody. Infinity sets no limit; 0 allows for one turn of the event loop.
 *
 * At the deadline the I/O that has already arrived is heard first, for one turn: when something
 * else has blocked the event loop, a body whose answer is there has not failed. A body that
 * blocks the loop itself and then returns a value has succeeded, late.
 *
 * Rejects with the reason of `options.signal` when that is aborted (at once, without a call, if
 * it was aborted before), and with `INVALID_OPTION` for wrong arguments.
 */
export function withTimeout<T>(
  factory: (signal: AbortSignal) => T | PromiseLike<T>,
  ms: Duration,
  options: TimeoutOptions = {},
): Promise<T> {
  try {
    callable('factory', factory)
    checkOptions('withTimeout', options, ['signal', 'runtime'])
    const limit = ms === Number.POSITIVE_INFINITY ? ms : toMs(ms, 'ms')
    const signal = optionalSignal(options.signal)
    if (signal?.aborted) return Promise.reject(signal.reason)
    return race(factory, limit, signal, runtimeOf(options.runtime))
  } catch (error) {
    return Promise.reject(error)
  }
}

function race<T>(
  factory: (signal: AbortSignal) => T | PromiseLike<T>,
  ms: number,
  signal: AbortSignal | undefined,
  runtime: Runtime,
): Promise<T> {
  const controller = new AbortController()
  const enter = captureContext()
  return new Promise<T>((resolve, reject) => {
    let open = true
    /** True for the first one to ask, who then decides how the call ends. */
    const close = (): boolean => {
      if (!open) return false
      open = false
      timer.cancel()
      if (signal !== undefined) waiting.delete(signal, stop)
      return true
    }
    const stop = (reason: unknown): void => {
      if (!close()) return
      reject(reason)
      // Abort listeners of the body belong to the body: they see its context, not the timer's.
      enter(() => controller.abort(reason))
    }
    const timer = runtime.after(ms, () => runtime.soon(() => open && stop(expired(ms))))
    if (signal !== undefined) waiting.add(signal, stop)
    // A promise of our own around whatever comes: a throw is a rejection, a thenable is asked
    // once, and its second answer is not heard.
    new Promise<T>((settle) => settle(factory(controller.signal))).then(
      (value) => close() && resolve(value),
      (error) => close() && reject(error),
    )
  })
}

function expired(ms: number): AxError {
  return new AxError('EXECUTION_TIMEOUT', `The call was not done within ${showMs(ms)}.`, {
    timeoutMs: ms,
  })
}
