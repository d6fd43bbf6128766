// Owns the promises about running: how many at once, in which order, in whose context, and what
// a body may return or throw.

import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import type { JobContext, JobInput } from '../../src/core/types.ts'
import { poisoned, thenable } from '../kit/helpers.ts'
import { all, body, codeOf, faulty, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

describe('the cap', () => {
  it('is the number of bodies that run at once, from the first to the last', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(3)
    let running = 0
    let most = 0
    const execute = async (context: JobContext) => {
      running += 1
      most = Math.max(most, running)
      await takes(runtime, 10 + (context.payload as number))(context)
      running -= 1
    }
    const jobs = Array.from({ length: 50 }, (_, n) => ({ payload: n % 7, execute }))
    await scheduler.addJobs(jobs)
    await pass(scheduler.idle())
    expect([most, running]).toEqual([3, 0])
    const { pools, states } = await scheduler.snapshot()
    expect(states.success).toBe(50)
    expect(pools.default).toEqual({
      concurrency: 3,
      running: 0,
      ready: 0,
      queued: 0,
      overflow: 'reject',
      paused: false,
    })
  })

  it('C10: of one full pool hides no job of another', async () => {
    const { open, runtime } = world()
    const scheduler = open({ pools: { p1: { concurrency: 20 }, p2: { concurrency: 20 } } })
    const execute = takes(runtime, 1_000)
    const first = Array.from({ length: 1_000 }, () => ({ pool: 'p1', priority: 60, execute }))
    const second = Array.from({ length: 100 }, () => ({ pool: 'p2', priority: 40, execute }))
    await scheduler.addJobs([...first, ...second])
    await runtime.drain()
    const { pools } = await scheduler.snapshot()
    expect([pools.p1?.running, pools.p2?.running]).toEqual([20, 20])
    expect([pools.p1?.ready, pools.p2?.ready]).toEqual([980, 80])
  })

  it('is one over all schedulers of a store', async () => {
    const { open, pass, runtime, store } = world()
    const shared = store()
    let running = 0
    let most = 0
    const handler = async (context: JobContext<unknown>) => {
      running += 1
      most = Math.max(most, running)
      await takes(runtime, 10)(context)
      running -= 1
    }
    const [a, b] = [open({ store: shared, concurrency: 2 }), open({ store: shared })]
    a.define('t', handler)
    b.define('t', handler)
    await b.start()
    await a.addJobs(Array.from({ length: 20 }, () => ({ type: 't' })))
    await pass(Promise.all([a.idle(), b.idle()]))
    expect([most, running]).toEqual([2, 0])
  })

  it('B09: is not used up by bodies that throw at once', async () => {
    const { open, pass } = world()
    const scheduler = open(1)
    const execute = () => {
      throw new Error('at once')
    }
    const handles = await scheduler.addJobs(Array.from({ length: 20 }, () => ({ execute })))
    const last = await scheduler.addJob({ execute: () => 'still here' })
    const ends = handles.map((handle) => codeOf(handle.result()))
    expect(new Set(await pass(Promise.all(ends)))).toEqual(new Set(['HANDLER_FAILED']))
    expect(await pass(last.result())).toBe('still here')
    expect((await scheduler.snapshot()).pools.default?.running).toBe(0)
  })
})

