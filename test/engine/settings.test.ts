// Owns the promises about what is stored of types: who says it, who goes by it, and when.

import { describe, expect, it } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import type { Change, Hint, Store } from '../../src/store/store.ts'
import { cluster, faulty, processOn, takes, tapped, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

/** The settings of types that calls of `configure` have brought, in order. */
function spied(inner: Store): { readonly store: Store; readonly types: string[] } {
  const types: string[] = []
  const store = new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      if (name !== 'configure') return value.bind(target)
      return (...changes: readonly Change[]) => {
        for (const change of changes) if ('type' in change) types.push(change.type)
        return target.configure(...changes)
      }
    },
  })
  return { store, types }
}

describe('what is given of a type', () => {
  it('is stored at the start, whether it came with the options or with define', async () => {
    const { open, store } = world()
    const shared = store()
    const scheduler = open({
      store: shared,
      types: { mail: { pool: 'out', priority: 70, retries: 5, maxLost: 1 } },
    })
    scheduler.define('sync', { concurrency: 3, timeout: '10s', preemptible: true }, () => {})
    await scheduler.start()
    const { types } = await shared.settings()
    expect(types).toMatchObject({
      mail: { pool: 'out', priority: 70, concurrency: null, maxLost: 1, terms: { retries: 5 } },
      sync: { pool: 'default', concurrency: 3, maxLost: null, terms: { timeoutMs: 10_000 } },
    })
    expect(types.sync?.terms.preemptible).toBe(true)
  })

  it('is stored as one: what define says goes over what the options said', async () => {
    const { open, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, types: { mail: { retries: 5, priority: 20 } } })
    // A key that is undefined is no word about it.
    const policy = { retries: 2, priority: undefined } as { retries: number }
    scheduler.define('mail', policy, () => {})
    await scheduler.start()
    expect((await shared.settings()).types.mail).toMatchObject({
      priority: 20,
      terms: { retries: 2 },
    })
  })

  it('is stored although the type came after the start, and once', async () => {
    const { open, runtime, store } = world()
    const { store: shared, types } = spied(store())
    const scheduler = open({ store: shared, types: { early: { retries: 1 } } })
    await scheduler.start()
    scheduler.define('late', { retries: 7 }, () => {})
    scheduler.define('later', { priority: 1 }, () => {})
    await runtime.drain()
    expect(types).toEqual(['early', 'late', 'later'])
    expect((await shared.settings()).types.late?.terms.retries).toBe(7)
  })

  it('is stored in one step with everything else that was given, before anybody else is told', async () => {
    const { open, pass, store } = world()
    const calls: string[] = []
    const shared = tapped(store(), (call) => calls.push(call))
    const names = Array.from({ length: 20 }, (_, n) => `n${n}`)
    const scheduler = open({
      store: shared,
      ageing: { every: '1m' },
      retryBudget: { count: 5, per: '1m' },
      pools: Object.fromEntries(names.map((name) => [name, { concurrency: 3 }])),
      types: Object.fromEntries(names.map((name) => [name, { retries: 1 }])),
      autoStart: false,
    })
    await scheduler.snapshot()
    expect(calls).toEqual([
      'open',
      'settings',
      'configure',
      'watch',
      'settings',
      'count',
      'workers',
    ])
    const { pools, types, ageing, budget } = await shared.settings()
    expect([Object.keys(pools).length, Object.keys(types).length]).toEqual([20, 20])
    expect([ageing?.everyMs, budget === null]).toEqual([60_000, false])
    await pass(scheduler.close())
  })

  it('is stored though each call of the start is lost once, on its way or on its way back', async () => {
    for (const fate of ['refuse', 'lose-answer'] as const) {
      const { open, pass, store } = world()
      const faults = faulty(store())
      const lost = new Map<string, number>()
      faults.decide = (call) => {
        const times = lost.get(call) ?? 0
        lost.set(call, times + 1)
        return times === 0 ? fate : 'ok'
      }
      const given = { ageing: { every: '1m' }, types: { t: { retries: 3 } } } as const
      const scheduler = open({ store: faults.store, ...given })
      await pass(scheduler.start())
      expect(lost.get('configure')).toBe(2)
      const { types, ageing } = await faults.store.settings()
      expect([types.t?.terms.retries, ageing?.everyMs]).toEqual([3, 60_000])
      await pass(scheduler.close())
    }
  })

  it('is given up after some seconds of an outage, and at once where asking again is no use', async () => {
    const { fails, open, pass, runtime, store } = world()
    const faults = faulty(store())
    const scheduler = open({ store: faults.store, types: { t: { retries: 3 } } })
    faults.decide = () => 'refuse'
    expect((await fails(scheduler.start())).code).toBe('STORE_UNAVAILABLE')
    expect(runtime.monotonic()).toBeGreaterThan(500)
    expect(runtime.monotonic()).toBeLessThan(5_000)
    let asked = 0
    faults.decide = () => {
      asked += 1
      throw new AxError('STORE_UNAVAILABLE', 'The file is damaged.', { retryable: false })
    }
    expect((await fails(scheduler.start())).message).toBe('The file is damaged.')
    expect(asked).toBe(1)
    faults.decide = () => 'ok'
    await pass(scheduler.start())
    expect((await faults.store.settings()).types.t?.terms.retries).toBe(3)
    await pass(scheduler.close())
  })

  it('is stored late rather than never while the store is away', async () => {
    const { open, pass, runtime, store } = world()
    const faults = faulty(store())
    const scheduler = open({ store: faults.store })
    await scheduler.start()
    faults.decide = (call) => (call === 'configure' ? 'refuse' : 'ok')
    scheduler.define('t', { retries: 7 }, () => {})
    await runtime.advance(30_000)
    expect((await faults.store.settings()).types).toEqual({})
    faults.decide = () => 'ok'
    await runtime.advance(2_000)
    expect((await faults.store.settings()).types.t?.terms.retries).toBe(7)
    await pass(scheduler.close())
  })

  it('is nothing where nothing was said, so that no default goes over what others have said', async () => {
    const { open, store } = world()
    const shared = store()
    await open({ store: shared, types: { t: { retries: 5 } } }).start()
    const other = open({ store: shared, types: { u: {} } })
    other.define('t', () => {})
    other.define('v', { retryable: () => true }, () => {})
    await other.start()
    const { types } = await shared.settings()
    expect(Object.keys(types)).toEqual(['t'])
    expect(types.t?.terms.retries).toBe(5)
  })

  it('is what was said last, of all processes', async () => {
    const { open, store } = world()
    const shared = store()
    await open({ store: shared, types: { t: { retries: 5, priority: 9 } } }).start()
    await open({ store: shared, types: { t: { retries: 1 } } }).start()
    await open({ store: shared, types: { t: { timeout: '5s' } } }).start()
    expect((await shared.settings()).types.t).toMatchObject({
      priority: 9,
      terms: { retries: 1, timeoutMs: 5_000, maxLost: 3 },
    })
  })

  it('keeps a cap that others have said, until somebody takes it back', async () => {
    const { open, store } = world()
    const shared = store()
    const stored = async () => (await shared.settings()).types.t
    await open({ store: shared, types: { t: { concurrency: 1, pool: 'db', maxLost: 7 } } }).start()
    await open({ store: shared, types: { t: { retries: 9 } } }).start()
    expect(await stored()).toMatchObject({ concurrency: 1, pool: 'db', terms: { maxLost: 7 } })
    await open({ store: shared, types: { t: { concurrency: Number.POSITIVE_INFINITY } } }).start()
    expect(await stored()).toMatchObject({ concurrency: null, pool: 'db', terms: { retries: 9 } })
  })

  it('is told with each sign of life, for whoever compares workers', async () => {
    const { open, store } = world()
    const shared = store()
    const scheduler = open({ store: shared, concurrency: 4, types: { t: { retries: 5 } } })
    await scheduler.start()
    const [worker] = await shared.workers()
    expect(JSON.parse(worker?.settings ?? '')).toMatchObject({
      pools: { default: { concurrency: 4 } },
      types: { t: { terms: { retries: 5 } } },
    })
  })
})

