// Owns jobs that run again after a failure or a timeout, until their time and the budget let them.
// May never hold anything else back: first attempts, revivals, lost and returned jobs go on.

import { allowance, carried, freeAt, type RateTerms, taken } from '../../core/gcra.ts'
import { isBefore } from '../../core/rank.ts'
import { Heap } from '../../kit/heap.ts'
import { LIMITS } from '../limits.ts'
import type { JobRecord } from './record.ts'

/**
 * Two heaps: by the instant at which a retry is due, and, for those that are due and wait for the
 * budget, by (rank, seq). Their rank is that of the instant they are due, so it is known from the
 * beginning, and each moves from the one to the other once. O(log n).
 */
export class Retries {
  readonly due = inOneHeap()
  readonly #held = inOneHeap()
  #terms: RateTerms | null = null
  /** The state of the budget, see gcra.ts. */
  #tat = 0

  get terms(): RateTerms | null {
    return this.#terms
  }

  set(terms: RateTerms | null, now: number): void {
    this.#tat = carried(this.#terms, terms, this.#tat, now)
    this.#terms = terms
  }

  /** A job that will run again. It has the rank of the instant at which it is due. */
  add(record: JobRecord): void {
    record.rare.again = 'due'
    this.due.push(record, record.availableAt, record.seq)
  }

  remove(record: JobRecord): void {
    const heap = record.has.again === 'held' ? this.#held : this.due
    heap.remove(record.at)
    record.rare.again = 'no'
  }

  /** Its rank has changed. */
  ranked(record: JobRecord): void {
    if (record.has.again === 'held') this.#held.update(record.at, record.rank, record.seq)
  }

  /** The first retry that is due, where there is no budget. */
  pop(): JobRecord {
    const record = this.due.pop() as JobRecord
    record.rare.again = 'no'
    return record
  }

  /** There is no budget any more: whoever it held only waits for the clock, as before it. */
  letGo(): void {
    for (let count = 0; count < LIMITS.chunk && this.#held.size > 0; count += 1) {
      this.add(this.#held.pop() as JobRecord)
    }
  }

  /** Those whose time has come stand in line for the budget. Changes nothing that shows. */
  hold(now: number): void {
    if (this.#terms === null) return
    for (let count = 0; count < LIMITS.chunk && this.due.peekKey() <= now; count += 1) {
      const record = this.due.pop() as JobRecord
      record.rare.again = 'held'
      this.#held.push(record, record.rank, record.seq)
    }
  }

  /**
   * Takes out as many of those that are due as the budget has now, the best first. Nobody as long
   * as not all who are due stand in line: one who comes late may be the best.
   */
  release(now: number): readonly JobRecord[] {
    const terms = this.#terms
    if (terms === null || this.#held.size === 0 || this.due.peekKey() <= now) return NOBODY
    const count = Math.min(allowance(terms, this.#tat, now), this.#held.size, LIMITS.chunk)
    this.#tat = taken(terms, this.#tat, now, count)
    return Array.from({ length: count }, () => {
      const record = this.#held.pop() as JobRecord
      record.rare.again = 'no'
      return record
    })
  }

  /** When time alone lets the next one go. Infinity: there is none. */
  nextAt(now: number): number {
    const due = this.due.peekKey()
    if (this.#held.size === 0) return due
    return Math.min(due, this.#terms === null ? now : Math.max(now, freeAt(this.#terms, this.#tat)))
  }

  /** How many wait for the budget. O(those that are due and not in line yet). */
  waiting(now: number): number {
    if (this.#terms === null) return 0
    return this.#held.size + this.due.countBefore(now, LAST, this.due.size)
  }

  /** When the budget lets this one go at the earliest, those before it first; 0 if it does now. */
  freeAt(record: JobRecord, now: number): number {
    const terms = this.#terms
    if (terms === null || record.has.again === 'no' || record.availableAt > now) return 0
    const { rank, seq } = record
    const isBetter = (each: JobRecord) => isBefore(each.rank, each.seq, rank, seq)
    const inLine = this.#held.countBefore(rank, seq, LIMITS.position)
    const others = this.due.countBefore(now, LAST, LIMITS.position, isBetter)
    const ahead = Math.min(inLine + others, LIMITS.position)
    const tat = Math.max(this.#tat, now * 1_000) + ahead * terms.intervalUs
    const at = freeAt(terms, tat)
    return at > now ? at : 0
  }
}

const NOBODY: readonly JobRecord[] = Object.freeze([])

/** After every seq. */
const LAST = Number.POSITIVE_INFINITY

function inOneHeap(): Heap<JobRecord> {
  return new Heap<JobRecord>((record, index) => {
    record.at = index
  })
}
