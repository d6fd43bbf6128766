// Owns the promises about looking: jobs, job, snapshot, explain.

import { describe, expect, it } from 'vitest'
import { STATUSES } from '../../src/core/job.ts'
import type { JobFilter, JobInput } from '../../src/core/types.ts'
import { AxScheduler } from '../../src/index.ts'
import type { ListPage } from '../../src/store/store.ts'
import { all, body, codeOf, faulty, takes, tapped, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

describe('jobs', () => {
  it('come in order of submission, page by page', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    const inputs = Array.from({ length: 1_234 }, (_, n) => ({ id: `j${n}`, type: 't' }))
    await scheduler.addJobs(inputs)
    const found = await all(scheduler.jobs())
    expect(found.map(({ id }) => id)).toEqual(inputs.map(({ id }) => id))
    const some = await all(scheduler.jobs({ after: 'j9', limit: 700 }))
    expect(some.map(({ id }) => id)).toEqual(inputs.slice(10, 710).map(({ id }) => id))
    expect(await all(scheduler.jobs({ limit: 0 }))).toEqual([])
    expect(await all(scheduler.jobs({ after: 'j1233' }))).toEqual([])
  })

  it('may be filtered by everything that is promised, alone and together', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const t0 = runtime.now()
    const fail = (code: string) => ({
      execute: () => {
        throw Object.assign(new Error(code), { code })
      },
    })
    await scheduler.addJobs([
      { id: 'a', type: 'x', pool: 'p', flow: 'f', ...noop },
      { id: 'b', type: 'x', key: 'k', delay: '1h', ...noop },
      { id: 'c', type: 'y', flow: 'f', ...fail('E1') },
    ])
    await runtime.advance(1_000)
    await scheduler.addJobs([
      { id: 'd', type: 'y', pool: 'p', ...fail('E2') },
      { id: 'e', type: 'z', deps: ['ghost'], ...noop },
    ] as JobInput[])
    await runtime.advance(1)
    const idsOf = async (filter: JobFilter) => {
      const ids = (await all(scheduler.jobs(filter))).map(({ id }) => id)
      return ids.join('')
    }
    expect(await idsOf({ status: 'failed' })).toBe('cd')
    expect(await idsOf({ status: ['pending', 'waiting'] })).toBe('be')
    expect(await idsOf({ type: 'x' })).toBe('ab')
    expect(await idsOf({ pool: 'p' })).toBe('ad')
    expect(await idsOf({ flow: 'f' })).toBe('ac')
    expect(await idsOf({ code: 'E2' })).toBe('d')
    expect(await idsOf({ key: 'k' })).toBe('b')
    expect(await idsOf({ createdAfter: t0 + 500 })).toBe('de')
    expect(await idsOf({ createdBefore: t0 + 500 })).toBe('abc')
    expect(await idsOf({ status: 'failed', type: 'y', pool: 'p' })).toBe('d')
    expect(await idsOf({ status: 'success', type: 'y' })).toBe('')
    expect(await codeOf(idsOf({ statuses: 'failed' } as never))).toBe('INVALID_OPTION')
    expect(await codeOf(idsOf({ status: 'done' as never }))).toBe('INVALID_OPTION')
    expect(await codeOf(idsOf({ after: 'nobody' }))).toBe('UNKNOWN_JOB')
    await pass(scheduler.cancel('b'))
  })

  it('DQ-03: are read in pages of at most 500, however many there are', async () => {
    const { open, store } = world()
    const pages: number[] = []
    const inner = tapped(store(), (call, answer) => {
      if (call === 'list') pages.push((answer as ListPage).jobs.length)
    })
    const scheduler = open({ store: inner, autoStart: false })
    const jobs = Array.from({ length: 5_000 }, () => ({ type: 't', delay: '1h' }))
    await scheduler.addJobs(jobs)
    expect(await all(scheduler.jobs({ status: 'pending' }))).toHaveLength(5_000)
    expect(Math.max(...pages)).toBeLessThanOrEqual(500)
    expect(pages.length).toBeLessThanOrEqual(11)
    pages.length = 0
    expect(await all(scheduler.jobs({ limit: 3 }))).toHaveLength(3)
    expect(pages).toEqual([3])
  })

  it('may change while they are listed, without one being listed twice', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJobs(Array.from({ length: 1_200 }, (_, n) => ({ id: `j${n}`, type: 't' })))
    const seen: string[] = []
    for await (const { id } of scheduler.jobs()) {
      seen.push(id)
      if (seen.length === 10) await scheduler.addJob({ id: 'new', type: 't' })
      if (seen.length === 20) await scheduler.cancel('j1100')
    }
    expect(new Set(seen).size).toBe(seen.length)
    expect(seen).toHaveLength(1_201)
  })
})

