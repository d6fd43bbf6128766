// Owns the proof that the SQLite store keeps the promises of the port.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { Store } from '../../src/store/store.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { conformance } from '../../src/testing/conformance.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0

/** A file of its own each time, gone again when the store is closed. */
async function open(clock: { now(): number }): Promise<Store> {
  files += 1
  return sqliteStore(join(folder, `${files}.db`), { now: () => clock.now() })
}

const seeds = Number(process.env.AX_SQLITE_SEEDS ?? 30)

conformance('SQLite', open, { describe, it, expect }, { seeds })
