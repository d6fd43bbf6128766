// Owns the promises about reviving a branch: what a failure had cancelled runs after all.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { body, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }
const fails = {
  execute: () => {
    throw new Error('broken')
  },
}

describe('retry with downstream', () => {
  it('revives what the failure had cancelled, in order, and it all runs', async () => {
    const { open, pass } = world()
    const scheduler = open({ autoStart: false })
    let broken = true
    const order: string[] = []
    const execute = ({ job }: JobContext) => {
      order.push(job.id)
      if (job.id === 'a' && broken) throw new Error('broken')
    }
    await scheduler.addJobs([
      { id: 'a', execute },
      { id: 'b', deps: ['a'], execute },
      { id: 'c', deps: ['a'], execute },
      { id: 'd', deps: ['b', 'c'], execute },
      { id: 'own', deps: ['a'], delay: '1h', execute },
    ])
    await scheduler.cancel('own')
    await scheduler.start()
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states).toMatchObject({ failed: 1, cancelled: 4 })
    broken = false
    expect(await scheduler.retry('a', { downstream: true })).toBe(true)
    await pass(scheduler.idle())
    expect(order).toEqual(['a', 'a', 'b', 'c', 'd'])
    expect((await scheduler.snapshot()).states).toMatchObject({ success: 4, cancelled: 1 })
    const b = await scheduler.job('b')
    expect('cause' in (b as object)).toBe(false)
  })

  it('without it revives the job alone, and the branch can follow later', async () => {
    const { open, pass, fails: failing } = world()
    const scheduler = open()
    let broken = true
    const execute = () => {
      if (broken) throw new Error('broken')
    }
    await scheduler.addJobs([
      { id: 'a', execute },
      { id: 'b', deps: ['a'], ...noop },
    ])
    await pass(scheduler.idle())
    expect((await failing(scheduler.retry('b'))).code).toBe('DEPENDENCY_FAILED')
    broken = false
    await scheduler.retry('a')
    await pass(scheduler.idle())
    expect((await scheduler.job('b'))?.status).toBe('cancelled')
    expect(await scheduler.retry('b')).toBe(true)
    await pass(scheduler.idle())
    expect((await scheduler.job('b'))?.status).toBe('success')
  })

  it('ends at a job that stays dead, and says so', async () => {
    const { open, pass, warnings } = world()
    const scheduler = open()
    let broken = true
    const execute = () => {
      if (broken) throw new Error('broken')
    }
    await scheduler.addJobs([
      { id: 'a', execute },
      { id: 'other', ...fails },
      { id: 'b', deps: ['a', 'other'], ...noop },
      { id: 'c', deps: ['b'], ...noop },
    ])
    await pass(scheduler.idle())
    broken = false
    await scheduler.retry('a', { downstream: true })
    await pass(scheduler.idle())
    expect((await scheduler.job('a'))?.status).toBe('success')
    expect((await scheduler.job('b'))?.status).toBe('cancelled')
    expect((await scheduler.job('c'))?.status).toBe('cancelled')
    expect(warnings().join()).toMatch(/not revived.*b/)
  })

  it('opens the edges of those that still wait', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    let broken = true
    const slow = body()
    await scheduler.addJobs([
      {
        id: 'a',
        execute: () => {
          if (broken) throw new Error('broken')
        },
      },
      { id: 'slow', execute: slow.execute },
      { id: 'two', deps: ['a', 'slow', 'ghost'], depMode: 2, ...noop },
    ])
    await runtime.advance(1)
    expect((await scheduler.job('two'))?.status).toBe('waiting')
    broken = false
    await scheduler.retry('a')
    await runtime.advance(1)
    slow.end(undefined)
    await pass(scheduler.idle())
    expect((await scheduler.job('two'))?.status).toBe('success')
  })
})

describe('a chain', () => {
  it('B13: of 2,000 jobs runs through without growing a stack', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const jobs = Array.from({ length: 2_000 }, (_, n) => ({
      id: `${n}`,
      deps: n === 0 ? [] : [`${n - 1}`],
      execute: n === 0 ? takes(runtime, 5) : () => n,
    }))
    await scheduler.addJobs(jobs)
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states.success).toBe(2_000)
  })
})

describe('a wide branch', () => {
  it('is revived a page at a time, and timers get their turn meanwhile', async () => {
    const { AxScheduler } = await import('../../src/index.ts')
    const scheduler = new AxScheduler({ concurrency: 100 })
    let broken = true
    const root = () => {
      if (broken) throw new Error('broken')
    }
    await scheduler.addJob({ id: 'root', execute: root })
    scheduler.define('leaf', () => {})
    const leaves = Array.from({ length: 9_000 }, () => ({ type: 'leaf', deps: ['root'] }))
    await scheduler.addJobs(leaves)
    await scheduler.idle()
    expect((await scheduler.snapshot()).states.cancelled).toBe(9_000)
    broken = false
    let turns = 0
    const timer = setInterval(() => {
      turns += 1
    }, 1)
    await scheduler.retry('root', { downstream: true })
    clearInterval(timer)
    await scheduler.idle()
    expect((await scheduler.snapshot()).states.success).toBe(9_001)
    expect(turns).toBeGreaterThan(0)
    await scheduler.close()
  })

  it('leaves out a job that failed by itself with the code of a failed dependency', async () => {
    const { open, pass } = world()
    const scheduler = open()
    let starts = 0
    const alike = () => {
      starts += 1
      throw Object.assign(new Error('alike'), { code: 'DEPENDENCY_FAILED' })
    }
    await scheduler.addJobs([
      { id: 'root', ...fails },
      { id: 'after', deps: [{ id: 'root', on: 'end' }], execute: alike },
    ])
    await pass(scheduler.idle())
    await scheduler.retry('root', { downstream: true })
    await pass(scheduler.idle())
    expect(starts).toBe(1)
  })
})
