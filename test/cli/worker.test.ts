// Owns `ax worker` as people meet it: real processes on one file, their output, their exit codes.
// May never sleep for luck: it waits for lines and files, and handlers wait for files.

import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../../scripts/prepare.mjs'
import type { JobInput } from '../../src/core/types.ts'
import { AxScheduler } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { blocksOf, readPage, run } from '../pages.ts'
import { startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { Ax, ax, ownFolders } from './helpers.ts'

beforeAll(prepare, 120_000)

const { cleanUps, inFolder } = ownFolders()

/** Handlers that write into a journal what they do; some wait until a file is there. */
const HANDLERS = `
import { appendFileSync, existsSync, readFileSync } from 'node:fs'

const note = (text) => appendFileSync('journal', text + '\\n')
const nap = () => new Promise((resolve) => setTimeout(resolve, 5))

export default {
  work: ({ job }) => note(job.id + ' ' + process.pid),
  meet: async ({ job }) => {
    note(job.id + ' ' + process.pid)
    while (new Set(readFileSync('journal', 'utf8').match(/\\d+$/gm)).size < 2) await nap()
  },
  hold: async ({ job, signal }) => {
    note('begun ' + job.id + ' ' + process.pid)
    while (!existsSync('go ' + job.id)) {
      signal.throwIfAborted()
      await nap()
    }
    note('ended ' + job.id + ' ' + process.pid)
    return process.pid
  },
  deaf: { timeout: '1h', handler: () => new Promise(() => {}) },
  fail: { retries: 1, backoff: { type: 'fixed', delay: 1 }, handler: () => { throw new Error('oh\\nno') } },
}
`

function folderWith(module = HANDLERS): string {
  const folder = inFolder({ 'work.mjs': module })
  mkdirSync(join(folder, '.ax'))
  return folder
}

/** A worker that has said that it is there. Ends with the test, if it has not by then. */
async function worker(folder: string, ...options: readonly string[]): Promise<Ax> {
  const started = new Ax(['worker', 'work.mjs', ...options], folder)
  cleanUps.push(() => started.child.kill('SIGKILL'))
  await started.seen(/Serving|worker:started/)
  return started
}

const clients: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of clients.splice(0)) await close()
})

/** Submits to the store of a folder, and looks; runs nothing. */
function client(folder: string): AxScheduler {
  const store = sqliteStore(join(folder, '.ax', 'ax.db'))
  const scheduler = new AxScheduler({ store, autoStart: false })
  clients.push(async () => {
    await scheduler.close()
    await store.close()
  })
  return scheduler
}

function journalOf(folder: string): string[] {
  const file = join(folder, 'journal')
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
}

