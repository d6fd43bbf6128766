// Owns a job as rows of the file: which column holds what, and how it reads as a StoredJob.
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
import { hasEnded } from '../../core/job.ts'
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

/** The columns of `job`: written once. */
export const FIXED = [
  'seq',
  'id',
  'line',
  'flow',
  'key',
  'lane',
  'created_at',
  'said',
  'payload',
] as const

/** Columns that change, each with what it is of a row. The first ones are those of `live` alone. */
const CHANGING = [
  ['again', (row) => row.again],
  ['due_at', (row) => (row.status === 'pending' ? row.availableAt : 0)],
  ['lease', (row) => row.lease?.number ?? null],
  ['holder', (row) => row.lease?.holder ?? null],
  ['hold', (row) => Number(row.lease?.hold ?? false)],
  ['evictor', (row) => row.evictor ?? null],
  ['status', (row) => row.status],
  ['rank', (row) => row.rank],
  ['needs', (row) => row.needs],
  ['open', (row) => row.open],
  ['deadline', (row) => row.deadline],
  ['code', (row) => row.code ?? null],
  ['figures', figuresOf],
  ['error', (row) => (row.error === undefined ? null : JSON.stringify(row.error))],
  ['result', (row) => row.result ?? null],
] as const satisfies readonly (readonly [column: string, of: (row: Row) => Value])[]

const LIVE_ALONE = 6

/** What is read of a column of `live` where there is none: nobody holds what is over. */
const NOBODYS = ['0', '0', 'NULL', 'NULL', '0', 'NULL']

export const CHANGES: Readonly<Record<Table, readonly string[]>> = {
  live: CHANGING.map(([column]) => column),
  past: CHANGING.slice(LIVE_ALONE).map(([column]) => column),
}

/** What columns are where nothing is said of them; undefined for one that is always said. */
const USUAL: Readonly<Record<string, Value>> = { rev: 1 }
const UNUSUAL: readonly string[] = 'seq id line terms priority created_at status weight rank'.split(
  ' ',
)
const usualOf = (column: string) => (UNUSUAL.includes(column) ? undefined : (USUAL[column] ?? 0))

export const USUALS: Readonly<Record<Table | 'job', readonly (Value | undefined)[]>> = {
  job: FIXED.map(usualOf),
  live: CHANGES.live.map(usualOf),
  past: CHANGES.past.map(usualOf),
}

const NO_DEPS: readonly Dep[] = Object.freeze([])
const NO_ATTEMPTS: readonly Attempt[] = Object.freeze([])
const NO_PACKED: readonly PackedAttempt[] = Object.freeze([])

/** In which table a row belongs, as it is now. */
export function tableOf({ status, lease }: Row): Table {
  return hasEnded(status) && lease === undefined ? 'past' : 'live'
}

export function fixedOf(row: Row): Value[] {
  const { seq, id, line, flow, key, lane, createdAt, payload } = row
  return [
    seq,
    id,
    line,
    flow ?? null,
    key ?? null,
    lane ?? null,
    createdAt,
    saidOf(row),
    payload ?? null,
  ]
}

/** What was said of a job and no statement asks for; schema.ts knows one of the places. */
function saidOf(row: Row): string {
  const { termsAt, priority, keyForMs, enqueueTimeoutMs, depMode, deps } = row
  const isPlain = keyForMs === 0 && enqueueTimeoutMs === 0 && deps.length === 0
  if (isPlain && depMode === 'all') return `[${termsAt},${priority}]`
  const said: Said = [termsAt, priority, keyForMs, enqueueTimeoutMs, depMode, deps]
  return JSON.stringify(said)
}

type Said = [
  termsAt: number,
  priority: number,
  keyForMs?: number,
  enqueueTimeoutMs?: number,
  depMode?: DepMode,
  deps?: readonly Dep[],
]

export function changingOf(row: Row, table: Table): Value[] {
  const first = table === 'live' ? 0 : LIVE_ALONE
  const values: Value[] = new Array(CHANGING.length - first)
  for (let at = first; at < CHANGING.length; at += 1) {
    values[at - first] = (CHANGING[at] as (typeof CHANGING)[number])[1](row)
  }
  return values
}

