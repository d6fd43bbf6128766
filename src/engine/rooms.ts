// Owns waiting for room in full pools: who waits, in which order, and when to try again.
// May never store anything itself, or let a newcomer of this process pass those who wait.

import type { NewJob } from '../core/job.ts'
import type { JobHandle } from '../core/types.ts'
import { Failed } from '../kit/coalesce.ts'
import { outside } from '../kit/context.ts'
import type { Timer } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import { closedError, type Hub } from './hub.ts'

/** The answer of an attempt for which this pool had no room; nothing was stored. */
export class Full {
  readonly pool: string
  constructor(pool: string) {
    this.pool = pool
  }
}

interface Entry {
  /** A job on its own: such are tried together. */
  readonly job: NewJob | undefined
  readonly attempt: () => Promise<unknown>
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
  /** The store is being asked: the answer is the truth, even if this process closes meanwhile. */
  asking: boolean
}

/** Those who wait for one pool, first come first. */
interface Line {
  readonly entries: Set<Entry>
  serving: boolean
  /** There may be room again since the store was last asked. */
  again: boolean
}

/** Tries jobs, each on its own. */
export type Offer = (jobs: readonly NewJob[]) => Promise<readonly (JobHandle | Failed | Full)[]>

export class Rooms {
  readonly #hub: Hub
  readonly #offer: Offer
  readonly #lines = new Map<string, Line>()
  /** Counts what was heard of room: an answer that is older than that may be true no more. */
  #heard = 0
  #poll: Timer | undefined
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

  /** Whether nobody waits here. */
  get isEmpty(): boolean {
    return this.#lines.size === 0
  }

  /** To be taken before the store is asked, and handed in with whoever is to wait after that. */
  get heard(): number {
    return this.#heard
  }

  /** Whether somebody waits for that pool: then nobody else of this process goes first. */
  isWaitedFor(pool: string): boolean {
    return this.#lines.has(pool)
  }

  /** Resolves once there was room for the job. */
  park(job: NewJob, heard: number): Promise<JobHandle> {
    return this.#wait(job.pool, job, async () => undefined, heard)
  }

  /**
   * Attempts it now, or, if somebody waits for `pool`, after them; again and again until the
   * answer is not `Full` any more. `vain`: the error, if it could stand behind them for ever.
   */
  async enter<T>(
    pool: string | undefined,
    attempt: () => Promise<T | Full>,
    vain: () => Promise<unknown> = async () => undefined,
  ): Promise<T> {
    const heard = this.#heard
    if (pool !== undefined) return this.#wait(pool, undefined, attempt, heard, vain)
    const answer = await attempt()
    if (!(answer instanceof Full)) return answer
    return this.#wait(answer.pool, undefined, attempt, heard)
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
    pool: string,
    job: NewJob | undefined,
    attempt: () => Promise<unknown>,
    heard: number,
    vain?: () => Promise<unknown>,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const entry: Entry = { job, attempt, resolve, reject, asking: false }
      this.#join(pool, entry)
      if (vain !== undefined) void this.#sendAway(pool, entry, vain)
      if (heard !== this.#heard) this.#retry(pool)
    })
  }

  #join(pool: string, entry: Entry): void {
    const line = this.#lines.get(pool) ?? { entries: new Set(), serving: false, again: false }
    this.#lines.set(pool, line)
    line.entries.add(entry)
    if (this.#closed) this.#turnAway(pool, entry)
    else this.#keepPolling()
  }

  #leave(pool: string, entry: Entry): void {
    const line = this.#lines.get(pool)
    line?.entries.delete(entry)
    if (line?.entries.size === 0) this.#lines.delete(pool)
  }

  /** Out of the line, if it could stand there for ever; unless it is its turn anyhow. */
  async #sendAway(pool: string, entry: Entry, vain: () => Promise<unknown>): Promise<void> {
    const error = await vain().catch(() => undefined)
    const isHere = this.#lines.get(pool)?.entries.has(entry) === true
    if (error === undefined || !isHere || entry.asking) return
    this.#leave(pool, entry)
    entry.reject(error)
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
      else entry.resolve(answer as never)
      return true
    }
    if (this.#closed) this.#turnAway(pool, entry)
    else if (answer.pool === pool) return false
    else {
      // Here there is room now, but not in another of its pools: it waits there, behind others.
      this.#leave(pool, entry)
      this.#join(answer.pool, entry)
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
