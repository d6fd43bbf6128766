// Owns the shapes that users see: what they hand in, what they get back.
// May never hold code: what a shape means is decided elsewhere.

import type { BreakerOptions, BreakerState } from './breaker.ts'
import type { Duration } from './duration.ts'
import type { Dep, DepMode, ErrorData, JobStatus } from './job.ts'

/** A function gets the number of the failure (from 1) and a number in [0, 1), and answers ms. */
export type Backoff =
  | {
      readonly type: 'fixed' | 'exponential'
      /** Default 1 s. */
      readonly delay?: Duration
      /** Default 30 s. */
      readonly max?: Duration
      /** Default 2. */
      readonly factor?: number
      /** Default true: [50 %, 100 %] of the delay. */
      readonly jitter?: boolean
    }
  | ((attempt: number, random: number) => number)

export interface JobInput<P = unknown, R = unknown> {
  /** 1 to 255 bytes. Default: a new id that sorts by time. */
  readonly id?: string
  /** Default `task`, where `execute` is given. */
  readonly type?: string
  /** JSON; by reference where `execute` is given. */
  readonly payload?: P
  /** 1 to 100, larger first, default 50. */
  readonly priority?: number
  readonly deps?: readonly (string | { readonly id: string; readonly on?: 'success' | 'end' })[]
  /** Default `all`; a number k: any k of them. */
  readonly depMode?: DepMode
  /** Per attempt, from its start. Default none. */
  readonly timeout?: Duration
  /** Not counting the first run. Default 0. */
  readonly retries?: number
  readonly backoff?: Backoff
  /** An attempt that calls `progress()` less often than this is aborted. Default off. */
  readonly heartbeat?: Duration
  /** Epoch milliseconds before which it does not start. */
  readonly availableAt?: number
  /** The same, counted from now. */
  readonly delay?: Duration
  /** Time it may spend ready, waiting for a slot. Default: no bound. */
  readonly enqueueTimeout?: Duration
  /** Unique among jobs that have not ended: a second submission gets the first job. */
  readonly key?: string
  /** Goes on holding the key for a while after success. */
  readonly dedupe?: { readonly for: Duration }
  /** A lane: jobs of one lane run one at a time. */
  readonly exclusive?: string
  readonly pool?: string
  readonly flow?: string
  /** False: never repeated after an unknown outcome, unless `confirm` allows it. Default true. */
  readonly idempotent?: boolean
  readonly execute?: (context: JobContext<P>) => R | PromiseLike<R>
}

export interface JobContext<P = unknown> {
  readonly job: Job<P>
  readonly payload: P
  /** From 1. */
  readonly attempt: number
  /** Aborted at the timeout, on cancel, on a lost lease or heartbeat, on preemption, on a stop. */
  readonly signal: AbortSignal
  /** The same for every attempt of the job. */
  readonly idempotencyKey: string
  /** Results of the dependencies that succeeded, by id. Has no prototype. */
  readonly deps: Readonly<Record<string, unknown>>
  /** Says how far it has come, and that it is alive. */
  progress(value?: number | object): void
  /** Adds jobs at once, atomically per call, if this attempt still holds its lease. */
  submit(jobs: JobInput | readonly JobInput[], options?: SubmitOptions): Promise<JobHandle[]>
  /**
   * Writes down what the next attempt has to know if this one is lost: a process group, the number
   * of an order. It finds it as `job.note`. Up to 1,000 bytes; a later note takes its place.
   * Resolves once it is stored. Rejects with LEASE_LOST if this attempt is the job's no more.
   */
  note(text: string): Promise<void>
}

export interface SubmitOptions {
  /**
   * Ids of jobs that go in the same step, as if they had never been submitted; those among the
   * new ones take their place, also for who depends on them. Rejects with DUPLICATE_ID, and
   * changes nothing, if one of them runs or has succeeded.
   */
  readonly replaces?: readonly string[]
}

export interface AttemptLog {
  readonly attempt: number
  readonly startedAt: number
  readonly queuedMs: number
  readonly callMs?: number
  readonly outcome?: string
  readonly code?: string
  readonly worker: string
}

