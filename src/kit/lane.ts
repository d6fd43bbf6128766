// Owns one body of a map at a time, in a slot that the map has got for it.
// May never decide what comes next: the map hears of each end, with the slot still held.

import { Berth } from './nested/trace.ts'

/** The map that a lane belongs to. */
export interface LaneOwner {
  /** Where the bodies of its limiter run: the lanes of a map are among them. */
  readonly berths: Set<Berth>
  /** A body has ended well. */
  settle(lane: Lane, value: unknown): void
  /** A body has failed. */
  fault(lane: Lane, error: unknown): void
  /** The slot is kept: on with the next item. */
  advance(lane: Lane): void
}

/** Reused for one item after another, so that its functions are made once and not per item. */
export class Lane extends Berth {
  readonly #owner: LaneOwner
  index = 0
  /** Ends its stay in the slot it was given by a ticket; undefined: the slot was taken. */
  leave: (() => void) | undefined = undefined

  constructor(owner: LaneOwner) {
    super()
    this.#owner = owner
  }

  readonly succeed = (value: unknown): void => this.#owner.settle(this, value)
  readonly fail = (error: unknown): void => this.#owner.fault(this, error)
  readonly again = (): void => this.#owner.advance(this)
}

/** All lanes of one map, the idle ones to be used again. O(1). */
export class Lanes {
  readonly all: Lane[] = []
  readonly #idle: Lane[] = []
  readonly #owner: LaneOwner

  constructor(owner: LaneOwner) {
    this.#owner = owner
  }

  take(): Lane {
    return this.#idle.pop() ?? this.#make()
  }

  put(lane: Lane): void {
    this.#idle.push(lane)
  }

  /** Nothing runs any more, and nothing will: nobody need look at them. */
  forget(): void {
    for (const lane of this.all) this.#owner.berths.delete(lane)
  }

  #make(): Lane {
    const lane = new Lane(this.#owner)
    this.all.push(lane)
    this.#owner.berths.add(lane)
    return lane
  }
}
