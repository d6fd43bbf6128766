// Owns calls of the same key at the same time: one body, shared by all who ask.
// May never remember a result: the entry goes when the body ends.

import { AxError } from '../core/errors.ts'
import { callable, checkOptions, refuseValue, show } from '../core/options.ts'
import { captureContext } from './context.ts'
import type { Holder, Wait, Waiter } from './nested/graph.ts'
import { some } from './nested/some.ts'
import { awaiter, nameHolder, waitingHere } from './nested/trace.ts'
import { type Party, Watch } from './nested/watch.ts'
import { type Runtime, runtimeOf } from './runtime.ts'
import { optionalSignal, Signals } from './signals.ts'

type Task<T> = (signal: AbortSignal) => T | PromiseLike<T>

export interface InflightSettings {
  /** Clock and timers, for tests. */
  readonly runtime?: Runtime | undefined
}

export interface InflightOptions {
  /** Ends this caller's wait: it rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined
}

/** `inflight(key, task, options?)`: see `createInflight`. */
export interface Inflight {
  <T>(key: string, task: Task<T>, options?: InflightOptions): Promise<T>
  /** How many keys have a body that runs. */
  readonly size: number
}

/** A caller. Everyone has a promise of his own: V8 tells who waits for one only if it is alone. */
class Rider implements Waiter {
  readonly flight: Flight
  readonly signal: AbortSignal | undefined
  /** Whether its call has started the body. */
  readonly isFirst: boolean
  resolve: (value: unknown) => void
  reject: (error: unknown) => void

  constructor(
    flight: Flight,
    signal: AbortSignal | undefined,
    isFirst: boolean,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ) {
    this.flight = flight
    this.signal = signal
    this.isFirst = isFirst
    this.resolve = resolve
    this.reject = reject
  }
}

/** One body and those who wait for it. */
class Flight implements Holder {
  readonly key: string
  /** What traces that are taken in the body show. */
  readonly name = nameHolder()
  readonly turn = 0
  busy = false
  readonly riders = new Set<Rider>()
  /** Everyone has left; the body, if it has started, was told so. */
  abandoned = false
  /** Who came after everyone had left, while the body was still running. */
  successor: Flight | undefined
  readonly #task: Task<unknown>
  readonly #enter = captureContext()
  readonly #controller = new AbortController()

  constructor(key: string, task: Task<unknown>) {
    this.key = key
    this.#task = task
  }

  /** The body ends in a function of that name. */
  mark(): void {}

  /** Starts the body. `landed` is called when it has ended. */
  start(landed: (settle: (rider: Rider) => void) => void): void {
    const signal = this.#controller.signal
    this.busy = true
    this.#enter(awaiter(this.name, async () => await this.#task(signal))).then(
      (value) => landed((rider) => rider.resolve(value)),
      (error) => landed((rider) => rider.reject(error)),
    )
  }

  /** Everyone has left. */
  abandon(reason: unknown): void {
    this.abandoned = true
    // Of a body that has not started nobody will look at the signal: it is not started any more.
    this.#enter(() => this.#controller.abort(reason))
  }
}

/**
 * Single flight: `inflight(key, task)` runs `task` unless a body of that key runs already; then
 * the caller shares that one's outcome. Bodies start within the call.
 *
 * - Failures are shared like results, a synchronous throw too; neither is kept.
 * - A caller's `signal` rejects that caller with the reason of the signal, nobody else. When the
 *   last one has left, the signal that was handed to the body is aborted with that reason.
 *   A caller without a signal never leaves.
 * - A body that calls for its own key would wait for itself: that call rejects with
 *   `NESTED_LIMIT`. (To join costs a look at who is waiting, 4 us.) So does, a quarter of a
 *   second later or so, one of the calls of bodies that wait for each other's keys, under a signal
 *   or not; limiters, maps and runners in such a ring count.
 * - Who calls after that, while the aborted body is still running, waits until it has ended, and
 *   then a body of his own is started: never two bodies of one key at a time.
 */
export function createInflight(settings: InflightSettings = {}): Inflight {
  checkOptions('createInflight', settings, ['runtime'])
  const board = new Board(runtimeOf(settings.runtime))
  const run = (key: string, task: Task<unknown>, options?: InflightOptions) =>
    board.call(key, task, options)
  return Object.defineProperty(run, 'size', { get: () => board.flights.size }) as Inflight
}

