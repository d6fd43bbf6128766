// Owns the promises about schedules: exactly one job per instant, whoever is there, whatever stops.

import { beforeAll, describe, expect, it } from 'vitest'
import type { JobInput } from '../../src/core/types.ts'
import type { AxScheduler } from '../../src/index.ts'
import {
  all,
  body,
  cluster,
  codeOf,
  faulty,
  logOf,
  processOn,
  startAll,
  tapped,
  watchForLeaks,
  world,
} from './helpers.ts'

watchForLeaks()

/** Virtual time begins at midnight of the first of January 2025, UTC. */
const UTC = { timeZone: 'UTC' }
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

// What is loaded with the first schedule comes from a disk, which virtual time does not wait for.
beforeAll(async () => {
  await import('../../src/kit/cron.ts')
})

async function instantsOf(scheduler: AxScheduler, name: string): Promise<string[]> {
  const ids = (await all(scheduler.jobs())).map(({ id }) => id)
  return ids
    .filter((id) => id.startsWith(`${name}@`))
    .map((id) =>
      id
        .slice(name.length + 1)
        .replace('2025-', '')
        .replace(':00.000Z', ''),
    )
}

describe('a schedule', () => {
  it('adds a job at each of its instants, called by its name and the instant', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '7d' } })
    const ran: [unknown, number][] = []
    scheduler.define('report', ({ payload }) => {
      ran.push([payload, runtime.monotonic()])
    })
    const job = { type: 'report', payload: { kind: 'daily' }, priority: 80 }
    await scheduler.schedule('nightly', '0 3 * * *', job, UTC)
    await runtime.advance(2 * DAY)
    expect(await instantsOf(scheduler, 'nightly')).toEqual(['01-01T03:00', '01-02T03:00'])
    expect(ran).toEqual([
      [{ kind: 'daily' }, 3 * HOUR],
      [{ kind: 'daily' }, DAY + 3 * HOUR],
    ])
    const last = await scheduler.job('nightly@2025-01-02T03:00:00.000Z')
    expect(last).toMatchObject({ type: 'report', priority: 80, status: 'success' })
    await pass(scheduler.close())
  })

  it('is listed with what was said, and when it comes next', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const job = { type: 't', payload: [1], timeout: '5s' }
    await scheduler.schedule('b', '0 3 * * *', job, { ...UTC, missed: 'all' })
    await scheduler.schedule('a', '@hourly', { type: 't' })
    expect(await scheduler.schedules()).toEqual([
      { name: 'a', cron: '@hourly', missed: 'one', job: { type: 't' }, nextAt: expect.any(Number) },
      {
        name: 'b',
        cron: '0 3 * * *',
        timeZone: 'UTC',
        missed: 'all',
        job,
        nextAt: runtime.now() + 3 * HOUR,
      },
    ])
    await pass(scheduler.close())
  })

  it('goes on as if nothing had been, if the same is said again', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const say = () => scheduler.schedule('s', '*/10 * * * *', { type: 't', payload: 1 }, UTC)
    await say()
    const [first] = await scheduler.schedules()
    await runtime.advance(5 * MINUTE)
    await say()
    expect(await scheduler.schedules()).toEqual([first])
    await pass(scheduler.close())
  })

  it('that was changed replaces the old one, from now on', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    await scheduler.schedule('s', '0 * * * *', { type: 't' }, UTC)
    await runtime.advance(30 * MINUTE)
    await scheduler.schedule('s', '45 * * * *', { type: 't' }, UTC)
    await runtime.advance(2 * HOUR)
    expect(await instantsOf(scheduler, 's')).toEqual(['01-01T00:45', '01-01T01:45'])
    await pass(scheduler.close())
  })

  it.each(['skip', 'one', 'all'] as const)(
    'keeps the instants that are due for a job that was changed: %s',
    async (missed) => {
      const { open, pass, runtime, store } = world()
      const shared = store()
      const say = (scheduler: AxScheduler, n: number, cron = '0 3 * * *') => {
        return scheduler.schedule('s', cron, { type: 't', payload: n }, { ...UTC, missed })
      }
      const before = open({ store: shared })
      await say(before, 1)
      await pass(before.close())
      await runtime.advance(DAY + 3 * HOUR + 30_000)
      const after = open({ store: shared })
      await say(after, 2)
      await runtime.advance(1_000)
      const jobs = await all(after.jobs())
      expect(jobs.map(({ payload }) => payload)).toEqual(missed === 'all' ? [2, 2] : [2])
      expect((await instantsOf(after, 's')).at(-1)).toBe('01-02T03:00')
      await pass(after.close())
      await runtime.advance(DAY)
      const other = open({ store: shared })
      await say(other, 3, '0 4 * * *')
      await runtime.advance(1_000)
      expect(await all(other.jobs())).toHaveLength(jobs.length)
      await pass(other.close())
    },
  )

  it('ends with unschedule; what it has added stays', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    await scheduler.schedule('s', '@hourly', { type: 't' }, UTC)
    await runtime.advance(HOUR)
    expect(await scheduler.unschedule('s')).toBe(true)
    expect(await scheduler.unschedule('s')).toBe(false)
    await runtime.advance(5 * HOUR)
    expect(await instantsOf(scheduler, 's')).toEqual(['01-01T01:00'])
    expect(await scheduler.schedules()).toEqual([])
    await pass(scheduler.close())
  })

  it('does not keep idle() waiting, but its jobs do', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const work = body()
    scheduler.define('t', work.execute)
    await scheduler.schedule('s', '@hourly', { type: 't' }, UTC)
    await pass(scheduler.idle())
    expect(runtime.monotonic()).toBe(0)
    await runtime.advance(HOUR)
    let quiet = false
    void scheduler.idle().then(() => {
      quiet = true
    })
    await runtime.advance(1_000)
    expect(quiet).toBe(false)
    work.end(undefined)
    await runtime.advance(1)
    expect(quiet).toBe(true)
    await pass(scheduler.close())
  })

  it('ES-14: comes once on a day whose clock skips it, and on one that repeats it', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ autoStart: false, keep: { success: '400d' } })
    const berlin = { timeZone: 'Europe/Berlin', missed: 'all' } as const
    await scheduler.schedule('s', '30 2 * * *', { type: 't', delay: '9000d' }, berlin)
    await runtime.advance(365 * DAY)
    await scheduler.start()
    await runtime.advance(1_000)
    const instants = await instantsOf(scheduler, 's')
    expect(instants).toHaveLength(365)
    expect(instants.filter((at) => /^(03-(29|30|31)|10-(25|26|27))/.test(at))).toEqual([
      '03-29T01:30',
      '03-30T01:00',
      '03-31T00:30',
      '10-25T00:30',
      '10-26T00:30',
      '10-27T01:30',
    ])
    await pass(scheduler.close())
  })

  it('knows the policy of its type, and its own wishes', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ types: { mail: { pool: 'net', retries: 2 } } })
    await scheduler.schedule('s', '@hourly', { type: 'mail', priority: 7, delay: '1d' }, UTC)
    await runtime.advance(HOUR)
    const job = await scheduler.job('s@2025-01-01T01:00:00.000Z')
    expect(job).toMatchObject({ pool: 'net', retries: 2, priority: 7, status: 'pending' })
    await pass(scheduler.close())
  })
})

