// Owns a cap on how many bodies run at once, and the queue in front of it.
// May never run more bodies than the cap, let a newcomer overtake the queue, or forget a caller.

import { type Duration, toMs } from '../core/duration.ts'
import { AxError } from '../core/errors.ts'
import { callable, integer, oneOf, refuseUnknown, refuseValue } from '../core/options.ts'
import { Fifo } from './fifo.ts'
import { type Runtime, systemRuntime } from './runtime.ts'
import { optionalSignal } from './signals.ts'
import { call, Slot } from './slot.ts'
import { Entry, type Terms, WaitingRoom } from './waiting.ts'

type Task<T> = () => T | PromiseLike<T>

export interface LimiterOptions {
  /** How many calls may wait, beside those that run; default Infinity. */
  readonly maxQueue?: number | undefined
  /** When the queue is full: `QUEUE_OVERFLOW` at once (default), or wait for room as well. */
  readonly overflow?: 'reject' | 'wait' | undefined
  /** How long a call may wait for its start; default 0: for ever. */
  readonly enqueueTimeout?: Duration | undefined
  /** Clock and timers, for tests. */
  readonly runtime?: Runtime | undefined
}

export interface LimitOptions {
  /** An integer from 1 to 100, larger first; default 50. */
  readonly priority?: number | undefined
  /** Ends the wait, not the body: a body that has started looks at the signal itself. */
  readonly signal?: AbortSignal | undefined
  /** Instead of the limiter's own. */
  readonly enqueueTimeout?: Duration | undefined
}

export interface LimiterStats {
  /** Bodies that run. */
  readonly active: number
  /** Calls that wait for a slot, or for room in the queue. */
  readonly waiting: number
  readonly concurrency: number
}

/** `limit(task, options?)`: see `createLimiter`. */
export interface Limiter {
  <T>(task: () => T | PromiseLike<T>, options?: LimitOptions): Promise<T>
  /**
   * The cap; can be set at any time. Raising it starts waiting calls before the assignment
   * returns; lowering it ends nothing, but nothing starts until enough has ended.
   */
  concurrency: number
  /** O(1). */
  stats(): LimiterStats
  /** From now on nothing starts; what runs goes on. */
  pause(): void
  /** Starts what waits. */
  resume(): void
  /** Every waiting call rejects with `CANCELLED` (`cause`: the reason). Answers how many. */
  clear(reason?: unknown): number
  /**
   * Resolves when nothing runs and nothing waits: at once if that is so now, else after a turn
   * of the event loop in which it was so, when the callers have been told.
   */
  idle(): Promise<void>
  /**
   * Resolves when there is room for one more call, one waiter per free place, in order. A place
   * is not reserved, but only given again when a turn has gone by without a call.
   */
  room(): Promise<void>
}

/**
 * Wraps async functions so that at most `concurrency` of them (an integer of at least 1, or
 * Infinity) run at once. `limit(task)` resolves or rejects as the task does; a task that throws
 * or returns no promise is fine.
 *
 * - With a slot free the task starts within the call. A slot that is freed goes to the head of
 *   the queue before any other code runs: nobody overtakes, and the cap holds at every moment.
 * - Higher priority first, first come first served among equals.
 * - A task sees the AsyncLocalStorage of its caller, however long it has waited.
 * - Calls reject without their task having run: `QUEUE_OVERFLOW`, `ENQUEUE_TIMEOUT`, `CANCELLED`,
 *   or the reason of their signal.
 *
 * A call costs one promise when a slot is free and two when it waits; everything is O(1), except
 * that a call with an `enqueueTimeout` that differs from the others' costs O(log n).
 */
export function createLimiter(concurrency: number, options: LimiterOptions = {}): Limiter {
  const core = new Core(concurrency, options)
  const limit = <T>(task: Task<T>, given?: LimitOptions): Promise<T> => core.call(task, given)
  Object.assign(limit, {
    stats: () => core.stats(),
    pause: () => core.pause(),
    resume: () => core.resume(),
    clear: (reason?: unknown) => core.clear(reason),
    idle: () => core.idle(),
    room: () => core.room(),
  })
  return Object.defineProperty(limit, 'concurrency', {
    enumerable: true,
    get: () => core.concurrency,
    set: (value: number) => {
      core.concurrency = value
    },
  }) as Limiter
}

