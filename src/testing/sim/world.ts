// Owns simulated time and the processes that live in it: one clock, many nodes, each with a wall
// clock of its own that may drift and jump, each able to stall and to die.
// May never touch a real clock, or run anything of a node that is dead.

import type { Runtime, Timer } from '../../kit/runtime.ts'
import { hashText, Random } from './random.ts'

/** When a simulation begins, on the store's clock, unless its plan says otherwise. */
export const EPOCH = 1_700_000_000_000

/** More events than this in one run mean that something spins. */
const MAX_EVENTS = 600_000

interface Event {
  time: number
  readonly seq: number
  readonly node: SimNode | null
  run: (() => void | Promise<void>) | null
}

/** What a run has done, line by line, and a hash of it: two runs of one seed agree on both. */
export class Trace {
  hash = 0
  count = 0
  readonly lines: string[] = []
  readonly #keep: number

  constructor(keep: number) {
    this.#keep = keep
  }

  add(line: string): void {
    this.hash = hashText(line, this.hash)
    this.count += 1
    if (this.#keep > 0) this.lines.push(line)
    if (this.lines.length > this.#keep * 2) this.lines.splice(0, this.#keep)
  }
}

export class World {
  /** True milliseconds since 1970: what the store's clock shows. */
  time: number
  readonly start: number
  /** No new faults from here on. */
  healed = false
  /** The first thing that went wrong: it ends the run after the event in which it was found. */
  failed: Error | undefined = undefined
  readonly seed: number
  readonly trace: Trace
  events = 0
  readonly #heap: Event[] = []
  #seq = 0

  constructor(seed: number, keepTrace = 0, start = EPOCH) {
    this.start = start
    this.time = start
    this.seed = seed
    this.trace = new Trace(keepTrace)
  }

  stream(name: string): Random {
    return new Random(this.seed, name)
  }

  /** Runs `run` after that many milliseconds; for a node, only if it is alive and awake by then. */
  after(ms: number, run: () => void | Promise<void>, node: SimNode | null = null): Timer {
    const time = this.time + Math.max(0, Math.ceil(ms))
    this.#seq += 1
    const event: Event = { time, seq: this.#seq, node, run }
    this.#push(event)
    return {
      cancel() {
        event.run = null
      },
    }
  }

  /** Runs events in order until that instant, or until `done` says so. */
  async runUntil(end: number, done: () => boolean = () => false): Promise<void> {
    while (!done()) {
      const event = this.#heap[0]
      if (event === undefined || event.time > end) break
      this.#pop()
      await this.#run(event)
    }
    if (!done() && this.time < end) this.time = end
  }

  /** Whether anything at all is still to happen. */
  get quiet(): boolean {
    return this.#heap.every((event) => event.run === null || event.node?.alive === false)
  }

  async #run(event: Event): Promise<void> {
    const { node, run } = event
    if (run === null || node?.alive === false) return
    if (node !== null && node.stalledUntil > event.time) {
      // It keeps its number, so what was due first still comes first when the node wakes up.
      event.time = node.stalledUntil
      this.#push(event)
      return
    }
    this.time = Math.max(this.time, event.time)
    this.events += 1
    if (this.events > MAX_EVENTS) throw new Error(`more than ${MAX_EVENTS} events: it spins`)
    const failed = { error: undefined as unknown, yes: false }
    void (async () => run())().catch((error: unknown) => {
      failed.error = error
      failed.yes = true
    })
    await drain()
    if (this.failed !== undefined) throw this.failed
    if (failed.yes) throw failed.error
  }

  #push(event: Event): void {
    const heap = this.#heap
    let index = heap.length
    heap.push(event)
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(event, heap[parent] as Event)) break
      heap[index] = heap[parent] as Event
      index = parent
    }
    heap[index] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Event
    if (heap.length === 0) return
    let index = 0
    for (let child = 1; child < heap.length; child = 2 * index + 1) {
      const right = child + 1
      if (right < heap.length && isBefore(heap[right] as Event, heap[child] as Event)) child = right
      if (!isBefore(heap[child] as Event, last)) break
      heap[index] = heap[child] as Event
      index = child
    }
    heap[index] = last
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.time < other.time || (one.time === other.time && one.seq < other.seq)
}

/** Lets every promise that can go on do so. Nothing in a simulation waits for real I/O. */
export function drain(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

export interface WallClock {
  /** Milliseconds by which it is off from the start. */
  readonly offsetMs: number
  /** How much faster it runs: 0.01 gains 10 ms a second. */
  readonly drift: number
}

/** One process. A restart makes another one with the same name. */
export class SimNode {
  readonly name: string
  readonly life: number
  readonly world: World
  alive = true
  stalledUntil = 0
  /** When it last woke up from a stall. */
  lastStall = Number.NEGATIVE_INFINITY
  jumpMs = 0
  /** By which name its worker takes leases; known from its first call. */
  holder = ''
  /** Whoever looks after processes hears of its end. */
  onDeath: () => void = () => {}
  readonly runtime: Runtime
  readonly #clock: WallClock
  readonly #random: Random

  constructor(world: World, name: string, life: number, clock: WallClock) {
    this.world = world
    this.name = name
    this.life = life
    this.#clock = clock
    this.#random = world.stream(`node ${name} ${life}`)
    this.runtime = this.#makeRuntime()
  }

  get label(): string {
    return `${this.name}.${this.life}`
  }

  /** Ends it between two steps: no timer and no answer of it will ever fire. */
  crash(): void {
    if (!this.alive) return
    this.alive = false
    this.onDeath()
    this.world.trace.add(`${this.world.time} crash ${this.label}`)
  }

  /** Blocks its event loop: it wakes up with everything overdue, in the old order. */
  stall(ms: number): void {
    this.stalledUntil = Math.max(this.stalledUntil, this.world.time + ms)
    this.lastStall = this.stalledUntil
    this.world.trace.add(`${this.world.time} stall ${this.label} ${ms}`)
  }

  after(ms: number, run: () => void | Promise<void>): Timer {
    return this.world.after(ms, run, this)
  }

  #makeRuntime(): Runtime {
    const { world } = this
    const never: Timer = { cancel() {} }
    return {
      now: () => {
        const gained = (world.time - world.start) * this.#clock.drift
        return Math.floor(world.time + this.#clock.offsetMs + gained + this.jumpMs)
      },
      // Every process has an origin of its own.
      monotonic: () => world.time - world.start + this.life * 7_919,
      random: () => this.#random.next(),
      after: (ms, run) => (ms === Number.POSITIVE_INFINITY ? never : world.after(ms, run, this)),
      soon: (run) => {
        world.after(0, run, this)
      },
    }
  }
}
