// Owns the places that one map has in its limiter's queue.
// May never keep one whose turn has come, or that was dropped.

import type { Context } from './context.ts'
import type { Slots } from './map-options.ts'
import type { Entry } from './waiting.ts'

export class Tickets {
  readonly #slots: Slots
  readonly #all = new Set<Entry>()
  /** How many there are: asked once per item, and a set is slow to tell. */
  count = 0

  constructor(slots: Slots) {
    this.#slots = slots
  }

  /**
   * Stands in line once more. `run` is called when the turn has come, and has the slot until the
   * promise that it returns settles; `drop` is called instead if the queue is cleared.
   */
  add(
    run: () => Promise<void> | undefined,
    drop: (error: unknown) => void,
    context: Context,
  ): void {
    const granted = () => {
      this.#redeem(ticket)
      return run()
    }
    const dropped = (error: unknown) => {
      if (this.#redeem(ticket)) drop(error)
    }
    const ticket = this.#slots.ticket(granted, dropped, context)
    this.#all.add(ticket)
    this.count += 1
  }

  /** Leaves the queue altogether. */
  withdraw(): void {
    const tickets = [...this.#all]
    this.#all.clear()
    this.count = 0
    for (const ticket of tickets) this.#slots.withdraw(ticket)
  }

  #redeem(ticket: Entry): boolean {
    const had = this.#all.delete(ticket)
    if (had) this.count -= 1
    return had
  }
}
