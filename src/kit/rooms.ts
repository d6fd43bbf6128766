// Owns those who wait for room in a queue, and whom it has been promised to.
// May never name more places than there are.

import { Fifo } from './fifo.ts'
import type { Runtime } from './runtime.ts'

/** `places()`: how many more calls could come now; Infinity where that has no bound. */
export class Rooms {
  readonly #runtime: Runtime
  readonly #places: () => number
  readonly #waiting = new Fifo<() => void>()
  /** Places that were named in this turn and that no call has taken yet. */
  #promised = 0
  #forgetting = false

  constructor(runtime: Runtime, places: () => number) {
    this.#runtime = runtime
    this.#places = places
  }

  get empty(): boolean {
    return this.#waiting.size === 0
  }

  /** Resolves when there is a place that has not been named to anybody else, in order. */
  wait(): Promise<void> {
    if (this.#places() === Number.POSITIVE_INFINITY) return Promise.resolve()
    if (this.empty && this.#places() > this.#promised) {
      this.#promise()
      return Promise.resolve()
    }
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** A call has come: it takes the place of somebody to whom one was named. */
  take(): void {
    if (this.#promised > 0) this.#promised -= 1
  }

  /** There may be more places than before. */
  notice(): void {
    while (!this.empty && this.#places() > this.#promised) {
      this.#promise()
      this.#waiting.shift()?.()
    }
  }

  /** Counts a place as taken until a call comes or a turn has gone by. */
  #promise(): void {
    this.#promised += 1
    if (this.#forgetting) return
    this.#forgetting = true
    this.#runtime.soon(() => {
      this.#forgetting = false
      this.#promised = 0
      this.notice()
    })
  }
}
