// Owns the naive view: what the store must hold, told from its log and from first principles.
// May never use a line of the code that it watches, and may never be clever: it recounts.

import type { JobEvent, JobStatus, StoredJob } from '../../core/job.ts'
import type { Ageing } from '../../core/rank.ts'
import type { Schedule, TypeSetting } from '../../core/settings.ts'
import type { WorkerBeat } from '../../store/store.ts'
import { PoolBook, type RateBook } from './books.ts'
import { isEnd } from './copy.ts'
import { foldCounts, foldUnknown, isSuspect } from './counts.ts'

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
  preempted: number
  /** The outcome of its last attempt is not known. */
  unknown: boolean
  /** When it asked for its place in line, and what its priority was worth then, or is since. */
  asked: number
  weight: number
  /** It goes back to its old place, once its time has come. */
  keepsRank: boolean
  /** It is to run again after a failure or a timeout, and waits for its time or the budget. */
  again: boolean
  /** The urgent job for which it was told to give way. */
  evictor: string | undefined
  /** Its body does not stop, and keeps the slot: its worker has said so. */
  stuck: boolean
  /** It has told somebody to give way since it is ready. */
  displaced: boolean
  readonly log: JobEvent[]
  /** How often everything had been ranked anew when it asked, or was admitted. */
  epoch: number
}

/** What is known of a lease that has just ended. */
export interface Ended {
  /** The body has been called. */
  readonly begun: boolean
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
  readonly pools = new Map<string, PoolBook>()
  readonly types = new Map<string, TypeSetting>()
  readonly schedules = new Map<string, Schedule>()
  /** Jobs of instants that have come. */
  readonly ticked = new Set<string>()
  ageing: Ageing | null = null
  budget: RateBook | null = null
  /** How often jobs have been ranked anew. */
  epoch = 0
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
  /** The number of the event with which a job of each pool, and of each type, last started. */
  readonly lastStart = new Map<string, number>()
  readonly lastTypeStart = new Map<string, number>()
  /** The same of the suspect that was started last. */
  lastSuspectStart = 0
  /** Who serves what, by what was last heard of them. */
  readonly workers = new Map<
    string,
    {
      readonly holder: string
      readonly types: readonly string[]
      readonly full: boolean
      readonly until: number
    }
  >()
  /** Every id that was ever given to a job. */
  readonly ever = new Set<string>()
  /** Ids of submissions that may have happened without their caller hearing of it. */
  readonly uncertain = new Set<string>()
  /** Ends whose dependents have not been told yet. */
  #untold: Seen[] = []
  added = 0
  forgotten = 0
  revived = 0
  lastLease = 0

  of(status: JobStatus): ReadonlySet<Seen> {
    return this.#byStatus[status]
  }

  pool(name: string): PoolBook {
    const known = this.pools.get(name)
    if (known !== undefined) return known
    const made = new PoolBook()
    this.pools.set(name, made)
    return made
  }

  /** What a priority is worth in milliseconds: the formula of ageing, or more than any wait. */
  worth(priority: number): number {
    const { ageing } = this
    const ages = ageing !== null && priority <= ageing.ceiling
    return priority * (ages ? ageing.everyMs : 2 ** 41)
  }

  /** Whether a job is as urgent as that, and no other can age past it. */
  isUrgent(job: StoredJob, minPriority: number): boolean {
    return job.priority >= minPriority && job.priority > (this.ageing?.ceiling ?? 0)
  }

  rankOf(seen: Seen): number {
    return seen.asked - seen.weight
  }

  comesBefore(one: Seen, other: Seen): boolean {
    const difference = this.rankOf(one) - this.rankOf(other)
    return difference === 0 ? one.job.seq < other.job.seq : difference < 0
  }

  /** Everything that has not ended is worth what is set now; answers how many were not. */
  rankAnew(): number {
    let count = 0
    for (const status of LIVE) {
      for (const seen of this.of(status)) {
        const weight = this.worth(seen.job.priority)
        if (seen.weight !== weight) count += 1
        seen.weight = weight
      }
    }
    if (count > 0) this.epoch += 1
    return count
  }

  /** Jobs that are worth what is set no more. */
  stale(): Seen[] {
    return LIVE.flatMap((status) => [...this.of(status)]).filter(
      (seen) => seen.weight !== this.worth(seen.job.priority),
    )
  }

  /** The job that was told to give way to this one, and has not done so. */
  victimOf(id: string): Seen | undefined {
    for (const seen of this.of('running')) if (seen.evictor === id) return seen
    for (const seen of this.holds) if (seen.evictor === id) return seen
    return undefined
  }

  /** Everything that has a lease or a hold. */
  held(): Seen[] {
    return [...this.of('running'), ...this.holds]
  }

