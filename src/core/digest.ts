// Owns the digest of a stretch of the log: what ran for how long, how much came and went, how full
// the slots were. May never keep entries: a hundred thousand of them become a few numbers per type
// and pool, and the lengths of the runs.

import { hasEnded, type JobEvent, type JobStatus } from './job.ts'

/** What the log says of a type. */
export interface TypeDigest {
  /** Starts, and how many of them were retries: not what was handed back, lost or revived. */
  starts: number
  retries: number
  /** Successes of jobs that had been retried. */
  lateSuccesses: number
  timeouts: number
  silences: number
  losses: number
  /** How long attempts that succeeded took, in milliseconds. */
  readonly runs: number[]
}

/** What the log says of a pool. */
export interface PoolDigest {
  /** Jobs whose turn came to wait for a slot, or that were revived, and how many were done with. */
  arrived: number
  left: number
  starts: number
  /** Jobs that waited for a slot longer than they may. */
  expired: number
  /** Arrivals and ends in the first and in the second half of the stretch. */
  readonly halves: readonly [Flow, Flow]
  /** For how long so many ran, by how many. */
  readonly levels: readonly Level[]
  /** Every attempt that began and ended in the stretch. */
  readonly runs: readonly Run[]
  /** Jobs that were ready, on average over time. */
  readonly queue: number
}

export interface Flow {
  arrived: number
  left: number
}

export interface Level {
  readonly running: number
  ms: number
}

/** How long an attempt took, and how many ran meanwhile, itself among them, on average. */
export interface Run {
  readonly ms: number
  readonly running: number
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
  /** A start, or the end of one. */
  readonly start?: Start
  readonly end?: Start
}

/** When it was; `area` is the sum of running times up to then, while the pool is followed. */
interface Start {
  readonly at: number
  area: number
}

interface PoolNotes {
  readonly changes: Change[]
  expired: number
}

/** Reads the log entry by entry, in order. O(1) each. */
export class Digester {
  readonly #types = new Map<string, TypeDigest>()
  readonly #pools = new Map<string, PoolNotes>()
  readonly #running = new Map<string, Start>()
  /** Jobs that are to be tried again, or have been since, and whether that start is counted. */
  readonly #retried = new Map<string, boolean>()
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
    if (hasEnded(event.to) && event.from !== 'running') this.#retried.delete(event.job)
    const end = event.from === 'running' ? this.#ended(event, type) : undefined
    const start = event.to === 'running' ? this.#started(event, type) : undefined
    pool.changes.push({
      ...changeOf(event),
      ...(start === undefined ? {} : { start }),
      ...(end === undefined ? {} : { end }),
    })
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

  #started({ job, at }: JobEvent, type: TypeDigest): Start {
    const start = { at, area: 0 }
    this.#running.set(job, start)
    type.starts += 1
    if (this.#retried.get(job) === false) {
      type.retries += 1
      this.#retried.set(job, true)
    }
    return start
  }

  #ended({ job, at, to, event, code }: JobEvent, type: TypeDigest): Start | undefined {
    const start = this.#running.get(job)
    this.#running.delete(job)
    if (to === 'success') {
      if (this.#retried.has(job)) type.lateSuccesses += 1
      if (start !== undefined) type.runs.push(at - start.at)
    }
    if (hasEnded(to)) this.#retried.delete(job)
    else if (event === 'job:retry' || event === 'job:timeout') this.#retried.set(job, false)
    if (event === 'job:lost') type.losses += 1
    if (event === 'job:timeout') type[code === 'HEARTBEAT_LOST' ? 'silences' : 'timeouts'] += 1
    return start
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

function changeOf(event: JobEvent): Change {
  const { at, from, to } = event
  const before = from !== null && isThere(from, event)
  const after = isThere(to, event)
  return {
    at,
    running: Number(to === 'running') - Number(from === 'running'),
    ready: Number(to === 'ready') - Number(from === 'ready'),
    arrived: Number(after && !before),
    left: Number(before && !after),
  }
}

/**
 * Whether a job has come and not gone. One that has not run yet comes when it is ready: until
 * then it waits for its time, or for other jobs, and no slot would do it any good.
 */
function isThere(status: JobStatus, { attempt }: JobEvent): boolean {
  if (status === 'ready' || status === 'running') return true
  return !hasEnded(status) && attempt > 0
}

/** Follows the pool through the stretch. */
function poolOf({ changes, expired }: PoolNotes, middle: number, end: number): PoolDigest {
  const halves = [flow(), flow()] as const
  const levels = new Map<number, Level>()
  const runs: Run[] = []
  // The stretch begins in the middle of things: what was there at least, for no count to fall
  // below nothing.
  let running = depth(changes, (change) => change.running)
  let ready = depth(changes, (change) => change.ready)
  let starts = 0
  let area = 0
  let readyMs = 0
  const first = changes[0]?.at ?? end
  let last = first
  const pass = (at: number) => {
    levelOf(levels, running).ms += at - last
    area += running * (at - last)
    readyMs += ready * (at - last)
    last = at
  }
  for (const change of changes) {
    pass(change.at)
    const half = halves[change.at < middle ? 0 : 1]
    half.arrived += change.arrived
    half.left += change.left
    running += change.running
    ready += change.ready
    if (change.end !== undefined) runs.push(runOf(change.end, change.at, area, running + 1))
    if (change.start === undefined) continue
    starts += 1
    change.start.area = area
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
    runs,
    queue: end > first ? readyMs / (end - first) : ready,
  }
}

function runOf(start: Start, at: number, area: number, running: number): Run {
  const ms = at - start.at
  return { ms, running: ms === 0 ? running : (area - start.area) / ms }
}

function flow(): Flow {
  return { arrived: 0, left: 0 }
}

function levelOf(levels: Map<number, Level>, running: number): Level {
  const known = levels.get(running)
  if (known !== undefined) return known
  const fresh = { running, ms: 0 }
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
  return Math.abs(least)
}
