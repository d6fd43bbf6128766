// Owns the promises about idle(): never before all is quiet, never later, and never for nothing.

import { describe, expect, it } from 'vitest'
import { body, ignores, takes, tapped, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

/** Whether a promise has settled, without waiting for it. */
function watch(promise: Promise<unknown>): { settled: boolean } {
  const seen = { settled: false }
  promise.then(() => {
    seen.settled = true
  })
  return seen
}

describe('idle', () => {
  it('B20: resolves at once where there is nothing, and after the last end', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    await pass(scheduler.idle())
    await scheduler.addJobs([10, 30, 20].map((ms) => ({ execute: takes(runtime, ms) })))
    await pass(scheduler.idle())
    expect(runtime.monotonic()).toBe(30)
    await pass(scheduler.idle())
  })

  it('B20: waits for what is delayed, backs off, or is added by what ends', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    let done = 0
    const count = () => {
      done += 1
    }
    await scheduler.addJob({ delay: '1h', execute: count })
    await scheduler.addJob({
      retries: 1,
      backoff: { type: 'fixed', delay: '2h', jitter: false },
      execute: ({ attempt }) => {
        if (attempt === 1) throw new Error('once')
        done += 1
      },
    })
    const last = await scheduler.addJob({ delay: '3h', execute: count })
    void last.result().then(() => scheduler.addJob({ execute: count }))
    await pass(scheduler.idle())
    await pass(scheduler.idle())
    expect(done).toBe(4)
    expect(runtime.monotonic()).toBe(3 * 3_600_000)
  })

  it('B20: resolves when the last job is cancelled, and after its body', async () => {
    const { open, runtime } = world()
    const scheduler = open()
    const work = body()
    const delayed = await scheduler.addJob({ delay: '1h', ...noop })
    const running = await scheduler.addJob({ execute: work.execute })
    await runtime.advance(1)
    const idle = watch(scheduler.idle())
    await delayed.cancel()
    await running.cancel()
    await runtime.advance(100)
    expect(idle.settled).toBe(false)
    work.end(undefined)
    await runtime.advance(1)
    expect(idle.settled).toBe(true)
  })

  it('does not wait for zombies', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ graceMs: 100 })
    await scheduler.addJob({ timeout: 100, execute: ignores(runtime, 60_000) })
    await pass(scheduler.idle())
    expect(runtime.monotonic()).toBe(200)
  })

  it('does not wait for jobs that wait for ids nobody has submitted', async () => {
    const { open, pass, runtime, warnings } = world()
    const scheduler = open()
    await scheduler.addJobs([
      { id: 'a', deps: ['ghost'], ...noop },
      { id: 'b', deps: ['a'], ...noop },
      { id: 'c', ...noop },
    ])
    await pass(scheduler.idle())
    expect(runtime.monotonic()).toBe(0)
    expect((await scheduler.snapshot()).states).toMatchObject({ waiting: 2, success: 1 })
    expect(warnings()).toEqual([])
  })

  it('waits for branches that are about to be cancelled', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const chain = Array.from({ length: 50 }, (_, n) => ({
      id: `${n + 1}`,
      deps: [`${n}`],
      ...noop,
    }))
    await scheduler.addJobs([{ id: '0', delay: '1h', ...noop }, ...chain])
    await scheduler.cancel('0')
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states).toMatchObject({ cancelled: 51, waiting: 0 })
  })

  it('waits for jobs in a paused pool, and says so after five seconds, once', async () => {
    const { open, pass, runtime, warnings } = world()
    const scheduler = open({ pools: { reports: { paused: true } } })
    await scheduler.addJobs([1, 2].map(() => ({ pool: 'reports', ...noop })))
    const idle = scheduler.idle()
    const seen = watch(idle)
    await runtime.advance(4_999)
    expect(warnings()).toEqual([])
    await runtime.advance(60_000)
    expect(warnings()).toHaveLength(1)
    expect(warnings()[0]).toMatch(/2 ready jobs .*reports.*resume/)
    expect(seen.settled).toBe(false)
    await scheduler.pool('reports').resume()
    await pass(idle)
  })

  it('names a pool that is paused later, and again once it is paused anew', async () => {
    const { open, pass, runtime, warnings } = world()
    const scheduler = open()
    await scheduler.addJob({ execute: takes(runtime, 20_000) })
    const idle = scheduler.idle()
    await runtime.advance(8_000)
    await scheduler.pool('default').pause()
    await scheduler.addJob(noop)
    await runtime.advance(600_000)
    expect(warnings()).toEqual([
      "idle() waits for 1 ready job in the paused pool 'default'. " +
        "Resume it with pool('default').resume().",
    ])
    await scheduler.pool('default').configure({ concurrency: 0, paused: false })
    await runtime.advance(1)
    await scheduler.pool('default').configure({ concurrency: 1 })
    await pass(idle)
    await scheduler.pool('default').pause()
    await scheduler.addJob(noop)
    const again = watch(scheduler.idle())
    await runtime.advance(5_000)
    expect([warnings().length, again.settled]).toEqual([2, false])
  })

  it('names a pool, and a type, with a concurrency of 0', async () => {
    const { open, runtime, warnings } = world()
    const scheduler = open({ pools: { z: { concurrency: 0 } }, types: { t: { concurrency: 0 } } })
    scheduler.define('t', () => {})
    await scheduler.addJobs([{ pool: 'z', ...noop }, { type: 't' }])
    void watch(scheduler.idle())
    await runtime.advance(600_000)
    expect(warnings()).toEqual([
      "idle() waits for 1 ready job in the pool 'z', which has a concurrency of 0. " +
        "Raise it with pool('z').configure({ concurrency: 10 }).",
      "idle() waits for 1 ready job of the type 't', which has a concurrency of 0. " +
        "Give it another, in types or in define('t', ...).",
    ])
  })

  it('is not spoken of where only the event is waited for', async () => {
    const { open, runtime, warnings } = world()
    const scheduler = open({ pools: { default: { paused: true } } })
    scheduler.on('idle', () => {})
    await scheduler.addJob(noop)
    await runtime.advance(6_000)
    expect(warnings()).toHaveLength(1)
    expect(warnings()[0]).toMatch(/^The event 'idle' waits for 1 ready job in the paused pool/)
  })

  it('waits for jobs whose type nobody serves, and says so after five seconds', async () => {
    const { open, pass, runtime, warnings } = world()
    const scheduler = open()
    const { id } = await scheduler.addJob({ type: 'thumbnail' })
    const idle = scheduler.idle()
    await runtime.advance(6_000)
    expect(warnings()).toHaveLength(1)
    expect(warnings()[0]).toContain(id)
    expect(warnings()[0]).toContain("'thumbnail'")
    await scheduler.cancel(id)
    await pass(idle)
  })

  it('names a type without a handler also behind many jobs that have one', async () => {
    const { open, runtime, warnings } = world()
    const scheduler = open(1)
    await scheduler.addJob({ execute: takes(runtime, 60_000) })
    await scheduler.addJobs([...Array.from({ length: 5 }, () => noop), { type: 'thumbnail' }])
    const idle = watch(scheduler.idle())
    await runtime.advance(6_000)
    expect(warnings().join()).toContain("'thumbnail'")
    expect(idle.settled).toBe(false)
  })

  it('looks through no jobs for a warning where somebody serves each type', async () => {
    const { open, runtime, store, warnings } = world()
    const asked: string[] = []
    const scheduler = open({ store: tapped(store(), (call) => asked.push(call)), concurrency: 1 })
    scheduler.define('t', { timeout: '1h' }, takes(runtime, 60_000))
    await scheduler.addJobs(Array.from({ length: 20 }, () => ({ type: 't' })))
    const idle = watch(scheduler.idle())
    await runtime.advance(30_000)
    expect(asked).toContain('workers')
    expect(asked).not.toContain('list')
    expect(warnings()).toEqual([])
    expect(idle.settled).toBe(false)
  })

  it('is about the whole store', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const [a, b] = [open({ store: shared }), open({ store: shared })]
    a.define('t', takes(runtime, 5_000))
    await a.start()
    await b.addJob({ type: 't' })
    await pass(b.idle())
    expect(runtime.monotonic()).toBe(5_000)
  })

  it('C47: may be awaited 20,000 times at once, and one after another', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    for (let n = 0; n < 500; n += 1) {
      await scheduler.addJob(noop)
      await pass(scheduler.idle())
    }
    await scheduler.addJob({ execute: takes(runtime, 10) })
    let resolved = 0
    const idle = Array.from({ length: 20_000 }, () =>
      scheduler.idle().then(() => {
        resolved += 1
      }),
    )
    await pass(Promise.all(idle))
    expect(resolved).toBe(20_000)
    expect(runtime.pending()).toBe(0)
  })

  it('C37: resolves after jobs that wait for nothing', async () => {
    const { open, pass } = world()
    const scheduler = open()
    await scheduler.addJobs([
      { deps: [], ...noop },
      { deps: [], depMode: 'any', ...noop },
    ])
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states.success).toBe(2)
  })
})
