// Owns the promises about settings that work while time passes: the retry budget, ageing.
// May never measure: virtual time says exactly when each job was started.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { codeOf, logOf, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

describe('a retry budget', () => {
  it('C18: spaces retries, and holds up no first attempt', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 200, retryBudget: { count: 10, per: '1s' } })
    const starts: { readonly id: string; readonly attempt: number; readonly at: number }[] = []
    const zero = runtime.now()
    const execute = ({ job, attempt }: JobContext) => {
      starts.push({ id: job.id, attempt, at: runtime.now() - zero })
      if (job.id.startsWith('fails') && attempt === 1) throw new Error('once')
      return attempt
    }
    const backoff = { type: 'fixed', delay: 0 } as const
    const failing = Array.from({ length: 100 }, (_, at) => {
      return { id: `fails ${at}`, retries: 1, backoff, execute }
    })
    const fresh = Array.from({ length: 50 }, (_, at) => ({ id: `fresh ${at}`, execute }))
    const first = await pass(scheduler.addJobs(failing))
    await runtime.advance(100)
    const second = await pass(scheduler.addJobs(fresh))
    await pass(Promise.all([...first, ...second].map((handle) => handle.result())))

    expect(starts.length).toBe(250)
    expect(starts.filter(({ attempt, at }) => attempt === 1 && at > 100)).toEqual([])
    const retries = starts.filter(({ attempt }) => attempt === 2).map(({ at }) => at)
    const last = Math.max(...retries)
    expect(last >= 9_000 && last <= 10_100).toBe(true)
    for (const from of retries) {
      expect(retries.filter((at) => at >= from && at < from + 1_000).length).toBeLessThanOrEqual(10)
    }
    const jobs = await Promise.all(first.map((handle) => handle.job()))
    expect(jobs.every(({ status, attempts }) => status === 'success' && attempts === 2)).toBe(true)
    await pass(scheduler.close())
  })

  it('holds a retry in `pending`, where a cancel finds it; it costs nothing then', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ retryBudget: { count: 1, per: '1m' } })
    const backoff = { type: 'fixed', delay: 0 } as const
    const execute = ({ attempt }: JobContext) => {
      if (attempt === 1) throw new Error('once')
      return runtime.now()
    }
    const handles = await pass(
      scheduler.addJobs(['a', 'b', 'c'].map((id) => ({ id, retries: 1, backoff, execute }))),
    )
    const [a, b, c] = handles as [(typeof handles)[0], (typeof handles)[0], (typeof handles)[0]]
    const first = (await pass(a.result())) as number
    expect((await b.job()).status).toBe('pending')
    expect(await pass(scheduler.cancel('b'))).toBe(true)
    expect(await pass(codeOf(b.result()))).toBe('CANCELLED')
    expect((await pass(c.result())) as number).toBe(first + 60_000)
    expect(await logOf(scheduler, 'c')).toEqual([
      'job:added new>ready',
      'job:running ready>running',
      'job:retry running>pending',
      'job:ready pending>ready',
      'job:running ready>running',
      'job:success running>success',
    ])
    await pass(scheduler.close())
  })

  it('lets go of what it held once a process comes along that wants none', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, retryBudget: { count: 1, per: '1d' } })
    const backoff = { type: 'fixed', delay: 0 } as const
    const execute = ({ attempt }: JobContext) => {
      if (attempt === 1) throw new Error('once')
      return runtime.now()
    }
    const handles = await pass(
      scheduler.addJobs(['a', 'b'].map((id) => ({ id, retries: 1, backoff, execute }))),
    )
    await pass(handles[0]?.result() as Promise<unknown>)
    await runtime.advance(1_000)
    const other = open({ store: shared, retryBudget: false })
    await pass(other.start())
    const at = runtime.now()
    expect(await pass(handles[1]?.result() as Promise<unknown>)).toBe(at)
    await pass(scheduler.close())
    await pass(other.close())
  })
})

describe('ageing', () => {
  it('C04: starts a low job once fifty points of waiting have come, and not before', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 1, ageing: { every: '1s', ceiling: 90 } })
    const zero = runtime.now()
    const starts = new Map<string, number>()
    const execute = (context: JobContext) => {
      starts.set(context.job.id, runtime.now() - zero)
      return takes(runtime, 100)(context)
    }
    const urgent = (at: number) => ({ id: `urgent ${at}`, priority: 60, execute })
    await pass(scheduler.addJobs([urgent(0), urgent(1), { id: 'low', priority: 10, execute }]))
    for (let at = 2; at < 700; at += 1) {
      await runtime.advance(100)
      await pass(scheduler.addJob(urgent(at)))
    }
    await pass(scheduler.idle())
    const low = starts.get('low') as number
    expect(low >= 50_000 && low <= 51_300).toBe(true)
    const order = [...starts.keys()].filter((id) => id !== 'low')
    expect(order).toEqual(Array.from({ length: 700 }, (_, at) => `urgent ${at}`))
    await pass(scheduler.close())
  })

  it('ranks what waits anew when a process comes along with another one', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, concurrency: 1 })
    const order: string[] = []
    const execute = ({ job }: JobContext) => order.push(job.id)
    await pass(scheduler.addJob({ id: 'first', execute: takes(runtime, 60_000) }))
    await pass(scheduler.addJob({ id: 'low', priority: 10, execute }))
    await runtime.advance(55_000)
    await pass(scheduler.addJob({ id: 'high', priority: 60, execute }))
    await pass(scheduler.addJob({ id: 'above', priority: 91, execute }))
    const other = open({ store: shared, ageing: { every: '1s', ceiling: 90 } })
    await pass(other.start())
    await pass(scheduler.idle())
    expect(order).toEqual(['above', 'low', 'high'])
    expect((await pass(shared.count())).unranked).toBe(0)
    await pass(scheduler.close())
    await pass(other.close())
  })
})
