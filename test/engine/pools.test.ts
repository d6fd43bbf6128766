// Owns the promises about pools: caps that change, pauses that last, settings that are stored.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import type { AxScheduler } from '../../src/index.ts'
import { body, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

describe('a pool', () => {
  it('may be paused: what runs goes on, nothing starts; resume starts it at once', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(2)
    const work = body<string>()
    const first = await scheduler.addJob({ execute: work.execute })
    await runtime.drain()
    await scheduler.pool('default').pause()
    const second = await scheduler.addJob({ execute: () => runtime.monotonic() })
    await runtime.advance(60_000)
    expect((await second.job()).status).toBe('ready')
    work.end('went on')
    expect(await pass(first.result())).toBe('went on')
    expect((await scheduler.snapshot()).pools.default?.paused).toBe(true)
    await scheduler.pool('default').resume()
    expect(await pass(second.result())).toBe(60_000)
  })

  it('stays paused for whoever comes later, whatever that one brings along', async () => {
    const { open, pass, store } = world()
    const shared = store()
    const first = open({ store: shared, autoStart: false })
    await first.pool('p').pause()
    await first.pool('p').configure({ concurrency: 3 })
    await pass(first.close())
    const second = open({ store: shared, pools: { p: { concurrency: 7, paused: false } } })
    await second.start()
    expect((await second.snapshot()).pools.p).toMatchObject({ concurrency: 3, paused: true })
    await second.pool('p').resume()
    expect((await second.snapshot()).pools.p).toMatchObject({ concurrency: 3, paused: false })
  })

  it('has what the last process brought along, where no operator has spoken', async () => {
    const { open, store } = world()
    const shared = store()
    await open({ store: shared, concurrency: 3 }).start()
    await open({ store: shared }).start()
    expect((await open({ store: shared }).snapshot()).pools.default?.concurrency).toBe(3)
    await open({ store: shared, concurrency: 4 }).start()
    expect((await open({ store: shared }).snapshot()).pools.default?.concurrency).toBe(4)
  })

  it('C07: lowered ends nothing and starts nothing above; raised starts work at once', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(4)
    let running = 0
    const atStart: number[] = []
    const execute = async (context: JobContext) => {
      running += 1
      atStart.push(running)
      await takes(runtime, 50)(context)
      running -= 1
    }
    await scheduler.addJobs(Array.from({ length: 10 }, () => ({ execute })))
    await runtime.advance(1)
    await scheduler.pool('default').configure({ concurrency: 2 })
    await runtime.advance(50)
    expect(atStart.slice(0, 4)).toEqual([1, 2, 3, 4])
    expect(Math.max(...atStart.slice(4))).toBe(2)
    await scheduler.pool('default').configure({ concurrency: 4 })
    await runtime.drain()
    expect(running).toBe(4)
    await pass(scheduler.idle())
    expect(atStart).toHaveLength(10)
  })

  it('C07: goes from six to one and back to six without getting stuck', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(6)
    await scheduler.addJobs(Array.from({ length: 100 }, () => ({ execute: takes(runtime, 20) })))
    await runtime.advance(30)
    await scheduler.pool('default').configure({ concurrency: 1 })
    await runtime.advance(170)
    expect((await scheduler.snapshot()).pools.default?.running).toBe(1)
    await scheduler.pool('default').configure({ concurrency: 6 })
    await runtime.advance(1)
    expect((await scheduler.snapshot()).pools.default?.running).toBe(6)
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states.success).toBe(100)
  })

  it('B16: never runs more than its cap, whatever is done to it', async () => {
    const { open, pass, runtime } = world(11)
    const scheduler = open({ concurrency: 3, graceMs: 10 })
    let cap = 3
    let running = 0
    let lowered = 0
    const execute = async (context: JobContext) => {
      running += 1
      expect(running).toBeLessThanOrEqual(Math.max(cap, lowered))
      try {
        await takes(runtime, 1 + Math.floor(runtime.random() * 20))(context)
      } finally {
        running -= 1
      }
    }
    const pool = scheduler.pool('default')
    for (let n = 0; n < 300; n += 1) {
      const handle = await scheduler.addJob({ execute })
      const dice = runtime.random()
      if (dice < 0.1) await pool.pause()
      else if (dice < 0.3) await pool.resume()
      else if (dice < 0.5) {
        // Whatever has been granted by now has started.
        await runtime.drain()
        lowered = running
        cap = Math.floor(runtime.random() * 6)
        await pool.configure({ concurrency: cap })
      } else if (dice < 0.6) await handle.cancel()
      await runtime.advance(Math.floor(runtime.random() * 10))
    }
    cap = 5
    await pool.configure({ concurrency: cap })
    await pool.resume()
    await pass(scheduler.idle())
    expect(running).toBe(0)
    const { pools, states } = await scheduler.snapshot()
    expect(pools.default).toMatchObject({ running: 0, ready: 0 })
    expect(states.success + states.cancelled).toBe(300)
  })

  it('B27: refuses a cap that makes no sense, and keeps the old one', async () => {
    const { open } = world()
    const scheduler = open(3)
    const { fails } = world()
    for (const concurrency of [-1, Number.NaN, 1.5, '4' as never, 2 ** 53]) {
      expect(() => open({ concurrency })).toThrowError(/concurrency/)
      const error = await fails(scheduler.pool('default').configure({ concurrency }))
      expect(error.code).toBe('INVALID_OPTION')
    }
    const misspelt = scheduler.pool('default').configure({ concurency: 3 } as never)
    expect((await fails(misspelt)).message).toContain('concurrency')
    await scheduler.start()
    expect((await scheduler.snapshot()).pools.default?.concurrency).toBe(3)
  })

  it('with a cap of nothing lets nothing start', async () => {
    const { open, runtime } = world()
    const scheduler = open(0)
    const handle = await scheduler.addJob(noop)
    await runtime.advance(60_000)
    expect((await handle.job()).status).toBe('ready')
    expect(() => open({ concurrency: 1, pools: { default: { concurrency: 2 } } })).toThrowError(
      /both mean the pool default/,
    )
  })

  it('DQ-17: paused while jobs are retried and fall due, runs them all in rank order after', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const order: string[] = []
    let broken = true
    const execute = ({ job }: JobContext) => {
      if (broken) throw new Error('broken')
      order.push(job.id)
    }
    const failed = await scheduler.addJobs(
      Array.from({ length: 5 }, (_, n) => ({ id: `failed${n}`, priority: 60, execute })),
    )
    await pass(scheduler.idle())
    broken = false
    await scheduler.pool('default').pause()
    await scheduler.addJobs(Array.from({ length: 10 }, (_, n) => ({ id: `ready${n}`, execute })))
    await scheduler.addJobs(
      Array.from({ length: 3 }, (_, n) => ({ id: `due${n}`, delay: '1m', priority: 70, execute })),
    )
    for (const { id } of failed) expect(await scheduler.retry(id)).toBe(true)
    await runtime.advance(120_000)
    expect(order).toEqual([])
    await scheduler.pool('default').resume()
    await pass(scheduler.idle())
    const groups = order.map((id) => id.replace(/\d/, ''))
    expect(groups).toEqual([
      ...Array(3).fill('due'),
      ...Array(5).fill('failed'),
      ...Array(10).fill('ready'),
    ])
  })

  it('B15: drains 10,000 jobs of random priority that were cancelled in part', async () => {
    const { open, pass, runtime } = world(3)
    const scheduler = open({ concurrency: 100, pools: { default: { paused: true } } })
    let ran = 0
    const execute = () => {
      ran += 1
    }
    const jobs = Array.from({ length: 10_000 }, () => ({
      priority: 1 + Math.floor(runtime.random() * 100),
      execute,
    }))
    const handles = await scheduler.addJobs(jobs)
    const half = handles.filter(() => runtime.random() < 0.5)
    await Promise.all(half.map((handle) => handle.cancel()))
    await scheduler.pool('default').resume()
    await pass(scheduler.idle())
    expect(ran).toBe(10_000 - half.length)
  })
})

