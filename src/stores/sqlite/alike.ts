// Owns what jobs have in common that are alike in all but who they are: the rules are applied to
// the first of them, and what became of it is repeated for the others.
// May never hold a rule, nor a job of which a rule asks who it is, or who else there is.

import type { Move, NewJob, StoredJob } from '../../core/job.ts'
import { AT, CHANGES, changingOf, tableOf } from './columns.ts'
import type { Value } from './driver.ts'
import { optional, type Row, type Table, viewOf } from './row.ts'

/** What they have in common. Nobody changes it: what becomes of them gives them another. */
export interface Kin {
  /** As the first of them is. */
  readonly row: Row
  readonly view: StoredJob
  readonly table: Table
  /** What the file says of the columns that can change. */
  readonly values: readonly Value[]
}

/** One of them. Whoever asks more of it takes it in hand as a row. */
export interface Member {
  readonly seq: number
  readonly id: string
  readonly payload: string | undefined
  kin: Kin
  /** The number of its lease; 0 for none. */
  lease: number
  result: string | undefined
  /** Once it has been taken in hand: then only that counts. */
  row: Row | undefined
}

/** Fewer than these are taken in hand. */
export const LEAST_ALIKE = 3

export const LEASE_AT = CHANGES.live.indexOf('lease')

/** As it is now, and as it is written from now on. */
export function kinOf(row: Row): Kin {
  const table = tableOf(row)
  return { row, view: viewOf(row), table, values: changingOf(row, table) }
}

/** As it was read. */
export function kinAsRead(row: Row): Kin {
  const { table, values } = row.saved as NonNullable<Row['saved']>
  return { row, view: viewOf(row), table, values }
}

export function memberFor(
  seq: number,
  id: string,
  payload: string | undefined,
  kin: Kin,
  lease = 0,
): Member {
  return { seq, id, payload, kin, lease, result: undefined, row: undefined }
}

export function memberOf({ seq, id, payload, lease, result }: Row, kin: Kin): Member {
  return { ...memberFor(seq, id, payload, kin, lease?.number), result }
}

/** Columns by which jobs differ that are alike. */
const NAMES = new Set([AT.seq, AT.id, AT.payload, AT.lease])

/** Whether two jobs, as they were read, are alike. */
export function differInName(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.every((value, at) => value === b[at] || NAMES.has(at))
}

/** One that was read with others. */
export function memberIn(columns: readonly unknown[], kin: Kin): Member {
  const [seq, id] = [columns[AT.seq] as number, columns[AT.id] as string]
  const lease = (columns[AT.lease] as number | null) ?? 0
  return memberFor(seq, id, optional(columns[AT.payload]), kin, lease)
}

/** No rule asks who it is: not for a key, a lane, a dependency, a slot in particular, a breaker. */
export function isBare(row: Row): boolean {
  return (
    row.key === undefined &&
    row.lane === undefined &&
    row.flow === undefined &&
    row.deps.length === 0 &&
    row.evictor === undefined &&
    row.victim === undefined &&
    row.note === undefined &&
    row.pass < 0 &&
    !(row.displaced || row.stuck)
  )
}

/** As many characters for SQLite as for JavaScript, and in the same order. */
export const ASCII = /^[ -~]*$/

export function isBareJob({ id, key, exclusive, flow, deps, payload }: NewJob): boolean {
  const isFree = key === undefined && exclusive === undefined && flow === undefined
  return isFree && deps.length === 0 && payload !== '' && ASCII.test(id)
}

/** Whether two new jobs that are bare differ in who they are only. */
export function areAlike(a: NewJob, b: NewJob): boolean {
  return (
    a.type === b.type &&
    a.terms === b.terms &&
    a.pool === b.pool &&
    a.priority === b.priority &&
    a.delayMs === b.delayMs &&
    a.enqueueTimeoutMs === b.enqueueTimeoutMs &&
    a.depMode === b.depMode &&
    a.keyForMs === b.keyForMs
  )
}

/** Whether two moves do the same: each to its own job, with a result of its own. */
export function doAlike(a: Move, b: Move): boolean {
  return (
    a.step === b.step &&
    a.to === b.to &&
    a.outcome === b.outcome &&
    a.charge === b.charge &&
    a.verdict === b.verdict &&
    a.keepMs === b.keepMs &&
    a.code === b.code &&
    a.unknown === b.unknown &&
    a.error === undefined &&
    b.error === undefined &&
    typeof a.result === typeof b.result
  )
}

/** As the port shows it. */
export function viewOfMember(member: Member): StoredJob {
  const { seq, id, payload, kin, row, result } = member
  if (row !== undefined) return viewOf(row)
  return { ...kin.view, id, seq, payload, lease: leaseOf(member), result }
}

/** One of them as a row of its own. */
export function rowOfMember(member: Member): Row {
  const { seq, id, payload, kin, lease, result } = member
  const values = [...kin.values]
  if (lease > 0) values[LEASE_AT] = lease
  if (result !== undefined) values[values.length - 1] = result
  const saved = { table: kin.table, values }
  return { ...kin.row, seq, id, payload, lease: leaseOf(member), result, saved }
}

function leaseOf({ kin, lease }: Member): Row['lease'] {
  const first = kin.row.lease
  return first === undefined ? undefined : { ...first, number: lease }
}
