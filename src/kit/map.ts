// Owns iterating over the results of a function that is called for each item of a source.
// May never pull an item that there is no room for, or touch the source once it is over.

import { AxError } from '../core/errors.ts'
import { boolean, callable, checkOptions, countOf } from '../core/options.ts'
import { type Context, contextOf, enter } from './context.ts'
import { Fifo } from './fifo.ts'
import { Lane, type LaneOwner } from './lane.ts'
import { follow, type Holder, type Supply, type Waiter, type Watch } from './nested.ts'
import { Failure, NOTHING, Results } from './results.ts'
import { optionalSignal, Signals } from './signals.ts'
import { type Pulled, Source } from './source.ts'
import type { Entry } from './waiting.ts'

export interface MapContext {
  /** Aborted when the results of bodies that still run are of no interest any more. */
  readonly signal: AbortSignal
}

export interface MapOptions {
  /** Results in the order of their items (default), or as they come. */
  readonly ordered?: boolean | undefined
  /** How many results may lie waiting for the consumer; default: the concurrency. */
  readonly buffer?: number | undefined
  /** Ends all of it: the consumer gets the reason of the signal. */
  readonly signal?: AbortSignal | undefined
}

/** What a limiter lends: slots, taken at once or waited for. */
export interface Slots {
  readonly concurrency: number
  /** Calls that wait, tickets included. */
  readonly waiting: number
  readonly free: boolean
  readonly watch: Watch
  take(): boolean
  give(): void
  keeps(others: number): boolean
  proceed(run: () => void): void
  ticket(task: () => unknown, reject: (error: unknown) => void, context: Context): Entry
  withdraw(ticket: Entry): void
}

/** Everyone who iterates under somebody's signal; empty when nobody does. */
const aborts = new Signals<(reason: unknown) => void>((stop, reason) => stop(reason))

/**
 * Iterates over `fn(item, index, { signal })` for the items of `source`. Nothing is pulled before
 * the first result is asked for; from then on at most concurrency + `buffer` items have been
 * pulled whose results have not been taken, and none is pulled unless there is a slot for it.
 * Slots are shared with the limiter's other callers: after each body the next in line comes first.
 *
 * It is over at the first failure (of a body, in its place when `ordered`; of the source, at
 * once), at a `break`, or when `signal` is aborted. Then nothing more is pulled, the source is
 * told once by `return()`, running bodies have their signal aborted, and what becomes of them
 * reaches nobody. The source's `return()` is waited for, unless a pull is under way.
 *
 * An item costs one promise in `fn`'s wake and one for its consumer. O(1) an item.
 */
export function mapOver<I, O>(
  slots: Slots,
  source: Iterable<I> | AsyncIterable<I>,
  fn: (item: I, index: number, context: MapContext) => O | PromiseLike<O>,
  options: MapOptions = {},
): AsyncIterableIterator<O> {
  callable('fn', fn)
  checkOptions('map', options, ['ordered', 'buffer', 'signal'])
  const { ordered = true, buffer } = options
  boolean('ordered', ordered)
  if (buffer !== undefined) countOf('buffer', buffer, 0)
  const signal = optionalSignal(options.signal)
  return new Mapping<I, O>(slots, new Source(source), fn as Fn<I>, ordered, buffer, signal)
}

type Fn<I> = (item: I, index: number, context: MapContext) => unknown

/** Who has asked for the next result. */
type Taker = Waiter

