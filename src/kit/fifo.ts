// Owns a queue of values, first in, first out, in a ring that grows and shrinks.
// May never keep a reference to a value that has left it.

const SMALLEST = 16

/**
 * A first-in-first-out queue. `push`, `shift`, `peek` and `size` are O(1) (amortised: the ring
 * doubles when it is full, and halves when three quarters of it are empty).
 *
 * A ring, not a linked list: no node per value, so 8 bytes a value instead of 40, and nothing
 * for the garbage collector to walk.
 */
export class Fifo<T> {
  #ring: (T | undefined)[] = new Array<T | undefined>(SMALLEST).fill(undefined)
  #head = 0
  #size = 0

  /** How many values it holds. */
  get size(): number {
    return this.#size
  }

  /** Appends a value. */
  push(value: T): void {
    if (this.#size === this.#ring.length) this.#resize(this.#size * 2)
    this.#ring[(this.#head + this.#size) & (this.#ring.length - 1)] = value
    this.#size += 1
  }

  /** The oldest value, or undefined when there is none. */
  peek(): T | undefined {
    return this.#ring[this.#head]
  }

  /** Takes the oldest value out, or answers undefined when there is none. */
  shift(): T | undefined {
    if (this.#size === 0) return undefined
    const ring = this.#ring
    const value = ring[this.#head]
    ring[this.#head] = undefined
    this.#head = (this.#head + 1) & (ring.length - 1)
    this.#size -= 1
    if (ring.length > SMALLEST && this.#size < ring.length / 4) this.#resize(ring.length / 2)
    return value
  }

  /** Forgets everything and gives the memory back. */
  clear(): void {
    this.#ring = new Array<T | undefined>(SMALLEST).fill(undefined)
    this.#head = 0
    this.#size = 0
  }

  /** From the oldest to the newest. The queue must not be changed meanwhile. */
  *[Symbol.iterator](): IterableIterator<T> {
    for (let i = 0; i < this.#size; i += 1) {
      yield this.#ring[(this.#head + i) & (this.#ring.length - 1)] as T
    }
  }

  /** From the newest to the oldest. The queue must not be changed meanwhile. */
  *backwards(): IterableIterator<T> {
    for (let i = this.#size - 1; i >= 0; i -= 1) {
      yield this.#ring[(this.#head + i) & (this.#ring.length - 1)] as T
    }
  }

  #resize(capacity: number): void {
    const ring = new Array<T | undefined>(capacity).fill(undefined)
    for (let i = 0; i < this.#size; i += 1) {
      ring[i] = this.#ring[(this.#head + i) & (this.#ring.length - 1)]
    }
    this.#ring = ring
    this.#head = 0
  }
}