const DEFAULT_PRIORITY = 50
/** Free slots that are kept; more queued calls than this seldom run at once. */
const SPARE_SLOTS = 256

class Core {
  readonly #runtime: Runtime
  readonly #maxQueue: number
  readonly #overflow: 'reject' | 'wait'
  /** Of calls without options. */
  readonly #terms: Terms
  readonly #waiting: WaitingRoom
  readonly #slots: Slot[] = []
  #concurrency: number
  #active = 0
  #paused = false
  readonly #rooms = new Fifo<() => void>()
  /** Places that `room()` has named in this turn and that no call has taken yet. */
  #promised = 0
  #forgetting = false
  #idle: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined
  #idling = false

  constructor(concurrency: number, options: LimiterOptions) {
    refuseUnknown('createLimiter', options, ['maxQueue', 'overflow', 'enqueueTimeout', 'runtime'])
    this.#concurrency = count('concurrency', concurrency, 1)
    this.#maxQueue = count('maxQueue', options.maxQueue ?? Number.POSITIVE_INFINITY, 0)
    this.#overflow = oneOf('overflow', options.overflow ?? 'reject', ['reject', 'wait'])
    const patienceMs = patience(options.enqueueTimeout ?? 0)
    this.#terms = { priority: DEFAULT_PRIORITY, signal: undefined, patienceMs }
    this.#runtime = options.runtime ?? systemRuntime
    this.#waiting = new WaitingRoom(this.#maxQueue, this.#runtime, () => this.#notice())
  }

  get concurrency(): number {
    return this.#concurrency
  }

  set concurrency(value: number) {
    this.#concurrency = count('concurrency', value, 1)
    this.#fill()
  }

  stats(): LimiterStats {
    return {
      active: this.#active,
      waiting: this.#waiting.size,
      concurrency: this.#concurrency,
    }
  }

