// Owns the moment a task is called, and hearing of its end.
// May never throw, whatever the task does, or hear of one end twice.

import { enter } from './context.ts'
import { awaiter, Berth } from './nested/trace.ts'
import type { Entry } from './waiting.ts'

/**
 * A slot that a body occupies. Slots are reused, so that the functions which hear of the end of a
 * body are made once per slot and not once per call.
 */
export class Slot extends Berth {
  readonly #free: (slot: Slot) => void

  constructor(free: (slot: Slot) => void) {
    super()
    this.#free = free
  }

  /** Runs a task for a caller who gets the promise that comes back. */
  start(task: () => unknown): Promise<unknown> {
    this.busy = true
    return this.#pass(attempt(task))
  }

  /** Runs the task of a call that has waited. */
  run(entry: Entry): void {
    this.busy = true
    this.waiter = entry
    // All of it in the caller's context: a promise that was made outside would be made in the
    // context of whoever held this slot before, and would keep that one's store alive.
    enter(entry.terms.context, this.#begin)
  }

  readonly #begin = (): void => {
    const entry = this.waiter as Entry
    const task = entry.task as () => unknown
    entry.task = undefined
    this.end = listen(attempt(task), this.#succeed, this.#fail)
  }

  readonly #succeed = (value: unknown): void => {
    const { resolve } = this.waiter as Entry
    this.vacate()
    resolve(value)
    this.#free(this)
  }

  readonly #fail = (error: unknown): void => {
    const { reject } = this.waiter as Entry
    this.vacate()
    reject(error)
    this.#free(this)
  }

  /** What the caller waits for is this function, so that its name tells of both. */
  readonly #pass = awaiter(this.name, async (end: Promise<unknown>): Promise<unknown> => {
    let value: unknown
    try {
      value = await end
    } catch (error) {
      this.vacate()
      this.#free(this)
      throw error
    }
    this.vacate()
    this.#free(this)
    return value
  })
}

const { then } = Promise.prototype

/** Hears of the end of a native promise; what comes back is what the handler returns. */
export function listen<T, R>(
  promise: Promise<T>,
  onValue: (value: T) => R,
  onError: (error: unknown) => R,
): Promise<R> {
  const told = onValue as (value: unknown) => R
  try {
    // Not `promise.then(...)`: that is whatever the promise says it is.
    return then.call(promise, told, onError) as Promise<R>
  } catch (error) {
    // It has a constructor that throws, and `then` asks for it: the body has failed by that.
    return then.call(Promise.reject(error), told, onError) as Promise<R>
  }
}

/**
 * Calls a task; whatever it does comes as a native promise. One that it returned is used as it
 * is, a thenable is asked once, a throw is a rejection.
 */
export function attempt<T>(task: () => T | PromiseLike<T>): Promise<Awaited<T>> {
  try {
    return Promise.resolve(task() as Awaited<T>)
  } catch (error) {
    return Promise.reject(error)
  }
}