describe('what a body answers', () => {
  it('B10: may be anything, and is taken as it is', async () => {
    const { open, pass } = world()
    const scheduler = open()
    async function* stream() {
      yield 1
    }
    const values: unknown[] = [42, undefined, null, '', stream(), () => 1, Symbol.iterator]
    for (const value of values) {
      const handle = await scheduler.addJob({ execute: () => value })
      expect(await pass(handle.result())).toBe(value)
    }
  })

  it('B11: may be a thenable, however badly it behaves', async () => {
    const { open, pass } = world()
    const scheduler = open(1)
    let looked = 0
    const lazy = thenable((resolve) => {
      looked += 1
      resolve('rows')
    })
    const twice = thenable((resolve, reject) => {
      resolve('first')
      reject(new Error('second'))
    })
    const broken = Object.assign(new Error('poisoned'), { code: 'E_POISON' })
    const ends = []
    for (const value of [lazy, twice, poisoned(broken)]) {
      const handle = await scheduler.addJob({ execute: () => value })
      ends.push(await pass(codeOf(handle.result())))
    }
    expect(ends).toEqual(['rows', 'first', 'E_POISON'])
    expect(looked).toBe(1)
    expect((await scheduler.snapshot()).pools.default?.running).toBe(0)
  })

  it('C53: may be a rejection with anything, which is a failure that can be printed', async () => {
    const { open, pass, fails } = world()
    const scheduler = open(1)
    const reasons = [undefined, null, 'a text', Object.freeze({ odd: true }), 0, Symbol('s')]
    for (const reason of reasons) {
      const handle = await scheduler.addJob({ execute: () => Promise.reject(reason) })
      const error = await fails(handle.result())
      expect(error.code).toBe('HANDLER_FAILED')
      expect(error.message.length).toBeGreaterThan(3)
    }
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).failures).toEqual({ HANDLER_FAILED: reasons.length })
  })

  it('may be an error with any code and message; jobs are found by what is kept of the code', async () => {
    const { open, pass, fails } = world()
    const scheduler = open(1)
    const message = `a\0b\ud800 ${'\u{1f600}'.repeat(10)}`
    const codes = {
      'E\0NO': 'E\ufffdNO',
      '\udc00': '\ufffd',
      ['x'.repeat(999)]: `${'x'.repeat(252)}...`,
    }
    for (const [given, kept] of Object.entries(codes)) {
      const execute = () => Promise.reject(Object.assign(new Error(message), { code: given }))
      const handle = await scheduler.addJob({ execute })
      expect(await fails(handle.result())).toMatchObject({ code: kept, message })
      expect((await all(scheduler.jobs({ code: kept }))).map(({ id }) => id)).toEqual([handle.id])
      expect((await handle.job()).attemptLog).toMatchObject([{ code: kept }])
    }
    await pass(scheduler.idle())
    const { failures } = await scheduler.snapshot()
    expect(failures).toEqual(Object.fromEntries(Object.values(codes).map((code) => [code, 1])))
  })
})

