// Owns the promises about cancelling: what it answers, what it ends, and what it leaves alone.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { body, codeOf, ignores, logOf, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

describe('cancel', () => {
  it('ends a job that has not started, once, and says so', async () => {
    const { open, fails, pass } = world()
    const scheduler = open({ pools: { shut: { concurrency: 0 } } })
    const jobs = [
      { id: 'pending', delay: '1h' },
      { id: 'waiting', deps: ['ghost'] },
      { id: 'ready', pool: 'shut' },
    ]
    for (const handle of await scheduler.addJobs(jobs.map((job) => ({ ...noop, ...job })))) {
      expect((await handle.job()).status).toBe(handle.id)
      expect(await handle.cancel('not today')).toBe(true)
      expect(await handle.cancel('again')).toBe(false)
      const error = await fails(handle.result())
      expect(error).toMatchObject({ code: 'CANCELLED', message: 'not today' })
      expect((await handle.job()).attempts).toBe(0)
      expect((await logOf(scheduler, handle.id)).slice(1)).toEqual([
        `job:cancelled ${handle.id}>cancelled`,
      ])
    }
    await pass(scheduler.idle())
  })

  it('changes nothing about a job that has ended', async () => {
    const { open, pass, fails } = world()
    const scheduler = open()
    const done = await scheduler.addJob({ execute: () => 1 })
    await pass(done.result())
    expect(await scheduler.cancel(done.id)).toBe(false)
    expect((await done.job()).status).toBe('success')
    expect((await fails(scheduler.cancel('nobody'))).code).toBe('UNKNOWN_JOB')
  })

  it('ends a running job at once; its body hears of it, and keeps slot and lane till it stops', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 2, graceMs: '5s' })
    const work = body<string>()
    const handle = await scheduler.addJob({ exclusive: 'lane', execute: work.execute })
    await runtime.drain()
    const other = await scheduler.addJob({ exclusive: 'lane', execute: () => runtime.monotonic() })
    await runtime.advance(1_000)
    expect(await handle.cancel()).toBe(true)
    expect((await handle.job()).status).toBe('cancelled')
    expect(await pass(codeOf(handle.result()))).toBe('CANCELLED')
    await runtime.advance(1_000)
    expect(work.starts[0]?.signal.reason).toMatchObject({ code: 'CANCELLED', jobId: handle.id })
    const { pools, running } = await scheduler.snapshot()
    expect(pools.default?.running).toBe(1)
    expect(running).toMatchObject([{ id: handle.id, stopping: true }])
    expect((await scheduler.explain(handle.id)).reason).toBe('stopping')
    expect(await scheduler.retry(handle.id)).toBe(false)
    expect((await other.job()).status).toBe('waiting')
    work.end('too late')
    expect(await pass(other.result())).toBe(2_000)
    const job = await handle.job()
    expect(job.status).toBe('cancelled')
    expect('result' in job).toBe(false)
    expect(job.attemptLog).toMatchObject([{ outcome: 'cancelled', callMs: 1_000 }])
    expect(await scheduler.retry(handle.id)).toBe(true)
  })

  it('lets a body that does not stop keep its slot for its grace, and no longer', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 1, graceMs: '5s' })
    const handle = await scheduler.addJob({ execute: ignores(runtime, 60_000, 'late') })
    await runtime.drain()
    const next = await scheduler.addJob({ execute: () => runtime.monotonic() })
    await runtime.advance(1_000)
    await handle.cancel()
    expect(await pass(next.result())).toBe(6_000)
    expect(scheduler.zombies()).toMatchObject([{ id: handle.id }])
    await runtime.run()
    expect(scheduler.zombies()).toEqual([])
    expect((await handle.job()).status).toBe('cancelled')
  })

  it('ES-19: of many running jobs at once stops each of them, once', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 200, graceMs: '5s' })
    const jobs = Array.from({ length: 200 }, (_, n) => ({
      execute: n % 2 === 0 ? takes(runtime, 60_000) : ignores(runtime, 60_000),
    }))
    const handles = await scheduler.addJobs(jobs)
    await runtime.drain()
    const answers = await pass(Promise.all([...handles, ...handles].map((each) => each.cancel())))
    expect(answers.slice(0, 200).every(Boolean)).toBe(true)
    expect(answers.slice(200).some(Boolean)).toBe(false)
    await pass(scheduler.idle())
    expect(runtime.monotonic()).toBe(5_000)
    const { states, zombies, pools } = await scheduler.snapshot()
    expect([states.cancelled, zombies, pools.default?.running]).toEqual([200, 100, 0])
  })

  it('of the running job frees its key at once', async () => {
    const { open, runtime } = world()
    const scheduler = open(2)
    const work = body()
    const first = await scheduler.addJob({ key: 'k', execute: work.execute })
    await runtime.drain()
    await first.cancel()
    const second = await scheduler.addJob({ key: 'k', ...noop })
    expect(second.added).toBe(true)
    expect(second.id).not.toBe(first.id)
  })

  it('B01: in any order leaves the queue alive', async () => {
    const orders = [
      ['b', 'a'],
      ['a', 'b'],
    ]
    for (const order of orders) {
      for (const together of [true, false]) {
        const { open, pass, runtime } = world()
        const scheduler = open(1)
        await scheduler.addJob({ id: 'a', execute: takes(runtime, 60_000) })
        await runtime.advance(1)
        await scheduler.addJob({ id: 'b', execute: takes(runtime, 60_000) })
        const c = await scheduler.addJob({ id: 'c', execute: () => 'c' })
        const cancels = []
        for (const id of order) {
          cancels.push(scheduler.cancel(id))
          if (!together) await runtime.advance(1)
        }
        expect(await pass(Promise.all(cancels))).toEqual([true, true])
        expect(await pass(c.result())).toBe('c')
        await pass(scheduler.idle())
        const { pools, states } = await scheduler.snapshot()
        expect([pools.default?.running, states.cancelled]).toEqual([0, 2])
      }
    }
  })

  it('may come from the body itself', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({
      id: 'self',
      execute: async () => {
        expect(await scheduler.cancel('self')).toBe(true)
        return 'anyway'
      },
    })
    expect(await pass(codeOf(handle.result()))).toBe('CANCELLED')
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).pools.default?.running).toBe(0)
  })
})

