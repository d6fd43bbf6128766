// Owns the promises about keys and lanes: one job per key, one at a time per lane.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { body, codeOf, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

describe('a key', () => {
  it('C31: belongs to the first job until that has ended, however it ends', async () => {
    const { open, pass, runtime, fails } = world()
    const scheduler = open(2)
    let starts = 0
    const duplicates: unknown[] = []
    scheduler.on('job:duplicate', (event) => duplicates.push(event))
    const good = async (context: JobContext) => {
      starts += 1
      await takes(runtime, 50)(context)
      return 'good'
    }
    const bad = () => {
      starts += 1
      throw new Error('for good')
    }
    const [j1, twin] = await Promise.all([
      scheduler.addJob({ key: 'a', execute: good }),
      scheduler.addJob({ key: 'a', execute: good }),
    ])
    await runtime.advance(20)
    const third = await scheduler.addJob({ key: 'a', execute: good })
    expect([j1.added, twin.added, third.added]).toEqual([true, false, false])
    expect([twin.id, third.id]).toEqual([j1.id, j1.id])
    expect(await pass(Promise.all([j1, twin, third].map((each) => each.result())))).toEqual([
      'good',
      'good',
      'good',
    ])
    expect(duplicates).toEqual([
      { job: j1.id, key: 'a' },
      { job: j1.id, key: 'a' },
    ])
    const j2 = await scheduler.addJob({ key: 'a', execute: bad })
    await fails(j2.result())
    await scheduler.pool('default').pause()
    const j3 = await scheduler.addJob({ key: 'a', execute: good })
    await j3.cancel()
    await scheduler.pool('default').resume()
    const j4 = await scheduler.addJob({ key: 'a', execute: good })
    await pass(j4.result())
    expect([j2.added, j3.added, j4.added]).toEqual([true, true, true])
    expect(new Set([j1, j2, j3, j4].map(({ id }) => id)).size).toBe(4)
    expect(starts).toBe(3)
  })

  it('is kept between the attempts of its owner', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const execute = ({ attempt }: JobContext) => {
      if (attempt === 1) throw new Error('once')
    }
    const backoff = { type: 'fixed', delay: '10s' } as const
    const owner = await scheduler.addJob({ key: 'k', retries: 1, backoff, execute })
    await runtime.advance(1_000)
    expect((await owner.job()).status).toBe('pending')
    expect((await scheduler.addJob({ key: 'k', ...noop })).id).toBe(owner.id)
    await pass(owner.result())
    expect((await scheduler.addJob({ key: 'k', ...noop })).added).toBe(true)
  })

  it('goes on being held after success for as long as the owner says, and its record with it', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '1m' } })
    const owner = await scheduler.addJob({ key: 'k', dedupe: { for: '1h' }, execute: () => 'once' })
    await pass(owner.result())
    await runtime.advance(59 * 60_000)
    const again = await scheduler.addJob({ key: 'k', execute: () => 'twice' })
    expect(again.added).toBe(false)
    expect(await pass(again.result())).toBe('once')
    await runtime.advance(2 * 60_000)
    const later = await scheduler.addJob({ key: 'k', execute: () => 'twice' })
    expect(later.added).toBe(true)
    expect(await pass(later.result())).toBe('twice')
    const refused = codeOf(scheduler.addJob({ dedupe: { for: '1h' }, ...noop }))
    expect(await refused).toBe('INVALID_JOB')
  })

  it('that is taken is refused to a job that brings an id, naming the owner', async () => {
    const { open, fails } = world()
    const scheduler = open({ autoStart: false })
    const owner = await scheduler.addJob({ type: 't', key: 'k' })
    const error = await fails(scheduler.addJob({ id: 'mine', type: 't', key: 'k' }))
    expect(error).toMatchObject({ code: 'KEY_TAKEN', jobId: 'mine', owner: owner.id, key: 'k' })
    const batch = await fails(
      scheduler.addJobs([
        { type: 't', key: 'free' },
        { id: 'mine', type: 't', key: 'k' },
      ]),
    )
    expect(batch).toMatchObject({ code: 'KEY_TAKEN', index: 1 })
    expect((await scheduler.addJob({ type: 't', key: 'free' })).added).toBe(true)
  })

  it('is shared by jobs of one batch', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    const handles = await scheduler.addJobs([1, 2, 3].map(() => ({ type: 't', key: 'k' })))
    expect(handles.map(({ added }) => added)).toEqual([true, false, false])
    expect(new Set(handles.map(({ id }) => id)).size).toBe(1)
  })

  it('that somebody else has taken meanwhile stands in the way of a retry', async () => {
    const { open, fails } = world()
    const scheduler = open({ pools: { default: { paused: true } } })
    const first = await scheduler.addJob({ key: 'k', delay: '1h', ...noop })
    await first.cancel()
    const second = await scheduler.addJob({ key: 'k', delay: '1h', ...noop })
    const error = await fails(scheduler.retry(first.id))
    expect(error).toMatchObject({ code: 'KEY_TAKEN', jobId: first.id, owner: second.id })
    await second.cancel()
    expect(await scheduler.retry(first.id)).toBe(true)
    expect((await scheduler.addJob({ key: 'k', ...noop })).id).toBe(first.id)
  })

  it('DQ-08: of a job that is gone belongs to nobody', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: 0, failed: 0, cancelled: 0 } })
    const fails = () => {
      throw new Error('broken')
    }
    for (const execute of [() => 'fine', fails]) {
      const owner = await scheduler.addJob({ key: 'K', execute })
      await pass(scheduler.idle())
      await runtime.advance(60_000)
      expect(await scheduler.job(owner.id)).toBe(null)
      const next = await scheduler.addJob({ key: 'K', execute: () => 'ran' })
      expect(next.added).toBe(true)
      expect(await pass(scheduler.idle())).toBe(undefined)
    }
  })

  it('DQ-09: is not freed by an older job whose window is over', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '10s' } })
    const j1 = await scheduler.addJob({ key: 'K', dedupe: { for: '1s' }, ...noop })
    await pass(j1.result())
    await runtime.advance(2_000)
    const j2 = await scheduler.addJob({ key: 'K', delay: '1h', ...noop })
    expect(j2.added).toBe(true)
    await runtime.advance(60_000)
    expect(await scheduler.job(j1.id)).toBe(null)
    expect((await scheduler.addJob({ key: 'K', ...noop })).id).toBe(j2.id)
  })

  it('DQ-12: is never in the way of other jobs, or of housekeeping', async () => {
    const { open, pass } = world()
    const scheduler = open(2)
    const execute = ({ attempt }: JobContext) => {
      if (attempt === 1) throw new Error('once')
    }
    const a = await scheduler.addJob({ key: 'K', retries: 1, execute })
    const b = await scheduler.addJob({ key: 'K', retries: 1, execute })
    const others = await scheduler.addJobs([noop, noop])
    await pass(Promise.all([a, b, ...others].map((handle) => handle.result())))
    expect(b.id).toBe(a.id)
    expect((await scheduler.snapshot()).states.success).toBe(3)
  })
})

