// Owns the answers of scripts that change nothing: what is set, who is alive, what is counted.
// May never decide: what a script has not said is not known.

import type { BreakerState } from '../../core/breaker.ts'
import { freeAt, type RateTerms } from '../../core/gcra.ts'
import { type JobStatus, STATUSES, type StoredJob } from '../../core/job.ts'
import { shownAs } from '../../core/quorum.ts'
import type { Ageing } from '../../core/rank.ts'
import {
  isUrgent,
  type PoolRules,
  type PoolTerms,
  poolRules,
  raiseOf,
  type StoredSettings,
  shareOf,
  type TypeSetting,
} from '../../core/settings.ts'
import { isSuspect } from '../../core/suspect.ts'
import { LIMITS } from '../../store/limits.ts'
import type { Counted, PoolState, Standing, StatusCounts, WorkerInfo } from '../../store/store.ts'
import { scheduleOf } from './answers.ts'
import { type Reader, unpack } from './pack.ts'
import { readJobs, type Sharing } from './rows.ts'

type Counts = Record<JobStatus, number>

// What is set

interface KeptPool {
  readonly start: PoolTerms
  readonly operator: PoolTerms
  readonly tat: number
  readonly breaker?: {
    readonly state: BreakerState
    readonly openUntil: number
    readonly probing: boolean
  }
}

const NO_POOL: KeptPool = { start: {}, operator: {}, tat: 0 }

/** A script packs a map without entries as a list, and a map has no prototype here. */
function plain<T extends object>(map: T): T {
  const entries = Array.isArray(map) ? [] : Object.entries(map)
  const copied = entries.map(([name, value]) => {
    return [name, typeof value === 'object' && value !== null ? plain(value) : value]
  })
  return Object.fromEntries(copied) as T
}

function poolIn(packed: Buffer): KeptPool {
  const kept = unpack(packed) as KeptPool
  return { ...kept, start: plain(kept.start), operator: plain(kept.operator) }
}

/** A flat list of names and packed values, in order of name. */
function entriesIn<T>(reader: Reader, read: (packed: Buffer) => T): [string, T][] {
  const entries = Array.from({ length: reader.list() / 2 }, (): [string, T] => {
    return [reader.text(), read(reader.bytes())]
  })
  return entries.sort(([a], [b]) => (a < b ? -1 : 1))
}

export function readSettings(reader: Reader): StoredSettings {
  reader.list()
  const pools = entriesIn(reader, poolIn)
  const types = entriesIn(reader, (packed) => settingOf(unpack(packed) as TypeSetting))
  const schedules = entriesIn(reader, (packed) => unpack(packed) as unknown[])
  return {
    pools: recordOf(pools.map(([name, { start, operator }]) => [name, { start, operator }])),
    types: recordOf(types),
    ageing: termsOr<Ageing>(reader.value()),
    budget: termsOr<RateTerms>(reader.value()),
    schedules: schedules.map(([name, row]) => scheduleOf(name, row)),
  }
}

function settingOf(setting: TypeSetting): TypeSetting {
  const { concurrency, maxLost } = setting as {
    concurrency: number | false
    maxLost: number | false
  }
  return {
    ...plain(setting),
    concurrency: concurrency === false ? null : concurrency,
    maxLost: maxLost === false ? null : maxLost,
  }
}

function termsOr<T extends object>(value: unknown): T | null {
  return value === false ? null : plain(value as T)
}

/** Names are the users': no name may be taken for what objects have by themselves. */
function recordOf<T>(entries: readonly (readonly [string, T])[]): Record<string, T> {
  const record: Record<string, T> = Object.create(null)
  for (const [name, value] of entries) record[name] = value
  return record
}

// Who is alive

interface Worker {
  readonly info: WorkerInfo
  /** Leases and holds by line. */
  readonly slots: ReadonlyMap<number, number>
}

