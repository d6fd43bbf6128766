// Owns which build of ax is measured: the one in this repository, or the one that AX_DIST names.
// May never import the sources: what is measured is what users get.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const given = process.env.AX_DIST

/**
 * A file of the build that is measured.
 *
 * @param {string} file
 */
export const builtFile = (file) =>
  given === undefined
    ? new URL(`../../dist/${file}`, import.meta.url)
    : pathToFileURL(resolve(given, file))

/** @type {typeof import('../../src/index.ts')} */
const ax = await import(builtFile('index.js').href)

export const { AxScheduler } = ax

/**
 * Time that passes only when it is told to. Loaded when it is asked for: scripts that measure do
 * not pay for it.
 *
 * @param {number} seed
 */
export async function virtualTime(seed) {
  /** @type {typeof import('../../src/testing/virtual.ts')} */
  const { virtualRuntime } = await import(builtFile('testing/virtual.js').href)
  return virtualRuntime(seed)
}

/** The store on SQLite, for the one script that is about it. */
export async function sqliteStoreOf() {
  /** @type {typeof import('../../src/stores/sqlite/index.ts')} */
  const { sqliteStore } = await import(builtFile('stores/sqlite/index.js').href)
  return sqliteStore
}
