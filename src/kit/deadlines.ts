// Owns the instants at which something must happen to somebody, and one timer for all of them.
// May never ring early, or keep a timer for nobody.

import { Heap } from './heap.ts'
import type { Runtime, Timer } from './runtime.ts'

/** Something with one deadline at a time. */
export interface Timed {
  /** Where the heap has it; -1 when it has no deadline. */
  index: number
}

/**
 * Deadlines with one timer: a timer per attempt would cost 0.3 us to set and to cancel. Most
 * deadlines are dropped, so the timer stays as it is when the earliest one goes, and is set
 * again when it turns out to have rung for nothing; with none left it is cancelled. O(log n), and
 * O(1) where all have the same length.
 */
export class Deadlines<T extends Timed> {
  readonly #runtime: Runtime
  readonly #onDue: (item: T) => void
  readonly #heap = new Heap<T>((item, index) => {
    item.index = index
  })
  #sequence = 0
  #timer: Timer | undefined
  #timerDue = Number.POSITIVE_INFINITY

  /** `onDue` is called when the time of an item has come, which has no deadline any more. */
  constructor(runtime: Runtime, onDue: (item: T) => void) {
    this.#runtime = runtime
    this.#onDue = onDue
  }

  /** Its time comes in so many milliseconds, or never at Infinity, instead of before. */
  set(item: T, ms: number): void {
    this.drop(item)
    if (ms === Number.POSITIVE_INFINITY) return
    this.#sequence += 1
    this.#heap.push(item, this.#runtime.monotonic() + ms, this.#sequence)
    this.#arm()
  }

  drop(item: T): void {
    if (item.index < 0) return
    this.#heap.remove(item.index)
    if (this.#heap.size === 0) this.#disarm()
  }

  #arm(): void {
    const due = this.#heap.peekKey()
    if (due >= this.#timerDue) return
    this.#timer?.cancel()
    this.#timerDue = due
    // A turn later: when something has blocked the event loop, what has arrived meanwhile is
    // heard first. A body whose answer is there has not timed out, and may be about to free a slot.
    const ring = () => this.#runtime.soon(() => this.#expire())
    this.#timer = this.#runtime.after(due - this.#runtime.monotonic(), ring)
  }

  #disarm(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#timerDue = Number.POSITIVE_INFINITY
  }

  #expire(): void {
    this.#disarm()
    const now = this.#runtime.monotonic()
    while (this.#heap.peekKey() <= now) this.#onDue(this.#heap.pop() as T)
    this.#arm()
  }
}
