// Owns what operators are told and may change: doctor, advice, snapshot, pools that last.

import { describe, expect, it } from 'vitest'
import { FINDINGS } from '../../src/core/doctor.ts'
import type { DoctorReport, Finding } from '../../src/core/types.ts'
import type { AxScheduler } from '../../src/index.ts'
import { body, cluster, startAll, takes, tapped, watchForLeaks, world } from './helpers.ts'
import { inMemory } from './stores.ts'

watchForLeaks()

const noop = { execute: () => undefined }
const MINUTE = 60_000

function kindsOf({ findings }: DoctorReport): string[] {
  return findings.map(({ kind }) => kind)
}

async function findingOf(scheduler: AxScheduler, kind: string): Promise<Finding | undefined> {
  const { findings } = await scheduler.doctor()
  return findings.find((finding) => finding.kind === kind)
}

describe('doctor()', () => {
  it('finds nothing wrong where nothing is', async () => {
    const { open, pass } = world()
    const scheduler = open({ types: { t: { timeout: '5s' } } })
    scheduler.define('t', () => 1)
    expect(await scheduler.doctor()).toEqual({ findings: [] })
    await scheduler.addJobs([{ type: 't' }, { type: 't', delay: '1h' }])
    expect(await scheduler.doctor()).toEqual({ findings: [] })
    await pass(scheduler.close({ drainMs: 0 }))
  })

  it('finds jobs that wait for ids nobody has submitted', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't', timeout: 5, deps: ['slip'] })
    const finding = await findingOf(scheduler, 'unknown-dependency')
    expect(finding).toMatchObject({ jobs: ['a'], text: expect.stringContaining('"slip"') })
  })

  it('finds what has been waiting for more than five minutes, and not what is new', async () => {
    const { open, runtime } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJobs([
      { id: 'a', type: 't' },
      { id: 'b', type: 't', deps: ['a'] },
      { id: 'soon', type: 't', delay: '4m' },
    ])
    await runtime.advance(5 * MINUTE - 1)
    expect(kindsOf(await scheduler.doctor())).not.toContain('long-wait')
    await runtime.advance(2)
    await scheduler.addJob({ id: 'new', type: 't' })
    const { findings } = await scheduler.doctor()
    const long = findings.filter(({ kind }) => kind === 'long-wait')
    expect(long.map(({ jobs }) => jobs)).toEqual([['b'], ['a']])
  })

  it('finds types that nobody serves, but not jobs that bring a body to a live worker', async () => {
    const { open, pass } = world()
    const scheduler = open(0)
    await scheduler.addJobs([
      { id: 'a', type: 'unheard' },
      { id: 'own', ...noop },
    ])
    expect(await findingOf(scheduler, 'no-handler')).toMatchObject({
      jobs: ['a'],
      text: expect.stringContaining('1 ready job of type "unheard"'),
    })
    await pass(scheduler.close({ drainMs: 0 }))
    const { findings } = await scheduler.doctor()
    const unserved = findings.filter(({ kind }) => kind === 'no-handler')
    expect(unserved.map(({ jobs }) => jobs)).toEqual([['own'], ['a']])
  })

  it('finds pools that are paused, or closed, and types without a timeout', async () => {
    const { open } = world()
    const scheduler = open({ pools: { shut: { paused: true }, none: { concurrency: 0 } } })
    await scheduler.addJobs([
      { pool: 'shut', ...noop },
      { pool: 'none', ...noop },
    ])
    expect(kindsOf(await scheduler.doctor())).toEqual(['paused-pool', 'closed-pool', 'no-timeout'])
    const finding = await findingOf(scheduler, 'paused-pool')
    expect(finding?.remedy).toBe('scheduler.pool("shut").resume()')
  })

  it('finds nothing wrong where a heartbeat, or each job, says how long a body may hang', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ types: { own: { retries: 1 } } })
    scheduler.define('beats', { heartbeat: '10s' }, takes(runtime, 100))
    scheduler.define('own', takes(runtime, 100))
    const own = { type: 'own', timeout: '5s' }
    await scheduler.addJobs([{ type: 'beats' }, own, own])
    expect(kindsOf(await scheduler.doctor())).toEqual([])
    await pass(scheduler.idle())
    expect(kindsOf(await scheduler.doctor())).toEqual([])
    await scheduler.addJobs([own, { id: 'a', type: 'own' }])
    expect((await findingOf(scheduler, 'no-timeout'))?.jobs).toEqual(['a'])
    await pass(scheduler.close())
  })

  it('finds zombies, and the worker that takes nothing for them', async () => {
    const { open, runtime } = world()
    const scheduler = open({ maxZombies: 2, graceMs: 10 })
    const deaf = body<void>()
    const job = { timeout: 10, execute: deaf.execute }
    await scheduler.addJob(job)
    await runtime.advance(30)
    const finding = await findingOf(scheduler, 'zombies')
    expect(finding?.text).toMatch(/^Worker "ax:.*" has 1 zombie, bodies that ignore their abort\.$/)
    await scheduler.addJob(job)
    await runtime.advance(30)
    expect(await findingOf(scheduler, 'zombies')).toMatchObject({
      text: expect.stringContaining('2 zombies, bodies that ignore their abort, and takes nothing'),
    })
    deaf.end(undefined, 0)
    deaf.end(undefined, 1)
    await runtime.advance(1)
    expect(await scheduler.doctor()).toEqual({ findings: [] })
  })

  it('finds leases that nobody reaps', async () => {
    const { nodes, runtime, pass } = cluster(['a', 'b'])
    const [a, b] = nodes
    a.scheduler.define('t', takes(runtime, 90_000))
    await a.scheduler.start()
    await a.scheduler.addJob({ id: 'x', type: 't', timeout: '5m' })
    await runtime.advance(1)
    a.stall()
    await runtime.advance(20_000)
    expect(await findingOf(b.scheduler, 'expired-lease')).toMatchObject({
      jobs: ['x'],
      text: expect.stringContaining('1 lease is past the deadline'),
    })
    a.wake()
    await pass(a.scheduler.close({ drainMs: 0 }))
  })

  it('finds workers that were given other settings', async () => {
    const { open, store, pass } = world()
    const shared = store()
    const old = open({ store: shared, name: 'old', pools: { p: { concurrency: 3 } } })
    await old.start()
    expect(await old.doctor()).toEqual({ findings: [] })
    const retryBudget = { count: 100, per: '1m' } as const
    const fresh = open({ store: shared, pools: { p: { concurrency: 5 } }, retryBudget })
    await fresh.start()
    await fresh.pool('p').configure({ concurrency: 9 })
    const { findings } = await fresh.doctor()
    expect(findings).toHaveLength(1)
    expect(findings[0]).toMatchObject({ kind: 'settings-differ' })
    expect(findings[0]?.text).toMatch(
      /^Worker "old:.*pools\.p\.concurrency is 3 there, and 5 holds/,
    )
    for (const scheduler of [old, fresh]) await pass(scheduler.close())
  })

  it('finds a schedule whose jobs nobody adds', async () => {
    const { open, runtime, pass, store } = world()
    const shared = store()
    const first = open({ store: shared })
    await first.schedule('s', '@hourly', { type: 't', timeout: 5 }, { timeZone: 'UTC' })
    await pass(first.close())
    await runtime.advance(62 * MINUTE)
    const onlooker = open({ store: shared, autoStart: false })
    expect(await findingOf(onlooker, 'late-schedule')).toMatchObject({
      text: 'The schedule "s" should have added a job 2 m ago.',
      remedy: expect.stringContaining('start one'),
    })
  })

  it('reads pages and counts, never all jobs', async () => {
    const { open, store } = world()
    const pages: number[] = []
    const inner = tapped(store(), (call, answer) => {
      if (call === 'list') pages.push((answer as { jobs: unknown[] }).jobs.length)
    })
    const scheduler = open({ store: inner, autoStart: false })
    await scheduler.addJobs(Array.from({ length: 5_000 }, () => ({ type: 't' })))
    const { findings } = await scheduler.doctor()
    expect(pages.length).toBeLessThan(10)
    expect(Math.max(...pages)).toBeLessThanOrEqual(500)
    for (const { jobs, kind } of findings) {
      expect(jobs.length).toBeLessThanOrEqual(100)
      expect(FINDINGS).toContain(kind)
    }
  })
})

