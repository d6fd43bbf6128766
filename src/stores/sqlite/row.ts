// Owns a job as a row of the file: which column holds what, and how it reads as a StoredJob.
// May never be kept beyond the transaction that read it: the file is the truth.

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
import { pack, unpack } from './pack.ts'

/** `again`: not a retry; one that is not due; one whose time has come, held by the budget. */
export const AGAIN = { no: 0, due: 1, held: 2 } as const

/** A job in hand: changed in place, written when the transaction asks the file again or ends. */
export interface Row {
  readonly seq: number
  readonly id: string
  readonly type: string
  readonly pool: string
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
  /** What the file says of the columns that can change, in their order; null for a new row. */
  saved: readonly Value[] | null
}

/** Columns that are written once. */
export const FIXED = [
  'seq',
  'id',
  'type',
  'pool',
  'flow',
  'terms',
  'priority',
  'deps',
  'dep_mode',
  'key',
  'key_for_ms',
  'lane',
  'enqueue_timeout_ms',
  'created_at',
  'payload',
] as const

/** Columns that change, each with what it is of a row. */
const CHANGING = [
  ['status', (row) => row.status],
  ['rev', (row) => row.rev],
  ['weight', (row) => row.weight],
  ['rank', (row) => row.rank],
  ['needs', (row) => row.needs],
  ['open', (row) => row.open],
  ['starts', (row) => row.starts],
  ['attempts', (row) => row.attempts],
  ['lost', (row) => row.lost],
  ['preempted', (row) => row.preempted],
  ['attempts_before', (row) => row.attemptsBefore],
  ['lost_before', (row) => row.lostBefore],
  ['lease', (row) => row.lease?.number ?? null],
  ['holder', (row) => row.lease?.holder ?? null],
  ['hold', (row) => Number(row.lease?.hold ?? false)],
  ['deadline', (row) => row.deadline],
  ['available_at', (row) => row.availableAt],
  ['ready_at', (row) => row.readyAt],
  ['started_at', (row) => row.startedAt],
  ['finished_at', (row) => row.finishedAt],
  ['unknown', (row) => Number(row.unknown)],
  ['evictor', (row) => row.evictor ?? null],
  ['victim', (row) => row.victim ?? null],
  ['displaced', (row) => Number(row.displaced)],
  ['stuck', (row) => Number(row.stuck)],
  ['pass', (row) => row.pass],
  ['keep_rank', (row) => Number(row.keepRank)],
  ['again', (row) => row.again],
  ['keep_ms', (row) => row.keepMs],
  ['parked', (row) => Number(row.parked)],
  ['in_lane', (row) => Number(row.inLane)],
  ['code', (row) => row.code ?? null],
  ['cause', (row) => row.cause ?? null],
  ['error', (row) => (row.error === undefined ? null : JSON.stringify(row.error))],
  ['log', (row) => (row.log.length === 0 ? null : JSON.stringify(row.log))],
  ['note', (row) => row.note ?? null],
  ['result', (row) => row.result ?? null],
] as const satisfies readonly (readonly [column: string, of: (row: Row) => Value])[]

export const CHANGES: readonly string[] = CHANGING.map(([column]) => column)

const NO_DEPS: readonly Dep[] = Object.freeze([])
const NO_ATTEMPTS: readonly Attempt[] = Object.freeze([])

function fixedOf(row: Row): Value[] {
  const { flow, deps, depMode, key, lane, payload } = row
  return [
    row.seq,
    row.id,
    row.type,
    row.pool,
    flow ?? null,
    row.termsAt,
    row.priority,
    deps.length === 0 ? null : JSON.stringify(deps),
    depMode === 'all' ? null : JSON.stringify(depMode),
    key ?? null,
    row.keyForMs,
    lane ?? null,
    row.enqueueTimeoutMs,
    row.createdAt,
    payload ?? null,
  ]
}

/** What the columns of a new row are where nothing is said of them. */
const USUAL: Readonly<Record<string, Value>> = { rev: 1, pass: -1 }
/** Columns without a default. */
const UNUSUAL: readonly string[] =
  'seq id type pool terms priority created_at status weight rank'.split(' ')

const NEW = [...FIXED, ...CHANGES].map((column) => {
  return [column, UNUSUAL.includes(column) ? undefined : (USUAL[column] ?? 0)] as const
})

/** The columns of a new row that have to be said, and what they are. */
export function newOf(row: Row, changing: readonly Value[]): readonly [string[], Value[]] {
  const columns: string[] = []
  const values: Value[] = []
  const all = [...fixedOf(row), ...changing]
  for (let at = 0; at < all.length; at += 1) {
    const [column, usual] = NEW[at] as (typeof NEW)[number]
    const value = all[at] as Value
    if (value === null || value === usual) continue
    columns.push(column)
    values.push(value)
  }
  return [columns, values]
}

