// Owns a cap on how many bodies run at once, and the queue in front of it.
// May never run more bodies than the cap, let a newcomer overtake the queue, or forget a caller.

import { limitOf } from '../core/duration.ts'
import { AxError } from '../core/errors.ts'
import { callable, countOf, oneOf } from '../core/options.ts'
import { type Context, glimpse } from './context.ts'
import {
  checkLimit,
  checkLimiterKeys,
  type LimiterOptions,
  type LimitOptions,
} from './limiter-options.ts'
import type { MapContext, MapOptions, Slots } from './map-options.ts'
import { mapOver } from './map-over.ts'
import type { Block, Wait } from './nested/graph.ts'
import type { Berth } from './nested/trace.ts'
import { type Party, Watch } from './nested/watch.ts'
import { nestedLimit, queueOverflow } from './refusals.ts'
import { Rooms } from './rooms.ts'
import { type Runtime, runtimeOf } from './runtime.ts'
import { Silence } from './silence.ts'
import { attempt, listen, Slot } from './slot.ts'
import { type Entry, Terms, Ticket, WaitingRoom } from './waiting.ts'

export type { LimiterOptions, LimitOptions }

type Task<T> = () => T | PromiseLike<T>

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
  /**
   * Calls `fn(item, index, { signal })` for each item of `source`, in slots of this limiter, and
   * iterates over the results: see `mapOver`.
   */
  map<I, O>(
    source: Iterable<I> | AsyncIterable<I>,
    fn: (item: I, index: number, context: MapContext) => O | PromiseLike<O>,
    options?: MapOptions,
  ): AsyncIterableIterator<O>
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
 *   `NESTED_LIMIT`, or the reason of their signal.
 * - However many tasks there are and however little they do, timers and I/O have their turn.
 *
 * A call costs one promise when a slot is free and two when it waits; everything is O(1), except
 * that a call with an `enqueueTimeout` that differs from the others' costs O(log n).
 */
