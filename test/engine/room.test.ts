// Owns the promises about full pools: who is refused, who waits, in which order, and until when.

import { describe, expect, it } from 'vitest'
import type { JobContext, JobInput } from '../../src/core/types.ts'
import { codeOf, faulty, processOn, takes, watchForLeaks, world } from './helpers.ts'
import { inMemory } from './stores.ts'

watchForLeaks()

/** One job runs, and two may wait. */
const pools = (overflow: 'reject' | 'wait', maxQueue = 2) => ({
  default: { concurrency: 1, maxQueue, overflow },
})

describe('a pool that is full', () => {
  it('refuses at once, naming itself, its bound, and what to do', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open({ pools: pools('reject') })
    const execute = takes(runtime, 1_000)
    await scheduler.addJob({ execute })
    await runtime.drain()
    await scheduler.addJobs([{ execute }, { execute }])
    const error = await fails(scheduler.addJob({ id: 'late', execute }))
    expect(error).toMatchObject({
      code: 'QUEUE_OVERFLOW',
      retryable: true,
      pool: 'default',
      maxQueue: 2,
      jobId: 'late',
    })
    expect(error.message).toBe(
      'The pool "default" is full: at most 2 of its jobs may wait to start (maxQueue). ' +
        "Come back later, or let callers wait: overflow: 'wait'.",
    )
    expect(await scheduler.job('late')).toBe(null)
  })

  it('refuses a batch as a whole, and says from where on there was no room', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open({ pools: pools('reject') })
    const execute = takes(runtime, 1_000)
    await scheduler.addJob({ execute })
    await runtime.drain()
    await scheduler.addJob({ execute })
    const error = await fails(scheduler.addJobs([{ execute }, { execute }]))
    expect(error).toMatchObject({ code: 'QUEUE_OVERFLOW', index: 1, pool: 'default', maxQueue: 2 })
    expect(error.message).toMatch(/^jobs\[1\]: The pool "default" is full/)
    expect((await scheduler.snapshot()).total).toBe(2)
  })

  it('speaks for the pool that refuses, where others of the batch would only have to wait', async () => {
    const { open, fails } = world()
    const full = { concurrency: 0, maxQueue: 1 }
    const own = { a: { ...full, overflow: 'wait' as const }, b: full }
    const scheduler = open({ pools: own, autoStart: false })
    const jobs = ['a', 'b'].map((pool) => ({ type: 't', pool }))
    await scheduler.addJobs(jobs)
    const error = await fails(scheduler.addJobs(jobs))
    expect(error).toMatchObject({ code: 'QUEUE_OVERFLOW', pool: 'b', index: 1 })
    expect(error).toMatchObject({ refusals: [{ pool: 'a' }, { pool: 'b' }] })
    expect(error.message).toMatch(/^jobs\[1\]: The pool "b" is full/)
  })

  it('refuses in both modes what would never fit', async () => {
    for (const overflow of ['reject', 'wait'] as const) {
      const { open, fails } = world()
      const scheduler = open({ pools: pools(overflow), autoStart: false })
      const error = await fails(scheduler.addJobs([1, 2, 3].map(() => ({ type: 't' }))))
      expect(error).toMatchObject({ code: 'QUEUE_OVERFLOW', pool: 'default', maxQueue: 2 })
      expect(error.message).toContain('this batch has more. Split it, or raise maxQueue.')
    }
    const { open, fails } = world()
    const scheduler = open({ pools: pools('wait', 0), autoStart: false })
    const error = await fails(scheduler.addJob({ type: 't' }))
    expect(error).toMatchObject({ code: 'QUEUE_OVERFLOW', maxQueue: 0 })
    expect(error.message).toContain('Raise maxQueue')
  })
})

