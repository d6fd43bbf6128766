// Owns the promises about make-up runs: who is revived, how often, how fast, until when.

import { describe, expect, it } from 'vitest'
import type { JobContext, JobFilter } from '../../src/core/types.ts'
import type { AxScheduler } from '../../src/index.ts'
import { all, codeOf, faulty, logOf, processOn, tapped, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const HOUR = 3_600_000

/** Jobs that fail until they are told better. */
function broken() {
  const state = { isBroken: true }
  const execute = ({ job }: JobContext) => {
    if (state.isBroken) throw Object.assign(new Error('broken'), { code: `E_${job.type}` })
    return 'mended'
  }
  return { state, execute }
}

async function statesOf(scheduler: AxScheduler, filter: JobFilter = {}) {
  const jobs = await all(scheduler.jobs(filter))
  return Object.fromEntries(jobs.map(({ id, status }) => [id, status]))
}

/** Ten failed jobs, and the scheduler they are in. */
async function tenFailed() {
  const base = world()
  const scheduler = base.open({ concurrency: 100 })
  const { state, execute } = broken()
  await scheduler.addJobs(Array.from({ length: 10 }, (_, n) => ({ id: `j${n}`, execute })))
  await base.pass(scheduler.idle())
  state.isBroken = false
  return { ...base, scheduler, state, execute }
}

describe('retryWhere', () => {
  it('runs again all that failed or were cancelled, and says how many', async () => {
    const { scheduler, pass, execute } = await tenFailed()
    await scheduler.addJob({ id: 'later', delay: '1d', execute })
    await scheduler.addJob({ id: 'stopped', delay: '1d', execute })
    await scheduler.cancel('stopped')
    await scheduler.addJob({ id: 'fine', execute })
    await pass(scheduler.job('fine'))
    expect(await pass(scheduler.retryWhere({}))).toBe(11)
    await pass(scheduler.idle())
    const states = Object.entries(await statesOf(scheduler))
    expect(states.filter(([, status]) => status !== 'success')).toEqual([])
    expect(await scheduler.retryWhere({})).toBe(0)
    await pass(scheduler.close())
  })

  it('takes those that match, and no others', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { state, execute } = broken()
    await scheduler.addJobs([
      { id: 'a', type: 'x', flow: 'f', execute },
      { id: 'b', type: 'x', pool: 'p', execute },
    ])
    await runtime.advance(1_000)
    await scheduler.addJobs([
      { id: 'c', type: 'y', flow: 'f', key: 'k', execute },
      { id: 'd', type: 'y', delay: '1h', execute },
    ])
    await runtime.advance(1_000)
    await scheduler.cancel('d')
    state.isBroken = false
    const filters: readonly [JobFilter, string][] = [
      [{ key: 'k' }, 'c'],
      [{ type: 'x', flow: 'f' }, 'a'],
      [{ pool: 'p', createdBefore: runtime.now() - 1_500 }, 'b'],
      [{ status: 'cancelled' }, 'd'],
    ]
    for (const [filter, id] of filters) {
      expect(await pass(scheduler.retryWhere(filter))).toBe(1)
      await pass(scheduler.idle())
      expect((await scheduler.job(id))?.status).toBe('success')
    }
    await pass(scheduler.close())
  })

  it('counts codes and limits, in order of submission', async () => {
    const { scheduler, pass } = await tenFailed()
    expect(await pass(scheduler.retryWhere({ code: 'E_other' }))).toBe(0)
    expect(await pass(scheduler.retryWhere({ code: 'E_task', limit: 3 }))).toBe(3)
    await pass(scheduler.idle())
    expect(Object.keys(await statesOf(scheduler, { status: 'success' }))).toEqual([
      'j0',
      'j1',
      'j2',
    ])
    expect(await pass(scheduler.retryWhere({ after: 'j7' }))).toBe(2)
    expect(await pass(scheduler.retryWhere({ limit: 0 }))).toBe(0)
    await pass(scheduler.close())
  })

  it('revives with each the branch that its failure had cancelled, whatever the order', async () => {
    const { open, pass, warnings } = world()
    const scheduler = open({ unknownDeps: 'wait' })
    const { state, execute } = broken()
    // The branch was submitted before its root: it is looked at first, and is too early.
    await scheduler.addJobs([
      { id: 'leaf', deps: ['middle'], execute },
      { id: 'middle', deps: ['root'], execute },
      { id: 'root', execute },
    ])
    await pass(scheduler.idle())
    state.isBroken = false
    expect(await pass(scheduler.retryWhere({}))).toBe(3)
    await pass(scheduler.idle())
    expect(await statesOf(scheduler)).toEqual({
      leaf: 'success',
      middle: 'success',
      root: 'success',
    })
    expect(warnings()).toEqual([])
    await pass(scheduler.close())
  })

  it('revives a job once, even if it fails again within the millisecond', async () => {
    const { scheduler, pass, state, runtime } = await tenFailed()
    state.isBroken = true
    const before = runtime.monotonic()
    expect(await pass(scheduler.retryWhere({}))).toBe(10)
    await pass(scheduler.idle())
    expect(runtime.monotonic()).toBe(before)
    expect(await logOf(scheduler, 'j0')).toEqual([
      'job:added new>ready',
      'job:running ready>running',
      'job:failed running>failed',
      'job:revived failed>ready',
      'job:running ready>running',
      'job:failed running>failed',
    ])
    await pass(scheduler.close())
  })

  it('leaves alone what fails after it was called', async () => {
    const { scheduler, pass, state, execute, runtime } = await tenFailed()
    const run = scheduler.retryWhere({}, { per: { count: 1, per: '1m' } })
    await runtime.advance(1)
    state.isBroken = true
    await scheduler.addJob({ id: 'new', execute })
    await runtime.advance(1)
    state.isBroken = false
    expect(await pass(run)).toBe(10)
    expect((await scheduler.job('new'))?.status).toBe('failed')
    await pass(scheduler.close())
  })
})

