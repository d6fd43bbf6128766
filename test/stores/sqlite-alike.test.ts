// Owns the proof that jobs that are alike, and are treated as one in a file, answer like jobs that
// are not, and take few statements. May never depend on how long anything takes.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, vi } from 'vitest'
import type { Change } from '../../src/store/store.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { differenceIn, SEEDS } from './alike-histories.ts'
import { hooks, unhook } from './driver-hooks.ts'
import { illsOf } from './reading.ts'

vi.mock('../../src/stores/sqlite/driver.ts', async (original) => {
  const { hooked } = await import('./driver-hooks.ts')
  return hooked(await original<typeof import('../../src/stores/sqlite/driver.ts')>())
})

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-alike-'))
const seen = new Map<string, number>()

/** Statements that have written. */
let writes = 0

hooks.before = (sql) => {
  writes += Number(/^(INSERT|UPDATE|DELETE)/.test(sql))
  const [kind] = /^(INSERT INTO \w+|UPDATE \w+|DELETE FROM \w+)(?=.*BETWEEN \?1)/s.exec(sql) ?? []
  if (kind !== undefined) seen.set(kind, (seen.get(kind) ?? 0) + 1)
}

afterAll(() => {
  unhook()
  rmSync(folder, { recursive: true, force: true })
})

/** What a history leaves behind as it breaks off. */
const EXPECTED = /^doctor finds (?!damage)/

function faultIn(seed: number, processes: number): Promise<unknown> {
  const file = join(folder, `${processes}-${seed}.db`)
  return differenceIn(
    seed,
    (clock) => {
      return Array.from({ length: processes }, () => sqliteStore(file, { now: () => clock.now() }))
    },
    async (store) => (await illsOf(store, file)).filter((ill) => !EXPECTED.test(ill)),
  )
}

const POOL_OF = (concurrency: number): Change => {
  return { pool: 'default', by: 'operator', terms: { concurrency } }
}

describe('jobs that are alike', () => {
  it.each(Array.from({ length: SEEDS }, (_, at) => at + 1))(
    'answer like any others in history %i',
    async (seed) => {
      const fault = await faultIn(seed, seed % 3 === 0 ? 2 : 1)
      expect(fault).toEqual([])
    },
    60_000,
  )

  it.each([
    ['are alike but for names of many lengths', (at: number) => newJob('x'.repeat(1 + at))],
    ['are alike two by two', (at: number) => newJob(`j${at}`, { priority: 50 + ((at >> 1) % 2) })],
    ['are not alike', (at: number) => newJob(`j${at}`, { type: at % 2 === 0 ? 'alpha' : 'beta' })],
  ])('take few statements where new ones %s', async (name, jobAt) => {
    const file = join(folder, `${name}.db`)
    const store = sqliteStore(file)
    const payloads = ['"\x7f"', '[]', undefined]
    const jobs = Array.from({ length: 200 }, (_, at) => {
      return { ...jobAt(at), payload: payloads[at % 3] }
    })
    await store.open()
    writes = 0
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    expect(writes).toBeLessThan(20)
    const found = await store.get(jobs.map(({ id }) => id))
    expect(found.map((job) => [job?.id, job?.seq, job?.payload])).toEqual(
      jobs.map(({ id, payload }, at) => [id, at + 1, payload]),
    )
    expect((await illsOf(store, file)).filter((ill) => !EXPECTED.test(ill))).toEqual([])
    await store.close()
  })

  it.each<[string, Change[]]>([
    ['in its pool', [POOL_OF(100)]],
    ['for its type', [POOL_OF(1_000), { type: 'alpha', setting: { concurrency: 100 } }]],
  ])('are not read by a lease beyond those for which there is room %s', async (name, changes) => {
    const file = join(folder, `${name}.db`)
    const open = () => sqliteStore(file)
    const ask = { holder: 'w', leaseMs: 60_000, max: 1_000, types: ['alpha'] }
    const [store, other] = [open(), open()]
    await store.configure(...changes)
    const jobs = Array.from({ length: 300 }, (_, at) => newJob(`j${at}`))
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    expect((await store.lease({ ...ask, max: 98 }, false)).answer.jobs.length).toBe(98)
    let text = 0
    hooks.found = (rows) => {
      text += JSON.stringify(rows).length
    }
    for (const each of [store, other]) {
      text = 0
      const { answer } = await each.lease(each === store ? { ...ask, max: 1 } : ask, false)
      expect(answer.jobs.length).toBe(1)
      expect(text).toBeLessThan(3_000)
    }
    hooks.found = () => {}
    for (const each of [store, other]) await each.close()
  })

  it('have been written as one', () => {
    const kinds = ['INSERT INTO live', 'UPDATE live', 'INSERT INTO past', 'DELETE FROM live']
    for (const kind of kinds) expect(seen.get(kind) ?? 0, kind).toBeGreaterThan(5)
  })
})
