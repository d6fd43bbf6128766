// Owns calling a task again after a failure: how often, how long after, and until when.
// May never leave a timer or a listener behind, or call again what was called off.

import { backoffMs } from '../core/backoff.ts'
import { type Duration, toMs } from '../core/duration.ts'
import type { BackoffTerms } from '../core/job.ts'
import { callable, checkOptions, countOf, refuseValue } from '../core/options.ts'
import { retryAfterOf } from '../core/values.ts'
import { captureContext } from './context.ts'
import { tell } from './hooks.ts'
import { type Runtime, runtimeOf, type Timer } from './runtime.ts'
import { optionalSignal, Signals } from './signals.ts'
import { attempt, listen } from './slot.ts'
import { isRetryable } from './transient.ts'

export { isRetryable } from './transient.ts'

export interface RetryOptions {
  /** How many times it is called again at most, beside the first call; default 3. */
  readonly retries?: number | undefined
  /** The wait after the first failure; default 200 ms. */
  readonly baseDelay?: Duration | undefined
  /** No wait grows longer; default 5 s, or `baseDelay` if that is more. */
  readonly maxDelay?: Duration | undefined
  /** What the wait is multiplied by after each failure; default 2. */
  readonly factor?: number | undefined
  /**
   * Default true: a wait is shortened at random to between 50 % and 100 %. A function is given
   * the wait and a number in [0, 1), and answers the wait in milliseconds.
   */
  readonly jitter?: boolean | ((delay: number, random: number) => number) | undefined
  /** Instead of the default rule, `isRetryable`. What it throws ends the call. */
  readonly isRetryable?: ((error: unknown) => boolean) | undefined
  /** Ends a wait at once, and with it the call, with the reason of the signal. */
  readonly signal?: AbortSignal | undefined
  /** Told before each wait; `attempt` is the number of the one that has failed. */
  readonly onRetry?: ((info: RetryInfo) => void) | undefined
  /** Clock, timers and chance, for tests. */
  readonly runtime?: Runtime | undefined
}

export interface RetryInfo {
  readonly attempt: number
  /** Milliseconds until the next attempt. */
  readonly delay: number
  readonly error: unknown
}

/** Retry options, checked, and with their defaults filled in. */
export interface RetryTerms {
  /** Aborted: no further attempt. */
  readonly signal: AbortSignal | undefined
  readonly retries: number
  readonly backoff: BackoffTerms
  readonly jitter: ((delay: number, random: number) => number) | undefined
  readonly isRetryable: (error: unknown) => boolean
  readonly onRetry: ((info: RetryInfo) => void) | undefined
}

const RETRY_KEYS: readonly (keyof RetryOptions)[] = [
  'retries',
  'baseDelay',
  'maxDelay',
  'factor',
  'jitter',
  'isRetryable',
  'signal',
  'onRetry',
]

/**
 * Calls `task(0)`, and after a failure that is worth it `task(1)`, `task(2)` ... until one
 * succeeds; rejects with the last failure when no attempt is left.
 *
 * - The wait after failure n is `baseDelay * factor ** n`, at most `maxDelay`, and only then
 *   jittered into [50 %, 100 %], so that callers that failed together do not come back together.
 *   An error's `retryAfter` (milliseconds) is a lower bound that neither shortens.
 * - Which failures are worth it: see `isRetryable`.
 * - When `signal` is aborted, a wait ends at once and no further attempt is made: the call
 *   rejects with the reason of the signal. An attempt that runs is not interrupted (give it the
 *   signal), and if it succeeds, the call succeeds.
 * - Attempts see the AsyncLocalStorage of the caller.
 */
export function withRetry<T>(
  task: (attempt: number) => T | PromiseLike<T>,
  options: RetryOptions = {},
): Promise<T> {
  try {
    callable('task', task)
    const terms = retryTerms('withRetry', options, ['runtime'])
    const runtime = runtimeOf(options.runtime)
    if (terms.signal?.aborted) return Promise.reject(terms.signal.reason)
    return new Promise<T>((resolve, reject) => {
      const run = new Retrying(task, terms, runtime, resolve as Settle, reject)
      run.begin()
    })
  } catch (error) {
    return Promise.reject(error)
  }
}