describe('wrong values', () => {
  const wrong: Record<string, (scheduler: AxScheduler) => Promise<unknown>> = {
    'limit NaN': (ax) => all(ax.jobs({ limit: Number.NaN })),
    'limit as text': (ax) => all(ax.jobs({ limit: '5' as never })),
    'createdAfter as text': (ax) => all(ax.jobs({ createdAfter: 'today' as never })),
    'type as a number': (ax) => all(ax.jobs({ type: 5 as never })),
    'after as text': (ax) => all(ax.events({ after: 'x' as never })),
    'after NaN': (ax) => all(ax.events({ after: Number.NaN })),
    'follow as text': (ax) => all(ax.events({ follow: 'no' as never })),
    'downstream as text': (ax) => ax.retry('a', { downstream: 'yes' as never }),
    'signal misspelt': async (ax) =>
      (await ax.addJob({ type: 't' })).result({ sginal: 1 } as never),
    'reason as a number': (ax) => ax.cancel('a', 5 as never),
    'filter null': (ax) => all(ax.jobs(null as never)),
    'options null': (ax) => all(ax.events(null as never)),
    'store without methods': async () => new AxScheduler({ store: {} as never }),
    'runtime without methods': async () => new AxScheduler({ runtime: {} as never }),
    'types null': async () => new AxScheduler({ types: null as never }),
    'pools null': async () => new AxScheduler({ pools: null as never }),
    'keep null': async () => new AxScheduler({ keep: null as never }),
  }
  for (const [name, call] of Object.entries(wrong)) {
    it(`C84: ${name}: refused by name`, async () => {
      const { open, runtime } = world()
      const scheduler = open({ autoStart: false })
      await scheduler.addJob({ id: 'a', type: 't' })
      const refused = call(scheduler).catch((thrown: unknown) => thrown)
      const accepted = runtime.drain().then(() => 'taken as it was')
      const end = await Promise.race([refused, accepted])
      expect(end).toMatchObject({ code: 'INVALID_OPTION' })
      expect((end as Error).message).toContain(name.split(' ')[0])
    })
  }
})

describe('a job as it is seen', () => {
  it('is a copy: changing it changes nothing', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't', payload: { list: [1] }, deps: ['x'] })
    const job = (await scheduler.job('a')) as { payload: { list: number[] }; deps: unknown[] }
    job.payload.list.push(2)
    job.deps.pop()
    expect(await scheduler.job('a')).toMatchObject({
      payload: { list: [1] },
      deps: [{ id: 'x', on: 'success' }],
    })
    expect(await scheduler.job('nobody')).toBe(null)
  })
})

