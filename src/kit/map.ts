// Owns iterating over the results of a function that is called for each item of a source.
// May never pull an item that there is no room for, or touch the source once it is over.

import { type Context, contextOf, enter, isBare } from './context.ts'
import { type Lane, type LaneOwner, Lanes } from './lane.ts'
import { LateSignal } from './late-signal.ts'
import type { MapContext, MapTerms, Slots } from './map-options.ts'
import { MapParty, type Standing } from './map-party.ts'
import type { Waiter } from './nested/graph.ts'
import type { Berth } from './nested/trace.ts'
import { enroll } from './nested/watch.ts'
import { mapEnded, nestedLimit } from './refusals.ts'
import { Failure, NOTHING, Results } from './results.ts'
import { Signals } from './signals.ts'
import type { Pulled, Source } from './source.ts'
import { Takers } from './takers.ts'
import { Tickets } from './tickets.ts'
import { Turns } from './turns.ts'

/** Everyone who iterates under somebody's signal; empty when nobody does. */
const aborts = new Signals<(reason: unknown) => void>((stop, reason) => stop(reason))

export type Fn<I> = (item: I, index: number, context: MapContext) => unknown

const { then } = Promise.prototype

/** One iteration; its promises are those of `mapOver`. */
export class Mapping<I, O> implements AsyncIterableIterator<O>, Pulled<I>, LaneOwner {
  readonly #slots: Slots
  readonly #source: Source<I>
  readonly #isAsync: boolean
  readonly #fn: Fn<I>
  readonly #ordered: boolean
  readonly #buffer: number | undefined
  readonly #signal: AbortSignal | undefined
  /** The async context of whoever called for the map: the source and the bodies see it. */
  readonly #caller: Context = contextOf(Promise.resolve())
  readonly #ending = new LateSignal(this.#caller)
  /** What every body is handed. */
  readonly #context: MapContext
  #opened = false
  /** Pulled from an async source, and waiting for a slot. */
  #item: I | typeof NOTHING = NOTHING
  /** Items that have been pulled whose results have not been taken. */
  #ahead = 0
  #started = 0
  #running = 0
  /** Slots that are held, for a body or between two of them. */
  #held = 0
  #arrived = 0
  #filling = false
  readonly #turns: Turns
  /** Those who wait are served when the event loop has had its turn. */
  #resting = false
  /** There may be a failure among the results. */
  #broken = false
  /** Nothing more will be pulled. */
  #drained = false
  /** And nothing is done any more, except handing out the results that are there. */
  #stopped = false
  readonly berths: Set<Berth>
  readonly #lanes = new Lanes(this)
  readonly #tickets: Tickets
  readonly #results = new Results<O>()
  readonly #takers = new Takers()
  readonly #party = new MapParty(
    () => this.#standing(),
    () => this.#fail(nestedLimit()),
  )
  #unfollow: () => void = ignore

  constructor(slots: Slots, source: Source<I>, fn: Fn<I>, terms: MapTerms) {
    this.#slots = slots
    this.berths = slots.berths
    this.#tickets = new Tickets(slots)
    this.#source = source
    this.#isAsync = source.isAsync
    this.#fn = fn
    this.#ordered = terms.ordered
    this.#buffer = terms.buffer
    this.#signal = terms.signal
    this.#turns = new Turns(slots.runtime)
    const ending = this.#ending
    this.#context = {
      get signal() {
        return ending.get()
      },
    }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<O>> {
    if (!this.#opened) this.#open()
    const isDue = this.#turns.isDue()
    if (this.#takers.size === 0) {
      const result = this.#results.take()
      if (result !== NOTHING) {
        this.#ahead -= 1
        if (this.#broken && result instanceof Failure) return this.#lose(result)
        this.#more()
        if (isDue) return this.#later(result as O)
        return Promise.resolve({ done: false, value: result as O })
      }
      if (this.#drained && this.#over()) {
        this.#serve()
        return Promise.resolve({ done: true, value: undefined })
      }
    }
    const promise = this.#takers.ask()
    if (isDue) this.#rest()
    this.#more()
    return promise as Promise<IteratorResult<O>>
  }

  /** A turn for everybody else before a result that is there. */
  #later(value: O): Promise<IteratorResult<O>> {
    return new Promise((resolve) => this.#turns.after(() => resolve({ done: false, value })))
  }

  /** The same before one that is not there yet. */
  #rest(): void {
    if (this.#resting) return
    this.#resting = true
    this.#turns.after(() => {
      this.#resting = false
      this.#serve()
    })
  }

  async return(value?: unknown): Promise<IteratorResult<O>> {
    const closing = this.#halt(undefined)
    this.#results.clear()
    this.#serve()
    await closing
    return { done: true, value }
  }

  /** `lane` has its slot still. */
  settle(lane: Lane, value: unknown): void {
    this.#running -= 1
    lane.vacate()
    if (!this.#stopped) {
      const results = this.#results
      const number = this.#ordered ? lane.index : this.#arrived++
      if (this.#takers.size === 0 || number !== results.taken || this.#resting) {
        results.put(number, value as O)
      } else {
        results.taken += 1
        this.#ahead -= 1
        this.#takers.shift()?.resolve({ done: false, value })
        if (this.#drained || this.#takers.size > 0) this.#serve()
      }
    }
    const slots = this.#slots
    if (this.#drained || !this.#hasRoom()) this.#release(lane)
    else if (!this.#isAsync && slots.keeps(slots.waiting - this.#tickets.count))
      slots.proceed(lane.again)
    else {
      this.#release(lane)
      this.#more()
    }
  }

  fault(lane: Lane, error: unknown): void {
    this.#running -= 1
    lane.vacate()
    if (!this.#stopped) {
      this.#drained = true
      this.#broken = true
      this.#results.put(this.#ordered ? lane.index : this.#arrived++, new Failure(error))
      if (!this.#ordered) this.#halt(error)?.catch(ignore)
      this.#serve()
    }
    this.#release(lane)
  }

  /** Goes on with the next item of a sync source in the slot of `lane`. */
  advance(lane: Lane): void {
    this.#begin(lane, NOTHING, false)
  }

  /**
   * Calls the function for `given`, or for the next item of a sync source, if there still is one.
   *
   * One long function, on purpose. V8 copies functions of up to 460 bytes of bytecode into each of
   * their callers, and then compiles them as often: as four short functions, this was a tenth of
   * all the processor time of a map over 100,000 items.
   */
  #begin(kept: Lane | undefined, given: I | typeof NOTHING, inside: boolean): void {
    if (!inside && !isBare(this.#caller)) {
      this.#beginInside(kept, given)
      return
    }
    let lane = kept
    if (lane === undefined) {
      // A slot that has been taken just now.
      this.#held += 1
      lane = this.#lanes.take()
    }
    let item = given
    if (item === NOTHING) {
      const source = this.#source
      // Others may have pulled while `kept` waited for a turn of the event loop.
      const hasRoom = kept === undefined || this.#hasRoom()
      if (hasRoom && !this.#drained && !source.isBusy) {
        try {
          item = source.pullNow()
          if (item === NOTHING) this.#drained = true
          else this.#ahead += 1
        } catch (error) {
          this.#fail(error)
        }
      }
      // The source may have called for the end meanwhile.
      if (item === NOTHING || this.#stopped) {
        // Not left in vain: the end may have come, and somebody may wait for it.
        this.#release(lane)
        this.#serve()
        return
      }
    }
    const fn = this.#fn
    const index = this.#started
    this.#started = index + 1
    this.#running += 1
    lane.index = index
    lane.busy = true
    let end: Promise<unknown>
    // As `attempt` and `listen` do it.
    try {
      end = Promise.resolve(fn(item, index, this.#context))
    } catch (error) {
      end = Promise.reject(error)
    }
    try {
      lane.end = then.call(end, lane.succeed, lane.fail)
    } catch (error) {
      lane.end = then.call(Promise.reject(error), lane.succeed, lane.fail)
    }
  }

  /** Not in `#begin`, where the closure would cost every item a scope. */
  #beginInside(kept: Lane | undefined, given: I | typeof NOTHING): void {
    enter(this.#caller, () => this.#begin(kept, given, true))
  }

  #open(): void {
    this.#opened = true
    if (this.#slots.watch !== undefined) this.#unfollow = enroll(this.#party)
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

  /** How many bodies may run at once. */
  #most(): number {
    const { concurrency } = this.#slots
    return concurrency === Number.POSITIVE_INFINITY ? UNLIMITED : concurrency
  }

  /** Whether the source may be pulled once more, as far as the consumer is concerned. */
  #hasRoom(): boolean {
    const most = this.#most()
    return this.#ahead + this.#tickets.count < most + (this.#buffer ?? most)
  }

  /** Starts what can be started, and stands in line for as many slots as are still of use. */
  #more(): void {
    if (this.#filling) return
    const slots = this.#slots
    const tickets = this.#tickets
    const most = this.#most()
    const reach = most + (this.#buffer ?? most)
    this.#filling = true
    for (let count = 0; this.#held + tickets.count < most && !this.#drained; count += 1) {
      if (this.#ahead + tickets.count >= reach) break
      if (this.#isAsync || this.#source.isBusy || count === BURST || !slots.take()) {
        if (!this.#ask(count)) break
      } else this.#begin(undefined, NOTHING, false)
    }
    this.#filling = false
  }

  /** Does what has to be done before a body can start; false: that is enough for now. */
  #ask(count: number): boolean {
    if (this.#source.isBusy || this.#item !== NOTHING) return false
    if (count === BURST) {
      this.#slots.runtime.soon(this.#again)
      return false
    }
    if (this.#isAsync && this.#slots.free) this.#pull()
    else this.#queue()
    return true
  }

  #release(lane: Lane): void {
    this.#held -= 1
    const { leave } = lane
    lane.leave = undefined
    this.#lanes.put(lane)
    if (this.#stopped && this.#running === 0) this.#lanes.forget()
    if (leave === undefined) this.#slots.give()
    else leave()
  }

  #queue(): void {
    this.#tickets.add(this.#granted, this.#dropped, this.#caller)
  }

  readonly #dropped = (error: unknown): void => this.#fail(error)
  /** The turn of a ticket has come; the slot is ours until the promise settles. */
  readonly #granted = (): Promise<void> | undefined => {
    const item = this.#item
    if (this.#stopped) return undefined
    if (this.#isAsync && item === NOTHING) {
      // The source may be slow: it does not get to keep a slot in which nothing runs.
      if (!this.#drained && !this.#source.isBusy && this.#hasRoom()) this.#pull()
      return undefined
    }
    return new Promise((leave) => {
      const lane = this.#lanes.take()
      lane.leave = leave
      this.#item = NOTHING
      this.#held += 1
      this.#begin(lane, item, false)
      this.#more()
    })
  }

  #pull(): void {
    this.#ahead += 1
    this.#source.pull(this)
  }

  item(item: I): void {
    if (this.#stopped) return
    if (this.#slots.take()) {
      this.#begin(undefined, item, false)
      this.#more()
      return
    }
    this.#item = item
    if (this.#tickets.count === 0) this.#queue()
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
    let count = 0
    while (this.#takers.size > 0) {
      if (this.#resting) return
      const result = this.#results.take()
      if (result === NOTHING) break
      const taker = this.#takers.shift() as Waiter
      this.#ahead -= 1
      count += 1
      if (result instanceof Failure) this.#lose(result).catch((error) => taker.reject(error))
      else taker.resolve({ done: false, value: result })
    }
    // Whoever asked has done so long ago, and will not ask again to have more pulled.
    if (count > 0) this.#more()
    if (!this.#over()) return
    this.#detach()
    if (this.#running === 0) this.#lanes.forget()
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
    this.#broken = true
    this.#results.cut(new Failure(error))
    this.#halt(error)?.catch(ignore)
    this.#serve()
  }

  readonly #again = (): void => this.#more()

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
    this.#drained = true
    this.#item = NOTHING
    this.#detach()
    this.#tickets.withdraw()
    this.#ending.abort(mapEnded(reason))
    return this.#source.close()
  }

  #detach(): void {
    this.#unfollow()
    if (this.#signal !== undefined && this.#opened) aborts.delete(this.#signal, this.#abort)
  }

  #standing(): Standing {
    return {
      taker: this.#takers.peek(),
      lanes: this.#lanes.all,
      berths: this.berths,
      concurrency: this.#slots.concurrency,
      next: this.#ordered ? this.#results.taken : undefined,
      tickets: this.#tickets.count,
      isPulling: this.#source.isBusy,
      moves: 2 * this.#started - this.#running,
    }
  }
}

/** As many bodies are started at one go before the event loop has a turn. */
const BURST = 256
/** Bodies of one map at once where the limiter has no limit. */
const UNLIMITED = 1_000

function ignore(): void {}
