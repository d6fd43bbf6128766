// Owns the data of the model and the rules that everything else in the model leans on.
// May never share code with the sources, only their types: what both get wrong, nobody would see.

import type { BreakerTerms } from '../core/breaker.ts'
import type { RateTerms } from '../core/gcra.ts'
import type {
  Attempt,
  Dep,
  DepMode,
  JobEvent,
  JobStatus,
  Lease,
  NewJob,
  StepName,
  StoredJob,
} from '../core/job.ts'
import type { Ageing } from '../core/rank.ts'
import type { PoolRules, PoolTerms, Schedule, TypeSetting } from '../core/settings.ts'
import type { WorkerBeat } from '../store/store.ts'
import type { Rules } from './model-rules.ts'

export interface Edge {
  readonly dep: Dep
  state: 'open' | 'satisfied' | 'dead'
  /** The job at its other end was forgotten: it counts as it did, and is shown to nobody. */
  cut: boolean
}

/** A record as a plain, changeable thing. `needs` and `open` are not in it: they are recounted. */
export interface Row {
  readonly job: NewJob
  readonly seq: number
  readonly edges: Edge[]
  readonly createdAt: number
  status: JobStatus
  rev: number
  rank: number
  /** What its rank was worked out with. */
  weight: number
  availableAt: number
  /** The instant at which it last became `ready`. */
  readySince: number
  /** It goes back to its old place in line once its time has come. */
  keepsRank: boolean
  /** It is pending because it failed or timed out, and runs again. */
  isRetry: boolean
  /** Its time has come, and it is one of those among whom the budget chooses. */
  isInLine: boolean
  holdsLane: boolean
  /** It has been leased since it was admitted to its lane, so it yields no more. */
  lanePinned: boolean
  starts: number
  attempts: number
  lost: number
  preempted: number
  /** The urgent job it has to give way to; and whether it has displaced somebody itself. */
  evictor: string | undefined
  /** Its holder has said that its body does not stop; of its lease, or the hold of it. */
  isStuck: boolean
  displaced: boolean
  /** The period of its pool's breaker in which it was started; -1 without one. */
  pass: number
  unknown: boolean
  attemptsBefore: number
  lostBefore: number
  lease: Lease | undefined
  deadline: number
  startedAt: number
  finishedAt: number
  keepMs: number
  keyUntil: number
  result: StoredJob['result']
  error: StoredJob['error']
  code: string | undefined
  cause: string | undefined
  log: Attempt[]
  note: string | undefined
}

export interface PoolSettings {
  readonly start: PoolTerms
  readonly operator: PoolTerms
}

/** Starts under a rate: what was owed at the beginning, and when each came. */
export interface RateBook {
  readonly owedUntil: number
  readonly starts: number[]
}

/** A breaker as its history: what it was shown since it last changed its mind. */
export interface BreakerBook {
  readonly terms: BreakerTerms
  /** Closed, until it opened; then half-open from that instant on. */
  opensAt: number | null
  period: number
  shown: ('success' | 'failure')[]
  probing: number
}

export interface Outcome {
  readonly id: string
  readonly status: JobStatus
  readonly until: number
}

/** Everything there is: lists, and nothing that could contradict them. */
export interface World {
  readonly rules: Rules
  now(): number
  rows: Row[]
  outcomes: Outcome[]
  log: JobEvent[]
  pools: Map<string, PoolSettings>
  rates: Map<string, RateBook>
  breakers: Map<string, BreakerBook>
  /** The last period that any breaker of a pool has had. */
  periods: Map<string, number>
  types: Map<string, TypeSetting>
  ageing: Ageing | null
  budget: RateTerms | null
  /** What retries have poured into the budget, in microseconds, and when that was. */
  bucket: { readonly fill: number; readonly at: number }
  schedules: Map<string, Schedule>
  workers: Map<string, WorkerBeat & { until: number }>
  lastSeq: number
  lastLease: number
  lastEvent: number
  oldestEvent: number
  forgotten: number
}