/** What changes and no statement asks for. Instants are milliseconds since the job was created. */
function figuresOf(row: Row): string {
  const { rev, weight, starts, attempts, lost, log, status } = row
  const { availableAt, readyAt, startedAt, finishedAt, createdAt } = row
  const since = (time: number) => (time === 0 ? 'null' : time - createdAt)
  const times = `${since(availableAt)},${since(readyAt)},${since(startedAt)},${since(finishedAt)}`
  const numbers = `${rev},${weight},${starts},${attempts},${lost},${times}`
  const more = moreOf(row)
  // The attempt that runs is not written: it is what the row itself says.
  const closed = status === 'running' ? log.length - 1 : log.length
  if (closed <= 0 && more === undefined) return `[${numbers}]`
  const made = log.slice(0, Math.max(0, closed)).map((each) => packAttempt(each, createdAt))
  const attemptsMade = JSON.stringify(made)
  if (more === undefined) return `[${numbers},${attemptsMade}]`
  return `[${numbers},${attemptsMade},${JSON.stringify(more)}]`
}

type Figures = [
  rev: number,
  weight: number,
  starts: number,
  attempts: number,
  lost: number,
  availableAt: number | null,
  readyAt: number | null,
  startedAt: number | null,
  finishedAt: number | null,
  log?: readonly PackedAttempt[],
  more?: More,
]

/** An attempt as a list; what it has not is left out at the end, or is 0 where nothing else can be. */
type PackedAttempt = [
  attempt: number,
  startedAt: number,
  queuedMs: number,
  worker: string,
  callMs?: number,
  outcome?: Attempt['outcome'] | 0,
  code?: string,
]

function packAttempt(made: Attempt, createdAt: number): PackedAttempt {
  const { attempt, startedAt, queuedMs, worker, callMs, outcome, code } = made
  const packed: PackedAttempt = [attempt, startedAt - createdAt, queuedMs, worker]
  if (callMs === undefined) return packed
  packed.push(callMs)
  if (outcome !== undefined || code !== undefined) packed.push(outcome ?? 0)
  if (code !== undefined) packed.push(code)
  return packed
}

function unpackAttempt(packed: PackedAttempt, createdAt: number): Attempt {
  const [attempt, since, queuedMs, worker, callMs, outcome = 0, code] = packed
  return {
    attempt,
    startedAt: createdAt + since,
    queuedMs,
    worker,
    ...(callMs === undefined ? {} : { callMs }),
    ...(outcome === 0 ? {} : { outcome }),
    ...(code === undefined ? {} : { code }),
  }
}

/** What most jobs have nothing to say of. */
function moreOf(row: Row): More | undefined {
  const { cause, victim, preempted, attemptsBefore, lostBefore, unknown, displaced } = row
  const { stuck, pass, keepRank, keepMs, parked, inLane } = row
  const isPlain =
    cause === undefined &&
    victim === undefined &&
    preempted === 0 &&
    attemptsBefore === 0 &&
    lostBefore === 0 &&
    !(unknown || displaced || stuck || keepRank || parked || inLane) &&
    pass < 0 &&
    keepMs === 0
  if (isPlain) return undefined
  return {
    cause,
    victim,
    preempted: preempted || undefined,
    attemptsBefore: attemptsBefore || undefined,
    lostBefore: lostBefore || undefined,
    unknown: unknown || undefined,
    displaced: displaced || undefined,
    stuck: stuck || undefined,
    pass: pass < 0 ? undefined : pass,
    keepRank: keepRank || undefined,
    keepMs: keepMs || undefined,
    parked: parked || undefined,
    inLane: inLane || undefined,
  }
}

type Rare =
  | ('cause' | 'victim' | 'preempted' | 'attemptsBefore' | 'lostBefore' | 'unknown')
  | ('displaced' | 'stuck' | 'pass' | 'keepRank' | 'keepMs' | 'parked' | 'inLane')
type More = { readonly [Name in Rare]?: Row[Name] | undefined }

function optional(value: unknown): string | undefined {
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
    ...beginning(weight, now, now + job.delayMs),
  }
}

type Fixed =
  | 'seq'
  | 'id'
  | 'type'
  | 'pool'
  | 'line'
  | 'flow'
  | 'termsAt'
  | 'terms'
  | 'priority'
  | 'deps'
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
    result: undefined,
    saved: null,
  }
}

const COLUMNS = [...FIXED, ...CHANGES.live]

/**
 * A row as one text. An object of 40 columns takes libsql 20 us to make and node:sqlite 6; this,
 * with the reading of it, takes 5 and 3.
 */