describe('C25: a cancel that races with the end', () => {
  const cases = {
    'in the same turn as the end': 0,
    'one promise reaction later': 1,
    'two promise reactions later': 2,
    'some promise reactions later': 9,
  }
  for (const [name, reactions] of Object.entries(cases)) {
    it(`C25: ${name}, tells the truth`, async () => {
      const { open, pass } = world()
      const scheduler = open(1_000)
      const works = Array.from({ length: 250 }, () => body<number>())
      const handles = await scheduler.addJobs(works.map(({ execute }) => ({ execute })))
      await pass(new Promise<void>((resolve) => setImmediate(resolve)))
      const answers = await pass(
        Promise.all(
          works.map(async (work, n) => {
            const handle = handles[n] as (typeof handles)[number]
            if (n % 2 === 0) work.end(n)
            const answer = (async () => {
              for (let i = 0; i < reactions; i += 1) await null
              return handle.cancel()
            })()
            if (n % 2 === 1) work.end(n)
            return answer
          }),
        ),
      )
      await pass(scheduler.idle())
      for (const [n, handle] of handles.entries()) {
        const { status } = await handle.job()
        expect(status).toBe(answers[n] ? 'cancelled' : 'success')
        expect(await handle.cancel()).toBe(false)
      }
      const ends = new Map<string, number>()
      for await (const { job, to } of scheduler.events()) {
        if (to === 'success' || to === 'cancelled') ends.set(job, (ends.get(job) ?? 0) + 1)
      }
      expect([...ends.values()].every((count) => count === 1)).toBe(true)
      expect(ends.size).toBe(250)
    })
  }

  it('C25: from another scheduler, at any moment around the end, tells the truth', async () => {
    const { open, pass, runtime, store } = world(7)
    const shared = store()
    const [a, b] = [open({ store: shared, concurrency: 500 }), open({ store: shared })]
    const jobs = Array.from({ length: 500 }, (_, n) => ({ execute: takes(runtime, 100, n) }))
    const handles = await a.addJobs(jobs)
    const answers: boolean[] = []
    for (const [n, { id }] of handles.entries()) {
      runtime.after(98 + (n % 5), () => {
        void b.cancel(id).then((answer) => {
          answers[n] = answer
        })
      })
    }
    await pass(a.idle())
    await runtime.advance(1_000)
    for (const [n, handle] of handles.entries()) {
      expect((await handle.job()).status).toBe(answers[n] ? 'cancelled' : 'success')
    }
    expect(new Set(answers)).toEqual(new Set([true, false]))
  })
})

