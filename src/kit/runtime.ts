// Owns the only door to the clock, to timers and to randomness. Whoever needs one of them is
// handed a `Runtime`, so that a test can hand in time and chance of its own.
// May never know what it is used for, or let a timer hold a caller's async context.

import { able } from '../core/options.ts'
import { outside } from './context.ts'

/** A timer that has been set. Cancelling it twice, or after it has fired, does nothing. */
export interface Timer {
  cancel(): void
}

export interface Runtime {
  /** Wall clock, milliseconds since 1970. It may jump in either direction. */
  now(): number
  /** Milliseconds on a clock that never goes back; its origin means nothing. */
  monotonic(): number
  /** A number in [0, 1). */
  random(): number
  /**
   * Runs `run` once, not before `ms` milliseconds have passed. Any length is good: longer than
   * 2^31-1 is armed again on the way, Infinity never fires, zero or less fires on the next timer
   * turn, never inside this call. `ref: false` lets the process end although the timer is set
   * (default true). `run` sees no caller's AsyncLocalStorage.
   */
  after(ms: number, run: () => void, options?: { ref?: boolean }): Timer
  /** Runs `run` in a later macrotask, after the I/O that has already arrived. */
  soon(run: () => void): void
}

/** What `setTimeout` can count; anything above fires after one millisecond instead. */
const MAX_DELAY = 2 ** 31 - 1

class SystemTimer implements Timer {
  readonly #run: () => void
  readonly #ref: boolean
  readonly #due: number
  #handle: NodeJS.Timeout | undefined

  constructor(ms: number, run: () => void, ref: boolean) {
    this.#run = run
    this.#ref = ref
    this.#due = performance.now() + ms
    outside(() => this.#arm(ms))
  }

  cancel(): void {
    clearTimeout(this.#handle)
    this.#handle = undefined
  }

  #arm(ms: number): void {
    // Rounded up: setTimeout drops fractions, and a deadline must not come before its time.
    const wait = Math.min(Math.max(Math.ceil(ms), 0), MAX_DELAY)
    this.#handle = setTimeout(ms > MAX_DELAY ? this.#again : this.#run, wait)
    if (!this.#ref) this.#handle.unref()
  }

  readonly #again = (): void => {
    this.#arm(this.#due - performance.now())
  }
}

const never: Timer = { cancel() {} }

/** Node's own clock, timers and randomness. */
export const systemRuntime: Runtime = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  after(ms, run, options) {
    if (ms === Number.POSITIVE_INFINITY) return never
    return new SystemTimer(ms, run, options?.ref !== false)
  },
  soon(run) {
    outside(() => setImmediate(run))
  },
}

const RUNTIME_METHODS = ['now', 'monotonic', 'random', 'after', 'soon'] as const

/** What was given as `runtime`, checked; Node's own where nothing was. */
export function runtimeOf(given: Runtime | undefined): Runtime {
  return given === undefined ? systemRuntime : able('runtime', given, RUNTIME_METHODS)
}

/** What this process is called where nobody has given it a name. */
export function processName(): string {
  return `pid:${process.pid}`
}

/** An instant, epoch milliseconds, as a date. No clock is read. */
export function dateOf(instant: number): Date {
  return new Date(instant)
}

/**
 * Calls `run` whenever the process has nothing left to do and would end: for whoever still waits,
 * the last chance to find out that it is in vain.
 */
export function beforeEnd(run: () => void): void {
  process.on('beforeExit', run)
}

/** Says something to whoever runs the process, once, where no caller is left to be told. */
export function warn(code: string, text: string): void {
  process.emitWarning(text, { type: 'AxWarning', code })
}
