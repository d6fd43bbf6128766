// Owns the promises about time: timeouts, grace, zombies, waits in line, long delays, clocks.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { body, codeOf, ignores, listeners, logOf, takes, watchForLeaks, world } from './helpers.ts'
import { inMemory } from './stores.ts'

watchForLeaks()

const DAY = 86_400_000

describe('a timeout', () => {
  it('aborts the body, and the job fails when the body has settled', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({ timeout: '1s', execute: takes(runtime, 5_000) })
    const error = await fails(handle.result())
    expect(error).toMatchObject({ code: 'EXECUTION_TIMEOUT', jobId: handle.id })
    expect(runtime.monotonic()).toBe(1_000)
    expect((await handle.job()).attemptLog).toMatchObject([{ outcome: 'timeout', callMs: 1_000 }])
    expect(scheduler.zombies()).toEqual([])
    expect(await logOf(scheduler, handle.id)).toContain('job:timeout running>failed')
  })

  it('that the body survives within its grace was none: its success is the truth', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 1, graceMs: '5s' })
    const work = body<string>()
    const handle = await scheduler.addJob({ timeout: '1s', execute: work.execute })
    const next = await scheduler.addJob({ execute: () => runtime.monotonic() })
    await runtime.advance(4_000)
    expect(work.starts[0]?.signal.aborted).toBe(true)
    expect((await handle.job()).status).toBe('running')
    work.end('late, but true')
    expect(await pass(handle.result())).toBe('late, but true')
    expect(await pass(next.result())).toBe(4_000)
  })

  it('outweighs what the body throws within its grace', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    const work = body()
    const handle = await scheduler.addJob({ timeout: '1s', execute: work.execute })
    await runtime.advance(2_000)
    work.fail(new Error('something else'))
    expect((await fails(handle.result())).code).toBe('EXECUTION_TIMEOUT')
  })

  it('is counted per attempt, from its start', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const starts: number[] = []
    const handle = await scheduler.addJob({
      timeout: '1s',
      retries: 1,
      backoff: { type: 'fixed', delay: '10s', jitter: false },
      execute: async (context) => {
        starts.push(runtime.monotonic())
        await takes(runtime, context.attempt === 1 ? 5_000 : 999)(context)
        return 'in time'
      },
    })
    expect(await pass(handle.result())).toBe('in time')
    expect(starts).toEqual([0, 11_000])
    expect(await logOf(scheduler, handle.id)).toContain('job:timeout running>pending')
  })

  it('C23: does not run while the job waits for its slot', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    await scheduler.addJob({ execute: takes(runtime, 600_000) })
    const handle = await scheduler.addJob({ timeout: '180s', execute: takes(runtime, 1_000, 'ok') })
    expect(await pass(handle.result())).toBe('ok')
    expect((await handle.job()).attemptLog).toMatchObject([{ queuedMs: 600_000, callMs: 1_000 }])
  })

  it('C23: gives the second attempt a full allowance of its own', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const handle = await scheduler.addJob({
      timeout: '180s',
      retries: 1,
      execute: async (context) => {
        await takes(runtime, 170_000)(context)
        if (context.attempt === 1) throw new Error('once')
        return 'ok'
      },
    })
    expect(await pass(handle.result())).toBe('ok')
    expect((await handle.job()).attempts).toBe(2)
  })

  it('makes the outcome unknown where a job may not be repeated', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({
      timeout: '1s',
      retries: 5,
      idempotent: false,
      execute: takes(runtime, 5_000),
    })
    expect((await fails(handle.result())).code).toBe('OUTCOME_UNKNOWN')
    expect((await handle.job()).attempts).toBe(1)
  })

  it('leaves ordinary failures of such a job to its retries', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const execute = ({ attempt }: JobContext) => {
      if (attempt === 1) throw new Error('certainly not done')
      return 'done'
    }
    const handle = await scheduler.addJob({ retries: 1, idempotent: false, execute })
    expect(await pass(handle.result())).toBe('done')
  })

  it('B22: leaves a body whose I/O is done one turn to say so', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ graceMs: 0 })
    let aborted: boolean | undefined
    const execute = ({ signal }: JobContext) =>
      new Promise<string>((resolve) => {
        // What has arrived by the deadline is heard right after the timers of that turn.
        runtime.after(999, () => {
          runtime.after(1, () => runtime.soon(() => resolve('had arrived')))
          runtime.soon(() => {
            aborted = signal.aborted
          })
        })
        runtime.after(1_000, () => {
          aborted = signal.aborted
        })
      })
    const handle = await scheduler.addJob({ timeout: '1s', execute })
    expect(await pass(handle.result())).toBe('had arrived')
    expect(aborted).toBe(false)
  })

  it('leaves no timer and no listener behind when the body is in time', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    let signal = new AbortController().signal
    const handle = await scheduler.addJob({
      timeout: '1h',
      execute: (context) => {
        signal = context.signal
      },
    })
    await pass(handle.result())
    expect(runtime.pending()).toBe(0)
    expect(listeners(signal)).toBe(0)
  })
})

