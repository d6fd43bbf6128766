// Owns those who wait for one operation, where there is more to it than one who cannot leave.
// May never tell anybody twice, or leave a listener on a signal of one who has been told.

import type { Waiter } from '../nested/graph.ts'
import type { RunnerResult } from '../runner.ts'
import type { Signals } from '../signals.ts'

/** It is given a `RunnerResult`. */
export type Resolve = (result: unknown) => void
export type Reject = (error: unknown) => void

/** Somebody whose signal can be aborted. */
export interface Rider {
  leave(reason: unknown): void
}

/** The operation that is waited for. */
interface Awaited {
  readonly reject: Reject
  /** Nobody waits any more. */
  abandoned(reason: unknown): void
}

/** One who has joined the call of another. */
class Joiner implements Rider, Waiter {
  readonly #crowd: Crowd
  readonly since: number
  resolve: Resolve
  reject: Reject
  readonly signal: AbortSignal | undefined

  constructor(
    crowd: Crowd,
    since: number,
    resolve: Resolve,
    reject: Reject,
    signal: AbortSignal | undefined,
  ) {
    this.#crowd = crowd
    this.since = since
    this.resolve = resolve
    this.reject = reject
    this.signal = signal
  }

  leave(reason: unknown): void {
    this.reject(reason)
    this.#crowd.left(this, reason)
  }
}

export class Crowd implements Rider {
  readonly #riders: Signals<Rider>
  readonly #awaited: Awaited
  /** Of the first caller. */
  readonly #signal: AbortSignal | undefined
  readonly joiners = new Set<Joiner>()
  isFirstHere = true

  constructor(riders: Signals<Rider>, awaited: Awaited, signal: AbortSignal | undefined) {
    this.#riders = riders
    this.#awaited = awaited
    this.#signal = signal
    if (signal !== undefined) riders.add(signal, this)
  }

  /** Answers who can be made to leave. */
  join(since: number, resolve: Resolve, reject: Reject, signal: AbortSignal | undefined): Rider {
    const joiner = new Joiner(this, since, resolve, reject, signal)
    this.joiners.add(joiner)
    if (signal !== undefined) this.#riders.add(signal, joiner)
    return joiner
  }

  /** The first caller leaves. */
  leave(reason: unknown): void {
    if (!this.isFirstHere) return
    this.isFirstHere = false
    this.#awaited.reject(reason)
    if (this.joiners.size === 0) this.#awaited.abandoned(reason)
  }

  left(joiner: Joiner, reason: unknown): void {
    if (!this.joiners.delete(joiner)) return
    if (joiner.signal !== undefined) this.#riders.delete(joiner.signal, joiner)
    if (this.joiners.size === 0 && !this.isFirstHere) this.#awaited.abandoned(reason)
  }

  resolve(result: unknown, now: number, attempts: number): void {
    this.#forget()
    for (const joiner of this.joiners) {
      const ms = now - joiner.since
      const own: RunnerResult<unknown> = { result, ms, attempts, deduplicated: true }
      joiner.resolve(own)
    }
  }

  reject(error: unknown): void {
    this.#forget()
    for (const joiner of this.joiners) joiner.reject(error)
  }

  /** Whether the first caller can leave by itself. */
  get hasSignal(): boolean {
    return this.#signal !== undefined
  }

  #forget(): void {
    if (this.#signal !== undefined) this.#riders.delete(this.#signal, this)
    for (const joiner of this.joiners) {
      if (joiner.signal !== undefined) this.#riders.delete(joiner.signal, joiner)
    }
  }
}
