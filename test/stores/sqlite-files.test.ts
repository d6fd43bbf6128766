// Owns the promises about files of the SQLite store that cannot be used, and about their forms.

import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { isAxError } from '../../src/core/errors.ts'
import { decide } from '../../src/core/machine.ts'
import type { Hint, Store } from '../../src/store/store.ts'
import { type Database, loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { CASES } from '../../src/testing/cases.ts'
import { KEEP, runCase, SUCCEEDED } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0

function fresh(): string {
  files += 1
  return join(folder, `${files}.db`)
}

async function openRaw(file: string): Promise<Database> {
  return (await loadLibrary()).open(file)
}

/** The error that a promise rejects with, as code, message and whether asking again may help. */
async function failure(promise: Promise<unknown>) {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!isAxError(error)) throw new Error(`not an error of ax: ${error}`)
  return { code: error.code, message: error.message, retryable: error.retryable }
}

async function opened(file: string): Promise<Store> {
  const store = sqliteStore(file)
  await store.open()
  return store
}

function add(store: Store, ...ids: readonly string[]) {
  const jobs = ids.map((id) => newJob(id, { payload: `"${'x'.repeat(2_000)}"` }))
  return store.insert([{ jobs, unknownDeps: 'wait' }], false)
}

/** Root may write anything, whatever a file says. */
const isRoot = process.getuid?.() === 0

/** Root may write anywhere: for as long as this takes, it is nobody. */
async function withoutRights(run: () => Promise<void>): Promise<void> {
  if (isRoot) process.seteuid?.(65_534)
  try {
    await run()
  } finally {
    if (isRoot) process.seteuid?.(0)
  }
}

