// Owns the connection that plainjob and the bare rows have: the library that ax itself uses on this
// Node.js. May never give one of them settings that the other does not have.

import { load } from './packages.mjs'

/**
 * @typedef {{
 *   run: (...values: readonly unknown[]) => { lastInsertRowid: number | bigint },
 *   get: (...values: readonly unknown[]) => unknown,
 *   all: (...values: readonly unknown[]) => unknown[],
 * }} Statement
 *
 * @typedef {{
 *   exec: (sql: string) => unknown,
 *   prepare: (sql: string) => Statement,
 *   close: () => unknown,
 * }} Connection
 *
 * @typedef {'normal' | 'full'} Sync
 */

/** `node:sqlite` is there from Node 22.5 on, and ax prefers it. */
const builtIn = await load('node:sqlite').catch(() => undefined)

export const driver = builtIn === undefined ? 'libsql' : 'node:sqlite'

/**
 * @param {string} file
 * @returns {Promise<Connection>}
 */
export async function connect(file) {
  if (builtIn !== undefined) return new builtIn.DatabaseSync(file)
  const { default: Libsql } = await load('libsql')
  return new Libsql(file)
}

/**
 * What plainjob asks of a driver, which is a little more than both have.
 *
 * @param {Connection} connection
 * @param {string} filename
 */
export function forPlainjob(connection, filename) {
  const { exec, prepare, close } = connection
  return {
    driver: /** @type {const} */ ('better-sqlite3'),
    filename,
    pragma: (/** @type {string} */ text) => connection.exec(`PRAGMA ${text}`),
    transaction: (/** @type {(...values: unknown[]) => unknown} */ act) => {
      return Object.assign(transaction(connection, 'BEGIN', act), {
        immediate: transaction(connection, 'BEGIN IMMEDIATE', act),
      })
    },
    exec: exec.bind(connection),
    prepare: prepare.bind(connection),
    close: close.bind(connection),
  }
}

/**
 * @param {Connection} connection
 * @param {string} begin
 * @param {(...values: unknown[]) => unknown} act
 */
function transaction(connection, begin, act) {
  return (/** @type {unknown[]} */ ...values) => {
    connection.exec(begin)
    try {
      const result = act(...values)
      connection.exec('COMMIT')
      return result
    } catch (error) {
      connection.exec('ROLLBACK')
      throw error
    }
  }
}