describe('the limit of one process', () => {
  const pools = { a: { concurrency: 10 }, b: { concurrency: 10 } }

  /** Processes on one store, each with so many jobs at most; who runs how many, and ran. */
  async function fleet(limits: readonly (number | undefined)[]) {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const running = limits.map(() => 0)
    const most = limits.map(() => 0)
    const ran = limits.map(() => 0)
    const schedulers = limits.map((limit, at) => {
      const own = limit === undefined ? {} : { maxRunning: limit }
      const scheduler = open({ store: shared, pools, name: `w${at}`, ...own })
      scheduler.define('work', async (context) => {
        running[at] = (running[at] ?? 0) + 1
        most[at] = Math.max(most[at] ?? 0, running[at] ?? 0)
        await takes(runtime, 100)(context)
        running[at] = (running[at] ?? 0) - 1
        ran[at] = (ran[at] ?? 0) + 1
      })
      return scheduler
    })
    for (const scheduler of schedulers) await pass(scheduler.start())
    return { schedulers, running, most, ran, pass, runtime, open, shared }
  }

  const jobs = Array.from({ length: 40 }, (_, at) => ({ type: 'work', pool: at % 2 ? 'a' : 'b' }))

  it('holds over all its pools, and all jobs run', async () => {
    const { schedulers, most, ran, pass } = await fleet([3])
    const [scheduler] = schedulers as [AxScheduler]
    await scheduler.addJobs(jobs)
    await pass(scheduler.idle())
    expect({ most, ran }).toEqual({ most: [3], ran: [40] })
  })

  it('is the limit of that process alone', async () => {
    const { schedulers, running, most, ran, pass, runtime } = await fleet([2, undefined])
    const [, other] = schedulers as [AxScheduler, AxScheduler]
    await other.addJobs(jobs)
    await runtime.advance(50)
    expect(running[0]).toBeLessThanOrEqual(2)
    expect((running[0] ?? 0) + (running[1] ?? 0)).toBe(20)
    await pass(other.idle())
    expect(most[0]).toBe(2)
    expect((ran[0] ?? 0) + (ran[1] ?? 0)).toBe(40)
  })

  it('leaves jobs ready that others could run, and goes on at each end', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools, maxRunning: 1 })
    const work = body<number>()
    const handles = await scheduler.addJobs([
      { pool: 'a', execute: work.execute },
      { pool: 'b', execute: work.execute },
    ])
    await runtime.advance(60_000)
    expect(work.starts).toHaveLength(1)
    const late = work.starts[0]?.job.pool === 'a' ? 'b' : 'a'
    expect((await scheduler.snapshot()).pools[late]).toMatchObject({ running: 0, ready: 1 })
    work.end(1)
    await runtime.advance(1)
    expect(work.starts).toHaveLength(2)
    work.end(2)
    await pass(scheduler.idle())
    expect(await pass(Promise.all(handles.map((each) => each.result())))).toEqual([1, 2])
  })

  it('needs no word of the store to go on: what it waited for was its own', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const mute = new Proxy(shared, {
      get(target, name) {
        if (name === 'watch') return async () => async () => {}
        const value = Reflect.get(target, name) as unknown
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const client = open({ store: shared, autoStart: false })
    await client.addJobs(jobs)
    const scheduler = open({ store: mute, pools, maxRunning: 3 })
    let ran = 0
    scheduler.define('work', async (context) => {
      await takes(runtime, 10)(context)
      ran += 1
    })
    await pass(scheduler.start())
    await runtime.advance(1_000)
    expect(ran).toBe(jobs.length)
  })
})
