// Owns the promises about a real process: what keeps it alive, what it leaves behind, how it ends.
// The sources are bundled once, as a child of Node 20 cannot read TypeScript.

import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { codeOf, watchForLeaks } from './helpers.ts'

watchForLeaks()

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ax-process-'))
  await build({
    configFile: false,
    logLevel: 'silent',
    build: {
      ssr: true,
      outDir: folder,
      minify: false,
      rollupOptions: {
        input: {
          ax: resolve(import.meta.dirname, '../../src/index.ts'),
          timeout: resolve(import.meta.dirname, '../../src/kit/timeout.ts'),
        },
        output: { entryFileNames: '[name].mjs' },
      },
    },
  })
})

afterAll(() => rm(folder, { recursive: true, force: true }))

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

let scripts = 0

/** Runs a script in a process of its own; `on` hears each line that it prints. */
async function run(
  script: string,
  options: { readonly flags?: string[]; readonly signalAt?: string } = {},
): Promise<Ended> {
  scripts += 1
  const file = join(folder, `script-${scripts}.mjs`)
  const head = `import { AxScheduler } from ${JSON.stringify(pathToFileURL(join(folder, 'ax.mjs')))}\n`
  await writeFile(file, head + script)
  const child = spawn(process.execPath, [...(options.flags ?? []), file])
  let out = ''
  let err = ''
  let told = false
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString()
    if (told || options.signalAt === undefined || !out.includes(options.signalAt)) return
    told = true
    child.kill('SIGTERM')
  })
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString()
  })
  const code = await new Promise<number | null>((done) => child.on('close', done))
  return { code, out: out.trim(), err: err.trim() }
}