describe('a pool that lets callers wait', () => {
  it('takes them in order, one for each place that comes free', async () => {
    const { open, runtime } = world()
    const scheduler = open({ pools: pools('wait') })
    const order: string[] = []
    const stored: string[] = []
    for (let n = 0; n < 8; n += 1) {
      const id = `j${n}`
      const execute = async (context: JobContext) => {
        order.push(id)
        await takes(runtime, 1_000)(context)
      }
      scheduler.addJob({ id, execute }).then((handle) => stored.push(handle.id), fail)
      if (n === 0) await runtime.drain()
    }
    await runtime.drain()
    expect(stored).toEqual(['j0', 'j1', 'j2'])
    await runtime.advance(1_000)
    expect(stored).toEqual(['j0', 'j1', 'j2', 'j3'])
    await runtime.advance(2_000)
    expect(stored).toEqual(['j0', 'j1', 'j2', 'j3', 'j4', 'j5'])
    await runtime.advance(20_000)
    expect(order).toEqual(['j0', 'j1', 'j2', 'j3', 'j4', 'j5', 'j6', 'j7'])
  })

  it('lets no newcomer pass those who wait, be it alone, in a batch, or in a stream', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: pools('wait', 1), autoStart: false })
    const stored: string[] = []
    const note = (id: string) => stored.push(id)
    await scheduler.addJob({ id: 'full', type: 't' })
    const waits = []
    for (const add of [
      () => scheduler.addJob({ id: 'a', type: 't' }).then(({ id }) => note(id)),
      () => scheduler.addJobs([{ id: 'b', type: 't' }]).then(() => note('b')),
      () => scheduler.addMany([{ id: 'c', type: 't' }]).then(() => note('c')),
      () => scheduler.addJob({ id: 'd', type: 't' }).then(({ id }) => note(id)),
    ]) {
      waits.push(add())
      await runtime.drain()
    }
    expect(stored).toEqual([])
    for (const id of ['full', 'a', 'b', 'c']) {
      await scheduler.cancel(id)
      await runtime.drain()
    }
    await pass(Promise.all(waits))
    expect(stored).toEqual(['a', 'b', 'c', 'd'])
  })

  it('refuses at once what could stand in line for ever, behind others too', async () => {
    const { open, fails, pass, runtime } = world()
    const scheduler = open({ pools: pools('wait'), autoStart: false })
    const batch = (ids: readonly (string | undefined)[], more: object = {}) =>
      scheduler.addJobs(
        ids.map((id) => ({ ...(id === undefined ? {} : { id }), type: 't', ...more })),
      )
    await scheduler.addJobs([
      { id: 'full 1', type: 't' },
      { id: 'full 2', type: 't' },
      { id: 'waits', type: 't', deps: ['ghost'] },
    ])
    const waiting = scheduler.addJob({ id: 'first', type: 't' })
    await runtime.drain()
    const minted = [undefined, undefined, undefined]
    for (const ids of [minted, ['a', 'b', 'c']]) {
      const error = await fails(batch(ids))
      expect(error).toMatchObject({ code: 'QUEUE_OVERFLOW', index: 0, maxQueue: 2 })
      expect(error.message).toContain('this batch has more. Split it, or raise maxQueue.')
    }
    // One is there already, one is what a job waits for, and a lane has one holder.
    const fit = [batch(['full 1', 'd', 'e']), batch(['f', 'g', 'ghost'])]
    fit.push(batch(['k', 'l', 'm'], { exclusive: 'lane' }))
    const told = [waiting, ...fit].map((each) => codeOf(each))
    await runtime.drain()
    await pass(scheduler.close())
    expect(await Promise.all(told)).toEqual(told.map(() => 'CLOSED'))
  })

  it('has a line of its own: a full pool holds up nobody in another', async () => {
    const { open, pass, runtime } = world()
    const full = { concurrency: 1, maxQueue: 1, overflow: 'wait' } as const
    const scheduler = open({ pools: { a: full, b: full }, autoStart: false })
    await scheduler.addJob({ id: 'a1', type: 't', pool: 'a' })
    const waiting = scheduler.addJob({ id: 'a2', type: 't', pool: 'a' })
    await runtime.drain()
    await pass(scheduler.addJob({ id: 'b1', type: 't', pool: 'b' }))
    await scheduler.cancel('a1')
    expect((await pass(waiting)).id).toBe('a2')
  })

  it('makes a batch for two pools wait until both have room', async () => {
    const { open, pass, runtime } = world()
    const full = { concurrency: 1, maxQueue: 1, overflow: 'wait' } as const
    const scheduler = open({ pools: { a: full, b: full }, autoStart: false })
    await scheduler.addJobs([
      { id: 'a1', type: 't', pool: 'a' },
      { id: 'b1', type: 't', pool: 'b' },
    ])
    let done = false
    const batch = scheduler
      .addJobs([
        { id: 'a2', type: 't', pool: 'a' },
        { id: 'b2', type: 't', pool: 'b' },
      ])
      .then(() => {
        done = true
      })
    await runtime.drain()
    await scheduler.cancel('a1')
    await runtime.drain()
    expect(done).toBe(false)
    await scheduler.cancel('b1')
    await pass(batch)
    expect((await scheduler.snapshot()).states.ready).toBe(2)
  })

  it('does not make a running job wait, which would keep its slot: it is refused', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: pools('wait', 1) })
    const outer = await scheduler.addJob({
      execute: async ({ submit }) => {
        await submit({ id: 'fits', execute: takes(runtime, 1) })
        return submit({ id: 'not', execute: takes(runtime, 1) }).catch((error) => error)
      },
    })
    const error = (await pass(outer.result())) as { code: string; message: string }
    expect(error).toMatchObject({ code: 'QUEUE_OVERFLOW', pool: 'default', maxQueue: 1 })
    expect(error.message).toContain('a running job does not wait for room')
    expect(await scheduler.job('not')).toBe(null)
  })

  it('does not make jobs wait that wait for others themselves: those take no place', async () => {
    const { open, pass } = world()
    const scheduler = open({ pools: pools('wait', 1), autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't' })
    const handle = await pass(scheduler.addJob({ type: 't', deps: ['a'] }))
    expect((await handle.job()).status).toBe('waiting')
  })

  it('answers a duplicate of one that waits once that one is stored', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: pools('wait', 1), autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't' })
    const first = scheduler.addJob({ id: 'b', type: 't' })
    const again = scheduler.addJob({ id: 'b', type: 't' })
    await runtime.drain()
    await scheduler.cancel('a')
    expect([(await pass(first)).added, (await pass(again)).added]).toEqual([true, false])
  })
})

