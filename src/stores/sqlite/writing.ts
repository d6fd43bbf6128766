// Owns rows on their way into the file: what has changed of each, and many in one statement.
// May never write a column that has not changed: indexes over it would be written as well.

import type { Connection } from './connection.ts'
import type { Value } from './driver.ts'
import {
  CHANGES,
  changingOf,
  FIXED,
  fixedOf,
  type Row,
  type Saved,
  type Table,
  tableOf,
  USUALS,
} from './row.ts'

/** How much one statement takes: rows, and characters of payloads and results in them. */
const MOST_ROWS = 1_000
const MOST_TEXT = 4_000_000

/** Columns that rows of a table begin with, and never change. */
const FIRST: Readonly<Record<Table, readonly string[]>> = {
  live: ['seq', 'line', 'lane'],
  past: ['seq', 'line'],
}
const COLUMNS: Readonly<Record<Table | 'job', readonly string[]>> = {
  job: FIXED,
  live: [...FIRST.live, ...CHANGES.live],
  past: [...FIRST.past, ...CHANGES.past],
}
const WHOLE: Readonly<Record<Table | 'job', readonly (Value | undefined)[]>> = {
  job: USUALS.job,
  live: [undefined, undefined, null, ...USUALS.live],
  past: [undefined, undefined, ...USUALS.past],
}

type Verb = 'insert' | 'update'

/** Rows that go through the same statement: the same columns of the same table. */
interface Group {
  readonly sql: string
  readonly rows: Value[][]
  text: number
}

/**
 * The statement for some columns of a table, as one for any number of rows: they come as a text,
 * [seq, ...columns] each. Binding forty values takes libsql longer than writing them.
 */
function statementOf(verb: Verb, table: Table | 'job', columns: readonly string[]): string {
  if (verb === 'insert') {
    const values = columns.map((_, at) => `value ->> ${at}`)
    return `INSERT INTO ${table} (${columns.join(', ')}) SELECT ${values.join(', ')}
      FROM json_each(?)`
  }
  const changes = columns.map((column, at) => `${column} = value ->> ${at + 1}`)
  return `UPDATE ${table} SET ${changes.join(', ')} FROM json_each(?) WHERE seq = value ->> 0`
}

/** Statements by what they write. `at` of a column is a digit of the name: there are few names. */
const known = new Map<string, string>()

export class Writer {
  readonly #connection: Connection
  #groups = new Map<string, Group>()
  #gone: Record<Table, number[]> = { live: [], past: [] }

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Writes what has changed of these rows. Answers whether anything had. */
  write(rows: Iterable<Row>): boolean {
    let changed = false
    for (const row of rows) changed = this.#add(row) || changed
    for (const table of ['live', 'past'] as const) {
      const gone = this.#gone[table]
      if (gone.length > 0) this.#connection.run(GONE[table], JSON.stringify(gone))
      this.#gone[table] = []
    }
    for (const group of this.#groups.values()) this.#put(group)
    this.#groups = new Map()
    return changed
  }

  #add(row: Row): boolean {
    const { saved, seq, line } = row
    const table = tableOf(row)
    const values = changingOf(row, table)
    row.saved = { table, values }
    if (saved?.table === table) return this.#update(row, saved, values)
    if (saved === null) this.#insert('job', fixedOf(row), row)
    else this.#gone[saved.table].push(seq)
    const first: Value[] = table === 'live' ? [seq, line, row.lane ?? null] : [seq, line]
    this.#insert(table, [...first, ...values], row)
    return true
  }

  #update(row: Row, { table, values: before }: Saved, after: readonly Value[]): boolean {
    const changed: Value[] = [row.seq]
    let name = `update ${table}`
    for (let at = 0; at < after.length; at += 1) {
      if (after[at] === before[at]) continue
      name += LETTERS[at]
      changed.push(after[at] as Value)
    }
    if (changed.length === 1) return false
    this.#group('update', table, name, CHANGES[table]).rows.push(changed)
    this.#weigh(name, row)
    return true
  }

  #insert(table: Table | 'job', all: readonly Value[], row: Row): void {
    const usual = WHOLE[table]
    const said: Value[] = []
    let name = `insert ${table}`
    for (let at = 0; at < all.length; at += 1) {
      const value = all[at] as Value
      if (value === null || value === usual[at]) continue
      name += LETTERS[at]
      said.push(value)
    }
    this.#group('insert', table, name, COLUMNS[table]).rows.push(said)
    this.#weigh(name, row)
  }

  /** `name`: the verb, the table, and a letter for each of the columns. */
  #group(verb: Verb, table: Table | 'job', name: string, columns: readonly string[]): Group {
    const open = this.#groups.get(name)
    if (open !== undefined) return open
    let sql = known.get(name)
    if (sql === undefined) {
      const letters = name.slice(verb.length + 1 + table.length)
      const chosen = [...letters].map((letter) => columns[LETTERS.indexOf(letter)] as string)
      sql = statementOf(verb, table, chosen)
      known.set(name, sql)
    }
    const group: Group = { sql, rows: [], text: 0 }
    this.#groups.set(name, group)
    return group
  }

  #weigh(name: string, { payload, result }: Row): void {
    const group = this.#groups.get(name) as Group
    group.text += (payload?.length ?? 0) + (result?.length ?? 0)
    if (group.rows.length < MOST_ROWS && group.text < MOST_TEXT) return
    this.#put(group)
    this.#groups.delete(name)
  }

  #put({ sql, rows }: Group): void {
    this.#connection.statement(sql).run(JSON.stringify(rows))
  }
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'

const GONE = { live: 'removeLive', past: 'removePast' } as const