describe('a snapshot', () => {
  it('counts everything at any moment, and the states add up', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 2, pools: { shut: { concurrency: 0, paused: true } } })
    const execute = takes(runtime, 1_000)
    await scheduler.addJobs([
      { id: 'r1', execute },
      { id: 'r2', type: 'big', execute },
      { id: 'q', execute },
      { id: 'p', delay: '1h', ...noop },
      { id: 'w', deps: ['ghost'], ...noop },
      { id: 's', pool: 'shut', ...noop },
    ])
    await runtime.advance(400)
    const snapshot = await scheduler.snapshot()
    expect(snapshot).toMatchObject({
      at: runtime.now(),
      total: 6,
      states: { running: 2, ready: 2, pending: 1, waiting: 1, success: 0, failed: 0, cancelled: 0 },
      pools: {
        default: { concurrency: 2, running: 2, ready: 1, paused: false },
        shut: { concurrency: 0, running: 0, ready: 1, paused: true },
      },
      zombies: 0,
      failures: {},
    })
    expect(snapshot.types.big?.running).toBe(1)
    expect(snapshot.running.map(({ id, forMs }) => [id, forMs])).toEqual([
      ['r1', 400],
      ['r2', 400],
    ])
    for (const id of ['p', 'w', 's']) await scheduler.cancel(id)
    await pass(scheduler.idle())
    const after = await scheduler.snapshot()
    expect(STATUSES.reduce((sum, status) => sum + after.states[status], 0)).toBe(6)
    expect(after.states).toMatchObject({ success: 3, cancelled: 3 })
  })

  it('B21: adds up at every moment of a mixed run', async () => {
    const { open, pass, runtime } = world(5)
    const scheduler = open({ concurrency: 3, graceMs: 20 })
    let checks = 0
    const check = async (total: number) => {
      const { states, pools, running } = await scheduler.snapshot()
      expect(STATUSES.reduce((sum, status) => sum + states[status], 0)).toBe(total)
      expect(pools.default?.running).toBe(running.length)
      expect(running.length).toBeLessThanOrEqual(3)
      checks += 1
    }
    let total = 0
    for (let n = 0; n < 200; n += 1) {
      const ms = Math.floor(runtime.random() * 50)
      const handle = await scheduler.addJob({
        timeout: n % 5 === 0 ? 10 : 0,
        retries: n % 3,
        enqueueTimeout: n % 11 === 0 ? 5 : 0,
        key: `k${n % 17}`,
        execute: async (context) => {
          await takes(runtime, ms)(context)
          if (n % 4 === 0) throw new Error('broken')
        },
      })
      if (handle.added) total += 1
      if (n % 7 === 0) await handle.cancel()
      await runtime.advance(ms / 4)
      await check(total)
    }
    await pass(scheduler.idle())
    await check(total)
    expect(checks).toBe(201)
    const { pools, states } = await scheduler.snapshot()
    expect(pools.default).toMatchObject({ running: 0, ready: 0 })
    expect(states.pending + states.waiting + states.ready + states.running).toBe(0)
  })

  it('counts failures by their code', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const fail = (code: string | undefined) => ({
      execute: () => {
        throw Object.assign(new Error('broken'), code === undefined ? {} : { code })
      },
    })
    const codes = ['E1', 'E2', 'E1', undefined]
    const handles = await scheduler.addJobs(codes.map((code) => fail(code)))
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).failures).toEqual({ E1: 2, E2: 1, HANDLER_FAILED: 1 })
    const [first] = handles
    await scheduler.retry(first?.id ?? '')
    expect((await scheduler.snapshot()).failures.E1).toBeLessThanOrEqual(2)
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).failures).toEqual({ E1: 2, E2: 1, HANDLER_FAILED: 1 })
  })
})

