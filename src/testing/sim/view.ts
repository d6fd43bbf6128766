// Owns the naive view: what the store must hold, told from its log and from first principles.
// May never use a line of the code that it watches, and may never be clever: it recounts.

import type { JobEvent, JobStatus, StoredJob } from '../../core/job.ts'
import type { WorkerBeat } from '../../store/store.ts'
import { isEnd } from './copy.ts'

export type EdgeState = 'open' | 'satisfied' | 'dead'

/** A job as the naive view has it: the record as it was last read, and what was folded. */
export interface Seen {
  job: StoredJob
  status: JobStatus
  /** By the id of the dependency. */
  readonly edges: Map<string, EdgeState>
  /** It has its lane, or has none and is past that gate. */
  admitted: boolean
  startedSinceAdmission: boolean
  starts: number
  attempts: number
  lost: number
  attemptsBefore: number
  lostBefore: number
  /** When it last became ready. */
  readyAt: number
  readonly log: JobEvent[]
}

export interface PoolSeen {
  concurrency: number
  paused: boolean
  /** Set by an operator, which wins over what processes bring along. */
  readonly fixed: Set<'concurrency' | 'paused'>
}

export interface Owner {
  readonly id: string
  /** Infinity until it has ended. */
  readonly until: number
}

/** Records whose log is still printed when they are gone. */
const KEPT_LOGS = 2_000

const NONE: ReadonlySet<string> = new Set()