/** What the store knows about a job: plain data, a copy. */
export interface Job<P = unknown, R = unknown> {
  readonly id: string
  readonly type: string
  readonly pool: string
  readonly payload: P
  readonly priority: number
  readonly deps: Dep[]
  readonly depMode: DepMode
  /** Milliseconds; 0 for none. */
  readonly timeout: number
  readonly retries: number
  readonly status: JobStatus
  /** Starts charged to the job; lost and preempted ones have counts of their own. */
  readonly attempts: number
  readonly lost: number
  readonly preempted: number
  readonly availableAt: number
  readonly createdAt: number
  readonly startedAt?: number
  readonly finishedAt?: number
  readonly result?: R
  readonly error?: ErrorData
  /** The job whose failure cancelled this one. */
  readonly cause?: string
  readonly key?: string
  readonly exclusive?: string
  readonly flow?: string
  readonly progress?: unknown
  /** What the latest attempt to do so has written down with `note`. */
  readonly note?: string
  /** The latest hundred attempts. */
  readonly attemptLog: AttemptLog[]
}

export interface JobHandle<R = unknown> {
  readonly id: string
  /** False: the key, or the id, was there already. */
  readonly added: boolean
  /** Settles when the job has ended for good. Rejects with the job's error, or with GONE. */
  result(options?: { readonly signal?: AbortSignal }): Promise<R>
  job(): Promise<Job>
  cancel(reason?: string): Promise<boolean>
}

/** A pool: what holds for it, and how it is. What is off, or has no bound, is absent. */
export interface PoolSnapshot {
  readonly concurrency: number
  readonly perWorker?: number
  readonly running: number
  readonly ready: number
  /** Of these, what `maxQueue` counts: jobs that are pending or ready. */
  readonly queued: number
  readonly maxQueue?: number
  readonly overflow: 'reject' | 'wait'
  readonly paused: boolean
  readonly rate?: {
    readonly count: number
    /** Milliseconds. */
    readonly per: number
    /** How many may start at one instant after a pause. */
    readonly burst: number
    /** When the next job may start, epoch milliseconds; absent if one may now. */
    readonly nextAt?: number
  }
  /** So many more may run at once, of jobs of that priority. */
  readonly elastic?: { readonly raise: number; readonly minPriority: number }
  readonly preempt?: {
    readonly minPriority: number
    readonly minGap: number
    /** Milliseconds. */
    readonly minRun: number
  }
  readonly breaker?: {
    readonly state: BreakerState
    /** When it lets a probe through, while it is open. */
    readonly until?: number
  }
}

export interface Snapshot {
  readonly at: number
  readonly total: number
  readonly states: Readonly<Record<JobStatus, number>>
  readonly types: Readonly<Record<string, Readonly<Record<JobStatus, number>>>>
  readonly pools: Readonly<Record<string, PoolSnapshot>>
  readonly running: readonly {
    readonly id: string
    readonly type: string
    readonly forMs: number
    readonly worker: string
    /** The job is cancelled; its body has not settled yet. */
    readonly stopping?: boolean
  }[]
  /** Failed jobs by code. */
  readonly failures: Readonly<Record<string, number>>
  /** Of all live workers. */
  readonly zombies: number
  /** Retries that are due, and wait for the retry budget; absent when none does. */
  readonly waitingForBudget?: number
  /** Jobs that are still in the order of an ageing which is set no more; absent when none is. */
  readonly unranked?: number
}

export interface Explanation {
  readonly id: string
  readonly status: JobStatus
  /** A kind for programs. */
  readonly reason: string
  /** One sentence for people. */
  readonly text: string
  readonly blockedBy?: readonly { readonly id: string; readonly status: JobStatus | 'unknown' }[]
  readonly until?: number
  readonly position?: number
}

export interface JobFilter {
  readonly status?: JobStatus | readonly JobStatus[]
  readonly type?: string
  readonly pool?: string
  readonly flow?: string
  readonly code?: string
  readonly key?: string
  readonly createdAfter?: number
  readonly createdBefore?: number
  /** How many at most. Default: all. */
  readonly limit?: number
  /** Begin after this id. */
  readonly after?: string
}

/** Any validator that follows the Standard Schema (zod, valibot, arktype and others). */
export interface StandardSchemaV1<P = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<P> | Promise<StandardResult<P>>
    readonly types?: { readonly input: unknown; readonly output: P } | undefined
  }
}