class Board implements Party {
  /** Bodies that run. */
  readonly flights = new Map<string, Flight>()
  readonly waiting = 0
  ended = 0
  /** Of those, the ones that others have come to. */
  readonly #joins = new Set<Flight>()
  readonly #watch: Watch
  readonly #signals = new Signals<Rider>((rider, reason) => {
    rider.reject(reason)
    this.#leave(rider, reason)
  })

  constructor(runtime: Runtime) {
    this.#watch = new Watch(this, runtime)
    this.#watch.enroll()
  }

  call(key: string, task: Task<unknown>, options: InflightOptions = {}): Promise<unknown> {
    try {
      if (typeof key !== 'string') refuseValue('key', key, 'a string')
      callable('task', task)
      checkOptions('inflight', options, ['signal'])
      const signal = optionalSignal(options.signal)
      if (signal?.aborted) return Promise.reject(signal.reason)
      const running = this.flights.get(key)
      if (running !== undefined) {
        if (waitingHere().has(running.name)) return Promise.reject(selfish(key))
        this.#joins.add(running)
        this.#watch.wait()
        return this.#embark(find(running, task), signal, false)
      }
      const flight = new Flight(key, task)
      // On board before the start: the body may abort the signal of its own caller.
      const outcome = this.#embark(flight, signal, true)
      this.#depart(flight)
      return outcome
    } catch (error) {
      return Promise.reject(error)
    }
  }

  get joined(): Flight | undefined {
    for (const flight of this.#joins) return flight
    return undefined
  }

  holders(): Iterable<Holder> {
    return this.flights.values()
  }

  waits(note: (wait: Wait) => void, most: number): void {
    let left = most
    for (const running of this.flights.values()) {
      const blocks = [{ holders: [running], enough: 1 }]
      const all = [...running.riders, ...(running.successor?.riders ?? [])]
      const joined = all.filter(({ isFirst }) => !isFirst)
      const joiners = [
        ...some(joined.length, Math.max(left, 2), joined.toReversed(), joined),
      ].reverse()
      left -= joiners.length
      for (const rider of all.filter(({ isFirst }) => isFirst).concat(joiners)) {
        const holds = () => running.busy && rider.flight.riders.has(rider)
        const refuse = rider.isFirst ? undefined : () => this.#refuse(rider)
        note({ waiter: rider, blocks, holds, refuse })
      }
    }
  }

  #refuse(rider: Rider): void {
    const error = nested(rider.flight.key)
    rider.reject(error)
    if (rider.signal !== undefined) this.#signals.delete(rider.signal, rider)
    this.#leave(rider, error)
  }

  /** Promises the outcome of a body. `isFirst`: the call has started it. */
  #embark(flight: Flight, signal: AbortSignal | undefined, isFirst: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const rider = new Rider(flight, signal, isFirst, resolve, reject)
      flight.riders.add(rider)
      if (signal !== undefined) this.#signals.add(signal, rider)
    })
  }

  #leave(rider: Rider, reason: unknown): void {
    const { flight } = rider
    if (!flight.riders.delete(rider)) return
    if (flight.riders.size === 0) flight.abandon(reason)
  }

  #depart(flight: Flight): void {
    this.flights.set(flight.key, flight)
    flight.start((settle) => {
      // Before anyone hears of the outcome: whoever calls then starts afresh.
      flight.busy = false
      this.ended += 1
      this.flights.delete(flight.key)
      this.#joins.delete(flight)
      const next = flight.successor
      if (next !== undefined && !next.abandoned) {
        this.#joins.add(next)
        this.#depart(next)
      }
      const riders = [...flight.riders]
      flight.riders.clear()
      for (const rider of riders) {
        if (rider.signal !== undefined) this.#signals.delete(rider.signal, rider)
        settle(rider)
      }
    })
  }
}

/** The one to wait for: it runs, or will run when the body before it has ended. */
function find(flight: Flight, task: Task<unknown>): Flight {
  if (!flight.abandoned) return flight
  if (flight.successor === undefined || flight.successor.abandoned) {
    flight.successor = new Flight(flight.key, task)
  }
  return flight.successor
}

function selfish(key: string): AxError {
  const text = `The body of ${show(key)} has called for ${show(key)}: it would wait for itself.`
  return new AxError('NESTED_LIMIT', text, { key })
}

function nested(key: string): AxError {
  const text =
    `This call for ${show(key)} would have waited for ever: the body of ${show(key)} waits, in ` +
    'the end, for the body that has made the call. Two keys must not wait for each other.'
  return new AxError('NESTED_LIMIT', text, { key })
}
