// Owns the promises about bodies that have to show that they are alive, and about what is said of
// those that hang: where they come from, and what they have open.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { body, ignores, logOf, processOn, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const HERE = /test\/engine\/heartbeats\.test\.ts:\d+:\d+$/

describe('a heartbeat', () => {
  it('is shown by progress, and a body that shows it may take as long as it likes', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({
      heartbeat: '1s',
      execute: async (context) => {
        for (let n = 0; n < 20; n += 1) {
          await ignores(runtime, 999)()
          context.progress(n)
        }
        return 'done'
      },
    })
    expect(await pass(handle.result())).toBe('done')
    expect(runtime.monotonic()).toBe(19_980)
  })

  it('that is missing aborts the attempt, which has failed then: HEARTBEAT_LOST', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    const work = takes(runtime, 60_000)
    let reason: unknown
    const handle = await scheduler.addJob({
      id: 'j',
      heartbeat: '1s',
      execute: (context) => {
        context.signal.addEventListener('abort', () => {
          reason = context.signal.reason
        })
        return work(context)
      },
    })
    const error = await fails(handle.result())
    expect(error).toMatchObject({ code: 'HEARTBEAT_LOST', jobId: 'j' })
    expect(error.message).toContain('1000 ms')
    expect(runtime.monotonic()).toBe(1_000)
    expect(reason).toMatchObject({ code: 'HEARTBEAT_LOST', jobId: 'j' })
    expect(await handle.job()).toMatchObject({
      status: 'failed',
      attempts: 1,
      attemptLog: [{ outcome: 'timeout', code: 'HEARTBEAT_LOST', callMs: 1_000 }],
    })
    expect(await logOf(scheduler, 'j')).toContain('job:timeout running>failed')
  })

  it('counts from the start of the body, and from each progress, to the millisecond', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    await scheduler.start()
    await runtime.advance(123)
    const work = body()
    const handle = await scheduler.addJob({ heartbeat: '1s', execute: work.execute })
    await runtime.advance(400)
    work.starts[0]?.progress()
    await runtime.advance(999)
    work.starts[0]?.progress()
    await runtime.advance(999)
    expect(work.starts[0]?.signal.aborted).toBe(false)
    await runtime.advance(1)
    expect(work.starts[0]?.signal.aborted).toBe(true)
    work.fail(new Error('told to stop'))
    expect((await fails(handle.result())).code).toBe('HEARTBEAT_LOST')
  })

  it('is one timer, however often there is progress', async () => {
    const { open, runtime } = world()
    const scheduler = open()
    const work = body()
    await scheduler.addJob({ heartbeat: '1s', timeout: '1m', execute: work.execute })
    await runtime.drain()
    const before = runtime.pending()
    for (let n = 0; n < 1_000; n += 1) work.starts[0]?.progress(n)
    expect(runtime.pending()).toBe(before)
    await runtime.advance(10)
    expect(runtime.pending()).toBe(before)
    work.end(undefined)
    await runtime.drain()
    expect(runtime.pending()).toBe(0)
  })

  it('that comes in the turn in which it was missed is in time: the process was stalled', async () => {
    const { open, pass, runtime, store } = world()
    const process = processOn(store(), runtime)
    const scheduler = open({ store: process.store, runtime: process.runtime })
    const work = body<string>()
    const handle = await scheduler.addJob({ heartbeat: '1s', execute: work.execute })
    await runtime.advance(500)
    process.stall()
    await runtime.advance(60_000)
    process.wake()
    // What arrived during the stall is heard after the timers of that turn, before their ends.
    work.starts[0]?.progress()
    await runtime.advance(900)
    work.end('alive')
    expect(await pass(handle.result())).toBe('alive')
  })

  it('is nothing that a body has to show which was told to stop already', async () => {
    const { open, fails, logs, runtime } = world()
    const scheduler = open({ graceMs: '1m' })
    const work = body()
    const handle = await scheduler.addJob({
      heartbeat: '1s',
      timeout: 500,
      execute: work.execute,
    })
    await runtime.advance(30_000)
    work.fail(new Error('stopped'))
    expect((await fails(handle.result())).code).toBe('EXECUTION_TIMEOUT')
    expect(logs).toEqual([])
  })

  it('that was missed is forgotten by a success in time', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ graceMs: '5s' })
    const work = body<string>()
    const handle = await scheduler.addJob({ heartbeat: '1s', execute: work.execute })
    await runtime.advance(4_000)
    expect(work.starts[0]?.signal.aborted).toBe(true)
    work.end('true')
    expect(await pass(handle.result())).toBe('true')
  })

  it('that was missed is an unknown outcome, which a job that is not idempotent ends with', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({
      heartbeat: '1s',
      retries: 3,
      idempotent: false,
      execute: takes(runtime, 60_000),
    })
    expect((await fails(handle.result())).code).toBe('OUTCOME_UNKNOWN')
  })

  it('that was missed is followed by another attempt, with a heartbeat of its own', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const execute = (context: JobContext) => {
      return context.attempt === 1
        ? takes(runtime, 60_000)(context)
        : takes(runtime, 900, 2)(context)
    }
    const handle = await scheduler.addJob({
      heartbeat: '1s',
      retries: 1,
      backoff: { type: 'fixed', delay: '1s', jitter: false },
      execute,
    })
    expect(await pass(handle.result())).toBe(2)
    expect(runtime.monotonic()).toBe(2_900)
  })

  it('of a type is that of its jobs, unless they say something else', async () => {
    const { open, runtime } = world()
    const scheduler = open()
    const work = body()
    scheduler.define('t', { heartbeat: '1s' }, work.execute)
    await scheduler.addJobs([{ type: 't' }, { type: 't', heartbeat: '3s' }])
    await runtime.advance(2_000)
    expect(work.starts.map(({ signal }) => signal.aborted)).toEqual([true, false])
    await runtime.advance(1_000)
    expect(work.starts[1]?.signal.aborted).toBe(true)
  })

  it('is emitted as progress, whatever its value', async () => {
    const { open, runtime } = world()
    const scheduler = open()
    const heard: unknown[] = []
    scheduler.on('job:progress', (event) => heard.push(event))
    const work = body()
    await scheduler.addJob({ id: 'j', heartbeat: '1s', execute: work.execute })
    await runtime.drain()
    work.starts[0]?.progress({ done: 3 })
    work.starts[0]?.progress()
    expect(heard).toEqual([
      { job: 'j', attempt: 1, value: { done: 3 } },
      { job: 'j', attempt: 1, value: undefined },
    ])
  })
})