describe('whoever waits for room', () => {
  it('is told CLOSED when this process closes', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: pools('wait', 1), autoStart: false })
    await scheduler.addJob({ type: 't' })
    const ends = [
      codeOf(scheduler.addJob({ type: 't' })),
      codeOf(scheduler.addJobs([{ type: 't' }])),
      codeOf(scheduler.addMany([{ type: 't' }])),
    ]
    await runtime.drain()
    await pass(scheduler.close())
    expect(await pass(Promise.all(ends))).toEqual(['CLOSED', 'CLOSED', 'CLOSED'])
  })

  it('is refused as soon as the pool does not let callers wait any more', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: pools('wait', 1), autoStart: false })
    await scheduler.addJob({ type: 't' })
    const end = codeOf(scheduler.addJob({ type: 't' }))
    await runtime.drain()
    await scheduler.pool('default').configure({ overflow: 'reject' })
    expect(await pass(end)).toBe('QUEUE_OVERFLOW')
  })

  it('gets in when the bound is raised, all at once if there is room for all', async () => {
    const { open, pass, runtime, store } = world()
    let inserts = 0
    const shared = faulty(store())
    shared.decide = (call) => {
      if (call === 'insert') inserts += 1
      return 'ok'
    }
    const scheduler = open({ store: shared.store, pools: pools('wait', 1), autoStart: false })
    await scheduler.addJob({ type: 't' })
    const waits = Array.from({ length: 500 }, () => scheduler.addJob({ type: 't' }))
    await runtime.drain()
    inserts = 0
    await scheduler.pool('default').configure({ maxQueue: 1_000 })
    await pass(Promise.all(waits))
    // 1, 2, 4 ... 256: by twice as many with each call.
    expect(inserts).toBe(9)
  })

  it('hears that the store is away, and whether it was stored is unknown then', async () => {
    const { open, pass, runtime, store } = world()
    const faults = faulty(store())
    const scheduler = open({ store: faults.store, pools: pools('wait', 1), autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't' })
    const ends = [
      codeOf(scheduler.addJob({ type: 't' })),
      codeOf(scheduler.addJobs([{ type: 't' }])),
    ]
    await runtime.drain()
    faults.decide = (call) => (call === 'insert' ? 'refuse' : 'ok')
    await scheduler.cancel('a')
    expect(await pass(Promise.all(ends))).toEqual(['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE'])
  })

  it('looks for itself where nobody may tell it', async () => {
    const { open, runtime, store } = world()
    const shared = store()
    const deaf = processOn(shared, runtime, true)
    const scheduler = open({
      store: deaf.store,
      runtime: deaf.runtime,
      pools: pools('wait', 1),
      autoStart: false,
    })
    await scheduler.addJob({ id: 'a', type: 't' })
    const stored: string[] = []
    scheduler.addJob({ id: 'b', type: 't' }).then(({ id }) => stored.push(id), fail)
    await runtime.advance(5_000)
    expect(stored).toEqual([])
    await scheduler.cancel('a')
    await runtime.advance(1_000)
    expect(stored).toEqual(['b'])
    expect(runtime.pending()).toBeLessThanOrEqual(1)
  })

  it('is not forgotten when room comes while it is being refused', async () => {
    const { open, pass, store } = world()
    const shared = store()
    let between = async () => {}
    const slow = new Proxy(shared, {
      get(target, name) {
        const value = Reflect.get(target, name) as unknown
        if (typeof value !== 'function') return value
        if (name !== 'insert') return value.bind(target)
        return async (...args: Parameters<typeof target.insert>) => {
          const answer = await target.insert(...args)
          // The refusal is on its way, and the hint overtakes it.
          if (answer.answer.some(({ status }) => status === 'refused')) await between()
          return answer
        }
      },
    })
    const scheduler = open({ store: slow, pools: pools('wait', 1), autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't' })
    between = async () => {
      between = async () => {}
      await scheduler.cancel('a')
    }
    expect((await pass(scheduler.addJob({ id: 'b', type: 't' }))).added).toBe(true)
  })
})

