// Owns what the model shows: each answer is worked out from the records, every time.
// May never change anything.

import type { JobEvent, JobStatus, StoredJob } from '../core/job.ts'
import type {
  Counted,
  EventPage,
  ListPage,
  ListQuery,
  PoolState,
  Standing,
  StatusCounts,
} from '../store/store.ts'
import { gatesOf, isBarred, isSpent, victimOf } from './model-pools.ts'
import { budgetAt, isHeld, unrankedOf } from './model-time.ts'
import {
  find,
  hasEnded,
  isDoomed,
  laneHolder,
  needsOf,
  type Outcome,
  openOf,
  type Row,
  remembered,
  settingsOf,
  slotsUsed,
  type World,
} from './model-world.ts'

const PAGE = 500
const EVENTS = 1_000
const POSITION = 1_000
const HELD = 1_000
const CODES = 100

export function viewOf(row: Row): StoredJob {
  const { job } = row
  return {
    id: job.id,
    seq: row.seq,
    rev: row.rev,
    type: job.type,
    pool: job.pool,
    flow: job.flow,
    payload: job.payload,
    body: job.body,
    terms: job.terms,
    priority: job.priority,
    weight: row.weight,
    rank: row.rank,
    status: row.status,
    deps: row.edges.map((edge) => edge.dep),
    depMode: job.depMode,
    needs: needsOf(row),
    open: openOf(row),
    key: job.key,
    keyForMs: job.keyForMs,
    exclusive: job.exclusive,
    enqueueTimeoutMs: job.enqueueTimeoutMs,
    starts: row.starts,
    attempts: row.attempts,
    lost: row.lost,
    preempted: row.preempted,
    attemptsBefore: row.attemptsBefore,
    lostBefore: row.lostBefore,
    lease: row.lease,
    unknown: row.unknown,
    evictor: row.evictor,
    deadline: row.deadline,
    createdAt: row.createdAt,
    availableAt: row.availableAt,
    startedAt: row.startedAt,
    finishedAt: row.finishedAt,
    result: row.result,
    error: row.error,
    code: row.code,
    cause: row.cause,
    log: [...row.log],
    note: row.note,
  }
}

export function listJobs(world: World, query: ListQuery): ListPage {
  const fits = world.rows.filter((row) => row.seq > query.after && matches(row, query))
  const page = fits.slice(0, Math.min(query.limit, PAGE))
  const last = page.at(-1)
  const isLast = last === undefined || page.length === fits.length
  return { jobs: page.map(viewOf), after: isLast ? null : last.seq }
}

function matches(row: Row, query: ListQuery): boolean {
  const { statuses, type, pool, flow, code, key, createdAfter, createdBefore } = query
  if (statuses !== undefined && !statuses.includes(row.status)) return false
  if (type !== undefined && row.job.type !== type) return false
  if (pool !== undefined && row.job.pool !== pool) return false
  if (flow !== undefined && row.job.flow !== flow) return false
  if (code !== undefined && row.code !== code) return false
  if (key !== undefined && row.job.key !== key) return false
  if (createdAfter !== undefined && row.createdAt <= createdAfter) return false
  return createdBefore === undefined || row.createdAt < createdBefore
}

export function countJobs(world: World): Counted {
  const types = [...new Set(world.rows.map((row) => row.job.type))]
  const pools = [...new Set([...world.rows.map((row) => row.job.pool), ...world.pools.keys()])]
  const ofType = (type: string) => world.rows.filter((row) => row.job.type === type)
  return {
    at: world.now(),
    types: Object.fromEntries(types.map((type) => [type, statusCounts(ofType(type))])),
    pools: Object.fromEntries(pools.map((pool) => [pool, poolState(world, pool)])),
    failures: failures(world),
    held: world.rows
      .filter((row) => row.lease !== undefined)
      .sort((a, b) => a.startedAt - b.startedAt || a.seq - b.seq)
      .slice(0, HELD)
      .map(viewOf),
    doomed: world.rows.filter(isDoomed).length,
    fanOuts: 0,
    forgotten: world.forgotten,
    unranked: unrankedOf(world).length,
    budgeted: world.rows.filter((row) => isHeld(world, row)).length,
  }
}

function statusCounts(rows: readonly Row[]): StatusCounts {
  const count = (status: JobStatus) => rows.filter((row) => row.status === status).length
  return {
    pending: count('pending'),
    waiting: count('waiting'),
    ready: count('ready'),
    running: count('running'),
    success: count('success'),
    failed: count('failed'),
    cancelled: count('cancelled'),
  }
}