describe('a lane', () => {
  it('DQ-13: runs its jobs one at a time, in order, and holds up nobody else', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(4)
    let inLane = 0
    let most = 0
    const order: number[] = []
    const execute = async (context: JobContext) => {
      inLane += 1
      most = Math.max(most, inLane)
      order.push(context.payload as number)
      await takes(runtime, 10)(context)
      inLane -= 1
    }
    const lane = Array.from({ length: 12 }, (_, payload) => ({ payload, exclusive: 'q', execute }))
    const others = Array.from({ length: 6 }, () => ({ execute: takes(runtime, 10) }))
    await scheduler.addJobs([...lane, ...others])
    await runtime.advance(25)
    expect((await scheduler.snapshot()).states.success).toBe(2 + 6)
    await pass(scheduler.idle())
    expect(most).toBe(1)
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    expect(runtime.monotonic()).toBe(120)
  })

  it('is kept by its holder through all its attempts', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const order: string[] = []
    const execute = ({ job, attempt }: JobContext) => {
      order.push(`${job.id}${attempt}`)
      if (job.id === 'a' && attempt < 3) throw new Error('again')
    }
    const backoff = { type: 'fixed', delay: '10s' } as const
    await scheduler.addJob({ id: 'a', exclusive: 'l', retries: 2, backoff, execute })
    // Until it has started, it would yield to somebody better.
    await runtime.advance(1)
    await scheduler.addJob({ id: 'b', exclusive: 'l', priority: 100, execute })
    await runtime.advance(1_000)
    const why = await scheduler.explain('b')
    expect(why).toMatchObject({ status: 'waiting', reason: 'lane' })
    expect(why.text).toContain('"a"')
    await pass(scheduler.idle())
    expect(order).toEqual(['a1', 'a2', 'a3', 'b1'])
  })

  it('goes to the best of those who wait, and not to one who waits for something else', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const order: string[] = []
    const execute = ({ job }: JobContext) => {
      order.push(job.id)
    }
    const first = body()
    await scheduler.addJob({ id: 'first', exclusive: 'l', execute: first.execute })
    await runtime.drain()
    await scheduler.addJobs([
      { id: 'later', exclusive: 'l', delay: '1h', priority: 100, execute },
      { id: 'ghostly', exclusive: 'l', deps: ['ghost'], priority: 100, execute },
      { id: 'low', exclusive: 'l', priority: 10, execute },
      { id: 'high', exclusive: 'l', priority: 90, execute },
      { id: 'cancelled', exclusive: 'l', priority: 95, execute },
    ])
    await scheduler.cancel('cancelled')
    first.end(undefined)
    await runtime.advance(1)
    expect(order).toEqual(['high', 'low'])
    await pass(scheduler.idle())
    expect(order).toEqual(['high', 'low', 'later'])
    await scheduler.cancel('ghostly')
  })

  it('is given up to a better-ranked arrival only before the first start', async () => {
    const { open, pass } = world()
    const scheduler = open({ pools: { default: { paused: true } } })
    const order: string[] = []
    const execute = ({ job }: JobContext) => {
      order.push(job.id)
    }
    await scheduler.addJob({ id: 'low', exclusive: 'l', priority: 10, execute })
    expect((await scheduler.job('low'))?.status).toBe('ready')
    await scheduler.addJob({ id: 'high', exclusive: 'l', priority: 90, execute })
    expect((await scheduler.job('low'))?.status).toBe('waiting')
    expect((await scheduler.job('high'))?.status).toBe('ready')
    await scheduler.pool('default').resume()
    await pass(scheduler.idle())
    expect(order).toEqual(['high', 'low'])
  })

  it('lets the time in line begin with admission', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    await scheduler.addJob({ exclusive: 'l', execute: takes(runtime, 60_000) })
    const second = await scheduler.addJob({
      exclusive: 'l',
      enqueueTimeout: '1s',
      execute: () => runtime.monotonic(),
    })
    expect(await pass(second.result())).toBe(60_000)
  })
})