describe('advise()', () => {
  it('gives a timeout by the runs in the log, where none is set', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(2)
    await scheduler.addJobs(Array.from({ length: 50 }, () => ({ execute: takes(runtime, 100) })))
    await pass(scheduler.idle())
    const advice = await pass(scheduler.advise())
    expect(advice.find(({ kind }) => kind === 'timeout')).toMatchObject({
      type: 'task',
      figures: { runs: 50, p50Ms: 100, p99Ms: 100, timeoutMs: 0, suggestedMs: 200 },
    })
    await pass(scheduler.close())
  })

  it('goes by the timeouts of the jobs where the type has none, and by none that differ', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 100 })
    for (const type of ['fits', 'long', 'differ', 'some']) {
      scheduler.define(type, { retries: 1 }, takes(runtime, 100))
    }
    scheduler.define('beats', { heartbeat: '1m' }, takes(runtime, 100))
    for (let n = 0; n < 50; n += 1) {
      await scheduler.addJobs([
        { type: 'fits', timeout: '250ms' },
        { type: 'long', timeout: '5m' },
        { type: 'differ', timeout: n % 2 === 0 ? '250ms' : '5m' },
        { type: 'some', ...(n === 7 ? {} : { timeout: '250ms' }) },
        { type: 'beats' },
      ])
    }
    await pass(scheduler.idle())
    const advice = await pass(scheduler.advise())
    const said = advice.filter(({ kind }) => kind === 'timeout')
    expect(said.map(({ type, figures }) => [type, figures.timeoutMs])).toEqual([
      ['long', 300_000],
      ['some', 0],
    ])
    await pass(scheduler.close())
  })

  it('has nothing to say where a timeout fits, and of an empty log', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ types: { t: { timeout: '250ms' } }, concurrency: 100 })
    expect(await scheduler.advise()).toEqual([])
    scheduler.define('t', takes(runtime, 100))
    await scheduler.addJobs(Array.from({ length: 50 }, () => ({ type: 't' })))
    await pass(scheduler.idle())
    expect(await pass(scheduler.advise())).toEqual([])
    await pass(scheduler.close())
  })

  // 40,000 jobs: too long for a file, and pages are pages.
  if (inMemory())
    it('reads a bounded stretch, by pages, and lets others have their turn', async () => {
      const { open, pass, store } = world()
      const reads: number[] = []
      const inner = tapped(store(), (call, answer) => {
        if (call === 'events') reads.push((answer as { events: unknown[] }).events.length)
      })
      const scheduler = open({ store: inner, concurrency: 1_000 })
      scheduler.define('t', () => 1)
      await pass(scheduler.addMany(Array.from({ length: 40_000 }, () => ({ type: 't' }))))
      await pass(scheduler.idle())
      reads.length = 0
      await pass(scheduler.advise())
      expect(Math.max(...reads)).toBeLessThanOrEqual(1_000)
      expect(reads.reduce((sum, count) => sum + count, 0)).toBe(100_001)
      await pass(scheduler.close())
    })
})