describe('the order', () => {
  const ran = async (jobs: JobInput[], cap = 1) => {
    const { open, pass } = world()
    const scheduler = open({ concurrency: cap, pools: { default: { paused: true } } })
    const order: string[] = []
    const execute = ({ job }: JobContext) => {
      order.push(job.id)
    }
    await scheduler.addJobs(jobs.map((job) => ({ execute, ...job })))
    await scheduler.pool('default').resume()
    await pass(scheduler.idle())
    return order
  }

  it('is by priority, larger first, then first come, first served', async () => {
    const jobs = [30, 50, 50, 100, 1, 50].map((priority, n) => ({
      id: `${priority}-${n}`,
      priority,
    }))
    expect(await ran(jobs)).toEqual(['100-3', '50-1', '50-2', '50-5', '30-0', '1-4'])
  })

  it('B14: is exactly the sort by priority and submission, for 2,000 jobs', async () => {
    let state = 7
    const next = () => {
      state = (state * 48_271) % 2_147_483_647
      return state
    }
    const jobs = Array.from({ length: 2_000 }, (_, n) => ({
      id: `${n}`,
      priority: 1 + (next() % 100),
    }))
    const sorted = [...jobs].sort((a, b) => b.priority - a.priority || Number(a.id) - Number(b.id))
    expect(await ran(jobs)).toEqual(sorted.map(({ id }) => id))
  })

  it('C01: gives a retry no privilege, and takes none from it: it rejoins its priority', async () => {
    const { open, pass } = world()
    const scheduler = open({ concurrency: 1, pools: { default: { paused: true } } })
    const order: string[] = []
    const execute = ({ job, attempt }: JobContext) => {
      order.push(job.id)
      if (attempt === 1) throw new Error('once')
    }
    const backoff = { type: 'fixed', delay: 0 } as const
    const jobOf = (id: string, priority: number) => ({ id, priority, retries: 1, backoff, execute })
    await scheduler.addJobs([jobOf('A1', 90), jobOf('B1', 90), jobOf('A2', 50), jobOf('B2', 50)])
    await scheduler.pool('default').resume()
    await pass(scheduler.idle())
    expect(order).toHaveLength(8)
    expect(order.slice(0, 4).sort()).toEqual(['A1', 'A1', 'B1', 'B1'])
    expect((await scheduler.snapshot()).states.success).toBe(4)
    for (const id of ['A1', 'B1', 'A2', 'B2']) expect((await scheduler.job(id))?.attempts).toBe(2)
  })

  it('C01: puts a retry behind its equals that were ready before it failed', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const order: string[] = []
    const execute = async (context: JobContext) => {
      order.push(context.job.id)
      await takes(runtime, 10)(context)
      if (context.attempt === 1) throw new Error('once')
    }
    const backoff = { type: 'fixed', delay: 0 } as const
    const jobs = ['A', 'B', 'C'].map((id) => ({ id, retries: 1, backoff, execute }))
    await scheduler.addJobs(jobs)
    await pass(scheduler.idle())
    expect(order).toEqual(['A', 'B', 'C', 'A', 'B', 'C'])
  })

  it('B17: gives a freed slot to the head of the line before anybody new can have it', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const order: string[] = []
    const first = body()
    const execute = ({ job }: JobContext) => {
      order.push(job.id)
    }
    const a = await scheduler.addJob({ id: 'a', execute: first.execute })
    await scheduler.addJob({ id: 'b', execute })
    await runtime.drain()
    const late = a.result().then(() => scheduler.addJobs(['c', 'd'].map((id) => ({ id, execute }))))
    first.end(undefined)
    await pass(late)
    await pass(scheduler.idle())
    expect(order).toEqual(['b', 'c', 'd'])
  })

  it('C06: never starts more than the cap, whoever comes as a slot is freed', async () => {
    const { open, pass } = world()
    for (const cap of [1, 2, 5]) {
      const scheduler = open(cap)
      let running = 0
      let most = 0
      const execute = async () => {
        running += 1
        most = Math.max(most, running)
        await null
        running -= 1
      }
      const rounds = Array.from({ length: 3 * cap }, async () => {
        for (let round = 0; round < 100; round += 1) {
          const handle = await scheduler.addJob({ execute })
          await handle.result()
        }
      })
      await pass(Promise.all(rounds))
      expect([cap, most]).toEqual([cap, cap])
    }
  })

  it('starts nothing before its time, and then by rank', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const starts: [string, number][] = []
    const t0 = runtime.now()
    const execute = ({ job }: JobContext) => {
      starts.push([job.id, runtime.now() - t0])
    }
    await scheduler.addJobs([
      { id: 'delay', delay: '5s', execute },
      { id: 'at', availableAt: t0 + 5_000, priority: 60, execute },
      { id: 'past', availableAt: t0 - 5_000, execute },
      { id: 'soon', delay: 100, execute },
    ])
    await pass(scheduler.idle())
    expect(starts).toEqual([
      ['past', 0],
      ['soon', 100],
      ['at', 5_000],
      ['delay', 5_000],
    ])
  })
})

describe('the async context', () => {
  const storage = new AsyncLocalStorage<string>()

  it('B12: of whoever submitted it reaches a body, its retries and what it awaits', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(2)
    const seen: Record<string, (string | undefined)[]> = {}
    const execute = async (context: JobContext) => {
      const mine: (string | undefined)[] = []
      seen[`${context.payload as string}-${context.attempt}`] = mine
      mine.push(storage.getStore())
      await takes(runtime, 10)(context)
      mine.push(storage.getStore())
      if (context.attempt === 1) throw new Error('once')
    }
    const submit = (name: string) =>
      storage.run(name, () => scheduler.addJob({ payload: name, retries: 1, execute }))
    await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map(submit))
    await pass(scheduler.idle())
    expect(Object.keys(seen)).toHaveLength(12)
    for (const [name, contexts] of Object.entries(seen)) {
      expect(contexts).toEqual([name[0], name[0]])
    }
  })

  it('B12: of a caller who only happens to be first is not seen by defined handlers', async () => {
    const { open, pass } = world()
    const scheduler = open(1)
    const seen: (string | undefined)[] = []
    storage.run('definer', () =>
      scheduler.define('t', () => {
        seen.push(storage.getStore())
      }),
    )
    await storage.run('first', () => scheduler.addJob({ type: 't' }))
    await storage.run('second', () => scheduler.addJob({ type: 't' }))
    await pass(scheduler.idle())
    await storage.run('third', () => scheduler.addJob({ type: 't', delay: 10 }))
    await pass(scheduler.idle())
    expect(seen).toEqual([undefined, undefined, undefined])
  })
})

