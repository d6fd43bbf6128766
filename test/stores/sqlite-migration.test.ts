// Owns the promises about files that a later version takes over: forward, whole, and once.

import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import { type Columns, type Database, loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { STEPS } from '../../src/stores/sqlite/schema.ts'
import { root } from '../sources.ts'
import { processes } from './processes.ts'
import { laterStore } from './stepping.ts'

const { data, start } = processes({ later: resolve(root, 'test/stores/stepping.ts') })

let files = 0

function fresh(): string {
  files += 1
  return join(data, `${files}.db`)
}

/** What a later version might add: a column that is filled, a table, another index. */
const STEP = `
  ALTER TABLE job ADD COLUMN colour TEXT NOT NULL DEFAULT 'none';
  UPDATE job SET colour = substr(id, 1, 1);
  CREATE INDEX job_colour ON job (colour);
  CREATE TABLE migrated (time INTEGER PRIMARY KEY);
  INSERT INTO migrated DEFAULT VALUES;
`

async function raw<T>(file: string, act: (db: Database) => T | Promise<T>): Promise<T> {
  const db = (await loadLibrary()).open(file)
  try {
    return await act(db)
  } finally {
    db.close()
  }
}

/** Everything that a file says, table by table; `but` columns that are left out. */
function everythingIn(db: Database, but: readonly string[] = []): Record<string, unknown[]> {
  const tables = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()
  const said: Record<string, unknown[]> = {}
  for (const { name } of tables as readonly { readonly name: string }[]) {
    const rows = db.prepare(`SELECT * FROM ${name}`).all() as readonly Columns[]
    said[name] = rows.map((row) => {
      return Object.fromEntries(Object.entries(row).filter(([column]) => !but.includes(column)))
    })
  }
  return said
}

const versionIn = (db: Database) => db.prepare('PRAGMA user_version').all()

/** A file of this version with something of everything in it. */
async function fill(file: string): Promise<void> {
  const store = sqliteStore(file)
  const scheduler = new AxScheduler({
    store,
    concurrency: 2,
    retryBudget: { count: 5, per: '1m' },
    ageing: { every: '1m', ceiling: 80 },
    pools: { p: { concurrency: 3, rate: { count: 100, per: '1s' } } },
    types: { bad: { retries: 0 } },
  })
  scheduler.define('good', ({ payload }) => ({ got: payload }))
  scheduler.define('bad', () => {
    throw Object.assign(new Error('broken'), { code: 'E_BROKEN' })
  })
  await scheduler.addJobs([
    { id: 'success', type: 'good', payload: { n: 1 }, key: 'kept', dedupe: { for: '1d' } },
    { id: 'failed', type: 'bad', flow: 'f' },
    { id: 'orphan', type: 'good', deps: ['failed'] },
    { id: 'running', type: 'long', exclusive: 'lane' },
    { id: 'behind', type: 'long', exclusive: 'lane' },
    { id: 'ghosted', type: 'good', deps: ['nobody', 'success'] },
    { id: 'pending', type: 'good', delay: '1d', key: 'K' },
    { id: 'unserved', type: 'other', pool: 'p', priority: 70 },
    { id: 'cancelled', type: 'other' },
  ])
  await scheduler.schedule('nightly', '0 3 * * *', { type: 'good' })
  await scheduler.cancel('cancelled')
  await scheduler.pool('q').pause()
  await scheduler.addJob({ id: 'last', type: 'good' }).then((handle) => handle.result())
  while ((await store.get(['orphan']))[0]?.status !== 'cancelled') {
    await new Promise((done) => setTimeout(done, 5))
  }
  await scheduler.close()
  // A worker that has not said goodbye.
  await store.beat({ ...WORKER, types: ['long'] })
  await store.lease({ holder: WORKER.holder, leaseMs: 60_000, max: 1, types: ['long'] }, false)
  await store.close()
}

const WORKER = { holder: 'w:1', name: 'w', full: false, zombies: 0, settings: '{}', ttlMs: 60_000 }

async function statusesIn(store: Store): Promise<Record<string, string>> {
  const { jobs } = await store.list({ after: 0, limit: 100 })
  return Object.fromEntries(jobs.map(({ id, status }) => [id, status]))
}

const STATUSES = {
  success: 'success',
  failed: 'failed',
  orphan: 'cancelled',
  running: 'running',
  behind: 'waiting',
  ghosted: 'waiting',
  pending: 'pending',
  unserved: 'ready',
  cancelled: 'cancelled',
  last: 'success',
}

describe('a file of this version', () => {
  it('is taken forward with everything that is in it', async () => {
    const file = fresh()
    await fill(file)
    const before = await raw(file, everythingIn)
    for (const name of [
      'job',
      'live',
      'past',
      'edge',
      'key',
      'lane',
      'schedule',
      'batch',
      'pool',
      'process',
    ]) {
      expect(before[name]?.length, name).toBeGreaterThan(0)
    }
    const later = laterStore(file, STEP)
    await later.open()
    const after = await raw(file, (db) => everythingIn(db, ['colour']))
    expect(after).toMatchObject(before)
    expect(Object.keys(after).sort()).toEqual([...Object.keys(before), 'migrated'].sort())
    expect(await raw(file, versionIn)).toEqual([{ user_version: STEPS.length + 1 }])
    expect(await statusesIn(later)).toEqual(STATUSES)
    expect((await later.inspect()).damage).toEqual([])
    await later.close()
    const scheduler = new AxScheduler({ store: laterStore(file, STEP) })
    scheduler.define('good', ({ payload }) => ({ got: payload }))
    const handle = await scheduler.addJob({ type: 'good', payload: 'after', deps: ['success'] })
    expect(await handle.result()).toEqual({ got: 'after' })
    expect((await scheduler.addJob({ type: 'good', key: 'K' })).id).toBe('pending')
    await scheduler.close()
  })

  it('stays as it was where a step fails in the middle', async () => {
    const file = fresh()
    await fill(file)
    const before = await raw(file, everythingIn)
    const broken = laterStore(file, STEP, 'CREATE TABLE other (x); SELECT * FROM nowhere')
    await expect(broken.open()).rejects.toThrow('nowhere')
    expect(await raw(file, everythingIn)).toEqual(before)
    expect(await raw(file, versionIn)).toEqual([{ user_version: STEPS.length }])
    const store = sqliteStore(file)
    expect(await statusesIn(store)).toEqual(STATUSES)
    await store.close()
  })

  it('stays as it was where the process is killed in the middle', async () => {
    const file = fresh()
    await fill(file)
    const before = await raw(file, everythingIn)
    // Its work is done, in the log of the file, and then it goes on for ever.
    const endless = `${STEP}
      PRAGMA cache_spill = 1;
      CREATE TABLE much AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
        SELECT x, zeroblob(10000) AS y FROM n LIMIT 4000;
      CREATE TABLE slow AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
        SELECT count(*) AS c FROM n;`
    const child = start(
      `
        const { laterStore } = await import('./later.mjs')
        await laterStore(${JSON.stringify(file)}, ${JSON.stringify(endless)}).open()
        console.log('never')
      `,
      file,
      join(data, 'killed.txt'),
    )
    while (!existsSync(`${file}-wal`) || statSync(`${file}-wal`).size < 1_000_000) {
      await new Promise((done) => setTimeout(done, 10))
    }
    child.process.kill('SIGKILL')
    expect(await child.ended).toBe(null)
    expect(child.output()).toBe('')
    expect(await raw(file, everythingIn)).toEqual(before)
    expect(await raw(file, versionIn)).toEqual([{ user_version: STEPS.length }])
    const later = laterStore(file, STEP)
    expect(await statusesIn(later)).toEqual(STATUSES)
    expect((await later.inspect()).damage).toEqual([])
    await later.close()
  }, 60_000)

  it('is taken forward once, though several processes open it at once', async () => {
    const file = fresh()
    await fill(file)
    await raw(file, async (db) => {
      db.exec('BEGIN IMMEDIATE')
      const script = `
        const { laterStore } = await import('./later.mjs')
        const later = laterStore(${JSON.stringify(file)}, ${JSON.stringify(STEP)})
        console.log('begun')
        await later.open()
        console.log('jobs ' + (await later.list({ after: 0, limit: 100 })).jobs.length)
        await later.close()
      `
      const children = [1, 2, 3].map(() => start(script, file, join(data, 'once.txt')))
      await Promise.all(children.map(({ said }) => said('begun')))
      db.exec('COMMIT')
      const told = await Promise.all(children.map(({ said }) => said('jobs')))
      expect(told).toEqual(['jobs 10', 'jobs 10', 'jobs 10'])
      expect(await Promise.all(children.map(({ ended }) => ended))).toEqual([0, 0, 0])
      expect(db.prepare('SELECT * FROM migrated').all()).toEqual([{ time: 1 }])
    })
  }, 60_000)

  it('is written no more by a process of the version before', async () => {
    const file = fresh()
    await fill(file)
    const store = sqliteStore(file)
    await store.open()
    const later = laterStore(file, STEP)
    await later.open()
    const refusal = { code: 'STORE_UNAVAILABLE', retryable: false, version: STEPS.length + 1 }
    await expect(store.time()).rejects.toMatchObject(refusal)
    await expect(store.configure({ budget: null })).rejects.toMatchObject(refusal)
    expect((await later.inspect()).damage).toEqual([])
    await store.close()
    await later.close()
  })

  it('of a later version is refused, and not a byte of it changes', async () => {
    const file = fresh()
    await fill(file)
    const later = laterStore(file, STEP)
    await later.open()
    await later.close()
    const before = readFileSync(file)
    const [error] = await Promise.allSettled([sqliteStore(file).open()])
    expect(error).toMatchObject({
      reason: { code: 'STORE_UNAVAILABLE', retryable: false, version: STEPS.length + 1 },
    })
    expect(readFileSync(file).equals(before)).toBe(true)
    expect(existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0).toBe(0)
  })

  it('of somebody else is refused, and not a byte of it changes', async () => {
    const file = fresh()
    await raw(file, (db) => db.exec('CREATE TABLE diary (line TEXT)'))
    const before = readFileSync(file)
    await expect(sqliteStore(file).open()).rejects.toThrow('SQLite file of something else')
    expect(readFileSync(file).equals(before)).toBe(true)
    expect(existsSync(`${file}-wal`)).toBe(false)
  })
})
