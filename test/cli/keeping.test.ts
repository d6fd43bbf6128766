// Owns how long a run can be resumed, on a clock of the test's own.
// May never wait for time to pass.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { toFlow } from '../../src/cli/flow.ts'
import { load } from '../../src/cli/load.ts'
import { runFlow } from '../../src/cli/run.ts'
import type { Store } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { folderOf } from './helpers.ts'

const DAY = 86_400_000

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

async function bench(flow: string) {
  const { folder, remove } = folderOf({ 'flow.yaml': flow })
  const clock = { days: 0 }
  const now = () => Date.now() + clock.days * DAY
  const store: Store = sqliteStore(join(folder, 'ax.db'), { now })
  await store.open()
  cleanUps.push(() => store.close(), remove)
  const said: string[] = []
  const screen = {
    isLive: false,
    look: () => ({ columns: 80, rows: 24, color: false }),
    show() {},
    print: (lines: readonly string[]) => void said.push(...lines),
    end() {},
  }
  const run = async (stop?: AbortSignal) => {
    said.splice(0)
    const quiet = new AbortController().signal
    const interrupts = { drain: stop ?? quiet, abort: quiet, end() {} }
    const options = { store, isDurable: true, fresh: false, drain: 60_000, screen, interrupts }
    return runFlow(toFlow(await load(join(folder, 'flow.yaml'))), options)
  }
  const ran = () => {
    const file = join(folder, 'ran')
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
  }
  const write = (file: string) => writeFileSync(join(folder, file), '')
  return { clock, run, ran, said, store, write }
}

const FAILS = `
name: nightly
jobs:
  a: { run: 'echo a >> ran' }
  b: { run: 'echo b >> ran; test -f mended', deps: [a] }
`

describe('a run that is not finished', () => {
  it('keeps what has succeeded until 30 days after its last change, not its own', async () => {
    const { clock, run, ran, said, write } = await bench(FAILS)
    expect((await run()).ok).toBe(false)
    clock.days = 20
    expect(await run()).toMatchObject({ run: 1, resumed: true, ok: false })
    clock.days = 45
    write('mended')
    expect(await run()).toMatchObject({ run: 1, resumed: true, ok: true })
    expect(said).toContain('Resuming run 1 of nightly: 1 of 2 jobs are done.')
    expect(ran()).toEqual(['a', 'b', 'b', 'b'])
  })

  it('is forgotten after that, and the next call begins anew', async () => {
    const { clock, run, ran, store } = await bench(FAILS)
    await run()
    clock.days = 31
    const next = await run()
    expect(next).toMatchObject({ resumed: false, ok: false })
    expect(ran()).toEqual(['a', 'b', 'a', 'b'])
    const { jobs } = await store.list({ after: 0, limit: 100, flow: `nightly#${next.run}` })
    expect(jobs.map(({ status }) => status)).toEqual(['success', 'failed'])
  })

  it('is given up after that if it was interrupted, and nothing of it runs any more', async () => {
    const { clock, run, ran, store } = await bench(FAILS)
    const stop = new AbortController()
    stop.abort()
    expect(await run(stop.signal)).toMatchObject({ interrupted: true, resumable: true })
    const before = ran().length
    clock.days = 31
    expect(await run()).toMatchObject({ run: 2, resumed: false })
    const { jobs } = await store.list({ after: 0, limit: 100, flow: 'nightly#1' })
    expect(jobs.every(({ status }) => status === 'cancelled' || status === 'success')).toBe(true)
    expect(ran().length).toBe(before + 2)
  })
})
