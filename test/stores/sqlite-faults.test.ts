// Owns the known cases of a file that fails in the middle, and of how much one transaction takes on.

import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest'
import type { Move, StoredJob } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import type { JobInput } from '../../src/core/types.ts'
import { AxScheduler, isAxError } from '../../src/index.ts'
import { LIMITS } from '../../src/store/limits.ts'
import type { Store } from '../../src/store/store.ts'
import { type Columns, type Database, loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { FAILED, KEEP, OVERDUE, SUCCEEDED } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'
import { diskError, hooks, unhook } from './driver-hooks.ts'

vi.mock('../../src/stores/sqlite/driver.ts', async (original) => {
  return (await import('./driver-hooks.ts')).hooked(await original())
})

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-faults-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
afterEach(unhook)

let files = 0

function fresh(): string {
  files += 1
  return join(folder, `${files}.db`)
}

const isWrite = (sql: string) => /^\s*(INSERT|UPDATE|DELETE|REPLACE|WITH)\b/i.test(sql)

/** Counts what is written while something runs. */
async function writesOf(run: () => Promise<unknown>): Promise<number> {
  let count = 0
  hooks.before = (sql) => {
    if (isWrite(sql)) count += 1
  }
  await run()
  unhook()
  return count
}

/** From now on the write with that number fails, once; then everything goes well again. */
function failAt(number: number): void {
  let count = 0
  hooks.before = (sql) => {
    if (!isWrite(sql)) return
    count += 1
    if (count === number) throw diskError()
  }
}

function failAtCommit(when: 'before' | 'after'): void {
  const fail = (sql: string) => {
    if (sql !== 'COMMIT') return
    unhook()
    throw diskError()
  }
  hooks[when] = fail
}

function batch(count: number): JobInput[] {
  return Array.from({ length: count }, (_, n) => {
    const deps = n % 3 === 2 ? { deps: [`job-${n - 1}`] } : {}
    return { id: `job-${n}`, type: 't', payload: { n }, key: `key-${n}`, ...deps }
  })
}

async function refused(promise: Promise<unknown>): Promise<unknown> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return isAxError(error) ? error.code : error
}

/** Everything in a file, as a process sees it that comes later. */
async function found(file: string): Promise<readonly StoredJob[]> {
  const store = sqliteStore(file)
  const jobs: StoredJob[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page = await store.list({ after, limit: LIMITS.page })
    jobs.push(...page.jobs)
    after = page.after
  }
  expect((await store.inspect()).damage).toEqual([])
  await store.close()
  return jobs
}

describe('a batch on a file that fails', () => {
  it('C67: at any of its writes leaves nothing, and is stored once when it is sent again', async () => {
    const sample = new AxScheduler({ store: sqliteStore(fresh()), autoStart: false })
    await sample.snapshot()
    const writes = await writesOf(() => sample.addJobs(batch(6)))
    expect(writes).toBeGreaterThan(6)
    const file = fresh()
    const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
    await scheduler.snapshot()
    for (let number = 1; number <= writes; number += 1) {
      failAt(number)
      expect(await refused(scheduler.addJobs(batch(6)))).toBe('STORE_UNAVAILABLE')
      expect((await scheduler.snapshot()).total).toBe(0)
    }
    failAtCommit('before')
    expect(await refused(scheduler.addJobs(batch(6)))).toBe('STORE_UNAVAILABLE')
    expect(await found(file)).toEqual([])
    const handles = await scheduler.addJobs(batch(6))
    expect(handles.every(({ added }) => added)).toBe(true)
    expect((await found(file)).map(({ id }) => id)).toEqual(batch(6).map(({ id }) => id))
    await scheduler.close()
  })

  it('C67: of 1,000 fails at write 500, or after its commit, and there are 1,000 in the end', async () => {
    const file = fresh()
    const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
    await scheduler.snapshot()
    failAt(500)
    expect(await refused(scheduler.addJobs(batch(1_000)))).toBe('STORE_UNAVAILABLE')
    expect(await found(file)).toEqual([])
    failAtCommit('after')
    expect(await refused(scheduler.addJobs(batch(1_000)))).toBe('STORE_UNAVAILABLE')
    const handles = await scheduler.addJobs(batch(1_000))
    expect(handles.some(({ added }) => added)).toBe(false)
    expect(new Set((await found(file)).map(({ id }) => id)).size).toBe(1_000)
    expect((await scheduler.snapshot()).total).toBe(1_000)
    await scheduler.close()
  })
})

/** Ends jobs without an engine: leased and finished, a thousand at a time. */
async function finishAll(store: Store, ended: { readonly successMs: number }): Promise<void> {
  const ask = { holder: 'w', leaseMs: 600_000, max: LIMITS.moves, types: ['alpha'] }
  while (true) {
    const { jobs } = (await store.lease(ask, false)).answer
    if (jobs.length === 0) return
    const moves = jobs.map((job) => decide(job, SUCCEEDED, { ...KEEP, ...ended }) as Move)
    await store.apply(moves, false)
  }
}