describe('instants that passed while nobody was there', () => {
  async function passed(missed: 'skip' | 'one' | 'all', awayMs: number, cron = '0 * * * *') {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const first = open({ store: shared })
    await first.schedule('s', cron, { type: 't' }, { ...UTC, missed })
    await pass(first.close())
    await runtime.advance(awayMs)
    const second = open({ store: shared })
    await second.start()
    await runtime.advance(1_000)
    const caughtUp = await instantsOf(second, 's')
    const [{ nextAt } = { nextAt: 0 }] = await second.schedules()
    expect(nextAt).toBeGreaterThan(runtime.now())
    await pass(second.close())
    return caughtUp
  }

  it('get one job together, that of the latest', async () => {
    expect(await passed('one', 5 * HOUR + 10 * MINUTE)).toEqual(['01-01T05:00'])
  })

  it('get one each, if all are wanted, oldest first', async () => {
    const jobs = await passed('all', 3 * HOUR + 10 * MINUTE)
    expect(jobs).toEqual(['01-01T01:00', '01-01T02:00', '01-01T03:00'])
  })

  it('get all of them also where they are many', async () => {
    expect(await passed('all', 1_000 * MINUTE, '* * * * *')).toHaveLength(1_000)
  })

  it('get none, if they are to be skipped and passed over a minute ago', async () => {
    expect(await passed('skip', 3 * HOUR + 2 * MINUTE)).toEqual([])
    expect(await passed('skip', 3 * HOUR + 30_000)).toEqual(['01-01T03:00'])
  })
})

