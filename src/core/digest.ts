// Owns the digest of a stretch of the log: what ran for how long, how much came and went, how full
// the slots were. May never keep entries: a hundred thousand of them become a few numbers per type
// and pool, and the lengths of the runs.

import { hasEnded, type JobEvent } from './job.ts'

/** What the log says of a type. */
export interface TypeDigest {
  /** Starts, and how many of them were not the first of their job. */
  starts: number
  retries: number
  /** Successes of later starts. */
  lateSuccesses: number
  timeouts: number
  silences: number
  losses: number
  /** How long attempts that succeeded took, in milliseconds. */
  readonly runs: number[]
}

/** What the log says of a pool. */
export interface PoolDigest {
  arrived: number
  left: number
  starts: number
  /** Jobs that waited for a slot longer than they may. */
  expired: number
  /** Arrivals and ends in the first and in the second half of the stretch. */
  readonly halves: readonly [Flow, Flow]
  /** By how many ran at a time; its order is that of the levels. */
  readonly levels: readonly Level[]
  /** Jobs that were ready, on average over time. */
  readonly queue: number
}

export interface Flow {
  arrived: number
  left: number
}

/** While so many ran: for how long, how many ended, and how long those took that began then. */
export interface Level {
  readonly running: number
  ms: number
  ended: number
  began: number
  runMs: number
}

export interface Digest {
  readonly entries: number
  readonly from: number
  readonly to: number
  readonly types: Readonly<Record<string, TypeDigest>>
  readonly pools: Readonly<Record<string, PoolDigest>>
}

/** One change in a pool: how many more, or fewer, run and are ready. */
interface Change {
  readonly at: number
  readonly running: number
  readonly ready: number
  readonly arrived: number
  readonly left: number
  /** A start, with how long it took; undefined while it runs. */
  readonly start?: { ms: number | undefined }
}

interface PoolNotes {
  readonly changes: Change[]
  expired: number
}

/** Reads the log entry by entry, in order. O(1) each. */
export class Digester {
  readonly #types = new Map<string, TypeDigest>()
  readonly #pools = new Map<string, PoolNotes>()
  readonly #running = new Map<string, { readonly at: number; readonly start: { ms?: number } }>()
  #entries = 0
  #from = 0
  #to = 0

  add(event: JobEvent): void {
    if (this.#entries === 0) this.#from = event.at
    this.#entries += 1
    this.#to = event.at
    const type = this.#typeOf(event.type)
    const pool = this.#poolOf(event.pool)
    if (event.code === 'ENQUEUE_TIMEOUT') pool.expired += 1
    if (event.from === 'running' && event.to !== 'running') this.#ended(event, type)
    const start = event.to === 'running' ? this.#started(event, type) : undefined
    const change = changeOf(event)
    if (start !== undefined) pool.changes.push({ ...change, start } as Change)
    else if (change.running !== 0 || change.ready !== 0 || change.arrived + change.left > 0) {
      pool.changes.push(change)
    }
  }

  /** What has been read so far. O(entries). */
  digest(): Digest {
    const middle = (this.#from + this.#to) / 2
    const pools = [...this.#pools].map(([name, notes]) => {
      return [name, poolOf(notes, middle, this.#to)] as const
    })
    return {
      entries: this.#entries,
      from: this.#from,
      to: this.#to,
      types: Object.fromEntries(this.#types),
      pools: Object.fromEntries(pools),
    }
  }

  #started({ job, at, attempt }: JobEvent, type: TypeDigest): { ms?: number } {
    const start = {}
    this.#running.set(job, { at, start })
    type.starts += 1
    if (attempt > 1) type.retries += 1
    return start
  }

  #ended({ job, at, to, attempt, event, code }: JobEvent, type: TypeDigest): void {
    const run = this.#running.get(job)
    this.#running.delete(job)
    if (run !== undefined) run.start.ms = at - run.at
    if (to === 'success') {
      if (attempt > 1) type.lateSuccesses += 1
      if (run !== undefined) type.runs.push(at - run.at)
    }
    if (event === 'job:lost') type.losses += 1
    if (event !== 'job:timeout') return
    if (code === 'HEARTBEAT_LOST') type.silences += 1
    else type.timeouts += 1
  }

  #typeOf(name: string): TypeDigest {
    const known = this.#types.get(name)
    if (known !== undefined) return known
    const counts = { starts: 0, retries: 0, lateSuccesses: 0 }
    const fresh = { ...counts, timeouts: 0, silences: 0, losses: 0, runs: [] }
    this.#types.set(name, fresh)
    return fresh
  }

  #poolOf(name: string): PoolNotes {
    const known = this.#pools.get(name)
    if (known !== undefined) return known
    const fresh = { changes: [], expired: 0 }
    this.#pools.set(name, fresh)
    return fresh
  }
}

function changeOf({ at, from, to }: JobEvent): Change {
  return {
    at,
    running: Number(to === 'running') - Number(from === 'running'),
    ready: Number(to === 'ready') - Number(from === 'ready'),
    arrived: Number(from === null),
    left: Number(hasEnded(to) && (from === null || !hasEnded(from))),
  }
}

/** Follows the pool through the stretch. */
function poolOf({ changes, expired }: PoolNotes, middle: number, end: number): PoolDigest {
  const halves = [flow(), flow()] as const
  const levels = new Map<number, Level>()
  // The stretch begins in the middle of things: what was there at least, for no count to fall
  // below nothing.
  let running = depth(changes, ({ running }) => running)
  let ready = depth(changes, ({ ready }) => ready)
  let starts = 0
  let readyMs = 0
  const first = changes[0]?.at ?? end
  let last = first
  const pass = (at: number) => {
    levelOf(levels, running).ms += at - last
    readyMs += ready * (at - last)
    last = at
  }
  for (const change of changes) {
    pass(change.at)
    const half = halves[change.at < middle ? 0 : 1]
    half.arrived += change.arrived
    half.left += change.left
    if (change.running < 0) levelOf(levels, running).ended += 1
    running += change.running
    ready += change.ready
    if (change.start === undefined) continue
    starts += 1
    if (change.start.ms === undefined) continue
    const level = levelOf(levels, running)
    level.began += 1
    level.runMs += change.start.ms
  }
  pass(end)
  const sum = (key: keyof Flow) => halves[0][key] + halves[1][key]
  return {
    arrived: sum('arrived'),
    left: sum('left'),
    starts,
    expired,
    halves,
    levels: [...levels.values()].sort((a, b) => a.running - b.running),
    queue: end > first ? readyMs / (end - first) : ready,
  }
}

function flow(): Flow {
  return { arrived: 0, left: 0 }
}

function levelOf(levels: Map<number, Level>, running: number): Level {
  const known = levels.get(running)
  if (known !== undefined) return known
  const fresh = { running, ms: 0, ended: 0, began: 0, runMs: 0 }
  levels.set(running, fresh)
  return fresh
}

/** How far the sum of the steps falls below nothing. */
function depth(changes: readonly Change[], step: (change: Change) => number): number {
  let sum = 0
  let least = 0
  for (const change of changes) {
    sum += step(change)
    least = Math.min(least, sum)
  }
  return -least
}
