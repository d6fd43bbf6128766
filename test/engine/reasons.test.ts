// Owns the promises of explain about policies, asked of schedulers that live under them.

import { describe, expect, it } from 'vitest'
import { decide } from '../../src/core/machine.ts'
import { KEEP, PATIENT } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { body, cluster, ignores, startAll, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

describe('explain names', () => {
  it('the retry budget, and when it lets the job go', async () => {
    const { open, runtime, pass } = world()
    const scheduler = open({ retryBudget: { count: 1, per: '1m' } })
    const execute = () => {
      throw new Error('again')
    }
    const backoff = { type: 'fixed', delay: '1s', jitter: false } as const
    const jobs = ['a', 'b'].map((id) => ({ id, retries: 1, backoff, execute }))
    await scheduler.addJobs(jobs)
    await runtime.advance(500)
    expect(await scheduler.explain('b')).toMatchObject({ reason: 'backoff' })
    await runtime.advance(1_000)
    const why = await scheduler.explain('b')
    expect(why).toMatchObject({ status: 'pending', reason: 'budget' })
    expect(why.until).toBe(runtime.now() + 59_500)
    expect(why.text).toContain('Attempt 1 of 2 of job "b" failed with HANDLER_FAILED: again')
    await runtime.advance(59_500)
    expect(await scheduler.explain('b')).toMatchObject({ reason: 'failed' })
    await pass(scheduler.close())
  })

  it('the rate, and when the next job may start', async () => {
    const { open, runtime, pass } = world()
    const scheduler = open({ pools: { p: { rate: { count: 1, per: '10s' } } } })
    await scheduler.addJobs(['a', 'b', 'c'].map((id) => ({ id, pool: 'p', ...noop })))
    await runtime.advance(4_000)
    const until = runtime.now() + 6_000
    expect(await scheduler.explain('b')).toMatchObject({ reason: 'rate', until, position: 1 })
    expect(await scheduler.explain('c')).toMatchObject({ reason: 'rate', until, position: 2 })
    await pass(scheduler.close({ drainMs: 0 }))
  })

  it('the open breaker, until it lets a probe through, and then the probe', async () => {
    const { open, runtime, pass } = world()
    const breaker = { failures: 1, resetMs: '10s' } as const
    const scheduler = open({ pools: { p: { breaker } } })
    const ill = () => {
      throw Object.assign(new Error('down'), { code: 'ECONNREFUSED' })
    }
    await scheduler.addJob({ id: 'ill', pool: 'p', execute: ill })
    await runtime.advance(1)
    const probe = body()
    await scheduler.addJob({ id: 'probe', pool: 'p', execute: probe.execute })
    await scheduler.addJob({ id: 'b', pool: 'p', ...noop })
    await runtime.advance(1)
    const why = await scheduler.explain('b')
    expect(why).toMatchObject({ reason: 'breaker', until: runtime.now() + 9_998 })
    const { pools } = await scheduler.snapshot()
    expect(pools.p?.breaker).toEqual({ state: 'open', until: runtime.now() + 9_998 })
    await runtime.advance(10_000)
    expect(probe.starts).toHaveLength(1)
    const waiting = await scheduler.explain('b')
    expect(waiting).toMatchObject({ reason: 'breaker' })
    expect(waiting.text).toContain('waits for what it shows')
    expect((await scheduler.doctor()).findings).toContainEqual(
      expect.objectContaining({ kind: 'open-breaker' }),
    )
    probe.end(undefined)
    await runtime.advance(1)
    expect(await scheduler.explain('b')).toMatchObject({ reason: 'success' })
    await pass(scheduler.close())
  })

  it("the cap of the job's type, over all pools", async () => {
    const { open, runtime, pass } = world()
    const scheduler = open({ types: { mail: { concurrency: 1 } } })
    scheduler.define('mail', takes(runtime, 1_000))
    await scheduler.addJob({ id: 'a', type: 'mail' })
    await scheduler.addJob({ id: 'b', type: 'mail', pool: 'other' })
    await runtime.advance(1)
    const why = await scheduler.explain('b')
    expect(why.reason).toBe('type-full')
    expect(why.text).toContain('(1 of 1)')
    await pass(scheduler.idle())
    await pass(scheduler.close())
  })

  it("the workers' share, where the pool has room", async () => {
    const { open, runtime, pass } = world()
    const scheduler = open({ pools: { p: { concurrency: 5, perWorker: 1 } } })
    const execute = takes(runtime, 1_000)
    await scheduler.addJobs(['a', 'b'].map((id) => ({ id, pool: 'p', execute })))
    await runtime.advance(1)
    const why = await scheduler.explain('b')
    expect(why.reason).toBe('worker-full')
    expect(why.text).toContain('(perWorker 1)')
    await pass(scheduler.idle())
    await pass(scheduler.close())
  })

  it('the suspect that its worker has, for one that was lost twice itself', async () => {
    const { open, runtime, pass, store } = world()
    const shared = store()
    const jobs = ['a', 'b'].map((id) => newJob(id, { type: 't', ...PATIENT }))
    await shared.insert([{ jobs, unknownDeps: 'wait' }], false)
    for (const holder of ['dies', 'dies too']) {
      await shared.lease({ holder, leaseMs: 1_000, max: 9, types: ['t'] }, false)
      await runtime.advance(1_000)
      const { answer } = await shared.overdue({ limit: 9, keepLogMs: KEEP.logMs }, false)
      const moves = answer.jobs.map((job) => decide(job, { type: 'overdue' }, KEEP))
      await shared.apply(
        moves.filter((move) => move !== null),
        false,
      )
      await runtime.advance(9_000)
    }
    const scheduler = open({ store: shared })
    scheduler.define('t', takes(runtime, 1_000))
    await pass(scheduler.start())
    await runtime.advance(1)
    expect((await scheduler.explain('a')).reason).toBe('running')
    const why = await scheduler.explain('b')
    expect(why).toMatchObject({ status: 'ready', reason: 'suspect' })
    expect(why.text).toContain('lost 2 times')
    await runtime.advance(1_000)
    expect((await scheduler.explain('b')).reason).toBe('running')
    await pass(scheduler.idle())
    await pass(scheduler.close())
  })

  it('the urgent jobs above the cap for which others wait', async () => {
    const { nodes, runtime, pass } = cluster(['a'], {
      pools: { p: { concurrency: 2, elastic: { ratio: 0.5, minPriority: 95 } } },
    })
    const [{ scheduler }] = nodes
    await startAll(nodes)
    scheduler.define('t', takes(runtime, 1_000))
    await scheduler.addJobs([
      { id: 'a', type: 't', pool: 'p' },
      { id: 'b', type: 't', pool: 'p' },
    ])
    await runtime.advance(1)
    await scheduler.addJobs([
      { id: 'ordinary', type: 't', pool: 'p' },
      { id: 'urgent', type: 't', pool: 'p', priority: 95 },
    ])
    await runtime.advance(1)
    expect(await scheduler.explain('urgent')).toMatchObject({ status: 'running' })
    const why = await scheduler.explain('ordinary')
    expect(why.reason).toBe('pool-full')
    expect(why.text).toContain('Urgent jobs run above the cap of pool "p" (3 of 2 running)')
    await pass(scheduler.idle())
    await pass(scheduler.close())
  })

  it('no room above the cap for a job that is not urgent, since another process lets it age', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const pools = { p: { concurrency: 1, elastic: { minPriority: 60 } } }
    const scheduler = open({ store: shared, pools })
    scheduler.define('t', { pool: 'p' }, takes(runtime, 1_000))
    await scheduler.start()
    const other = open({ store: shared, ageing: { every: '1m', ceiling: 90 } })
    await other.start()
    await scheduler.addJob({ id: 'first', type: 't' })
    await runtime.advance(1)
    await scheduler.addJob({ id: 'second', type: 't', priority: 70 })
    await runtime.advance(1)
    const why = await scheduler.explain('second')
    expect(why).toMatchObject({ status: 'ready', reason: 'pool-full', position: 1 })
    await pass(scheduler.idle())
    await pass(Promise.all([scheduler.close(), other.close()]))
  })

  it('the job that stops for it, and tells that one and its next start of it', async () => {
    const preempt = { minPriority: 95 }
    const pools = { p: { concurrency: 1, preempt } }
    const { open, runtime, pass } = world()
    const scheduler = open({ pools, graceMs: '10s' })
    const slow = body<void>()
    scheduler.define('slow', { preemptible: true }, slow.execute)
    await scheduler.addJob({ id: 'slow', type: 'slow', pool: 'p', priority: 10 })
    await runtime.advance(1)
    await scheduler.addJob({ id: 'urgent', pool: 'p', priority: 95, execute: takes(runtime, 500) })
    await runtime.advance(1)
    const why = await scheduler.explain('urgent')
    expect(why).toMatchObject({
      reason: 'preempting',
      blockedBy: [{ id: 'slow', status: 'running' }],
    })
    expect((await scheduler.explain('slow')).text).toContain('the urgent job "urgent"')
    slow.fail(new Error('gave way'))
    await runtime.advance(1)
    const back = await scheduler.explain('slow')
    expect(back).toMatchObject({ status: 'ready', reason: 'pool-full' })
    expect(back.text).toContain('It gave way to an urgent job (once so far)')
    await runtime.advance(600)
    slow.end()
    await pass(scheduler.idle())
    await pass(scheduler.close())
  })

  it('that an outcome is unknown and asked about first', async () => {
    const { open, runtime, pass } = world()
    const scheduler = open({ concurrency: 1, graceMs: 10 })
    const confirm = () => ({ done: false }) as const
    const policy = { idempotent: false, retries: 1, timeout: 100, confirm }
    scheduler.define('pay', policy, ignores(runtime, 500))
    await scheduler.addJob({ id: 'pay', type: 'pay' })
    await runtime.advance(150)
    const why = await scheduler.explain('pay')
    expect(why).toMatchObject({ status: 'pending', reason: 'backoff' })
    expect(why.text).toContain('its type is asked first (confirm)')
    await scheduler.cancel('pay')
    await runtime.advance(1_000)
    await pass(scheduler.close())
  })

  it('that an outcome stays unknown, and what to look for', async () => {
    const { open, runtime, pass } = world()
    const scheduler = open({ graceMs: 10 })
    scheduler.define('pay', { idempotent: false, retries: 1, timeout: 100 }, ignores(runtime, 500))
    await scheduler.addJob({ id: 'pay', type: 'pay' })
    await runtime.advance(1_000)
    const why = await scheduler.explain('pay')
    expect(why).toMatchObject({ status: 'failed', reason: 'failed' })
    expect(why.text).toContain('OUTCOME_UNKNOWN')
    expect(why.text).toContain('Look whether it took effect')
    await pass(scheduler.close())
  })

  it('a lost heartbeat, and what to mend', async () => {
    const { open, runtime, pass } = world()
    const scheduler = open({ graceMs: 10 })
    scheduler.define('t', { heartbeat: 100 }, takes(runtime, 60_000))
    await scheduler.addJob({ id: 'a', type: 't' })
    await runtime.advance(1_000)
    const why = await scheduler.explain('a')
    expect(why.reason).toBe('failed')
    expect(why.text).toContain('HEARTBEAT_LOST')
    expect(why.text).toContain('call progress() more often')
    await pass(scheduler.close())
  })

  it('a worker that has not been heard of, while its lease lasts', async () => {
    const { nodes, runtime, shared } = cluster(['a', 'b'])
    const [a, b] = nodes
    a.scheduler.define('t', takes(runtime, 60_000))
    await a.scheduler.start()
    await a.scheduler.addJob({ id: 'x', type: 't' })
    await runtime.advance(1)
    expect((await b.scheduler.explain('x')).text).toContain('Cancel it if that is too long')
    const [worker] = await shared.workers()
    const gone = { types: [], full: false, zombies: 0, settings: '', ttlMs: 0 }
    await shared.beat({ holder: worker?.holder ?? '', name: 'a', ...gone })
    const why = await b.scheduler.explain('x')
    expect(why.reason).toBe('running')
    expect(why.text).toContain('has not been heard of')
    await a.scheduler.cancel('x')
    await runtime.advance(1)
  })
})

describe('a snapshot of a busy pool', () => {
  it('has its cap, and the room above it', async () => {
    const elastic = { minPriority: 95 }
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: { p: { concurrency: 1, elastic } } })
    await scheduler.addJob({ pool: 'p', execute: takes(runtime, 60_000) })
    await runtime.advance(1)
    const { pools } = await scheduler.snapshot()
    expect(pools.p).toMatchObject({ running: 1, elastic: { raise: 1, minPriority: 95 } })
    await pass(scheduler.close({ drainMs: 0 }))
  })
})