describe('a process', () => {
  it('hears that a job waits in vain for another one, instead of ending in silence', async () => {
    const { out, err } = await run(`
      const scheduler = new AxScheduler(1)
      const outer = await scheduler.addJob({
        execute: async () => {
          const inner = await scheduler.addJob({ execute: () => 'inner' })
          return inner.result().catch((error) => error.code)
        },
      })
      console.log(await outer.result())`)
    expect([out, err]).toEqual(['NESTED_LIMIT', ''])
  })

  it('with trackAsync names what a body hangs on, down to the socket', async () => {
    const { out, err } = await run(`
      import { createServer, connect } from 'node:net'
      const server = createServer(() => {}).listen(0, '127.0.0.1')
      await new Promise((resolve) => server.on('listening', resolve))
      const scheduler = new AxScheduler({ trackAsync: true, graceMs: 50 })
      let socket
      await scheduler.addJob({
        timeout: 200,
        execute: () => new Promise(() => {
          socket = connect(server.address().port, '127.0.0.1')
        }),
      })
      await new Promise((resolve) => scheduler.on('job:zombie', resolve))
      console.log(JSON.stringify(scheduler.zombies()[0].asyncResources))
      socket.destroy()
      server.close()
      await new Promise((resolve) => socket.on('close', resolve))
      await new Promise((resolve) => setTimeout(resolve, 100))
      console.log(JSON.stringify(scheduler.zombies()[0].asyncResources))
      process.exit()`)
    expect([out, err]).toEqual(['["TCPWRAP x1"]\n[]', ''])
  })

  it('B29: ends by itself when all is done, though nobody has closed anything', async () => {
    const ended = await run(`
      const scheduler = new AxScheduler(2)
      scheduler.define('t', ({ payload }) => payload * 2)
      const handles = await scheduler.addJobs([1, 2, 3].map((payload) => ({ type: 't', payload })))
      console.log(JSON.stringify(await Promise.all(handles.map((handle) => handle.result()))))
    `)
    expect(ended).toEqual({ code: 0, out: '[2,4,6]', err: '' })
  })

  it('B29: stays until a delayed job, and one that backs off, have run', async () => {
    const ended = await run(`
      const scheduler = new AxScheduler()
      await scheduler.addJob({ delay: 150, execute: () => console.log('delayed') })
      await scheduler.addJob({
        retries: 1,
        backoff: { type: 'fixed', delay: 300, jitter: false },
        execute: ({ attempt }) => {
          if (attempt === 1) throw new Error('once')
          console.log('retried')
        },
      })
    `)
    expect(ended).toEqual({ code: 0, out: 'delayed\nretried', err: '' })
  })

  it('B29: does not stay for what cannot happen: ghosts, paused pools, retention', async () => {
    const ended = await run(`
      const scheduler = new AxScheduler({ pools: { shut: { paused: true } } })
      await scheduler.addJob({ deps: ['ghost'], execute() {} })
      await scheduler.addJob({ pool: 'shut', execute() {} })
      await scheduler.addJob({ type: 'unheard-of' })
      await (await scheduler.addJob({ execute: () => 1 })).result()
      scheduler.idle().then(() => console.log('idle'))
      scheduler.on('job:success', () => {})
      console.log('done')
    `)
    expect(ended).toEqual({ code: 0, out: 'done', err: '' })
  })

  it('C48: that is told to stop has nothing left, and ends', async () => {
    const ended = await run(
      `
      const scheduler = new AxScheduler(5)
      const backoff = { type: 'fixed', delay: 10 }
      const jobs = Array.from({ length: 20 }, (_, n) => ({
        timeout: '30s',
        retries: 5,
        backoff,
        execute: async () => { if (n % 2 === 0) throw new Error('broken') },
      }))
      await scheduler.addJobs(jobs)
      await scheduler.idle()
      const stay = setInterval(() => {}, 1_000)
      process.once('SIGTERM', async () => {
        await scheduler.close()
        clearInterval(stay)
        const left = process.getActiveResourcesInfo().filter((kind) => /Timeout|TCP/.test(kind))
        console.log(JSON.stringify(left), process.listenerCount('SIGTERM'))
      })
      console.log('ready')
    `,
      { signalAt: 'ready' },
    )
    expect(ended).toEqual({ code: 0, out: 'ready\n[] 0', err: '' })
  })

  it('survives failures that nobody asks about, and ignored results', async () => {
    const ended = await run(
      `
      const scheduler = new AxScheduler()
      for (const reason of [new Error('x'), undefined, null, 'text', Object.freeze({})]) {
        await scheduler.addJob({ execute: () => Promise.reject(reason) })
      }
      const handle = await scheduler.addJob({ execute: () => { throw new Error('sync') } })
      handle.cancel()
      scheduler.on('job:failed', () => { throw new Error('listener') })
      await scheduler.addJob({ execute: () => Promise.reject(new Error('y')) })
      await scheduler.idle()
      console.log((await scheduler.snapshot()).total)
      await scheduler.close()
    `,
      { flags: ['--unhandled-rejections=strict'] },
    )
    expect(ended.code).toBe(0)
    expect(ended.out).toBe('7')
    expect(ended.err).toContain('a listener of job:failed threw')
  })

  it('C60: is not warned of, or woken by, a delay beyond 2^31 ms', async () => {
    const ended = await run(
      `
      let started = false
      const scheduler = new AxScheduler()
      await scheduler.addJob({ delay: '30d', execute: () => { started = true } })
      await scheduler.addJob({ timeout: '40d', enqueueTimeout: '40d', execute: () => 1 })
      await new Promise((resolve) => setTimeout(resolve, 50))
      await scheduler.close()
      console.log(started)
    `,
      { flags: ['--trace-warnings'] },
    )
    expect(ended.code).toBe(0)
    expect(ended.out).toBe('false')
    expect(ended.err).not.toContain('TimeoutOverflowWarning')
    expect(ended.err).toContain('1 job that has not ended')
  })

  it('C47: awaits idle 20,000 times on a small stack', async () => {
    const ended = await run(
      `
      const scheduler = new AxScheduler()
      for (let n = 0; n < 2_000; n += 1) {
        await scheduler.addJob({ execute() {} })
        await scheduler.idle()
      }
      await Promise.all(Array.from({ length: 20_000 }, () => scheduler.idle()))
      console.log('idle')
    `,
      { flags: ['--stack-size=200'] },
    )
    expect(ended).toEqual({ code: 0, out: 'idle', err: '' })
  })

  it('B04: keeps nothing of 50,000 time limits under one signal, and each of them holds', async () => {
    const ended = await run(
      `
      import { getEventListeners } from 'node:events'
      import { withTimeout } from './timeout.mjs'
      const { signal } = new AbortController()
      const round = async (count) => {
        for (let n = 0; n < count; n += 1) await withTimeout(async () => n, 60_000, { signal })
        gc()
        return process.memoryUsage().heapUsed
      }
      await round(5_000)
      const grown = (await round(50_000)) - (await round(5_000))
      const late = withTimeout(() => new Promise(() => {}), 20, { signal })
      gc()
      const code = await late.catch((error) => error.code)
      console.log(Math.abs(grown) < 2_000_000, getEventListeners(signal, 'abort').length, code)
    `,
      { flags: ['--expose-gc'] },
    )
    expect(ended).toEqual({ code: 0, out: 'true 0 EXECUTION_TIMEOUT', err: '' })
  })

  it('C70: drains 30,000 jobs while its timers still fire', async () => {
    const ended = await run(`
      const scheduler = new AxScheduler(10)
      let ticks = 0
      const timer = setInterval(() => { ticks += 1 }, 5)
      for (let batch = 0; batch < 3; batch += 1) {
        await scheduler.addJobs(Array.from({ length: 10_000 }, (_, n) => ({
          priority: 1 + ((n * 7_919) % 100),
          execute() {},
        })))
      }
      await scheduler.idle()
      clearInterval(timer)
      const { states } = await scheduler.snapshot()
      console.log(states.success, ticks > 5)
    `)
    expect(ended).toEqual({ code: 0, out: '30000 true', err: '' })
  })
})

describe('real time', () => {
  it('B22: a body that blocks the loop beyond its timeout, and returns, has succeeded', async () => {
    const scheduler = new AxScheduler()
    const handle = await scheduler.addJob({
      timeout: 10,
      execute: () => {
        const until = performance.now() + 30
        while (performance.now() < until);
        return 'done'
      },
    })
    expect(await handle.result()).toBe('done')
    await scheduler.close()
  })

  it('ends a body at its timeout, and a job at its time in line', async () => {
    const scheduler = new AxScheduler(1)
    const slow = await scheduler.addJob({
      timeout: 20,
      execute: ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason), { once: true })
        }),
    })
    const impatient = await scheduler.addJob({ enqueueTimeout: 5, execute: () => 1 })
    expect(await codeOf(slow.result())).toBe('EXECUTION_TIMEOUT')
    expect(await codeOf(impatient.result())).toBe('ENQUEUE_TIMEOUT')
    await scheduler.close()
  })
})
