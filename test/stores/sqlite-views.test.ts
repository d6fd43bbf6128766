// Owns the promise that people can read the file: the views say what the store says, in words.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { StoredJob } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import { loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { FAILED, KEEP, SUCCEEDED } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-views-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const AT = Date.UTC(2026, 0, 2, 3, 4, 5)

describe('the views of a SQLite file', () => {
  it('show each job in words, and the log entry by entry', async () => {
    const file = join(folder, 'views.db')
    let now = AT
    const store = sqliteStore(file, { now: () => now })
    const jobs = [
      newJob('done', { payload: '{"n":1}' }),
      newJob('broken'),
      newJob('at work', { exclusive: 'lane' }),
      newJob('behind', { exclusive: 'lane' }),
      newJob('next', {
        deps: [
          { id: 'at work', on: 'success' },
          { id: 'nobody', on: 'end' },
        ],
      }),
      newJob('later', { delayMs: 60_000, priority: 70, key: 'k' }),
      newJob('dropped'),
    ]
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    const drop = async (job: StoredJob | null | undefined) => {
      const move = job === null || job === undefined ? null : decide(job, { type: 'cancel' }, KEEP)
      if (move !== null) await store.apply([move], false)
    }
    await drop((await store.get(['dropped']))[0])
    const ask = { holder: 'worker 1', leaseMs: 30_000, max: 10, types: ['alpha'] }
    const { answer } = await store.lease(ask, false)
    expect(answer.jobs.map(({ id }) => id)).toEqual(['done', 'broken', 'at work'])
    now += 2_000
    const facts = [SUCCEEDED, FAILED]
    const moves = answer.jobs.slice(0, 2).flatMap((job, at) => {
      return decide(job, facts[at] as typeof SUCCEEDED, KEEP) ?? []
    })
    await store.apply(moves, false)
    const { events } = await store.events(0, 100)
    await store.close()
    const db = (await loadLibrary()).open(file)
    const rows = db.prepare('SELECT * FROM jobs ORDER BY seq').all() as Record<string, unknown>[]
    const plain = { type: 'alpha', pool: 'default', created: '2026-01-02 03:04:05' }
    expect(rows).toMatchObject([
      { ...plain, id: 'done', status: 'success', starts: 1, payload: '{"n":1}' },
      { ...plain, id: 'broken', status: 'failed', finished: '2026-01-02 03:04:07' },
      { id: 'at work', status: 'running', worker: 'worker 1', leased_until: '2026-01-02 03:04:35' },
      { id: 'behind', status: 'waiting', lane: 'lane', behind: 'at work', starts: 0 },
      { id: 'next', status: 'waiting', waits_for: 'at work nobody', worker: null },
      { id: 'later', status: 'pending', due: '2026-01-02 03:05:05', priority: 70, key: 'k' },
      { id: 'dropped', status: 'cancelled', code: 'CANCELLED', finished: '2026-01-02 03:04:05' },
    ])
    const log = db.prepare('SELECT * FROM events ORDER BY seq').all() as Record<string, unknown>[]
    const told = events.map((event) => {
      const { from, to, code = null, cause = null, worker = null, at, ...rest } = event
      const date = new Date(at).toISOString().replace('T', ' ').replace('Z', '')
      return { ...rest, at: date, came_from: from, went_to: to, code, cause, worker }
    })
    expect(log.map((entry) => ({ ...entry }))).toEqual(told)
    db.close()
  })
})
