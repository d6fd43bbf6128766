// Owns the reference store: jobs in this process's memory, on heaps and maps.
// May never decide, do I/O, or scan all jobs: it obeys the promises of store.ts, one by one.

import { type Attempt, hasEnded, Live, type Move, type NewJob } from '../core/job.ts'
import { isDoomed } from '../core/quorum.ts'
import type { Heap } from '../kit/heap.ts'
import { type Runtime, systemRuntime } from '../kit/runtime.ts'
import { LIMITS } from './limits.ts'
import { Board } from './memory/board.ts'
import { JobRecord } from './memory/record.ts'
import type {
  Counted,
  EventPage,
  ExtendAnswer,
  ExtendAsk,
  Extended,
  Hint,
  InsertAnswer,
  Inserted,
  InsertGroup,
  LeaseAnswer,
  LeaseAsk,
  ListPage,
  ListQuery,
  Moved,
  OverdueAnswer,
  OverdueAsk,
  PoolChange,
  Refusal,
  Standing,
  Store,
  Told,
  Traits,
  WorkerBeat,
} from './store.ts'

export interface MemoryOptions {
  /** The store's clock, epoch milliseconds. Default: the runtime's, made steady. */
  readonly now?: () => number
  readonly runtime?: Runtime
  /** Log entries kept at most. Default 1,000,000. */
  readonly maxLog?: number
}

/**
 * Keeps jobs in this process's memory: the default, for tests, and the reference that every
 * other store is compared with. Nothing survives the process. Jobs may carry their own `execute`.
 * Every write is O(log n) per job; about 450 bytes per queued job beyond its payload.
 */
export function memoryStore(options: MemoryOptions = {}): Store {
  return new MemoryStore(options)
}

/** The wall clock of the moment of creation, carried on by a clock that never steps. */
function steadyClock(runtime: Runtime): () => number {
  const start = runtime.now() - runtime.monotonic()
  return () => Math.floor(start + runtime.monotonic())
}

interface Worker extends WorkerBeat {
  readonly until: number
}

class MemoryStore implements Store {
  readonly traits: Traits = { name: 'memory', keepsLive: true, lossyHints: false }
  readonly #board: Board
  readonly #clock: () => number
  readonly #watchers = new Set<(hint: Hint) => void>()
  readonly #workers = new Map<string, Worker>()

  constructor(options: MemoryOptions) {
    this.#clock = options.now ?? steadyClock(options.runtime ?? systemRuntime)
    this.#board = new Board(options.maxLog ?? LIMITS.memoryLog)
  }

  async insert(groups: readonly InsertGroup[], tell: boolean) {
    return this.#write(tell, () => groups.map((group) => this.#insert(group)))
  }

