// Owns the promises about processes that stall, restart, share a name or miss a wake-up.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import type { Runtime } from '../../src/kit/runtime.ts'
import type { Store } from '../../src/store/store.ts'
import {
  cluster,
  codeOf,
  ignores,
  processOn,
  startAll,
  takes,
  tapped,
  watchForLeaks,
  world,
} from './helpers.ts'

watchForLeaks()

const LEASE = 15_000

/** A store one of whose calls takes so long to be carried out. */
function slow(store: Store, call: string, runtime: Runtime, ms: number): Store {
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        if (name === call) await new Promise<void>((resolve) => runtime.after(ms, resolve))
        return value.apply(target, args)
      }
    },
  })
}

describe('a whole process that stalls', () => {
  it('C62: does not call its own jobs dead before they had a chance to beat', async () => {
    const options = { leaseMs: 30_000, concurrency: 20 }
    const { nodes, open, pass, runtime, shared } = cluster(['only'], options)
    const [only] = nodes
    let starts = 0
    only.scheduler.define('t', async (context) => {
      starts += 1
      await takes(runtime, 900_000)(context)
      return 'done'
    })
    await only.scheduler.start()
    const handles = await only.scheduler.addJobs(Array.from({ length: 20 }, () => ({ type: 't' })))
    await only.scheduler.addJobs([
      { id: 'cancelled', type: 'u', delay: '1h' },
      { id: 'doomed', type: 'u', deps: ['cancelled'] },
    ])
    await runtime.advance(5_000)
    only.stall()
    // The first thing that it hears when it wakes is that there is housekeeping to do.
    await open({ store: shared, autoStart: false }).cancel('cancelled')
    await runtime.advance(600_000)
    only.wake()
    const results = await pass(Promise.all(handles.map((handle) => handle.result())))
    expect(new Set(results)).toEqual(new Set(['done']))
    expect(starts).toBe(20)
    expect((await only.scheduler.snapshot()).states).toMatchObject({ success: 20, cancelled: 2 })
    for (const { id } of handles) expect((await only.scheduler.job(id))?.lost).toBe(0)
  })

  it('C62: makes up for nothing in a burst: the rate holds in every window, across the stall', async () => {
    const ageing = { every: 1_000, ceiling: 90 }
    const pools = { p: { concurrency: 100, rate: { count: 10, per: '1s' } } }
    const { nodes, pass, runtime } = cluster(['only'], { leaseMs: 30_000, ageing, pools })
    const [only] = nodes
    const starts: number[] = []
    only.scheduler.define('t', { pool: 'p' }, (context) => {
      starts.push(runtime.monotonic())
      return takes(runtime, 5_000)(context)
    })
    const jobs = Array.from({ length: 200 }, () => ({ type: 't' }))
    await only.scheduler.addJobs(jobs)
    await runtime.advance(3_000)
    only.stall()
    await runtime.advance(600_000)
    only.wake()
    await pass(only.scheduler.idle())
    expect(starts).toHaveLength(200)
    expect(starts.at(-1)).toBeGreaterThan(600_000)
    for (const from of starts) {
      expect(starts.filter((at) => at >= from && at < from + 1_000).length).toBeLessThanOrEqual(10)
    }
  })

  it('C62: waits for that chance, too, where a beat takes its time', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const process = processOn(slow(shared, 'extend', runtime, 50), runtime)
    const only = open({ store: process.store, runtime: process.runtime, leaseMs: LEASE })
    only.define('t', takes(runtime, 60_000, 'done'))
    const handle = await only.addJob({ type: 't' })
    const [cancelled] = await only.addJobs([
      { id: 'cancelled', type: 'u', delay: '1h' },
      { id: 'doomed', type: 'u', deps: ['cancelled'] },
    ])
    await runtime.advance(1_000)
    process.stall()
    await open({ store: shared, autoStart: false }).cancel(cancelled?.id ?? '')
    await runtime.advance(30_000)
    process.wake()
    expect(await pass(handle.result())).toBe('done')
    expect(await handle.job()).toMatchObject({ attempts: 1, lost: 0 })
  })

  it('C69: hands a job out once, when its time has come, however often workers restart', async () => {
    const { nodes, open, pass, runtime, shared } = cluster(['w1', 'w2'], { leaseMs: '1h' })
    const [w1, w2] = nodes
    const starts: number[] = []
    const handler = () => {
      starts.push(runtime.monotonic())
    }
    for (const { scheduler } of nodes) scheduler.define('t', handler)
    await startAll(nodes)
    const handle = await w1.scheduler.addJob({ type: 't', delay: '6h' })
    for (let n = 0; n < 11; n += 1) {
      const third = open({ store: shared, leaseMs: '1h' })
      third.define('t', handler)
      await third.start()
      await runtime.advance(30 * 60_000)
      await third.close()
    }
    expect((await w2.scheduler.snapshot()).pools.default?.running).toBe(0)
    await pass(handle.result())
    expect(starts).toEqual([6 * 3_600_000])
  })

  it('ES-07: leaves no lease on what is delayed', async () => {
    const { nodes, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    w1.scheduler.define('t', () => 1)
    await startAll(nodes)
    const handle = await w1.scheduler.addJob({ type: 't', delay: '10m' })
    await runtime.advance(60_000)
    w1.stall()
    await runtime.advance(300_000)
    expect((await w2.scheduler.snapshot()).running).toEqual([])
    expect(await w2.scheduler.job(handle.id)).toMatchObject({ status: 'pending', lost: 0 })
    w1.wake()
    await runtime.advance(300_000)
    expect((await handle.job()).status).toBe('success')
  })

  it('ES-04: takes its jobs up again with the lease it had, if it was only away for a while', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    let starts = 0
    w1.scheduler.define('t', async (context) => {
      starts += 1
      await takes(runtime, 30_000)(context)
      return 'once'
    })
    await startAll(nodes)
    const handle = await w1.scheduler.addJob({ id: 'step', type: 't' })
    await runtime.advance(1_000)
    w1.stall()
    await runtime.advance(LEASE / 3)
    w1.wake()
    expect(await pass(handle.result())).toBe('once')
    expect(starts).toBe(1)
    const again = await w2.scheduler.addJob({ id: 'step', type: 't' })
    expect(again.added).toBe(false)
  })

  it('ES-09: is known by its start, not by its name', async () => {
    const { nodes, pass, runtime } = cluster(['same', 'same'])
    const [first, second] = nodes
    first.scheduler.define('t', ignores(runtime, 1e9))
    await first.scheduler.start()
    const handle = await first.scheduler.addJob({ type: 't' })
    await runtime.advance(1)
    first.stall()
    second.scheduler.define('t', () => 'recovered')
    await second.scheduler.start()
    expect(await pass(second.scheduler.addJob({ type: 't' }).then((each) => each.result()))).toBe(
      'recovered',
    )
    await pass(second.scheduler.idle())
    const job = await second.scheduler.job(handle.id)
    expect(job).toMatchObject({ status: 'success', lost: 1 })
    expect(new Set(job?.attemptLog.map(({ worker }) => worker)).size).toBe(2)
  })

  it('ES-15: has a clock of its own that nobody asks', async () => {
    const { nodes, pass, runtime, shared, open } = cluster(['w1', 'w2'])
    const [w1] = nodes
    const ahead = { ...processOn(shared, runtime).runtime, now: () => runtime.now() + 7_200_000 }
    const fast = open({ store: shared, runtime: ahead, leaseMs: LEASE })
    let starts = 0
    const handler = async (context: JobContext<unknown>) => {
      starts += 1
      await takes(runtime, 60_000)(context)
      return runtime.monotonic()
    }
    w1.scheduler.define('t', handler)
    fast.define('t', handler)
    await w1.scheduler.start()
    await fast.start()
    const delayed = await fast.addJob({ type: 't', delay: '1h' })
    const now = await w1.scheduler.addJob({ type: 't' })
    expect(await pass(now.result())).toBe(60_000)
    expect(await pass(delayed.result())).toBe(3_660_000)
    expect(starts).toBe(2)
  })

  it('ES-18: finds everything that is lost, though much else is overdue before it', async () => {
    const { nodes, runtime } = cluster(['w1', 'keeper'], { concurrency: 3_000 })
    const [w1, keeper] = nodes
    w1.scheduler.define('t', { idempotent: false }, ignores(runtime, 1e9))
    await startAll(nodes)
    await w1.scheduler.addJobs(Array.from({ length: 2_500 }, () => ({ type: 't' })))
    await runtime.advance(100)
    expect((await keeper.scheduler.snapshot()).states.running).toBe(2_500)
    w1.stall()
    await runtime.advance(LEASE + 1_000)
    expect((await keeper.scheduler.snapshot()).states).toMatchObject({ running: 0, failed: 2_500 })
  })
})