describe('a handler', () => {
  it('may be defined once per type, and must be a function', async () => {
    const { open } = world()
    const scheduler = open()
    scheduler.define('t', () => 1)
    expect(() => scheduler.define('t', () => 2)).toThrowError(/handler already/)
    expect(() => scheduler.define('u', {}, undefined as never)).toThrowError(/handler/)
    expect(() => scheduler.define('u', { retires: 1 } as never, () => 1)).toThrowError(/retries/)
  })

  it('runs under the policy of its type, unless the job asks for something else', async () => {
    const { open } = world()
    const types = { t: { pool: 'slow', timeout: '2s', retries: 1 } }
    const scheduler = open({ types, autoStart: false })
    scheduler.define('t', { priority: 70, timeout: '3s' }, () => 1)
    const plain = await (await scheduler.addJob({ type: 't' })).job()
    expect(plain).toMatchObject({ pool: 'slow', priority: 70, timeout: 3_000, retries: 1 })
    const own = await (await scheduler.addJob({ type: 't', pool: 'p', timeout: 5 })).job()
    expect(own).toMatchObject({ pool: 'p', priority: 70, timeout: 5, retries: 1 })
  })

  it('is given one idempotency key for all attempts of a job', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const keys: string[] = []
    const handle = await scheduler.addJob({
      retries: 2,
      execute: ({ idempotencyKey }) => {
        keys.push(idempotencyKey)
        throw new Error('again')
      },
    })
    await pass(codeOf(handle.result()))
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(1)
  })

  it('tells its progress to listeners and to whoever asks for the job', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const told: unknown[] = []
    scheduler.on('job:progress', (event) => told.push(event))
    const work = body()
    const handle = await scheduler.addJob({ id: 'p', execute: work.execute })
    await runtime.drain()
    work.starts[0]?.progress(50)
    work.starts[0]?.progress({ page: 2 })
    expect(told).toEqual([
      { job: 'p', attempt: 1, value: 50 },
      { job: 'p', attempt: 1, value: { page: 2 } },
    ])
    expect((await handle.job()).progress).toEqual({ page: 2 })
    work.end(undefined)
    await pass(handle.result())
    expect('progress' in (await handle.job())).toBe(false)
  })

  it('sees a signal that was there before it asked for it, and shares it', async () => {
    const { open, runtime } = world()
    const scheduler = open()
    const work = body()
    const handle = await scheduler.addJob({ execute: work.execute })
    await runtime.drain()
    await handle.cancel('enough')
    await runtime.drain()
    const context = work.starts[0] as JobContext
    expect(context.signal).toBe(context.signal)
    expect(context.signal.aborted).toBe(true)
    expect(context.signal.reason).toMatchObject({ code: 'CANCELLED' })
  })
})

describe('an end that cannot be written', () => {
  it('ES-05: is written again and again under the same lease, until the store answers', async () => {
    const { open, pass, runtime, store } = world()
    const link = faulty(store())
    const scheduler = open({ store: link.store, concurrency: 1 })
    for (const fate of ['refuse', 'lose-answer'] as const) {
      const work = body<string>()
      const handle = await scheduler.addJob({ execute: work.execute })
      await runtime.advance(1)
      let calls = 0
      link.decide = (call) => {
        if (call !== 'apply') return 'ok'
        calls += 1
        return calls <= 3 ? fate : 'ok'
      }
      work.end('done')
      expect(await pass(handle.result())).toBe('done')
      await runtime.advance(10_000)
      expect(calls).toBe(4)
      expect(work.starts).toHaveLength(1)
      expect((await handle.job()).attempts).toBe(1)
      expect((await scheduler.snapshot()).pools.default?.running).toBe(0)
    }
  })
})

describe('a hostile promise', () => {
  it('is a failure of its own job, and its neighbours run all the same', async () => {
    const { open, pass } = world()
    const scheduler = open(10)
    const hostile = () => {
      const get = () => {
        throw new Error('no constructor for you')
      }
      return Object.defineProperty(Promise.resolve(1), 'constructor', { get })
    }
    const handles = await scheduler.addJobs([{ execute: hostile }, { execute: () => 2 }])
    await pass(scheduler.idle())
    const { states } = await scheduler.snapshot()
    expect(states.success + states.failed).toBe(2)
    expect(await handles[1]?.result()).toBe(2)
  })
})
