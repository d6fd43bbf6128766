// Owns the promise that a file comes into being at once or not at all, whoever dies on the way.

import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { children } from './processes.ts'
import { allJobs, illsOf } from './reading.ts'

const processes = children('creation', { child: 'test/stores/creation/child.ts' })
/** Calls that are put to SQLite until a file has been made. */
let calls: number

beforeAll(async () => {
  const child = start(fresh(), 'first')
  calls = Number(/opened after (\d+)/.exec(await child.said('opened'))?.[1])
  expect(await child.ended).toBe(0)
}, 60_000)

let files = 0

function fresh(): string {
  files += 1
  return join(processes.data, `${files}.db`)
}

function start(file: string, id: string, last?: number) {
  const more = last === undefined ? [] : [String(last)]
  return processes.start(processes.path('child'), { args: [file, id, ...more] })
}

/** Ids that are in the file, which has to be well, and to take one more. */
async function idsIn(file: string): Promise<readonly string[]> {
  const store = sqliteStore(file)
  const scheduler = new AxScheduler({ store, autoStart: false })
  await scheduler.addJob({ id: 'later', type: 'work', timeout: '1s' })
  const jobs = await allJobs(store)
  const ills = (await illsOf(store, file)).filter((ill) => !ill.includes('no-handler'))
  expect(ills, file).toEqual([])
  await scheduler.close()
  await store.close()
  return [...jobs.keys()].filter((id) => id !== 'later').sort()
}

describe('a file that is made', () => {
  it('is well, or not there yet, at whatever call its maker dies', async () => {
    expect(calls).toBeGreaterThan(5)
    for (let last = 1; last <= calls + 1; last += 1) {
      const file = fresh()
      const child = start(file, 'doomed', last)
      expect(await child.ended, child.output()).toBe(null)
      const ids = await idsIn(file)
      // What was stored and not acknowledged may be there.
      expect(ids.filter((id) => id !== 'doomed')).toEqual([])
    }
  }, 120_000)

  it('is made by the other of two who come at once, at whatever call the first dies', async () => {
    let deaths = 0
    for (let last = 1; last <= calls + 1; last += 1) {
      const file = fresh()
      const doomed = start(file, 'doomed', last)
      const other = start(file, 'other')
      expect(await other.ended, other.output()).toBe(0)
      // Where the other one has done the work, there are fewer calls to die at.
      if ((await doomed.ended) === null) deaths += 1
      expect(await idsIn(file)).toContain('other')
    }
    expect(deaths).toBeGreaterThan(calls / 3)
  }, 120_000)
})
