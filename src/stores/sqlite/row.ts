// Owns a job in hand: what is known of it, what it begins with, and how the port shows it.
// May never be trusted once somebody else has written: the file is the truth.

import type {
  Attempt,
  Dep,
  DepMode,
  ErrorData,
  JobStatus,
  Lease,
  NewJob,
  StoredJob,
  Terms,
} from '../../core/job.ts'
import type { Value } from './driver.ts'

/** `again`: not a retry; one that is not due; one whose time has come, held by the budget. */
export const AGAIN = { no: 0, due: 1, held: 2 } as const

/** A job in hand: changed in place, written when the transaction asks the file again or ends. */
export interface Row {
  readonly seq: number
  readonly id: string
  readonly type: string
  readonly pool: string
  readonly line: number
  readonly flow: string | undefined
  readonly termsAt: number
  readonly terms: Terms
  readonly priority: number
  readonly deps: readonly Dep[]
  readonly depMode: DepMode
  readonly key: string | undefined
  readonly keyForMs: number
  readonly lane: string | undefined
  readonly enqueueTimeoutMs: number
  readonly createdAt: number
  readonly payload: string | undefined
  status: JobStatus
  rev: number
  weight: number
  rank: number
  needs: number
  open: number
  starts: number
  attempts: number
  lost: number
  preempted: number
  attemptsBefore: number
  lostBefore: number
  lease: Lease | undefined
  deadline: number
  availableAt: number
  readyAt: number
  startedAt: number
  finishedAt: number
  unknown: boolean
  evictor: string | undefined
  victim: string | undefined
  displaced: boolean
  /** Its body does not stop: nobody may count on its slot. */
  stuck: boolean
  pass: number
  keepRank: boolean
  again: 0 | 1 | 2
  keepMs: number
  parked: boolean
  /** It has asked for its lane, and holds it or waits for it. */
  inLane: boolean
  code: string | undefined
  cause: string | undefined
  error: ErrorData | undefined
  log: readonly Attempt[]
  note: string | undefined
  result: string | undefined
  /** Where the file has it, and what it says there of the columns that can change. */
  saved: Saved | null
}

/** `live` until it has ended and holds no slot; `past` from then on. */
export type Table = 'live' | 'past'

export interface Saved {
  readonly table: Table
  readonly values: readonly Value[]
}

export const NO_ATTEMPTS: readonly Attempt[] = Object.freeze([])

export function optional(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** What a job begins with, before its edges are drawn and its gates are asked. */
export function rowOf(
  job: NewJob,
  given: Readonly<Record<'seq' | 'now' | 'weight' | 'termsAt' | 'line', number>>,
): Row {
  const { seq, now, weight, termsAt, line } = given
  return {
    seq,
    id: job.id,
    type: job.type,
    pool: job.pool,
    line,
    flow: job.flow,
    termsAt,
    terms: job.terms,
    priority: job.priority,
    deps: job.deps,
    depMode: job.depMode,
    key: job.key,
    keyForMs: job.keyForMs,
    lane: job.exclusive,
    enqueueTimeoutMs: job.enqueueTimeoutMs,
    createdAt: now,
    payload: optional(job.payload),
    status: 'waiting',
    rev: 1,
    weight,
    rank: now - weight,
    needs: 0,
    open: 0,
    starts: 0,
    attempts: 0,
    lost: 0,
    preempted: 0,
    attemptsBefore: 0,
    lostBefore: 0,
    lease: undefined,
    deadline: 0,
    availableAt: now + job.delayMs,
    readyAt: 0,
    startedAt: 0,
    finishedAt: 0,
    unknown: false,
    evictor: undefined,
    victim: undefined,
    displaced: false,
    stuck: false,
    pass: -1,
    keepRank: false,
    again: 0,
    keepMs: 0,
    parked: false,
    inLane: false,
    code: undefined,
    cause: undefined,
    error: undefined,
    log: NO_ATTEMPTS,
    note: undefined,
    result: undefined,
    saved: null,
  }
}

/** The attempt that runs: no column of its own says it again. */
export function openAttemptOf({ starts, startedAt, readyAt }: Row, worker: string): Attempt {
  return { attempt: starts, startedAt, queuedMs: startedAt - readyAt, worker }
}

/** A row as the port shows it: a copy, which stays as it is. */
export function viewOf(row: Row): StoredJob {
  return {
    id: row.id,
    seq: row.seq,
    rev: row.rev,
    type: row.type,
    pool: row.pool,
    flow: row.flow,
    payload: row.payload,
    body: undefined,
    terms: row.terms,
    priority: row.priority,
    weight: row.weight,
    rank: row.rank,
    status: row.status,
    deps: row.deps,
    depMode: row.depMode,
    needs: row.needs,
    open: row.open,
    key: row.key,
    keyForMs: row.keyForMs,
    exclusive: row.lane,
    enqueueTimeoutMs: row.enqueueTimeoutMs,
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
    log: row.log,
    note: row.note,
  }
}
