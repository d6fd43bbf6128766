// Owns the moment a task is called, and hearing of its end.
// May never throw, whatever the task does, or hear of one end twice.

import type { Entry } from './waiting.ts'

/**
 * A slot that a queued call occupies. Slots are reused, so that the functions which hear of the
 * end of a body are made once per slot and not once per call.
 */
export class Slot {
  readonly #free: (slot: Slot) => void
  #entry: Entry | undefined

  constructor(free: (slot: Slot) => void) {
    this.#free = free
  }

  run(entry: Entry): void {
    this.#entry = entry
    // All of it in the caller's context: a promise that was made outside would be made in the
    // context of whoever held this slot before, and would keep that one's store alive.
    entry.enter(this.#begin)
  }

  readonly #begin = (): void => {
    const task = this.#entry?.release() as () => unknown
    call(task, this.#succeed, this.#fail)
  }

  readonly #succeed = (value: unknown): void => {
    this.#leave().resolve(value)
    this.#free(this)
  }

  readonly #fail = (error: unknown): void => {
    this.#leave().reject(error)
    this.#free(this)
  }

  #leave(): Entry {
    const entry = this.#entry as Entry
    this.#entry = undefined
    return entry
  }
}

const { then } = Promise.prototype

/**
 * Calls a task and hears of its end; whatever the task does comes as a native promise. One that
 * it returned is used as it is, a thenable is asked once, a throw is a rejection. The promise
 * that comes back is what the handler returns, and the only one made if the task returned one.
 */
export function call<T, R>(
  task: () => T | PromiseLike<T>,
  onValue: (value: Awaited<T>) => R,
  onError: (error: unknown) => R,
): Promise<R> {
  // Not `promise.then(...)`: that is whatever the promise says it is.
  return then.call(attempt(task), onValue as (value: unknown) => R, onError) as Promise<R>
}

function attempt<T>(task: () => T | PromiseLike<T>): Promise<Awaited<T>> {
  try {
    return Promise.resolve(task() as Awaited<T>)
  } catch (error) {
    return Promise.reject(error)
  }
}