type StandardResult<P> =
  | { readonly value: P; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

export interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** What came of an attempt whose outcome was unknown. */
export type Confirmed = { readonly done: true; readonly result: unknown } | { readonly done: false }

/** What every job of a type has in common. */
export interface TypePolicy<P = unknown> {
  readonly pool?: string
  /** How many run at once, over all workers and pools. Default, and Infinity: as pools allow. */
  readonly concurrency?: number
  readonly priority?: number
  readonly timeout?: Duration
  readonly retries?: number
  readonly backoff?: Backoff
  /** An attempt that calls `progress()` less often than this is aborted. Default off. */
  readonly heartbeat?: Duration
  /** An urgent job may take its slot. Default false. */
  readonly preemptible?: boolean
  readonly idempotent?: boolean
  /** How many times a lost job runs again. Default: `max(retries, 3)`. */
  readonly maxLost?: number
  /** Whether an error is worth another attempt. */
  readonly retryable?: (error: unknown) => boolean
  /** Asked before an attempt that follows an unknown outcome: has the one before taken effect? */
  readonly confirm?: (context: {
    readonly job: Job<P>
    readonly signal: AbortSignal
  }) => Confirmed | PromiseLike<Confirmed>
  /** Payloads are checked against it at submission, and stored as it returns them. */
  readonly schema?: StandardSchemaV1<P>
}

export interface RateOptions {
  /** Never more than so many in any `per`. */
  readonly count: number
  readonly per: Duration
  /**
   * How many may come at one instant; then `count + burst - 1` in any `per` is the bound.
   * Default: one in fifty, and the bound is `count`.
   */
  readonly burst?: number
}

/** Of a pool. In `configure`, null takes a setting back, and false switches a thing off. */
export interface PoolOptions {
  /** Over all workers. Default 10. */
  readonly concurrency?: number
  /** Of one process. Default: as many as the pool may have. */
  readonly perWorker?: number
  /** How many jobs that have not started it holds, pending or ready. Default: no bound. */
  readonly maxQueue?: number
  /** When it is full: `reject` (default) with QUEUE_OVERFLOW, or `wait` for room. */
  readonly overflow?: 'reject' | 'wait'
  /** How many may start in a while. Default none. */
  readonly rate?: RateOptions | false
  /** Room for urgent jobs above the cap: a share of it (default 0.3), at least one. */
  readonly elastic?: { readonly ratio?: number; readonly minPriority: number } | false
  /** Urgent jobs may take the slot of a running one. Gap: 10 by default; run: 0. */
  readonly preempt?:
    | { readonly minPriority: number; readonly minGap?: number; readonly minRun?: Duration }
    | false
  /** Holds jobs back while the downstream is ill. Default off. */
  readonly breaker?: BreakerOptions | false
  readonly paused?: boolean
}

/** A change of a pool: null takes back what was set before. */
export type PoolOptionsChange = { readonly [K in keyof PoolOptions]?: PoolOptions[K] | null }

export interface ScheduleOptions {
  /**
   * By whose clock the expression goes, such as `Europe/Berlin`. Default: the zone of whichever
   * process adds the job; where processes may differ, name one.
   */
  readonly timeZone?: string
  /**
   * What becomes of instants that passed while nobody was there: one job for all of them (`one`,
   * the default), one for each (`all`), or none for those over a minute ago (`skip`).
   */
  readonly missed?: 'skip' | 'one' | 'all'
}

export interface ScheduleInfo {
  readonly name: string
  readonly cron: string
  /** Absent: that of whichever process adds the job. */
  readonly timeZone?: string
  readonly missed: 'skip' | 'one' | 'all'
  /** What it adds each time, as it was given. */
  readonly job: JobInput
  /** When it adds its next job, epoch milliseconds. */
  readonly nextAt: number
}

export interface RetryWhereOptions {
  /**
   * Of the jobs that match, never revives more than so many in any `per`. Each brings back the
   * whole branch that it had cancelled, at once; the next one waits until that is paid for, too.
   */
  readonly per?: RateOptions
  /** Epoch milliseconds at which it stops, done or not. */
  readonly until?: number
}

export interface Finding {
  /** For programs. */
  readonly kind: string
  /** Ids of jobs that it names, at most a hundred; none where it is about a pool or a worker. */
  readonly jobs: readonly string[]
  readonly text: string
  readonly remedy: string
}

export interface DoctorReport {
  readonly findings: readonly Finding[]
}

export interface Advice {
  readonly kind: string
  readonly type?: string
  readonly pool?: string
  readonly text: string
  readonly figures: Readonly<Record<string, number>>
}
