// Owns the promises about a store that is away, and about hints that never come: nothing is lost,
// nothing runs twice at once, and everything goes on by itself afterwards.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import {
  body,
  codeOf,
  type Faulty,
  faulty,
  logOf,
  processOn,
  takes,
  watchForLeaks,
  world,
} from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

/** A scheduler whose store tells it nothing of its own accord. */
function deaf(seed = 1, options: object = {}) {
  const base = world(seed)
  const shared = base.store()
  const join = (more: object = {}) => {
    const process = processOn(shared, base.runtime, true)
    const { runtime } = process
    return base.open({ store: process.store, runtime, ...options, ...more })
  }
  return { ...base, shared, join }
}

describe('without a single hint', () => {
  it('everything happens all the same, a poll later', async () => {
    const { join, pass, runtime } = deaf()
    const scheduler = join({ concurrency: 2, graceMs: 100 })
    const order: string[] = []
    const execute = ({ job }: JobContext) => {
      order.push(job.id)
    }
    const fail = () => {
      throw new Error('broken')
    }
    await scheduler.addJobs([
      { id: 'last', deps: ['slow', 'late'], execute },
      { id: 'slow', execute: takes(runtime, 3_000) },
      { id: 'late', delay: '5s', execute },
      { id: 'bad', retries: 1, execute: fail },
      { id: 'doomed', deps: ['bad'], execute },
      { id: 'doomed too', deps: ['doomed'], execute },
      { id: 'lane1', exclusive: 'l', execute },
      { id: 'lane2', exclusive: 'l', execute },
    ])
    await pass(scheduler.idle())
    expect(order.slice().sort()).toEqual(['lane1', 'lane2', 'last', 'late'])
    const { states } = await scheduler.snapshot()
    expect(states).toMatchObject({ success: 5, failed: 1, cancelled: 2 })
    expect(runtime.monotonic()).toBeLessThan(20_000)
    await pass(scheduler.close())
    expect(runtime.pending()).toBe(0)
  })

  it('a cancel by another process reaches the body with the next beat', async () => {
    const { join, pass, runtime } = deaf()
    const [worker, other] = [join(), join({ autoStart: false })]
    const work = body()
    const handle = await worker.addJob({ execute: work.execute })
    await runtime.advance(1_500)
    expect(await other.cancel(handle.id)).toBe(true)
    expect(await other.retry(handle.id)).toBe(false)
    await runtime.advance(6_000)
    expect(work.starts[0]?.signal.reason).toMatchObject({ code: 'CANCELLED' })
    work.end(undefined)
    await runtime.advance(1_500)
    expect(await pass(codeOf(handle.result()))).toBe('CANCELLED')
    expect((await other.snapshot()).pools.default?.running).toBe(0)
    expect(await other.retry(handle.id)).toBe(true)
  })

  it('a follower of the log hears of everything', async () => {
    const { join, pass, runtime } = deaf()
    const scheduler = join()
    const seen: string[] = []
    const reading = (async () => {
      for await (const { event } of scheduler.events({ follow: true })) seen.push(event)
    })()
    await runtime.advance(3_000)
    await scheduler.addJob(noop)
    await runtime.advance(3_000)
    expect(seen).toEqual(['job:added', 'job:running', 'job:success'])
    await pass(scheduler.close())
    await pass(reading)
  })

  it('a worker that is cut off stops its bodies before anybody else can start them', async () => {
    const base = world()
    const shared = base.store()
    const link = faulty(shared)
    const process = processOn(link.store, base.runtime, true)
    const cut = base.open({ store: process.store, runtime: process.runtime, leaseMs: '15s' })
    const other = base.open({ store: shared, leaseMs: '15s' })
    const { runtime } = base
    let running = 0
    const overlaps: number[] = []
    const handler = async (context: JobContext<unknown>) => {
      running += 1
      overlaps.push(running)
      try {
        await takes(runtime, 60_000)(context)
      } finally {
        running -= 1
      }
    }
    cut.define('t', handler)
    await cut.start()
    await cut.addJob({ id: 'j', type: 't' })
    await runtime.advance(2_000)
    expect(running).toBe(1)
    other.define('t', handler)
    await other.start()
    link.decide = () => 'refuse'
    await runtime.advance(90_000)
    expect(overlaps).toEqual([1, 1])
    expect(await other.job('j')).toMatchObject({ status: 'success', lost: 1, attempts: 1 })
    link.decide = () => 'ok'
    await runtime.advance(5_000)
    expect((await cut.snapshot()).states.success).toBe(1)
  })
})

