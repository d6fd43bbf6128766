// Owns who waits for whom: bodies that hold slots, calls that wait for one, and rings of them.
// May never take a wait that can end for one that cannot, or cost anything before things stall.
//
// Nothing is tracked while things go well. When calls wait and no body has ended for a while, the
// engine is asked: V8 keeps, for its stack traces, the chain from a promise to the async function
// that awaits it, and from there on. What a body ends in is awaited by a function whose name is
// its slot's, so a trace that is taken "in" a waiting call shows the bodies that wait for it. That
// follows await, then, Promise.all and its like, and promises resolved with promises; and a call
// that a body has made without waiting for it is not held against the body.
//
// It does not see through a bare callback (a timer's, an event's), nor through a promise for which
// two wait: such a ring goes unnoticed. It takes Promise.race for waiting.
//
// Not by async context: that could not tell a body that waits for a call from one that has made it
// and goes on, and on Node 20 it puts hooks on every promise of the process. 100,000 queued calls
// took 1.7 us of CPU each, 4.2 with an AsyncLocalStorage switched on, and 1.9 to 2.7 with nothing
// but promise hooks of our own.

import { AxError } from '../core/errors.ts'
import { beforeEnd, type Runtime, systemRuntime } from './runtime.ts'

/** How long no body must have ended before a limiter is looked at; twice as long each time. */
const STALL_MS = 20
/** Waiting calls that are asked at the first look, the newest first (4 us each). */
const FIRST_LOOK = 256
const LONGEST_LOOK = 4096

/** Somebody who waits for a promise; how that is settled may be replaced as long as it is not. */
export interface Waiter {
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

/** A call that waits for a slot. */
export interface Queued {
  readonly waiter: Waiter
  /** Whether it gives up by itself. */
  readonly gives: boolean
  readonly waits: () => boolean
  drop(error: unknown): void
}

/** What is asked of a limiter. */
export interface Desk {
  readonly concurrency: number
  readonly waiting: number
  /** Bodies that have ended so far. */
  readonly ended: number
  /** Calls that wait, the newest first. */
  queued(): Iterable<Queued>
}

/** Who may hold a slot. */
export class Holder {
  readonly watch: Watch
  /** Its mark in a stack trace. */
  readonly name = nameHolder()
  busy = false
  /** Whose call the body serves, if that one waits for a promise that the body does not lead to. */
  waiter: Waiter | undefined = undefined
  /** The promise in which the body ends, if nobody else can wait for that. */
  end: Promise<unknown> | undefined = undefined
  /** How many bodies it has held. */
  turn = 0
  #marked: Promise<unknown> | undefined

  constructor(watch: Watch) {
    this.watch = watch
    watch.add(this)
  }

  /** The body has ended. */
  vacate(): void {
    this.busy = false
    this.waiter = undefined
    this.end = undefined
    this.turn += 1
  }