describe('several processes', () => {
  const hourly = async (nodes: readonly { scheduler: AxScheduler }[]) => {
    for (const { scheduler } of nodes) {
      await scheduler.schedule('s', '@hourly', { type: 't' }, { ...UTC, missed: 'all' })
    }
  }

  it('DQ-20: with the same schedule add one job per instant', async () => {
    const { nodes, pass, runtime, shared } = cluster(['a', 'b', 'c'])
    await startAll(nodes)
    await hourly(nodes)
    await runtime.advance(5 * HOUR)
    const { jobs } = await shared.list({ after: 0, limit: 100 })
    expect(jobs).toHaveLength(5)
    const added = await logOf(nodes[0].scheduler)
    expect(added).toHaveLength(5)
    for (const { scheduler } of nodes) await pass(scheduler.close())
  })

  it('DQ-20: add one job per instant while one of them stalls and comes back', async () => {
    const { nodes, pass, runtime, shared } = cluster(['a', 'b'])
    await startAll(nodes)
    await hourly(nodes)
    const [a] = nodes
    await runtime.advance(HOUR - 1_000)
    a.stall()
    await runtime.advance(3 * HOUR)
    a.wake()
    await runtime.advance(2 * HOUR)
    const { jobs } = await shared.list({ after: 0, limit: 100 })
    expect(jobs.map(({ id }) => id).sort()).toHaveLength(5)
    for (const { scheduler } of nodes) await pass(scheduler.close())
  })

  it('DQ-20: add each instant that a stall of all of them has passed, once', async () => {
    const { nodes, pass, runtime, shared } = cluster(['a', 'b'])
    await startAll(nodes)
    for (const { scheduler } of nodes) {
      await scheduler.schedule('s', '* * * * *', { type: 't' }, { ...UTC, missed: 'all' })
    }
    await runtime.advance(59_999)
    for (const node of nodes) node.stall()
    await runtime.advance(90_001)
    for (const node of nodes) node.wake()
    await runtime.advance(1_000)
    const { jobs } = await shared.list({ after: 0, limit: 100 })
    expect(jobs.map(({ id }) => id.slice(13, 18))).toEqual(['00:01', '00:02'])
    for (const { scheduler } of nodes) await pass(scheduler.close())
  })

  it('DQ-20: that restart with another time on their walls add nothing twice', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    for (const jump of [0, -2 * HOUR, 3 * HOUR, -DAY]) {
      runtime.jump(jump)
      const scheduler = open({ store: shared })
      await scheduler.schedule('s', '@hourly', { type: 't' }, { ...UTC, missed: 'all' })
      await runtime.advance(HOUR)
      await pass(scheduler.close())
    }
    const { jobs } = await shared.list({ after: 0, limit: 100 })
    expect(jobs.map(({ id }) => id.slice(2, 15))).toEqual([
      '2025-01-01T01',
      '2025-01-01T02',
      '2025-01-01T03',
      '2025-01-01T04',
    ])
  })
})

