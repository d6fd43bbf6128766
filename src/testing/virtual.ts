// Owns a runtime whose time passes only when a test says so, and whose chance is drawn from a
// seed: the same seed and the same calls give the same order of events, always.
// May never look at the real clock, or use real timers except to let promises settle.

import { outside } from '../kit/context.ts'
import { Fifo } from '../kit/fifo.ts'
import { Heap } from '../kit/heap.ts'
import { type Runtime, systemRuntime, type Timer } from '../kit/runtime.ts'

export interface VirtualRuntime extends Runtime {
  /**
   * Lets `ms` milliseconds pass: runs everything that is due on the way, in order, and lets
   * promises settle after each event. Rejects if a callback throws.
   */
  advance(ms: number): Promise<void>
  /**
   * Lets time pass until `until()` is true (asked after each event), or nothing is left that
   * would keep a process alive, or `maxMs` (default Infinity) have passed.
   */
  run(until?: () => boolean, maxMs?: number): Promise<void>
  /** Moves the wall clock, and nothing else, by `ms`, back if negative. */
  jump(ms: number): void
  /** Lets all promise reactions run that can, without letting time pass. */
  drain(): Promise<void>
  /** Timers that are set and would keep a process alive. */
  pending(): number
}

/** What the wall clock shows at first: the first of January 2025, UTC. */
const EPOCH = 1_735_689_600_000

/** Events at one instant; more than this is a loop that no passing of time would end. */
const MAX_EVENTS_AT_ONCE = 1_000_000

interface Event {
  readonly run: () => void
  readonly ref: boolean
  /** Where the heap has it; -1 when it has fired, is about to, or was cancelled. */
  index: number
  done: boolean
}

/**
 * Virtual time, from 0 on the monotonic clock. One turn is like one of Node's event loop: first
 * the timers that are due, by time and then in the order they were set, then what `soon` was
 * given; a timer of zero length that is set in a turn fires in the next.
 */
export function virtualRuntime(seed: number): VirtualRuntime {
  return new Virtual(seed)
}

class Virtual implements VirtualRuntime {
  readonly #random: () => number
  readonly #timers = new Heap<Event>((event, index) => {
    event.index = index
  })
  readonly #soon: Event[] = []
  /** What the present phase of the present turn has left. */
  readonly #due = new Fifo<Event>()
  #now = 0
  #wall = EPOCH
  #sequence = 0
  #pending = 0
  #timersTurn = false
  #busy = false
  #events = 0

  constructor(seed: number) {
    this.#random = sfc32(seed)
  }

  now(): number {
    return this.#wall + this.#now
  }

  monotonic(): number {
    return this.#now
  }

  random(): number {
    return this.#random()
  }

  after(ms: number, run: () => void, options?: { ref?: boolean }): Timer {
    const event = { run, ref: options?.ref !== false, index: -1, done: false }
    if (ms === Number.POSITIVE_INFINITY) return { cancel() {} }
    this.#sequence += 1
    this.#timers.push(event, this.#now + Math.max(0, ms), this.#sequence)
    if (event.ref) this.#pending += 1
    return { cancel: () => this.#cancel(event) }
  }

  soon(run: () => void): void {
    this.#soon.push({ run, ref: false, index: -1, done: false })
  }

  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    await this.#exclusively(() => this.#pass(end, () => false))
  }

  async run(until: () => boolean = () => false, maxMs = Number.POSITIVE_INFINITY): Promise<void> {
    const end = this.#now + maxMs
    const over = () => until() || (this.#pending === 0 && this.#idle())
    await this.#exclusively(() => this.#pass(end, over))
  }

  jump(ms: number): void {
    this.#wall += ms
  }

  drain(): Promise<void> {
    return new Promise((resolve) => systemRuntime.soon(resolve))
  }

  pending(): number {
    return this.#pending
  }

  #cancel(event: Event): void {
    if (event.done) return
    if (event.index >= 0) this.#timers.remove(event.index)
    this.#finish(event)
  }

  #finish(event: Event): void {
    event.done = true
    if (event.ref) this.#pending -= 1
  }

  async #exclusively(work: () => Promise<void>): Promise<void> {
    if (this.#busy) throw new Error('virtual time is passing already; await the call before')
    this.#busy = true
    try {
      await work()
    } finally {
      this.#busy = false
    }
  }

  async #pass(end: number, over: () => boolean): Promise<void> {
    await this.drain()
    while (!over()) {
      const event = this.#next()
      if (event !== undefined) {
        this.#finish(event)
        outside(event.run)
        await this.drain()
        continue
      }
      const time = Math.min(this.#timers.peekKey(), end)
      if (time === Number.POSITIVE_INFINITY) return
      if (time <= this.#now && this.#timers.peekKey() > end) return
      this.#now = time
      this.#events = 0
    }
  }

  #idle(): boolean {
    return this.#due.size === 0 && this.#soon.length === 0
  }

  /** The next event at this instant, if there is one. */
  #next(): Event | undefined {
    for (let phase = 0; phase <= 2; phase += 1) {
      while (this.#due.size > 0) {
        const event = this.#due.shift() as Event
        if (!event.done) return this.#counted(event)
      }
      this.#timersTurn = !this.#timersTurn
      if (this.#timersTurn) {
        while (this.#timers.peekKey() <= this.#now) this.#due.push(this.#timers.pop() as Event)
      } else for (const event of this.#soon.splice(0)) this.#due.push(event)
    }
    return undefined
  }

  #counted(event: Event): Event {
    this.#events += 1
    if (this.#events <= MAX_EVENTS_AT_ONCE) return event
    throw new Error(`${MAX_EVENTS_AT_ONCE} events at one instant: virtual time stands still`)
  }
}

/**
 * The generator sfc32 of Chris Doty-Humphrey (PractRand): 128 bits of state, small and fast, and
 * good enough for tests. As there, the first dozen numbers are thrown away.
 */
function sfc32(seed: number): () => number {
  let a = seed | 0
  let b = Math.floor(seed / 2 ** 32) | 0
  let c = 0x9e3779b9 | 0
  let counter = 1
  const next = () => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return (sum >>> 0) / 2 ** 32
  }
  for (let i = 0; i < 12; i += 1) next()
  return next
}
