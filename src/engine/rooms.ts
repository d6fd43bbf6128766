// Owns waiting for room in full pools: who waits, in which order, and when to try again.
// May never store anything itself, or let a body of this process wait, which keeps its slot.
//
// A newcomer of this process is offered to the store as one that comes behind those who wait: it
// gets in at once if it needs no room (a duplicate, a job that waits for others, one that others
// wait for), and else stands in line. Those who do not wait at all do not ask who does: what a
// running job submits under its lease, and the instants of schedules, take a place that is free.
// So does a batch whose turn has come in one pool, in the others that it needs; and the line of
// another process is not known here.

import type { AxError } from '../core/errors.ts'
import type { NewJob } from '../core/job.ts'
import type { JobHandle } from '../core/types.ts'
import { Failed } from '../kit/coalesce.ts'
import { outside } from '../kit/context.ts'
import type { Waiter } from '../kit/nested/graph.ts'
import type { Timer } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import { closedError, type Hub } from './hub.ts'
import { Inside } from './inside.ts'
import type { Worker } from './worker.ts'

/** The answer of an attempt for which this pool had no room; nothing was stored. */
export class Full {
  readonly pool: string
  /** What a body hears, which may not wait. */
  readonly error: () => AxError

  constructor(pool: string, error: () => AxError) {
    this.pool = pool
    this.error = error
  }
}

interface Entry extends Waiter {
  /** A job on its own: such are tried together. */
  readonly job: NewJob | undefined
  readonly attempt: () => Promise<unknown>
  /** Why it waits, and where. */
  full: Full
  /** The store is being asked: the answer is the truth, even if this process closes meanwhile. */
  asking: boolean
  /** A body of this process waits for it. */
  isInside: boolean
}

/** Those who wait for one pool, first come first. */
interface Line {
  readonly entries: Set<Entry>
  serving: boolean
  /** There may be room again since the store was last asked. */
  again: boolean
}

const NO_POOLS: readonly string[] = []

/** Tries jobs, each on its own: it is their turn. */
export type Offer = (jobs: readonly NewJob[]) => Promise<readonly (JobHandle | Failed | Full)[]>

export class Rooms {
  readonly #hub: Hub
  readonly #offer: Offer
  readonly #lines = new Map<string, Line>()
  /** Counts what was heard of room: an answer that is older than that may be true no more. */
  #heard = 0
  #poll: Timer | undefined
  #inside: Inside<Entry> | undefined
  #closed = false

  constructor(hub: Hub, offer: Offer) {
    this.#hub = hub
    this.#offer = offer
    hub.onHint(({ room }) => {
      if (room.length === 0) return
      this.#heard += 1
      for (const pool of room) this.#retry(pool)
    })
  }

  /** From now on nobody waits whom a body of that worker waits for. */
  watch(worker: Pick<Worker, 'runs'>): void {
    const refuse = (entry: Entry) => this.#refuse(entry)
    this.#inside = new Inside(this.#hub, worker, { everyone: () => this.#everyone(), refuse })
  }

  /** To be taken before the store is asked, and handed in with whoever is to wait after that. */
  get heard(): number {
    return this.#heard
  }

  /** Whether somebody waits for that pool: then nobody else of this process takes room first. */
  isWaitedFor(pool: string): boolean {
    return this.#lines.has(pool)
  }

  /** The pools of these jobs that somebody waits for. */
  waitedFor(jobs: readonly NewJob[]): readonly string[] {
    if (this.#lines.size === 0) return NO_POOLS
    const pools = new Set<string>()
    for (const { pool } of jobs) if (this.#lines.has(pool)) pools.add(pool)
    return [...pools]
  }

  /** Resolves once there was room for the job, which there was not just now. */
  park(job: NewJob, full: Full, heard: number): Promise<JobHandle> {
    return this.#wait(full, job, async () => undefined, heard)
  }

  /**
   * Attempts it now, and, as long as the answer is `Full`, again and again when it is its turn:
   * then it comes behind nobody.
   */
  async enter<T>(attempt: (isItsTurn: boolean) => Promise<T | Full>): Promise<T> {
    const heard = this.#heard
    const answer = await attempt(false)
    if (!(answer instanceof Full)) return answer
    return this.#wait(answer, undefined, () => attempt(true), heard)
  }

  /** Whoever waits learns that this process adds nothing any more. */
  close(): void {
    this.#closed = true
    this.#poll?.cancel()
    for (const [pool, { entries }] of this.#lines) {
      for (const entry of entries) if (!entry.asking) this.#turnAway(pool, entry)
    }
  }

  #wait<T>(
    full: Full,
    job: NewJob | undefined,
    attempt: () => Promise<unknown>,
    heard: number,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const settle = resolve as (value: unknown) => void
      const entry: Entry = {
        job,
        attempt,
        full,
        resolve: settle,
        reject,
        asking: false,
        isInside: false,
      }
      this.#join(entry)
      if (heard !== this.#heard) this.#retry(full.pool)
    })
  }