export class View {
  readonly jobs = new Map<string, Seen>()
  /** Who names an id, whether a job has that id or not. */
  readonly namers = new Map<string, Set<Seen>>()
  readonly lanes = new Map<string, Set<Seen>>()
  readonly keys = new Map<string, Owner>()
  readonly outcomes = new Map<string, { readonly status: JobStatus; readonly until: number }>()
  readonly pools = new Map<string, PoolSeen>()
  readonly oldLogs = new Map<string, readonly JobEvent[]>()
  readonly #byStatus: Record<JobStatus, Set<Seen>> = {
    pending: new Set(),
    waiting: new Set(),
    ready: new Set(),
    running: new Set(),
    success: new Set(),
    failed: new Set(),
    cancelled: new Set(),
  }
  /** Jobs with a hold. */
  readonly holds = new Set<Seen>()
  /** The number of the event with which a job of each pool last started. */
  readonly lastStart = new Map<string, number>()
  /** Who serves what, by what was last heard of them. */
  readonly workers = new Map<
    string,
    { readonly types: readonly string[]; readonly full: boolean; readonly until: number }
  >()
  /** Every id that was ever given to a job. */
  readonly ever = new Set<string>()
  /** Ids of submissions that may have happened without their caller hearing of it. */
  readonly uncertain = new Set<string>()
  added = 0
  forgotten = 0
  lastLease = 0

  of(status: JobStatus): ReadonlySet<Seen> {
    return this.#byStatus[status]
  }

  pool(name: string): PoolSeen {
    const known = this.pools.get(name)
    if (known !== undefined) return known
    const made: PoolSeen = { concurrency: 10, paused: false, fixed: new Set() }
    this.pools.set(name, made)
    return made
  }

  beat(worker: WorkerBeat, now: number): void {
    if (worker.ttlMs === 0) this.workers.delete(worker.holder)
    else
      this.workers.set(worker.holder, {
        types: worker.types,
        full: worker.full,
        until: now + worker.ttlMs,
      })
  }

  /** `fresh`: ids that come with it, in one insertion: whatever they were before, they are open. */
  add(job: StoredJob, event: JobEvent, now: number, fresh: ReadonlySet<string>): Seen {
    const seen: Seen = {
      job,
      status: event.to,
      edges: new Map(),
      admitted: event.to === 'ready',
      startedSinceAdmission: false,
      starts: 0,
      attempts: 0,
      lost: 0,
      attemptsBefore: 0,
      lostBefore: 0,
      readyAt: event.at,
      log: [],
    }
    this.jobs.set(job.id, seen)
    this.ever.add(job.id)
    this.outcomes.delete(job.id)
    this.#byStatus[event.to].add(seen)
    for (const dep of job.deps) grouped(this.namers, dep.id).add(seen)
    if (job.exclusive !== undefined) grouped(this.lanes, job.exclusive).add(seen)
    if (job.key !== undefined) this.keys.set(job.key, { id: job.id, until: Infinity })
    this.link(seen, now, fresh)
    this.added += 1
    return seen
  }

  /** What each dependency is worth at this moment; satisfied ones stay so. */
  link(seen: Seen, now: number, fresh: ReadonlySet<string> = NONE): void {
    for (const dep of seen.job.deps) {
      if (seen.edges.get(dep.id) === 'satisfied') continue
      const end = fresh.has(dep.id) ? undefined : this.endOf(dep.id, now)
      if (end === undefined) seen.edges.set(dep.id, 'open')
      else seen.edges.set(dep.id, dep.on === 'end' || end === 'success' ? 'satisfied' : 'dead')
    }
  }

  /** How a job ended, also one that is forgotten; undefined while it may still end. */
  endOf(id: string, now: number): JobStatus | undefined {
    const seen = this.jobs.get(id)
    if (seen !== undefined) return isEnd(seen.status) ? seen.status : undefined
    const outcome = this.outcomes.get(id)
    return outcome !== undefined && outcome.until > now ? outcome.status : undefined
  }

  /** One record of the log: the job moves, and whoever depends on it is told. */
  fold(seen: Seen, event: JobEvent, now: number): void {
    if (event.event === 'job:running') this.lastStart.set(event.pool, event.seq)
    const { job } = seen
    seen.log.push(event)
    this.#byStatus[seen.status].delete(seen)
    this.#byStatus[event.to].add(seen)
    seen.status = event.to
    if (event.to === 'ready') {
      seen.readyAt = event.at
      if (!seen.admitted) seen.startedSinceAdmission = false
      seen.admitted = true
    }
    foldCounts(seen, event)
    if (event.event === 'job:waiting') seen.admitted = false
    if (event.event === 'job:revived') this.#revive(seen, now)
    else if (isEnd(event.to)) this.#end(seen, event, now)
    if (job.key !== undefined && event.event === 'job:revived') {
      this.keys.set(job.key, { id: job.id, until: Infinity })
    }
  }

  #end(seen: Seen, event: JobEvent, now: number): void {
    const { job } = seen
    const holds = event.to === 'cancelled' && event.from === 'running'
    if (!holds) seen.admitted = false
    for (const dependent of this.namers.get(job.id) ?? []) {
      if (dependent.edges.get(job.id) !== 'open') continue
      const dep = dependent.job.deps.find(({ id }) => id === job.id)
      const satisfied = dep?.on === 'end' || event.to === 'success'
      dependent.edges.set(job.id, satisfied ? 'satisfied' : 'dead')
    }
    if (job.key === undefined || this.keys.get(job.key)?.id !== job.id) return
    const until = event.to === 'success' ? now + job.keyForMs : now
    if (until > now) this.keys.set(job.key, { id: job.id, until })
    else this.keys.delete(job.key)
  }

  #revive(seen: Seen, now: number): void {
    seen.admitted = seen.status === 'ready'
    seen.startedSinceAdmission = false
    seen.attemptsBefore = seen.attempts
    seen.lostBefore = seen.lost
    this.link(seen, now)
    for (const dependent of this.namers.get(seen.job.id) ?? []) {
      if (dependent.edges.get(seen.job.id) !== 'dead') continue
      if (dependent.status !== 'waiting' || this.isDoomed(dependent)) continue
      dependent.edges.set(seen.job.id, 'open')
    }
  }

  forget(seen: Seen, keepMs: number, now: number): void {
    const { job } = seen
    this.#byStatus[seen.status].delete(seen)
    this.jobs.delete(job.id)
    this.holds.delete(seen)
    if (keepMs > 0) this.outcomes.set(job.id, { status: seen.status, until: now + keepMs })
    for (const dep of job.deps) this.namers.get(dep.id)?.delete(seen)
    if (job.exclusive !== undefined) this.lanes.get(job.exclusive)?.delete(seen)
    if (job.key !== undefined && this.keys.get(job.key)?.id === job.id) this.keys.delete(job.key)
    this.forgotten += 1
    this.oldLogs.delete(job.id)
    if (this.oldLogs.size < KEPT_LOGS) this.oldLogs.set(job.id, seen.log)
  }

  /** Successes still missing, and dependencies that can still deliver: a recount of the edges. */
  countsOf(seen: Seen): { needs: number; open: number } {
    const states = [...seen.edges.values()]
    const satisfied = states.filter((state) => state === 'satisfied').length
    const { depMode, deps } = seen.job
    const wanted = depMode === 'all' ? deps.length : depMode === 'any' ? 1 : depMode
    const needs = deps.length === 0 ? 0 : Math.max(0, wanted - satisfied)
    return { needs, open: states.filter((state) => state === 'open').length }
  }

  isDoomed(seen: Seen): boolean {
    const { needs, open } = this.countsOf(seen)
    return needs > 0 && open < needs
  }

  /** The owner of a key, if its window is open. */
  ownerOf(key: string, now: number): string | undefined {
    const owner = this.keys.get(key)
    return owner !== undefined && owner.until > now ? owner.id : undefined
  }

  /** Leases and holds of a pool. */
  used(pool: string): number {
    let count = 0
    for (const seen of this.of('running')) if (seen.job.pool === pool) count += 1
    for (const seen of this.holds) if (seen.job.pool === pool) count += 1
    return count
  }

  /** A job that is live, failed or cancelled, and names this one. */
  namerOf(id: string, except: ReadonlySet<string>): Seen | undefined {
    for (const seen of this.namers.get(id) ?? []) {
      if (seen.status !== 'success' && !except.has(seen.job.id)) return seen
    }
    return undefined
  }

  /** All that has happened under an id: it may have been forgotten, and given to another job. */
  logOf(id: string): readonly JobEvent[] {
    return [...(this.oldLogs.get(id) ?? []), ...(this.jobs.get(id)?.log ?? [])]
  }
}

/** What an event says about the counts of a job. */
function foldCounts(seen: Seen, event: JobEvent): void {
  if (event.event === 'job:running') {
    seen.starts += 1
    seen.attempts += 1
    seen.startedSinceAdmission = true
  }
  if (event.event === 'job:lost') {
    seen.attempts -= 1
    seen.lost += 1
  }
  if (event.event === 'job:returned' && event.to !== 'failed') seen.attempts -= 1
}

function grouped<T>(map: Map<string, Set<T>>, key: string): Set<T> {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = new Set<T>()
  map.set(key, made)
  return made
}

/** The order of the queue, in the simulator's own words. */
export function comesBefore(one: StoredJob, other: StoredJob): boolean {
  return one.rank === other.rank ? one.seq < other.seq : one.rank < other.rank
}