function poolState(world: World, pool: string): PoolState {
  const rows = world.rows.filter((row) => row.job.pool === pool)
  return {
    ...settingsOf(world, pool),
    running: slotsUsed(world, pool),
    ready: rows.filter((row) => row.status === 'ready').length,
    states: statusCounts(rows),
    ...gatesOf(world, pool),
  }
}

function failures(world: World): Record<string, number> {
  const counts: Record<string, number> = Object.create(null)
  for (const row of world.rows.filter((each) => each.status === 'failed')) {
    const code = row.code ?? 'other'
    const isKnown = code in counts || Object.keys(counts).length < CODES
    const name = isKnown ? code : 'other'
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

export function dependentsOf(world: World, id: string, after: number, limit: number): StoredJob[] {
  const names = (row: Row) => row.edges.some((edge) => edge.dep.id === id && !edge.cut)
  const rows = world.rows.filter((row) => row.seq > after && names(row))
  return rows.slice(0, Math.min(limit, PAGE)).map(viewOf)
}

export function standingOf(world: World, id: string): Standing {
  const row = find(world, id)
  if (row === undefined) throw new Error(`There is no job ${id}.`)
  const live = [...world.workers.values()].filter((worker) => world.now() < worker.until)
  const able = live.filter((worker) => worker.types.includes(row.job.type))
  const takers = able.filter((worker) => !worker.full)
  const ahead = world.rows.filter(
    (other) =>
      other !== row &&
      other.job.pool === row.job.pool &&
      other.status === 'ready' &&
      live.some((worker) => worker.types.includes(other.job.type)) &&
      world.rules.comesBefore(other, row),
  )
  const waitsForLane = row.status === 'waiting' && needsOf(row) === 0
  const lane = waitsForLane ? row.job.exclusive : undefined
  return {
    ahead: Math.min(POSITION, ahead.length),
    pool: poolState(world, row.job.pool),
    laneHolder: lane === undefined ? undefined : laneHolder(world, lane)?.job.id,
    deps: row.edges
      .filter((edge) => edge.state !== 'satisfied')
      .map(({ dep, state }) => {
        const status = statusOf(world, dep.id)
        return { ...dep, status: state === 'open' || status === 'cancelled' ? status : 'failed' }
      }),
    served: able.length > 0,
    full: able.length > 0 && able.every((worker) => worker.full),
    barred: takers.length > 0 && takers.every(({ holder }) => isBarred(world, row, holder)),
    spent:
      takers.length > 0 &&
      takers.every(({ holder }) => isBarred(world, row, holder) || isSpent(world, row, holder)),
    type: {
      concurrency: world.types.get(row.job.type)?.concurrency ?? null,
      running: world.rows.filter(
        (each) => each.job.type === row.job.type && each.lease !== undefined,
      ).length,
    },
    budgetAt: budgetAt(world, row),
    victim: victimOf(world, row)?.job.id,
  }
}

function statusOf(world: World, id: string): JobStatus | 'unknown' {
  return find(world, id)?.status ?? remembered(world, id) ?? 'unknown'
}

export function eventPage(world: World, after: number, limit: number): EventPage {
  const later = world.log.filter((event) => event.seq > after)
  return {
    events: later.slice(0, Math.min(limit, EVENTS)),
    oldest: world.oldestEvent,
    last: world.lastEvent,
  }
}

export interface ModelDump {
  readonly now: number
  readonly jobs: readonly StoredJob[]
  /** `lane: holder`, `key: owner`. */
  readonly lanes: readonly string[]
  readonly keys: readonly string[]
  readonly ghosts: readonly string[]
  readonly outcomes: readonly Outcome[]
  readonly log: readonly JobEvent[]
}

/** Everything that decides what happens next, also what the port does not show. */
export function dumpOf(world: World): ModelDump {
  return {
    now: world.now(),
    jobs: world.rows.map(viewOf),
    lanes: world.rows
      .filter((row) => row.holdsLane)
      .map((row) => `${row.job.exclusive}: ${row.job.id}`),
    keys: world.rows
      .filter((row) => row.job.key !== undefined && world.rules.keyIsHeld(row, world.now()))
      .map((row) => `${row.job.key}: ${row.job.id}`),
    ghosts: ghostsOf(world),
    outcomes: world.outcomes.filter((outcome) => world.now() < outcome.until),
    log: [...world.log],
  }
}

/** The ids that somebody who is still alive waits for, and that nobody has submitted. */
function ghostsOf(world: World): string[] {
  const open = world.rows
    .filter((row) => !hasEnded(row.status))
    .flatMap((row) => row.edges.filter((edge) => edge.state === 'open'))
  const ids = new Set(open.map((edge) => edge.dep.id))
  return [...ids].filter((id) => find(world, id) === undefined).sort()
}
