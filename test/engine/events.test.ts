// Owns the promises about events and the log: what is emitted, what is kept, and for how long.

import { describe, expect, it } from 'vitest'
import type { JobEvent } from '../../src/core/job.ts'
import { EVENT_NAMES } from '../../src/engine/events.ts'
import type { AxScheduler } from '../../src/index.ts'
import type { OverdueAnswer, Told } from '../../src/store/store.ts'
import {
  all,
  body,
  cluster,
  codeOf,
  ignores,
  listeners,
  logOf,
  takes,
  tapped,
  watchForLeaks,
  world,
} from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

function record(scheduler: AxScheduler): string[] {
  const heard: string[] = []
  for (const name of EVENT_NAMES) scheduler.on(name, () => heard.push(name))
  return heard
}

describe('on', () => {
  it('tells two names for a job that is ready as it is added, from one record', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    const heard: [string, JobEvent][] = []
    scheduler.on('job:added', (event) => heard.push(['job:added', event]))
    scheduler.on('job:ready', (event) => heard.push(['job:ready', event]))
    const { id } = await scheduler.addJob({ type: 't' })
    expect(heard.map(([name]) => name)).toEqual(['job:added', 'job:ready'])
    expect(heard[0]?.[1]).toBe(heard[1]?.[1])
    const log = await all(scheduler.events())
    expect(log).toEqual([heard[0]?.[1]])
    expect(log).toMatchObject([
      { seq: 1, job: id, type: 't', pool: 'default', from: null, to: 'ready', attempt: 0 },
    ])
  })

  it('tells of every step of a job, in order', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const heard = record(scheduler)
    await scheduler.addJob({
      retries: 1,
      delay: 10,
      execute: ({ attempt, progress }) => {
        progress(attempt)
        if (attempt === 1) throw new Error('once')
      },
    })
    await pass(scheduler.idle())
    await runtime.drain()
    expect(heard).toEqual([
      'job:added',
      'job:ready',
      'job:running',
      'job:progress',
      'job:retry',
      'job:ready',
      'job:running',
      'job:progress',
      'job:success',
      'idle',
    ])
  })

  it('knows the names of what goes wrong', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ graceMs: 0 })
    const heard = record(scheduler)
    const heardOf = async (act: () => Promise<unknown>) => {
      heard.length = 0
      await pass(act())
      await runtime.advance(1_000)
      return [...new Set(heard)].filter((name) => !/added|ready|running|idle|success/.test(name))
    }
    const fail = async () => {
      throw new Error('broken')
    }
    const failed = await heardOf(async () =>
      codeOf((await scheduler.addJob({ execute: fail })).result()),
    )
    expect(failed).toEqual(['job:failed'])
    const timeout = { timeout: 10, execute: ignores(runtime, 100) }
    const left = await heardOf(() => scheduler.addJob(timeout))
    expect(left.sort()).toEqual(['job:failed', 'job:timeout', 'job:zombie'])
    const again = { ...timeout, retries: 1, backoff: { type: 'fixed', delay: 0 } as const }
    expect(await heardOf(() => scheduler.addJob(again))).toContain('job:retry')
    expect(
      await heardOf(async () => (await scheduler.addJob({ delay: '1h', ...noop })).cancel()),
    ).toEqual(['job:cancelled'])
    const keyed = { key: 'k', delay: '1h', ...noop }
    const twice = async () => {
      const { id } = await scheduler.addJob(keyed)
      await scheduler.addJob(keyed)
      await scheduler.cancel(id)
      await scheduler.retry(id)
    }
    expect(await heardOf(twice)).toEqual(['job:duplicate', 'job:cancelled', 'job:revived'])
  })

  it('knows the names of what a lane, a delay, a stop and a loss do', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    const told: [string, JobEvent][] = []
    const names = ['job:waiting', 'job:pending', 'job:returned', 'job:lost', 'job:ready'] as const
    for (const { scheduler } of nodes) {
      for (const name of names) scheduler.on(name, (event) => told.push([name, event]))
    }
    const heardOf = (id: string) => told.filter(([, { job }]) => job === id).map(([name]) => name)
    const paused = { pool: 'shut', exclusive: 'l', ...noop }
    await w2.scheduler.pool('shut').pause()
    await w2.scheduler.addJob({ id: 'low', ...paused })
    await w2.scheduler.addJob({ id: 'high', priority: 90, ...paused })
    expect(heardOf('low')).toEqual(['job:ready', 'job:waiting'])
    await w2.scheduler.addJob({ id: 'later', deps: ['first'], delay: '1h', ...noop })
    await w2.scheduler.addJob({ id: 'first', ...noop })
    await runtime.advance(1)
    expect(heardOf('later')).toEqual(['job:pending'])
    w1.scheduler.define('t', ignores(runtime, 1e9))
    await w1.scheduler.start()
    await w2.scheduler.addJob({ id: 'lost', type: 't' })
    await runtime.advance(1)
    w1.stall()
    await runtime.advance(20_000)
    expect(heardOf('lost')).toEqual(['job:ready', 'job:lost', 'job:ready'])
    w2.scheduler.define('t', takes(runtime, 1e9))
    await runtime.advance(1)
    await pass(w2.scheduler.close({ drainMs: 0 }))
    expect(heardOf('lost').slice(3)).toEqual(['job:returned', 'job:ready'])
  })

  it('C53: changes nothing by listeners that throw or reject', async () => {
    const { logs, open, pass } = world()
    const scheduler = open()
    for (const name of EVENT_NAMES) {
      scheduler.on(name, () => {
        throw new Error(`listener of ${name}`)
      })
      scheduler.on(name, async () => {
        throw new Error(`async listener of ${name}`)
      })
    }
    const handle = await scheduler.addJob({
      execute: ({ progress }) => {
        progress(1)
        return 'fine'
      },
    })
    expect(await pass(handle.result())).toBe('fine')
    await pass(scheduler.idle())
    expect((await handle.job()).attempts).toBe(1)
    const reported = logs.filter(({ level }) => level === 'error').map(({ message }) => message)
    expect(reported.some((message) => message.includes('job:running'))).toBe(true)
    expect(reported.some((message) => message.includes('async listener'))).toBe(true)
  })

  it('stops when its function is called, and refuses what it does not know', async () => {
    const { open, pass } = world()
    const scheduler = open()
    let heard = 0
    const off = scheduler.on('job:success', () => {
      heard += 1
    })
    await pass((await scheduler.addJob(noop)).result())
    off()
    off()
    await pass((await scheduler.addJob(noop)).result())
    expect(heard).toBe(1)
    expect(() => scheduler.on('job:sucess' as never, () => {})).toThrowError(/job:success/)
    expect(() => scheduler.on('idle', undefined as never)).toThrowError(/listener/)
  })

  it('tells of idle each time the store has become quiet', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    let idle = 0
    scheduler.on('idle', () => {
      idle += 1
    })
    for (let n = 1; n <= 3; n += 1) {
      await pass((await scheduler.addJob({ execute: takes(runtime, 10) })).result())
      await runtime.advance(10)
      expect(idle).toBe(n)
    }
  })
})