describe('a store that is away for a while', () => {
  const outage = async (seed: number) => {
    const base = world(seed)
    const { runtime, open, pass } = base
    const shared = base.store()
    let trouble = true
    const links: Faulty[] = []
    const scheduler = (name: string) => {
      const link = faulty(shared)
      link.decide = (call) => {
        if (!trouble || call === 'watch' || call === 'open') return 'ok'
        const dice = runtime.random()
        if (dice < 0.15) return 'refuse'
        return dice < 0.3 ? 'lose-answer' : 'ok'
      }
      links.push(link)
      const process = processOn(link.store, runtime, true)
      return open({ store: process.store, runtime: process.runtime, name, concurrency: 4 })
    }
    const [a, b] = [scheduler('a'), scheduler('b')]
    const live = new Map<string, number>()
    let overlap = 0
    const handler = async (context: JobContext<unknown>) => {
      const { id } = context.job
      live.set(id, (live.get(id) ?? 0) + 1)
      overlap = Math.max(overlap, live.get(id) ?? 0)
      try {
        await takes(runtime, Math.floor(runtime.random() * 2_000))(context)
        if (runtime.random() < 0.1) throw new Error('broken')
      } finally {
        live.set(id, (live.get(id) ?? 0) - 1)
      }
    }
    for (const each of [a, b]) {
      each.define('t', { retries: 20 }, handler)
      for (let started = false; !started; ) {
        started = (await pass(codeOf(each.start()))) === undefined
      }
    }
    for (let n = 0; n < 40; n += 1) {
      const deps = n % 5 === 4 ? [`j${n - 1}`] : []
      const job = { id: `j${n}`, type: 't', deps, ...(n % 7 === 0 ? { exclusive: 'lane' } : {}) }
      for (let stored = false; !stored; ) {
        const end = await pass(codeOf(a.addJob(job)))
        stored = end !== 'STORE_UNAVAILABLE'
        await runtime.advance(100)
      }
    }
    await runtime.advance(30_000)
    trouble = false
    await pass(b.idle())
    const { states, pools } = await pass(b.snapshot())
    return { states, overlap, running: pools.default?.running, log: await pass(logOf(b)) }
  }

  for (let seed = 1; seed <= 12; seed += 1) {
    it(`loses nothing and runs nothing twice at once, seed ${seed}`, async () => {
      const { states, overlap, running, log } = await outage(seed)
      expect(states).toMatchObject({ success: 40, ready: 0, running: 0, waiting: 0, pending: 0 })
      expect([overlap, running]).toEqual([1, 0])
      const ends = log.filter((line) => line.includes('>success'))
      expect(new Set(ends).size).toBe(40)
      expect(ends).toHaveLength(40)
    })
  }

  it('leaves callers of result and idle waiting, and nobody hanging', async () => {
    const { open, pass, runtime, store } = world()
    const link = faulty(store())
    const scheduler = open({ store: link.store })
    const work = body<string>()
    const handle = await scheduler.addJob({ execute: work.execute })
    await runtime.drain()
    link.decide = () => 'refuse'
    const result = handle.result()
    const idle = scheduler.idle()
    work.end('there')
    await runtime.advance(30_000)
    link.decide = () => 'ok'
    expect(await pass(result)).toBe('there')
    await pass(idle)
  })

  it('costs a job no attempt that was about to start while its worker stopped', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const link = faulty(shared)
    const scheduler = open({ store: link.store })
    await scheduler.addJob({ id: 'a', execute: takes(runtime, 100) })
    await scheduler.addJob({ id: 'b', deps: ['a'], execute: () => 'never here' })
    // The lease of b is granted, and what b depends on cannot be read.
    link.decide = (call) => (call === 'get' ? 'refuse' : 'ok')
    await runtime.advance(200)
    await pass(scheduler.close({ drainMs: '10s' }))
    const other = open({ store: shared, autoStart: false })
    expect(await other.job('b')).toMatchObject({ status: 'ready', attempts: 0, lost: 0 })
  })

  it('makes no outcome unknown where the body has never begun', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const link = faulty(shared)
    const scheduler = open({ store: link.store })
    await scheduler.addJob({ id: 'a', execute: takes(runtime, 100) })
    const job = { id: 'b', deps: ['a'], idempotent: false, execute: () => 'never here' }
    await scheduler.addJob(job)
    link.decide = (call) => (call === 'get' ? 'refuse' : 'ok')
    await runtime.advance(200)
    await pass(scheduler.close({ drainMs: '10s' }))
    const other = open({ store: shared, autoStart: false })
    expect(await other.job('b')).toMatchObject({ status: 'ready', attempts: 0, lost: 0 })
  })

  it('does not make define, pause or looking leave a rejection behind', async () => {
    const { open, pass, runtime, store } = world()
    const link = faulty(store())
    const scheduler = open({ store: link.store })
    await scheduler.start()
    link.decide = () => 'refuse'
    scheduler.define('t', () => 1)
    const calls = [
      scheduler.pool('default').pause(),
      scheduler.snapshot(),
      scheduler.job('x'),
      scheduler.explain('x'),
      scheduler.cancel('x'),
      scheduler.retry('x'),
      scheduler.addJob({ type: 't' }),
    ]
    const ends = await pass(Promise.all(calls.map(codeOf)))
    expect(new Set(ends)).toEqual(new Set(['STORE_UNAVAILABLE']))
    await runtime.advance(10_000)
    link.decide = () => 'ok'
    const handle = await pass(scheduler.addJob({ type: 't' }))
    expect(await pass(handle.result())).toBe(1)
  })
})

