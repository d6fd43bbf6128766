// Owns the promises about leases: a worker that died or stalled loses what it held, and whatever
// it says afterwards changes nothing. Two schedulers share one memory store.

import { describe, expect, it } from 'vitest'
import type { Move, StoredJob } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import type { LeaseAnswer, OverdueAnswer, Told } from '../../src/store/store.ts'
import {
  body,
  cluster,
  ignores,
  logOf,
  type Process,
  processOn,
  startAll,
  takes,
  tapped,
  watchForLeaks,
} from './helpers.ts'

watchForLeaks()

const LEASE = 15_000

const KEEP = { successMs: 0, failedMs: 0, cancelledMs: 0, outcomesMs: 0, logMs: 0 }

describe('a worker that is silent', () => {
  it('C54: loses its job to another, and what it says afterwards changes nothing', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'], { leaseMs: 2_000, graceMs: 60_000 })
    const [w1, w2] = nodes
    const work = body<string>()
    w1.scheduler.define('t', { retries: 2 }, work.execute)
    await w1.scheduler.start()
    const handle = await w1.scheduler.addJob({ id: 'j', type: 't' })
    await runtime.advance(1)
    expect(work.starts).toHaveLength(1)
    w2.scheduler.define('t', { retries: 2 }, async (context) => {
      await takes(runtime, 1_000)(context)
      return 'new'
    })
    await w2.scheduler.start()
    w1.stall()
    await runtime.advance(2_500)
    expect((await w2.scheduler.job('j'))?.attemptLog).toHaveLength(2)
    await runtime.advance(3_500)
    w1.wake()
    work.end('old')
    expect(await pass(handle.result())).toBe('new')
    await runtime.advance(10_000)
    const job = await w2.scheduler.job('j')
    expect(job).toMatchObject({ status: 'success', result: 'new', attempts: 1, lost: 1 })
    expect(job?.attemptLog.map(({ outcome, worker }) => [outcome, worker.slice(0, 2)])).toEqual([
      ['lost', 'w1'],
      ['success', 'w2'],
    ])
    const log = await logOf(w2.scheduler, 'j')
    expect(log).toEqual([
      'job:added new>ready',
      'job:running ready>running',
      'job:lost running>ready',
      'job:running ready>running',
      'job:success running>success',
    ])
    expect((await w2.scheduler.snapshot()).pools.default?.running).toBe(0)
    expect(w1.scheduler.zombies()).toEqual([])
  })

  it('DQ-06: has its body told to stop, and the second result wins', async () => {
    const { nodes, runtime } = cluster(['w1', 'w2'], { leaseMs: 5_000, graceMs: '1m' })
    const [w1, w2] = nodes
    const [old, fresh] = [body<string>(), body<string>()]
    w1.scheduler.define('t', old.execute)
    w2.scheduler.define('t', fresh.execute)
    await w1.scheduler.start()
    const { id } = await w1.scheduler.addJob({ type: 't' })
    await runtime.advance(1)
    await w2.scheduler.start()
    w1.stall()
    await runtime.advance(6_000)
    expect(fresh.starts).toHaveLength(1)
    w1.wake()
    await runtime.advance(2_000)
    expect(old.starts[0]?.signal.reason).toMatchObject({ code: 'LEASE_LOST', jobId: id })
    old.end('old')
    await runtime.advance(1)
    expect((await w2.scheduler.job(id))?.status).toBe('running')
    fresh.end('new')
    await runtime.advance(1)
    expect(await w2.scheduler.job(id)).toMatchObject({ status: 'success', result: 'new' })
  })

  it('DQ-06: also when the same worker takes the job again', async () => {
    const { nodes, runtime } = cluster(['w1', 'keeper'], { leaseMs: 5_000, graceMs: '1m' })
    const [w1, keeper] = nodes
    const work = body<string>()
    w1.scheduler.define('t', work.execute)
    await startAll(nodes)
    const { id } = await w1.scheduler.addJob({ type: 't' })
    await runtime.advance(1)
    w1.stall()
    await runtime.advance(6_000)
    expect(await keeper.scheduler.job(id)).toMatchObject({ status: 'ready', lost: 1 })
    w1.wake()
    await runtime.advance(10)
    expect(work.starts).toHaveLength(2)
    work.end('old', 0)
    await runtime.advance(10)
    expect((await keeper.scheduler.job(id))?.status).toBe('running')
    work.end('new', 1)
    await runtime.advance(10)
    expect(await keeper.scheduler.job(id)).toMatchObject({ status: 'success', result: 'new' })
  })

  it('C57: and died right after its claim gives the job back after its lease', async () => {
    const { nodes, open, pass, runtime, shared } = cluster(['w2'], { concurrency: 1 })
    const [w2] = nodes
    const t0 = runtime.now()
    // The claim is stored, and then its worker is gone: the answer never arrives.
    const dying: Process = processOn(
      tapped(shared, (call, told) => {
        if (call !== 'lease') return
        if ((told as Told<LeaseAnswer>).answer.jobs.length > 0) dying.stall()
      }),
      runtime,
    )
    const w1 = open({ store: dying.store, runtime: dying.runtime, leaseMs: LEASE })
    w1.define('t', () => 'never')
    await w1.start()
    const handles = await w2.scheduler.addJobs([1, 2, 3, 4].map((n) => ({ type: 't', payload: n })))
    await runtime.advance(1)
    expect((await w2.scheduler.snapshot()).states).toMatchObject({ running: 1, ready: 3 })
    w2.scheduler.define('t', ({ payload }) => payload)
    await runtime.advance(LEASE + 1_000)
    expect(await pass(Promise.all(handles.map((handle) => handle.result())))).toEqual([1, 2, 3, 4])
    for (const [n, handle] of handles.entries()) {
      expect(await handle.job()).toMatchObject({ attempts: 1, lost: n === 0 ? 1 : 0 })
    }
    const [first] = (await handles[0]?.job())?.attemptLog.slice(1) ?? []
    expect((first?.startedAt ?? 0) - t0).toBe(LEASE)
  })

  it('C58: and died leaves its jobs their old place, and the cap holds while they recover', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'], { concurrency: 2 })
    const [w1, w2] = nodes
    const done: string[] = []
    let running = 0
    let most = 0
    w1.scheduler.define('t', ignores(runtime, 1e9))
    await w1.scheduler.start()
    const jobs = Array.from({ length: 10 }, (_, n) => ({
      id: `j${n}`,
      type: 't',
      priority: 90 - n,
    }))
    const handles = await w1.scheduler.addJobs(jobs)
    await runtime.advance(1)
    w1.stall()
    w2.scheduler.define('t', async (context) => {
      running += 1
      most = Math.max(most, running)
      await takes(runtime, 100)(context)
      running -= 1
      done.push(context.job.id)
    })
    await w2.scheduler.start()
    await pass(w2.scheduler.idle())
    expect(done).toEqual(jobs.map(({ id }) => id))
    expect(most).toBe(2)
    for (const { id } of handles) {
      const lost = id === 'j0' || id === 'j1' ? 1 : 0
      expect(await w2.scheduler.job(id)).toMatchObject({ attempts: 1, lost, status: 'success' })
    }
  })

  it('ES-11: kills itself only so often with a job: then the job fails, LOST', async () => {
    const { nodes, runtime, shared, open } = cluster(['submitter', 'keeper'])
    const [submitter, keeper] = nodes
    await startAll(nodes)
    const { id } = await submitter.scheduler.addJob({ id: 'poison', type: 't' })
    const starts: number[] = []
    for (let n = 0; n < 6; n += 1) {
      const victim = processOn(shared, runtime)
      const { store } = victim
      const scheduler = open({ store, runtime: victim.runtime, leaseMs: LEASE, name: `v${n}` })
      scheduler.define('t', () => {
        starts.push(runtime.monotonic())
        victim.stall()
        return new Promise(() => {})
      })
      scheduler.define('other', () => 'neighbour')
      await scheduler.start()
      await runtime.advance(60_000)
    }
    expect(starts).toHaveLength(4)
    const job = await keeper.scheduler.job(id)
    expect(job).toMatchObject({ status: 'failed', attempts: 0, lost: 4 })
    expect(job?.error?.code).toBe('LOST')
    const neighbour = await submitter.scheduler.addJob({ type: 'other' })
    await runtime.advance(1_000)
    expect((await neighbour.job()).result).toBe('neighbour')
  })

  it('DQ-19: counts losses apart from failures, and a type may set how many', async () => {
    const { nodes, runtime, shared, open } = cluster(['submitter', 'keeper'], {
      types: { t: { maxLost: 1, retries: 5 } },
    })
    const [submitter, keeper] = nodes
    await startAll(nodes)
    await submitter.scheduler.addJob({ id: 'poison', type: 't' })
    for (let n = 0; n < 3; n += 1) {
      const victim = processOn(shared, runtime)
      const { store } = victim
      const scheduler = open({ store, runtime: victim.runtime, leaseMs: LEASE })
      scheduler.define('t', () => {
        victim.stall()
        return new Promise(() => {})
      })
      await scheduler.start()
      await runtime.advance(60_000)
    }
    const job = await keeper.scheduler.job('poison')
    expect(job).toMatchObject({ status: 'failed', attempts: 0, lost: 2 })
    expect(job?.error?.message).toContain('2 times')
  })

  it('makes the outcome unknown where a job may not be repeated', async () => {
    const { nodes, runtime } = cluster(['w1', 'keeper'])
    const [w1, keeper] = nodes
    w1.scheduler.define('t', { idempotent: false }, ignores(runtime, 1e9))
    await startAll(nodes)
    const { id } = await w1.scheduler.addJob({ type: 't' })
    await runtime.advance(1)
    w1.stall()
    await runtime.advance(LEASE + 1_000)
    const job = await keeper.scheduler.job(id)
    expect(job).toMatchObject({ status: 'failed' })
    expect(job?.error?.code).toBe('OUTCOME_UNKNOWN')
  })

  it('DQ-13: keeps the lane of its job until the lease is over, and then the same job has it', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    const order: string[] = []
    w1.scheduler.define('t', ignores(runtime, 1e9))
    await w1.scheduler.start()
    await w1.scheduler.addJob({ id: 'a', type: 't', exclusive: 'q' })
    await runtime.advance(1)
    await w1.scheduler.addJob({ id: 'b', type: 't', exclusive: 'q', priority: 100 })
    w1.stall()
    w2.scheduler.define('t', ({ job }) => {
      order.push(`${job.id} at ${runtime.monotonic() >= LEASE}`)
    })
    await w2.scheduler.start()
    await pass(w2.scheduler.idle())
    expect(order).toEqual(['a at true', 'b at true'])
  })

  it('keeps the slot of a job that was cancelled meanwhile until its lease is over', async () => {
    const { nodes, runtime } = cluster(['w1', 'w2'], { concurrency: 1 })
    const [w1, w2] = nodes
    w1.scheduler.define('t', ignores(runtime, 1e9))
    await w1.scheduler.start()
    await w1.scheduler.addJob({ id: 'dead', type: 't', exclusive: 'l' })
    await runtime.advance(1)
    w1.stall()
    w2.scheduler.define('u', () => 'next')
    await w2.scheduler.start()
    await w2.scheduler.addJob({ id: 'next', type: 'u', exclusive: 'l' })
    expect(await w2.scheduler.cancel('dead')).toBe(true)
    await runtime.advance(LEASE / 2)
    expect(await w2.scheduler.retry('dead')).toBe(false)
    expect((await w2.scheduler.snapshot()).running).toMatchObject([{ id: 'dead', stopping: true }])
    expect((await w2.scheduler.job('next'))?.status).toBe('waiting')
    await runtime.advance(LEASE / 2)
    expect((await w2.scheduler.job('next'))?.status).toBe('success')
    expect(await w2.scheduler.job('dead')).toMatchObject({ status: 'cancelled', lost: 0 })
    expect(await w2.scheduler.retry('dead')).toBe(true)
  })

  it('ES-12: frees its slot with its lease, in the same instant', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'], { concurrency: 1 })
    const [w1, w2] = nodes
    w1.scheduler.define('t', ignores(runtime, 1e9))
    await w1.scheduler.start()
    await w1.scheduler.addJob({ id: 'dead', type: 't' })
    await runtime.advance(1)
    w1.stall()
    w2.scheduler.define('u', () => runtime.monotonic())
    await w2.scheduler.start()
    const next = await w2.scheduler.addJob({ type: 'u' })
    await runtime.advance(LEASE / 2)
    expect((await next.job()).status).toBe('ready')
    const at = (await pass(next.result())) as number
    expect(at).toBeLessThanOrEqual(LEASE + 1_000)
    expect((await w2.scheduler.snapshot()).pools.default).toMatchObject({ running: 0, ready: 1 })
  })
})