describe('a body that does not stop', () => {
  it('B08: holds its slot until its grace is over, and then it is a zombie', async () => {
    const { open, fails, pass, runtime } = world()
    const scheduler = open({ concurrency: 1, graceMs: '5s' })
    const zombies: unknown[] = []
    scheduler.on('job:zombie', (event) => zombies.push(event))
    const t0 = runtime.now()
    const work = body<string>()
    const handle = await scheduler.addJob({ id: 'z', timeout: '1s', execute: work.execute })
    const next = await scheduler.addJob({ execute: () => runtime.monotonic() })
    expect((await fails(handle.result())).code).toBe('EXECUTION_TIMEOUT')
    expect(runtime.monotonic()).toBe(6_000)
    expect(await pass(next.result())).toBe(6_000)
    expect(zombies).toMatchObject([{ job: 'z', attempt: 1 }])
    expect(scheduler.zombies()).toEqual([
      {
        id: 'z',
        type: 'task',
        attempt: 1,
        startedAt: t0,
        since: t0 + 6_000,
        worker: expect.stringMatching(/^ax:/),
      },
    ])
    expect((await scheduler.snapshot()).zombies).toBe(1)
    work.end('far too late')
    await runtime.drain()
    expect(scheduler.zombies()).toEqual([])
    expect(await handle.job()).toMatchObject({ status: 'failed' })
    expect('result' in (await handle.job())).toBe(false)
  })

  it('B08: is not joined by its next attempt before its grace is over', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 10, graceMs: '5s' })
    const starts: number[] = []
    const handle = await scheduler.addJob({
      timeout: '1s',
      retries: 1,
      backoff: { type: 'fixed', delay: 0 },
      execute: ({ attempt }) => {
        starts.push(runtime.monotonic())
        return attempt === 1 ? ignores(runtime, 60_000, 'old')() : 'new'
      },
    })
    expect(await pass(handle.result())).toBe('new')
    expect(starts).toEqual([0, 6_000])
    await runtime.run()
    expect(await handle.job()).toMatchObject({ status: 'success', result: 'new', attempts: 2 })
  })

  it('B08: rejects late without anybody hearing of it', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open({ graceMs: 100 })
    const work = body()
    const handle = await scheduler.addJob({ timeout: 100, execute: work.execute })
    await fails(handle.result())
    work.fail(new Error('late'))
    await runtime.drain()
    expect((await handle.job()).error?.code).toBe('EXECUTION_TIMEOUT')
    expect(scheduler.zombies()).toEqual([])
  })

  it('counts towards maxZombies: with so many, nothing more starts here', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 5, graceMs: 0, maxZombies: 2 })
    const works = [body(), body()]
    await scheduler.addJobs(works.map(({ execute }) => ({ timeout: 100, execute })))
    await runtime.advance(200)
    expect(scheduler.zombies()).toHaveLength(2)
    const next = await scheduler.addJob({ execute: () => 'at last' })
    await runtime.advance(60_000)
    expect((await next.job()).status).toBe('ready')
    works[0]?.end(undefined)
    expect(await pass(next.result())).toBe('at last')
    expect(scheduler.zombies()).toHaveLength(1)
  })
})