describe('submit inside a handler', () => {
  it('adds jobs at once, all or none, on behalf of the job', async () => {
    const { open, pass } = world()
    const scheduler = open()
    scheduler.define<number, number>('shard', ({ payload }) => payload * payload)
    scheduler.define<number[], unknown>('join', ({ deps }) =>
      Object.values(deps).reduce<number>((sum, n) => sum + (n as number), 0),
    )
    const splitter = await scheduler.addJob({
      id: 'split',
      execute: async ({ submit }) => {
        const shards = [1, 2, 3].map((payload) => ({ id: `s${payload}`, type: 'shard', payload }))
        const join = { id: 'join', type: 'join', deps: shards.map(({ id }) => id) }
        const handles = await submit([join, ...shards])
        const [one] = await submit({ id: 'one-more', ...noop })
        return [...handles.map(({ id }) => id), one?.id]
      },
    })
    expect(await pass(splitter.result())).toEqual(['join', 's1', 's2', 's3', 'one-more'])
    await pass(scheduler.idle())
    expect((await scheduler.job('join'))?.result).toBe(14)
  })

  it('stores nothing of a set that is refused', async () => {
    const { open, pass, fails } = world()
    const scheduler = open()
    const job = await scheduler.addJob({
      execute: ({ submit }) =>
        submit([
          { id: 'a', deps: ['b'], ...noop },
          { id: 'b', deps: ['a'], ...noop },
        ]),
    })
    expect((await fails(job.result())).code).toBe('CYCLE')
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).total).toBe(1)
  })

  it('is idempotent with ids: the next attempt adds nothing twice', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const added: boolean[] = []
    scheduler.define('leaf', () => undefined)
    const job = await scheduler.addJob({
      retries: 1,
      execute: async ({ submit, attempt }) => {
        for (const { added: each } of await submit([{ id: 'x', type: 'leaf' }])) added.push(each)
        if (attempt === 1) throw new Error('after the submission')
      },
    })
    await pass(job.result())
    expect(added).toEqual([true, false])
  })

  it('is refused once the job is cancelled: nothing is stored', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const work = body()
    const handle = await scheduler.addJob({ execute: work.execute })
    await runtime.drain()
    await handle.cancel()
    const { submit } = work.starts[0] as JobContext
    expect(await pass(codeOf(submit({ id: 'late', ...noop })))).toBe('LEASE_LOST')
    work.end(undefined)
    await pass(scheduler.idle())
    expect(await pass(codeOf(submit({ id: 'later', ...noop })))).toBe('LEASE_LOST')
    expect((await scheduler.snapshot()).total).toBe(1)
  })

  it('ES-03: is refused to an attempt that has been followed by another', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 2, graceMs: '1s' })
    const work = body<string>()
    const handle = await scheduler.addJob({
      timeout: '1s',
      retries: 1,
      backoff: { type: 'fixed', delay: 0 },
      execute: work.execute,
    })
    await runtime.advance(2_500)
    expect(work.starts).toHaveLength(2)
    const [old, current] = work.starts as [JobContext, JobContext]
    expect(await pass(codeOf(old.submit({ id: 'twin', ...noop })))).toBe('LEASE_LOST')
    expect(await pass(current.submit({ id: 'own', ...noop }))).toHaveLength(1)
    work.end('old', 0)
    await runtime.drain()
    work.end('new', 1)
    expect(await pass(handle.result())).toBe('new')
    expect(await scheduler.job('twin')).toBe(null)
  })
})
