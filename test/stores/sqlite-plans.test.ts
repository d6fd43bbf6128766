// Owns the promise that no question walks where an index leads: SQLite is asked what it would do.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { ListQuery, Store } from '../../src/store/store.ts'
import type { Database, Value } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { SQL } from '../../src/stores/sqlite/statements.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { hooks, unhook } from './driver-hooks.ts'

vi.mock('../../src/stores/sqlite/driver.ts', async (original) => {
  const { hooked } = await import('./driver-hooks.ts')
  return hooked(await original<typeof import('../../src/stores/sqlite/driver.ts')>())
})

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-plans-'))
let store: Store
let db: Database

beforeAll(async () => {
  hooks.opened = (opened) => {
    db = opened
  }
  store = sqliteStore(join(folder, 'plans.db'))
  const jobs = Array.from({ length: 50 }, (_, at) => newJob(`${at}`, { flow: 'f', key: `k${at}` }))
  await store.insert([{ jobs, unknownDeps: 'wait' }], false)
})

afterAll(async () => {
  unhook()
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

/** What SQLite says that it would do, a line for each step. */
function planOf(sql: string): readonly string[] {
  const marks = sql.match(/\?\d*/g) ?? []
  const numbers = marks.map((mark, at) => Number(mark.slice(1)) || at + 1)
  const values: Value[] = Array.from({ length: Math.max(0, ...numbers) }, () => 1)
  const steps = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values)
  return steps.map((step) => (step as { readonly detail: string }).detail)
}

/** The statements that a page of jobs is read by. */
async function waysTo(query: Partial<ListQuery>): Promise<readonly string[]> {
  const seen: string[] = []
  const { prepare } = db
  db.prepare = (sql) => {
    if (sql.startsWith('SELECT json_array')) seen.push(sql)
    return prepare.call(db, sql)
  }
  await store.list({ after: 0, limit: 20, ...query })
  db.prepare = prepare
  return seen
}

const SORTS = 'USE TEMP B-TREE FOR ORDER BY'

describe('a page of jobs', () => {
  const cases: readonly [Partial<ListQuery>, index: readonly string[], sorts: boolean][] = [
    [{ statuses: ['waiting'] }, ['live_status'], false],
    [{ statuses: ['pending'] }, ['live_status'], false],
    [{ statuses: ['ready'] }, ['live_ready'], true],
    [{ statuses: ['running'] }, ['live_held'], true],
    [{ statuses: ['failed'] }, ['past_status'], false],
    [{ statuses: ['cancelled'] }, ['past_status', 'live_status'], false],
    [{ type: 'alpha', statuses: ['success'] }, ['job_line'], false],
    [{ pool: 'default', statuses: ['success', 'failed'] }, ['job_line'], false],
    [{ flow: 'f' }, ['job_flow', 'job_flow'], false],
    [{ key: 'k1' }, ['job_key', 'job_key'], false],
    [{ code: 'LOST' }, ['live_code', 'past_code'], false],
    [{ createdAfter: 1 }, ['PRIMARY KEY (rowid>?)', 'PRIMARY KEY (rowid>?)'], false],
  ]
  it.each(cases)('of %j is found by its index', async (query, indexes, sorts) => {
    const ways = await waysTo(query)
    expect(ways).toHaveLength(indexes.length)
    for (const [at, way] of ways.entries()) {
      const plan = planOf(way)
      expect(plan[0]).toContain(indexes[at])
      expect(plan.includes(SORTS)).toBe(sorts)
      expect(plan.slice(1).filter((step) => step.startsWith('SCAN'))).toEqual([])
    }
  })
})

/** What looks at all there is, and may: doctor; small tables; what is counted as a whole. */
const MAY_SCAN =
  /^(ghosts|waitingEdges|wrong\w+|strays|orphans|recount|reweigh|check|expired|heldFirst|evicted|\w*[Ss]chedules?|pools|told|wanting|types|caps|workers|tallies|linesOf|heads|weights|idleWeight|failures|drop\w+|state|setState|processes|termsCount|heldIn|slots|heldSuspects|fanOut\w*|doomed|nextEnd|ends|\w*Version|held\w*|readyCount|any\w+)$/

describe('a statement', () => {
  const names = (Object.keys(SQL) as (keyof typeof SQL)[]).filter((name) => !MAY_SCAN.test(name))
  it.each(names)('%s scans no table of jobs', (name) => {
    const scans = planOf(SQL[name]).filter((step) =>
      /^SCAN (job|live|past|edge|batch|outcome)\b/.test(step),
    )
    expect(scans.filter((step) => !step.includes('USING'))).toEqual([])
  })
})
