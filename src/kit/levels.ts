// Owns a queue with a few levels of urgency, first in, first out within each.
// May never know what makes something urgent, or how long it has waited.

import { Fifo } from './fifo.ts'

/** Levels are integers from 0 below this. */
export const LEVELS = 128

/** What can stand in a line: it carries its own place, and is in one line at a time. */
export interface Linked<T> {
  before: T | undefined
  after: T | undefined
}

/**
 * Values in a row, first in, first out; each can leave from anywhere. Everything is O(1).
 *
 * The links are in the values: 16 bytes a value, where a ring takes 8 to 16 and has to keep the
 * places of those who left from the middle until somebody sweeps them up.
 */
export class Line<T extends Linked<T>> {
  #first: T | undefined
  #last: T | undefined

  get empty(): boolean {
    return this.#first === undefined
  }

  push(value: T): void {
    const last = this.#last
    if (last === undefined) this.#first = value
    else {
      last.after = value
      value.before = last
    }
    this.#last = value
  }

  /** Takes the first one out, or answers undefined when there is none. */
  shift(): T | undefined {
    const value = this.#first
    if (value === undefined) return undefined
    const next = value.after
    this.#first = next
    if (next === undefined) this.#last = undefined
    else {
      next.before = undefined
      // A value must not hold on to all who came after it.
      value.after = undefined
    }
    return value
  }

  /** Takes out a value that is in this line. */
  remove(value: T): void {
    const { before, after } = value
    if (before === undefined) this.#first = after
    else before.after = after
    if (after === undefined) this.#last = before
    else after.before = before
    value.before = undefined
    value.after = undefined
  }

  /** From the last to the first. The line must not be changed meanwhile. */
  *backwards(): IterableIterator<T> {
    for (let value = this.#last; value !== undefined; value = value.before) yield value
  }
}

/**
 * Values by level, the highest first, the oldest first among equals. Everything is O(1): a line
 * per level, and one bit per level that says whether its line holds anything.
 *
 * Not a heap: with a hundred levels the order needs no comparison at all.
 */
export class Levels<T extends Linked<T>> {
  readonly #lines: (Line<T> | undefined)[] = new Array<Line<T> | undefined>(LEVELS).fill(undefined)
  readonly #busy = new Int32Array(LEVELS / 32)

  push(level: number, value: T): void {
    let line = this.#lines[level]
    if (line === undefined) {
      line = new Line()
      this.#lines[level] = line
    }
    line.push(value)
    this.#busy[level >> 5] = (this.#busy[level >> 5] as number) | (1 << (level & 31))
  }

  /** Takes out the oldest value of the highest level, or answers undefined when all are empty. */
  shift(): T | undefined {
    for (let at = this.#busy.length - 1; at >= 0; at -= 1) {
      const bits = this.#busy[at] as number
      if (bits === 0) continue
      const bit = 31 - Math.clz32(bits)
      const line = this.#lines[at * 32 + bit] as Line<T>
      const value = line.shift()
      if (line.empty) this.#busy[at] = bits & ~(1 << bit)
      return value
    }
    return undefined
  }

  /** Takes out a value that was pushed with this level and is still here. */
  remove(level: number, value: T): void {
    const line = this.#lines[level] as Line<T>
    line.remove(value)
    if (!line.empty) return
    this.#busy[level >> 5] = (this.#busy[level >> 5] as number) & ~(1 << (level & 31))
  }

  /** From the lowest level to the highest, and the newest first in each. */
  *backwards(): IterableIterator<T> {
    for (const line of this.#lines) if (line !== undefined) yield* line.backwards()
  }
}

/**
 * As `Levels`, for very many values: a ring per level, in 8 to 16 bytes a value, and nothing in
 * the values themselves. They leave from the front only; who leaves otherwise is left in place.
 *
 * A million values in lines keep the garbage collector from sharing its work: with 200,000 calls
 * queued, its longest pause was 77 ms, against 12 with rings.
 */
export class RingLevels<T> {
  readonly #rings: (Fifo<T> | undefined)[] = new Array<Fifo<T> | undefined>(LEVELS).fill(undefined)
  readonly #busy = new Int32Array(LEVELS / 32)

  push(level: number, value: T): void {
    let ring = this.#rings[level]
    if (ring === undefined) {
      ring = new Fifo()
      this.#rings[level] = ring
    }
    ring.push(value)
    this.#busy[level >> 5] = (this.#busy[level >> 5] as number) | (1 << (level & 31))
  }

  /** Takes out the oldest value of the highest level, or answers undefined when all are empty. */
  shift(): T | undefined {
    for (let at = this.#busy.length - 1; at >= 0; at -= 1) {
      const bits = this.#busy[at] as number
      if (bits === 0) continue
      const bit = 31 - Math.clz32(bits)
      const ring = this.#rings[at * 32 + bit] as Fifo<T>
      const value = ring.shift()
      if (ring.size === 0) this.#busy[at] = bits & ~(1 << bit)
      return value
    }
    return undefined
  }

  /** Takes everything out, in order. */
  takeAll(): T[] {
    const all: T[] = []
    for (let at = LEVELS - 1; at >= 0; at -= 1) {
      for (const value of this.#rings[at] ?? []) all.push(value)
      this.#rings[at] = undefined
    }
    this.#busy.fill(0)
    return all
  }

  /** From the lowest level to the highest, and the newest first in each. */
  *backwards(): IterableIterator<T> {
    for (const ring of this.#rings) if (ring !== undefined) yield* ring.backwards()
  }
}