function slotsIn(reader: Reader): Map<number, number> {
  const slots = new Map<number, number>()
  for (let left = reader.list(); left > 0; left -= 2) slots.set(reader.number(), reader.number())
  return slots
}

function workersIn(reader: Reader): Worker[] {
  const workers = Array.from({ length: reader.list() }, (): Worker => {
    reader.list()
    const holder = reader.text()
    const [name, types, full, zombies, settings] = unpack(reader.bytes()) as [
      string,
      string[],
      boolean,
      number,
      string,
    ]
    const until = reader.number()
    const slots = slotsIn(reader)
    const running = sum(slots.values())
    return { info: { holder, name, types, full, zombies, settings, until, running }, slots }
  })
  return workers.sort((a, b) => (a.info.holder < b.info.holder ? -1 : 1))
}

export function readWorkers(reader: Reader): readonly WorkerInfo[] {
  return workersIn(reader).map(({ info }) => info)
}

function sum(counts: Iterable<number>): number {
  let total = 0
  for (const count of counts) total += count
  return total
}

// What is counted

function zeros(): Counts {
  return { pending: 0, waiting: 0, ready: 0, running: 0, success: 0, failed: 0, cancelled: 0 }
}

function talliesIn(reader: Reader): Map<number, Counts> {
  const tallies = new Map<number, Counts>()
  for (let left = reader.list(); left > 0; left -= 1 + STATUSES.length) {
    const line = reader.number()
    const counts = zeros()
    for (const status of STATUSES) counts[status] = reader.number()
    tallies.set(line, counts)
  }
  return tallies
}

function addTo(all: Counts, more: StatusCounts): void {
  for (const status of STATUSES) all[status] += more[status]
}

function stateOf(kept: KeptPool, states: StatusCounts, running: number, now: number): PoolState {
  const rules: PoolRules = poolRules(kept.start, kept.operator)
  const { breaker } = kept
  const rateAt = rules.rate === null ? 0 : freeAt(rules.rate, kept.tat)
  const isOver = breaker?.state === 'open' && now >= breaker.openUntil
  const breakerState = isOver ? 'half-open' : (breaker?.state ?? 'closed')
  return {
    ...rules,
    rateAt: rateAt > now ? rateAt : 0,
    breakerState,
    breakerUntil: breakerState === 'open' ? (breaker?.openUntil ?? 0) : 0,
    running,
    ready: states.ready,
    states,
  }
}

export function readCounted(reader: Reader, sharing: Sharing, now: number): Counted {
  reader.list()
  const tallies = talliesIn(reader)
  const slots = slotsIn(reader)
  const kept = new Map(entriesIn(reader, poolIn))
  const failures = failuresIn(reader)
  const held = readJobs(reader, sharing)
  const types: Record<string, Counts> = Object.create(null)
  const byPool = new Map<string, { readonly states: Counts; running: number }>()
  const poolOf = (name: string) => {
    const known = byPool.get(name) ?? { states: zeros(), running: 0 }
    byPool.set(name, known)
    return known
  }
  for (const name of kept.keys()) poolOf(name)
  for (const [line, counts] of tallies) {
    const { pool, type } = sharing.lineOf(line)
    types[type] ??= zeros()
    addTo(types[type] as Counts, counts)
    addTo(poolOf(pool).states, counts)
  }
  for (const [line, count] of slots) poolOf(sharing.lineOf(line).pool).running += count
  const pools = [...byPool.keys()].sort().map((name): [string, PoolState] => {
    const { states, running } = poolOf(name)
    return [name, stateOf(kept.get(name) ?? NO_POOL, states, running, now)]
  })
  return {
    at: now,
    types,
    pools: recordOf(pools),
    failures,
    held,
    doomed: reader.number(),
    fanOuts: reader.number(),
    forgotten: reader.number(),
    unranked: reader.number(),
    budgeted: reader.number(),
  }
}