  #join(entry: Entry): void {
    const { pool } = entry.full
    const line = this.#lines.get(pool) ?? { entries: new Set(), serving: false, again: false }
    this.#lines.set(pool, line)
    line.entries.add(entry)
    if (this.#closed) this.#turnAway(pool, entry)
    else {
      this.#inside?.add(entry)
      this.#keepPolling()
    }
  }

  #leave(pool: string, entry: Entry): void {
    const line = this.#lines.get(pool)
    line?.entries.delete(entry)
    if (line?.entries.size !== 0) return
    this.#lines.delete(pool)
    // Who has been kept out for the sake of a line that is gone has to ask again.
    this.#heard += 1
  }

  *#everyone(): IterableIterator<Entry> {
    for (const { entries } of this.#lines.values()) yield* entries
  }

  /** A body waits for it. While the store is being asked, it may still get in. */
  #refuse(entry: Entry): void {
    const { pool } = entry.full
    const line = this.#lines.get(pool)
    entry.isInside = true
    if (line?.entries.has(entry) !== true || entry.asking) return
    this.#leave(pool, entry)
    entry.reject(entry.full.error())
    // Whoever was behind it may have room where it had none.
    this.#retry(pool)
  }

  #turnAway(pool: string, entry: Entry): void {
    this.#leave(pool, entry)
    entry.reject(closedError(this.#hub.settings.name))
  }

  #retry(pool: string): void {
    const line = this.#lines.get(pool)
    if (line === undefined) return
    line.again = true
    if (!line.serving) outside(() => void this.#serve(pool, line))
  }

  /** As long as there is room: one, then twice as many with each turn. */
  async #serve(pool: string, line: Line): Promise<void> {
    line.serving = true
    for (let width = 1; line.again && line.entries.size > 0; ) {
      line.again = false
      const entries = firstOf(line.entries, width)
      for (const entry of entries) entry.asking = true
      const isRoom = await this.#ask(pool, entries)
      if (isRoom) line.again = true
      width = isRoom ? width * 2 : 1
    }
    line.serving = false
  }

  /** Whether there was room for all of them. */
  async #ask(pool: string, entries: readonly Entry[]): Promise<boolean> {
    try {
      const [first] = entries as readonly [Entry]
      const alone = first.job === undefined
      const answers = alone
        ? [await first.attempt()]
        : await this.#offer(entries.map(({ job }) => job as NewJob))
      return entries.filter((entry, at) => !this.#answered(pool, entry, answers[at])).length === 0
    } catch (error) {
      for (const entry of entries) {
        this.#leave(pool, entry)
        entry.reject(error)
      }
      return true
    }
  }

  /** False: it goes on waiting, here. */
  #answered(pool: string, entry: Entry, answer: unknown): boolean {
    entry.asking = false
    if (!(answer instanceof Full)) {
      this.#leave(pool, entry)
      if (answer instanceof Failed) entry.reject(answer.error)
      else entry.resolve(answer)
      return true
    }
    entry.full = answer
    if (this.#closed) this.#turnAway(pool, entry)
    else if (entry.isInside) {
      this.#leave(pool, entry)
      entry.reject(answer.error())
    } else if (answer.pool === pool) return false
    else {
      // Here there is room now, but not in another of its pools: it waits there, behind others.
      this.#leave(pool, entry)
      this.#join(entry)
      this.#retry(answer.pool)
    }
    return true
  }

  /** Where hints may get lost, looking is the truth. */
  #keepPolling(): void {
    const ms = this.#hub.pollMs()
    if (this.#poll !== undefined || !Number.isFinite(ms)) return
    this.#poll = this.#hub.runtime.after(ms, () => {
      this.#poll = undefined
      if (this.#lines.size === 0 || this.#closed) return
      for (const pool of [...this.#lines.keys()]) this.#retry(pool)
      this.#keepPolling()
    })
  }
}

/** The first of them; jobs on their own up to so many, or as much as one call takes. */
function firstOf(entries: ReadonlySet<Entry>, width: number): readonly Entry[] {
  const first: Entry[] = []
  let weight = 0
  for (const entry of entries) {
    if (entry.job === undefined) return first.length === 0 ? [entry] : first
    weight += 1 + entry.job.deps.length
    if (first.length > 0 && weight > LIMITS.chunk) return first
    first.push(entry)
    if (first.length === width) return first
  }
  return first
}
