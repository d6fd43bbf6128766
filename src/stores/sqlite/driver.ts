// Owns the few calls that are asked of SQLite, and which library answers them.
// May never be imported for its side effects: a library is loaded when a file is opened.

import { AxError } from '../../core/errors.ts'

export type Value = string | number | null

/** An instant as far away as can be read again: node:sqlite refuses what JavaScript would round. */
export function readable(instant: number): number {
  return Math.min(instant, Number.MAX_SAFE_INTEGER)
}

/** A row as columns by name. */
export type Columns = Readonly<Record<string, unknown>>

export interface Statement {
  run(...values: readonly Value[]): unknown
  /** The first row; undefined where there is none. */
  get(...values: readonly Value[]): unknown
  all(...values: readonly Value[]): readonly unknown[]
}

/** One connection. Everything is synchronous: SQLite is a library, not a server. */
export interface Database {
  prepare(sql: string): Statement
  exec(sql: string): unknown
  close(): unknown
}

interface Library {
  readonly open: (file: string) => Database
}

/** Primary result codes of SQLite: https://sqlite.org/rescode.html */
export const CODES = {
  perm: 3,
  busy: 5,
  locked: 6,
  readonly: 8,
  io: 10,
  corrupt: 11,
  full: 13,
  cantOpen: 14,
  /** Too many came to the log of the file at once. */
  protocol: 15,
  notADatabase: 26,
} as const

/** The primary result code in an error of any of the libraries; 0 if it is not SQLite's. */
export function codeOf(error: unknown): number {
  if (typeof error !== 'object' || error === null) return 0
  const { errcode, rawCode, message } = error as Record<string, unknown>
  if (typeof errcode === 'number') return errcode & 255
  if (typeof rawCode === 'number') return rawCode & 255
  // libsql says why a file could not be opened in the text alone.
  const told = /ConnectionFailed\(.*: (\d+)"\)$/.exec(String(message))
  return told === null ? 0 : Number(told[1]) & 255
}

/**
 * `node:sqlite` where Node has it (22.5 and later), else `libsql`. Which one is found is settled
 * once per process.
 */
export function loadLibrary(): Promise<Library> {
  found ??= find().catch((error) => {
    found = undefined
    throw error
  })
  return found
}

let found: Promise<Library> | undefined

async function find(): Promise<Library> {
  return (await nodeLibrary()) ?? (await libsqlLibrary()) ?? refuse()
}

async function nodeLibrary(): Promise<Library | null> {
  const name = 'node:sqlite'
  const found = await import(name).catch(() => null)
  if (found === null) return null
  const { DatabaseSync } = found as { readonly DatabaseSync: new (file: string) => Database }
  return { open: (file) => new DatabaseSync(file) }
}

async function libsqlLibrary(): Promise<Library | null> {
  const name = 'libsql'
  const found = await import(name).catch(() => null)
  if (found === null) return null
  const { default: Connection } = found as { readonly default: new (file: string) => Libsql }
  return { open: (file) => straight(new Connection(file)) }
}

interface Libsql extends Omit<Database, 'prepare'> {
  prepare(sql: string): Readonly<Record<keyof Statement, (values: readonly Value[]) => unknown>>
}

/** libsql flattens values that come one by one, which takes it longer than to bind them. */
function straight(db: Libsql): Database {
  return {
    prepare: (sql) => {
      const statement = db.prepare(sql)
      return {
        run: (...values) => statement.run(values),
        get: (...values) => statement.get(values),
        all: (...values) => statement.all(values) as readonly unknown[],
      }
    },
    exec: (sql) => db.exec(sql),
    close: () => db.close(),
  }
}

function refuse(): never {
  throw new AxError(
    'STORE_UNAVAILABLE',
    'sqliteStore needs Node 22.5 or later, which has SQLite, or the package libsql beside it: ' +
      'run `npm install libsql`, or use a later Node.',
    { retryable: false },
  )
}
