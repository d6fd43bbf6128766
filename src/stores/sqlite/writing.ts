// Owns rows on their way into the file: what has changed of each, and many in one statement.
// May never write a column that has not changed: indexes over it would be written as well.

import { CHANGES, changingOf, FIXED, fixedOf, tableOf, USUALS } from './columns.ts'
import type { Connection } from './connection.ts'
import type { Value } from './driver.ts'
import type { Row, Saved, Table } from './row.ts'

/** How much one statement takes: rows, and characters of payloads and results in them. */
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

/** Rows whose same columns of the same table are written. The first column is always the seq. */
interface Group {
  readonly verb: 'insert' | 'update'
  readonly table: Table | 'job'
  readonly columns: readonly string[]
  rows: Value[][]
  text: number
}

export class Writer {
  readonly #connection: Connection
  readonly #groups = new Map<string, Group>()
  readonly #gone: Readonly<Record<Table, number[]>> = { live: [], past: [] }

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
      gone.length = 0
    }
    for (const group of this.#groups.values()) this.#put(group)
    this.#groups.clear()
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
    const first: Value[] = table === 'live' ? [seq, line, row.lane ?? null] : [seq]
    this.#insert(table, [...first, ...values], row)
    return true
  }

  #update(row: Row, { table, values: before }: Saved, after: readonly Value[]): boolean {
    const said: Value[] = [row.seq]
    let name = `update ${table} `
    for (let at = 0; at < after.length; at += 1) {
      if (after[at] === before[at]) continue
      name += LETTERS[at]
      said.push(after[at] as Value)
    }
    if (said.length === 1) return false
    this.#enter('update', table, name, said, row)
    return true
  }

  #insert(table: Table | 'job', all: readonly Value[], row: Row): void {
    const usual = WHOLE[table]
    const said: Value[] = []
    let name = `insert ${table} `
    for (let at = 0; at < all.length; at += 1) {
      const value = all[at] as Value
      if (value === null || value === usual[at]) continue
      name += LETTERS[at]
      said.push(value)
    }
    this.#enter('insert', table, name, said, row)
  }

  /** `name`: the verb, the table, and a letter for each of the columns. */
  #enter(
    verb: Group['verb'],
    table: Table | 'job',
    name: string,
    said: Value[],
    { payload, result }: Row,
  ): void {
    let group = this.#groups.get(name)
    if (group === undefined) {
      const all = verb === 'insert' ? COLUMNS[table] : CHANGES[table as Table]
      const letters = [...name.slice(name.lastIndexOf(' ') + 1)]
      const chosen = letters.map((letter) => all[LETTERS.indexOf(letter)] as string)
      const columns = verb === 'insert' ? chosen : ['seq', ...chosen]
      group = { verb, table, columns, rows: [], text: 0 }
      this.#groups.set(name, group)
    }
    group.rows.push(said)
    group.text += (payload?.length ?? 0) + (result?.length ?? 0)
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
    const shared = sharedBy(rows)
    const sql = MANY[verb](table, columns, shared)
    const first = rows[0] as Value[]
    const constants = first.filter((_, at) => shared[at])
    const varying = constants.length === 0 ? rows : rows.map((row) => row.filter(isVarying))
    this.#connection.statement(sql).run(JSON.stringify(varying), ...constants)

    function isVarying(_: Value, at: number): boolean {
      return !shared[at]
    }
  }
}

/** Per column, whether all rows say the same: most of what is written together does. */
function sharedBy(rows: readonly (readonly Value[])[]): readonly boolean[] {
  const first = rows[0] as readonly Value[]
  return first.map((value, at) => rows.every((row) => row[at] === value))
}

type Verb = Group['verb']
type One = (table: string, columns: readonly string[]) => string
type Many = (table: string, columns: readonly string[], shared: readonly boolean[]) => string

const ONE: Readonly<Record<Verb, One>> = {
  insert: (table, columns) =>
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
  update: (table, [, ...columns]) =>
    `UPDATE ${table} SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE seq = ?`,
}

/**
 * One statement for any number of rows, which come as a text: a list of what differs for each, the
 * seq first. What they share is bound. Binding all values takes libsql longer than writing them.
 */
const MANY: Readonly<Record<Verb, Many>> = {
  insert: (table, columns, shared) =>
    `INSERT INTO ${table} (${columns.join(', ')}) SELECT ${valuesOf(shared).join(', ')}
      FROM json_each(?1)`,
  update: (table, columns, shared) => {
    const changes = valuesOf(shared).map((value, at) => `${columns[at]} = ${value}`)
    return `UPDATE ${table} SET ${changes.slice(1).join(', ')} FROM json_each(?1)
      WHERE seq = value ->> 0`
  },
}

function valuesOf(shared: readonly boolean[]): readonly string[] {
  let [bound, varying] = [1, -1]
  return shared.map((isShared) => {
    if (isShared) bound += 1
    else varying += 1
    return isShared ? `?${bound}` : `value ->> ${varying}`
  })
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'

const GONE = { live: 'removeLive', past: 'removePast' } as const
