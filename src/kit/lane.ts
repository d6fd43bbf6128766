// Owns one body of a map at a time, in a slot that the map has got for it.
// May never decide what comes next: the map hears of each end, with the slot still held.

import { type Context, enter } from './context.ts'
import { Berth } from './nested/trace.ts'
import { Failure } from './results.ts'
import { attempt, listen } from './slot.ts'

/** The map that a lane belongs to. */
export interface LaneOwner<I, O, C> {
  /** The async context of whoever called for the map: bodies see it. */
  readonly caller: Context
  /** What every body is handed. */
  readonly context: C
  readonly fn: (item: I, index: number, context: C) => unknown
  /** A body has ended. */
  settle(lane: Lane<I, O, C>, result: O | Failure): void
  /** The slot is kept: on with the next item. */
  advance(lane: Lane<I, O, C>): void
}

/** Reused for one item after another, so that its functions are made once and not per item. */
export class Lane<I, O, C> extends Berth {
  readonly #owner: LaneOwner<I, O, C>
  index = 0
  /** Ends its stay in the slot it was given by a ticket; undefined: the slot was taken. */
  leave: (() => void) | undefined
  #item: I | undefined

  constructor(owner: LaneOwner<I, O, C>) {
    super()
    this.#owner = owner
  }

  start(item: I, index: number): void {
    this.#item = item
    this.index = index
    this.busy = true
    enter(this.#owner.caller, this.#begin)
  }

  readonly again = (): void => enter(this.#owner.caller, this.#goOn)

  readonly #goOn = (): void => this.#owner.advance(this)

  readonly #begin = (): void => {
    this.end = listen(attempt(this.#run), this.#succeed, this.#fail)
  }

  readonly #run = (): unknown => {
    const item = this.#item as I
    this.#item = undefined
    return this.#owner.fn(item, this.index, this.#owner.context)
  }

  readonly #succeed = (value: unknown): void => this.#owner.settle(this, value as O)
  readonly #fail = (error: unknown): void => this.#owner.settle(this, new Failure(error))
}