describe('a snapshot', () => {
  it('says what holds for each pool, and what waits for the retry budget', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({
      retryBudget: { count: 1, per: '1h' },
      pools: { p: { concurrency: 4, perWorker: 2, maxQueue: 9, overflow: 'wait' } },
    })
    const backoff = { type: 'fixed', delay: 10, jitter: false } as const
    const execute = () => {
      throw new Error('again')
    }
    const job = { pool: 'p', retries: 5, backoff, execute }
    await scheduler.addJobs([job, job, job])
    await runtime.advance(1_000)
    const snapshot = await scheduler.snapshot()
    expect(snapshot.waitingForBudget).toBe(3)
    expect(snapshot.pools.p).toEqual({
      concurrency: 4,
      perWorker: 2,
      running: 0,
      ready: 0,
      queued: 3,
      maxQueue: 9,
      overflow: 'wait',
      paused: false,
    })
    expect(snapshot).not.toHaveProperty('unranked')
    await pass(scheduler.close())
  })

  it('counts the zombies of all live workers', async () => {
    const { nodes, runtime, pass, shared } = cluster(['a', 'b'], { graceMs: 10 })
    const [a, b] = nodes
    await startAll(nodes)
    const beat = { holder: 'far', name: 'far', types: [], full: false, settings: '{}' }
    await shared.beat({ ...beat, zombies: 3, ttlMs: 60_000 })
    expect((await a.scheduler.snapshot()).zombies).toBe(3)
    await runtime.advance(60_001)
    expect((await b.scheduler.snapshot()).zombies).toBe(0)
    for (const { scheduler } of nodes) await pass(scheduler.close())
  })

  it('says how many jobs are still in the order of an ageing that is set no more', async () => {
    const { open, store } = world()
    const shared = store()
    const first = open({ store: shared, autoStart: false })
    await first.addJobs([{ type: 't' }, { type: 't' }])
    const second = open({ store: shared, autoStart: false, ageing: { every: '1m' } })
    expect((await second.snapshot()).unranked).toBe(2)
  })
})