describe('events', () => {
  it('are the log of the store, in order, and folding it gives the states', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(3)
    const jobs = Array.from({ length: 60 }, (_, n) => ({
      id: `j${n}`,
      retries: n % 3,
      deps: n % 4 === 0 && n > 0 ? [`j${n - 1}`] : [],
      execute: async (context: Parameters<ReturnType<typeof takes>>[0]) => {
        await takes(runtime, n)(context)
        if (n % 7 === 0) throw new Error('broken')
      },
    }))
    await scheduler.addJobs(jobs)
    for (const id of ['j30', 'j31', 'j59']) await scheduler.cancel(id)
    await pass(scheduler.idle())
    const states = new Map<string, string>()
    let seq = 0
    let at = 0
    for await (const event of scheduler.events()) {
      expect(event.seq).toBe(seq + 1)
      expect(event.at).toBeGreaterThanOrEqual(at)
      expect(event.from ?? undefined).toBe(states.get(event.job))
      states.set(event.job, event.to)
      seq = event.seq
      at = event.at
    }
    expect(states.size).toBe(60)
    for await (const { id, status } of scheduler.jobs()) expect(status).toBe(states.get(id))
  })

  it('begin after the entry that is named', async () => {
    const { open, pass } = world()
    const scheduler = open()
    await pass((await scheduler.addJob({ id: 'a', ...noop })).result())
    const log = await all(scheduler.events())
    expect(log).toHaveLength(3)
    expect(await all(scheduler.events({ after: 0 }))).toEqual(log)
    expect(await all(scheduler.events({ after: 2 }))).toEqual(log.slice(2))
    expect(await all(scheduler.events({ after: 3 }))).toEqual([])
    expect(await codeOf(all(scheduler.events({ afer: 3 } as never)))).toBe('INVALID_OPTION')
  })

  it('are read page by page, however many there are', async () => {
    const { open, pass } = world()
    const scheduler = open()
    await scheduler.addJobs(Array.from({ length: 1_500 }, () => noop))
    await pass(scheduler.idle())
    const log = await all(scheduler.events())
    expect(log.map(({ seq }) => seq)).toEqual(Array.from({ length: 4_500 }, (_, n) => n + 1))
  })

  it('follow what comes, until the signal says stop', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const control = new AbortController()
    const seen: string[] = []
    const reading = (async () => {
      const { signal } = control
      for await (const { event } of scheduler.events({ follow: true, signal })) seen.push(event)
    })().catch((error: unknown) => error)
    await runtime.drain()
    await pass((await scheduler.addJob(noop)).result())
    await runtime.advance(1)
    expect(seen).toEqual(['job:added', 'job:running', 'job:success'])
    await pass((await scheduler.addJob(noop)).result())
    await runtime.advance(1)
    expect(seen).toHaveLength(6)
    const reason = new Error('enough')
    control.abort(reason)
    expect([undefined, reason]).toContain(await pass(reading))
    expect(listeners(control.signal)).toBe(0)
  })

  it('miss nothing that is written while a page is read', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(5)
    const seen: number[] = []
    const control = new AbortController()
    const reading = (async () => {
      const { signal } = control
      for await (const { seq } of scheduler.events({ follow: true, signal })) {
        seen.push(seq)
        for (let n = 0; n < seq % 5; n += 1) await null
      }
    })().catch(() => {})
    for (let n = 0; n < 100; n += 1) {
      const handle = await scheduler.addJob({ execute: () => null })
      for (let i = 0; i < n % 13; i += 1) await null
      if (n % 3 === 0) await pass(handle.result())
    }
    await pass(scheduler.idle())
    await runtime.advance(1)
    expect(seen).toEqual(Array.from({ length: 300 }, (_, n) => n + 1))
    control.abort()
    await pass(reading)
  })

  it('end when the scheduler is closed', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const reading = all(scheduler.events({ follow: true }))
    await pass((await scheduler.addJob(noop)).result())
    await runtime.advance(1)
    await pass(scheduler.close())
    expect(await pass(reading)).toHaveLength(3)
  })

  it('that retention took are GONE, naming the oldest there is', async () => {
    const { open, pass, fails, runtime } = world()
    const scheduler = open({ keep: { log: '1h', success: '10m' } })
    await pass((await scheduler.addJob(noop)).result())
    await runtime.advance(2 * 3_600_000)
    await pass((await scheduler.addJob({ id: 'b', ...noop })).result())
    await runtime.advance(20 * 60_000)
    const kept = await all(scheduler.events())
    expect(kept.map(({ job }) => job)).toEqual(['b', 'b', 'b'])
    const error = await fails(all(scheduler.events({ after: 0 })))
    expect(error).toMatchObject({ code: 'GONE', oldest: kept[0]?.seq })
    expect(error.message).toContain(String(kept[0]?.seq))
    expect(await all(scheduler.events({ after: (kept[0]?.seq ?? 0) - 1 }))).toEqual(kept)
  })

  it('name the worker, the code and the cause', async () => {
    const { open, pass } = world()
    const scheduler = open({ name: 'w7' })
    await scheduler.addJobs([
      {
        id: 'a',
        execute: () => {
          throw Object.assign(new Error('full'), { code: 'E_FULL' })
        },
      },
      { id: 'b', deps: ['a'], ...noop },
    ])
    await pass(scheduler.idle())
    const ends = (await all(scheduler.events())).filter(({ to }) => /failed|cancelled/.test(to))
    expect(ends).toMatchObject([
      { job: 'a', code: 'E_FULL', attempt: 1, worker: expect.stringMatching(/^w7:/) },
      { job: 'b', code: 'DEPENDENCY_FAILED', cause: 'a', attempt: 0 },
    ])
  })

  it('B30: and jobs, keys and outcomes are all forgotten in the end', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    const keep = { success: '1m', outcomes: '2m', log: '3m' }
    const scheduler = open({ store: shared, keep })
    for (let round = 0; round < 5; round += 1) {
      const jobs = Array.from({ length: 1_000 }, (_, n) => ({
        key: `k${round}-${n}`,
        exclusive: `l${round}-${n}`,
        ...noop,
      }))
      await scheduler.addJobs(jobs)
      await pass(scheduler.idle())
      await runtime.advance(60_000)
    }
    await runtime.advance(600_000)
    const { states } = await scheduler.snapshot()
    expect(states.success).toBe(0)
    expect((await shared.count()).forgotten).toBe(5_000)
  })

  it('B30: are dropped when their time is over, though nothing else happens', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '1m', log: '3m' } })
    await scheduler.addJobs(Array.from({ length: 1_000 }, () => noop))
    await pass(scheduler.idle())
    await runtime.advance(600_000)
    expect(await all(scheduler.events())).toHaveLength(0)
  })

  it('DQ-04: of 5,000 jobs that expire together show bounded steps, and adding goes on', async () => {
    const { open, pass, runtime, store } = world()
    const steps: number[] = []
    const inner = tapped(store(), (call, answer) => {
      if (call === 'overdue') steps.push((answer as Told<OverdueAnswer>).answer.jobs.length)
    })
    const scheduler = open({ store: inner, keep: { success: '1h' } })
    await scheduler.addJobs(Array.from({ length: 5_000 }, () => noop))
    await pass(scheduler.idle())
    await runtime.advance(3_599_999)
    steps.length = 0
    expect((await scheduler.snapshot()).total).toBe(5_000)
    await runtime.advance(1)
    await pass((await scheduler.addJob({ id: 'new', ...noop })).result())
    expect((await scheduler.snapshot()).total).toBe(1)
    expect(Math.max(...steps)).toBeLessThanOrEqual(1_000)
  })

  it('of one job are few: nothing is logged that changes no state', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const work = body()
    const handle = await scheduler.addJob({ execute: work.execute })
    await pass(new Promise<void>((resolve) => setImmediate(resolve)))
    for (let n = 0; n < 100; n += 1) work.starts[0]?.progress(n)
    work.end(undefined)
    await pass(handle.result())
    expect(await logOf(scheduler, handle.id)).toHaveLength(3)
  })
})
