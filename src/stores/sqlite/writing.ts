// Owns rows on their way into the file: what has changed of each, and many in one statement.
// May never write a column that has not changed: indexes over it would be written as well.

import { type Kin, LEASE_AT, type Member } from './alike.ts'
import { CHANGES, changingOf, FIXED, fixedOf, tableOf, USUALS } from './columns.ts'
import type { Connection } from './connection.ts'
import type { Value } from './driver.ts'
import { saidOf } from './figures.ts'
import type { Row, Saved, Table } from './row.ts'

/** How much one statement takes: rows, and characters of texts in them. */
const MOST_ROWS = 1_000
const MOST_TEXT = 4_000_000

/** Fewer rows than these are written one by one. */
const FEW_ROWS = 4

/** Columns that rows of a table begin with, and never change. */
const FIRST: Readonly<Record<Table, readonly string[]>> = {
  live: ['seq', 'line', 'lane'],
  past: ['seq'],
}
const COLUMNS: Readonly<Record<Table | 'job', readonly string[]>> = {
  job: FIXED,
  live: [...FIRST.live, ...CHANGES.live],
  past: [...FIRST.past, ...CHANGES.past],
}
const WHOLE: Readonly<Record<Table | 'job', readonly (Value | undefined)[]>> = {
  job: USUALS.job,
  live: [undefined, undefined, null, ...USUALS.live],
  past: [undefined, ...USUALS.past],
}

/** The rows from one seq to another. */
const WITHIN = 'WHERE seq BETWEEN ?1 AND ?2'

/** What stands between the name of a job and its payload: no name that is plain ASCII has it. */
const BETWEEN = '\x7f'

/** A text for each job: its name and its payload. */
const ARRIVE = `INSERT INTO job (id, line, created_at, said, payload)
  SELECT substr(value, 1, instr(value, ?5) - 1), ?2, ?3, ?4,
    nullif(substr(value, instr(value, ?5) + 1), '') FROM json_each(?1)`

/**
 * The first and the last seq of jobs, if those are all that there are between them, leases go up
 * with them, and nobody has a result of its own; else null.
 */
function rangeOf(
  { row }: Kin,
  members: readonly Member[],
): readonly [first: number, last: number] | null {
  const { lease, seq } = members[0] as Member
  let [low, high] = [seq, seq]
  for (const member of members) {
    if (member.result !== undefined) return null
    if (row.lease !== undefined && member.lease - member.seq !== lease - seq) return null
    low = Math.min(low, member.seq)
    high = Math.max(high, member.seq)
  }
  return high - low === members.length - 1 ? [low, high] : null
}

/** Rows whose same columns of the same table are written. The first column is always the seq. */
interface Group {
  readonly verb: Verb
  readonly table: Table | 'job'
  readonly columns: readonly string[]
  readonly rows: Value[][]
  text: number
}

type Verb = 'insert' | 'update'

export class Writer {
  readonly #connection: Connection
  /** By a number that says verb, table and columns. */
  readonly #groups = new Map<number, Group>()
  readonly #gone: Readonly<Record<Table, number[]>> = { live: [], past: [] }

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Writes what has changed of these rows. Answers whether anything had. */
  write(rows: Iterable<Row>): boolean {
    let changed = false
    for (const row of rows) changed = this.#add(row) || changed
    this.#finish()
    return changed
  }

  #finish(): void {
    for (const table of ['live', 'past'] as const) {
      const gone = this.#gone[table]
      if (gone.length > 0) this.#connection.run(GONE[table], JSON.stringify(gone))
      gone.length = 0
    }
    for (const group of this.#groups.values()) this.#put(group)
    this.#groups.clear()
  }

  /** New ones that are alike. Their seqs follow each other, and nobody's is higher. */
  arrive({ row, values }: Kin, members: readonly Member[]): void {
    const [first, last] = [members[0] as Member, members.at(-1) as Member]
    // The first says its seq; SQLite counts on from there.
    this.#insert('job', fixedOf(row))
    this.#finish()
    const { line, createdAt } = row
    const said = saidOf(row)
    let texts: string[] = []
    let text = 0
    const put = () => {
      this.#connection.statement(ARRIVE).run(JSON.stringify(texts), line, createdAt, said, BETWEEN)
      texts = []
      text = 0
    }
    for (const member of members) {
      if (member === first) continue
      const each = member.id + BETWEEN + (member.payload ?? '')
      texts.push(each)
      text += each.length
      if (texts.length >= MOST_ROWS || text >= MOST_TEXT) put()
    }
    if (texts.length > 0) put()
    this.#copy('job', 'live', [line, null, ...values], first.seq, last.seq)
  }

