// Owns who waits for a slot, in which order, and who waits for room among those.
// May never let anybody overtake, lose one, or hand out one that has left.

import { Fifo } from './fifo.ts'
import { Levels } from './levels.ts'
import { some } from './nested/some.ts'

/** Where somebody waits. `parked`: not here yet, for something else than a slot. */
export type Place = 'nowhere' | 'queue' | 'lobby' | 'parked'

export interface Guest {
  /** From 0 below `LEVELS`, larger first. */
  readonly priority: number
  /** 'queue' and 'lobby' are kept by the lineup, which leaves 'nowhere' behind. */
  place: Place
}

/** Rings are swept when they hold this many more of those that have left than of others. */
const SLACK = 64

/**
 * A queue by priority with room for `maxQueue` guests, and a lobby, first in, first out, for those
 * who wait for that room. Who leaves takes no room from that moment, but stands in his ring until
 * his turn comes or the ring is swept: so nobody who has left may come back. O(1), amortised.
 */
export class Lineup<T extends Guest> {
  readonly #maxQueue: number
  readonly #queue = new Levels<T>()
  readonly #lobby = new Fifo<T>()
  #queued = 0
  #lobbied = 0
  /** Those that have left, but stand in their ring still. */
  #gone = 0

  constructor(maxQueue: number) {
    this.#maxQueue = maxQueue
  }

  /** Guests in the queue and in the lobby. */
  get size(): number {
    return this.#queued + this.#lobbied
  }

  /** Whether the next one would have to wait in the lobby. */
  get isFull(): boolean {
    return this.#queued >= this.#maxQueue
  }

  /** Takes in a guest: into the queue, if there is room. (While there is, the lobby is empty.) */
  join(guest: T): void {
    if (this.#queued < this.#maxQueue) this.enqueue(guest)
    else {
      guest.place = 'lobby'
      this.#lobby.push(guest)
      this.#lobbied += 1
    }
  }

  /** Takes in a guest who need not wait for room. */
  enqueue(guest: T): void {
    guest.place = 'queue'
    this.#queue.push(guest.priority, guest)
    this.#queued += 1
  }

  /** Hands out the guest who is next, if there is one. */
  next(): T | undefined {
    while (this.#queued + this.#lobbied > 0) {
      // The lobby is asked directly only if the queue has no room at all (maxQueue 0).
      const guest = this.#queue.shift() ?? (this.#lobby.shift() as T)
      if (guest.place === 'nowhere') {
        this.#gone -= 1
        continue
      }
      this.#count(guest)
      if (this.#lobbied > 0) this.#admit()
      return guest
    }
    return undefined
  }

  /** Takes out a guest from wherever he stands; false if he has left already. */
  leave(guest: T): boolean {
    if (guest.place === 'nowhere') return false
    this.#count(guest)
    this.#gone += 1
    if (this.#gone > this.size + SLACK) this.#sweep()
    if (this.#lobbied > 0) this.#admit()
    return true
  }

  /** Takes out everyone, in order: those in the lobby last. */
  takeAll(): T[] {
    const all = [...this.#queue.takeAll(), ...this.#lobby].filter(isHere)
    this.#lobby.clear()
    this.#gone = 0
    this.#queued = 0
    this.#lobbied = 0
    for (const guest of all) guest.place = 'nowhere'
    return all
  }

  /** Of those who wait at most `most`: the newest (of a priority), and those who are next. */
  some(most: number): Iterable<T> {
    return some(this.size, most, this.#newest(), this.#front())
  }

  *#newest(): IterableIterator<T> {
    for (const guest of this.#lobby.backwards()) if (isHere(guest)) yield guest
    for (const guest of this.#queue.backwards()) if (isHere(guest)) yield guest
  }

  *#front(): IterableIterator<T> {
    for (const guest of this.#queue) if (isHere(guest)) yield guest
    for (const guest of this.#lobby) if (isHere(guest)) yield guest
  }

  /** Somebody goes. */
  #count(guest: T): void {
    if (guest.place === 'queue') this.#queued -= 1
    else this.#lobbied -= 1
    guest.place = 'nowhere'
  }

  /** Lets those in the lobby move up. */
  #admit(): void {
    while (this.#lobbied > 0 && this.#queued < this.#maxQueue) {
      const guest = this.#lobby.shift() as T
      if (isHere(guest)) {
        this.#lobbied -= 1
        this.enqueue(guest)
      } else this.#gone -= 1
    }
  }

  #sweep(): void {
    const lobby = [...this.#lobby]
    this.#lobby.clear()
    for (const guest of this.#queue.takeAll()) {
      if (isHere(guest)) this.#queue.push(guest.priority, guest)
    }
    for (const guest of lobby) if (isHere(guest)) this.#lobby.push(guest)
    this.#gone = 0
  }
}

function isHere({ place }: Guest): boolean {
  return place !== 'nowhere'
}