describe('what is said of a body that hangs', () => {
  it('names the job, its type, and the place it was started from, when its heartbeat is lost', async () => {
    const { open, logs, runtime } = world()
    const scheduler = open()
    scheduler.define('sync', { heartbeat: '1s' }, takes(runtime, 60_000))
    await scheduler.addJob({ id: 'typed', type: 'sync' })
    await scheduler.addJob({ id: 'own', heartbeat: '2s', execute: takes(runtime, 60_000) })
    await runtime.advance(5_000)
    const own = { attempt: 1, code: 'HEARTBEAT_LOST', startedFrom: expect.stringMatching(HERE) }
    expect(logs).toMatchObject([
      { level: 'warn', fields: { jobId: 'typed', type: 'sync', ...own } },
      { level: 'warn', fields: { jobId: 'own', type: 'task', ...own } },
    ])
    for (const { message } of logs) expect(message).toContain('heartbeats.test.ts:')
    expect(logs[0]?.message).toContain('job typed of type sync has shown no progress for 1000 ms')
  })

  it('is in the list of zombies, and in the event, once its grace is over', async () => {
    const { open, runtime } = world()
    const scheduler = open({ graceMs: '2s' })
    const heard: unknown[] = []
    scheduler.on('job:zombie', (event) => heard.push(event))
    const hangs = ignores(runtime, 60_000)
    scheduler.define('sync', { timeout: '1s' }, hangs)
    await scheduler.addJob({ id: 'typed', type: 'sync' })
    await scheduler.addJob({ id: 'own', heartbeat: '1s', execute: hangs })
    await runtime.advance(3_000)
    const startedFrom = expect.stringMatching(HERE)
    expect(scheduler.zombies()).toMatchObject([
      { id: 'typed', type: 'sync', attempt: 1, startedFrom },
      { id: 'own', type: 'task', attempt: 1, startedFrom },
    ])
    expect(heard).toMatchObject([
      { job: 'typed', startedFrom },
      { job: 'own', startedFrom },
    ])
    await runtime.advance(60_000)
    expect(scheduler.zombies()).toEqual([])
  })

  it('is the line that submitted it, not one of ax, for a batch and in a handler, too', async () => {
    const { open, runtime } = world()
    const scheduler = open({ graceMs: 0 })
    const execute = ignores(runtime, 60_000)
    const lines: number[] = []
    const line = () => Number(/:(\d+):\d+\)?$/.exec(new Error().stack?.split('\n')[2] ?? '')?.[1])
    lines.push(line() + 1)
    await scheduler.addJobs([{ heartbeat: 10, execute }])
    await scheduler.addJob({
      execute: async ({ submit }) => {
        lines.push(line() + 1)
        await submit({ heartbeat: 20, execute })
      },
    })
    await runtime.advance(100)
    const found = scheduler.zombies().map(({ startedFrom }) => startedFrom?.split(':').at(-2))
    expect(found).toEqual(lines.map(String))
  })
})

