// Owns calls of the same key at the same time: one body, shared by all who ask.
// May never remember a result: the entry goes when the body ends.

import { AxError } from '../core/errors.ts'
import { callable, checkOptions, refuseValue, show } from '../core/options.ts'
import { captureContext } from './context.ts'
import { awaiter, nameHolder, waitingHere } from './nested.ts'
import { optionalSignal, Signals } from './signals.ts'

type Task<T> = (signal: AbortSignal) => T | PromiseLike<T>

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

/** A caller with a signal: it can leave before the body ends. */
interface Rider {
  readonly flight: Flight
  readonly reject: (reason: unknown) => void
}

/** One body and those who wait for it. */
class Flight {
  /** What traces that are taken in the body show: see nested.ts. */
  readonly name = nameHolder()
  readonly promise: Promise<unknown>
  /** Callers who can leave and have not. */
  riders = 0
  /** Whether somebody waits who cannot leave. */
  pinned = false
  landed = false
  /** Everyone has left; the body, if it has started, was told so. */
  abandoned = false
  /** Who came after everyone had left, while the body was still running. */
  successor: Flight | undefined
  readonly #task: Task<unknown>
  readonly #enter = captureContext()
  readonly #controller = new AbortController()
  #resolve: (value: unknown) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor(task: Task<unknown>) {
    this.#task = task
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /**
   * Starts the body. `landed` is called when it has ended, before anyone hears of the outcome:
   * whoever calls then starts afresh.
   */
  start(landed: () => void): void {
    const signal = this.#controller.signal
    const end = () => {
      this.landed = true
      landed()
    }
    this.#enter(awaiter(this.name, async () => await this.#task(signal))).then(
      (value) => {
        end()
        this.#resolve(value)
      },
      (error) => {
        end()
        this.#reject(error)
      },
    )
  }

  /** One who could leave has left. */
  leave(reason: unknown): void {
    this.riders -= 1
    if (this.riders > 0 || this.pinned || this.landed) return
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
 *   `NESTED_LIMIT`. (To join costs a look at who is waiting, 4 us.)
 * - Who calls after that, while the aborted body is still running, waits until it has ended, and
 *   then a body of his own is started: never two bodies of one key at a time.
 */
export function createInflight(): Inflight {
  const flights = new Map<string, Flight>()
  const riders = new Signals<Rider>(({ flight, reject }, reason) => {
    reject(reason)
    flight.leave(reason)
  })

  function depart(key: string, flight: Flight): void {
    flights.set(key, flight)
    flight.start(() => {
      flights.delete(key)
      const next = flight.successor
      if (next !== undefined && !next.abandoned) depart(key, next)
    })
  }

  /** The one to wait for: it runs, or will run when the body before it has ended. */
  function find(flight: Flight, task: Task<unknown>): Flight {
    if (!flight.abandoned) return flight
    if (flight.successor === undefined || flight.successor.abandoned) {
      flight.successor = new Flight(task)
    }
    return flight.successor
  }

  function board(flight: Flight, signal: AbortSignal | undefined): Promise<unknown> {
    if (signal === undefined) {
      flight.pinned = true
      return flight.promise
    }
    return new Promise((resolve, reject) => {
      const rider: Rider = { flight, reject }
      flight.riders += 1
      riders.add(signal, rider)
      flight.promise.then(
        (value) => {
          riders.delete(signal, rider)
          resolve(value)
        },
        (error) => {
          riders.delete(signal, rider)
          reject(error)
        },
      )
    })
  }

  const run = (key: string, task: Task<unknown>, options: InflightOptions = {}) => {
    try {
      if (typeof key !== 'string') refuseValue('key', key, 'a string')
      callable('task', task)
      checkOptions('inflight', options, ['signal'])
      const signal = optionalSignal(options.signal)
      if (signal?.aborted) return Promise.reject(signal.reason)
      const running = flights.get(key)
      if (running !== undefined) {
        if (waitingHere().has(running.name)) return Promise.reject(selfish(key))
        return board(find(running, task), signal)
      }
      const flight = new Flight(task)
      // On board before the start: the body may abort the signal of its own caller.
      const outcome = board(flight, signal)
      depart(key, flight)
      return outcome
    } catch (error) {
      return Promise.reject(error)
    }
  }
  return Object.defineProperty(run, 'size', { get: () => flights.size }) as Inflight
}

function selfish(key: string): AxError {
  const text = `The body of ${show(key)} has called for ${show(key)}: it would wait for itself.`
  return new AxError('NESTED_LIMIT', text, { key })
}
