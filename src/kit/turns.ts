// Owns turns of the event loop for work that uses nothing but promises, and would keep timers and
// I/O out for as long as it lasts. May never ask for one before the work has lasted for a while.

import type { Runtime } from './runtime.ts'

/** After so many steps the clock is looked at. */
const STEPS = 256
/** As long may steps follow each other without a turn: one costs 20 us. */
const STREAK_MS = 5

export class Turns {
  readonly #runtime: Runtime
  #steps = 0
  #restedAt = Number.NEGATIVE_INFINITY

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Counts one step; true if it should wait for a turn. */
  isDue(): boolean {
    this.#steps += 1
    if (this.#steps <= STEPS) return false
    this.#steps = 0
    return this.#runtime.monotonic() - this.#restedAt >= STREAK_MS
  }

  /** Calls `run` when the event loop has had its turn. */
  after(run: () => void): void {
    this.#runtime.soon(() => {
      this.#restedAt = this.#runtime.monotonic()
      run()
    })
  }
}