describe('what is stored of a type', () => {
  const said = {
    ...{ pool: 'db', priority: 70, retries: 3, timeout: '8s', heartbeat: '5s' },
    ...{ idempotent: false, maxLost: 1 },
  } as const

  /** A store in which another process has said what there is to say of `crawl`. */
  async function told() {
    const base = world()
    const shared = base.store()
    await base.open({ store: shared, autoStart: false, types: { crawl: said } }).snapshot()
    return { ...base, shared }
  }

  it('holds for what a worker submits that has a handler and says nothing, in any way', async () => {
    const { open, pass, runtime, shared } = await told()
    const worker = open({ store: shared, keep: { success: '1d' } })
    const { submit } = worker.define('crawl', ({ payload, submit: add }) =>
      payload === 'seed' ? add({ type: 'crawl', id: 'link' }) : undefined,
    )
    await worker.addJob({ type: 'crawl', id: 'first', payload: 'seed' })
    await worker.addJobs([{ type: 'crawl', id: 'batch' }])
    await worker.addMany([{ type: 'crawl', id: 'stream' }])
    await submit(1, { id: 'handle' })
    await worker.schedule('tick', '* * * * *', { type: 'crawl' }, { timeZone: 'UTC' })
    await runtime.advance(60_000)
    const ids = ['first', 'link', 'batch', 'stream', 'handle', 'tick@2025-01-01T00:01:00.000Z']
    for (const id of ids) {
      const [job] = await shared.get([id])
      expect(job, id).toMatchObject({ pool: 'db', priority: 70 })
      expect(job?.terms, id).toMatchObject({
        ...{ retries: 3, timeoutMs: 8_000, heartbeatMs: 5_000, idempotent: false, maxLost: 1 },
      })
    }
    await pass(worker.close())
  })

  it('holds for all that a process does not say itself, and what a job says goes over both', async () => {
    const { open, shared } = await told()
    const worker = open({ store: shared, autoStart: false, types: { crawl: { priority: 50 } } })
    worker.define('crawl', { retries: 0, timeout: '1s' }, () => {})
    const { id } = await worker.addJob({ type: 'crawl', timeout: 0, idempotent: true })
    const [job] = await shared.get([id])
    expect(job).toMatchObject({ pool: 'db', priority: 50 })
    expect(job?.terms).toMatchObject({
      ...{ retries: 0, timeoutMs: 0, heartbeatMs: 5_000, idempotent: true, maxLost: 1 },
    })
  })

  it('is charged once with an unknown outcome, where another process has said not idempotent', async () => {
    const { open, pass, runtime, shared } = await told()
    const worker = open({ store: shared })
    let charged = 0
    worker.define('crawl', { retries: 2, timeout: '1s' }, async (context) => {
      charged += 1
      return takes(runtime, 60_000)(context)
    })
    const handle = await worker.addJob({ type: 'crawl' })
    await pass(handle.result().catch(() => {}))
    expect([charged, (await handle.job()).error?.code]).toEqual([1, 'OUTCOME_UNKNOWN'])
    await pass(worker.close())
  })

  it('is for a process that says the opposite no reason to take its own word back', async () => {
    const { open, shared } = await told()
    const own = open({ store: shared, autoStart: false, types: { crawl: { pool: 'own' } } })
    await own.snapshot()
    await open({ store: shared, autoStart: false, types: { crawl: { pool: 'new' } } }).snapshot()
    const pools = []
    for (const scheduler of [own, open({ store: shared, autoStart: false })]) {
      const handle = await scheduler.addJob({ type: 'crawl' })
      pools.push((await handle.job()).pool)
    }
    expect(pools).toEqual(['own', 'new'])
  })

  it('lets no job in that could never run again once displaced, whoever has said what', async () => {
    const { fails, open, shared } = await told()
    const worker = open({
      store: shared,
      autoStart: false,
      types: { crawl: { preemptible: true } },
    })
    await worker.snapshot()
    for (const scheduler of [worker, open({ store: shared, autoStart: false })]) {
      const error = await fails(scheduler.addJob({ type: 'crawl' }))
      expect(error).toMatchObject({ code: 'INVALID_JOB', option: 'preemptible' })
      expect(error.message).toContain('preemptible, not idempotent, and has no confirm')
      expect((await fails(scheduler.addJobs([{ type: 'crawl' }]))).message).toMatch(/^jobs\[0\]: /)
      expect((await scheduler.addJob({ type: 'crawl', idempotent: true })).added).toBe(true)
    }
  })
})

