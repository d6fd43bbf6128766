// Owns the promises about stopping: what runs gets its time, what is left goes back unharmed.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import {
  all,
  body,
  codeOf,
  faulty,
  ignores,
  logOf,
  takes,
  watchForLeaks,
  world,
} from './helpers.ts'
import { inMemory } from './stores.ts'

watchForLeaks()

const noop = { execute: () => undefined }

describe('close', () => {
  it('lets what runs finish, and starts nothing more', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, concurrency: 1 })
    const first = await scheduler.addJob({ execute: takes(runtime, 10_000, 'finished') })
    const second = await scheduler.addJob(noop)
    await runtime.advance(1_000)
    const results = [codeOf(first.result()), codeOf(second.result())]
    await pass(scheduler.close())
    expect(runtime.monotonic()).toBe(10_000)
    expect(await Promise.all(results)).toEqual(['finished', 'CLOSED'])
    const other = open({ store: shared, autoStart: false })
    expect((await other.job(first.id))?.status).toBe('success')
    expect((await other.job(second.id))?.status).toBe('ready')
  })

  it('ES-10: aborts what takes longer than drainMs; it goes back to its place, uncharged', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const a = open({ store: shared, concurrency: 2, name: 'a' })
    const b = open({ store: shared, name: 'b', autoStart: false })
    const reasons: unknown[] = []
    a.define('t', async (context) => {
      context.signal.addEventListener('abort', () => reasons.push(context.signal.reason))
      await takes(runtime, 600_000)(context)
    })
    const order: string[] = []
    b.define('t', ({ job, attempt }) => {
      order.push(`${job.id} ${attempt}`)
    })
    const ids = ['one', 'two', 'three', 'four']
    await a.addJobs(ids.map((id) => ({ id, type: 't' })))
    await runtime.advance(1_000)
    await pass(a.close({ drainMs: 500 }))
    expect(runtime.monotonic()).toBe(1_500)
    expect(reasons).toMatchObject([{ code: 'CLOSED' }, { code: 'CLOSED' }])
    expect(await b.job('one')).toMatchObject({ status: 'ready', attempts: 0, lost: 0 })
    expect((await b.job('one'))?.attemptLog).toMatchObject([{ outcome: 'returned', callMs: 1_500 }])
    await b.start()
    await pass(b.idle())
    expect(order).toEqual(['one 2', 'two 2', 'three 1', 'four 1'])
    expect(await b.job('one')).toMatchObject({ status: 'success', attempts: 1 })
  })

  it('C50: hands five jobs over to another worker, at once, with no failure', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const options = { store: shared, leaseMs: '4h', concurrency: 5 }
    const [a, b] = [open(options), open(options)]
    const starts: number[] = []
    a.define('t', takes(runtime, 1e9))
    await a.addJobs(Array.from({ length: 5 }, () => ({ type: 't' })))
    await runtime.advance(1_000)
    b.define('t', () => {
      starts.push(runtime.monotonic())
    })
    await b.start()
    await pass(a.close({ drainMs: 500 }))
    await pass(b.idle())
    expect(starts).toEqual([1_500, 1_500, 1_500, 1_500, 1_500])
    for await (const job of b.jobs()) expect(job).toMatchObject({ attempts: 1, status: 'success' })
  })

  it('waits for the grace of bodies that ignore the abort, and then leaves them', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, graceMs: '5s' })
    const handle = await scheduler.addJob({ execute: ignores(runtime, 600_000, 'late') })
    await runtime.advance(1)
    await pass(scheduler.close({ drainMs: 999 }))
    expect(runtime.monotonic()).toBe(6_000)
    expect(scheduler.zombies()).toHaveLength(1)
    const other = open({ store: shared, autoStart: false })
    expect(await other.job(handle.id)).toMatchObject({ status: 'ready', attempts: 0 })
    await runtime.run()
    expect((await other.job(handle.id))?.status).toBe('ready')
  })

  it('counts a success that arrives within grace', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, graceMs: '5s' })
    const handle = await scheduler.addJob({ execute: ignores(runtime, 2_000, 'made it') })
    await runtime.drain()
    await pass(scheduler.close({ drainMs: 0 }))
    const other = open({ store: shared, autoStart: false })
    expect(await other.job(handle.id)).toMatchObject({ status: 'success', result: 'made it' })
  })

  it('makes the outcome unknown of an aborted job that may not be repeated', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared })
    const job = { idempotent: false, execute: takes(runtime, 600_000) }
    const { id } = await scheduler.addJob(job)
    await runtime.drain()
    await pass(scheduler.close({ drainMs: 100 }))
    const other = open({ store: shared, autoStart: false })
    expect((await other.job(id))?.error?.code).toBe('OUTCOME_UNKNOWN')
  })

  it('lets a draining body add jobs: they are its work', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared })
    scheduler.define('leaf', () => undefined)
    const handle = await scheduler.addJob({
      execute: async (context) => {
        await takes(runtime, 1_000)(context)
        const [leaf] = await context.submit([{ id: 'leaf', type: 'leaf' }])
        return leaf?.id
      },
    })
    await runtime.drain()
    await pass(scheduler.close())
    const other = open({ store: shared, autoStart: false })
    expect(await other.job(handle.id)).toMatchObject({ status: 'success', result: 'leaf' })
    expect((await other.job('leaf'))?.status).toBe('ready')
  })

  it('refuses what comes after it, and may be called again and again', async () => {
    const { open, pass } = world()
    const scheduler = open({ name: 'shop' })
    const handle = await scheduler.addJob({ execute: () => 1 })
    await pass(handle.result())
    await pass(Promise.all([scheduler.close(), scheduler.close()]))
    await pass(scheduler.close())
    for (const attempt of [() => scheduler.addJob(noop), () => scheduler.addJobs([noop])]) {
      const error = await attempt().catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code: 'CLOSED' })
      expect((error as Error).message).toContain('shop')
    }
    expect(await codeOf(handle.result())).toBe('CLOSED')
    expect(await codeOf((async () => scheduler.start())())).toBe('CLOSED')
  })

  it('waits no longer than the shortest drainMs that was asked for', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    await scheduler.addJob({ execute: takes(runtime, 600_000) })
    await runtime.advance(1_000)
    const first = scheduler.close({ drainMs: '1m' })
    await runtime.advance(1_000)
    await pass(Promise.all([first, scheduler.close({ drainMs: '1s' })]))
    expect(runtime.monotonic()).toBe(3_000)
    expect(runtime.pending()).toBe(0)
  })

  it('tells those who wait for idle the truth: CLOSED, unless all is quiet', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared })
    await scheduler.addJob({ execute: takes(runtime, 1_000) })
    await runtime.advance(1)
    const quiet = codeOf(scheduler.idle())
    await pass(scheduler.close())
    expect(await pass(quiet)).toBe(undefined)
    const second = open({ store: shared })
    await second.addJob({ delay: '1h', ...noop })
    const unquiet = codeOf(second.idle())
    await runtime.advance(1_000)
    await pass(second.close())
    expect(await pass(unquiet)).toBe('CLOSED')
  })

  it('answers by a promise, also where it refuses', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const wrong = scheduler.close({ drain: 5 } as never).catch((error: unknown) => error)
    expect(await wrong).toMatchObject({ code: 'INVALID_OPTION' })
    await pass(scheduler.close())
    expect(await scheduler.start().catch((error: unknown) => error)).toMatchObject({
      code: 'CLOSED',
    })
  })

  // Only memory ends with its scheduler.
  if (inMemory())
    it('on a memory store of its own says how many jobs end with it', async () => {
      const { open, pass, warnings } = world()
      const scheduler = open({ name: 'w' })
      await scheduler.addJobs([{ delay: '1h', ...noop }, { deps: ['ghost'], ...noop }, noop])
      await pass(scheduler.close())
      expect(warnings()).toEqual(["2 jobs that have not ended end with the memory store of 'w'."])
      const second = open({ name: 'v' })
      await pass(second.addJob(noop).then((handle) => handle.result()))
      await pass(second.close())
      expect(warnings()).toHaveLength(1)
    })

  it('leaves a store that was passed in open, and says nothing about it', async () => {
    const { open, pass, store, warnings } = world()
    const shared = store()
    const scheduler = open({ store: shared })
    await scheduler.addJob({ delay: '1h', ...noop })
    await pass(scheduler.close())
    expect(warnings()).toEqual([])
    expect((await shared.count()).pools.default?.states.pending).toBe(1)
  })

  it('leaves no timer behind', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    await scheduler.addJob({ delay: '1h', enqueueTimeout: '1h', ...noop })
    await scheduler.addJob({ timeout: '1h', execute: takes(runtime, 100) })
    await pass(scheduler.close())
    expect(runtime.pending()).toBe(0)
  })

  it('before anything was begun does nothing', async () => {
    const { open, pass, runtime } = world()
    await pass(open().close())
    const idle = open({ autoStart: false })
    await idle.snapshot()
    await pass(idle.close())
    expect(runtime.pending()).toBe(0)
  })

  it('is what `await using` does', async () => {
    const { open, pass } = world()
    const scheduler = open()
    await pass(scheduler[Symbol.asyncDispose]())
    expect(await codeOf(scheduler.addJob(noop))).toBe('CLOSED')
  })

  it('ES-08: of a worker that drains claims nothing any more', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const [draining, other] = [open({ store: shared }), open({ store: shared, autoStart: false })]
    const ran: string[] = []
    draining.define('t', async (context) => {
      ran.push(context.job.id)
      await takes(runtime, 10_000)(context)
    })
    await draining.addJob({ id: 'a', type: 't' })
    await runtime.advance(1)
    const closing = draining.close()
    await other.addJobs(['b', 'c'].map((id) => ({ id, type: 't' })))
    await pass(closing)
    await runtime.advance(60_000)
    expect(ran).toEqual(['a'])
    expect((await other.snapshot()).states).toMatchObject({ ready: 2, success: 1 })
  })

  it('does not wait for ever for a store that is away', async () => {
    const { open, pass, runtime, store } = world()
    const link = faulty(store())
    const scheduler = open({ store: link.store, leaseMs: '15s' })
    const work = body()
    await scheduler.addJob({ execute: work.execute })
    await runtime.drain()
    link.decide = () => 'refuse'
    work.end('written nowhere')
    await pass(scheduler.close({ drainMs: '1s' }))
    expect(runtime.monotonic()).toBeLessThanOrEqual(7_000)
    await runtime.advance(2_000)
    expect(runtime.pending()).toBe(0)
  })
})

