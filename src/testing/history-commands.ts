// Owns what a history is made of: commands as data, plain jobs, numbers from a seed.
// May never hold a number that a store made up: a history has to fit every store.

import type { Fact, NewJob, Terms } from '../core/job.ts'
import type { Keep } from '../core/machine.ts'
import type { Schedule } from '../core/settings.ts'
import type { Change, ListQuery } from '../store/store.ts'

/** How old the knowledge is that a decision rests on: read just now, or as once leased. */
export type View = 'fresh' | 'last lease' | 'older lease'

export interface PlannedMove {
  readonly id: string
  readonly fact: Fact
  readonly view: View
}

export interface PlannedGroup {
  readonly jobs: readonly NewJob[]
  readonly unknownDeps: 'wait' | 'reject'
  readonly behind?: readonly string[]
  readonly fence?: { readonly id: string; readonly view: View }
  /** For the instant at which the row stands, or for one before it; of what it says, or said. */
  readonly tick?: {
    readonly schedule: string
    readonly isStale: boolean
    readonly isOld: boolean
    readonly stepMs: number
  }
}

/** A row of a schedule whose instant is that far from the moment at which it is set. */
export type PlannedRow = Omit<Schedule, 'name' | 'nextAt'> & { readonly inMs: number }

/** A call of the port that names no number a store made up, so that any store can follow it. */
export type Command =
  | { readonly do: 'insert'; readonly groups: readonly PlannedGroup[] }
  | {
      readonly do: 'replace'
      readonly gone: readonly { readonly id: string; readonly view: View }[]
      readonly group: Omit<PlannedGroup, 'tick' | 'behind'>
    }
  | {
      readonly do: 'lease'
      readonly holder: string
      readonly leaseMs: number
      readonly max: number
      readonly types: readonly string[]
    }
  | { readonly do: 'apply'; readonly moves: readonly PlannedMove[]; readonly keep: Keep }
  | { readonly do: 'overdue'; readonly limit: number; readonly keepLogMs: number }
  /** Decides about what the latest `overdue` handed out, however long ago that was. */
  | { readonly do: 'keep'; readonly keep: Keep }
  | {
      readonly do: 'extend'
      readonly holder: string
      readonly omit: readonly string[]
      /** Of what it holds: bodies that do not stop. */
      readonly stuck: readonly string[]
      /** Of what it holds: for each of these a note, its own id. */
      readonly noted: readonly string[]
      readonly leaseMs: number
      readonly upTo: 'nothing' | 'mark' | 'everything'
      /** True: a job leased twice is listed under its lease before the last. */
      readonly isStale: boolean
    }
  | { readonly do: 'configure'; readonly change: Change }
  | { readonly do: 'schedule'; readonly name: string; readonly row: PlannedRow | null }
  | { readonly do: 'settings' | 'workers' | 'inspect' }
  | {
      readonly do: 'beat'
      readonly holder: string
      readonly types: readonly string[]
      readonly full: boolean
      readonly zombies: number
      readonly ttlMs: number
    }
  | { readonly do: 'clock'; readonly ms: number }
  | { readonly do: 'get'; readonly ids: readonly string[] }
  | ({ readonly do: 'list'; readonly limit: number } & Omit<ListQuery, 'after'>)
  | { readonly do: 'dependents'; readonly id: string; readonly limit: number }
  | { readonly do: 'standing'; readonly id: string }
  | { readonly do: 'count' }
  | { readonly do: 'events'; readonly limit: number }

/** Where the clock of a history begins, epoch milliseconds. */
export const START = 1_700_000_000_000

/** Numbers in [0, 1) from a seed (mulberry32). */
export function numbersFrom(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export const TERMS: readonly Terms[] = [0, 1, 2, 3].map((number) => ({
  timeoutMs: 1_000,
  retries: number % 3,
  backoff: {
    type: number === 3 ? 'exponential' : 'fixed',
    delayMs: number < 2 ? 0 : 400,
    maxMs: 5_000,
    factor: 2,
    jitter: number === 3,
  },
  maxLost: number,
  idempotent: number !== 1,
  confirm: false,
  heartbeatMs: 0,
  preemptible: number === 2,
}))

/** A plain job. What is equal for equal ids: its type and its payload. */
export function newJob(id: string, over: Partial<NewJob> = {}): NewJob {
  return {
    id,
    type: 'alpha',
    pool: 'default',
    flow: undefined,
    payload: '1',
    body: undefined,
    terms: TERMS[0] as Terms,
    priority: 50,
    delayMs: 0,
    enqueueTimeoutMs: 0,
    deps: [],
    depMode: 'all',
    key: undefined,
    keyForMs: 0,
    exclusive: undefined,
    minted: false,
    ...over,
  }
}
