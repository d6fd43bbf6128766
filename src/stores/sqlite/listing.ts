// Owns pages of jobs: which index leads to those that match, and how several of them are merged.
// May never sort more than it was told are few, or walk where an index leads.

import { type JobStatus, STATUSES } from '../../core/job.ts'
import { LIMITS } from '../../store/limits.ts'
import type { ListPage, ListQuery } from '../../store/store.ts'
import type { Board } from './board.ts'
import { columnsOf, PACKED, readRow } from './columns.ts'
import type { Value } from './driver.ts'
import { type Table, viewOf } from './row.ts'
import type { Session } from './session.ts'

/** Lines that are followed one by one; with more of them it is cheaper to walk. */
const FEW_LINES = 16
/** Ready jobs that are sorted; with more of them one comes soon on a walk. */
const FEW_READY = 2_000

interface Condition {
  readonly sql: string
  readonly values: readonly Value[]
}

/** One way into a table: a driver that an index answers, the seq it is in order of, the rest. */
interface Way {
  readonly table: Table
  readonly from: string
  /** With a plus where few are sorted: SQLite would walk, to save itself the sorting. */
  readonly seq: string
  readonly where: readonly Condition[]
}

const on = (sql: string, ...values: readonly Value[]): Condition => ({ sql, values })

/** One page of what matches, in order of seq. */
export function list({ session }: Board, query: ListQuery): ListPage {
  const limit = Math.min(query.limit, LIMITS.page)
  const found = waysOf(session, query).flatMap((way) => read(session, way, query, limit + 1))
  found.sort((a, b) => (a[0] as number) - (b[0] as number))
  const { connection } = session
  const jobs = found.slice(0, limit).map((columns) => viewOf(readRow(columns, connection)))
  const last = found.length > limit ? jobs.at(-1) : undefined
  return { jobs, after: last?.seq ?? null }
}

function read(session: Session, { table, from, seq, where }: Way, query: ListQuery, limit: number) {
  const all = [...where, ...rangeOf(session, seq, query)]
  const conditions = all.map((each) => each.sql).join(' AND ')
  const sql = `SELECT ${PACKED[table]} AS packed FROM ${from} WHERE ${conditions}
    ORDER BY ${seq} LIMIT ?`
  const values = all.flatMap((each) => each.values)
  return session.connection
    .statement(sql)
    .all(...values, limit)
    .map(columnsOf)
}

/** One bound at either end: of two, SQLite would follow the one and filter by the other. */
function rangeOf(session: Session, seq: string, query: ListQuery): readonly Condition[] {
  const { after, createdAfter, createdBefore } = query
  const first = createdAfter === undefined ? 0 : seqAt(session, createdAfter)
  const range = [on(`${seq} > ?`, Math.max(after, first - 1))]
  if (createdAfter !== undefined) range.push(on('+job.created_at >= ?', createdAfter))
  if (createdBefore === undefined) return range
  range.push(on(`${seq} < ?`, seqAt(session, createdBefore)))
  return [...range, on('+job.created_at < ?', createdBefore)]
}