describe('a process that only submits', () => {
  it('goes by what is stored of a type that it knows nothing of', async () => {
    const { nodes } = cluster(['worker', 'web'])
    const [worker, web] = nodes
    const policy = { pool: 'out', priority: 70, retries: 5, timeout: '3s', maxLost: 1 } as const
    worker.scheduler.define('mail', policy, () => {})
    await worker.scheduler.start()
    const { id } = await web.scheduler.addJob({ id: 'a', type: 'mail' })
    expect(await web.scheduler.job(id)).toMatchObject({
      pool: 'out',
      priority: 70,
      retries: 5,
      timeout: 3_000,
    })
    const [batched] = await web.scheduler.addJobs([{ type: 'mail', retries: 1, pool: 'own' }])
    expect(await batched?.job()).toMatchObject({ pool: 'own', retries: 1, timeout: 3_000 })
  })

  it('goes by it with its very first job, before it has opened the store', async () => {
    const { open, store } = world()
    const shared = store()
    await open({ store: shared, types: { mail: { pool: 'out' } } }).start()
    const web = open({ store: shared, autoStart: false })
    const handles = await Promise.all([
      web.addJob({ type: 'mail' }),
      web.addJob({ type: 'other' }),
      web.addJobs([{ type: 'mail' }]).then(([handle]) => handle),
    ])
    const pools = handles.map(async (handle) => (await handle?.job())?.pool)
    expect(await Promise.all(pools)).toEqual(['out', 'default', 'out'])
    expect(await web.addMany([{ type: 'mail' }])).toBe(1)
    expect((await web.snapshot()).pools.out?.ready).toBe(3)
  })

  it('stores what was submitted, though its caller goes on and changes it', async () => {
    const { open, store } = world()
    const shared = store()
    const web = open({ store: shared, autoStart: false })
    const payload = { n: 1 }
    const first = web.addJob({ type: 'mail', payload })
    payload.n = 2
    const second = web.addJobs([{ type: 'mail', payload }])
    payload.n = 3
    const jobs = [await (await first).job(), await (await second)[0]?.job()]
    expect(jobs.map((job) => job?.payload)).toEqual([{ n: 1 }, { n: 2 }])
  })

  it('goes by a change as soon as it is told of it', async () => {
    const { open, store } = world()
    const shared = store()
    const web = open({ store: shared, autoStart: false })
    await web.addJob({ type: 'mail' })
    const worker = open({ store: shared })
    worker.define('mail', { pool: 'out' }, () => {})
    await worker.start()
    expect(await (await web.addJob({ type: 'mail' })).job()).toMatchObject({ pool: 'out' })
  })

  it('goes by one that it was not told of within a second', async () => {
    const { open, runtime, store } = world()
    const shared = store()
    let reads = 0
    const process = processOn(
      tapped(shared, (call) => {
        if (call === 'settings') reads += 1
      }),
      runtime,
      true,
    )
    const web = open({ store: process.store, runtime: process.runtime, autoStart: false })
    await web.addJob({ type: 'mail' })
    await open({ store: shared, types: { mail: { pool: 'out' } } }).start()
    await runtime.advance(999)
    const early = await web.addJob({ type: 'mail' })
    expect([(await early.job()).pool, reads]).toEqual(['default', 1])
    await runtime.advance(1)
    const handles = await Promise.all([1, 2, 3].map(() => web.addJob({ type: 'mail' })))
    expect([(await handles[2]?.job())?.pool, reads]).toEqual(['out', 2])
  })

  it('asks no more often than once a second, also about types that it knows itself', async () => {
    const { open, runtime, store } = world()
    const shared = store()
    let reads = 0
    const process = processOn(
      tapped(shared, (call) => {
        if (call === 'settings') reads += 1
      }),
      runtime,
      true,
    )
    const types = { mail: { retries: 1 } }
    const web = open({ store: process.store, runtime: process.runtime, autoStart: false, types })
    await web.addJob({ type: 'mail' })
    await runtime.advance(999)
    await web.addJob({ type: 'mail' })
    expect(reads).toBe(1)
    await runtime.advance(1)
    await web.addJob({ type: 'mail' })
    await web.addJob({ type: 'mail' })
    expect(reads).toBe(2)
  })

  it('is refused at once, and opens nothing, for what would be wrong for any type', async () => {
    const { open, fails, store } = world()
    const calls: string[] = []
    const web = open({ store: tapped(store(), (call) => calls.push(call)) })
    for (const wrong of [{ priority: 0 }, { payload: 1n }, { retries: 0, backoff: {} }]) {
      const job = { type: 'unknown', ...wrong } as never
      expect((await fails(web.addJob(job))).code).toBe('INVALID_JOB')
      expect((await fails(web.addJobs([{ type: 'unknown' }, job]))).message).toMatch(/^jobs\[1\]: /)
    }
    expect(calls).toEqual([])
  })

  it('is refused with its place for what is wrong with the type it turned out to be', async () => {
    const { open, fails, store } = world()
    const shared = store()
    await open({ store: shared, types: { t: { preemptible: true } } }).start()
    const web = open({ store: shared, autoStart: false })
    const jobs = [{ type: 't' }, { type: 't', idempotent: false }]
    const error = await fails(web.addJobs(jobs))
    expect(error).toMatchObject({ code: 'INVALID_JOB', index: 1 })
    expect(error.message).toMatch(/^jobs\[1\]: idempotent is false/)
    expect((await web.snapshot()).total).toBe(0)
    // The same back-off means something, or nothing, with the retries that its type has.
    const backoff = { type: 'fixed' } as const
    expect((await fails(web.addJob({ type: 't', backoff }))).message).toContain('no effect')
    await open({ store: shared, types: { t: { retries: 3 } } }).start()
    expect((await web.addJob({ type: 't', backoff })).added).toBe(true)
  })

  it('has its settings read again when they change while they are read', async () => {
    const { open, runtime, store } = world()
    const shared = store()
    let onHint: (hint: Hint) => void = () => {}
    let reads = 0
    const slow = new Proxy(shared, {
      get(target, name) {
        const value = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>
        if (name === 'watch') {
          return (listener: typeof onHint) => {
            onHint = listener
            return target.watch(listener)
          }
        }
        if (name !== 'settings') return typeof value === 'function' ? value.bind(target) : value
        return async () => {
          const answer = await target.settings()
          reads += 1
          if (reads === 2) await open({ store: shared, types: { t: { pool: 'new' } } }).start()
          return answer
        }
      },
    })
    const web = open({ store: slow, autoStart: false })
    await web.addJob({ type: 't' })
    onHint({ ready: false, overdue: false, ended: [], holders: [], settings: true, room: [] })
    const handle = await web.addJob({ type: 't' })
    await runtime.drain()
    expect([(await handle.job()).pool, reads]).toEqual(['new', 3])
  })
})
