// Owns the calls that wait for a slot of a limiter, and how each of them leaves.
// May never start one, or lose one: who leaves without being handed out has been rejected.

import { type Context, contextOf, nobody } from './context.ts'
import { Fifo } from './fifo.ts'
import { Heap } from './heap.ts'
import { RingLevels } from './levels.ts'
import type { Waiter } from './nested/graph.ts'
import { enqueueTimeout } from './refusals.ts'
import type { Runtime, Timer } from './runtime.ts'
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
 * of these: 56 bytes each, beside the promise (232 with its two functions) and the task.
 */
export class Entry implements Waiter {
  /** Undefined once it has been handed out or dropped. */
  task: (() => unknown) | undefined
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
  readonly terms: Terms

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
}

const LOBBY = 0
const QUEUED = 1

/** One that can leave from where it stands. */
class LooseEntry extends Entry {
  place = LOBBY
  /** Where the heap of deadlines has it; -1 without one. */
  index = -1
}

/** One without a promise of its own: somebody else tells who waits, and for what. */
export class Ticket extends Entry {}

/** Rings are swept when they hold this many more of those that have left than of others. */
const SLACK = 64

let resolveNext: (value: unknown) => void
let rejectNext: (error: unknown) => void

/** Made once, not per call: it hands out what it is given through the two variables above. */
const keep = (resolve: (value: unknown) => void, reject: (error: unknown) => void): void => {
  resolveNext = resolve
  rejectNext = reject
}

/**
 * A queue by priority with room for `maxQueue` calls, and a lobby, first in, first out, for those
 * who wait for that room. A call that is dropped (its signal, its time, `clear`) takes no room
 * from that moment. O(1), and O(log n) where calls differ in how long they are ready to wait.
 */
