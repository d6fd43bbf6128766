// Owns the shapes of what a store answers when it is asked and nothing changes.
// May never say how an answer is found.

import type { BreakerState } from '../core/breaker.ts'
import type { Dep, JobEvent, JobStatus, StoredJob } from '../core/job.ts'
import type { PoolRules } from '../core/settings.ts'
import type { WorkerBeat } from './store.ts'

export type WorkerInfo = Omit<WorkerBeat, 'ttlMs'> & {
  /** When it counts as gone. */
  readonly until: number
  /** Leases and holds. */
  readonly running: number
}

export interface Inspection {
  /** Jobs that wait for ids nobody has submitted: which, and for what. */
  readonly ghosts: readonly { readonly id: string; readonly dep: string }[]
  /**
   * Loops among jobs that have not ended, in the order of running, first and last alike; each job
   * is in one of them at most. There should be none.
   */
  readonly cycles: readonly (readonly string[])[]
  /** Keys whose owner is not known, or has ended without a window: there should be none. */
  readonly orphanedKeys: readonly { readonly key: string; readonly owner: string }[]
  /** Leases and holds whose deadline has passed, by (deadline, seq). */
  readonly expired: readonly StoredJob[]
  /** What contradicts itself, in the store's own words. Empty: nothing is wrong. */
  readonly damage: readonly string[]
}

/** All given conditions hold. `after` is the seq of the last job of the page before. */
export interface ListQuery {
  readonly statuses?: readonly JobStatus[]
  readonly type?: string
  readonly pool?: string
  readonly flow?: string
  readonly code?: string
  readonly key?: string
  readonly createdAfter?: number
  readonly createdBefore?: number
  readonly after: number
  readonly limit: number
}

export interface ListPage {
  readonly jobs: readonly StoredJob[]
  /** Where the next page begins, or null after the last one. */
  readonly after: number | null
}

export type StatusCounts = Readonly<Record<JobStatus, number>>

export interface Counted {
  readonly at: number
  readonly types: Readonly<Record<string, StatusCounts>>
  readonly pools: Readonly<Record<string, PoolState>>
  /** Failed jobs by code, of the records that are kept. */
  readonly failures: Readonly<Record<string, number>>
  /** Leases and holds, oldest first, at most LIMITS.held of them. */
  readonly held: readonly StoredJob[]
  /** Jobs that only wait to be cancelled because their dependencies are beyond hope. */
  readonly doomed: number
  /** Ends whose dependents have not all been told yet. */
  readonly fanOuts: number
  /** Jobs that have been forgotten since the store was made. */
  readonly forgotten: number
  /** Jobs that are ranked by an ageing which is set no more. */
  readonly unranked: number
  /** Retries whose time has come, and which are pending until the budget lets them go. */
  readonly budgeted: number
}

export interface PoolState extends PoolRules {
  /** Leases and holds. */
  readonly running: number
  readonly ready: number
  readonly states: StatusCounts
  /** When the rate lets one more start; 0 if it does now, or there is none. */
  readonly rateAt: number
  readonly breakerState: BreakerState
  /** When an open breaker lets a probe through; 0 if it is not open. */
  readonly breakerUntil: number
}

export interface Standing {
  /** Ready jobs of its pool that come before it, counted up to LIMITS.position. */
  readonly ahead: number
  readonly pool: PoolState
  /** The job that holds its lane, if it waits for one. */
  readonly laneHolder: string | undefined
  /**
   * Each dependency that is not satisfied; `unknown` for one that nobody has submitted. A dead one
   * is shown as failed or cancelled, whatever its id stands for now: it may have been forgotten
   * since, or given to another job.
   */
  readonly deps: readonly (Dep & { readonly status: JobStatus | 'unknown' })[]
  /** Whether a live worker serves the type; a job with its own body needs any live worker. */
  readonly served: boolean
  /** Whether those workers all take nothing now. */
  readonly full: boolean
  /** Whether it is a suspect, and all of them, full ones aside, have one. */
  readonly barred: boolean
  /** Whether all of those that may have it run as many of its pool as one worker may. */
  readonly spent: boolean
  /** The cap of its type over all pools, null for none, and how many of it run. */
  readonly type: { readonly concurrency: number | null; readonly running: number }
  /** When the budget lets it go at the earliest, if it is that which holds it; else 0. */
  readonly budgetAt: number
  /** The job that has been told to give way to it. */
  readonly victim: string | undefined
}

export interface EventPage {
  readonly events: readonly JobEvent[]
  readonly oldest: number
  readonly last: number
}
