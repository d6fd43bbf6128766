// Owns what the tests of the toolkit share. May never sleep.

import { getEventListeners } from 'node:events'
import { AxError } from '../../src/core/errors.ts'

/** A body that the test ends by hand, and what it can see of it. */
export interface Body<T> {
  readonly run: () => Promise<T>
  readonly end: (value: T) => void
  readonly fail: (error: unknown) => void
  readonly started: () => boolean
}

export function body<T>(): Body<T> {
  let end: (value: T) => void = () => {}
  let fail: (error: unknown) => void = () => {}
  let started = false
  const promise = new Promise<T>((resolve, reject) => {
    end = resolve
    fail = reject
  })
  const run = () => {
    started = true
    return promise
  }
  return { run, end, fail, started: () => started }
}

/** What became of a promise, once it has: a value, the code of an AxError, or an error. */
export async function outcome(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise
  } catch (error) {
    return error instanceof AxError ? error.code : error
  }
}

/** One turn of the event loop: every promise reaction that can run has run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

export function listeners(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length
}

type Then = (resolve: (value: unknown) => void, reject: (error: unknown) => void) => void

/** Something that looks like a promise; how well it behaves is up to `then`. */
export function thenable(then: Then): PromiseLike<unknown> {
  return Object.defineProperty({}, 'then', { value: then }) as PromiseLike<unknown>
}

/** Something whose `then` cannot even be looked at. */
export function poisoned(error: unknown): PromiseLike<unknown> {
  const get = () => {
    throw error
  }
  return Object.defineProperty({}, 'then', { get }) as PromiseLike<unknown>
}
