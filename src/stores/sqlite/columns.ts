// Owns which column of which table holds what of a job, and how its rows are read.
// May never hold a rule: a column says what the row in hand says.

import { hasEnded, type JobStatus, type Terms } from '../../core/job.ts'
import { isSuspect } from '../../core/suspect.ts'
import type { Value } from './driver.ts'
import {
  attemptsIn,
  type Figures,
  figuresOf,
  ITS_OWN,
  moreIn,
  type Said,
  saidOf,
  unpackTerms,
} from './figures.ts'
import { openAttemptOf, optional, type Row, type Table } from './row.ts'

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

/** Columns that change. The first ones are those of `live` alone. */
const LIVE_ALONE = ['again', 'due_at', 'lease', 'holder', 'hold', 'evictor', 'suspect'] as const
const SHARED = [
  'status',
  'rank',
  'needs',
  'open',
  'deadline',
  'code',
  'figures',
  'error',
  'result',
] as const

/** What is read of a column of `live` where there is none: nobody holds what is over. */
const NOBODYS = ['0', '0', 'NULL', 'NULL', '0', 'NULL', '0']

export const CHANGES: Readonly<Record<Table, readonly string[]>> = {
  live: [...LIVE_ALONE, ...SHARED],
  past: SHARED,
}

/** What columns are where nothing is said of them; undefined for one that is always said. */
const UNUSUAL = ['seq', 'id', 'line', 'created_at', 'said', 'status', 'rank', 'figures']
const usualOf = (column: string) => (UNUSUAL.includes(column) ? undefined : 0)

export const USUALS: Readonly<Record<Table | 'job', readonly (Value | undefined)[]>> = {
  job: FIXED.map(usualOf),
  live: CHANGES.live.map(usualOf),
  past: CHANGES.past.map(usualOf),
}

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

/** The columns of `CHANGES`, in their order. */
export function changingOf(row: Row, table: Table): Value[] {
  const { status, lease } = row
  const error = row.error === undefined ? null : JSON.stringify(row.error)
  const shared = [
    status,
    row.rank,
    row.needs,
    row.open,
    row.deadline,
    row.code ?? null,
    figuresOf(row),
    error,
    row.result ?? null,
  ]
  if (table === 'past') return shared
  return [
    row.again,
    status === 'pending' ? row.availableAt : 0,
    lease?.number ?? null,
    lease?.holder ?? null,
    Number(lease?.hold ?? false),
    row.evictor ?? null,
    Number(isSuspect(row)),
    ...shared,
  ]
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
  return `json_array(${all.join(', ')})`
}

/** Bytes of a text that is not read beside others. */
export const LONG = 10_000

/** A job whose texts are short enough for many of them to fit into one text. */
export const IS_SHORT = `octet_length(job.said) + ifnull(octet_length(job.payload), 0)
  + ifnull(octet_length(live.error), 0) < ${LONG}`

/** Columns that say something of few jobs only: texts of `job` and of `live`, and counts. */
export const RARE = {
  job: ['flow', 'key', 'lane'],
  live: ['evictor', 'code', 'error', 'result'],
  counts: ['needs', 'open', 'again', 'hold'],
} as const

/** A job that is not one of these few. */
export const IS_COMMON = [
  ...RARE.job.map((column) => `job.${column} IS NULL`),
  ...RARE.live.map((column) => `live.${column} IS NULL`),
  ...RARE.counts.map((column) => `live.${column} = 0`),
].join(' AND ')

type Column = (typeof FIXED | typeof LIVE_ALONE | typeof SHARED)[number]

/** The place of each column in a row that was read. */
export const AT = Object.fromEntries(COLUMNS.map((column, at) => [column, at])) as Readonly<
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

const NO_DEPS: Row['deps'] = Object.freeze([])

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
  const more = moreIn(figures)
  const isPast = hasEnded(status) && number === null
  const row: Row = {
    seq: c[AT.seq] as number,
    id: c[AT.id] as string,
    type,
    pool,
    line: c[AT.line] as number,
    flow: optional(c[AT.flow]),
    termsAt,
    terms: termsAt === ITS_OWN ? unpackTerms(said[6] as string) : shared.termsOf(termsAt),
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
    log: attemptsIn(figures, createdAt),
    note: more.note,
    result: optional(c[AT.result]),
    saved: {
      table: isPast ? 'past' : 'live',
      values: c.slice(FIXED.length + (isPast ? LIVE_ALONE.length : 0)) as Value[],
    },
  }
  if (status === 'running') row.log = [...row.log, openAttemptOf(row, holder)]
  return row
}