  async lease(ask: LeaseAsk, tell: boolean): Promise<Told<LeaseAnswer>> {
    return this.#write(tell, () => {
      this.#promote()
      const jobs = this.#board.pools.take(ask)
      for (const record of jobs) this.#grant(record, ask)
      return { jobs, nextAt: this.#board.due.peekKey() }
    })
  }

  async overdue(ask: OverdueAsk, tell: boolean): Promise<Told<OverdueAnswer>> {
    return this.#write(tell, () => {
      const board = this.#board
      board.continueFanOuts()
      board.graph.prune(board.now, LIMITS.chunk)
      board.log.prune(board.now - ask.keepLogMs, LIMITS.chunk)
      const limit = Math.min(ask.limit, LIMITS.moves)
      const jobs = this.#firstOverdue(limit)
      return {
        jobs,
        nextAt: board.waits.peekKey(),
        nextQuietAt: Math.min(board.leases.peekKey(), board.retention.peekKey()),
        more: board.fanOuts.size > 0 || jobs.length === limit,
      }
    })
  }

  async apply(moves: readonly Move[], tell: boolean): Promise<Told<readonly Moved[]>> {
    return this.#write(tell, () => {
      const moved = moves.map((move) => this.#move(move))
      for (const answer of moved) {
        if (answer.status === 'moved') this.#follow(answer.job as JobRecord)
      }
      return moved
    })
  }

  async extend(ask: ExtendAsk, tell: boolean): Promise<Told<ExtendAnswer>> {
    return this.#write(tell, () => {
      const listed = new Set<number>()
      const leases = ask.held.map((held) => this.#extend(held, ask, listed))
      const unheard = [...(this.#board.holders.get(ask.holder) ?? [])]
      for (const [number, record] of unheard) {
        if (number <= ask.upTo && !listed.has(number)) this.#giveBack(record)
      }
      return { leases, mark: this.#board.lastLease }
    })
  }

  async configure(change: PoolChange): Promise<void> {
    this.#write(false, () => {
      this.#board.pools.configure(change)
      this.#board.hintReady = true
    })
  }

  async beat(worker: WorkerBeat): Promise<void> {
    if (worker.ttlMs === 0) this.#workers.delete(worker.holder)
    else this.#workers.set(worker.holder, { ...worker, until: this.#now() + worker.ttlMs })
  }

  async get(ids: readonly string[]) {
    return ids.map((id) => this.#board.records.get(id) ?? null)
  }

  async list(query: ListQuery): Promise<ListPage> {
    return this.#board.catalog.page(query)
  }

  async count(): Promise<Counted> {
    const board = this.#board
    const pools = board.pools.states()
    const held = [...board.pools.held()].sort(byLease).slice(0, LIMITS.held)
    return {
      at: this.#now(),
      types: board.pools.types(),
      pools,
      failures: topFailures(board.failures),
      held,
      doomed: board.doomed.size,
      fanOuts: board.fanOuts.size,
      forgotten: board.forgotten,
    }
  }

  async dependents(id: string, after: number, limit: number) {
    return this.#board.graph.dependentsOf(id, after, Math.min(limit, LIMITS.page))
  }

  async standing(id: string): Promise<Standing> {
    const board = this.#board
    const record = board.records.get(id)
    const now = this.#now()
    const live = [...this.#workers.values()].filter((worker) => worker.until > now)
    const served = live.some((worker) => worker.types.includes(record?.type ?? ''))
    const unsatisfied = record?.has.edges.filter((edge) => edge.state !== 'satisfied') ?? []
    return {
      ahead: record?.status === 'ready' ? board.pools.ahead(record) : 0,
      pool: board.pools.get(record?.pool ?? ''),
      laneHolder: record === undefined ? undefined : board.lanes.holderOf(record),
      deps: unsatisfied.map(({ dep }) => ({ ...dep, status: this.#statusOf(dep.id, now) })),
      served: served || record?.body !== undefined,
    }
  }

  async events(after: number, limit: number): Promise<EventPage> {
    return this.#board.log.page(after, Math.min(limit, LIMITS.events))
  }

  async watch(onHint: (hint: Hint) => void): Promise<() => Promise<void>> {
    this.#watchers.add(onHint)
    return async () => {
      this.#watchers.delete(onHint)
    }
  }

  async time(): Promise<number> {
    return this.#now()
  }

  async open(): Promise<void> {}

  async close(): Promise<void> {}

  #now(): number {
    this.#board.now = Math.max(this.#board.now, this.#clock())
    return this.#board.now
  }

  /** One atomic step: nothing else runs in between, and hints go out when it is done. */
  #write<T>(tell: boolean, act: () => T): Told<T> {
    const { log } = this.#board
    this.#now()
    const before = log.last
    const answer = act()
    const events = tell ? log.page(before, log.last - before).events : NO_EVENTS
    const hint = this.#board.takeHint()
    for (const watcher of this.#watchers) watcher(hint)
    return { answer, events }
  }

  // Insertion

  #insert(group: InsertGroup): InsertAnswer {
    const { fence } = group
    if (fence !== undefined && !this.#holds(fence.id, fence.lease)) return { status: 'stale' }
    const plan = this.#plan(group)
    if ('refusals' in plan) return { status: 'refused', refusals: plan.refusals }
    const fresh = plan.fresh.map((job) => this.#record(job))
    for (const record of fresh) this.#board.introduce(record)
    for (const record of fresh) {
      if (record.deps.length > 0) this.#board.graph.link(record, this.#board.now)
    }
    for (const record of fresh) this.#board.begin(record)
    return { status: 'done', jobs: this.#answers(plan, fresh) }
  }

  /** Two jobs of one group that share a key share a record: only the first has added it. */
  #answers(plan: Plan, fresh: readonly JobRecord[]): readonly Inserted[] {
    let next = 0
    return plan.answers.map((answer): Inserted => {
      if (typeof answer !== 'string') return { added: false, job: answer }
      const record = fresh[next]
      if (record?.id !== answer) {
        return { added: false, job: this.#board.records.get(answer) as JobRecord }
      }
      next += 1
      return { added: true, job: record }
    })
  }

  #record(job: NewJob): JobRecord {
    const board = this.#board
    board.lastSeq += 1
    const queue = board.pools.queueOf(job.pool, job.type, job.body !== undefined)
    return new JobRecord(job, board.lastSeq, board.now, queue)
  }

  /** What would become of each job of a group: nothing is changed yet. */
  #plan(group: InsertGroup): Plan | { readonly refusals: readonly Refusal[] } {
    const ids = group.jobs.length > 1 ? new Set<string>() : undefined
    const plan: Plan = { ids, fresh: [], answers: [], keys: undefined, linked: false }
    const refusals: Refusal[] = []
    const given = group.unknownDeps === 'wait' ? null : new Set(group.jobs.map(({ id }) => id))
    for (let index = 0; index < group.jobs.length; index += 1) {
      const refusal = this.#consider(group.jobs[index] as NewJob, index, plan, given)
      if (refusal !== undefined) refusals.push(refusal)
    }
    if (refusals.length > 0) return { refusals }
    const path = plan.linked ? this.#board.graph.loopOf(plan.fresh, this.#board.now) : null
    if (path === null) return plan
    const index = group.jobs.findIndex((job) => path.includes(job.id))
    return { refusals: [{ index: Math.max(0, index), reason: 'cycle', path }] }
  }

  /** `given`: the ids of the group, where a dependency that nobody knows is refused. */
  #consider(
    job: NewJob,
    index: number,
    plan: Plan,
    given: ReadonlySet<string> | null,
  ): Refusal | undefined {
    const { id, key } = job
    const { graph, keys, now, records } = this.#board
    if (plan.ids?.has(id)) return { index, reason: 'duplicate', id }
    plan.ids?.add(id)
    const known = records.get(id)
    if (known !== undefined) {
      if (known.type !== job.type || !isSame(known.payload, job.payload)) {
        return { index, reason: 'duplicate', id }
      }
      plan.answers.push(known)
      return undefined
    }
    if (key !== undefined) {
      const owner = plan.keys?.get(key) ?? keys.ownerOf(key, now)?.id
      if (owner !== undefined && !job.minted) return { index, reason: 'key', key, owner }
      if (owner !== undefined) {
        plan.answers.push(records.get(owner) ?? owner)
        return undefined
      }
      plan.keys ??= new Map()
      plan.keys.set(key, id)
    }
    if (given !== null) {
      const unknown = job.deps.find((dep) => !given.has(dep.id) && !graph.knows(dep.id, now))
      if (unknown !== undefined) return { index, reason: 'unknown', dep: unknown.id }
    }
    if (job.deps.length > 0) plan.linked = true
    plan.fresh.push(job)
    plan.answers.push(id)
    return undefined
  }

  #holds(id: string, lease: number): boolean {
    const record = this.#board.records.get(id)
    return record?.lease?.number === lease && !record.lease.hold
  }

  // Leases

  #promote(): void {
    const { due } = this.#board
    for (let count = 0; count < LIMITS.chunk && due.peekKey() <= this.#board.now; count += 1) {
      const record = due.pop() as JobRecord
      const readyAt = record.has.keepRank ? undefined : record.availableAt
      if (record.has.keepRank) record.rare.keepRank = false
      this.#board.pass(record, 'due', readyAt)
    }
  }

  #grant(record: JobRecord, ask: LeaseAsk): void {
    const board = this.#board
    board.setDeadline(record, 0)
    record.starts += 1
    record.attempts += 1
    const attempt: Attempt = {
      attempt: record.starts,
      startedAt: board.now,
      queuedMs: board.now - record.readyAt,
      worker: ask.holder,
    }
    const earlier = record.log
    record.log = earlier.length === 0 ? [attempt] : [...earlier.slice(1 - LIMITS.attempts), attempt]
    board.grant(record, ask.holder, false)
    board.lanes.started(record)
    board.enter(record, 'lease', 'running', { worker: ask.holder })
    board.setDeadline(record, board.now + ask.leaseMs)
  }

  #extend(held: ExtendAsk['held'][number], ask: ExtendAsk, listed: Set<number>): Extended {
    const record = this.#board.records.get(held.id)
    const lease = record?.lease
    if (record === undefined || lease?.holder !== ask.holder) return { status: 'lost' }
    if (!lease.hold && lease.number !== held.lease) return { status: 'lost' }
    listed.add(lease.number)
    this.#board.setDeadline(record, this.#board.now + ask.leaseMs)
    return lease.hold ? { status: 'cancelled', lease } : { status: 'held' }
  }

  /** A lease that its worker never heard of goes back uncharged; such a hold is settled. */
  #giveBack(record: JobRecord): void {
    const board = this.#board
    if (record.lease?.hold === true) {
      this.#settle(record)
      board.releaseLane(record)
      return
    }
    const worker = record.lease?.holder
    this.#close(record, 'returned', undefined)
    record.attempts -= 1
    board.setDeadline(record, 0)
    board.drop(record)
    board.pass(record, 'unheard', undefined, { worker })
  }

  // Moves

  #move(move: Move): Moved {
    const record = this.#board.records.get(move.id)
    if (record === undefined) return { status: 'stale', job: null }
    if (!this.#isExpected(record, move)) return { status: 'stale', job: record }
    if (move.to === 'gone') return this.#forget(record, move)
    if (move.step === 'revive') return this.#revive(record)
    if (move.step === 'settle') this.#settle(record)
    else if (hasEnded(move.to)) this.#end(record, move)
    else this.#runAgain(record, move)
    return { status: 'moved', job: record }
  }

  #isExpected(record: JobRecord, { expect, step }: Move): boolean {
    if ('lease' in expect) {
      const { lease } = record
      return lease?.number === expect.lease && lease.hold === (step === 'settle')
    }
    if (record.rev !== expect.rev) return false
    return !expect.overdue || (record.deadline > 0 && record.deadline <= this.#board.now)
  }

  /** What follows from a move, for others: dependents are told, the lane goes on. */
  #follow(record: JobRecord): void {
    if (!hasEnded(record.status)) return
    this.#board.fanOut(record)
    if (record.lease === undefined) this.#board.releaseLane(record)
  }

  #end(record: JobRecord, move: Move): void {
    const board = this.#board
    const to = move.to as 'success' | 'failed' | 'cancelled'
    const worker = record.lease?.holder
    const hold = move.step === 'cancel' && record.lease !== undefined ? record.lease : undefined
    const { deadline } = record
    this.#charge(record, move)
    board.leave(record)
    board.drop(record)
    board.setFailure(record, move.error, move.code)
    if (to === 'failed') board.countFailure(move.code ?? 'HANDLER_FAILED', 1)
    record.result = move.result
    record.finishedAt = board.now
    board.enter(record, move.step, to, { worker, code: move.code, cause: causeOf(record, move) })
    if (hold === undefined) board.setDeadline(record, board.now + move.keepMs)
    else {
      board.grant(record, hold.holder, true)
      board.setDeadline(record, deadline)
      board.hintHolders.push(hold.holder)
      record.rare.keepMs = move.keepMs
    }
    board.keys.release(
      record,
      to === 'success' && record.keyForMs > 0 ? board.now + record.keyForMs : 0,
    )
    board.hintEnded.push(record.id)
    if (to === 'success') this.#unpark(board.graph.unname(record))
  }

  #runAgain(record: JobRecord, move: Move): void {
    const board = this.#board
    const worker = record.lease?.holder
    this.#charge(record, move)
    board.leave(record)
    board.drop(record)
    if (move.error !== undefined) board.setFailure(record, move.error, move.code)
    record.availableAt = board.now + move.delayMs
    board.place(record, move.step, move.keepRank, { worker, code: move.code })
  }

  #charge(record: JobRecord, move: Move): void {
    if (record.status !== 'running') return
    this.#close(record, move.outcome, move.code)
    if (move.charge === 'attempt') return
    record.attempts -= 1
    if (move.charge === 'lost') record.rare.lost += 1
  }

  /** Writes the closing record of the attempt that is open. */
  #close(record: JobRecord, outcome: Attempt['outcome'], code: string | undefined): void {
    const { log } = record
    const open = log[log.length - 1]
    if (open === undefined) return
    const closed: Attempt = {
      attempt: open.attempt,
      startedAt: open.startedAt,
      queuedMs: open.queuedMs,
      worker: open.worker,
      callMs: this.#board.now - open.startedAt,
      ...(outcome === undefined ? NOTHING : { outcome }),
      ...(code === undefined ? NOTHING : { code }),
    }
    record.log = log.length === 1 ? [closed] : [...log.slice(0, -1), closed]
  }

  /** A hold is over: slot and lane are free, and the retention counts from the end. */
  #settle(record: JobRecord): void {
    const board = this.#board
    board.setDeadline(record, 0)
    board.drop(record)
    record.rev += 1
    board.setDeadline(record, record.finishedAt + record.has.keepMs)
    board.hintEnded.push(record.id)
  }

  #revive(record: JobRecord): Moved {
    const board = this.#board
    const { key } = record
    const owner = key === undefined ? undefined : board.keys.ownerOf(key, board.now)
    if (owner !== undefined && owner !== record) {
      return { status: 'refused', job: record, why: { reason: 'key', owner: owner.id } }
    }
    board.finishFanOut(record)
    const survey = board.graph.survey(record, board.now)
    if (isDoomed(survey.counts)) {
      const dep = survey.dead ?? record.id
      return { status: 'refused', job: record, why: { reason: 'doomed', dep } }
    }
    board.leave(record)
    if (record.status === 'failed') board.countFailure(record.code ?? 'HANDLER_FAILED', -1)
    board.setFailure(record, undefined, undefined)
    const { rare } = record
    board.graph.commit(record, survey)
    rare.cause = undefined
    rare.parked = false
    rare.attemptsBefore = record.attempts
    rare.lostBefore = record.lost
    record.finishedAt = 0
    record.result = undefined
    record.availableAt = board.now
    board.keys.take(record)
    board.hintEnded.push(record.id)
    if (record.needs > 0) board.enter(record, 'revive', 'waiting')
    else board.place(record, 'revive', false)
    board.graph.reopen(record)
    return { status: 'moved', job: record }
  }

  #forget(record: JobRecord, move: Move): Moved {
    const board = this.#board
    if (record.lease !== undefined) return { status: 'stale', job: record }
    board.setDeadline(record, 0)
    if ((record.node?.namers ?? 0) > 0) {
      record.rare.parked = true
      return { status: 'refused', job: record, why: { reason: 'named' } }
    }
    board.finishFanOut(record)
    const free = board.graph.forget(record, move.keepMs, board.now)
    board.keys.release(record, 0)
    board.catalog.remove(record)
    board.records.delete(record.id)
    record.queue.counts[record.status] -= 1
    if (record.status === 'failed') board.countFailure(record.code ?? 'HANDLER_FAILED', -1)
    board.forgotten += 1
    board.hintEnded.push(record.id)
    this.#unpark(free)
    return { status: 'moved', job: record }
  }

  /** Jobs that nobody names any more, and whose retention has been over for a while. */
  #unpark(records: readonly JobRecord[]): void {
    for (const record of records) {
      if (!record.has.parked) continue
      record.rare.parked = false
      this.#board.setDeadline(record, this.#board.now)
      this.#board.hintOverdue = true
    }
  }

  /** The first overdue jobs of all three heaps, by (deadline, seq). They stay where they are. */
  #firstOverdue(limit: number): readonly JobRecord[] {
    const { waits, leases, retention, now } = this.#board
    const heaps = [waits, leases, retention]
    const jobs: JobRecord[] = []
    while (jobs.length < limit) {
      const heap = heaps.reduce((best, each) => (isSooner(each, best) ? each : best))
      if (heap.peekKey() > now) break
      jobs.push(heap.pop() as JobRecord)
    }
    for (const record of jobs) this.#board.setDeadline(record, record.deadline)
    return jobs
  }

  #statusOf(id: string, now: number): Standing['deps'][number]['status'] {
    return this.#board.records.get(id)?.status ?? this.#board.graph.outcomeOf(id, now) ?? 'unknown'
  }
}