  beat(worker: WorkerBeat, now: number): void {
    if (worker.ttlMs === 0) this.workers.delete(worker.holder)
    else
      this.workers.set(worker.holder, {
        holder: worker.holder,
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
      preempted: 0,
      unknown: false,
      asked: event.at,
      weight: this.worth(job.priority),
      keepsRank: false,
      again: false,
      evictor: undefined,
      stuck: false,
      displaced: false,
      log: [],
      epoch: this.epoch,
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

  /** One record of the log: the job moves; whoever depends on it is told later, by `tell`. */
  fold(seen: Seen, event: JobEvent, now: number, after: StoredJob, ended: Ended): void {
    if (event.event === 'job:running') {
      this.lastStart.set(event.pool, event.seq)
      this.lastTypeStart.set(event.type, event.seq)
      if (isSuspect(seen)) this.lastSuspectStart = event.seq
    }
    const { job } = seen
    this.#foldPlace(seen, event, after)
    this.#foldUrgency(seen, event)
    if (event.from === 'running') foldUnknown(seen, event, ended)
    seen.log.push(event)
    this.#byStatus[seen.status].delete(seen)
    this.#byStatus[event.to].add(seen)
    seen.status = event.to
    if (event.from === 'running' && event.to === 'cancelled') this.holds.add(seen)
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

  /** Where it stands in line: from when, with what weight. */
  #foldPlace(seen: Seen, event: JobEvent, after: StoredJob): void {
    const { from, to } = event
    const ask = (at: number) => {
      seen.asked = at
      seen.weight = this.worth(seen.job.priority)
      seen.epoch = this.epoch
    }
    const again = event.event === 'job:retry' || event.event === 'job:timeout'
    if (again && !isEnd(to)) ask(after.availableAt)
    if (from === 'pending' && !seen.keepsRank && (to === 'ready' || to === 'waiting')) {
      ask(seen.job.availableAt)
    }
    if (event.event === 'job:revived') ask(event.at)
    seen.keepsRank = event.event === 'job:lost' && to === 'pending'
    seen.again = again && to === 'pending'
    if (from === 'waiting' && to === 'ready') seen.epoch = this.epoch
  }

  /** Who is ready no more needs no victim; who has no slot any more need not give way. */
  #foldUrgency(seen: Seen, { from, to }: JobEvent): void {
    if (from === 'ready') {
      const victim = seen.displaced ? this.victimOf(seen.job.id) : undefined
      if (victim !== undefined) victim.evictor = undefined
      seen.displaced = false
    }
    if (from !== 'running' || to === 'cancelled') return
    seen.evictor = undefined
    seen.stuck = false
  }

  #end(seen: Seen, event: JobEvent, now: number): void {
    const { job } = seen
    const holds = event.to === 'cancelled' && event.from === 'running'
    if (!holds) seen.admitted = false
    this.#untold.push(seen)
    if (job.key === undefined || this.keys.get(job.key)?.id !== job.id) return
    const until = event.to === 'success' ? now + job.keyForMs : now
    if (until > now) this.keys.set(job.key, { id: job.id, until })
    else this.keys.delete(job.key)
  }

  /** All decisions of a call have been made: now the dependents hear of the ends among them. */
  tell(now: number): void {
    const ended = this.#untold
    this.#untold = []
    for (const seen of ended) if (isEnd(seen.status)) this.#tellOf(seen, now)
  }

  #tellOf({ job, status }: Seen, now: number): void {
    for (const dependent of this.namers.get(job.id) ?? []) {
      if (dependent.edges.get(job.id) !== 'open') continue
      const dep = dependent.job.deps.find(({ id }) => id === job.id)
      const satisfied = dep?.on === 'end' || status === 'success'
      dependent.edges.set(job.id, satisfied ? 'satisfied' : 'dead')
      // Its quorum is met: it asks for its lane, whether or not it gets it.
      const isDue = dependent.job.availableAt <= now
      const asks = satisfied && isDue && dependent.status === 'waiting'
      if (!asks || this.countsOf(dependent).needs > 0) continue
      if (this.countsOf(dependent, job.id).needs === 0) continue
      dependent.asked = now
      dependent.weight = this.worth(dependent.job.priority)
      dependent.epoch = this.epoch
    }
  }

  #revive(seen: Seen, now: number): void {
    this.revived += 1
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
  countsOf(seen: Seen, without?: string): { needs: number; open: number } {
    const states = [...seen.edges].filter(([id]) => id !== without).map(([, state]) => state)
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

  /** Leases and holds of a pool, of one holder if one is given. */
  used(pool: string, holder?: string): number {
    const mine = (seen: Seen) => holder === undefined || seen.job.lease?.holder === holder
    let count = 0
    for (const seen of this.of('running')) if (seen.job.pool === pool && mine(seen)) count += 1
    for (const seen of this.holds) if (seen.job.pool === pool && mine(seen)) count += 1
    return count
  }

  /** Leases and holds of a type, over all pools. */
  usedOf(type: string): number {
    return this.held().filter((seen) => seen.job.type === type).length
  }

  /** Whether a worker has a job that may be what kills workers. */
  hasSuspect(holder: string): boolean {
    return this.held().some((seen) => seen.job.lease?.holder === holder && isSuspect(seen))
  }

  /** What a bound of a queue counts. */
  queued(pool: string): number {
    let count = 0
    for (const seen of this.of('pending')) if (seen.job.pool === pool) count += 1
    for (const seen of this.of('ready')) if (seen.job.pool === pool) count += 1
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

function grouped<T>(map: Map<string, Set<T>>, key: string): Set<T> {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = new Set<T>()
  map.set(key, made)
  return made
}

const LIVE = ['pending', 'waiting', 'ready', 'running'] as const
