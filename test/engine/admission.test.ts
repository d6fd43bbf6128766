// Owns the promises about who may start in a pool, as they show through the scheduler: shares of
// workers, rates, elastic caps. May never ask a store what it would do: only starts count.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

describe('a pool with a rate', () => {
  it('starts jobs as the rate allows, and wakes for each by itself', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: { default: { rate: { count: 4, per: 1_000 } } } })
    const starts: number[] = []
    const execute = () => {
      starts.push(runtime.monotonic())
    }
    await scheduler.addJobs(Array.from({ length: 6 }, () => ({ execute })))
    await pass(scheduler.idle())
    const first = starts[0] as number
    expect(starts.map((at) => at - first)).toEqual([0, 250, 500, 750, 1_000, 1_250])
  })
})

describe('a pool with a share for each worker', () => {
  it('spreads over workers what one of them may not take alone', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const pools = { default: { concurrency: 3, perWorker: 2 } }
    const running = [0, 0]
    const most = [0, 0]
    const workers = [0, 1].map((index) => {
      const scheduler = open({ store: shared, pools })
      scheduler.define('work', async (context: JobContext<unknown>) => {
        running[index] = (running[index] as number) + 1
        most[index] = Math.max(most[index] as number, running[index] as number)
        await takes(runtime, 50)(context)
        running[index] = (running[index] as number) - 1
      })
      return scheduler
    })
    const [first, second] = workers as [(typeof workers)[number], (typeof workers)[number]]
    await Promise.all([first.start(), second.start()])
    await first.addJobs(Array.from({ length: 12 }, () => ({ type: 'work' })))
    await pass(first.idle())
    expect(Math.max(...most)).toBe(2)
    expect(Math.min(...most)).toBeGreaterThan(0)
  })
})

describe('an elastic pool', () => {
  it('starts an urgent job beside a full cap, and no ordinary one before the total is below', async () => {
    const { open, pass, runtime } = world()
    const elastic = { ratio: 0.5, minPriority: 95 }
    const scheduler = open({ pools: { default: { concurrency: 2, elastic } } })
    const ends: string[] = []
    const job = (id: string, ms: number, priority = 50) => ({
      id,
      priority,
      execute: async (context: JobContext) => {
        await takes(runtime, ms)(context)
        ends.push(`${id} ${runtime.monotonic()}`)
      },
    })
    await scheduler.addJobs([job('a', 100), job('b', 200), job('c', 10)])
    await runtime.advance(10)
    await scheduler.addJob(job('urgent', 150, 95))
    await pass(scheduler.idle())
    expect(ends).toEqual(['a 100', 'urgent 160', 'c 170', 'b 200'])
  })
})