/** What the keeper does, once: decides about what is overdue. Answers how many moves that took. */
async function tidy(store: Store): Promise<{ readonly moves: number; readonly more: boolean }> {
  const { answer } = await store.overdue({ limit: LIMITS.moves, keepLogMs: 0 }, false)
  const moves = answer.jobs.map((job) => decide(job, OVERDUE, KEEP)).filter((move) => move !== null)
  await store.apply(moves, false)
  return { moves: moves.length, more: answer.more }
}

/** The rows that each transaction deletes, and for how long it holds the process up. */
function watchTransactions() {
  const seen = { deleted: 0, most: 0, longestMs: 0, begun: 0 }
  hooks.before = (sql) => {
    if (!sql.startsWith('BEGIN')) return
    seen.begun = performance.now()
    seen.deleted = 0
  }
  hooks.after = (sql, changes) => {
    if (/^\s*DELETE\b/i.test(sql)) seen.deleted += changes
    if (sql !== 'COMMIT') return
    seen.most = Math.max(seen.most, seen.deleted)
    seen.longestMs = Math.max(seen.longestMs, performance.now() - seen.begun)
  }
  return seen
}

describe('retention', () => {
  const COUNT = 20_000

  it('DQ-04: of 20,000 jobs at once works in bounded transactions, and adding goes on', async () => {
    let now = 1_700_000_000_000
    const file = fresh()
    const store = sqliteStore(file, { now: () => now })
    for (let n = 0; n < COUNT; n += 10_000) {
      const jobs = Array.from({ length: 10_000 }, (_, at) => newJob(`old-${n + at}`))
      await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    }
    await finishAll(store, { successMs: 60_000 })
    now += 60_000
    const seen = watchTransactions()
    let rounds = 0
    for (let left = COUNT; left > 0; rounds += 1) {
      const before = left
      left -= (await tidy(store)).moves
      expect(before - left).toBeLessThanOrEqual(LIMITS.moves)
      const id = `new-${rounds}`
      await store.insert([{ jobs: [newJob(id)], unknownDeps: 'wait' }], false)
      expect((await store.get([id]))[0]?.status).toBe('ready')
      // Somebody who dies here has half of nothing: a second look at the same file is whole.
      if (rounds === 7) expect(await found(file)).toHaveLength(left + rounds + 1)
    }
    unhook()
    expect(rounds).toBe(COUNT / LIMITS.moves)
    expect(seen.most).toBeGreaterThan(0)
    expect(seen.most).toBeLessThanOrEqual(LIMITS.moves + LIMITS.prune)
    console.log(
      `DQ-04: at most ${seen.most} rows in a transaction, at most ${seen.longestMs.toFixed(0)} ms`,
    )
    expect(seen.longestMs).toBeLessThan(5_000)
    const counted = await store.count()
    expect(counted).toMatchObject({ forgotten: COUNT, types: { alpha: { success: 0 } } })
    await store.close()
  })
})

describe('a fan-out', () => {
  it('DQ-14: to 10,000 dependents goes on after a crash between its steps', async () => {
    const file = fresh()
    const first = sqliteStore(file)
    const on = [{ id: 'root', on: 'success' as const }]
    const jobs = Array.from({ length: 9_999 }, (_, n) => newJob(`d${n}`, { deps: on }))
    await first.insert([{ jobs, unknownDeps: 'wait' }], false)
    await first.insert([{ jobs: [newJob('root')], unknownDeps: 'wait' }], false)
    const ask = { holder: 'w', leaseMs: 60_000, max: 1, types: ['alpha'] }
    const [root] = (await first.lease(ask, false)).answer.jobs
    if (root === undefined) throw new Error('nothing was leased')
    await first.apply([decide(root, FAILED, KEEP) as Move], false)
    expect((await tidy(first)).more).toBe(true)
    const told = (await first.count()).doomed
    // It is left as it is, as by a process that was killed; what it had open ends with it.
    const second = sqliteStore(file)
    expect(told).toBeLessThan(9_999)
    let isLeft = true
    for (let round = 0; isLeft && round < 100; round += 1) {
      const { moves, more } = await tidy(second)
      isLeft = more || moves > 0
    }
    expect(isLeft).toBe(false)
    const { types, doomed, fanOuts } = await second.count()
    expect({ ...types.alpha, doomed, fanOuts }).toMatchObject({
      failed: 1,
      cancelled: 9_999,
      waiting: 0,
      doomed: 0,
      fanOuts: 0,
    })
    expect((await second.get(['d9998']))[0]).toMatchObject({ cause: 'root' })
    await second.close()
    await first.close()
  })
})

