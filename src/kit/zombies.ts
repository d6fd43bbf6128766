// Owns the bodies whose grace is over and who have not settled: how many may go on so.
// May never hold more zombies than it was allowed to: the others are held back.

import type { ZombieRecord } from '../core/zombie.ts'

/**
 * Up to `max` bodies are zombies, and no longer count for anything. For one more there is no room:
 * it keeps what it has (its slot, its lease) until a zombie has settled; whoever has waited longest
 * is next. O(1).
 */
export class Zombies<B, R extends ZombieRecord> {
  readonly max: number
  readonly #describe: (body: B) => R
  readonly #zombies = new Map<B, R>()
  readonly #held = new Map<B, R>()

  /** `describe` is asked when the grace of a body is over. */
  constructor(max: number, describe: (body: B) => R) {
    this.max = max
    this.#describe = describe
  }

  get size(): number {
    return this.#zombies.size
  }

  /** With so many of them, nothing new should start. */
  get isFull(): boolean {
    return this.#zombies.size > 0 && this.#zombies.size >= this.max
  }

  has(body: B): boolean {
    return this.#zombies.has(body)
  }

  list(): R[] {
    return [...this.#zombies.values()]
  }

  entries(): (readonly [B, R])[] {
    return [...this.#zombies]
  }

  /** Those for whom there is no room, who has waited longest first. */
  held(): B[] {
    return [...this.#held.keys()]
  }

  /** The grace of that body is over. True: it is a zombie; false: it is held back. */
  add(body: B): boolean {
    const isZombie = this.#zombies.size < this.max
    const group = isZombie ? this.#zombies : this.#held
    group.set(body, this.#describe(body))
    return isZombie
  }

  /** That body has settled at last. Answers who no longer needs what it has kept, if anybody. */
  remove(body: B): B | undefined {
    if (this.#held.delete(body)) return body
    this.#zombies.delete(body)
    for (const [next, record] of this.#held) {
      this.#held.delete(next)
      this.#zombies.set(next, record)
      return next
    }
    return undefined
  }
}