/** What is to become of a group: who is new, who was there, and the keys that it takes. */
interface Plan {
  /** Of all its jobs; a group of one needs none. */
  readonly ids: Set<string> | undefined
  readonly fresh: NewJob[]
  /** Per job: the record that was there already, or the id of one that is new. */
  readonly answers: (JobRecord | string)[]
  keys: Map<string, string> | undefined
  /** Whether any new job has dependencies. */
  linked: boolean
}

const NO_EVENTS: readonly never[] = Object.freeze([])
const NOTHING = Object.freeze({})

function isSame(stored: unknown, given: unknown): boolean {
  if (stored instanceof Live && given instanceof Live) return Object.is(stored.value, given.value)
  return stored === given
}

/** A job cancelled for its dependencies carries their culprit; no other end has one. */
function causeOf(record: JobRecord, move: Move): string | undefined {
  return move.step === 'cascade' ? record.cause : undefined
}

function isSooner(heap: Heap<JobRecord>, than: Heap<JobRecord>): boolean {
  if (heap.peekKey() !== than.peekKey()) return heap.peekKey() < than.peekKey()
  return heap.peekTie() < than.peekTie()
}

function byLease(a: JobRecord, b: JobRecord): number {
  return (a.lease?.number ?? 0) - (b.lease?.number ?? 0)
}

/** The most frequent codes by name; what is beyond the bound is counted together. */
function topFailures(failures: ReadonlyMap<string, number>): Readonly<Record<string, number>> {
  const sorted = [...failures].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
  const counts: Record<string, number> = Object.create(null)
  for (const [code, count] of sorted.slice(0, LIMITS.codes)) counts[code] = count
  const rest = sorted.slice(LIMITS.codes).reduce((sum, [, count]) => sum + count, 0)
  if (rest > 0) counts.other = (counts.other ?? 0) + rest
  return counts
}