describe('start', () => {
  it('is implied by the first job, unless autoStart is false', async () => {
    const { open, pass, runtime } = world()
    const lazy = open({ autoStart: false })
    const handle = await lazy.addJob({ execute: () => 'ran' })
    await runtime.advance(60_000)
    expect((await handle.job()).status).toBe('ready')
    await lazy.start()
    await lazy.start()
    expect(await pass(handle.result())).toBe('ran')
  })

  it('is not implied by looking', async () => {
    const { open, runtime, store } = world()
    const shared = store()
    await open({ store: shared, autoStart: false }).addJob({ id: 'a', ...noop })
    const looking = open({ store: shared })
    expect(await all(looking.jobs())).toHaveLength(1)
    await looking.snapshot()
    await runtime.advance(1_000)
    expect((await looking.job('a'))?.status).toBe('ready')
  })

  it('that meets a store that is away may be tried again', async () => {
    const { open, pass, store } = world()
    const link = faulty(store())
    link.decide = () => 'refuse'
    const scheduler = open({ store: link.store })
    expect(await pass(codeOf(scheduler.addJob(noop)))).toBe('STORE_UNAVAILABLE')
    link.decide = () => 'ok'
    const handle = await pass(scheduler.addJob({ execute: () => 'at last' }))
    expect(await pass(handle.result())).toBe('at last')
  })

  it('C58: brings back what a stop has interrupted, at its old place and under the cap', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    let running = 0
    let most = 0
    const order: string[] = []
    const handler = async (context: JobContext<unknown>) => {
      running += 1
      most = Math.max(most, running)
      try {
        await takes(runtime, 100)(context)
        order.push(context.job.id)
      } finally {
        running -= 1
      }
    }
    const first = open({ store: shared, concurrency: 2 })
    first.define('t', handler)
    await first.addJobs(
      Array.from({ length: 10 }, (_, n) => ({ id: `j${n}`, type: 't', priority: 50 - (n % 3) })),
    )
    await runtime.advance(50)
    await pass(first.close({ drainMs: 0 }))
    expect(order).toEqual([])
    const second = open({ store: shared, concurrency: 2 })
    second.define('t', handler)
    await second.start()
    await pass(second.idle())
    expect(most).toBe(2)
    expect(order).toEqual(['j0', 'j3', 'j6', 'j9', 'j1', 'j4', 'j7', 'j2', 'j5', 'j8'])
    expect(new Set(await logOf(second)).has('j0 job:returned running>ready')).toBe(true)
  })
})
