// Owns a driver that tests can look into: what is asked of SQLite, and what it is made to refuse.
// May never answer in SQLite's place.

import type { Database, Statement, Value } from '../../src/stores/sqlite/driver.ts'

type Driver = typeof import('../../src/stores/sqlite/driver.ts')

export interface Hooks {
  /** Before anything that writes or begins or ends a transaction. Whatever it throws is thrown. */
  before: (sql: string, values: readonly Value[]) => void
  /** After it, with the number of rows that it changed. */
  after: (sql: string, changes: number) => void
  /** What SQLite has found: rows. */
  found: (rows: readonly unknown[]) => void
  /** A connection has been opened. */
  opened: (db: Database) => void
}

const NOTHING: Hooks = { before: () => {}, after: () => {}, found: () => {}, opened: () => {} }

export const hooks: Hooks = { ...NOTHING }

export function unhook(): void {
  Object.assign(hooks, NOTHING)
}

/** What SQLite throws when the disk fails, as the driver knows it. */
export function diskError(): Error {
  return Object.assign(new Error('disk I/O error'), { errcode: 10, rawCode: 10 })
}

/** For `vi.mock`, whose factory has to import this file itself. */
export function hooked(driver: Driver): Driver {
  return {
    ...driver,
    loadLibrary: async () => {
      const library = await driver.loadLibrary()
      const open = (file: string) => {
        const db = library.open(file)
        hooks.opened(db)
        return watched(db)
      }
      return { open }
    },
  }
}

function watched(db: Database): Database {
  return {
    prepare: (sql) => watchedStatement(sql, db.prepare(sql)),
    exec: (sql) => {
      hooks.before(sql, [])
      const answer = db.exec(sql)
      hooks.after(sql, 0)
      return answer
    },
    close: () => db.close(),
  }
}

function watchedStatement(sql: string, statement: Statement): Statement {
  return {
    all: (...values) => {
      const rows = statement.all(...values)
      hooks.found(rows)
      return rows
    },
    get: (...values) => {
      const row = statement.get(...values)
      hooks.found([row])
      return row
    },
    run: (...values) => {
      hooks.before(sql, values)
      const answer = statement.run(...values)
      hooks.after(sql, Number((answer as { readonly changes?: number }).changes ?? 0))
      return answer
    },
  }
}