describe('what an operator sets', () => {
  it('wins over what processes bring, until it is taken back', async () => {
    const { open, pass, store } = world()
    const shared = store()
    const capOf = async (concurrency?: number) => {
      const pools = concurrency === undefined ? {} : { p: { concurrency } }
      const scheduler = open({ store: shared, pools })
      await scheduler.start()
      const { pools: found } = await scheduler.snapshot()
      await pass(scheduler.close())
      return found.p?.concurrency
    }
    expect(await capOf(3)).toBe(3)
    const operator = open({ store: shared, autoStart: false })
    await operator.pool('p').configure({ concurrency: 7 })
    expect(await capOf(4)).toBe(7)
    expect(await capOf()).toBe(7)
    await operator.pool('p').configure({ concurrency: null })
    expect((await operator.snapshot()).pools.p?.concurrency).toBe(4)
    expect(await capOf(5)).toBe(5)
    expect(await capOf()).toBe(5)
  })

  it('may switch off what processes bring, and may be taken back by name alone', async () => {
    const { open, store } = world()
    const shared = store()
    const rate = { count: 100, per: '1s' } as const
    const scheduler = open({ store: shared, pools: { p: { rate, maxQueue: 5 } } })
    await scheduler.pool('p').configure({ rate: false, maxQueue: 9 })
    expect((await scheduler.snapshot()).pools.p).not.toHaveProperty('rate')
    await scheduler.pool('p').configure({ rate: null })
    expect((await scheduler.snapshot()).pools.p).toMatchObject({
      rate: { count: 100, per: 1_000, burst: 2 },
      maxQueue: 9,
    })
  })

  it('leaves what is not named as it was', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.pool('p').configure({ concurrency: 3, perWorker: 2 })
    await scheduler.pool('p').configure({ perWorker: 1 })
    await scheduler.pool('p').pause()
    expect((await scheduler.snapshot()).pools.p).toMatchObject({
      concurrency: 3,
      perWorker: 1,
      paused: true,
    })
  })

  it('may not be urgent at a priority that ages, whoever has said how jobs age', async () => {
    const { open, store, fails } = world()
    const shared = store()
    await open({ store: shared, ageing: { every: '1m', ceiling: 90 } }).start()
    const scheduler = open({ store: shared, autoStart: false })
    const elastic = { minPriority: 90 }
    const error = await fails(scheduler.pool('p').configure({ elastic }))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'elastic' })
    expect(error.message).toContain('at least 91')
    await scheduler.pool('p').configure({ elastic: { minPriority: 91 } })
    expect((await scheduler.snapshot()).pools.p?.elastic).toEqual({ raise: 3, minPriority: 91 })
  })

  it('may always be a pause, whatever else is wrong', async () => {
    const { open, store, warnings } = world()
    const shared = store()
    const scheduler = open({ store: shared, autoStart: false })
    await scheduler.pool('p').configure({ preempt: { minPriority: 60 } })
    const ageing = { every: '1m' } as const
    await open({ store: shared, ageing }).start()
    expect(warnings()).toEqual([expect.stringContaining('minPriority of pools.p.preempt is 60')])
    await scheduler.pool('p').pause()
    expect((await scheduler.snapshot()).pools.p?.paused).toBe(true)
  })
})

describe('what a process brings', () => {
  it('may not be urgent at a priority that ages, by what is stored', async () => {
    const { open, store, fails } = world()
    const shared = store()
    await open({ store: shared, ageing: { every: '1m' } }).start()
    const pools = { p: { elastic: { minPriority: 80 } } }
    const error = await fails(open({ store: shared, pools }).start())
    expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'elastic' })
    await open({ store: shared, pools, ageing: false }).start()
  })
})
