// Owns what a fleet of processes works under, for the processes and for whoever judges them.

import type { PoolOptions, TypePolicy } from '../../../src/core/types.ts'

export const POOLS = {
  wide: { concurrency: 5, perWorker: 2 },
  narrow: { concurrency: 2 },
  rated: { concurrency: 50, rate: { count: 10, per: 300 } },
} satisfies Record<string, PoolOptions>

export type PoolName = keyof typeof POOLS

/** Of one type, over all pools. */
export const SCARCE = 3

const POLICY: TypePolicy = {
  timeout: '50s',
  retries: 3,
  backoff: { type: 'fixed', delay: 5, jitter: false },
}

export const TYPES: Readonly<Record<string, TypePolicy>> = {
  common: POLICY,
  scarce: { ...POLICY, concurrency: SCARCE },
}

/** What the operator notes down: within these entries of the log the pool was paused. */
export interface Pause {
  readonly pool: string
  readonly after: number
  readonly until: number
}

export interface Payload {
  readonly lasts: number
  /** It fails so often before it succeeds. */
  readonly fails: number
}