describe('an attempt that no longer counts', () => {
  it('tells no more progress', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ graceMs: 100 })
    const told: unknown[] = []
    scheduler.on('job:progress', ({ value }) => told.push(value))
    const works = [body(), body()]
    const [slow, stopped] = works.map(({ execute }) => ({ execute }))
    const a = await scheduler.addJob({ timeout: 100, ...slow } as never)
    const b = await scheduler.addJob(stopped as never)
    await runtime.advance(10)
    works[0]?.starts[0]?.progress({ at: 'in time' })
    await b.cancel()
    await runtime.advance(1_000)
    expect(await pass(codeOf(a.result()))).toBe('EXECUTION_TIMEOUT')
    for (const work of works) work.starts[0]?.progress({ at: 'too late' })
    expect(told).toEqual([{ at: 'in time' }])
  })
})

describe('records that are kept for no time at all', () => {
  it('are there for whoever waits for them', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: 0, failed: 0, cancelled: 0 } })
    for (let n = 0; n < 20; n += 1) {
      const good = await scheduler.addJob({ execute: takes(runtime, n % 3, n) })
      expect(await pass(good.result())).toBe(n)
    }
    const bad = await scheduler.addJob({ execute: () => Promise.reject(new Error('no')) })
    expect(await pass(codeOf(bad.result()))).toBe('HANDLER_FAILED')
    await scheduler.addJobs([
      { id: 'a', execute: () => 'kept for b' },
      { id: 'b', deps: ['a'], execute: ({ deps }) => deps.a },
    ])
    const b = await scheduler.job('b')
    await pass(scheduler.idle())
    expect(b === null || b.status !== 'cancelled').toBe(true)
    await runtime.advance(1_000)
    expect((await scheduler.snapshot()).total).toBe(0)
  })
})
