// Owns the reference store: jobs in this process's memory, on heaps and maps.
// May never decide, do I/O, or scan all jobs: it obeys the promises of store.ts, one by one.

import type { Attempt, Move } from '../core/job.ts'
import { shownAs } from '../core/quorum.ts'
import type { StoredSettings } from '../core/settings.ts'
import { type Runtime, systemRuntime } from '../kit/runtime.ts'
import { LIMITS } from './limits.ts'
import { Board } from './memory/board.ts'
import { Insertion } from './memory/insertion.ts'
import { inspect } from './memory/inspection.ts'
import { Moves } from './memory/moves.ts'
import { isSooner, nextDue, promote } from './memory/promotion.ts'
import type { JobRecord } from './memory/record.ts'
import type {
  Change,
  Counted,
  EventPage,
  ExtendAnswer,
  ExtendAsk,
  Extended,
  Hint,
  InsertGroup,
  Inspection,
  LeaseAnswer,
  LeaseAsk,
  ListPage,
  ListQuery,
  Moved,
  OverdueAnswer,
  OverdueAsk,
  ReplaceGroup,
  Standing,
  Store,
  Told,
  Traits,
  WorkerBeat,
  WorkerInfo,
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
 * Every write is O(log n) per job; about 500 bytes per queued job beyond its payload.
 */
export function memoryStore(options: MemoryOptions = {}): Store {
  return new MemoryStore(options)
}

/** The wall clock of the moment of creation, carried on by a clock that never steps. */
function steadyClock(runtime: Runtime): () => number {
  const start = runtime.now() - runtime.monotonic()
  return () => Math.floor(start + runtime.monotonic())
}

/** The types that somebody runs; null where nobody is there to run a body of its own either. */
function servedBy(live: readonly Worker[]): ReadonlySet<string> | null {
  return live.length === 0 ? null : new Set(live.flatMap((worker) => worker.types))
}

const NO_EVENTS: readonly never[] = Object.freeze([])

interface Worker extends WorkerBeat {
  readonly until: number
}

class MemoryStore implements Store {
  readonly traits: Traits = { name: 'memory', keepsLive: true, lossyHints: false }
  readonly #board: Board
  readonly #insertion: Insertion
  readonly #moves: Moves
  readonly #clock: () => number
  readonly #watchers = new Set<(hint: Hint) => void>()
  readonly #workers = new Map<string, Worker>()

  constructor(options: MemoryOptions) {
    this.#clock = options.now ?? steadyClock(options.runtime ?? systemRuntime)
    this.#board = new Board(options.maxLog ?? LIMITS.memoryLog)
    this.#insertion = new Insertion(this.#board)
    this.#moves = new Moves(this.#board)
  }

  async insert(groups: readonly InsertGroup[], tell: boolean) {
    return this.#write(tell, () => groups.map((group) => this.#insertion.insert(group)))
  }

  async replace(group: ReplaceGroup, tell: boolean) {
    return this.#write(tell, () => this.#insertion.replace(group))
  }

  async lease(ask: LeaseAsk, tell: boolean): Promise<Told<LeaseAnswer>> {
    return this.#write(tell, () => {
      promote(this.#board)
      const { pools, now, ranks } = this.#board
      const jobs: JobRecord[] = []
      const grant = (record: JobRecord, pass: number) => {
        this.#grant(record, ask, pass)
        jobs.push(record)
      }
      const displace = (victim: JobRecord, urgent: JobRecord) =>
        this.#board.displace(victim, urgent)
      const { nextAt } = pools.take(ask, { now, ageing: ranks.ageing, grant, displace })
      return { jobs, nextAt: Math.min(nextAt, nextDue(this.#board)) }
    })
  }

  async overdue(ask: OverdueAsk, tell: boolean): Promise<Told<OverdueAnswer>> {
    return this.#write(tell, () => {
      const board = this.#board
      board.continueFanOuts()
      board.continueRanking()
      board.graph.prune(board.now, LIMITS.prune)
      board.log.prune(board.now - ask.keepLogMs, LIMITS.prune)
      const limit = Math.min(ask.limit, LIMITS.moves)
      const jobs = this.#firstOverdue(limit)
      const schedules = board.timetable.due(board.now, limit)
      const nextAt = Math.min(board.waits.peekKey(), schedules.nextAt)
      board.announced(nextAt)
      const unfinished = board.fanOuts.size > 0 || board.ranks.unranked > 0
      const isFull = jobs.length === limit || schedules.rows.length === limit
      // An entry is dropped once it is older than that, a millisecond later than its age.
      const nextPrune = board.log.oldestAt + ask.keepLogMs + 1
      return {
        jobs,
        schedules: schedules.rows,
        nextAt,
        nextQuietAt: Math.min(board.leases.peekKey(), board.retention.peekKey(), nextPrune),
        more: unfinished || isFull || nextPrune <= board.now,
      }
    })
  }

  async apply(moves: readonly Move[], tell: boolean): Promise<Told<readonly Moved[]>> {
    return this.#write(tell, () => {
      const moved = moves.map((move) => this.#moves.move(move))
      for (const answer of moved) {
        if (answer.status === 'moved') this.#moves.follow(answer.job as JobRecord)
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
        if (number <= ask.upTo && !listed.has(number)) this.#moves.giveBack(record)
      }
      return { leases, mark: this.#board.lastLease }
    })
  }

  async configure(...changes: readonly Change[]): Promise<void> {
    this.#write(false, () => {
      for (const change of changes) this.#set(change)
      this.#board.hintReady = true
      this.#board.hintSettings = true
    })
  }

  #set(change: Change): void {
    const board = this.#board
    if ('pool' in change) board.rooms.configure(board.pools.configure(change, board.now))
    else if ('type' in change) board.setType(change.type, change.setting)
    else if ('ageing' in change) {
      board.ranks.set(change.ageing)
      if (board.ranks.unranked > 0) board.hintOverdue = true
    } else if ('budget' in change) board.retries.set(change.budget, board.now)
    else {
      board.scheduled(board.timetable.set(change.schedule, change.row))
    }
  }

  async settings(): Promise<StoredSettings> {
    const { pools, types, ranks, retries, timetable } = this.#board
    return {
      pools: pools.settings(),
      types: Object.fromEntries(types),
      ageing: ranks.ageing,
      budget: retries.terms,
      schedules: timetable.rows,
    }
  }

  async workers(): Promise<readonly WorkerInfo[]> {
    const now = this.#now()
    const live = [...this.#workers.values()].filter((worker) => worker.until > now)
    const sorted = live.sort((a, b) => (a.holder < b.holder ? -1 : 1))
    return sorted.map(({ ttlMs: _, ...worker }) => {
      return { ...worker, running: this.#board.holders.get(worker.holder)?.size ?? 0 }
    })
  }

  async inspect(): Promise<Inspection> {
    this.#now()
    return inspect(this.#board)
  }

  async beat(worker: WorkerBeat): Promise<void> {
    const now = this.#now()
    if (worker.ttlMs === 0) this.#workers.delete(worker.holder)
    else this.#workers.set(worker.holder, { ...worker, until: now + worker.ttlMs })
    for (const [holder, { until }] of this.#workers) if (until <= now) this.#workers.delete(holder)
  }

  async get(ids: readonly string[]) {
    return ids.map((id) => this.#board.records.get(id) ?? null)
  }

  async list(query: ListQuery): Promise<ListPage> {
    return this.#board.catalog.page(query)
  }

  async count(): Promise<Counted> {
    const board = this.#board
    const pools = board.pools.states(this.#now())
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
      unranked: board.ranks.unranked,
      budgeted: board.retries.waiting(board.now),
    }
  }

  async dependents(id: string, after: number, limit: number) {
    return this.#board.graph.dependentsOf(id, after, Math.min(limit, LIMITS.page))
  }

  async standing(id: string): Promise<Standing> {
    const board = this.#board
    const record = board.records.get(id)
    const type = record?.type ?? ''
    const now = this.#now()
    const live = [...this.#workers.values()].filter((worker) => worker.until > now)
    const able = live.filter(({ types }) => record?.body !== undefined || types.includes(type))
    const takers = able.filter((worker) => !worker.full)
    const isBarred = ({ holder }: Worker) =>
      record !== undefined && board.pools.isBarred(record, holder)
    const isSpent = ({ holder }: Worker) =>
      record !== undefined && board.pools.isSpent(record, holder, board.ranks.ageing)
    const unsatisfied = record?.has.edges.filter((edge) => edge.state !== 'satisfied') ?? []
    return {
      ahead: record?.status === 'ready' ? board.pools.ahead(record, servedBy(live)) : 0,
      pool: board.pools.get(record?.pool ?? '', now),
      laneHolder: record === undefined ? undefined : board.lanes.holderOf(record),
      deps: unsatisfied.map(({ dep, state }) => {
        return { ...dep, status: shownAs(state === 'dead', this.#statusOf(dep.id, now)) }
      }),
      served: able.length > 0,
      full: able.length > 0 && able.every((worker) => worker.full),
      barred: takers.length > 0 && takers.every(isBarred),
      spent: takers.length > 0 && takers.every((each) => isBarred(each) || isSpent(each)),
      type: {
        concurrency: board.types.get(type)?.concurrency ?? null,
        running: board.pools.runningOf(type),
      },
      budgetAt: record?.status === 'pending' ? board.retries.freeAt(record, now) : 0,
      victim: record?.has.victim?.id,
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

  // Leases

  #grant(record: JobRecord, ask: LeaseAsk, pass: number): void {
    const board = this.#board
    if (pass >= 0) record.rare.pass = pass
    board.calm(record)
    board.setDeadline(record, 0)
    record.starts += 1
    record.attempts += 1
    const attempt: Attempt = {
      attempt: record.starts,
      startedAt: board.now,
      queuedMs: board.now - record.readyAt,
      worker: ask.holder,
    }
    if (record.latest !== undefined) {
      record.earlier = [...record.earlier.slice(2 - LIMITS.attempts), record.latest]
    }
    record.latest = attempt
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
    if (held.stuck === true) this.#board.stick(record)
    if (held.note !== undefined) record.rare.note = held.note
    if (lease.hold) return { status: 'cancelled', lease }
    const by = record.evictor
    return by === undefined ? { status: 'held' } : { status: 'evicted', by }
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