class Mapping<I, O>
  implements AsyncIterableIterator<O>, Supply, Pulled<I>, LaneOwner<I, O, MapContext>
{
  readonly slots: Slots
  readonly watch: Watch
  readonly fn: Fn<I>
  /** What every body is handed; makes its signal when somebody looks at it. */
  readonly context: MapContext
  readonly #source: Source<I>
  readonly #ordered: boolean
  readonly #buffer: number | undefined
  readonly #signal: AbortSignal | undefined
  readonly caller: Context = contextOf(Promise.resolve())
  #controller: AbortController | undefined
  #opened = false
  /** Pulled from an async source, and waiting for a slot. */
  #item: I | typeof NOTHING = NOTHING
  #pulled = 0
  #started = 0
  #running = 0
  #arrived = 0
  #filling = false
  /** Results that were there when they were asked for, since the event loop had a turn. */
  #streak = 0
  #rested = Number.NEGATIVE_INFINITY
  /** Nothing more will be pulled. */
  #drained = false
  /** Nothing is done any more, except handing out the results that are there. */
  #stopped = false
  #reason: unknown
  readonly #lanes: Lane<I, O, MapContext>[] = []
  readonly #idle: Lane<I, O, MapContext>[] = []
  readonly #tickets = new Set<Entry>()
  readonly #results = new Results<O>()
  readonly #takers = new Fifo<Taker>()
  #unfollow: () => void = ignore

  constructor(
    slots: Slots,
    source: Source<I>,
    fn: Fn<I>,
    ordered: boolean,
    buffer: number | undefined,
    signal: AbortSignal | undefined,
  ) {
    this.slots = slots
    this.watch = slots.watch
    this.#source = source
    this.fn = fn
    this.#ordered = ordered
    this.#buffer = buffer
    this.#signal = signal
    const signalOf = () => this.#abortSignal()
    this.context = {
      get signal() {
        return signalOf()
      },
    }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<O>> {
    if (!this.#opened) this.#open()
    if (this.#takers.size === 0) {
      const result = this.#results.take()
      if (result instanceof Failure) return this.#lose(result)
      if (result !== NOTHING) {
        this.#more()
        this.#streak += 1
        if (this.#streak > BURST && this.#isTurnDue()) return this.#later(result)
        return Promise.resolve({ done: false, value: result })
      }
      if (this.#over()) {
        this.#serve()
        return Promise.resolve({ done: true, value: undefined })
      }
    }
    const promise = new Promise<IteratorResult<O>>((resolve, reject) => {
      this.#takers.push({ resolve: resolve as (value: unknown) => void, reject })
    })
    this.#more()
    return promise
  }

  #isTurnDue(): boolean {
    this.#streak = 0
    return this.watch.runtime.monotonic() - this.#rested >= BURST_MS
  }

  /** Results and bodies that come without a pause would keep timers and I/O out. */
  #later(value: O): Promise<IteratorResult<O>> {
    const { runtime } = this.watch
    return new Promise((resolve) => {
      runtime.soon(() => {
        this.#rested = runtime.monotonic()
        resolve({ done: false, value })
      })
    })
  }

  async return(value?: unknown): Promise<IteratorResult<O>> {
    const closing = this.#halt(undefined)
    this.#results.clear()
    this.#serve()
    await closing
    return { done: true, value }
  }

  /** A body has ended; `lane` has its slot still. */
  settle(lane: Lane<I, O, MapContext>, result: O | Failure): void {
    this.#running -= 1
    lane.vacate()
    if (!this.#stopped) {
      const failed = result instanceof Failure
      if (failed) this.#drained = true
      this.#results.put(this.#ordered ? lane.index : this.#arrived++, result)
      if (failed && !this.#ordered) this.#halt(result.error)?.catch(ignore)
      if (this.#takers.size > 0) this.#serve()
    }
    const room = this.#room()
    if (room && !this.#source.isAsync) {
      const others = this.slots.waiting - this.#tickets.size
      if (this.slots.keeps(others)) {
        this.slots.proceed(lane.again)
        return
      }
    }
    this.#release(lane)
    if (room) this.#more()
  }

  /** Goes on with the next item of a sync source, in the slot of `lane`. */
  advance(lane: Lane<I, O, MapContext>): void {
    const item = this.#room() ? this.#pullNow() : NOTHING
    if (item === NOTHING) {
      this.#release(lane)
      if (this.#takers.size > 0) this.#serve()
    } else this.#start(lane, item)
  }

  #open(): void {
    this.#opened = true
    this.#unfollow = follow(this)
    const signal = this.#signal
    if (signal?.aborted) this.#abort(signal.reason)
    else if (signal !== undefined) aborts.add(signal, this.#abort)
    if (this.#stopped) return
    try {
      this.#source.open()
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Whether one more item may be pulled, as far as the consumer is concerned. */
  #room(): boolean {
    if (this.#stopped || this.#drained || this.#source.isBusy) return false
    const ahead = this.#pulled + this.#tickets.size - this.#results.taken
    const { concurrency } = this.slots
    return ahead < concurrency + (this.#buffer ?? concurrency)
  }

  /** Starts what can be started, and stands in line for as many slots as are still of use. */
  #more(): void {
    if (this.#filling || !this.#room()) return
    this.#filling = true
    const { slots } = this
    for (let count = 0; this.#item === NOTHING && this.#room(); count += 1) {
      if (this.#running + this.#tickets.size >= slots.concurrency) break
      if (count === BURST) {
        slots.watch.runtime.soon(() => this.#more())
        break
      }
      if (!slots.free) this.#queue()
      else if (this.#source.isAsync) this.#pull()
      else if (slots.take()) this.advance(this.#lane())
    }
    this.#filling = false
  }

  #start(lane: Lane<I, O, MapContext>, item: I): void {
    this.#running += 1
    this.#started += 1
    lane.start(item, this.#started - 1)
  }

  #lane(): Lane<I, O, MapContext> {
    const idle = this.#idle.pop()
    if (idle !== undefined) return idle
    const lane = new Lane(this)
    this.#lanes.push(lane)
    return lane
  }

  #forget(): void {
    for (const lane of this.#lanes) this.watch.remove(lane)
  }

  #release(lane: Lane<I, O, MapContext>): void {
    const { leave } = lane
    lane.leave = undefined
    this.#idle.push(lane)
    if (this.#stopped && this.#running === 0) this.#forget()
    if (leave === undefined) this.slots.give()
    else leave()
  }

  #queue(): void {
    const fail = (error: unknown) => {
      if (this.#tickets.delete(ticket)) this.#fail(error)
    }
    const ticket = this.slots.ticket(() => this.#granted(ticket), fail, this.caller)
    this.#tickets.add(ticket)
  }

  /** The turn of a ticket has come; the slot is ours until the promise settles. */
  #granted(ticket: Entry): Promise<void> | undefined {
    this.#tickets.delete(ticket)
    const item = this.#item
    if (this.#stopped) return undefined
    if (this.#source.isAsync && item === NOTHING) {
      // The source may be slow: it does not get to keep a slot in which nothing runs.
      if (this.#room()) this.#pull()
      return undefined
    }
    return new Promise((leave) => {
      const lane = this.#lane()
      lane.leave = leave
      this.#item = NOTHING
      if (item === NOTHING) this.advance(lane)
      else this.#start(lane, item)
      this.#more()
    })
  }

  #pullNow(): I | typeof NOTHING {
    try {
      const item = this.#source.pullNow()
      if (item === NOTHING) this.#drained = true
      else this.#pulled += 1
      return item
    } catch (error) {
      this.#fail(error)
      return NOTHING
    }
  }

  #pull(): void {
    this.#pulled += 1
    this.#source.pull(this)
  }

  item(item: I): void {
    if (this.#stopped) return
    if (this.slots.take()) {
      this.#start(this.#lane(), item)
      this.#more()
      return
    }
    this.#item = item
    if (this.#tickets.size === 0) this.#queue()
  }

  end(): void {
    this.#drained = true
    this.#serve()
  }

  fail(error: unknown): void {
    this.#fail(error)
  }

  /** Hands results to those who wait for them; and the end, if it has come. */
  #serve(): void {
    while (this.#takers.size > 0) {
      const result = this.#results.take()
      if (result === NOTHING) break
      const taker = this.#takers.shift() as Taker
      if (result instanceof Failure) this.#lose(result).catch((error) => taker.reject(error))
      else taker.resolve({ done: false, value: result })
    }
    if (!this.#over()) return
    this.#detach()
    if (this.#running === 0) this.#forget()
    while (this.#takers.size > 0) this.#takers.shift()?.resolve({ done: true, value: undefined })
  }

  /** The place of a failure has come: the consumer gets it, and that is all he gets. */
  #lose({ error }: Failure): Promise<never> {
    this.#halt(error)?.catch(ignore)
    this.#results.clear()
    return Promise.reject(error)
  }

  /** Something other than a body has failed: what follows the results that are there is that. */
  #fail(error: unknown): void {
    if (this.#stopped) return
    this.#results.cut(new Failure(error))
    this.#halt(error)?.catch(ignore)
    this.#serve()
  }

  readonly #abort = (reason: unknown): void => {
    this.#results.clear()
    this.#fail(reason)
  }

  #over(): boolean {
    if (this.#results.ready) return false
    if (this.#stopped) return true
    return this.#drained && this.#running === 0 && !this.#source.isBusy && this.#item === NOTHING
  }

  /** Stops everything that is still going on; answers when the source has returned. */
  #halt(reason: unknown): Promise<unknown> | undefined {
    if (this.#stopped) return undefined
    this.#stopped = true
    this.#reason = reason
    this.#item = NOTHING
    this.#detach()
    const tickets = [...this.#tickets]
    this.#tickets.clear()
    for (const ticket of tickets) this.slots.withdraw(ticket)
    const controller = this.#controller
    if (controller !== undefined) {
      enter(this.caller, () => controller.abort(cancelled(reason)))
    }
    return this.#source.close()
  }

  #detach(): void {
    this.#unfollow()
    if (this.#signal !== undefined && this.#opened) aborts.delete(this.#signal, this.#abort)
  }

  #abortSignal(): AbortSignal {
    this.#controller ??= new AbortController()
    const { signal } = this.#controller
    if (this.#stopped && !signal.aborted) this.#controller.abort(cancelled(this.#reason))
    return signal
  }

  pending(): { waiter: Waiter; running: Holder | undefined } | undefined {
    const waiter = this.#takers.peek()
    if (waiter === undefined) return undefined
    if (this.#running === 0) {
      return this.#tickets.size === 0 ? undefined : { waiter, running: undefined }
    }
    const next = (lane: Lane<I, O, MapContext>) =>
      lane.index === this.#results.taken || !this.#ordered
    const running = this.#lanes.filter((lane) => lane.busy && next(lane))
    // Without an order any of several may bring the next result.
    return running.length === 1 ? { waiter, running: running[0] } : undefined
  }
}

/** As many bodies are started at one go before the event loop has a turn. */
const BURST = 256
/** As long may results be handed out without one; the clock is looked at after every BURST. */
const BURST_MS = 5

function ignore(): void {}

function cancelled(cause: unknown): AxError {
  return new AxError('CANCELLED', 'Nobody waits for the results of this map any more.', { cause })
}