describe('a key', () => {
  it('DQ-08: whose owner has vanished from the file belongs to nobody, and the doctor says so', async () => {
    const file = fresh()
    const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
    await scheduler.addJob({ id: 'gone', type: 't', key: 'K' })
    const raw = (await loadLibrary()).open(file)
    raw.exec("DELETE FROM job WHERE id = 'gone'")
    raw.close()
    const { findings } = await scheduler.doctor()
    expect(findings.find(({ kind }) => kind === 'orphaned-key')?.text).toContain('"K"')
    const next = await scheduler.addJob({ type: 't', key: 'K' })
    expect(next.added).toBe(true)
    const third = await scheduler.addJob({ type: 't', key: 'K' })
    expect([third.added, third.id]).toEqual([false, next.id])
    await scheduler.close()
  })
})

describe('every connection to a file', () => {
  const pragma = (db: Database, name: string) => {
    return Object.values(db.prepare(`PRAGMA ${name}`).all()[0] as Columns)[0]
  }

  it.each([
    ['normal', 1, 0],
    ['full', 2, 1],
  ] as const)('has a log, and waits for the disk as asked: %s', async (sync, level, isFlushed) => {
    const connections: Database[] = []
    hooks.opened = (db) => connections.push(db)
    const file = fresh()
    const stores = [sqliteStore(file, { sync }), sqliteStore(file, { sync })]
    for (const store of [...stores, ...stores]) {
      await store.open()
      await store.insert([{ jobs: [newJob('a')], unknownDeps: 'wait' }], false)
      const db = connections.at(-1)
      if (db === undefined) throw new Error('nothing was opened')
      expect(pragma(db, 'synchronous')).toBe(level)
      expect(pragma(db, 'journal_mode')).toBe('wal')
      expect(pragma(db, 'fullfsync')).toBe(isFlushed)
      expect(pragma(db, 'checkpoint_fullfsync')).toBe(1)
      await store.close()
    }
    expect(connections).toHaveLength(4)
  })

  it('is normal where nothing is said', async () => {
    let level: unknown
    hooks.before = (sql) => {
      if (/PRAGMA synchronous/.test(sql)) level = sql
    }
    const store = sqliteStore(fresh())
    await store.open()
    await store.close()
    expect(level).toBe('PRAGMA synchronous = NORMAL')
  })
})

describe('a file that others hold', () => {
  it('DQ-01: for a minute leaves an idle worker able to start what comes afterwards, at once', async () => {
    const runtime = virtualRuntime(1)
    await loadLibrary()
    const file = fresh()
    const store = sqliteStore(file, { runtime })
    const logger = { info: () => {}, warn: () => {}, error: () => {} }
    const scheduler = new AxScheduler({ store, runtime, logger })
    const starts: number[] = []
    scheduler.define('t', () => {
      starts.push(runtime.monotonic())
    })
    await scheduler.start()
    await runtime.advance(5_000)
    let refused = 0
    hooks.before = (sql) => {
      if (sql !== 'BEGIN IMMEDIATE') return
      refused += 1
      throw Object.assign(new Error('database is locked'), { errcode: 5, rawCode: 5 })
    }
    await runtime.advance(60_000)
    expect(refused).toBeGreaterThan(100)
    unhook()
    const other = sqliteStore(file, { runtime })
    const jobs = [newJob('late', { type: 't' })]
    await other.insert([{ jobs, unknownDeps: 'wait' }], false)
    const added = runtime.monotonic()
    await runtime.advance(2_000)
    expect(starts).toHaveLength(1)
    expect((starts[0] ?? 0) - added).toBeLessThanOrEqual(2_000)
    await other.close()
    const closing = scheduler.close()
    await runtime.advance(60_000)
    await closing
    await store.close()
  })

  it('ES-20: for a long look slow nobody down, and the log is emptied when they have gone', async () => {
    const file = fresh()
    const store = sqliteStore(file)
    await store.insert([{ jobs: [newJob('first')], unknownDeps: 'wait' }], false)
    const reader = (await loadLibrary()).open(file)
    reader.exec('BEGIN')
    const seen = () => reader.prepare('SELECT count(*) AS count FROM job').all()
    expect(seen()).toEqual([{ count: 1 }])
    const times: number[] = []
    for (let round = 0; round < 12; round += 1) {
      const jobs = Array.from({ length: 1_000 }, (_, n) => newJob(`${round}-${n}`))
      const begin = performance.now()
      await store.insert([{ jobs, unknownDeps: 'wait' }], false)
      times.push(performance.now() - begin)
    }
    expect(seen()).toEqual([{ count: 1 }])
    const [first, last] = [median(times.slice(0, 6)), median(times.slice(6))]
    console.log(`ES-20: ${first.toFixed(0)} ms for 1,000 jobs at first, ${last.toFixed(0)} at last`)
    expect(last).toBeLessThan(10 * first + 1_000)
    reader.exec('COMMIT')
    expect(seen()).toEqual([{ count: 12_001 }])
    reader.close()
    expect(statSync(`${file}-wal`).size).toBeGreaterThan(1_000_000)
    await store.close()
    expect(existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0).toBe(0)
  })
})

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}