describe('a SQLite store refuses, saying what to do,', () => {
  it('a folder in the place of the file', async () => {
    const file = fresh()
    mkdirSync(file)
    const found = await failure(opened(file))
    expect(found).toMatchObject({ code: 'INVALID_OPTION', retryable: false })
    expect(found.message).toContain('is a folder. Name a file in it')
  })

  it('a folder that does not exist', async () => {
    const found = await failure(opened(join(folder, 'nowhere', 'ax.db')))
    expect(found).toMatchObject({ code: 'INVALID_OPTION' })
    expect(found.message).toContain('does not exist. Make it first')
  })

  it('a file that is none of SQLite', async () => {
    const file = fresh()
    writeFileSync(file, 'Dear diary, '.repeat(1_000))
    const found = await failure(opened(file))
    expect(found).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
    expect(found.message).toContain('not a SQLite file')
    expect(readFileSync(file, 'utf8')).toContain('Dear diary')
  })

  it('a SQLite file of somebody else, and leaves it alone', async () => {
    const file = fresh()
    const raw = await openRaw(file)
    raw.exec('CREATE TABLE diary (line TEXT)')
    const found = await failure(opened(file))
    expect(found).toMatchObject({ code: 'INVALID_OPTION' })
    expect(found.message).toContain('SQLite file of something else')
    expect(raw.prepare('SELECT name FROM sqlite_master').all()).toHaveLength(1)
    raw.close()
  })

  it('a file of a later version', async () => {
    const file = fresh()
    await (await opened(file)).close()
    const raw = await openRaw(file)
    raw.exec('PRAGMA user_version = 900')
    raw.close()
    const found = await failure(opened(file))
    expect(found).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
    expect(found.message).toContain('written by a later ax (version 900')
  })

  it('a file or a folder that it may not write', async () => {
    const place = join(folder, 'readonly')
    mkdirSync(place)
    const file = join(place, 'theirs.db')
    await (await opened(file)).close()
    chmodSync(folder, 0o755)
    chmodSync(file, 0o444)
    chmodSync(place, 0o555)
    await withoutRights(async () => {
      // What is asked beforehand, access(2), goes by who the process really is.
      for (const path of isRoot ? [join(place, 'ax.db')] : [join(place, 'ax.db'), file]) {
        const found = await failure(opened(path))
        expect(found).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
        expect(found.message).toMatch(/writ(ten by|able for) this user/)
      }
    })
    chmodSync(place, 0o755)
  })

  it('a file that somebody holds for himself as it is opened', async () => {
    const file = fresh()
    const raw = await openRaw(file)
    raw.exec('BEGIN EXCLUSIVE')
    const runtime = virtualRuntime(1)
    const opening = failure(sqliteStore(file, { runtime }).open())
    for (let turn = 0; turn < 5; turn += 1) await new Promise((done) => setImmediate(done))
    let found: Awaited<typeof opening> | undefined
    opening.then((failed) => {
      found = failed
    })
    await runtime.run(() => found !== undefined)
    expect(found).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
    expect(found?.message).toContain('another process has held the lock')
    raw.exec('COMMIT')
    raw.close()
    await (await opened(file)).close()
  })

  it('what does not fit any more, and goes on when there is room', async () => {
    const file = fresh()
    const store = await opened(file)
    await add(store, 'first')
    const many = Array.from({ length: 500 }, (_, index) => `j${index}`)
    const limited = sqliteStore(file, { maxPages: 120 })
    const found = await failure(add(limited, ...many))
    expect(found).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
    expect(found.message).toContain('no room left')
    expect(await limited.get(['j0'])).toEqual([null])
    await limited.close()
    await add(store, ...many)
    expect((await store.get(['j499']))[0]?.status).toBe('ready')
    await store.close()
  })

  it('a file that is damaged, as soon as it is read', async () => {
    const file = fresh()
    const store = await opened(file)
    await add(store, ...Array.from({ length: 200 }, (_, index) => `j${index}`))
    await store.close()
    const bytes = readFileSync(file)
    bytes.fill(0xab, 4_096 * 3)
    writeFileSync(file, bytes)
    const broken = sqliteStore(file)
    const found = await failure(broken.list({ after: 0, limit: 500 }))
    expect(found).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
    expect(found.message).toContain('.recover')
    await broken.close()
  })

  it('options that it does not have, and wrong ones', () => {
    expect(() => sqliteStore('')).toThrow('file must be the path of a file')
    expect(() => sqliteStore(':memory:')).toThrow('memoryStore()')
    expect(() => sqliteStore('a.db', { sync: 'off' as 'full' })).toThrow("'normal' or 'full'")
    expect(() => sqliteStore('a.db', { synch: 'full' } as object)).toThrow("Did you mean 'sync'?")
  })

  it('calls after it was closed, and takes them when it is opened again', async () => {
    const store = await opened(fresh())
    await add(store, 'a')
    await store.close()
    await store.close()
    expect(await failure(store.get(['a']))).toMatchObject({ code: 'CLOSED' })
    await store.open()
    expect((await store.get(['a']))[0]?.id).toBe('a')
    await store.close()
  })
})

