// Owns the promises about jobs that give way to urgent ones: what they lose, and what they do not.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { body, cluster, ignores, logOf, processOn, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const NOT_DONE = { done: false } as const
const PREEMPT = { default: { concurrency: 1, preempt: { minPriority: 80 } } }

describe('a job that gives way to an urgent one', () => {
  it('C13: keeps its place, has lost nothing, and does not run beside its evictor', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: PREEMPT })
    const heard: string[] = []
    const listen = (name: 'job:running' | 'job:preempted' | 'job:ready' | 'job:success') => {
      scheduler.on(name, ({ job }) => {
        if (job === 'L') heard.push(name)
      })
    }
    for (const name of ['job:running', 'job:preempted', 'job:ready', 'job:success'] as const) {
      listen(name)
    }
    const order: string[] = []
    const note = (context: JobContext) => order.push(`${context.job.id} ${runtime.monotonic()}`)
    let aborted = 0
    let reason: unknown
    scheduler.define('long', { preemptible: true }, async (context) => {
      note(context)
      const { signal } = context
      try {
        await takes(runtime, 10_000)(context)
      } catch (error) {
        aborted = runtime.monotonic()
        reason = signal.reason
        await ignores(runtime, 30)()
        throw error
      }
    })
    scheduler.define('urgent', (context) => {
      note(context)
      return takes(runtime, 1_000)(context)
    })
    await scheduler.addJob({ id: 'L', type: 'long', priority: 10 })
    await runtime.advance(1_000)
    await scheduler.addJob({ id: 'H', type: 'urgent', priority: 90 })
    await runtime.advance(500)
    await scheduler.addJob({ id: 'H2', type: 'urgent', priority: 90 })
    await runtime.advance(100)
    await scheduler.addJob({ id: 'E', type: 'long', priority: 10 })
    await pass(scheduler.idle())
    expect(aborted).toBe(1_000)
    expect(reason).toMatchObject({ code: 'PREEMPTED', jobId: 'L', evictor: 'H' })
    expect(order).toEqual(['L 0', 'H 1030', 'H2 2030', 'L 3030', 'E 13030'])
    expect(await scheduler.job('L')).toMatchObject({
      status: 'success',
      preempted: 1,
      attempts: 1,
      lost: 0,
      attemptLog: [{ outcome: 'preempted', callMs: 1_030 }, { outcome: 'success' }],
    })
    expect(await scheduler.job('E')).toMatchObject({ preempted: 0 })
    // `ready` of its submission came before its first start.
    expect(heard).toEqual([
      'job:ready',
      'job:running',
      'job:preempted',
      'job:ready',
      'job:running',
      'job:success',
    ])
  })

  it('has its success all the same, if it comes within its grace', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: PREEMPT, graceMs: '5s' })
    const work = body<string>()
    scheduler.define('long', { preemptible: true }, work.execute)
    const handle = await scheduler.addJob({ type: 'long', priority: 10 })
    await runtime.advance(1)
    const urgent = await scheduler.addJob({ priority: 90, execute: () => runtime.monotonic() })
    await runtime.advance(2_000)
    expect(work.starts[0]?.signal.reason).toMatchObject({ code: 'PREEMPTED' })
    work.end('in time')
    expect(await pass(handle.result())).toBe('in time')
    expect(await pass(urgent.result())).toBe(2_001)
    expect(await handle.job()).toMatchObject({ preempted: 0, attempts: 1 })
  })

  it('is a zombie when it does not stop: its evictor waits for its grace, and no longer', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: PREEMPT, graceMs: '5s' })
    const starts: number[] = []
    scheduler.define('long', { preemptible: true }, ({ attempt }) => {
      starts.push(runtime.monotonic())
      return attempt === 1 ? ignores(runtime, 60_000, 'old')() : 'new'
    })
    const handle = await scheduler.addJob({ type: 'long', priority: 10 })
    await runtime.advance(1_000)
    const urgent = await scheduler.addJob({ priority: 90, execute: () => runtime.monotonic() })
    expect(await pass(urgent.result())).toBe(6_000)
    expect(scheduler.zombies()).toMatchObject([{ id: handle.id, attempt: 1 }])
    expect(await pass(handle.result())).toBe('new')
    expect(starts).toEqual([0, 6_000])
  })

  it('counts as having given way, whatever its body throws when it is told to', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: PREEMPT })
    const work = body<string>()
    scheduler.define('long', { preemptible: true }, work.execute)
    const handle = await scheduler.addJob({ id: 'j', type: 'long', priority: 10 })
    await runtime.advance(1)
    await scheduler.addJob({ priority: 90, execute: () => 'urgent' })
    await runtime.drain()
    work.fail(new Error('something else'))
    await runtime.drain()
    work.end('second')
    expect(await pass(handle.result())).toBe('second')
    expect(await logOf(scheduler, 'j')).toEqual([
      'job:added new>ready',
      'job:running ready>running',
      'job:preempted running>ready',
      'job:running ready>running',
      'job:success running>success',
    ])
  })

  it('is asked about before it runs again, where its type can be asked', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: PREEMPT })
    const asked: number[] = []
    const policy = {
      preemptible: true,
      idempotent: false,
      confirm: async ({ job }: { readonly job: { readonly preempted: number } }) => {
        asked.push(job.preempted)
        return { done: true, result: 'found' } as const
      },
    }
    scheduler.define('long', policy, takes(runtime, 60_000))
    const handle = await scheduler.addJob({ type: 'long', priority: 10 })
    await runtime.advance(1)
    await scheduler.addJob({ priority: 90, execute: () => 'urgent' })
    expect(await pass(handle.result())).toBe('found')
    expect(asked).toEqual([1])
  })

  it('is told at once, though it runs in another process', async () => {
    const { nodes, runtime } = cluster(['w1', 'w2'], { pools: PREEMPT })
    const [w1, w2] = nodes
    const work = body()
    w1.scheduler.define('long', { preemptible: true }, work.execute)
    for (const { scheduler } of nodes) scheduler.define('urgent', () => runtime.monotonic())
    await w1.scheduler.start()
    await w2.scheduler.start()
    await w1.scheduler.addJob({ id: 'L', type: 'long', priority: 10 })
    await runtime.advance(1_000)
    await w2.scheduler.addJob({ id: 'H', type: 'urgent', priority: 90 })
    await runtime.advance(1)
    expect(work.starts[0]?.signal.reason).toMatchObject({ code: 'PREEMPTED', evictor: 'H' })
    work.fail(new Error('told to stop'))
    await runtime.advance(1)
    expect(await w2.scheduler.job('H')).toMatchObject({ status: 'success', result: 1_001 })
  })

  it('is told with its next heartbeat, if nobody could tell it before', async () => {
    const { nodes, runtime, shared, open } = cluster(['w1'], { pools: PREEMPT })
    const [w1] = nodes
    const work = body()
    const deaf = processOn(shared, runtime, true)
    const scheduler = open({ store: deaf.store, runtime: deaf.runtime, leaseMs: 15_000 })
    scheduler.define('long', { preemptible: true }, work.execute)
    await scheduler.addJob({ id: 'L', type: 'long', priority: 10 })
    await runtime.advance(1_000)
    w1.scheduler.define('urgent', () => 'at last')
    await w1.scheduler.start()
    await w1.scheduler.addJob({ id: 'H', type: 'urgent', priority: 90 })
    await runtime.advance(5_000)
    expect(work.starts[0]?.signal.reason).toMatchObject({ code: 'PREEMPTED' })
    work.fail(new Error('told to stop'))
    await runtime.advance(2_000)
    expect((await w1.scheduler.job('H'))?.status).toBe('success')
  })

  it('goes back without a start where its body had not been called yet', async () => {
    const { open, runtime, store } = world()
    const shared = store()
    // What the job builds on is read so slowly that the urgent job comes before its body is called.
    const slow = new Proxy(shared, {
      get(target, name) {
        const value = Reflect.get(target, name) as unknown
        if (typeof value !== 'function') return value
        if (name !== 'get') return value.bind(target)
        return async (ids: readonly string[]) => {
          await ignores(runtime, 500)()
          return target.get(ids)
        }
      },
    })
    const scheduler = open({ store: slow, pools: PREEMPT })
    const starts: string[] = []
    const policy = { preemptible: true, idempotent: false, confirm: async () => NOT_DONE }
    scheduler.define('long', policy, ({ job, attempt }) => {
      starts.push(`${job.id} ${attempt}`)
    })
    scheduler.define('urgent', () => starts.push('urgent'))
    await scheduler.addJob({ id: 'dep', type: 'urgent' })
    await scheduler.addJob({ id: 'L', type: 'long', priority: 10, deps: ['dep'] })
    await runtime.advance(100)
    await scheduler.addJob({ id: 'H', type: 'urgent', priority: 90 })
    await runtime.advance(10_000)
    expect(starts).toEqual(['urgent', 'urgent', 'L 2'])
    expect((await shared.get(['L']))[0]).toMatchObject({
      preempted: 1,
      attempts: 1,
      unknown: false,
    })
  })

  it('and is told so before its worker stops, has given way all the same', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, pools: PREEMPT, graceMs: '5s' })
    const work = body()
    scheduler.define('long', { preemptible: true }, work.execute)
    await scheduler.addJob({ id: 'L', type: 'long', priority: 10 })
    await runtime.advance(1)
    await scheduler.addJob({ id: 'H', priority: 90, execute: () => 'urgent' })
    await runtime.advance(1)
    const closing = scheduler.close({ drainMs: 0 })
    await runtime.advance(1_000)
    work.fail(work.starts[0]?.signal.reason)
    await pass(closing)
    expect((await shared.get(['L']))[0]).toMatchObject({
      status: 'ready',
      preempted: 1,
      attempts: 0,
    })
  })
})