export const PACKED: Readonly<Record<Table, string>> = {
  live: packed(CHANGES.live.map((column) => `live.${column}`)),
  past: packed([...NOBODYS, ...CHANGES.past.map((column) => `past.${column}`)]),
}

function packed(changing: readonly string[]): string {
  const all = [...FIXED.map((column) => `job.${column}`), ...changing]
  return `json_array(${all.join(', ')}) AS packed`
}

type Column = (typeof FIXED)[number] | (typeof CHANGING)[number][0]

const AT = Object.fromEntries(COLUMNS.map((column, at) => [column, at])) as Readonly<
  Record<Column, number>
>

/** The columns of a row in their order; the first is its seq. */
export function columnsOf(found: unknown): readonly unknown[] {
  return JSON.parse((found as { readonly packed: string }).packed)
}

/** Where rows look up what they share. */
export interface Shared {
  termsOf(at: number): Terms
  lineOf(at: number): { readonly pool: string; readonly type: string }
}

const NOTHING_MORE: More = Object.freeze({})

/** A row as it was read. */
export function readRow(c: readonly unknown[], shared: Shared): Row {
  const number = c[AT.lease] as number | null
  const holder = c[AT.holder] as string
  const status = c[AT.status] as JobStatus
  const { pool, type } = shared.lineOf(c[AT.line] as number)
  const figures = JSON.parse(c[AT.figures] as string) as Figures
  const [rev, weight, starts, attempts, lost, available, ready, started, finished] = figures
  const createdAt = c[AT.created_at] as number
  const timeOf = (since: number | null) => (since === null ? 0 : createdAt + since)
  const said = JSON.parse(c[AT.said] as string) as Said
  const [termsAt, priority, keyForMs = 0, enqueueTimeoutMs = 0, depMode = 'all', deps = NO_DEPS] =
    said
  const [log = NO_PACKED, more = NOTHING_MORE] = figures.slice(9) as [PackedAttempt[]?, More?]
  const isPast = hasEnded(status) && number === null
  const row: Row = {
    seq: c[AT.seq] as number,
    id: c[AT.id] as string,
    type,
    pool,
    line: c[AT.line] as number,
    flow: optional(c[AT.flow]),
    termsAt,
    terms: shared.termsOf(termsAt),
    priority,
    deps,
    depMode,
    key: optional(c[AT.key]),
    keyForMs,
    lane: optional(c[AT.lane]),
    enqueueTimeoutMs,
    createdAt,
    payload: optional(c[AT.payload]),
    status,
    rev,
    weight,
    rank: c[AT.rank] as number,
    needs: c[AT.needs] as number,
    open: c[AT.open] as number,
    starts,
    attempts,
    lost,
    preempted: more.preempted ?? 0,
    attemptsBefore: more.attemptsBefore ?? 0,
    lostBefore: more.lostBefore ?? 0,
    lease: number === null ? undefined : { holder, number, hold: c[AT.hold] === 1 },
    deadline: c[AT.deadline] as number,
    availableAt: timeOf(available),
    readyAt: timeOf(ready),
    startedAt: timeOf(started),
    finishedAt: timeOf(finished),
    unknown: more.unknown ?? false,
    evictor: optional(c[AT.evictor]),
    victim: more.victim,
    displaced: more.displaced ?? false,
    stuck: more.stuck ?? false,
    pass: more.pass ?? -1,
    keepRank: more.keepRank ?? false,
    again: c[AT.again] as 0 | 1 | 2,
    keepMs: more.keepMs ?? 0,
    parked: more.parked ?? false,
    inLane: more.inLane ?? false,
    code: optional(c[AT.code]),
    cause: more.cause,
    error: c[AT.error] === null ? undefined : JSON.parse(c[AT.error] as string),
    log: log.length === 0 ? NO_ATTEMPTS : log.map((each) => unpackAttempt(each, createdAt)),
    result: optional(c[AT.result]),
    saved: {
      table: isPast ? 'past' : 'live',
      values: c.slice(FIXED.length + (isPast ? LIVE_ALONE : 0)) as Value[],
    },
  }
  if (status === 'running') row.log = [...row.log, openAttemptOf(row, holder)]
  return row
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
  }
}

/** What jobs agree on, as the text by which it is found again. */
export const packTerms = (terms: Terms): string => pack(terms)
export const unpackTerms = (text: string): Terms => unpack(text)