  call<T>(task: Task<T>, options: LimitOptions | undefined): Promise<T> {
    try {
      if (typeof task !== 'function') callable('task', task)
      if (options !== undefined) check(options)
    } catch (error) {
      return Promise.reject(error)
    }
    if (options?.signal?.aborted) return Promise.reject(options.signal.reason)
    if (this.#promised > 0) this.#promised -= 1
    if (this.#active < this.#concurrency && !this.#paused && this.#waiting.size === 0) {
      this.#active += 1
      return call<unknown, unknown>(task, this.#passOn, this.#throwOn) as Promise<T>
    }
    if (this.#overflow === 'reject' && this.#waiting.full) return Promise.reject(this.#full())
    const terms = options === undefined ? this.#terms : this.#termsOf(options)
    return new Promise((resolve, reject) => {
      this.#waiting.add(new Entry(task, resolve as (value: unknown) => void, reject, terms))
    })
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#fill()
  }

  clear(reason: unknown): number {
    // One error for all of them: they were dropped by one call, and a stack each is dear.
    const error = new AxError('CANCELLED', 'The queue was cleared; this call never started.', {
      cause: reason,
    })
    return this.#waiting.clear(error)
  }

  idle(): Promise<void> {
    if (this.#active === 0 && this.#waiting.size === 0) return Promise.resolve()
    // One promise for everyone: 20,000 who wait cost no more than one.
    this.#idle ??= deferred()
    return this.#idle.promise
  }

  room(): Promise<void> {
    if (this.#maxQueue === Number.POSITIVE_INFINITY) return Promise.resolve()
    if (this.#rooms.size === 0 && this.#places() > 0) {
      this.#promise()
      return Promise.resolve()
    }
    return new Promise((resolve) => this.#rooms.push(resolve))
  }

  #termsOf({ priority, signal, enqueueTimeout }: LimitOptions): Terms {
    return {
      priority: priority ?? this.#terms.priority,
      signal,
      patienceMs: enqueueTimeout === undefined ? this.#terms.patienceMs : patience(enqueueTimeout),
    }
  }

  /** A body that started at once has ended well: its slot moves on, its value passes through. */
  readonly #passOn = (value: unknown): unknown => {
    this.#release()
    return value
  }

  readonly #throwOn = (error: unknown): never => {
    this.#release()
    throw error
  }

  /** Gives the slot of a body that has ended to the head of the queue, or frees it. */
  #release(used?: Slot): void {
    const next = this.#active > this.#concurrency || this.#paused ? undefined : this.#waiting.next()
    if (next !== undefined) {
      const slot = used ?? this.#slots.pop() ?? new Slot(this.#releaseSlot)
      slot.run(next)
    } else {
      this.#active -= 1
      if (used !== undefined && this.#slots.length < SPARE_SLOTS) this.#slots.push(used)
    }
    this.#notice()
  }

  readonly #releaseSlot = (slot: Slot): void => this.#release(slot)

  /** Starts waiting calls for as long as there are slots. */
  #fill(): void {
    while (this.#active < this.#concurrency && !this.#paused) {
      const next = this.#waiting.next()
      if (next === undefined) break
      this.#active += 1
      const slot = this.#slots.pop() ?? new Slot(this.#releaseSlot)
      slot.run(next)
    }
    this.#notice()
  }

  /** Looks after those who wait for room or for silence; called when either may have come. */
  #notice(): void {
    while (this.#rooms.size > 0 && this.#places() > 0) {
      this.#promise()
      this.#rooms.shift()?.()
    }
    if (this.#idle === undefined || this.#idling || this.#active + this.#waiting.size > 0) return
    // A turn later, so that the callers of the last bodies have had their say: they may add more.
    this.#idling = true
    this.#runtime.soon(() => {
      this.#idling = false
      if (this.#active + this.#waiting.size > 0) return
      this.#idle?.resolve()
      this.#idle = undefined
    })
  }

  /** How many more calls could come without overflow, beside those that `room()` has let in. */
  #places(): number {
    const slots = this.#paused ? 0 : Math.max(0, this.#concurrency - this.#active)
    return this.#maxQueue - this.#waiting.size + slots - this.#promised
  }

  /** Counts a place as taken until a call comes or a turn has gone by. */
  #promise(): void {
    this.#promised += 1
    if (this.#forgetting) return
    this.#forgetting = true
    this.#runtime.soon(() => {
      this.#forgetting = false
      this.#promised = 0
      this.#notice()
    })
  }

  #full(): AxError {
    const { active, waiting, concurrency } = this.stats()
    return new AxError(
      'QUEUE_OVERFLOW',
      `The queue is full: ${waiting} calls wait (maxQueue ${this.#maxQueue}). Call again later, ` +
        "raise maxQueue, or let callers wait with overflow: 'wait'.",
      { maxQueue: this.#maxQueue, active, waiting, concurrency },
    )
  }
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

const LIMIT_OPTIONS = ['priority', 'signal', 'enqueueTimeout']

/** Spelt out, because it runs for every call that has options. */
function check(options: LimitOptions): void {
  for (const name in options) {
    if (name === 'priority' || name === 'signal' || name === 'enqueueTimeout') continue
    refuseUnknown('limit', options, LIMIT_OPTIONS)
  }
  if (options.priority !== undefined) integer('priority', options.priority, 1, 100)
  if (options.signal !== undefined) optionalSignal(options.signal)
  if (options.enqueueTimeout !== undefined) patience(options.enqueueTimeout)
}

function count(name: string, value: unknown, min: number): number {
  if (value === Number.POSITIVE_INFINITY) return value
  if (Number.isSafeInteger(value) && (value as number) >= min) return value as number
  return refuseValue(name, value, `an integer of at least ${min}, or Infinity`)
}

/** Milliseconds; Infinity where the option says that there is no limit. */
function patience(value: Duration): number {
  if (value === Number.POSITIVE_INFINITY) return value
  return toMs(value, 'enqueueTimeout') || Number.POSITIVE_INFINITY
}