/** The most frequent codes by name; what is beyond the bound is counted together. */
function failuresIn(reader: Reader): Readonly<Record<string, number>> {
  const found = entriesIn(reader, (count) => Number(count.toString()))
  const sorted = found.sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
  const counts = recordOf(sorted.slice(0, LIMITS.codes))
  const rest = sum(sorted.slice(LIMITS.codes).map(([, count]) => count))
  if (rest > 0) counts.other = (counts.other ?? 0) + rest
  return counts
}

// What `explain` has to know

export function readStanding(reader: Reader, sharing: Sharing, now: number): Standing {
  reader.list()
  const [job] = readJobs(reader, sharing)
  const kept = reader.skipFalse() ? NO_POOL : poolIn(reader.bytes())
  const tallies = talliesIn(reader)
  const slots = slotsIn(reader)
  const workers = workersIn(reader)
  const suspects = new Set(reader.value() as string[])
  const laneHolder = reader.textOr(undefined)
  const deps = depsIn(reader)
  const [ahead, before] = [reader.number(), reader.number()]
  const victim = reader.textOr(undefined)
  if (job === undefined) return nobodys(now)
  const cap = reader.numberOr(null)
  const ageing = termsOr<Ageing>(reader.value())
  const budget = termsOr<RateTerms>(reader.value())
  const budgetTat = reader.number()
  const runningIn = (counts: ReadonlyMap<number, number>, is: 'pool' | 'type') =>
    sum([...counts].map(([line, count]) => (sharing.lineOf(line)[is] === job[is] ? count : 0)))
  const states = zeros()
  for (const counts of tallies.values()) addTo(states, counts)
  const pool = stateOf(kept, states, runningIn(slots, 'pool'), now)
  const able = workers.filter(({ info }) => info.types.includes(job.type))
  const takers = able.filter(({ info }) => !info.full)
  const isBarred = ({ info }: Worker) => isSuspect(job) && suspects.has(info.holder)
  const most = shareFor(job, pool, ageing)
  return {
    ahead,
    pool,
    laneHolder,
    deps,
    served: able.length > 0,
    full: able.length > 0 && able.every(({ info }) => info.full),
    barred: takers.length > 0 && takers.every(isBarred),
    spent:
      takers.length > 0 &&
      takers.every((worker) => isBarred(worker) || runningIn(worker.slots, 'pool') >= most),
    type: { concurrency: cap, running: runningIn(slots, 'type') },
    budgetAt: budget === null || before < 0 ? 0 : budgetAtOf(budget, budgetTat, before, now),
    victim,
  }
}

/** How many of the pool one worker may run, with this job. */
function shareFor(job: StoredJob, rules: PoolRules, ageing: Ageing | null): number {
  const { elastic } = rules
  const share = shareOf(rules)
  const isRaised = elastic !== null && isUrgent(job.priority, elastic.minPriority, ageing)
  return share + (isRaised ? raiseOf(share, elastic) : 0)
}

function depsIn(reader: Reader): Standing['deps'] {
  return Array.from({ length: reader.list() / 4 }, () => {
    const id = reader.text()
    const on = reader.number() === 1 ? 'end' : 'success'
    const isDead = reader.flag()
    return { id, on, status: shownAs(isDead, reader.text() as JobStatus | 'unknown') }
  })
}

/** When the budget lets this one go at the earliest, those before it first; 0 if it does now. */
function budgetAtOf(budget: RateTerms, budgetTat: number, before: number, now: number): number {
  const tat = Math.max(budgetTat, now * 1_000) + before * budget.intervalUs
  const at = freeAt(budget, tat)
  return at > now ? at : 0
}

function nobodys(now: number): Standing {
  return {
    ahead: 0,
    pool: stateOf(NO_POOL, zeros(), 0, now),
    laneHolder: undefined,
    deps: [],
    served: false,
    full: false,
    barred: false,
    spent: false,
    type: { concurrency: null, running: 0 },
    budgetAt: 0,
    victim: undefined,
  }
}
