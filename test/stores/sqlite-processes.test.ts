// Owns the promises about several processes on one file: real processes, which end as they like.
// The sources are bundled once, as a child of Node 20 cannot read TypeScript.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'vite'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { root } from '../sources.ts'

/** Within the repository, so that the bundle finds the packages that it loads when it runs. */
const folder = mkdtempSync(join(root, 'node_modules', '.ax-sqlite-'))
const data = mkdtempSync(join(tmpdir(), 'ax-sqlite-processes-'))
const children: ChildProcess[] = []

beforeAll(async () => {
  await build({
    configFile: false,
    logLevel: 'silent',
    build: {
      ssr: true,
      outDir: folder,
      minify: false,
      rollupOptions: {
        input: {
          ax: resolve(root, 'src/index.ts'),
          sqlite: resolve(root, 'src/stores/sqlite/index.ts'),
        },
        output: { entryFileNames: '[name].mjs' },
      },
    },
  })
})

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
  rmSync(data, { recursive: true, force: true })
})

interface Child {
  readonly process: ChildProcess
  /** Resolves with the line that begins so; rejects if the process ends before. */
  said(start: string): Promise<string>
  readonly ended: Promise<number | null>
}

let scripts = 0

/** Runs a script in a process of its own. `file` and `journal` are what the test gives it. */
function start(script: string, file: string, journal: string): Child {
  scripts += 1
  const path = join(folder, `script-${scripts}.mjs`)
  const from = (name: string) => JSON.stringify(pathToFileURL(join(folder, name)).href)
  const head = `
    import { appendFileSync } from 'node:fs'
    import { AxScheduler } from ${from('ax.mjs')}
    import { sqliteStore } from ${from('sqlite.mjs')}
    const store = sqliteStore(${JSON.stringify(file)})
    const note = (text) => appendFileSync(${JSON.stringify(journal)}, text + '\\n')
  `
  writeFileSync(path, head + script)
  const child = spawn(process.execPath, [path])
  children.push(child)
  let out = ''
  let isOver = false
  const waiting = new Set<() => void>()
  const hear = (chunk: Buffer) => {
    out += chunk.toString()
    for (const look of waiting) look()
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const ended = new Promise<number | null>((done) => {
    child.on('close', (code) => {
      isOver = true
      done(code)
      for (const look of waiting) look()
    })
  })
  const said = (text: string) =>
    new Promise<string>((done, fail) => {
      const look = () => {
        const line = out.split('\n').find((each) => each.startsWith(text))
        if (line === undefined && !isOver) return
        waiting.delete(look)
        if (line === undefined) fail(new Error(`it ended without a word of ${text}:\n${out}`))
        else done(line)
      }
      waiting.add(look)
      look()
    })
  return { process: child, said, ended }
}

function linesOf(journal: string): string[] {
  return readFileSync(journal, 'utf8').trim().split('\n')
}

const WORKER = `
  const scheduler = new AxScheduler({ store, concurrency: 8 })
  scheduler.define('work', async ({ payload }) => {
    note(payload.n + ' ' + process.pid)
    await new Promise((done) => setTimeout(done, payload.n % 5))
    return payload.n
  })
  await scheduler.start()
  console.log('started')
  process.on('SIGTERM', () => scheduler.close())
`

const JOBS = 300

describe('processes on one file', () => {
  it('run every job that is submitted, each of them once', async () => {
    const [file, journal] = [join(data, 'crowd.db'), join(data, 'crowd.txt')]
    const workers = [1, 2, 3].map(() => start(WORKER, file, journal))
    await Promise.all(workers.map(({ said }) => said('started')))
    const submitter = start(
      `
        const scheduler = new AxScheduler({ store, autoStart: false })
        const numbers = Array.from({ length: ${JOBS} }, (_, n) => n)
        const jobs = await Promise.all(
          numbers.map((n) => scheduler.addJob({ id: 'j' + n, type: 'work', payload: { n } })),
        )
        const results = await Promise.all(jobs.map((job) => job.result()))
        console.log('sum ' + results.reduce((sum, n) => sum + n, 0))
        await scheduler.close()
      `,
      file,
      journal,
    )
    expect(await submitter.said('sum')).toBe(`sum ${(JOBS * (JOBS - 1)) / 2}`)
    expect(await submitter.ended).toBe(0)
    for (const worker of workers) worker.process.kill('SIGTERM')
    expect(await Promise.all(workers.map(({ ended }) => ended))).toEqual([0, 0, 0])
    const numbers = linesOf(journal).map((line) => Number(line.split(' ')[0]))
    expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: JOBS }, (_, n) => n))
    const store = sqliteStore(file)
    await store.open()
    expect((await store.count()).types.work).toMatchObject({ success: JOBS, ready: 0, running: 0 })
    expect(await store.inspect()).toMatchObject({ damage: [], cycles: [], orphanedKeys: [] })
    await store.close()
  }, 60_000)

  it('run the jobs of one that was killed at once, not when its leases run out', async () => {
    const [file, journal] = [join(data, 'killed.db'), join(data, 'killed.txt')]
    const script = (body: string) => `
      const scheduler = new AxScheduler({ store, leaseMs: '10m' })
      scheduler.define('work', async ({ payload }) => { ${body} })
      await scheduler.start()
      console.log('started')
      process.on('SIGTERM', () => scheduler.close())
    `
    const doomed = start(
      script(`console.log('working'); await new Promise((done) => setTimeout(done, 600_000))`),
      file,
      journal,
    )
    const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
    const job = await scheduler.addJob({ id: 'a', type: 'work', payload: { n: 1 } })
    await doomed.said('working')
    const heir = start(script(`note('1 ' + process.pid); return 'inherited'`), file, journal)
    await heir.said('started')
    doomed.process.kill('SIGKILL')
    expect(await job.result()).toBe('inherited')
    expect(await scheduler.job('a')).toMatchObject({ status: 'success', attempts: 1, lost: 1 })
    await scheduler.close()
    expect(linesOf(journal)).toEqual([`1 ${heir.process.pid}`])
  }, 60_000)
})
