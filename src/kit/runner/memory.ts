// Owns what a runner remembers of calls that have ended, by key.
// May never hold more than it was allowed to, or longer.

import type { Runtime, Timer } from '../runtime.ts'

/** A success and its result, or the fact that nobody knows what came of it. */
export type Remembered =
  | { readonly known: true; readonly result: unknown; readonly attempts: number }
  | { readonly known: false; readonly error: unknown }

interface Entry {
  readonly until: number
  readonly what: Remembered
}

/**
 * What became of a key, for `ms` milliseconds, for the last `max` keys. O(1). Entries all live
 * equally long, so the oldest is always the first to go: one timer, which keeps no process alive.
 */
export class Memory {
  readonly #runtime: Runtime
  readonly #ms: number
  readonly #max: number
  /** In the order in which they were put. */
  readonly #entries = new Map<string, Entry>()
  #timer: Timer | undefined

  constructor(runtime: Runtime, ms: number, max: number) {
    this.#runtime = runtime
    this.#ms = ms
    this.#max = max
  }

  get(key: string): Remembered | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined || entry.until <= this.#runtime.monotonic()) return undefined
    return entry.what
  }

  put(key: string, what: Remembered): void {
    this.#entries.delete(key)
    this.#entries.set(key, { until: this.#runtime.monotonic() + this.#ms, what })
    if (this.#entries.size > this.#max) this.#drop()
    this.#arm()
  }

  forget(key: string): void {
    this.#entries.delete(key)
  }

  #drop(): void {
    for (const key of this.#entries.keys()) {
      this.#entries.delete(key)
      return
    }
  }

  #arm(): void {
    if (this.#timer !== undefined) return
    for (const { until } of this.#entries.values()) {
      const wait = until - this.#runtime.monotonic()
      this.#timer = this.#runtime.after(wait, () => this.#sweep(), { ref: false })
      return
    }
  }

  #sweep(): void {
    this.#timer = undefined
    const now = this.#runtime.monotonic()
    for (const [key, { until }] of this.#entries) {
      if (until > now) break
      this.#entries.delete(key)
    }
    this.#arm()
  }
}