describe('a SQLite store', () => {
  it('waits for a lock that somebody else holds, without standing still', async () => {
    const file = fresh()
    const store = await opened(file)
    const raw = await openRaw(file)
    raw.exec('BEGIN IMMEDIATE')
    let settled = false
    const adding = add(store, 'a').then(() => {
      settled = true
    })
    for (let turn = 0; turn < 20; turn += 1) await new Promise((done) => setImmediate(done))
    expect(settled).toBe(false)
    expect(await store.get(['a'])).toEqual([null])
    raw.exec('COMMIT')
    await adding
    expect((await store.get(['a']))[0]?.id).toBe('a')
    raw.close()
    await store.close()
  })

  it('keeps what it has acknowledged, and can be read with plain SQL', async () => {
    const file = fresh()
    const store = await opened(file)
    await add(store, 'a', 'b')
    await store.close()
    const raw = await openRaw(file)
    const rows = raw.prepare('SELECT id, status, type, pool FROM jobs ORDER BY seq').all()
    expect(rows).toMatchObject([
      { id: 'a', status: 'ready', type: 'alpha', pool: 'default' },
      { id: 'b', status: 'ready' },
    ])
    raw.close()
  })

  it('stands still when its clock is set back a little, and follows it when by much', async () => {
    let now = 1_700_000_000_000
    const file = fresh()
    const store = sqliteStore(file, { now: () => now })
    await add(store, 'a')
    const times: number[] = []
    for (const step of [-5_000, 7_000, -3_600_000]) {
      now += step
      times.push((await store.time()) - 1_700_000_000_000)
    }
    expect(times).toEqual([0, 2_000, -3_598_000])
    await store.close()
  })

  it('waits for the disk with each commit, if it was asked to', async () => {
    const file = fresh()
    const store = sqliteStore(file, { sync: 'full' })
    await add(store, 'a')
    expect((await store.get(['a']))[0]?.status).toBe('ready')
    await store.close()
  })

  it('knows what is set after it was opened again, infinities too', async () => {
    const file = fresh()
    const store = sqliteStore(file)
    const terms = { concurrency: Number.POSITIVE_INFINITY, perWorker: 3, paused: true }
    await store.configure({ pool: 'Infinity', by: 'operator', terms })
    await store.close()
    await store.open()
    expect((await store.settings()).pools).toEqual({ Infinity: { start: {}, operator: terms } })
    await store.close()
  })

  it('reads the terms of each job, however many there are, and keeps no endless list of them', async () => {
    const file = fresh()
    const store = await opened(file)
    const plain = newJob('plain').terms
    const jobs = Array.from({ length: 1_200 }, (_, at) => {
      return newJob(`${at}`, { terms: { ...plain, timeoutMs: at + 1 } })
    })
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    await store.close()
    const raw = await openRaw(file)
    expect(raw.prepare('SELECT count(*) AS count FROM terms').all()).toEqual([{ count: 1_000 }])
    raw.close()
    const again = await opened(file)
    for (const at of [0, 999, 1_000, 1_199]) {
      const [job] = await again.get([`${at}`])
      expect(job?.terms).toEqual({ ...plain, timeoutMs: at + 1 })
    }
    await again.close()
  })

  it('serves a lease last in its turn, though a call beside it has to be taken back', async () => {
    const store = await opened(fresh())
    const jobs = ['a', 'b'].map((id) => newJob(id, { exclusive: 'lane' }))
    await store.insert([{ jobs: [...jobs, newJob('c')], unknownDeps: 'wait' }], false)
    const ask = { holder: 'w', leaseMs: 10_000, max: 1, types: ['alpha'] }
    const [a] = (await store.lease(ask, false)).answer.jobs
    const move = a === undefined ? null : decide(a, SUCCEEDED, KEEP)
    const [c] = await store.get(['c'])
    if (move === null || c === null || c === undefined) throw new Error('nothing was leased')
    const { id, seq, rev } = c
    // The new c names itself: that is refused once the old one is out.
    const loop = {
      jobs: [newJob('c', { deps: [{ id: 'c', on: 'success' }] })],
      gone: [{ id, seq, rev }],
    }
    const leased = store.lease({ ...ask, max: 9 }, false)
    const replaced = store.replace({ ...loop, unknownDeps: 'wait' }, false)
    await store.apply([move], false)
    expect((await replaced).answer.status).toBe('refused')
    expect((await leased).answer.jobs.map((job) => job.id).sort()).toEqual(['b', 'c'])
    await store.close()
  })

  it('keeps for ever, where it was asked to, what every driver can read again', async () => {
    const store = await opened(fresh())
    const ever = Number.MAX_SAFE_INTEGER
    const beat = { holder: 'w', name: 'w', types: ['alpha'], full: false, zombies: 0 }
    await store.beat({ ...beat, settings: '{}', ttlMs: ever })
    expect((await store.workers())[0]?.until).toBe(ever)
    await add(store, 'a')
    const ask = { holder: 'w', leaseMs: 10_000, max: 1, types: ['alpha'] }
    const [job] = (await store.lease(ask, false)).answer.jobs
    const move = job === undefined ? null : decide(job, SUCCEEDED, { ...KEEP, successMs: ever })
    if (move === null) throw new Error('nothing was decided')
    await store.apply([move], false)
    expect((await store.get(['a']))[0]).toMatchObject({ status: 'success', deadline: ever })
    const { answer } = await store.overdue({ limit: 9, keepLogMs: ever }, false)
    expect(answer).toMatchObject({ jobs: [], more: false })
    await store.close()
  })

  it('lets a call that fails take nobody with it who shares its transaction', async () => {
    const store = await opened(fresh())
    const broken = store.insert([{ jobs: [null as never], unknownDeps: 'wait' }], false)
    const good = add(store, 'a')
    await expect(broken).rejects.toThrow(TypeError)
    expect((await good).answer[0]?.status).toBe('done')
    await store.close()
  })

  it('says what contradicts itself in the file', async () => {
    const file = fresh()
    const store = await opened(file)
    await add(store, 'a', 'b')
    expect((await store.inspect()).damage).toEqual([])
    const raw = await openRaw(file)
    await add(store, 'c', 'd', 'e')
    raw.exec('UPDATE live SET open = 3 WHERE seq = 1; UPDATE live SET line = 5 WHERE seq = 2')
    raw.exec(
      'DELETE FROM live WHERE seq = 3; INSERT INTO past SELECT seq, status, rank, needs, open,' +
        ' deadline, code, figures, error, result FROM live WHERE seq = 4',
    )
    raw.exec('DELETE FROM job WHERE seq = 5; UPDATE line SET ready = 7')
    raw.exec("INSERT INTO key (key, owner, until) VALUES ('k', 99, 0)")
    const { damage, orphanedKeys } = await store.inspect()
    expect(damage).toEqual([
      'c is in no state',
      'd is both live and over',
      'number 5 has a state, but is no job',
      'b stands in two lines',
      'a is ready, with 3 open edges, of which 0 are there',
      '7 jobs of type alpha in pool default are counted as ready: there are 4',
    ])
    expect(orphanedKeys).toEqual([{ key: 'k', owner: 'number 99' }])
    raw.close()
    await store.close()
  })

  it('sees what others have written, whatever it knew before', async () => {
    const file = fresh()
    const [one, two] = [await opened(file), await opened(file)]
    const ask = { holder: 'w', leaseMs: 10_000, max: 1, types: ['alpha'] }
    await add(one, 'a')
    const [job] = (await one.lease(ask, false)).answer.jobs
    if (job === undefined) throw new Error('nothing was leased')
    const cancel = decide(job, { type: 'cancel' }, KEEP)
    const finish = decide(job, SUCCEEDED, KEEP)
    if (cancel === null || finish === null) throw new Error('nothing was decided')
    expect((await two.apply([cancel], false)).answer[0]?.status).toBe('moved')
    expect((await one.apply([finish], false)).answer[0]).toMatchObject({
      status: 'stale',
      job: { status: 'cancelled', lease: { hold: true } },
    })
    await one.close()
    await two.close()
  })

  it('tells others on the same file what has changed', async () => {
    const file = fresh()
    const [one, two] = [await opened(file), await opened(file)]
    const hints: Hint[] = []
    const heard = new Promise<void>((done) => {
      two.watch((hint) => {
        hints.push(hint)
        if (hint.ready) done()
      })
    })
    await new Promise((done) => setImmediate(done))
    await add(one, 'a')
    await heard
    expect(hints.some(({ ready }) => ready)).toBe(true)
    await one.close()
    await two.close()
  })

  const hinted = CASES.filter(({ hints }) => hints === true)
  it.each(hinted.map((each) => [each.name, each] as const))('%s', async (_, each) => {
    const file = fresh()
    await runCase(
      each,
      async ({ now }) => {
        const store = sqliteStore(file, { now })
        return Object.assign(store, { traits: { ...store.traits, lossyHints: false } })
      },
      expect,
    )
  })
})