describe('explain', () => {
  it('has the reason of every job that does not run, and of those that do', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ concurrency: 1, graceMs: '1m', pools: { shut: { paused: true } } })
    const running = body()
    const stopping = body()
    const fail = () => {
      throw new Error('no account')
    }
    const backoff = { type: 'fixed', delay: '1m', jitter: false } as const
    const t0 = runtime.now()
    await scheduler.addJobs([
      { id: 'success', pool: 'other', ...noop },
      { id: 'failed', pool: 'other', execute: fail },
      { id: 'backoff', pool: 'other', retries: 2, backoff, execute: fail },
      { id: 'running', exclusive: 'l', execute: running.execute },
      { id: 'lane', exclusive: 'l', ...noop },
      { id: 'delayed', delay: '1h', ...noop },
      { id: 'pool-full', ...noop },
      { id: 'dependency', deps: ['running', 'success'], ...noop },
      { id: 'unknown-dependency', deps: ['ghost'], ...noop },
      { id: 'paused', pool: 'shut', ...noop },
      { id: 'no-handler', type: 'unheard-of', pool: 'other' },
      { id: 'cancelled', delay: '1h', ...noop },
      { id: 'stopping', pool: 'other', execute: stopping.execute },
    ] as JobInput[])
    await scheduler.cancel('cancelled')
    await runtime.advance(1_000)
    await scheduler.cancel('stopping')
    for await (const { id, status } of scheduler.jobs()) {
      const why = await scheduler.explain(id)
      expect([why.id, why.reason, why.status]).toEqual([id, id, status])
      expect(why.text).toContain(id)
    }
    expect(await scheduler.explain('delayed')).toMatchObject({ until: t0 + 3_600_000 })
    expect(await scheduler.explain('backoff')).toMatchObject({ until: t0 + 60_000 })
    expect(await scheduler.explain('pool-full')).toMatchObject({ position: 1 })
    expect(await scheduler.explain('dependency')).toMatchObject({
      blockedBy: [{ id: 'running', status: 'running' }],
    })
    expect((await scheduler.explain('failed')).text).toContain('no account')
    expect(await codeOf(scheduler.explain('nobody'))).toBe('UNKNOWN_JOB')
    running.end(undefined)
    stopping.end(undefined)
    for (const id of ['paused', 'no-handler']) await scheduler.cancel(id)
    await pass(scheduler.idle())
  })

  it('says whose failure doomed or cancelled a job', async () => {
    const { open, pass } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJobs([
      { id: 'a', type: 't' },
      { id: 'b', type: 't', deps: ['a'] },
    ])
    await scheduler.cancel('a')
    // Nobody keeps house yet: the job is unstartable all the same.
    expect(await scheduler.explain('b')).toMatchObject({ status: 'waiting', reason: 'doomed' })
    expect(await scheduler.cancel('b')).toBe(false)
    await scheduler.start()
    await pass(scheduler.idle())
    const why = await scheduler.explain('b')
    expect(why).toMatchObject({ status: 'cancelled', reason: 'cancelled' })
    expect(why.text).toContain('"a"')
  })

  it('says that a job is next while its worker has not looked yet', async () => {
    const { open, store } = world()
    const slow = faulty(store())
    const scheduler = open({ store: slow.store })
    await scheduler.start()
    slow.decide = (call) => (call === 'lease' ? 'refuse' : 'ok')
    await scheduler.addJob({ id: 'own', ...noop })
    expect((await scheduler.explain('own')).reason).toBe('next')
  })

  it('gives the place in line exactly up to 1,000', async () => {
    const { open } = world()
    const scheduler = open({ concurrency: 0 })
    await scheduler.addJobs(Array.from({ length: 1_500 }, (_, n) => ({ id: `j${n}`, ...noop })))
    expect((await scheduler.explain('j0')).position).toBe(1)
    expect((await scheduler.explain('j998')).position).toBe(999)
    expect((await scheduler.explain('j999')).position).toBe(1_000)
    expect('position' in (await scheduler.explain('j1400'))).toBe(false)
  })
})

describe('explain of a job that nobody can start', () => {
  it('says that no scheduler runs which could call its handler', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJob({ id: 'a', execute: () => 1 })
    const { reason, text } = await scheduler.explain('a')
    expect([reason, text]).toEqual(['no-handler', expect.stringContaining('no scheduler')])
  })

  it('names the zombies that hold a worker up, until one of them ends', async () => {
    const { open, runtime } = world()
    const scheduler = open({ maxZombies: 1, graceMs: 10 })
    const deaf = body<void>()
    await scheduler.addJob({ id: 'deaf', timeout: 10, execute: deaf.execute })
    await runtime.advance(30)
    expect(scheduler.zombies()).toHaveLength(1)
    await scheduler.addJob({ id: 'held up', execute: () => 1 })
    await runtime.advance(1)
    expect(await scheduler.explain('held up')).toMatchObject({ reason: 'zombies' })
    deaf.end()
    await runtime.advance(1)
    expect(await scheduler.explain('held up')).toMatchObject({ status: 'success' })
  })

  it('counts only jobs in line that somebody serves', async () => {
    const { open, runtime } = world()
    const scheduler = open(1)
    const blocker = body<void>()
    await scheduler.addJob({ execute: blocker.execute })
    const nobody = Array.from({ length: 5 }, () => ({ type: 'nobody', priority: 90 }))
    await scheduler.addJobs([...nobody, { id: 'x', execute: () => 1 }])
    await runtime.advance(1)
    expect(await scheduler.explain('x')).toMatchObject({ reason: 'pool-full', position: 1 })
    blocker.end()
    await runtime.advance(1)
  })
})

describe('retention near zero', () => {
  it('keeps up with a busy store: what has ended does not pile up', async () => {
    const scheduler = new AxScheduler({ keep: { success: 0, outcomes: 0, log: 0 } })
    scheduler.define('noop', () => {})
    const left: number[] = []
    for (let round = 0; round < 4; round += 1) {
      await scheduler.addMany(Array.from({ length: 10_000 }, () => ({ type: 'noop' })))
      await scheduler.idle()
      left.push((await scheduler.snapshot()).total)
    }
    expect(Math.max(...left)).toBeLessThan(10_000)
    await scheduler.close()
  })
})