export class WaitingRoom {
  readonly #maxQueue: number
  readonly #runtime: Runtime
  readonly #onDrop: () => void
  readonly #queue = new RingLevels<Entry>()
  readonly #lobby = new Fifo<Entry>()
  #queued = 0
  #lobbied = 0
  /** Those that have left, but stand in their ring still. */
  #gone = 0
  readonly #signals = new Signals<LooseEntry>((entry, reason) => this.drop(entry, reason))
  readonly #deadlines = new Heap<LooseEntry>((entry, index) => {
    entry.index = index
  })
  #sequence = 0
  #timer: Timer | undefined
  #timerDue = Number.POSITIVE_INFINITY

  /** `onDrop` is called after a call has left without being handed out. */
  constructor(maxQueue: number, runtime: Runtime, onDrop: () => void) {
    this.#maxQueue = maxQueue
    this.#runtime = runtime
    this.#onDrop = onDrop
  }

  /** Calls in the queue and in the lobby. */
  get size(): number {
    return this.#queued + this.#lobbied
  }

  /** Whether the next one would have to wait in the lobby. */
  get full(): boolean {
    return this.#queued >= this.#maxQueue
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
    else this.#join(new Entry(task, resolveNext, rejectNext, own))
    return promise
  }

  /** Takes in somebody who needs no promise. */
  admit(task: () => unknown, reject: (error: unknown) => void, terms: Terms): Ticket {
    const ticket = new Ticket(task, nothing, reject, terms)
    this.#join(ticket)
    return ticket
  }

  /** Hands out the call that is next, if there is one. */
  next(): Entry | undefined {
    if (this.size === 0) return undefined
    for (;;) {
      let entry = this.#queue.shift()
      const isQueued = entry !== undefined
      // The lobby is asked directly only if the queue has no room at all (maxQueue 0).
      entry ??= this.#lobby.shift() as Entry
      if (entry.task === undefined) {
        this.#gone -= 1
        continue
      }
      if (isQueued) this.#queued -= 1
      else this.#lobbied -= 1
      if (entry.terms.loose) this.#finish(entry as LooseEntry)
      if (this.#lobbied > 0) this.#admit()
      return entry
    }
  }

  /** Rejects every call with `error`; answers how many. */
  clear(error: unknown): number {
    // All of them are gone before the first one hears of it, and nobody is let in meanwhile.
    const all = this.#takeAll()
    this.#queued = 0
    this.#lobbied = 0
    for (const entry of all) {
      entry.task = undefined
      if (entry.terms.loose) this.#finish(entry as LooseEntry)
    }
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
    if (entry.task === undefined) return false
    entry.task = undefined
    if (this.#isInLobby(entry)) this.#lobbied -= 1
    else this.#queued -= 1
    this.#gone += 1
    if (this.#gone > this.size + SLACK) this.#sweep()
    if (entry.terms.loose) this.#finish(entry as LooseEntry)
    this.#admit()
    return true
  }

  /** Those who wait, the newest first (of a priority). */
  *newest(): IterableIterator<Entry> {
    for (const entry of this.#lobby.backwards()) if (entry.task !== undefined) yield entry
    for (const entry of this.#queue.backwards()) if (entry.task !== undefined) yield entry
  }

  /** Only those that leave by themselves know; others are looked for. */
  #isInLobby(entry: Entry): boolean {
    if (entry.terms.loose) return (entry as LooseEntry).place === LOBBY
    for (const each of this.#lobby) if (each === entry) return true
    return false
  }

  #addLoose(entry: LooseEntry): void {
    this.#join(entry)
    const { signal, patienceMs } = entry.terms
    if (signal !== undefined) this.#signals.add(signal, entry)
    if (patienceMs === Number.POSITIVE_INFINITY) return
    this.#sequence += 1
    this.#deadlines.push(entry, this.#runtime.monotonic() + patienceMs, this.#sequence)
    this.#arm()
  }

  #join(entry: Entry): void {
    if (this.full) {
      this.#lobby.push(entry)
      this.#lobbied += 1
    } else this.#enqueue(entry)
  }

  #enqueue(entry: Entry): void {
    if (entry.terms.loose) (entry as LooseEntry).place = QUEUED
    this.#queue.push(entry.terms.priority, entry)
    this.#queued += 1
  }

  /** Takes out all who are there, in order. */
  #takeAll(): Entry[] {
    const all = [...this.#queue.takeAll(), ...this.#lobby]
    this.#lobby.clear()
    this.#gone = 0
    return all.filter((entry) => entry.task !== undefined)
  }

  #sweep(): void {
    const lobby = [...this.#lobby]
    this.#lobby.clear()
    for (const entry of this.#queue.takeAll()) {
      if (entry.task !== undefined) this.#queue.push(entry.terms.priority, entry)
    }
    for (const entry of lobby) if (entry.task !== undefined) this.#lobby.push(entry)
    this.#gone = 0
  }

  /** Lets those in the lobby move up. */
  #admit(): void {
    while (this.#lobbied > 0 && !this.full) {
      const entry = this.#lobby.shift() as Entry
      if (entry.task === undefined) {
        this.#gone -= 1
        continue
      }
      this.#lobbied -= 1
      this.#enqueue(entry)
    }
  }

  /** Takes a call that has left its line out of the other books. */
  #finish(entry: LooseEntry): void {
    if (entry.index >= 0) {
      this.#deadlines.remove(entry.index)
      if (this.#deadlines.size === 0) this.#disarm()
    }
    if (entry.terms.signal !== undefined) this.#signals.delete(entry.terms.signal, entry)
  }

  /** One timer for the earliest deadline; one that turns out to be early is set again. */
  #arm(): void {
    const due = this.#deadlines.peekKey()
    if (due >= this.#timerDue) return
    this.#timer?.cancel()
    this.#timerDue = due
    // A turn later: a slot may be about to be freed by I/O that came while the loop was blocked.
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
    while (this.#deadlines.peekKey() <= now) {
      const entry = this.#deadlines.peek() as LooseEntry
      this.drop(entry, enqueueTimeout(entry.terms.patienceMs, this.size - 1))
    }
    this.#arm()
  }
}

function inContext({ priority, signal, patienceMs }: Terms, context: Context): Terms {
  return new Terms(priority, signal, patienceMs, context)
}

function nothing(): void {}