export function changingOf(row: Row): Value[] {
  const values: Value[] = new Array(CHANGING.length)
  for (let at = 0; at < CHANGING.length; at += 1) {
    values[at] = (CHANGING[at] as (typeof CHANGING)[number])[1](row)
  }
  return values
}

function optional(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** What a job begins with, before its edges are drawn and its gates are asked. */
export function rowOf(
  job: NewJob,
  given: { readonly seq: number; readonly now: number; readonly weight: number; termsAt: number },
): Row {
  const { seq, now, weight, termsAt } = given
  return {
    seq,
    id: job.id,
    type: job.type,
    pool: job.pool,
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
    ...beginning(weight, now, now + job.delayMs),
  }
}

type Fixed = 'seq' | 'id' | 'type' | 'pool' | 'flow' | 'termsAt' | 'terms' | 'priority' | 'deps'
type AlsoFixed = 'depMode' | 'key' | 'keyForMs' | 'lane' | 'enqueueTimeoutMs' | 'createdAt'

function beginning(
  weight: number,
  now: number,
  availableAt: number,
): Omit<Row, Fixed | AlsoFixed | 'payload'> {
  return {
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
    availableAt,
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

const COLUMNS = [...FIXED, ...CHANGES]

/**
 * A row as one text. An object of 50 columns takes libsql 23 us to make and node:sqlite 7; this,
 * with the reading of it, takes 6 and 4.
 */
export const PACKED = `json_array(${COLUMNS.map((column) => `job.${column}`).join(', ')}) AS packed`

type Column = (typeof FIXED)[number] | (typeof CHANGING)[number][0]

const AT = Object.fromEntries(COLUMNS.map((column, at) => [column, at])) as Readonly<
  Record<Column, number>
>

/** The columns of a row in their order; the first is its seq. */
export function columnsOf(found: unknown): readonly unknown[] {
  return JSON.parse((found as { readonly packed: string }).packed)
}

/** A row as it was read. `terms` are looked up by number: most jobs share theirs. */
export function readRow(c: readonly unknown[], termsOf: (at: number) => Terms): Row {
  const lease = c[AT.lease] as number | null
  return {
    seq: c[AT.seq] as number,
    id: c[AT.id] as string,
    type: c[AT.type] as string,
    pool: c[AT.pool] as string,
    flow: optional(c[AT.flow]),
    termsAt: c[AT.terms] as number,
    terms: termsOf(c[AT.terms] as number),
    priority: c[AT.priority] as number,
    deps: c[AT.deps] === null ? NO_DEPS : JSON.parse(c[AT.deps] as string),
    depMode: c[AT.dep_mode] === null ? 'all' : JSON.parse(c[AT.dep_mode] as string),
    key: optional(c[AT.key]),
    keyForMs: c[AT.key_for_ms] as number,
    lane: optional(c[AT.lane]),
    enqueueTimeoutMs: c[AT.enqueue_timeout_ms] as number,
    createdAt: c[AT.created_at] as number,
    payload: optional(c[AT.payload]),
    status: c[AT.status] as JobStatus,
    rev: c[AT.rev] as number,
    weight: c[AT.weight] as number,
    rank: c[AT.rank] as number,
    needs: c[AT.needs] as number,
    open: c[AT.open] as number,
    starts: c[AT.starts] as number,
    attempts: c[AT.attempts] as number,
    lost: c[AT.lost] as number,
    preempted: c[AT.preempted] as number,
    attemptsBefore: c[AT.attempts_before] as number,
    lostBefore: c[AT.lost_before] as number,
    lease:
      lease === null
        ? undefined
        : { holder: c[AT.holder] as string, number: lease, hold: c[AT.hold] === 1 },
    deadline: c[AT.deadline] as number,
    availableAt: c[AT.available_at] as number,
    readyAt: c[AT.ready_at] as number,
    startedAt: c[AT.started_at] as number,
    finishedAt: c[AT.finished_at] as number,
    unknown: c[AT.unknown] === 1,
    evictor: optional(c[AT.evictor]),
    victim: optional(c[AT.victim]),
    displaced: c[AT.displaced] === 1,
    stuck: c[AT.stuck] === 1,
    pass: c[AT.pass] as number,
    keepRank: c[AT.keep_rank] === 1,
    again: c[AT.again] as 0 | 1 | 2,
    keepMs: c[AT.keep_ms] as number,
    parked: c[AT.parked] === 1,
    inLane: c[AT.in_lane] === 1,
    code: optional(c[AT.code]),
    cause: optional(c[AT.cause]),
    error: c[AT.error] === null ? undefined : JSON.parse(c[AT.error] as string),
    log: c[AT.log] === null ? NO_ATTEMPTS : JSON.parse(c[AT.log] as string),
    note: optional(c[AT.note]),
    result: optional(c[AT.result]),
    saved: c.slice(FIXED.length) as Value[],
  }
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

/** What jobs agree on, as the text by which it is found again. */
export const packTerms = (terms: Terms): string => pack(terms)
export const unpackTerms = (text: string): Terms => unpack(text)
