// Owns what people get to see of jobs: plain copies, with values read back from their JSON.
// May never hand out an object that the store still uses.

import type { BreakerState } from './breaker.ts'
import { type JobStatus, Live, STATUSES, type Stored, type StoredJob } from './job.ts'
import { type Elastic, type PoolRules, type Preempt, raiseOf } from './settings.ts'
import type { Job, PoolSnapshot, Snapshot } from './types.ts'
import { fromJson } from './values.ts'

/** The value at rest, as it was handed in: parsed, or by reference. */
export function storedValue(stored: Stored): unknown {
  return stored instanceof Live ? stored.value : fromJson(stored)
}

/** A job as people see it. What does not apply is absent. O(size of its payload and result). */
export function viewOf(job: StoredJob, progress?: unknown): Job {
  return {
    id: job.id,
    type: job.type,
    pool: job.pool,
    payload: storedValue(job.payload),
    priority: job.priority,
    deps: job.deps.map((dep) => ({ ...dep })),
    depMode: job.depMode,
    timeout: job.terms.timeoutMs,
    retries: job.terms.retries,
    status: job.status,
    attempts: job.attempts,
    lost: job.lost,
    preempted: job.preempted,
    availableAt: job.availableAt,
    createdAt: job.createdAt,
    ...(job.startedAt === 0 ? {} : { startedAt: job.startedAt }),
    ...(job.finishedAt === 0 ? {} : { finishedAt: job.finishedAt }),
    ...(job.result === undefined ? {} : { result: storedValue(job.result) }),
    ...(job.error === undefined ? {} : { error: { ...job.error } }),
    ...(job.cause === undefined ? {} : { cause: job.cause }),
    ...(job.key === undefined ? {} : { key: job.key }),
    ...(job.exclusive === undefined ? {} : { exclusive: job.exclusive }),
    ...(job.flow === undefined ? {} : { flow: job.flow }),
    ...(progress === undefined ? {} : { progress }),
    ...(job.note === undefined ? {} : { note: job.note }),
    attemptLog: job.log.map((attempt) => ({ ...attempt })),
  }
}

export type StatusTally = Record<JobStatus, number>

export function emptyCounts(): StatusTally {
  return { pending: 0, waiting: 0, ready: 0, running: 0, success: 0, failed: 0, cancelled: 0 }
}

/** Adds the second to the first. */
export function addCounts(sum: StatusTally, more: Readonly<StatusTally>): void {
  for (const status of STATUSES) sum[status] += more[status]
}

/** The counts that a snapshot is made of. */
export interface Tally {
  readonly at: number
  readonly types: Readonly<Record<string, Readonly<StatusTally>>>
  readonly pools: Readonly<Record<string, PoolTally>>
  readonly failures: Readonly<Record<string, number>>
  /** Jobs with a lease or a hold. */
  readonly held: readonly StoredJob[]
  /** Jobs that are ranked by an ageing which is set no more. */
  readonly unranked: number
  /** Retries that wait for the budget. */
  readonly budgeted: number
}

interface PoolTally extends PoolRules {
  readonly running: number
  readonly ready: number
  readonly states: Readonly<StatusTally>
  readonly rateAt: number
  readonly breakerState: BreakerState
  readonly breakerUntil: number
}

/** The inventory for people. O(types + pools + held). */
export function snapshotOf(tally: Tally, zombies: number): Snapshot {
  const states = emptyCounts()
  for (const counts of Object.values(tally.types)) addCounts(states, counts)
  return {
    at: tally.at,
    total: STATUSES.reduce((sum, status) => sum + states[status], 0),
    states,
    types: copyOf(tally.types, (counts) => ({ ...counts })),
    pools: copyOf(tally.pools, (pool) => poolOf(pool, tally.at)),
    running: tally.held.map((job) => heldOf(job, tally.at)),
    failures: copyOf(tally.failures, (count) => count),
    zombies,
    ...(tally.budgeted === 0 ? {} : { waitingForBudget: tally.budgeted }),
    ...(tally.unranked === 0 ? {} : { unranked: tally.unranked }),
  }
}

function poolOf(pool: PoolTally, now: number): PoolSnapshot {
  const { concurrency, perWorker, running, ready, states, maxQueue, overflow, paused } = pool
  const { elastic, preempt } = pool
  return {
    concurrency,
    ...(Number.isFinite(perWorker) ? { perWorker } : {}),
    running,
    ready,
    queued: states.pending + states.ready,
    ...(Number.isFinite(maxQueue) ? { maxQueue } : {}),
    overflow,
    paused,
    ...rateOf(pool, now),
    ...(elastic === null ? {} : { elastic: raisedBy(concurrency, elastic) }),
    ...(preempt === null ? {} : { preempt: displacing(preempt) }),
    ...breakerOf(pool, now),
  }
}

function rateOf({ rate, rateAt }: PoolTally, now: number): Pick<PoolSnapshot, 'rate'> {
  if (rate === null) return {}
  const { count, perMs, burst } = rate
  return { rate: { count, per: perMs, burst, ...(rateAt > now ? { nextAt: rateAt } : {}) } }
}

function raisedBy(concurrency: number, elastic: Elastic): PoolSnapshot['elastic'] & object {
  return { raise: raiseOf(concurrency, elastic), minPriority: elastic.minPriority }
}

function displacing({ minPriority, minGap, minRunMs }: Preempt): PoolSnapshot['preempt'] & object {
  return { minPriority, minGap, minRun: minRunMs }
}

function breakerOf(pool: PoolTally, now: number): Pick<PoolSnapshot, 'breaker'> {
  if (pool.breaker === null) return {}
  const { breakerState: state, breakerUntil: until } = pool
  return { breaker: { state, ...(until > now ? { until } : {}) } }
}

function heldOf(job: StoredJob, at: number): Snapshot['running'][number] {
  return {
    id: job.id,
    type: job.type,
    forMs: Math.max(0, at - job.startedAt),
    worker: job.lease?.holder ?? '',
    ...(job.lease?.hold === true ? { stopping: true } : {}),
  }
}

/** Entries are defined, not assigned, so that `__proto__` is a name like any other. */
function copyOf<T, U>(record: Readonly<Record<string, T>>, copy: (value: T) => U) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, copy(value)]))
}