describe('a make-up run by somebody who only looks', () => {
  it('starts nothing here: others do the work', async () => {
    const { open, pass, store, runtime } = world()
    const shared = store()
    const worker = open({ store: shared })
    const { state, execute } = broken()
    worker.define('t', execute)
    await worker.addJob({ id: 'a', type: 't' })
    await pass(worker.idle())
    await pass(worker.close())
    state.isBroken = false
    const operator = open({ store: shared })
    expect(await pass(operator.retryWhere({}))).toBe(1)
    await runtime.advance(60_000)
    expect(await shared.workers()).toEqual([])
    expect((await operator.job('a'))?.status).toBe('ready')
    await pass(operator.close())
  })
})

describe('the pace of a make-up run', () => {
  it('is never more than was said in any window', async () => {
    const { scheduler, pass, runtime } = await tenFailed()
    const began: number[] = []
    scheduler.on('job:revived', () => began.push(runtime.monotonic()))
    const t0 = runtime.monotonic()
    expect(await pass(scheduler.retryWhere({}, { per: { count: 2, per: '1m' } }))).toBe(10)
    expect(began.map((at) => at - t0)).toEqual(Array.from({ length: 10 }, (_, n) => n * 30_000))
    await pass(scheduler.close())
  })

  it('has a burst if one is given', async () => {
    const { scheduler, pass, runtime } = await tenFailed()
    const t0 = runtime.monotonic()
    const began: number[] = []
    scheduler.on('job:revived', () => began.push(runtime.monotonic() - t0))
    await pass(scheduler.retryWhere({}, { per: { count: 6, per: '1m', burst: 4 } }))
    expect(began).toEqual([0, 0, 0, 0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000])
    await pass(scheduler.close())
  })

  it('counts what is revived with a branch: the next root waits for it', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { state, execute } = broken()
    await scheduler.addJobs([
      { id: 'a', execute },
      { id: 'a1', deps: ['a'], execute },
      { id: 'a2', deps: ['a'], execute },
      { id: 'b', execute },
    ])
    await pass(scheduler.idle())
    state.isBroken = false
    const began: [string, number][] = []
    scheduler.on('job:revived', ({ job }) => began.push([job, runtime.monotonic()]))
    expect(await pass(scheduler.retryWhere({}, { per: { count: 1, per: '10s' } }))).toBe(4)
    expect(began).toEqual([
      ['a', 0],
      ['a1', 0],
      ['a2', 0],
      ['b', 30_000],
    ])
    await pass(scheduler.close())
  })

  it('is not used up by jobs that cannot run again', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { state, execute } = broken()
    for (const id of ['a', 'b', 'c']) await scheduler.addJob({ id, key: id, execute })
    await pass(scheduler.idle())
    state.isBroken = false
    for (const key of ['a', 'b']) await scheduler.addJob({ key, delay: '1d', execute })
    const t0 = runtime.monotonic()
    const run = scheduler.retryWhere({ status: 'failed' }, { per: { count: 1, per: '1h' } })
    expect(await pass(run)).toBe(1)
    expect(runtime.monotonic()).toBe(t0)
    await pass(scheduler.close({ drainMs: 0 }))
  })

  it('ends at its hour, done or not, with what it has done', async () => {
    const { scheduler, pass, runtime } = await tenFailed()
    const until = runtime.now() + 3 * HOUR
    const per = { count: 1, per: '1h' }
    expect(await pass(scheduler.retryWhere({}, { per, until }))).toBe(3)
    expect(runtime.now()).toBe(until)
    expect(await scheduler.retryWhere({}, { until: runtime.now() })).toBe(0)
    expect(await pass(scheduler.retryWhere({}, { until: runtime.now() + 1 }))).toBe(7)
    await pass(scheduler.close())
  })

  it('is not changed by a step of the clock on the wall', async () => {
    const { scheduler, pass, runtime } = await tenFailed()
    const until = runtime.now() + 3 * HOUR
    const run = scheduler.retryWhere({}, { per: { count: 1, per: '1h' }, until })
    await runtime.advance(HOUR / 2)
    runtime.jump(24 * HOUR)
    expect(await pass(run)).toBe(3)
    expect(runtime.monotonic()).toBe(3 * HOUR)
    await pass(scheduler.close())
  })

  it('ends with close(), which waits for what is under way', async () => {
    const { scheduler, pass, runtime } = await tenFailed()
    const run = scheduler.retryWhere({}, { per: { count: 1, per: '1h' } })
    await runtime.advance(HOUR + 1)
    await pass(scheduler.close())
    expect(await run).toBe(2)
    expect(await codeOf(scheduler.retryWhere({}))).toBe('CLOSED')
    expect(runtime.pending()).toBe(0)
  })

  it('goes on through an outage', async () => {
    const { open, pass, runtime, store } = world()
    const away = faulty(store())
    const scheduler = open({ store: processOn(away.store, runtime, true).store })
    const { state, execute } = broken()
    await scheduler.addJobs(Array.from({ length: 5 }, (_, n) => ({ id: `j${n}`, execute })))
    await pass(scheduler.idle())
    state.isBroken = false
    const run = scheduler.retryWhere({}, { per: { count: 1, per: '10s' } })
    await runtime.advance(15_000)
    away.decide = () => 'refuse'
    await runtime.advance(60_000)
    away.decide = () => 'ok'
    expect(await pass(run)).toBe(5)
    await pass(scheduler.close())
  })
})