/** Checks retry options. `more`: names beside those of the options themselves. */
export function retryTerms(
  where: string,
  options: RetryOptions,
  more: readonly string[] = [],
): RetryTerms {
  checkOptions(where, options, [...RETRY_KEYS, ...more])
  const { retries = 3, baseDelay = 200, maxDelay, factor = 2, jitter = true } = options
  const { isRetryable: rule, onRetry } = options
  const delayMs = toMs(baseDelay, 'baseDelay')
  const maxMs = maxDelay === undefined ? Math.max(5_000, delayMs) : toMs(maxDelay, 'maxDelay')
  if (maxMs < delayMs) refuseValue('maxDelay', maxDelay, 'at least baseDelay')
  if (typeof jitter !== 'boolean' && typeof jitter !== 'function') {
    refuseValue('jitter', jitter, 'true, false or a function')
  }
  return {
    signal: optionalSignal(options.signal),
    retries: countOf('retries', retries, 0),
    backoff: {
      type: 'exponential',
      delayMs,
      maxMs,
      factor: factorOf(factor),
      jitter: jitter === true,
    },
    jitter: typeof jitter === 'boolean' ? undefined : jitter,
    isRetryable: rule === undefined ? isRetryable : callable('isRetryable', rule),
    onRetry: onRetry === undefined ? undefined : callable('onRetry', onRetry),
  }
}

/**
 * The milliseconds to wait after failure number `failure` (from 1). Throws what a `jitter`
 * function throws, or `INVALID_OPTION` if it answers nonsense.
 */
export function retryDelay(
  terms: RetryTerms,
  failure: number,
  error: unknown,
  random: number,
): number {
  const wait = backoffMs(terms.backoff, failure, random)
  return Math.max(jittered(terms, wait, random), retryAfterOf(error) ?? 0)
}

function jittered({ jitter }: RetryTerms, wait: number, random: number): number {
  if (jitter === undefined) return wait
  const answer: unknown = jitter(wait, random)
  if (typeof answer === 'number' && answer >= 0 && Number.isFinite(answer)) return answer
  return refuseValue('The answer of jitter', answer, 'a number of milliseconds')
}

function factorOf(value: unknown): number {
  if (typeof value === 'number' && value >= 1 && Number.isFinite(value)) return value
  return refuseValue('factor', value, 'a finite number of at least 1')
}

type Settle = (value: unknown) => void

/** Everyone who waits for another attempt under somebody's signal. */
const waiting = new Signals<Retrying>((run, reason) => run.stop(reason))

/** One call of `withRetry`. */
class Retrying {
  readonly #task: (attempt: number) => unknown
  readonly #terms: RetryTerms
  readonly #runtime: Runtime
  readonly #resolve: Settle
  readonly #reject: Settle
  #attempt = 0
  #timer: Timer | undefined

  constructor(
    task: (attempt: number) => unknown,
    terms: RetryTerms,
    runtime: Runtime,
    resolve: Settle,
    reject: Settle,
  ) {
    this.#task = task
    this.#terms = terms
    this.#runtime = runtime
    this.#resolve = resolve
    this.#reject = reject
  }

  readonly begin = (): void => {
    listen(
      attempt(() => this.#task(this.#attempt)),
      this.#resolve,
      this.#failed,
    )
  }

  /** The signal was aborted during a wait. */
  stop(reason: unknown): void {
    this.#timer?.cancel()
    this.#reject(reason)
  }

  readonly #failed = (error: unknown): void => {
    try {
      const delay = this.#decide(error)
      if (delay === undefined) return
      tell(this.#terms.onRetry, { attempt: this.#attempt, delay, error })
      if (!this.#stopped()) this.#wait(delay)
    } catch (problem) {
      this.#reject(problem)
    }
  }

  /** How long to wait for the next attempt; undefined if there is none and the call has ended. */
  #decide(error: unknown): number | undefined {
    if (this.#stopped()) return undefined
    const more = this.#attempt < this.#terms.retries && this.#terms.isRetryable(error)
    if (this.#stopped()) return undefined
    if (more) {
      return retryDelay(this.#terms, this.#attempt + 1, error, this.#runtime.random())
    }
    this.#reject(error)
    return undefined
  }

  /** Ends the call if its signal was aborted while nobody listened to it. */
  #stopped(): boolean {
    const { signal } = this.#terms
    if (!signal?.aborted) return false
    this.#reject(signal.reason)
    return true
  }

  #wait(delay: number): void {
    // The reaction to the failure runs in the caller's context, a timer in nobody's.
    const enter = captureContext()
    const { signal } = this.#terms
    if (signal !== undefined) waiting.add(signal, this)
    this.#timer = this.#runtime.after(delay, () => {
      if (signal !== undefined) waiting.delete(signal, this)
      this.#attempt += 1
      enter(this.begin)
    })
  }
}