export function createLimiter(concurrency: number, options: LimiterOptions = {}): Limiter {
  const core = new Core(concurrency, options)
  const limit = <T>(task: Task<T>, given?: LimitOptions): Promise<T> => core.call(task, given)
  Object.assign(limit, {
    map: (source: never, fn: never, given?: MapOptions) => mapOver(core, source, fn, given),
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
/**
 * After so many hand-overs the clock is looked at; when they have gone on for so long, the next
 * ones wait for a turn of the event loop. What only uses promises would keep timers and I/O out
 * for as long as it lasts. (A turn costs 20 us: one after every 256 bodies was 5 % of a drain.)
 */
const STREAK = 256
const STREAK_MS = 5

class Core implements Slots, Party {
  readonly runtime: Runtime
  readonly watch: Watch | undefined
  readonly berths = new Set<Berth>()
  readonly #maxQueue: number
  readonly #overflow: 'reject' | 'wait'
  /** Of calls without options. */
  readonly #terms: Terms
  /** Of calls with a priority and nothing else. */
  readonly #byPriority: (Terms | undefined)[] = []
  readonly #waiting: WaitingRoom
  readonly #slots: Slot[] = []
  #concurrency: number
  #active = 0
  #paused = false
  readonly joined = undefined
  ended = 0
  /** Hand-overs since the last turn, and those who wait for the next. */
  #streak = 0
  #resting: (() => void)[] = []
  #rested = Number.NEGATIVE_INFINITY
  readonly #rooms: Rooms
  readonly #silence: Silence

  constructor(concurrency: number, options: LimiterOptions) {
    checkLimiterKeys(options)
    const { maxQueue = Number.POSITIVE_INFINITY, overflow = 'reject' } = options
    const { enqueueTimeout = 0, nested = 'reject' } = options
    this.#concurrency = countOf('concurrency', concurrency, 1)
    this.#maxQueue = countOf('maxQueue', maxQueue, 0)
    this.#overflow = oneOf('overflow', overflow, ['reject', 'wait'])
    oneOf('nested', nested, ['reject', 'queue'])
    const patienceMs = limitOf(enqueueTimeout, 'enqueueTimeout')
    this.#terms = new Terms(DEFAULT_PRIORITY, undefined, patienceMs)
    this.runtime = runtimeOf(options.runtime)
    this.watch = nested === 'reject' ? new Watch(this, this.runtime) : undefined
    this.#silence = new Silence(this.runtime, () => this.#active + this.#waiting.size === 0)
    this.#rooms = new Rooms(this.runtime, () => this.#places())
    this.#waiting = new WaitingRoom(this.#maxQueue, this.runtime, () => this.#notice())
  }

  get concurrency(): number {
    return this.#concurrency
  }

  set concurrency(value: number) {
    this.#concurrency = countOf('concurrency', value, 1)
    this.#fill()
  }

  /** Calls that wait. */
  get waiting(): number {
    return this.#waiting.size
  }

  holders(): Iterable<Berth> {
    return this.berths
  }

  waits(note: (wait: Wait) => void, most: number): void {
    for (const berth of this.berths) {
      const { waiter, turn } = berth
      if (waiter === undefined) continue
      const holds = () => berth.turn === turn
      note({ waiter, holds, blocks: [{ holders: [berth], enough: 1 }], refuse: undefined })
    }
    const core = this
    const slots: Block = {
      holders: this.berths,
      get enough() {
        return core.#concurrency
      },
    }
    for (const entry of this.#waiting.some(most)) {
      // Who gives up by itself does not wait for ever.
      if (entry.terms.loose || entry instanceof Ticket) continue
      const refuse = () => this.#waiting.drop(entry, nestedLimit())
      note({ waiter: entry, holds: () => entry.place !== 'nowhere', blocks: [slots], refuse })
    }
  }

  stats(): LimiterStats {
    return {
      active: this.#active - this.#resting.length,
      waiting: this.#waiting.size,
      concurrency: this.#concurrency,
    }
  }

  call<T>(task: Task<T>, options: LimitOptions | undefined): Promise<T> {
    if (typeof task !== 'function') return refuseTask(task)
    let terms = this.#terms
    if (options !== undefined) {
      try {
        checkLimit(options)
        if (options.signal?.aborted) return Promise.reject(options.signal.reason)
        terms = this.#termsOf(options)
      } catch (error) {
        return Promise.reject(error)
      }
    }
    this.#rooms.take()
    if (this.free) return this.#start(task) as Promise<T>
    if (this.#overflow === 'reject' && this.#waiting.isFull) return Promise.reject(this.#full())
    const result = this.#waiting.add(task, terms)
    this.watch?.wait()
    return result as Promise<T>
  }

  /** Runs a task at once. */
  #start(task: () => unknown): Promise<unknown> {
    this.#active += 1
    // Without a limit nothing ever waits, and nothing is known about the number of slots.
    const result =
      this.#concurrency === Number.POSITIVE_INFINITY
        ? listen(attempt(task), this.#passOn, this.#throwOn)
        : this.#slot().start(task)
    glimpse(result)
    return result
  }

  /** Whether a slot is free, with nobody waiting for it. */
  get free(): boolean {
    return this.#active < this.#concurrency && !this.#paused && this.#waiting.size === 0
  }

  /** Takes a slot if one is free. */
  take(): boolean {
    if (!this.free) return false
    this.#active += 1
    return true
  }

  /** Gives a taken slot back. */
  give(): void {
    if (this.#waiting.size > 0 || !this.#rooms.empty || this.#silence.isAwaited) {
      this.#release(undefined)
      return
    }
    this.ended += 1
    this.#active -= 1
  }

  /** Whether a slot may be kept for another body; `others`: how many would like to have it. */
  keeps(others: number): boolean {
    return others === 0 && this.#active <= this.#concurrency && !this.#paused
  }

  /** Goes on with `run`, for which a slot is held: now, or after a turn if one is due. */
  proceed(run: () => void): void {
    this.ended += 1
    this.#streak += 1
    if (this.#streak > STREAK && this.#isTurnDue()) this.#rest(run)
    else run()
  }

  /** Waits for a slot in any case, beyond `maxQueue`, too. */
  ticket(task: () => unknown, reject: (error: unknown) => void, context: Context): Entry {
    const terms = new Terms(DEFAULT_PRIORITY, undefined, Number.POSITIVE_INFINITY, context)
    const entry = this.#waiting.admit(task, reject, terms)
    this.watch?.wait()
    return entry
  }

  /** Does not wait any longer. */
  withdraw(ticket: Entry): void {
    this.#waiting.withdraw(ticket)
    this.#notice()
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
    return this.#silence.wait()
  }

  room(): Promise<void> {
    return this.#rooms.wait()
  }

  #termsOf({ priority, signal, enqueueTimeout }: LimitOptions): Terms {
    if (signal === undefined && enqueueTimeout === undefined) {
      const level = priority ?? DEFAULT_PRIORITY
      const known = this.#byPriority[level]
      if (known !== undefined) return known
      const terms = new Terms(level, undefined, this.#terms.patienceMs)
      this.#byPriority[level] = terms
      return terms
    }
    const patienceMs =
      enqueueTimeout === undefined
        ? this.#terms.patienceMs
        : limitOf(enqueueTimeout, 'enqueueTimeout')
    return new Terms(priority ?? DEFAULT_PRIORITY, signal, patienceMs)
  }

  /** A body that started at once has ended well: its slot moves on, its value passes through. */
  readonly #passOn = (value: unknown): unknown => {
    this.#release(undefined)
    return value
  }

  readonly #throwOn = (error: unknown): never => {
    this.#release(undefined)
    throw error
  }

  /** Gives the slot of a body that has ended to the head of the queue, or frees it. */
  readonly #release = (used: Slot | undefined): void => {
    this.ended += 1
    if (this.#waiting.size === 0) this.#retire(used)
    else {
      this.#streak += 1
      // The slot is not free meanwhile: nobody who comes before the turn is over gets it.
      if (this.#streak > STREAK && this.#isTurnDue()) this.#restWith(used)
      else this.#handOver(used)
    }
  }

  /** Not in `#release`, where the closure would cost every call a scope. */
  #restWith(used: Slot | undefined): void {
    this.#rest(() => this.#handOver(used))
  }

  #handOver(used: Slot | undefined): void {
    const next = this.#active > this.#concurrency || this.#paused ? undefined : this.#waiting.next()
    if (next === undefined) {
      this.#retire(used)
      return
    }
    const slot = used ?? this.#slot()
    slot.run(next)
    if (!this.#rooms.empty) this.#notice()
  }

  #slot(): Slot {
    const spare = this.#slots.pop()
    if (spare !== undefined) return spare
    const slot = new Slot(this.#release)
    this.berths.add(slot)
    return slot
  }

  #retire(used: Slot | undefined): void {
    this.#active -= 1
    if (used !== undefined) {
      if (this.#slots.length < SPARE_SLOTS) this.#slots.push(used)
      else this.berths.delete(used)
    }
    this.#notice()
  }

  #isTurnDue(): boolean {
    if (this.#resting.length > 0) return true
    if (this.runtime.monotonic() - this.#rested >= STREAK_MS) return true
    this.#streak = 0
    return false
  }

  #rest(run: () => void): void {
    this.#resting.push(run)
    if (this.#resting.length > 1) return
    this.runtime.soon(() => {
      const rested = this.#resting
      this.#resting = []
      this.#streak = 0
      this.#rested = this.runtime.monotonic()
      for (const go of rested) go()
    })
  }

  /** Starts waiting calls for as long as there are slots. */
  #fill(): void {
    glimpse(Promise.resolve())
    while (this.#active < this.#concurrency && !this.#paused) {
      const next = this.#waiting.next()
      if (next === undefined) break
      this.#active += 1
      this.#slot().run(next)
    }
    this.#notice()
  }

  /** Looks after those who wait for room or for silence; called when either may have come. */
  #notice(): void {
    this.#rooms.notice()
    if (this.#silence.isAwaited) this.#silence.notice()
  }

  /** How many more calls could come without overflow. */
  #places(): number {
    const slots = this.#paused ? 0 : Math.max(0, this.#concurrency - this.#active)
    return this.#maxQueue - this.#waiting.size + slots
  }

  #full(): AxError {
    return queueOverflow({ maxQueue: this.#maxQueue, ...this.stats() })
  }
}

async function refuseTask(task: unknown): Promise<never> {
  return callable('task', task) as never
}
