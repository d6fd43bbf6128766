// Owns the promise that a SQLite file does not grow by what nobody needs any more.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { decide } from '../../src/core/machine.ts'
import { type Database, loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { KEEP } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-leftovers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Looks into the file beside the store. */
async function beside<T>(file: string, look: (db: Database) => T): Promise<T> {
  const db = (await loadLibrary()).open(file)
  try {
    return look(db)
  } finally {
    db.close()
  }
}

describe('a SQLite file', () => {
  it('keeps no count of priorities that no job has any more', async () => {
    const file = join(folder, 'weights.db')
    const store = sqliteStore(file)
    const ids = Array.from({ length: 30 }, (_, at) => `job ${at}`)
    const jobs = ids.map((id, priority) => newJob(id, { priority }))
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    const weights = () => {
      return beside(file, (db) => db.prepare('SELECT count FROM weighed').all().length)
    }
    expect(await weights()).toBe(30)
    const moves = (await store.get(ids)).flatMap((job) => {
      return (job === null ? null : decide(job, { type: 'cancel' }, KEEP)) ?? []
    })
    await store.apply(moves, false)
    await store.overdue({ limit: 100, keepLogMs: KEEP.failedMs }, false)
    expect(await weights()).toBe(0)
    expect((await store.inspect()).damage).toEqual([])
    await store.close()
  })

  it('forgets processes of other machines, but not those that hold something', async () => {
    const file = join(folder, 'processes.db')
    const store = sqliteStore(file)
    await store.insert([{ jobs: [newJob('held')], unknownDeps: 'wait' }], false)
    const ask = { holder: 'far away', leaseMs: 60_000, max: 1, types: ['alpha'] }
    expect((await store.lease(ask, false)).answer.jobs.length).toBe(1)
    await beside(file, (db) => {
      db.prepare(`UPDATE process SET host = 'elsewhere' WHERE holder = 'far away'`).run()
      const add = db.prepare(`INSERT INTO process (holder, host, pid, began) VALUES (?, ?, 1, '')`)
      for (let at = 0; at < 20; at += 1) add.run(`gone ${at}`, 'elsewhere')
    })
    const beat = { name: 'w', types: ['alpha'], full: false, zombies: 0, settings: '{}' }
    await store.beat({ ...beat, holder: 'near', ttlMs: 1_000 })
    const holders = await beside(file, (db) => {
      return db.prepare('SELECT holder FROM process ORDER BY holder').all()
    })
    expect(holders).toEqual([{ holder: 'far away' }, { holder: 'near' }])
    await store.close()
  })
})
