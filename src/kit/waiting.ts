// Owns the calls that wait for a slot of a limiter, and how each of them leaves.
// May never start one, or lose one: who leaves without being handed out has been rejected.

import { showMs } from '../core/duration.ts'
import { AxError } from '../core/errors.ts'
import { Contextual } from './context.ts'
import { Fifo } from './fifo.ts'
import { Heap } from './heap.ts'
import { Levels } from './levels.ts'
import type { Runtime, Timer } from './runtime.ts'
import { Signals } from './signals.ts'

/** On what terms a call waits. */
export interface Terms {
  readonly priority: number
  readonly signal: AbortSignal | undefined
  /** How long it is ready to wait; Infinity: for ever. */
  readonly patienceMs: number
}

/** A call that waits, and the async context it was made in. */
export class Entry extends Contextual {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  readonly priority: number
  readonly signal: AbortSignal | undefined
  readonly patienceMs: number
  /** Where the heap of deadlines has it; -1 without one. */
  index = -1
  /** In the queue; until then it waits for room in it. */
  queued = false
  gone = false
  #task: (() => unknown) | undefined

  constructor(
    task: () => unknown,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
    terms: Terms,
  ) {
    super()
    this.#task = task
    this.resolve = resolve
    this.reject = reject
    this.priority = terms.priority
    this.signal = terms.signal
    this.patienceMs = terms.patienceMs
  }

  /** The task, which this entry does not hold on to any longer. */
  release(): (() => unknown) | undefined {
    const task = this.#task
    this.#task = undefined
    return task
  }
}

/** Rings are swept when they hold this many more dropped calls than waiting ones. */
const SLACK = 64

/**
 * A queue by priority with room for `maxQueue` calls, and a lobby, first in, first out, for those
 * who wait for that room. A call that is dropped (its signal, its time, `clear`) takes no room
 * from that moment; its empty entry stays in its ring until it is met or swept: O(1) amortised.
 */
export class WaitingRoom {
  readonly #maxQueue: number
  readonly #runtime: Runtime
  readonly #onDrop: () => void
  readonly #queue = new Levels<Entry>()
  readonly #lobby = new Fifo<Entry>()
  #queued = 0
  #lobbied = 0
  #dropped = 0
  readonly #signals = new Signals<Entry>((entry, reason) => this.#drop(entry, reason))
  readonly #deadlines = new Heap<Entry>((entry, index) => {
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

  /** Takes a call in; it is rejected with `ENQUEUE_TIMEOUT` when its patience is at an end. */
  add(entry: Entry): void {
    if (this.full) {
      this.#lobby.push(entry)
      this.#lobbied += 1
    } else this.#enqueue(entry)
    if (entry.signal !== undefined) this.#signals.add(entry.signal, entry)
    if (entry.patienceMs === Number.POSITIVE_INFINITY) return
    this.#sequence += 1
    const deadline = this.#runtime.monotonic() + entry.patienceMs
    this.#deadlines.push(entry, deadline, this.#sequence)
    this.#arm()
  }

  /** Hands out the call that is next, if there is one. */
  next(): Entry | undefined {
    if (this.size === 0) return undefined
    for (;;) {
      // The lobby is asked directly only if the queue has no room at all (maxQueue 0).
      const entry = (this.#queue.shift() ?? this.#lobby.shift()) as Entry
      if (!entry.gone) {
        this.#leave(entry)
        return entry
      }
      this.#dropped -= 1
    }
  }

  /** Rejects every call with `error`; answers how many. */
  clear(error: unknown): number {
    const all = [...this.#queue.takeAll(), ...this.#lobby].filter((entry) => !entry.gone)
    this.#lobby.clear()
    this.#dropped = 0
    this.#queued = 0
    this.#lobbied = 0
    this.#deadlines.clear()
    this.#disarm()
    for (const entry of all) {
      this.#finish(entry)
      entry.release()
      entry.reject(error)
    }
    this.#onDrop()
    return all.length
  }

  #enqueue(entry: Entry): void {
    entry.queued = true
    this.#queue.push(entry.priority, entry)
    this.#queued += 1
  }

  /** Takes a call out of all the books but its ring, and lets the lobby move up. */
  #leave(entry: Entry): void {
    if (entry.queued) this.#queued -= 1
    else this.#lobbied -= 1
    if (entry.index >= 0) {
      this.#deadlines.remove(entry.index)
      if (this.#deadlines.size === 0) this.#disarm()
    }
    this.#finish(entry)
    while (this.#lobbied > 0 && !this.full) this.#admit(this.#lobby.shift() as Entry)
  }

  #finish(entry: Entry): void {
    entry.gone = true
    if (entry.signal !== undefined) this.#signals.delete(entry.signal, entry)
  }

  #admit(entry: Entry): void {
    if (entry.gone) {
      this.#dropped -= 1
      return
    }
    this.#lobbied -= 1
    this.#enqueue(entry)
  }

  #drop(entry: Entry, error: unknown): void {
    this.#dropped += 1
    this.#leave(entry)
    entry.release()
    entry.reject(error)
    if (this.#dropped > this.size + SLACK) this.#sweep()
    this.#onDrop()
  }

  #sweep(): void {
    const live = (entry: Entry) => !entry.gone
    const lobby = [...this.#lobby].filter(live)
    for (const entry of this.#queue.takeAll().filter(live)) {
      this.#queue.push(entry.priority, entry)
    }
    this.#lobby.clear()
    for (const entry of lobby) this.#lobby.push(entry)
    this.#dropped = 0
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
      const entry = this.#deadlines.peek() as Entry
      this.#drop(entry, expired(entry.patienceMs, this.size - 1))
    }
    this.#arm()
  }
}

function expired(waitedMs: number, waiting: number): AxError {
  return new AxError(
    'ENQUEUE_TIMEOUT',
    `The call waited ${showMs(waitedMs)} for a slot and never started.`,
    { waitedMs, waiting },
  )
}
