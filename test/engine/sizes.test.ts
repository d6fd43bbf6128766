// Owns that a call of a store carries so many bytes at most, whatever comes in one turn.
// May never look at how a store takes them.

import { expect, it } from 'vitest'
import type { Move, NewJob } from '../../src/core/job.ts'
import { memoryStore } from '../../src/store/memory.ts'
import type { InsertGroup, Store } from '../../src/store/store.ts'
import { watchForLeaks, world } from './helpers.ts'

watchForLeaks()

/** With the quotes around it, 900 kB. */
const LARGE = 'x'.repeat(899_998)

/** How many characters each call has carried. */
function weighed(inner: Store) {
  const calls: number[] = []
  const sum = (texts: readonly unknown[]) =>
    texts.reduce<number>((all, text) => all + (typeof text === 'string' ? text.length : 0), 0)
  const { insert, apply } = inner
  Object.assign(inner, {
    insert: (groups: readonly InsertGroup[], tell: boolean) => {
      calls.push(sum(groups.flatMap(({ jobs }) => jobs.map(({ payload }: NewJob) => payload))))
      return insert.call(inner, groups, tell)
    },
    apply: (moves: readonly Move[], tell: boolean) => {
      calls.push(sum(moves.map(({ result }) => result)))
      return apply.call(inner, moves, tell)
    },
  })
  return { store: inner, calls }
}

const ids = Array.from({ length: 50 }, (_, n) => `${n}`)

it('results of one turn are written in as many calls as their size asks for', async () => {
  const { open, pass, runtime } = world()
  const { store, calls } = weighed(memoryStore({ runtime }))
  const scheduler = open({ store, concurrency: 50 })
  let release = () => {}
  const end = new Promise<void>((resolve) => {
    release = resolve
  })
  scheduler.define('t', { timeout: '1h' }, async () => {
    await end
    return LARGE
  })
  const jobs = await scheduler.addJobs(ids.map((id) => ({ id, type: 't' })))
  await runtime.advance(1)
  release()
  const results = await pass(Promise.all(jobs.map((job) => job.result())))
  expect(results.every((result) => result === LARGE)).toBe(true)
  expect(Math.max(...calls)).toBeLessThanOrEqual(16_000_000)
  expect(calls.filter((size) => size > 0)).toHaveLength(3)
  await pass(scheduler.close())
})

it.each([
  ['one by one', false],
  ['as a stream', true],
])('payloads that come %s are stored in as many calls', async (_, isStream) => {
  const { open, pass, runtime } = world()
  const { store, calls } = weighed(memoryStore({ runtime }))
  const scheduler = open({ store, autoStart: false })
  const jobs = ids.map((id) => ({ id, type: 't', payload: LARGE }))
  if (isStream) expect(await pass(scheduler.addMany(jobs))).toBe(50)
  else await pass(Promise.all(jobs.map((job) => scheduler.addJob(job))))
  expect(Math.max(...calls)).toBeLessThanOrEqual(17_000_000)
  expect(calls.filter((size) => size > 0).length).toBeGreaterThanOrEqual(3)
  await pass(scheduler.close())
})

it('payloads that have waited for room are stored in as many calls', async () => {
  const { open, pass, runtime } = world()
  const { store, calls } = weighed(memoryStore({ runtime }))
  const pools = { default: { maxQueue: 1, overflow: 'wait' as const } }
  const scheduler = open({ store, autoStart: false, pools })
  const jobs = ids.map((id) => scheduler.addJob({ id, type: 't', payload: LARGE }))
  await runtime.advance(10)
  calls.length = 0
  await scheduler.pool('default').configure({ maxQueue: 50 })
  await pass(Promise.all(jobs))
  expect(Math.max(...calls)).toBeLessThanOrEqual(16_000_000)
  await pass(scheduler.close())
})

it('a result that no store takes fails its job, and no other one', async () => {
  const { open, pass, runtime, warnings } = world()
  const store = memoryStore({ runtime })
  const { apply } = store
  const { AxError } = await import('../../src/core/errors.ts')
  Object.assign(store, {
    apply: async (moves: readonly Move[], tell: boolean) => {
      const large = moves.find(({ result }) => result === '"large"')
      if (large === undefined) return apply.call(store, moves, tell)
      throw new AxError('TOO_LARGE', `The result of job '${large.id}' is it.`, { jobId: large.id })
    },
  })
  const scheduler = open({ store })
  scheduler.define('t', { timeout: '1h' }, ({ job }) => job.id)
  const jobs = await scheduler.addJobs(['a', 'large', 'b'].map((id) => ({ id, type: 't' })))
  const ends = await pass(Promise.allSettled(jobs.map((job) => job.result())))
  expect(ends).toMatchObject([
    { status: 'fulfilled', value: 'a' },
    { status: 'rejected', reason: { code: 'TOO_LARGE' } },
    { status: 'fulfilled', value: 'b' },
  ])
  expect(warnings()).toEqual([])
  await pass(scheduler.close())
})