describe('a worker that is slow', () => {
  it('DQ-07: keeps its job for as long as it beats, however long the body takes', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    let starts = 0
    for (const { scheduler } of nodes) {
      scheduler.define('t', async (context) => {
        starts += 1
        await takes(runtime, 25 * 60_000)(context)
        return 'done'
      })
    }
    await startAll(nodes)
    const handle = await w1.scheduler.addJob({ type: 't' })
    expect(await pass(handle.result())).toBe('done')
    expect(starts).toBe(1)
    expect(await w2.scheduler.job(handle.id)).toMatchObject({ attempts: 1, lost: 0 })
  })

  it('ES-02: that lost its lease all the same changes nothing downstream of it', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'], { graceMs: '10m' })
    const [w1, w2] = nodes
    const work = body<string>()
    const seen: unknown[] = []
    w1.scheduler.define('t', work.execute)
    await w1.scheduler.start()
    await w1.scheduler.addJob({ id: 'first', type: 't' })
    await w1.scheduler.addJob({ id: 'second', type: 'after', deps: ['first'] })
    await runtime.advance(1)
    w2.scheduler.define('t', () => 'from the second attempt')
    w2.scheduler.define('after', ({ deps }) => {
      seen.push(deps.first)
    })
    await w2.scheduler.start()
    w1.stall()
    await runtime.advance(LEASE + 1_000)
    w1.wake()
    work.end('late')
    await pass(w2.scheduler.idle())
    await runtime.advance(60_000)
    expect(seen).toEqual(['from the second attempt'])
    expect((await w2.scheduler.snapshot()).states).toMatchObject({ success: 2, failed: 0 })
  })

  it('DQ-05: but ends its job just before it is found overdue, keeps that end', async () => {
    const { nodes, open, runtime, shared } = cluster(['w1'])
    const [w1] = nodes
    // It reads the job as overdue, and is held up before it can write what it has decided.
    const reaping: Process = processOn(
      tapped(shared, (call, told) => {
        if (call !== 'overdue') return
        if ((told as Told<OverdueAnswer>).answer.jobs.length > 0) reaping.stall()
      }),
      runtime,
    )
    const reaper = open({ store: reaping.store, runtime: reaping.runtime })
    await reaper.start()
    const work = body<string>()
    w1.scheduler.define('t', work.execute)
    await w1.scheduler.start()
    const { id } = await w1.scheduler.addJob({ type: 't' })
    await runtime.advance(1)
    w1.stall()
    await runtime.advance(LEASE + 1_000)
    w1.wake()
    work.end('in the end')
    await runtime.advance(1)
    expect((await w1.scheduler.job(id))?.status).toBe('success')
    reaping.wake()
    await runtime.advance(60_000)
    expect(await w1.scheduler.job(id)).toMatchObject({ result: 'in the end', attempts: 1, lost: 0 })
    expect((await logOf(w1.scheduler, id)).at(-1)).toBe('job:success running>success')
  })

  it('ES-01: is not overwritten by a decision that was made before it said so', async () => {
    const { nodes, runtime, shared } = cluster(['w1', 'keeper'])
    const [w1] = nodes
    const work = body<string>()
    w1.scheduler.define('t', work.execute)
    await w1.scheduler.start()
    const { id } = await w1.scheduler.addJob({ type: 't' })
    await runtime.advance(1)
    w1.stall()
    await runtime.advance(LEASE + 1)
    const { answer } = await shared.overdue({ limit: 10, keepLogMs: 1e9 }, false)
    expect(answer.jobs.map((job) => job.id)).toEqual([id])
    const decided = decide(answer.jobs[0] as StoredJob, { type: 'overdue' }, KEEP) as Move
    expect(decided.step).toBe('lose')
    w1.wake()
    work.end('success')
    await runtime.drain()
    const [moved] = (await shared.apply([decided], false)).answer
    expect(moved).toMatchObject({ status: 'stale', job: { status: 'success' } })
  })
})