async function noted(folder: string, start: string): Promise<string> {
  for (;;) {
    const line = journalOf(folder).find((each) => each.startsWith(start))
    if (line !== undefined) return line
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const manyOf = (type: string, count: number): JobInput[] =>
  Array.from({ length: count }, (_, at) => ({ id: `${type}${at}`, type }))

describe('workers on one file', () => {
  it('share its jobs, and each runs once', async () => {
    const folder = folderWith()
    const workers = await Promise.all([1, 2].map(() => worker(folder, '--concurrency', '1')))
    const scheduler = client(folder)
    // Neither of the first two can end before both workers have one.
    const jobs = [...manyOf('meet', 2), ...manyOf('work', 60)]
    const handles = await scheduler.addJobs(jobs)
    await Promise.all(handles.map((handle) => handle.result()))
    const lines = journalOf(folder).map((line) => line.split(' '))
    expect(lines.map(([id]) => id).sort()).toEqual(jobs.map(({ id }) => id).sort())
    const pids = new Set(lines.map(([, pid]) => Number(pid)))
    expect(pids).toEqual(new Set(workers.map(({ child }) => child.pid)))
    for (const { child } of workers) child.kill('SIGTERM')
    const ends = await Promise.all(workers.map(({ ended }) => ended))
    expect(ends.map(({ code, err }) => [code, err])).toEqual([
      [0, ''],
      [0, ''],
    ])
  }, 60_000)

  it('take over what one that was killed had begun', async () => {
    const folder = folderWith()
    const doomed = await worker(folder)
    const scheduler = client(folder)
    const [first, second] = await scheduler.addJobs(manyOf('hold', 2))
    await noted(folder, 'begun hold0')
    await noted(folder, 'begun hold1')
    const heir = await worker(folder)
    doomed.child.kill('SIGKILL')
    for (const id of ['hold0', 'hold1']) writeFileSync(join(folder, `go ${id}`), '')
    expect(await first?.result()).toBe(heir.child.pid)
    expect(await second?.result()).toBe(heir.child.pid)
    expect(await scheduler.job('hold0')).toMatchObject({ status: 'success', lost: 1, attempts: 1 })
    expect(heir.out).toMatch(/ hold0 +lost +hold {2}attempt 1 {2}LOST/)
    expect(heir.out).toMatch(/ hold0 +running +hold {2}attempt 2/)
  }, 60_000)
})

describe('a worker', () => {
  it('runs no more jobs at once than it was told, over all pools', async () => {
    const folder = folderWith()
    const scheduler = client(folder)
    const jobs = manyOf('hold', 6).map((job, at) => ({ ...job, pool: at % 2 ? 'a' : 'b' }))
    const handles = await scheduler.addJobs(jobs)
    const started = await worker(folder, '-c', '2')
    for (let ended = 0; ended < 6; ended += 1) {
      await started.seen(new RegExp(`(running[^]*){${Math.min(6, ended + 2)}}`))
      const begun = journalOf(folder).filter((line) => line.startsWith('begun'))
      expect(begun).toHaveLength(Math.min(6, ended + 2))
      const id = begun[ended]?.split(' ')[1] as string
      writeFileSync(join(folder, `go ${id}`), '')
      await noted(folder, `ended ${id}`)
    }
    await Promise.all(handles.map((handle) => handle.result()))
  }, 60_000)

  it('tells what fails, and why', async () => {
    const folder = folderWith()
    const started = await worker(folder)
    const handle = await client(folder).addJob({ id: 'bad', type: 'fail' })
    await expect(handle.result()).rejects.toThrow('oh')
    await started.seen(/failed/)
    const lines = [...started.out.matchAll(/^[\d:.]{12} {2}bad +(.*)$/gm)].map(([, rest]) => rest)
    expect(lines).toEqual([
      'running    fail  attempt 1',
      'retry      fail  attempt 1  HANDLER_FAILED: oh',
      'running    fail  attempt 2',
      'failed     fail  attempt 2  HANDLER_FAILED: oh',
    ])
  }, 60_000)

  it('prints a line of JSON for each event with --json, and nothing else', async () => {
    const folder = folderWith()
    const started = await worker(folder, '--json', '--name', 'mailer')
    const scheduler = client(folder)
    await (await scheduler.addJob({ id: 'good', type: 'work' })).result()
    await (await scheduler.addJob({ id: 'bad', type: 'fail', retries: 0 })).result().catch(() => {})
    await started.seen(/job:failed/)
    started.child.kill('SIGINT')
    const { code, out } = await started.ended
    expect(code).toBe(0)
    const events = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(events).toMatchObject([
      { event: 'worker:started', name: 'mailer', pid: started.child.pid },
      { event: 'job:running', job: 'good', type: 'work', from: 'ready', to: 'running', attempt: 1 },
      { event: 'job:success', job: 'good' },
      { event: 'job:running', job: 'bad' },
      { event: 'job:failed', job: 'bad', code: 'HANDLER_FAILED', message: 'oh\nno' },
      { event: 'worker:stopping', running: 0 },
      { event: 'worker:stopped', returned: 0 },
    ])
    expect(events[0].types).toEqual(['work', 'meet', 'hold', 'deaf', 'fail'])
    expect((await scheduler.job('good'))?.attemptLog[0]?.worker).toMatch(/^mailer:/)
    for (const { at } of events) expect(at).toBeTypeOf('number')
  }, 60_000)

  it('that is told to stop starts nothing more, and lets what runs end', async () => {
    const folder = folderWith()
    const started = await worker(folder)
    const scheduler = client(folder)
    const running = await scheduler.addJob({ id: 'a', type: 'hold' })
    await noted(folder, 'begun a')
    started.child.kill('SIGTERM')
    await started.seen(/Stopping: 1 running job has up to 30 s to end\./)
    await scheduler.addJob({ id: 'late', type: 'work' })
    writeFileSync(join(folder, 'go a'), '')
    expect(await running.result()).toBe(started.child.pid)
    const { code, out } = await started.ended
    expect(out).toMatch(/ a +success .*\n.*Stopped\.\n$/)
    expect(code).toBe(0)
    expect(await scheduler.job('late')).toMatchObject({ status: 'ready', attempts: 0 })
  }, 60_000)

  it.each([
    ['told so twice', ['--drain', '1h'], ['SIGTERM', 'SIGINT'] as const],
    ['given no time to drain', ['--drain', '0ms'], ['SIGTERM'] as const],
  ])(
    'that is %s hands back what runs, with no attempt used',
    async (_, options, signals) => {
      const folder = folderWith()
      const started = await worker(folder, ...options)
      const scheduler = client(folder)
      await scheduler.addJob({ id: 'a', type: 'hold' })
      await noted(folder, 'begun a')
      for (const signal of signals) {
        started.child.kill(signal)
        await started.seen(/Stopping/)
      }
      const { code, out } = await started.ended
      expect(out).toMatch(/ a +returned .*\n.*Stopped\. 1 job was handed back\.\n$/)
      expect(code).toBe(130)
      expect(await scheduler.job('a')).toMatchObject({ status: 'ready', attempts: 0, lost: 0 })
      // Whoever comes next runs it.
      writeFileSync(join(folder, 'go a'), '')
      const heir = await worker(folder)
      await heir.seen(/ a +success/)
    },
    60_000,
  )

  it('that is told so a third time leaves at once', async () => {
    const folder = folderWith()
    const started = await worker(folder, '--drain', '1h')
    const scheduler = client(folder)
    await scheduler.addJob({ id: 'a', type: 'deaf' })
    await started.seen(/ a +running/)
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      started.child.kill(signal)
      await started.seen(/Stopping/)
    }
    expect((await started.ended).code).toBe(130)
  }, 60_000)
})

describe('the module of a worker', () => {
  it('may be a function that is given the scheduler', async () => {
    const folder = folderWith(`
      export default async (scheduler) => {
        await scheduler.pool('api').configure({ concurrency: 7 })
        scheduler.define('double', { pool: 'api', retries: 4 }, ({ payload }) => 2 * payload)
        await scheduler.addJob({ id: 'own', type: 'double', payload: 1 })
      }
    `)
    await worker(folder)
    const scheduler = client(folder)
    const handle = await scheduler.addJob({ type: 'double', payload: 21 })
    expect(await handle.result()).toBe(42)
    expect(await handle.job()).toMatchObject({ pool: 'api', retries: 4 })
    expect((await scheduler.snapshot()).pools.api?.concurrency).toBe(7)
    expect(await scheduler.job('own')).toMatchObject({ result: 2 })
  }, 60_000)

  it('may bring its own jobs to a store that nothing survives', async () => {
    const folder = folderWith(`
      export default async (scheduler) => {
        scheduler.define('greet', () => 'hello')
        await scheduler.addJob({ id: 'own', type: 'greet' })
      }
    `)
    const started = await worker(folder, '--store', 'memory')
    await started.seen(/ own +success/)
    started.child.kill('SIGINT')
    expect((await started.ended).code).toBe(0)
    expect(existsSync(join(folder, '.ax', 'ax.db'))).toBe(false)
  }, 60_000)

  it.each([
    ['export default 5', 'The default export is 5. It has to be a function'],
    ['export default [() => {}]', 'It has to be a function'],
    ['export const handlers = {}', 'The module has no default export'],
    ['export default {}', 'It defines no type'],
    ['export default () => {}', 'It defines no type'],
    ['export default () => { throw new Error("broken") }', 'has thrown. Error: broken'],
    ['export default { a: 1 }', '"a": The handler must be a function, got 1.'],
    ['export default { a: { retries: 1 } }', '"a": The handler must be a function'],
    ['export default { a: { handler() {}, retrys: 1 } }', "Did you mean 'retries'?"],
    ['export default {', 'The module cannot be loaded. SyntaxError'],
  ])('is refused where it is %s', async (module, text) => {
    const folder = folderWith(module)
    const { code, out, err } = await ax(['worker', 'work.mjs'], folder)
    expect(err).toContain('This worker cannot run: there is a problem in its file.\n  work.mjs: ')
    expect(err).toContain(text)
    expect(out).toBe('')
    expect(code).toBe(2)
  })

  it('is refused with all that is wrong with it', async () => {
    const folder = folderWith(
      'export default { a: 1, b: () => {}, c: { handler() {}, retries: -1 } }',
    )
    const { code, err } = await ax(['worker', 'work.mjs'], folder)
    expect(err).toMatch(
      /there are 2 problems in its file\.\n {2}work\.mjs: "a".*\n {2}work\.mjs: "c"/,
    )
    expect(code).toBe(2)
  })

  it.each([
    [['none.mjs'], 'none.mjs: There is no such file.'],
    [['wrok.mjs'], "Did you mean 'work.mjs'?"],
    [['.ax'], 'This is a folder.'],
    [
      ['notes.txt'],
      'It is no module: its name does not end in .js, .mjs, .cjs, .ts, .mts or .cts.',
    ],
    [['work.mjs', '--name', ''], 'name must be a text'],
    [['work.mjs', '--concurrency', '0'], 'It must be a whole number of at least 1.'],
    [['work.mjs', '--store', 'nowhere/ax.db'], 'the folder of nowhere/ax.db does not exist'],
    [['work.mjs', '--store', 'mongo://me:secret@localhost'], "there is no store for 'mongo://'"],
  ])('and its options are refused where they are %j', async (args, text) => {
    const folder = folderWith()
    writeFileSync(join(folder, 'notes.txt'), 'nothing')
    const { code, out, err } = await ax(['worker', ...args], folder)
    expect(err).toContain(text)
    expect(err).not.toContain('secret')
    expect(out).toBe('')
    expect(code).toBe(2)
  })
})

describe('docs/worker.md', () => {
  const [handlers = '', submit = '', pooled = ''] = blocksOf(readPage('worker.md'), 'js')

  it('shows a module and a program that work together', async () => {
    const folder = folderWith(handlers)
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(join(import.meta.dirname, '..', '..'), join(folder, 'node_modules', 'ax-scheduler'))
    writeFileSync(join(folder, 'submit.mjs'), submit)
    await worker(folder)
    const { stdout } = await run(process.execPath, ['submit.mjs'], { cwd: folder })
    expect(stdout).toBe('Hello, Ada!\n')
  }, 60_000)

  it('shows a module that sets terms and a schedule', async () => {
    const folder = folderWith(pooled)
    await worker(folder)
    const scheduler = client(folder)
    const job = await scheduler.addJob({ type: 'call', payload: 'this' })
    expect(await job.result()).toBe('this')
    expect((await scheduler.snapshot()).pools.api?.concurrency).toBe(20)
    expect(await scheduler.schedules()).toMatchObject([{ name: 'nightly', cron: '0 3 * * *' }])
  }, 60_000)
})

describeOnRedis('an address of Redis', () => {
  const module = `
    export default async (scheduler) => {
      scheduler.define('greet', ({ payload }) => 'hello ' + payload)
      await scheduler.addJob({ id: 'job of ' + process.pid, type: 'greet', payload: 1 })
    }
  `

  it('is a store that workers share', async () => {
    const { url } = await startRedis()
    const folder = folderWith(module)
    const workers = [await worker(folder, '--store', url), await worker(folder, '--store', url)]
    for (const { child } of workers) {
      const line = new RegExp(` job of ${child.pid} +success`)
      await Promise.race(workers.map((each) => each.seen(line)))
    }
    for (const { child } of workers) child.kill('SIGTERM')
    const ends = await Promise.all(workers.map(({ ended }) => ended))
    expect(ends.map(({ code }) => code)).toEqual([0, 0])
  }, 60_000)

  it('may say which prefix the keys begin with', async () => {
    const { url } = await startRedis()
    const at = await worker(folderWith(module), '--store', `${url}/0?prefix=mail`)
    await at.seen(new RegExp(` job of ${at.child.pid} +success`))
    at.child.kill('SIGTERM')
    expect((await at.ended).code).toBe(0)
    const store = redisStore(url, { prefix: 'mail' })
    const [job] = await store.get([`job of ${at.child.pid}`])
    await store.close()
    expect(job?.status).toBe('success')
    const wrong = ['worker', 'work.mjs', '--store', `${url}?prefix=a%7Bb`]
    const { code, err } = await ax(wrong, folderWith(module))
    expect([code, err.includes('characters without braces')]).toEqual([2, true])
  }, 60_000)

  it('is refused where nobody listens, with no word of its password', async () => {
    const { url, stop } = await startRedis({ requirepass: 'secret' })
    await stop()
    const args = ['worker', 'work.mjs', '--store', url]
    const { code, out, err } = await ax(args, folderWith(module))
    expect(err).toContain(`Redis at ${url.replace(':secret@', '')}: no answer`)
    expect(err).not.toContain('secret')
    expect([code, out]).toEqual([2, ''])
  }, 60_000)
})
