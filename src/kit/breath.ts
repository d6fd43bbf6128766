// Owns pauses in long work: timers and I/O get their turn, though nothing else waits.
// May never pause where there is no need: a queue of no-ops lives from doing without.

import type { Runtime } from './runtime.ts'

/** After so long without a break: short for a person, long for a batch. */
const BREATH_MS = 10

export class Breath {
  readonly #runtime: Runtime
  #lastAt: number

  constructor(runtime: Runtime) {
    this.#runtime = runtime
    this.#lastAt = runtime.monotonic()
  }

  /** Gives the event loop a turn, if the last one was long enough ago. */
  async take(): Promise<void> {
    const now = this.#runtime.monotonic()
    if (now - this.#lastAt < BREATH_MS) return
    await new Promise<void>((resolve) => this.#runtime.soon(resolve))
    this.#lastAt = this.#runtime.monotonic()
  }
}