describe('what a make-up run leaves as it was', () => {
  it('is named in one warning, with the reasons', async () => {
    const { open, pass, warnings, logs } = world()
    const scheduler = open()
    const { state, execute } = broken()
    await scheduler.addJobs([
      { id: 'taken', key: 'k', execute },
      { id: 'root', type: 'other', execute },
      { id: 'leaf', deps: ['root'], execute },
      { id: 'free', execute },
    ])
    await pass(scheduler.idle())
    state.isBroken = false
    await scheduler.addJob({ id: 'owner', key: 'k', delay: '1d', execute })
    expect(await pass(scheduler.retryWhere({ type: 'task' }))).toBe(1)
    const text = warnings().filter((warning) => warning.startsWith('retryWhere'))
    expect(text).toHaveLength(1)
    expect(text[0]).toContain('left 2 jobs as they were')
    expect(text[0]).toContain('owner')
    expect(text[0]).toContain('root')
    const fields = logs.find(({ message }) => message === text[0])?.fields
    expect(fields).toEqual({ count: 2, jobs: ['taken', 'leaf'] })
    expect(await statesOf(scheduler, { type: 'task' })).toMatchObject({
      taken: 'failed',
      leaf: 'cancelled',
      free: 'success',
    })
    await pass(scheduler.close({ drainMs: 0 }))
  })
})

describe('what is wrong about a make-up run', () => {
  const wrong: readonly [string, unknown, unknown, string][] = [
    ['a status that cannot be retried', { status: 'success' }, {}, 'only these can be retried'],
    ['one of several', { status: ['failed', 'ready'] }, {}, 'only these can be retried'],
    ['a slip in the filter', { typ: 'x' }, {}, 'type'],
    ['no filter', null, {}, 'filter'],
    ['a pace without a count', {}, { per: { per: '1m' } }, 'count of per'],
    ['a pace without a time', {}, { per: { count: 1, per: 0 } }, 'per of per'],
    ['an hour that is none', {}, { until: Number.NaN }, 'until'],
    ['a slip in the options', {}, { pre: {} }, 'per'],
  ]

  it.each(wrong)(
    'is refused by name, and nothing is asked: %s',
    async (_, filter, options, text) => {
      const { open, store } = world()
      const calls: string[] = []
      const scheduler = open({ store: tapped(store(), (call) => calls.push(call)) })
      const error = await scheduler.retryWhere(filter as never, options as never).catch((e) => e)
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(error.message).toContain(text)
      expect(calls).toEqual([])
    },
  )
})