describe('trackAsync', () => {
  it('names what a body has open, as it is when somebody asks', async () => {
    const { open, logs, runtime } = world()
    const scheduler = open({ trackAsync: true, graceMs: '1s' })
    const heard: { readonly asyncResources?: readonly string[] }[] = []
    scheduler.on('job:zombie', (event) => heard.push(event))
    const timers: NodeJS.Timeout[] = []
    await scheduler.addJob({
      id: 'j',
      heartbeat: '1s',
      execute: async () => {
        await Promise.resolve()
        timers.push(setTimeout(() => {}, 1e9))
        clearTimeout(setTimeout(() => {}, 1e9))
        await null
        timers.push(setInterval(() => {}, 1e9))
        await new Promise(() => {})
      },
    })
    await runtime.advance(1_000)
    expect(logs).toMatchObject([{ fields: { jobId: 'j', asyncResources: ['Timeout x2'] } }])
    expect(logs[0]?.message).toContain('Timeout x2')
    await runtime.advance(1_000)
    expect(heard).toMatchObject([{ asyncResources: ['Timeout x2'] }])
    const [zombie] = scheduler.zombies()
    expect(zombie).toMatchObject({ asyncResources: ['Timeout x2'] })
    // Known for every job of such a scheduler, heartbeat or not.
    expect(zombie?.startedFrom).toMatch(HERE)
    for (const timer of timers) clearTimeout(timer)
    await new Promise<void>((resolve) => setImmediate(resolve))
    expect(scheduler.zombies()).toMatchObject([{ asyncResources: [] }])
    await scheduler.close({ drainMs: 0 })
  })

  it('tells the work of one body from that of another, and from everything else', async () => {
    const { open, runtime } = world()
    const scheduler = open({ trackAsync: true, graceMs: 0 })
    const mine = setTimeout(() => {}, 1e9)
    const timers: NodeJS.Timeout[] = []
    const hangs = (count: number) => async () => {
      for (let n = 0; n < count; n += 1) timers.push(setTimeout(() => {}, 1e9))
      await new Promise(() => {})
    }
    scheduler.define('one', { timeout: 10 }, hangs(1))
    await scheduler.addJob({ id: 'a', type: 'one' })
    await scheduler.addJob({ id: 'b', timeout: 10, execute: hangs(3) })
    await runtime.advance(100)
    expect(scheduler.zombies()).toMatchObject([
      { id: 'a', asyncResources: ['Timeout x1'] },
      { id: 'b', asyncResources: ['Timeout x3'] },
    ])
    for (const timer of [mine, ...timers]) clearTimeout(timer)
    await scheduler.close({ drainMs: 0 })
  })

  it('leaves results, and the context of whoever submitted, as they are', async () => {
    const { AsyncLocalStorage } = await import('node:async_hooks')
    const { open, pass } = world()
    const scheduler = open({ trackAsync: true })
    const storage = new AsyncLocalStorage<string>()
    const handle = await storage.run('mine', () => {
      return scheduler.addJob({ execute: async () => `${await null}${storage.getStore()}` })
    })
    expect(await pass(handle.result())).toBe('nullmine')
    await scheduler.close()
  })

  it('is off unless asked for: then nothing is said of it', async () => {
    const { open, runtime } = world()
    const scheduler = open({ graceMs: 0 })
    await scheduler.addJob({ timeout: 10, execute: ignores(runtime, 1_000) })
    await runtime.advance(100)
    expect(scheduler.zombies()).toMatchObject([{ attempt: 1 }])
    expect(scheduler.zombies()[0]).not.toHaveProperty('asyncResources')
  })
})
