// Owns what people get to see of jobs: plain copies, with values read back from their JSON.
// May never hand out an object that the store still uses.

import { type JobStatus, Live, STATUSES, type Stored, type StoredJob } from './job.ts'
import type { Job, Snapshot } from './types.ts'
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
  readonly pools: Readonly<
    Record<
      string,
      {
        readonly concurrency: number
        readonly paused: boolean
        readonly running: number
        readonly ready: number
      }
    >
  >
  readonly failures: Readonly<Record<string, number>>
  /** Jobs with a lease or a hold. */
  readonly held: readonly StoredJob[]
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
    pools: copyOf(tally.pools, ({ concurrency, running, ready, paused }) => {
      return { concurrency, running, ready, paused }
    }),
    running: tally.held.map((job) => heldOf(job, tally.at)),
    failures: copyOf(tally.failures, (count) => count),
    zombies,
  }
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