  /** What became of one has become of all of these, which were alike, and are. */
  again(before: Kin, after: Kin, members: readonly Member[]): void {
    const range = rangeOf(after, members)
    if (before.table === after.table) this.#updateAll(before, after, members, range)
    else if (range === null) {
      for (const { seq, result } of members) {
        const values = [seq, ...after.values]
        values[values.length - 1] = result ?? null
        this.#insert(after.table, values)
        this.#gone[before.table].push(seq)
      }
      this.#finish()
    } else {
      this.#copy(before.table, after.table, after.values, ...range)
      this.#connection.statement(`DELETE FROM ${before.table} ${WITHIN}`).run(...range)
    }
  }

  #updateAll(
    before: Kin,
    { table, values }: Kin,
    members: readonly Member[],
    range: readonly [first: number, last: number] | null,
  ): void {
    const places = values.flatMap((value, at) => (value === before.values[at] ? [] : at))
    if (range === null) {
      const mask = places.reduce((sum, at) => sum | (1 << at), 0)
      for (const member of members) {
        const said = places.map((at) => (at === LEASE_AT ? member.lease : (values[at] as Value)))
        this.#enter('update', table, mask, [member.seq, ...said])
      }
      this.#finish()
      return
    }
    const [{ lease, seq }] = members as [Member]
    const bound = places.map((at) => (at === LEASE_AT ? lease - seq : (values[at] as Value)))
    const changes = places.map((at, place) => {
      const column = CHANGES[table][at] as string
      return `${column} = ?${place + 3}${at === LEASE_AT ? ' + seq' : ''}`
    })
    const sql = `UPDATE ${table} SET ${changes.join(', ')} ${WITHIN}`
    this.#connection.statement(sql).run(...range, ...bound)
  }

  /** Rows for those that are in another table, all with the same values behind their seqs. */
  #copy(from: Table | 'job', to: Table, all: readonly Value[], first: number, last: number): void {
    const usual = WHOLE[to].slice(1)
    const places = all.flatMap((value, at) => (value === null || value === usual[at] ? [] : at))
    const columns = places.map((at) => COLUMNS[to][at + 1])
    const values = places.map((_, place) => `?${place + 3}`)
    const sql = `INSERT INTO ${to} (${['seq', ...columns].join(', ')})
      SELECT ${['seq', ...values].join(', ')} FROM ${from} ${WITHIN}`
    const bound = places.map((at) => all[at] as Value)
    this.#connection.statement(sql).run(first, last, ...bound)
  }

  #add(row: Row): boolean {
    const { saved, seq, line } = row
    const table = tableOf(row)
    const values = changingOf(row, table)
    row.saved = { table, values }
    if (saved?.table === table) return this.#update(row, saved, values)
    if (saved === null) this.#insert('job', fixedOf(row))
    else this.#gone[saved.table].push(seq)
    const first: Value[] = table === 'live' ? [seq, line, row.lane ?? null] : [seq]
    this.#insert(table, [...first, ...values])
    return true
  }

  #update(row: Row, { table, values: before }: Saved, after: readonly Value[]): boolean {
    const said: Value[] = [row.seq]
    let mask = 0
    for (let at = 0; at < after.length; at += 1) {
      if (after[at] === before[at]) continue
      mask |= 1 << at
      said.push(after[at] as Value)
    }
    if (mask !== 0) this.#enter('update', table, mask, said)
    return mask !== 0
  }

  #insert(table: Table | 'job', all: readonly Value[]): void {
    const usual = WHOLE[table]
    const said: Value[] = []
    let mask = 0
    for (let at = 0; at < all.length; at += 1) {
      const value = all[at] as Value
      if (value === null || value === usual[at]) continue
      mask |= 1 << at
      said.push(value)
    }
    this.#enter('insert', table, mask, said)
  }

  /** `mask`: a bit for each of the columns that are written. */
  #enter(verb: Verb, table: Table | 'job', mask: number, said: Value[]): void {
    const name = mask * KINDS.length + KINDS.indexOf(verb === 'insert' ? table : CHANGED[table])
    let group = this.#groups.get(name)
    if (group === undefined) {
      const all = verb === 'insert' ? COLUMNS[table] : CHANGES[table as Table]
      const chosen = all.filter((_, at) => (mask & (1 << at)) !== 0)
      const columns = verb === 'insert' ? chosen : ['seq', ...chosen]
      group = { verb, table, columns, rows: [], text: 0 }
      this.#groups.set(name, group)
    }
    group.rows.push(said)
    for (const value of said) if (typeof value === 'string') group.text += value.length
    if (group.rows.length < MOST_ROWS && group.text < MOST_TEXT) return
    this.#put(group)
    this.#groups.delete(name)
  }

  #put({ verb, table, columns, rows }: Group): void {
    if (rows.length < FEW_ROWS) {
      const statement = this.#connection.statement(ONE[verb](table, columns))
      for (const [seq, ...values] of rows as [Value, ...Value[]][]) {
        if (verb === 'insert') statement.run(seq, ...values)
        else statement.run(...values, seq)
      }
      return
    }
    const kinds = kindsOf(rows)
    const isOwn = (_: Value, at: number) => kinds[at] === 'own'
    const areAlike = kinds.every((kind, at) => at === 0 || kind !== 'own')
    const list = areAlike ? rows.map(([seq]) => seq) : rows.map((row) => row.filter(isOwn))
    const sql = MANY[verb](table, columns, kinds, areAlike)
    this.#connection.statement(sql).run(JSON.stringify(list), ...boundOf(rows, kinds))
  }
}