describe('wake-ups that get lost', () => {
  it('ES-17: delay a job by a poll, and no more', async () => {
    const { open, pass, runtime, store } = world()
    const process = processOn(store(), runtime, true)
    const scheduler = open({ store: process.store, runtime: process.runtime })
    const starts: number[] = []
    scheduler.define('t', () => {
      starts.push(runtime.monotonic())
      return 'found'
    })
    await scheduler.start()
    await runtime.advance(10_000)
    const handle = await scheduler.addJob({ type: 't' })
    expect(await pass(handle.result())).toBe('found')
    expect(starts[0]).toBeGreaterThanOrEqual(10_000)
    expect(starts[0]).toBeLessThanOrEqual(11_000)
    expect(await codeOf(scheduler.close())).toBe(undefined)
  })

  it('DQ-16: three workers with one slot each all start, when three jobs come at once', async () => {
    const { nodes, runtime } = cluster(['w1', 'w2', 'w3'], { concurrency: 3 })
    for (const { scheduler } of nodes) scheduler.define('t', takes(runtime, 10_000))
    await startAll(nodes)
    await nodes[0].scheduler.addJobs([1, 2, 3].map(() => ({ type: 't' })))
    await runtime.advance(50)
    expect((await nodes[1].scheduler.snapshot()).states.running).toBe(3)
  })

  it('ES-13: do not make idle workers look in step', async () => {
    const { open, runtime, store } = world()
    const looks = new Map<number, number>()
    const inner = tapped(store(), (call) => {
      if (call !== 'lease') return
      looks.set(runtime.monotonic(), (looks.get(runtime.monotonic()) ?? 0) + 1)
    })
    for (let n = 0; n < 20; n += 1) {
      const process = processOn(inner, runtime, true)
      await open({ store: process.store, runtime: process.runtime }).start()
    }
    await runtime.advance(10_000)
    looks.clear()
    await runtime.advance(60_000)
    const counts = [...looks.values()]
    expect(counts.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(20 * 60)
    expect(Math.max(...counts)).toBeLessThanOrEqual(5)
  })
})