describe('the time in line', () => {
  it('has a bound where a job says so: then it fails, uncharged, and is not tried again', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open(1)
    await scheduler.addJob({ execute: takes(runtime, 60_000) })
    const handle = await scheduler.addJob({
      enqueueTimeout: '5s',
      retries: 3,
      execute: () => 'never',
    })
    const error = await fails(handle.result())
    expect(error).toMatchObject({ code: 'ENQUEUE_TIMEOUT', jobId: handle.id })
    expect(runtime.monotonic()).toBe(5_000)
    expect(await handle.job()).toMatchObject({ status: 'failed', attempts: 0, attemptLog: [] })
  })

  it('does not count time that a job is delayed, or waits for others', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(2)
    await scheduler.addJob({ id: 'a', execute: takes(runtime, 20_000) })
    const delayed = await scheduler.addJob({
      delay: '30s',
      enqueueTimeout: '1s',
      execute: () => 'delayed',
    })
    const waiting = await scheduler.addJob({
      deps: ['a'],
      enqueueTimeout: '1s',
      execute: () => 'waited',
    })
    expect(await pass(Promise.all([delayed.result(), waiting.result()]))).toEqual([
      'delayed',
      'waited',
    ])
  })

  it('counts while the pool is paused, and takes the branch along', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open({ pools: { default: { paused: true } } })
    const execute = () => 'never'
    const a = await scheduler.addJob({ id: 'a', enqueueTimeout: '5s', execute })
    const b = await scheduler.addJob({ id: 'b', deps: ['a'], execute })
    expect((await fails(a.result())).code).toBe('ENQUEUE_TIMEOUT')
    expect((await fails(b.result())).code).toBe('DEPENDENCY_FAILED')
    expect(runtime.monotonic()).toBe(5_000)
  })

  it('is counted anew for each attempt', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const handle = await scheduler.addJob({
      enqueueTimeout: '5s',
      retries: 1,
      backoff: { type: 'fixed', delay: '1s', jitter: false },
      execute: ({ attempt }) => {
        if (attempt === 1) throw new Error('once')
        return runtime.monotonic()
      },
    })
    await runtime.drain()
    await scheduler.addJob({ execute: takes(runtime, 5_500) })
    expect(await pass(handle.result())).toBe(5_500)
  })

  it('C22: of a job that expired costs no slot', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const execute = () => runtime.monotonic()
    await scheduler.addJob({ execute: takes(runtime, 1_000) })
    const b = await scheduler.addJob({ enqueueTimeout: 100, execute })
    const c = await scheduler.addJob({ execute })
    expect(await pass(codeOf(b.result()))).toBe('ENQUEUE_TIMEOUT')
    expect(runtime.monotonic()).toBe(100)
    expect(await pass(c.result())).toBe(1_000)
    const d = await scheduler.addJob({ execute })
    expect(await pass(d.result())).toBe(1_000)
    expect((await scheduler.snapshot()).pools.default).toMatchObject({ running: 0, ready: 0 })
  })
})

describe('long times', () => {
  it('C60: beyond 2^31-1 ms are honoured to the millisecond, with few wake-ups', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const backoff = { type: 'fixed', delay: '60d', max: '60d', jitter: false } as const
    const starts: number[] = []
    const t0 = runtime.now()
    const late = await scheduler.addJob({
      availableAt: t0 + 30 * DAY,
      execute: () => runtime.monotonic(),
    })
    const failing = await scheduler.addJob({
      retries: 1,
      backoff,
      execute: ({ attempt }) => {
        starts.push(runtime.monotonic())
        if (attempt === 1) throw new Error('once')
      },
    })
    expect(await pass(late.result())).toBe(30 * DAY)
    await pass(failing.result())
    expect(starts).toEqual([0, 60 * DAY])
  })

  // Forty days of heartbeats: 800,000 transactions.
  if (inMemory())
    it('B06: of a running body are honoured as well', async () => {
      const { open, pass, runtime } = world()
      const scheduler = open()
      const handle = await scheduler.addJob({ timeout: '40d', execute: takes(runtime, 41 * DAY) })
      expect(await pass(codeOf(handle.result()))).toBe('EXECUTION_TIMEOUT')
      expect(runtime.monotonic()).toBe(40 * DAY)
    })

  it('B06: that make no sense are refused', async () => {
    const { open, fails } = world()
    const scheduler = open({ autoStart: false })
    for (const timeout of [Number.NaN, -1, '5 parsecs', 2 ** 53]) {
      const error = await fails(scheduler.addJob({ type: 't', timeout }))
      expect(error.code).toBe('INVALID_JOB')
      expect(error.message).toContain('timeout')
    }
  })

  // A file has no clock but the wall: see test/stores/sqlite-files.test.ts.
  if (inMemory())
    it('B07: and a jump of the wall clock touches no timeout, no delay, no order, and no measured duration', async () => {
      for (const ms of [-3_600_000, 3_600_000]) {
        const { open, pass, runtime } = world()
        const scheduler = open(1)
        const slow = await scheduler.addJob({
          timeout: '10s',
          execute: takes(runtime, 5_000, 'in time'),
        })
        const delayed = await scheduler.addJob({ delay: '20s', execute: () => runtime.monotonic() })
        await runtime.advance(1_000)
        runtime.jump(ms)
        const after = await scheduler.addJob({ execute: () => runtime.monotonic() })
        expect(await pass(slow.result())).toBe('in time')
        expect(await pass(after.result())).toBe(5_000)
        expect(await pass(delayed.result())).toBe(20_000)
        expect((await slow.job()).attemptLog).toMatchObject([{ callMs: 5_000 }])
        expect((await after.job()).attemptLog).toMatchObject([{ queuedMs: 4_000, callMs: 0 }])
      }
    })
})