export function newWorld(now: () => number, rules: Rules): World {
  return {
    rules,
    now,
    rows: [],
    outcomes: [],
    log: [],
    pools: new Map(),
    rates: new Map(),
    breakers: new Map(),
    periods: new Map(),
    types: new Map(),
    ageing: null,
    budget: null,
    bucket: { fill: 0, at: 0 },
    schedules: new Map(),
    workers: new Map(),
    lastSeq: 0,
    lastLease: 0,
    lastEvent: 0,
    oldestEvent: 1,
    forgotten: 0,
  }
}

export function hasEnded(status: JobStatus): boolean {
  return ['success', 'failed', 'cancelled'].includes(status)
}

export function find(world: World, id: string): Row | undefined {
  return world.rows.find((row) => row.job.id === id)
}

/** The outcome of a forgotten job, for as long as it is remembered. */
export function remembered(world: World, id: string): JobStatus | undefined {
  return world.outcomes.find((outcome) => outcome.id === id && world.now() < outcome.until)?.status
}

function quorum(depMode: DepMode, count: number): number {
  if (count === 0) return 0
  if (depMode === 'all') return count
  if (depMode === 'any') return 1
  return depMode
}

export function needsOf(row: Row): number {
  const satisfied = row.edges.filter((edge) => edge.state === 'satisfied').length
  return Math.max(0, quorum(row.job.depMode, row.edges.length) - satisfied)
}

export function openOf(row: Row): number {
  return row.edges.filter((edge) => edge.state === 'open').length
}

export function isDoomed(row: Row): boolean {
  return row.status === 'waiting' && openOf(row) < needsOf(row)
}

/** The dead edge, in order, from which on the quorum was out of reach. */
export function culpritOf(row: Row): string | undefined {
  const spare = row.edges.length - quorum(row.job.depMode, row.edges.length)
  return row.edges.filter((edge) => edge.state === 'dead')[spare]?.dep.id
}

/** What an edge to this id is when it is drawn. `coming`: ids of the same group. */
export function edgeStateOf(world: World, dep: Dep, coming: ReadonlySet<string>): Edge['state'] {
  const row = find(world, dep.id)
  if (coming.has(dep.id) && row === undefined) return 'open'
  const end = row === undefined ? remembered(world, dep.id) : row.status
  if (end === undefined || !hasEnded(end)) return 'open'
  return world.rules.satisfies(dep, end) ? 'satisfied' : 'dead'
}

export function keyOwner(world: World, key: string | undefined): Row | undefined {
  if (key === undefined) return undefined
  return world.rows.find((row) => row.job.key === key && world.rules.keyIsHeld(row, world.now()))
}

export function laneHolder(world: World, lane: string): Row | undefined {
  return world.rows.find((row) => row.job.exclusive === lane && row.holdsLane)
}

export function inOrder(world: World, rows: readonly Row[]): Row[] {
  return [...rows].sort((a, b) => (world.rules.comesBefore(a, b) ? -1 : 1))
}

/** What operators said, else what processes brought along, else what holds without a word. */
export function settingsOf(world: World, pool: string): PoolRules {
  const { start = {}, operator = {} } = world.pools.get(pool) ?? {}
  return {
    concurrency: operator.concurrency ?? start.concurrency ?? 10,
    perWorker: operator.perWorker ?? start.perWorker ?? Number.POSITIVE_INFINITY,
    maxQueue: operator.maxQueue ?? start.maxQueue ?? Number.POSITIVE_INFINITY,
    overflow: operator.overflow ?? start.overflow ?? 'reject',
    rate: (operator.rate ?? start.rate ?? false) || null,
    elastic: (operator.elastic ?? start.elastic ?? false) || null,
    preempt: (operator.preempt ?? start.preempt ?? false) || null,
    breaker: (operator.breaker ?? start.breaker ?? false) || null,
    paused: operator.paused ?? start.paused ?? false,
  }
}

/** How much earlier than its time a job of that priority ranks. */
export function weighed(world: World, priority: number): number {
  const { ageing } = world
  const ages = ageing !== null && priority <= ageing.ceiling
  return priority * (ages ? ageing.everyMs : 2 ** 41)
}

export function slotsUsed(world: World, pool: string): number {
  return world.rows.filter((row) => row.job.pool === pool && world.rules.slotIsUsed(row)).length
}

/**
 * Puts a job where it belongs, gate by gate: dependencies, time, lane. A job whose time had to
 * come (`due`) ranks from that time, every other one from now.
 */
