// Owns pauses in long work: timers and I/O get their turn, though nothing else waits.
// May never pause where there is no need: a queue of no-ops lives from doing without.

import type { Runtime } from './runtime.ts'

/** After so long without a break: short for a person, long for a batch. */
const BREATH_MS = 10

export class Breath {
  readonly #runtime: Runtime
  /** When the present turn of the event loop was first seen, until it is over. */
  #since: number | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Gives the event loop its next turn, if the present one has lasted long enough. */
  async take(): Promise<void> {
    const now = this.#runtime.monotonic()
    if (this.#since === undefined) {
      this.#since = now
      this.#runtime.soon(() => {
        this.#since = undefined
      })
    } else if (now - this.#since >= BREATH_MS) {
      await new Promise<void>((resolve) => this.#runtime.soon(resolve))
    }
  }
}
