// Owns the nouns of what is set for all workers: pools, types, ageing, budget, schedules.
// May never hold a function: settings are plain JSON, so that every store can keep them.

import type { BreakerTerms } from './breaker.ts'
import type { RateTerms } from './gcra.ts'
import type { Terms } from './job.ts'
import type { Ageing } from './rank.ts'

/** A second allowance for urgent jobs: `ratio` of the cap, rounded down, at least one. */
export interface Elastic {
  readonly ratio: number
  readonly minPriority: number
}

/** Urgent jobs may displace a running one whose priority is lower by `minGap` or more. */
export interface Preempt {
  readonly minPriority: number
  readonly minGap: number
  /** Nobody is displaced before having run for so long. */
  readonly minRunMs: number
}

/** What was said about a pool. False switches a thing off; absent says nothing about it. */
export interface PoolTerms {
  readonly concurrency?: number
  readonly perWorker?: number
  readonly maxQueue?: number
  readonly overflow?: 'reject' | 'wait'
  readonly rate?: RateTerms | false
  readonly elastic?: Elastic | false
  readonly preempt?: Preempt | false
  readonly breaker?: BreakerTerms | false
  readonly paused?: boolean
}

/** A change of what was said: null takes a thing back. */
export type PoolTermsChange = { readonly [K in keyof PoolTerms]?: PoolTerms[K] | null }

/** A pool as it is run: what operators have said, else what processes brought, else defaults. */
export interface PoolRules {
  readonly concurrency: number
  /** Infinity: as many as the pool may have. */
  readonly perWorker: number
  /** Infinity: no bound. */
  readonly maxQueue: number
  readonly overflow: 'reject' | 'wait'
  readonly rate: RateTerms | null
  readonly elastic: Elastic | null
  readonly preempt: Preempt | null
  readonly breaker: BreakerTerms | null
  readonly paused: boolean
}

/** Without a word from anybody, a pool runs so many jobs at once. */
const DEFAULT_CONCURRENCY = 10

/** What an operator set wins over what processes bring along. */
export function poolRules(start: PoolTerms, operator: PoolTerms): PoolRules {
  const said = { ...start, ...operator }
  return {
    concurrency: said.concurrency ?? DEFAULT_CONCURRENCY,
    perWorker: said.perWorker ?? Number.POSITIVE_INFINITY,
    maxQueue: said.maxQueue ?? Number.POSITIVE_INFINITY,
    overflow: said.overflow ?? 'reject',
    rate: said.rate || null,
    elastic: said.elastic || null,
    preempt: said.preempt || null,
    breaker: said.breaker || null,
    paused: said.paused ?? false,
  }
}

/** What was said, with a change laid over it. */
export function changedTerms(before: PoolTerms, change: PoolTermsChange): PoolTerms {
  const after = Object.entries({ ...before, ...change })
  return Object.fromEntries(after.filter(([, value]) => value !== null && value !== undefined))
}

/** How many more than `cap` a pool or a worker may run for urgent jobs. */
export function raiseOf(cap: number, elastic: Elastic | null): number {
  if (elastic === null || cap === 0 || cap === Number.POSITIVE_INFINITY) return 0
  return Math.max(1, Math.floor(cap * elastic.ratio))
}

/**
 * How many jobs of a pool one worker may run; Infinity where the pool's own cap comes first in
 * any case, so that such a share stops nobody.
 */
export function shareOf({ perWorker, concurrency }: PoolRules): number {
  return perWorker < concurrency ? perWorker : Number.POSITIVE_INFINITY
}

/** Whether what is for urgent jobs is for this one. `ceiling`: that of the ageing that is set. */
export function isUrgent(priority: number, minPriority: number, ageing: Ageing | null): boolean {
  return priority >= minPriority && priority > (ageing?.ceiling ?? 0)
}

/** What processes have said of a type: for submissions from processes that know nothing of it. */
export interface TypeSetting {
  readonly pool: string
  readonly priority: number
  readonly terms: Terms
  /** Over all workers and pools; null: no cap. */
  readonly concurrency: number | null
  /** Given, not derived: then it holds for jobs with retries of their own, too. */
  readonly maxLost: number | null
}

/** What one process says of a type: only what it was given. What it does not say stays. */
export type TypeChange = Partial<Omit<TypeSetting, 'terms'>> & {
  readonly terms?: Partial<Terms>
}

export type Missed = 'skip' | 'one' | 'all'

/** Jobs at the instants of a cron expression. One row; the next instant is in it. */
export interface Schedule {
  readonly name: string
  readonly cron: string
  /** An IANA name; null: that of the process which makes the jobs. */
  readonly timeZone: string | null
  readonly missed: Missed
  /** The job, as JSON of what was submitted. */
  readonly template: string
  readonly nextAt: number
}

/** Everything that is set, as a store keeps it. */
export interface StoredSettings {
  readonly pools: Readonly<
    Record<string, { readonly start: PoolTerms; readonly operator: PoolTerms }>
  >
  readonly types: Readonly<Record<string, TypeSetting>>
  readonly ageing: Ageing | null
  readonly budget: RateTerms | null
  readonly schedules: readonly Schedule[]
}
