// Owns the list of what this process holds: each attempt knows its place in it.
// May never promise an order, or be changed while somebody walks through it: who does has a copy.

import type { Run } from './run.ts'

/**
 * An array and not a Map: one that is filled and emptied for ever makes new tables again and
 * again, of an age at which they are dear to collect.
 */
export class Runs {
  readonly #all: Run[] = []

  get size(): number {
    return this.#all.length
  }

  /** As it is now. O(n). */
  values(): readonly Run[] {
    return this.#all.slice()
  }

  add(run: Run): void {
    run.place = this.#all.length
    this.#all.push(run)
  }

  /** The last one takes its place. One that is not in the list stays out. */
  remove(run: Run): void {
    const { place } = run
    if (this.#all[place] !== run) return
    const last = this.#all.pop() as Run
    if (last === run) return
    this.#all[place] = last
    last.place = place
  }
}