  /** Makes traces that are taken in the body lead here. */
  mark(): void {
    const { end } = this
    if (end === undefined || this.#marked === end) return
    this.#marked = end
    awaiter(this.name, async () => {
      await end
    })()
  }
}

let named = 0

/** A name that no other function has. */
export function nameHolder(): string {
  named += 1
  return `ax:${named}`
}

/** The async function `run`, under a name that traces show. */
export function awaiter<A extends unknown[], R>(
  name: string,
  run: (...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return Object.defineProperty(run, 'name', { value: name })
}

/** The names of the functions that this code runs in, and of those that wait for it. */
export function waitingHere(): ReadonlySet<string> {
  const names = new Set<string>()
  const { prepareStackTrace, stackTraceLimit } = Error
  const taken: { stack?: unknown } = {}
  try {
    Error.stackTraceLimit = 200
    Error.prepareStackTrace = (_, sites) => sites
    Error.captureStackTrace(taken, waitingHere)
    for (const site of taken.stack as NodeJS.CallSite[]) {
      const name = site.getFunctionName()
      if (name?.startsWith('ax:')) names.add(name)
    }
  } catch {
    // Somebody has frozen Error, or taken traces away: then nothing is known.
  } finally {
    restore(prepareStackTrace, stackTraceLimit)
  }
  return names
}

function restore(prepare: typeof Error.prepareStackTrace, limit: number): void {
  try {
    Error.stackTraceLimit = limit
    Error.prepareStackTrace = prepare
  } catch {
    // As above.
  }
}

/** Watches over one limiter. */
export class Watch {
  readonly desk: Desk
  readonly holders = new Set<Holder>()
  readonly #active: boolean
  readonly runtime: Runtime
  #registered = false
  #armed = false
  #delay = STALL_MS
  #ended = 0

  /** Without `active` none of its calls is ever refused. */
  constructor(active: boolean, desk: Desk, runtime: Runtime) {
    this.#active = active
    this.desk = desk
    this.runtime = runtime
  }

  add(holder: Holder): void {
    if (this.#active) this.holders.add(holder)
  }

  remove(holder: Holder): void {
    this.holders.delete(holder)
  }

  /** A call has to wait. */
  wait(): void {
    if (this.#armed || !this.#active) return
    if (!this.#registered) register(this)
    this.#registered = true
    this.#delay = STALL_MS
    this.#ended = this.desk.ended
    this.#arm()
  }

  #arm(): void {
    this.#armed = true
    this.runtime.after(this.#delay, () => this.#check(), { ref: false })
  }

  #check(): void {
    this.#armed = false
    const { waiting, ended } = this.desk
    if (waiting === 0) return
    if (ended !== this.#ended) {
      this.#ended = ended
      this.#delay = STALL_MS
      this.#arm()
    } else {
      const most = Math.min(LONGEST_LOOK, (FIRST_LOOK * this.#delay) / STALL_MS)
      this.#delay *= 2
      look(this.runtime, most, (found) => {
        if (found) this.#delay = STALL_MS
        this.#arm()
      })
    }
  }
}

/** Limiters at which somebody has waited; they may be forgotten by everyone else. */
const watches = new Set<WeakRef<Watch>>()
/** When so many are known, those that are gone are looked for. */
let sweepAt = 1000
let listening = false
let lastLook = ''

function register(watch: Watch): void {
  if (watches.size >= sweepAt) sweepAt = 1000 + 2 * alive().length
  watches.add(new WeakRef(watch))
  if (listening) return
  listening = true
  beforeEnd(() => {
    // Nothing is left that could free a slot. Once: to look makes the process go on for a turn.
    const state = alive().map(({ desk }) => `${desk.waiting} ${desk.ended}`)
    if (state.every((each) => each.startsWith('0 ')) || state.join() === lastLook) return
    lastLook = state.join()
    look(systemRuntime, Number.POSITIVE_INFINITY, nothing)
  })
}

function alive(): Watch[] {
  const found: Watch[] = []
  for (const ref of watches) {
    const watch = ref.deref()
    if (watch === undefined) watches.delete(ref)
    else found.push(watch)
  }
  return found
}

/** Something else that makes people wait for bodies: an iteration over results. */
export interface Supply {
  /** Who waits, and for what: a body that runs, or a slot. */
  pending(): { readonly waiter: Waiter; readonly running: Holder | undefined } | undefined
  readonly watch: Watch
  fail(error: unknown): void
}

const supplies = new Set<WeakRef<Supply>>()
let sweepSuppliesAt = 1000

/** Counts `supply` in until the function that comes back is called. */
export function follow(supply: Supply): () => void {
  if (supplies.size >= sweepSuppliesAt) {
    for (const ref of supplies) if (ref.deref() === undefined) supplies.delete(ref)
    sweepSuppliesAt = 1000 + 2 * supplies.size
  }
  const ref = new WeakRef(supply)
  supplies.add(ref)
  return () => supplies.delete(ref)
}

/** Bodies that wait for one thing. */
interface Edge {
  /** A body is a holder and its turn. */
  readonly by: ReadonlyMap<Holder, number>
  readonly holds: () => boolean
  /** The thing is a body that runs, or else a call that waits for a slot of `on`. */
  readonly running: Holder | undefined
  readonly on: Watch
  readonly gives: boolean
  readonly drop: (error: unknown) => void
}

/** Finds out who waits for whom, ends one wait if there is a ring, and says whether it did. */
function look(runtime: Runtime, most: number, done: (found: boolean) => void): void {
  const edges: Edge[] = []
  const all = new Set(alive())
  for (const ref of supplies) {
    const watch = ref.deref()?.watch
    if (watch !== undefined) all.add(watch)
  }
  const bodies = new Map<string, Holder>()
  for (const { holders } of all) {
    for (const holder of holders) if (holder.busy) bodies.set(holder.name, holder)
  }
  for (const holder of bodies.values()) holder.mark()
  const note = (waiter: Waiter, edge: Omit<Edge, 'by'>) => {
    ask(waiter, (names) => {
      const by = new Map<Holder, number>()
      for (const name of names) {
        const holder = bodies.get(name)
        if (holder !== undefined) by.set(holder, holder.turn)
      }
      if (by.size > 0) edges.push({ ...edge, by })
    })
  }
  noteRunning(bodies.values(), note)
  noteSupplies(note)
  for (const watch of all) noteQueued(watch, most, note)
  // The answers come in the microtasks before this.
  runtime.soon(() => {
    const victim = hopeless(edges)
    victim?.drop(nestedError())
    done(victim !== undefined)
  })
}

type Note = (waiter: Waiter, edge: Omit<Edge, 'by'>) => void

function noteRunning(bodies: Iterable<Holder>, note: Note): void {
  for (const running of bodies) {
    const { waiter, watch, turn } = running
    const holds = () => running.turn === turn
    if (waiter !== undefined)
      note(waiter, { holds, running, on: watch, gives: false, drop: nothing })
  }
}

function noteSupplies(note: Note): void {
  for (const ref of supplies) {
    const supply = ref.deref()
    if (supply === undefined) supplies.delete(ref)
    const pending = supply?.pending()
    if (supply === undefined || pending === undefined) continue
    const { waiter, running } = pending
    const drop = (error: unknown) => supply.fail(error)
    const holds = () => supply.pending()?.waiter === waiter && supply.pending()?.running === running
    note(waiter, { holds, running, on: supply.watch, gives: false, drop })
  }
}

function noteQueued(watch: Watch, most: number, note: Note): void {
  let count = 0
  for (const queued of watch.desk.queued()) {
    count += 1
    if (count > most) break
    const { waiter, waits: holds, gives } = queued
    const drop = (error: unknown) => queued.drop(error)
    note(waiter, { holds, running: undefined, on: watch, gives, drop })
  }
}

/**
 * Asks who waits for the promise of `waiter`: that is resolved with another one, in which a
 * function runs, whose trace leads to those who wait. How it ends is decided as before.
 */
function ask(waiter: Waiter, answer: (names: ReadonlySet<string>) => void): void {
  const { resolve } = waiter
  const rest = new Promise<unknown>((onward, reject) => {
    waiter.resolve = onward
    waiter.reject = reject
  })
  // One step first: only then do those who wait hang on the second one.
  const asking = Promise.resolve()
    .then(nothing)
    .then(() => {
      answer(waitingHere())
      return rest
    })
  resolve(asking)
}

/**
 * A wait that could never end, if there is one. The greatest set of bodies of which each waits
 * for something hopeless: a body of the set, or a slot where as many slots as there are, are held
 * by bodies of the set. O(edges x bodies).
 */
function hopeless(all: readonly Edge[]): Edge | undefined {
  const isSame = ([holder, turn]: [Holder, number]) => holder.busy && holder.turn === turn
  let edges = all.filter((edge) => edge.holds() && [...edge.by].every(isSame))
  for (;;) {
    const stuck = new Set(edges.flatMap(({ by }) => [...by.keys()]))
    const left = edges.filter((edge) => isHopeless(edge, stuck))
    if (left.length === edges.length) return edges.find(({ running }) => running === undefined)
    edges = left
  }
}

function isHopeless({ running, gives, on }: Edge, stuck: ReadonlySet<Holder>): boolean {
  if (running !== undefined) return stuck.has(running)
  if (gives) return false
  let held = 0
  for (const holder of on.holders) if (stuck.has(holder)) held += 1
  return held >= on.desk.concurrency
}

function nestedError(): AxError {
  return new AxError(
    'NESTED_LIMIT',
    'This call would have waited for ever: every slot is held by a body that itself waits for a ' +
      'call like this one. Raise the concurrency, give inner calls a limiter of their own, or ' +
      "make them when the outer body is done (nested: 'queue' waits all the same).",
  )
}

function nothing(): void {}
