// Owns the calls that wait for a slot of a limiter, and how each of them leaves.
// May never start one, or lose one: who leaves without being handed out has been rejected.

import { type Context, contextOf, nobody } from './context.ts'
import { Deadlines, type Timed } from './deadlines.ts'
import { type Guest, Lineup, type Place } from './lineup.ts'
import type { Waiter } from './nested/graph.ts'
import { enqueueTimeout } from './refusals.ts'
import type { Runtime } from './runtime.ts'
import { Signals } from './signals.ts'

/** On what terms a call waits. Calls that differ in nothing share theirs. */
export class Terms {
  readonly priority: number
  readonly signal: AbortSignal | undefined
  /** How long it is ready to wait; Infinity: for ever. */
  readonly patienceMs: number
  /** The async context of the caller. */
  readonly context: Context
  /** Whether something else than a slot can end the wait (beside `clear`). */
  readonly loose: boolean

  constructor(
    priority: number,
    signal: AbortSignal | undefined,
    patienceMs: number,
    context: Context = nobody,
  ) {
    this.priority = priority
    this.signal = signal
    this.patienceMs = patienceMs
    this.context = context
    this.loose = signal !== undefined || patienceMs !== Number.POSITIVE_INFINITY
  }
}

/**
 * A call that waits, in the terms and the async context it was made in. There may be a million
 * of these: 64 bytes each, beside the promise (232 with its two functions) and the task.
 */
export class Entry implements Waiter, Guest {
  /** Undefined once it has been started or dropped. */
  task: (() => unknown) | undefined
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
  readonly terms: Terms
  place: Place = 'nowhere'

  constructor(
    task: () => unknown,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
    terms: Terms,
  ) {
    this.task = task
    this.resolve = resolve
    this.reject = reject
    this.terms = terms
  }

  get priority(): number {
    return this.terms.priority
  }
}

/** One that can leave by itself. */
class LooseEntry extends Entry implements Timed {
  index = -1
}

/** One without a promise of its own: somebody else tells who waits, and for what. */
export class Ticket extends Entry {}

let resolveNext: (value: unknown) => void
let rejectNext: (error: unknown) => void

/** Made once, not per call: it hands out what it is given through the two variables above. */
const keep = (resolve: (value: unknown) => void, reject: (error: unknown) => void): void => {
  resolveNext = resolve
  rejectNext = reject
}

/**
 * The calls that wait: for a slot, and before that for room in the queue. A call that is dropped
 * (its signal, its time, `clear`) takes no room from that moment. O(1), and O(log n) where calls
 * differ in how long they are ready to wait.
 */
export class WaitingRoom {
  readonly #onDrop: () => void
  readonly #lineup: Lineup<Entry>
  readonly #signals = new Signals<LooseEntry>((entry, reason) => this.drop(entry, reason))
  readonly #deadlines: Deadlines<LooseEntry>

  /** `onDrop` is called after a call has left without being handed out. */
  constructor(maxQueue: number, runtime: Runtime, onDrop: () => void) {
    this.#lineup = new Lineup(maxQueue)
    this.#onDrop = onDrop
    this.#deadlines = new Deadlines(runtime, (entry) => {
      this.drop(entry, enqueueTimeout(entry.terms.patienceMs, this.size - 1))
    })
  }

  /** Calls in the queue and in the lobby. */
  get size(): number {
    return this.#lineup.size
  }

  /** Whether the next one would have to wait in the lobby. */
  get isFull(): boolean {
    return this.#lineup.isFull
  }

  /**
   * Takes a call in and promises its result; it is rejected with `ENQUEUE_TIMEOUT` when its
   * patience is at an end.
   */
  add(task: () => unknown, terms: Terms): Promise<unknown> {
    const promise = new Promise(keep)
    const context = contextOf(promise)
    const own = context === nobody ? terms : inContext(terms, context)
    if (terms.loose) this.#addLoose(new LooseEntry(task, resolveNext, rejectNext, own))
    else this.#lineup.join(new Entry(task, resolveNext, rejectNext, own))
    return promise
  }

  /** Takes in somebody who needs no promise. */
  admit(task: () => unknown, reject: (error: unknown) => void, terms: Terms): Ticket {
    const ticket = new Ticket(task, nothing, reject, terms)
    this.#lineup.join(ticket)
    return ticket
  }

  /** Hands out the call that is next, if there is one. */
  next(): Entry | undefined {
    const entry = this.#lineup.next()
    if (entry?.terms.loose) this.#finish(entry as LooseEntry)
    return entry
  }

  /** Rejects every call with `error`; answers how many. */
  clear(error: unknown): number {
    // All of them are gone before the first one hears of it, and nobody is let in meanwhile.
    const all = this.#lineup.takeAll()
    for (const entry of all) this.#forget(entry)
    for (const entry of all) entry.reject(error)
    this.#onDrop()
    return all.length
  }

  /** Rejects a call that waits; one that has left is not touched. */
  drop(entry: Entry, error: unknown): void {
    if (!this.withdraw(entry)) return
    entry.reject(error)
    this.#onDrop()
  }

  /** Takes a call out without a word; false if it has left. */
  withdraw(entry: Entry): boolean {
    if (!this.#lineup.leave(entry)) return false
    this.#forget(entry)
    return true
  }

  /** Of those who wait at most `most`: the newest (of a priority), and those who are next. */
  some(most: number): Iterable<Entry> {
    return this.#lineup.some(most)
  }

  #addLoose(entry: LooseEntry): void {
    this.#lineup.join(entry)
    const { signal, patienceMs } = entry.terms
    if (signal !== undefined) this.#signals.add(signal, entry)
    this.#deadlines.set(entry, patienceMs)
  }

  /** It will not be run; it may stand in its ring for a while. */
  #forget(entry: Entry): void {
    entry.task = undefined
    if (entry.terms.loose) this.#finish(entry as LooseEntry)
  }

  /** Takes a call that has left its line out of the other books. */
  #finish(entry: LooseEntry): void {
    if (entry.index >= 0) this.#deadlines.drop(entry)
    if (entry.terms.signal !== undefined) this.#signals.delete(entry.terms.signal, entry)
  }
}

function inContext({ priority, signal, patienceMs }: Terms, context: Context): Terms {
  return new Terms(priority, signal, patienceMs, context)
}

function nothing(): void {}