describe('a stream into a pool with a bound', () => {
  // 3,000 jobs one by one, with a commit for each step: too long for a file.
  if (inMemory())
    it('is pulled only as fast as there is room, however long it is', async () => {
      const { open, pass, runtime } = world()
      const scheduler = open({
        pools: { default: { concurrency: 2, maxQueue: 10, overflow: 'wait' } },
      })
      let pulled = 0
      let most = 0
      let done = 0
      function* jobs(): Generator<JobInput> {
        for (let n = 0; n < 3_000; n += 1) {
          pulled += 1
          most = Math.max(most, pulled - done)
          yield { id: `j${n}`, type: 't', payload: n }
        }
      }
      const order: number[] = []
      scheduler.define('t', async (context) => {
        order.push(context.payload as number)
        await takes(runtime, 10)(context)
        done += 1
      })
      expect(await pass(scheduler.addMany(jobs()))).toBe(3_000)
      await pass(scheduler.idle())
      expect(order).toEqual(Array.from({ length: 3_000 }, (_, n) => n))
      // A chunk that waits, and what the pool holds.
      expect(most).toBeLessThanOrEqual(1_000 + 10 + 2)
    })

  it('keeps the pool filled: nobody waits for a whole chunk to fit', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({
      pools: { default: { concurrency: 1, maxQueue: 4, overflow: 'wait' } },
    })
    const times: number[] = []
    scheduler.define('t', (context) => {
      times.push(runtime.monotonic())
      return takes(runtime, 100)(context)
    })
    await pass(scheduler.addMany(Array.from({ length: 20 }, () => ({ type: 't' }))))
    await pass(scheduler.idle())
    expect(times).toEqual(Array.from({ length: 20 }, (_, n) => n * 100))
  })

  it('stops at the first job without room where nobody may wait; what is in stays', async () => {
    const { open, fails } = world()
    const scheduler = open({ pools: pools('reject', 7), autoStart: false })
    const jobs = Array.from({ length: 20 }, () => ({ type: 't' }))
    const error = await fails(scheduler.addMany(jobs))
    expect(error).toMatchObject({ code: 'QUEUE_OVERFLOW', index: 7, pool: 'default', maxQueue: 7 })
    expect(error.message).toMatch(/^jobs\[7\]: /)
    expect(error.message).toMatch(/ What stood before that stays: the first 7 jobs are stored\.$/)
    expect(error).toMatchObject({ stored: 7, retryable: true })
    expect((await scheduler.snapshot()).total).toBe(7)
  })

  it('stops at what is wrong with a job, wherever that stands', async () => {
    const { open, fails } = world()
    const scheduler = open({ pools: pools('wait', 5), autoStart: false })
    const jobs = [{ id: 'a', type: 't' }, { type: 't' }, { id: 'a', type: 'other' }]
    const error = await fails(scheduler.addMany(jobs))
    expect(error).toMatchObject({ code: 'DUPLICATE_ID', index: 2 })
    expect(error).toMatchObject({ refusals: [{ index: 2 }], stored: 0 })
    expect(error.message).not.toContain('What stood before')
  })

  it('says how far it came when this process closes, or its source throws', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: pools('wait', 5), autoStart: false })
    const told = scheduler.addMany(Array.from({ length: 20 }, () => ({ type: 't' })))
    const error = told.catch((thrown) => thrown)
    await runtime.drain()
    await pass(scheduler.close())
    expect(await error).toMatchObject({ code: 'CLOSED', stored: 5 })
    const broken = new Error('The disk is gone.')
    function* source() {
      yield { type: 't' }
      throw broken
    }
    const other = open({ autoStart: false })
    expect(await other.addMany(source()).catch((thrown) => thrown)).toBe(broken)
    await pass(other.close())
  })
})

function fail(error: unknown): never {
  throw error
}