/** The narrowest way there is: by key, flow or code, by a rare state, by line, or by all. */
function waysOf(session: Session, query: ListQuery): readonly Way[] {
  const { key, flow, code } = query
  const statuses = [...new Set(query.statuses ?? STATUSES)]
  const lines = linesOf(session, query)
  if (statuses.length === 0 || lines?.length === 0) return []
  const left = [
    ...(key === undefined ? [] : [on('+job.key = ?', key)]),
    ...(flow === undefined ? [] : [on('+job.flow = ?', flow)]),
    ...(lines === undefined ? [] : [on(`+job.line IN (${lines.join(', ')})`)]),
  ]
  const tables = tablesOf(statuses)
  const some = (table: Table) => [...left, ...codeOf(table, code, '+'), statusIn(table, statuses)]
  const byJob = (lead: Condition) =>
    tables.map((table) => {
      const from = `job CROSS JOIN ${table} USING (seq)`
      return { table, from, seq: 'job.seq', where: [lead, ...some(table)] }
    })
  if (key !== undefined) return byJob(on('job.key = ?', key))
  if (flow !== undefined) return byJob(on('job.flow = ?', flow))
  const byTable = (table: Table, lead: Condition, rest: readonly Condition[], plus = '') => {
    const from = `${table} CROSS JOIN job USING (seq)`
    return { table, from, seq: `${plus}${table}.seq`, where: [lead, ...rest] }
  }
  if (code !== undefined) {
    const rest = (table: Table) => [...left, statusIn(table, statuses)]
    return tables.map((table) => byTable(table, on(`${table}.code = ?`, code), rest(table)))
  }
  const ready = session.number('readyCount', FEW_READY + 1) ?? 0
  const rare = new Set<JobStatus>(ready > FEW_READY ? RARE : [...RARE, 'ready'])
  if (statuses.every((status) => rare.has(status))) {
    return statuses.flatMap((status) =>
      LEADS[status].map(([table, lead]) => {
        return byTable(table, on(lead), left, FEW.has(status) ? '+' : '')
      }),
    )
  }
  if (lines !== undefined && lines.length <= FEW_LINES) {
    return lines.flatMap((line) => byJob(on('job.line = ?', line)))
  }
  return tables.map((table) => byTable(table, statusIn(table, statuses), left))
}

/** States in which few jobs are, or which an index knows. */
const RARE: readonly JobStatus[] = ['waiting', 'pending', 'running', 'failed', 'cancelled']

const NEITHER = "live.status NOT IN ('ready', 'running')"

/** What the partial indexes ask for is said again: SQLite does not conclude it. */
const LEADS: Readonly<Record<JobStatus, readonly (readonly [Table, string])[]>> = {
  waiting: [['live', `live.status = 'waiting' AND ${NEITHER}`]],
  pending: [['live', `live.status = 'pending' AND ${NEITHER}`]],
  ready: [['live', "live.status = 'ready' AND live.suspect IN (0, 1)"]],
  running: [['live', "live.lease IS NOT NULL AND +live.status = 'running'"]],
  success: [['past', "past.status = 'success'"]],
  failed: [['past', "past.status = 'failed' AND past.status <> 'success'"]],
  // A cancelled job whose body has not stopped is not over.
  cancelled: [
    ['past', "past.status = 'cancelled' AND past.status <> 'success'"],
    ['live', `live.status = 'cancelled' AND ${NEITHER}`],
  ],
}

/** Those that are few, and are sorted. */
const FEW: ReadonlySet<JobStatus> = new Set(['ready', 'running'])

function tablesOf(statuses: readonly JobStatus[]): readonly Table[] {
  const tables = statuses.flatMap((status) => LEADS[status].map(([table]) => table))
  return [...new Set(tables)]
}

function statusIn(table: Table, statuses: readonly JobStatus[]): Condition {
  if (statuses.length === STATUSES.length) return on('1')
  return on(`+${table}.status IN (${statuses.map(() => '?').join(', ')})`, ...statuses)
}

function codeOf(table: Table, code: string | undefined, plus: '+' | ''): readonly Condition[] {
  return code === undefined ? [] : [on(`${plus}${table}.code = ?`, code)]
}

/** The lines of a type, of a pool, or of both; undefined where neither is asked for. */
function linesOf(session: Session, { type, pool }: ListQuery): readonly number[] | undefined {
  if (type === undefined && pool === undefined) return undefined
  const found = session.all<{ line: number }>(
    'linesOf',
    type ?? null,
    type ?? null,
    pool ?? null,
    pool ?? null,
  )
  return found.map(({ line }) => line)
}

/** Times of creation grow with seq, so the first one late enough is found by bisection. */
function seqAt(session: Session, time: number): number {
  let low = 1
  let high = session.state.lastSeq + 1
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const at = session.number('createdFrom', middle)
    if (at !== undefined && at < time) low = middle + 1
    else high = middle
  }
  return low
}