describe('what may give way', () => {
  it('is only a type that says so', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: PREEMPT })
    const handle = await scheduler.addJob({ priority: 10, execute: takes(runtime, 5_000, 'mine') })
    await runtime.advance(1)
    const urgent = await scheduler.addJob({ priority: 90, execute: () => runtime.monotonic() })
    expect(await pass(urgent.result())).toBe(5_000)
    expect(await handle.job()).toMatchObject({ result: 'mine', preempted: 0 })
  })

  it('is a job at most three times', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: PREEMPT })
    let starts = 0
    scheduler.define('long', { preemptible: true }, (context) => {
      starts += 1
      return takes(runtime, 10_000, 'done')(context)
    })
    const handle = await scheduler.addJob({ type: 'long', priority: 10 })
    for (let n = 0; n < 5; n += 1) {
      await runtime.advance(1_000)
      await scheduler.addJob({ priority: 90, execute: () => 'urgent' })
    }
    expect(await pass(handle.result())).toBe('done')
    expect(starts).toBe(4)
    expect(await handle.job()).toMatchObject({ preempted: 3, attempts: 1 })
  })
})

describe('a job that cannot be stopped, where there is no room for one zombie more', () => {
  it('keeps its slot, and the urgent job takes the next that comes free elsewhere', async () => {
    const pools = { p: { concurrency: 2, preempt: { minPriority: 95 } } }
    const { nodes, pass, runtime } = cluster(['a', 'b'], { graceMs: 1_000, maxZombies: 1, pools })
    const [a, b] = nodes
    const starts: string[] = []
    a.scheduler.define('hangs', { timeout: 1_000 }, ignores(runtime, 3_600_000))
    a.scheduler.define('deaf', { pool: 'p', preemptible: true }, ignores(runtime, 3_600_000))
    for (const { scheduler } of nodes) {
      scheduler.define('low', { pool: 'p', priority: 1 }, takes(runtime, 10_000))
      scheduler.define('urgent', { pool: 'p', priority: 95 }, () => {
        starts.push(`urgent ${runtime.monotonic()}`)
      })
      await scheduler.start()
    }
    await a.scheduler.addJob({ type: 'hangs' })
    await a.scheduler.addJob({ id: 'deaf', type: 'deaf', priority: 5 })
    await runtime.advance(3_000)
    await b.scheduler.addJobs([1, 2, 3].map((n) => ({ id: `low ${n}`, type: 'low' })))
    await runtime.advance(1_000)
    await b.scheduler.addJob({ id: 'urgent', type: 'urgent' })
    await runtime.advance(500)
    expect(await b.scheduler.explain('urgent')).toMatchObject({ reason: 'preempting' })
    await runtime.advance(1_000)
    expect(await b.scheduler.explain('urgent')).toMatchObject({ reason: 'pool-full', position: 1 })
    await runtime.advance(10_000)
    expect(starts).toEqual(['urgent 13000'])
    expect((await a.scheduler.snapshot()).pools.p).toMatchObject({ running: 2 })
    await pass(Promise.all(nodes.map(({ scheduler }) => scheduler.close({ drainMs: 0 }))))
  })
})