describe('a job that is not let in', () => {
  it('of a full pool waits for room, with one warning, and is added once', async () => {
    const { open, pass, runtime, warnings } = world()
    const scheduler = open({ pools: { p: { maxQueue: 1 } } })
    await scheduler.addJob({ id: 'x', type: 't', pool: 'p' })
    await scheduler.schedule('s', '@hourly', { type: 't', pool: 'p' }, UTC)
    await runtime.advance(HOUR + 10_000)
    expect(await instantsOf(scheduler, 's')).toEqual([])
    const said = warnings().filter((text) => text.includes('schedule "s"'))
    expect(said).toEqual([expect.stringContaining('"p" is full')])
    await scheduler.cancel('x')
    await runtime.advance(2_000)
    expect(await instantsOf(scheduler, 's')).toEqual(['01-01T01:00'])
    await pass(scheduler.close())
  })

  it('holds up no other schedule, and no housekeeping', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: { p: { maxQueue: 0 } } })
    await scheduler.schedule('full', '0 * * * *', { type: 't', pool: 'p' }, UTC)
    await scheduler.schedule('s', '* * * * *', { type: 't', delay: '1d' }, UTC)
    await scheduler.addJob({ id: 'x', type: 't', enqueueTimeout: '65m' })
    await runtime.advance(70 * MINUTE)
    expect(await instantsOf(scheduler, 's')).toHaveLength(70)
    expect((await scheduler.job('x'))?.status).toBe('failed')
    await pass(scheduler.close())
  })

  it('delays no deadline by the second until it is tried again', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: { p: { maxQueue: 0 } } })
    await scheduler.schedule('full', '0 * * * *', { type: 't', pool: 'p' }, UTC)
    await runtime.advance(HOUR + 100)
    const start = runtime.now()
    await scheduler.addJob({ id: 'x', type: 't', enqueueTimeout: 300 })
    await scheduler.addJob({ id: 'y', type: 't', enqueueTimeout: 500 })
    await runtime.advance(2_000)
    const ends = await Promise.all(['x', 'y'].map((id) => scheduler.job(id)))
    expect(ends.map((job) => (job?.finishedAt ?? 0) - start)).toEqual([300, 500])
    await pass(scheduler.close())
  })

  it('has had its instant if its key is taken: the owner stands for it', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    await scheduler.schedule('s', '@hourly', { type: 't', key: 'one at a time' }, UTC)
    await runtime.advance(3 * HOUR)
    expect(await instantsOf(scheduler, 's')).toEqual(['01-01T01:00'])
    await scheduler.cancel('s@2025-01-01T01:00:00.000Z')
    await runtime.advance(HOUR)
    expect(await instantsOf(scheduler, 's')).toEqual(['01-01T01:00', '01-01T04:00'])
    await pass(scheduler.close())
  })

  it('goes without, if another job has its name already', async () => {
    const { open, pass, runtime, warnings } = world()
    const scheduler = open()
    await scheduler.addJob({ id: 's@2025-01-01T01:00:00.000Z', type: 'other' })
    await scheduler.schedule('s', '@hourly', { type: 't' }, UTC)
    await runtime.advance(2 * HOUR)
    expect(await instantsOf(scheduler, 's')).toEqual(['01-01T01:00', '01-01T02:00'])
    expect(warnings().join()).toContain('is taken by a job with another type')
    await pass(scheduler.close())
  })

  it('waits for a store that is away, or whose answer got lost, and comes once', async () => {
    const { open, pass, runtime, store } = world()
    const away = faulty(store())
    const scheduler = open({ store: processOn(away.store, runtime, true).store })
    await scheduler.schedule('s', '@hourly', { type: 't' }, { ...UTC, missed: 'all' })
    let inserts = 0
    away.decide = (call) => {
      if (call !== 'insert') return 'ok'
      inserts += 1
      return inserts === 1 ? 'lose-answer' : 'ok'
    }
    await runtime.advance(2 * HOUR + 5_000)
    expect(await instantsOf(scheduler, 's')).toEqual(['01-01T01:00', '01-01T02:00'])
    await pass(scheduler.close())
  })
})

describe('what is wrong about a schedule', () => {
  const wrong: readonly [string, unknown[], string, string][] = [
    ['the expression', ['s', '* * *', { type: 't' }], 'INVALID_OPTION', 'cron'],
    ['one that never comes', ['s', '0 0 30 2 *', { type: 't' }], 'INVALID_OPTION', 'cron'],
    ['the zone', ['s', '@daily', { type: 't' }, { timeZone: 'Mars' }], 'INVALID_OPTION', 'Mars'],
    ['the name', ['', '@daily', { type: 't' }], 'INVALID_OPTION', 'name of a schedule'],
    ['an option', ['s', '@daily', { type: 't' }, { zone: 'UTC' }], 'INVALID_OPTION', 'zone'],
    ['missed', ['s', '@daily', { type: 't' }, { missed: 1 }], 'INVALID_OPTION', 'missed'],
    ['no job', ['s', '@daily', undefined], 'INVALID_JOB', 'A job'],
    ['a job without a type', ['s', '@daily', {}], 'INVALID_JOB', 'type'],
    ['a wish of the job', ['s', '@daily', { type: 't', priority: 0 }], 'INVALID_JOB', 'priority'],
    ['a slip in it', ['s', '@daily', { type: 't', prio: 5 }], 'INVALID_JOB', 'priority'],
    ['a payload that is no JSON', ['s', '@daily', { type: 't', payload: 1n }], 'INVALID_JOB', '1n'],
    ['a handler in it', ['s', '@daily', { execute: () => 1 }], 'INVALID_JOB', 'execute'],
    ['an id in it', ['s', '@daily', { type: 't', id: 'x' }], 'INVALID_JOB', 'id'],
  ]

  it.each(wrong)('is refused by name, and nothing is stored: %s', async (_, given, code, text) => {
    const { open, store } = world()
    const calls: string[] = []
    const scheduler = open({ store: tapped(store(), (call) => calls.push(call)) })
    const schedule = scheduler.schedule.bind(scheduler) as (...args: unknown[]) => Promise<void>
    const error = await schedule(...given).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code })
    expect((error as Error).message).toContain(text)
    expect(calls).toEqual([])
  })

  it('and so is a call after close', async () => {
    const { open, pass } = world()
    const scheduler = open()
    await pass(scheduler.close())
    const job: JobInput = { type: 't' }
    expect(await codeOf(scheduler.schedule('s', '@daily', job))).toBe('CLOSED')
  })
})