export function place(world: World, row: Row, step: StepName): void {
  const now = world.now()
  row.deadline = 0
  const isRetry = world.rules.isCharged(step)
  if (needsOf(row) > 0) {
    row.status = 'waiting'
  } else if (row.availableAt > now || (isRetry && world.budget !== null)) {
    row.status = 'pending'
    row.isRetry = isRetry
    row.isInLine = false
    if (isRetry) row.rank = rankNow(world, row, 'due')
  } else {
    if (!row.keepsRank) row.rank = rankNow(world, row, step)
    row.keepsRank = false
    if (takesLane(world, row)) becomeReady(world, row)
    else row.status = 'waiting'
  }
}

function rankNow(world: World, row: Row, step: StepName): number {
  row.weight = weighed(world, row.job.priority)
  if (step === 'due') return row.availableAt - row.weight
  if (step === 'retry' || step === 'timeout') return world.rules.rankAfterRetry(row, world.now())
  return world.now() - row.weight
}

function becomeReady(world: World, row: Row): void {
  row.status = 'ready'
  row.readySince = world.now()
  row.deadline = row.job.enqueueTimeoutMs > 0 ? world.now() + row.job.enqueueTimeoutMs : 0
}

function takesLane(world: World, row: Row): boolean {
  const lane = row.job.exclusive
  if (lane === undefined || row.holdsLane) return true
  const holder = laneHolder(world, lane)
  if (holder !== undefined) {
    if (!world.rules.yields(holder, row)) return false
    holder.holdsLane = false
    holder.status = 'waiting'
    holder.deadline = 0
    holder.rev += 1
    record(world, holder, 'ready', 'yield')
  }
  row.holdsLane = true
  row.lanePinned = false
  return true
}

/** The lane of a job that has ended for good goes to the best of those that wait for it. */
export function freeLane(world: World, row: Row): void {
  if (!row.holdsLane || row.lease !== undefined) return
  row.holdsLane = false
  const waiting = world.rows.filter(
    (each) =>
      each.job.exclusive === row.job.exclusive && each.status === 'waiting' && needsOf(each) === 0,
  )
  const next = inOrder(world, waiting)[0]
  if (next === undefined) return
  next.holdsLane = true
  next.lanePinned = false
  next.rev += 1
  becomeReady(world, next)
  record(world, next, 'waiting', 'admit')
}

const NAMES: Readonly<Record<string, string>> = {
  add: 'job:added',
  yield: 'job:waiting',
  lease: 'job:running',
  unheard: 'job:returned',
  succeed: 'job:success',
  fail: 'job:failed',
  retry: 'job:retry',
  timeout: 'job:timeout',
  lose: 'job:lost',
  return: 'job:returned',
  preempt: 'job:preempted',
  cancel: 'job:cancelled',
  expire: 'job:failed',
  cascade: 'job:cancelled',
  revive: 'job:revived',
}

/** One record of the log. A step without a name of its own is called after where it led. */
export function record(
  world: World,
  row: Row,
  from: JobStatus | null,
  step: StepName,
  more: { code?: string | undefined; cause?: string | undefined; worker?: string | undefined } = {},
): void {
  world.lastEvent += 1
  world.log.push({
    seq: world.lastEvent,
    at: world.now(),
    job: row.job.id,
    type: row.job.type,
    pool: row.job.pool,
    from,
    to: row.status,
    attempt: row.starts,
    event: NAMES[step] ?? `job:${row.status}`,
    ...(more.code === undefined ? {} : { code: more.code }),
    ...(more.cause === undefined ? {} : { cause: more.cause }),
    ...(more.worker === undefined ? {} : { worker: more.worker }),
  })
}

/** Closes the open attempt, if there is one. */
export function closeAttempt(
  world: World,
  row: Row,
  outcome: Attempt['outcome'],
  code: string | undefined,
): void {
  const open = row.log.at(-1)
  if (open === undefined || open.callMs !== undefined) return
  row.log[row.log.length - 1] = {
    ...open,
    callMs: world.now() - row.startedAt,
    ...(outcome === undefined ? {} : { outcome }),
    ...(code === undefined ? {} : { code }),
  }
}
