// Owns the jobs in hand: those that a transaction has read or made, and those kept for the next.
// May never be trusted once somebody else has written; see connection.ts.

import {
  ASCII,
  differInName,
  isBare,
  type Kin,
  kinAsRead,
  LEAST_ALIKE,
  type Member,
  memberIn,
  memberOf,
  rowOfMember,
} from './alike.ts'
import { AT, columnsOf, readRow } from './columns.ts'
import type { Connection, Kept } from './connection.ts'
import type { Row } from './row.ts'

/**
 * Jobs kept from one transaction to the next: beyond it, only those that run. Some thousands more
 * cost the collector of garbage more than it costs to read them again.
 */
const MOST_KEPT = 1_000
const MOST_TEXT = 1_000

const MANY_IDS = 10

function isSmall({ payload }: Row | Member, { error }: Row): boolean {
  return (payload?.length ?? 0) <= MOST_TEXT && error === undefined
}

export class Hand {
  readonly #connection: Connection
  readonly #rows: Kept['rows']
  readonly #ids: Kept['ids']
  /** Rows that this transaction has read, made or touched, and ids that it did not find. */
  readonly #seen = new Set<Row>()
  readonly #absent: string[] = []
  /** From which id to which there was none when the transaction began: what is new is in hand. */
  #none: { readonly first: string; readonly last: string } | undefined
  /** Members of whom this transaction has made something. */
  readonly #members: Member[] = []

  constructor(connection: Connection, kept: Kept | undefined) {
    this.#connection = connection
    this.#rows = kept?.rows ?? new Map()
    this.#ids = kept?.ids ?? new Map()
  }

  byId(id: string): Row | undefined {
    const known = this.#ids.get(id)
    if (known !== undefined) return known === null ? undefined : this.take(known)
    if (this.#isBetween(id)) return undefined
    const found = this.#connection.first('byId', id)
    if (found !== undefined) return this.adopt(columnsOf(found))
    this.lack(id)
    return undefined
  }

  bySeq(seq: number): Row | undefined {
    const known = this.#rows.get(seq)
    if (known !== undefined) return this.take(known)
    const found = this.#connection.first('bySeq', seq)
    return found === undefined ? undefined : this.adopt(columnsOf(found))
  }

  /** Reads several jobs at once, where one by one would be as many questions. */
  prepare(ids: readonly string[]): void {
    const unknown = ids.filter((id) => !this.#ids.has(id) && !this.#isBetween(id))
    if (unknown.length < 2) return
    if (this.#findNone(unknown)) return
    for (const id of unknown) this.lack(id)
    this.#adoptAll(this.#connection.all('byIds', JSON.stringify(unknown)))
  }

  /**
   * Whether no job has an id from the first of these to the last. Ids that ax makes up grow with
   * time: one question for a thousand new ones. Beyond ASCII, SQLite has an order of its own.
   */
  #findNone(ids: readonly string[]): boolean {
    if (ids.length < MANY_IDS || this.#none !== undefined) return false
    let [first, last] = [ids[0] as string, ids[0] as string]
    for (const id of ids) {
      if (!ASCII.test(id)) return false
      if (id < first) first = id
      if (id > last) last = id
    }
    if (this.#connection.first('idBetween', first, last) !== undefined) return false
    this.#none = { first, last }
    return true
  }

  /** Whether an id that is not in hand lies where the file had none. */
  #isBetween(id: string): boolean {
    return this.#none !== undefined && id >= this.#none.first && id <= this.#none.last
  }

  prepareSeqs(seqs: readonly number[]): void {
    const unknown = seqs.filter((seq) => !this.#rows.has(seq))
    if (unknown.length < 2) return
    this.#adoptAll(this.#connection.all('bySeqs', JSON.stringify(unknown)))
  }

  /** Whether a job is in hand: then reading it costs nothing. */
  has(seq: number): boolean {
    return this.#rows.has(seq)
  }

  /** One that is in hand, as it is there. */
  known(seq: number): Row | Member | undefined {
    return this.#rows.get(seq)
  }

  /** One of many that are alike, if that is how it is in hand. */
  member(id: string): Member | undefined {
    const known = this.#ids.get(id)
    return known != null && 'kin' in known ? known : undefined
  }

  /** Whether there is no job by that id. */
  lacks(id: string): boolean {
    const known = this.#ids.get(id)
    return known === undefined ? this.byId(id) === undefined : known === null
  }

  adopt(columns: readonly unknown[]): Row {
    const known = this.#rows.get(columns[0] as number)
    if (known !== undefined) return this.take(known)
    const row = readRow(columns, this.#connection)
    this.hold(row)
    return row
  }

  /** Many of them at once: those that follow each other and are alike are members. */
  #adoptAll(found: readonly unknown[]): void {
    const all = found.map(columnsOf)
    for (let at = 0; at < all.length; ) {
      const first = all[at] as readonly unknown[]
      let end = at + 1
      while (end < all.length && differInName(first, all[end] as readonly unknown[])) end += 1
      const isMany = end - at >= LEAST_ALIKE && first[AT.result] === null
      const row = isMany ? readRow(first, this.#connection) : undefined
      const kin = row !== undefined && isBare(row) ? kinAsRead(row) : undefined
      for (; at < end; at += 1) {
        const columns = all[at] as readonly unknown[]
        if (kin === undefined || this.#rows.has(columns[AT.seq] as number)) this.adopt(columns)
        else this.enrol(memberIn(columns, kin))
      }
    }
  }

  /** As a row: one of many is no longer one of them. */
  take(known: Row | Member): Row {
    if (!('kin' in known)) return known
    if (known.row !== undefined) return known.row
    const row = rowOfMember(known)
    known.row = row
    this.hold(row)
    return row
  }

  hold(row: Row): void {
    this.#seen.add(row)
    this.#rows.set(row.seq, row)
    this.#ids.set(row.id, row)
  }

  see(row: Row): void {
    this.#seen.add(row)
  }

  lack(id: string): void {
    this.#ids.set(id, null)
    this.#absent.push(id)
  }

  remove({ seq, id }: Row): void {
    this.#rows.delete(seq)
    this.lack(id)
  }

  /** A row becomes one of many: nobody may change it any more. */
  join(row: Row, kin: Kin): Member {
    this.#seen.delete(row)
    return this.enrol(memberOf(row, kin))
  }

  enrol(member: Member): Member {
    this.#rows.set(member.seq, member)
    this.#ids.set(member.id, member)
    this.#members.push(member)
    return member
  }

  /** Something was made of them. */
  moved(members: readonly Member[]): void {
    for (const member of members) this.#members.push(member)
  }

  /** After the commit: jobs that run, and some that are ready, are what the next ones are about. */
  keep(): Pick<Kept, 'rows' | 'ids'> {
    const [rows, ids] = [this.#rows, this.#ids]
    for (const id of this.#absent) if (ids.get(id) === null) ids.delete(id)
    for (const row of this.#seen) this.#judge(row, row)
    for (const member of this.#members) this.#judge(member, member.kin.row)
    return { rows, ids }
  }

  #judge(known: Row | Member, row: Row): void {
    const rows = this.#rows
    const { status } = row
    const isNext = status === 'ready' && rows.size <= MOST_KEPT && isSmall(known, row)
    if (status === 'running' || isNext || rows.get(known.seq) !== known) return
    rows.delete(known.seq)
    this.#ids.delete(known.id)
  }
}