/** Of a column of several rows: each says its own, all say the same, or are as far from the seq. */
type Kind = 'own' | 'same' | 'offset'

/** Most of what is written together is the same, and leases are granted in the order of seqs. */
function kindsOf(rows: readonly (readonly Value[])[]): readonly Kind[] {
  const first = rows[0] as readonly Value[]
  return first.map((_, at) => (at === 0 ? 'own' : kindOf(rows, at)))
}

function kindOf(rows: readonly (readonly Value[])[], at: number): Kind {
  const first = rows[0] as readonly Value[]
  const value = first[at]
  const offset = offsetOf(first, at)
  let [isSame, isOffset] = [true, typeof value === 'number']
  for (const row of rows) {
    isSame &&= row[at] === value
    isOffset &&= offsetOf(row, at) === offset
    if (!isSame && !isOffset) return 'own'
  }
  return isSame ? 'same' : 'offset'
}

function offsetOf(row: readonly Value[], at: number): number {
  const value = row[at]
  return typeof value === 'number' ? value - (row[0] as number) : Number.NaN
}

/** What is bound once for all rows. */
function boundOf([first = []]: readonly Value[][], kinds: readonly Kind[]): readonly Value[] {
  return first.flatMap((value, at) => {
    if (kinds[at] === 'own') return []
    return [kinds[at] === 'same' ? value : offsetOf(first, at)]
  })
}

type One = (table: string, columns: readonly string[]) => string
type Many = (
  table: string,
  columns: readonly string[],
  kinds: readonly Kind[],
  areAlike: boolean,
) => string

const ONE: Readonly<Record<Verb, One>> = {
  insert: (table, columns) =>
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
  update: (table, [, ...columns]) =>
    `UPDATE ${table} SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE seq = ?`,
}

/**
 * One statement for any number of rows, which come as a text: a list of what differs for each, the
 * seq first; of seqs alone where nothing else does. What they share is bound. Binding all values
 * takes libsql longer than writing them, and an UPDATE with FROM 5.0 us a row where one with IN
 * takes 3.3: it keeps what it joins in a table of its own.
 */
const MANY: Readonly<Record<Verb, Many>> = {
  insert: (table, columns, kinds, areAlike) => {
    const seq = areAlike ? 'value' : 'value ->> 0'
    return `INSERT INTO ${table} (${columns.join(', ')})
      SELECT ${[seq, ...valuesOf(kinds, seq)].join(', ')} FROM json_each(?1)`
  },
  update: (table, columns, kinds, areAlike) => {
    const changes = valuesOf(kinds, 'seq').map((value, at) => `${columns[at + 1]} = ${value}`)
    const update = `UPDATE ${table} SET ${changes.join(', ')}`
    if (areAlike) return `${update} WHERE seq IN (SELECT value FROM json_each(?1))`
    return `${update} FROM json_each(?1) WHERE seq = value ->> 0`
  },
}

/** What is written to the columns after the seq. */
function valuesOf([, ...kinds]: readonly Kind[], seq: string): readonly string[] {
  let [bound, own] = [1, 0]
  return kinds.map((kind) => {
    if (kind === 'own') own += 1
    else bound += 1
    if (kind === 'own') return `value ->> ${own}`
    return kind === 'same' ? `?${bound}` : `?${bound} + ${seq === 'seq' ? seq : `(${seq})`}`
  })
}

/** What can be done to a table: for the names of groups. */
const KINDS = ['job', 'live', 'past', 'live changed', 'past changed']
const CHANGED = { job: 'never', live: 'live changed', past: 'past changed' }

const GONE = { live: 'removeLive', past: 'removePast' } as const
