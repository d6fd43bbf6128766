// Owns the promises about jobs that wait for the results of others: a wait that could never end is
// refused, and no other is.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { createLimiter } from '../../src/kit/limiter.ts'
import { cluster as clusterOf, codeOf, takes, watchForLeaks, world as worldOf } from './helpers.ts'

watchForLeaks()

/** Nobody stays awake to look for loops: two seconds are enough to find one. */
function patient<W extends ReturnType<typeof worldOf>>(base: W): W {
  const pass = async <T>(promise: Promise<T>): Promise<T> => {
    await base.runtime.advance(2_000)
    return base.pass(promise)
  }
  return { ...base, pass }
}

const world = () => patient(worldOf())
const cluster = (names: readonly string[], options: object) => patient(clusterOf(names, options))

describe('result() in a job', () => {
  it('is refused when as many wait so as the pool of the other has slots', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const outer = await scheduler.addJob({
      execute: async () => {
        const inner = await scheduler.addJob({ id: 'inner', execute: () => 'inner' })
        return inner.result().catch((error) => ({ error, at: runtime.monotonic() }))
      },
    })
    const { error, at } = (await pass(outer.result())) as { error: Error; at: number }
    expect(error).toMatchObject({ code: 'NESTED_LIMIT', jobId: 'inner' })
    expect(error.message).toContain('all 1 slots of the pool "default"')
    expect(error.message).toContain('deps')
    expect(at).toBeLessThan(1_000)
    // The other one has lost nothing by it.
    await pass(scheduler.idle())
    expect(await scheduler.job('inner')).toMatchObject({ status: 'success', result: 'inner' })
  })

  it('is refused to one of them only: the slot that comes free is enough for the rest', async () => {
    const { open, pass } = world()
    const scheduler = open(3)
    scheduler.define('inner', () => 'inner')
    scheduler.define('outer', async () => {
      const inner = await scheduler.addJob({ type: 'inner' })
      return codeOf(inner.result())
    })
    const handles = await scheduler.addJobs([1, 2, 3].map(() => ({ type: 'outer' })))
    const ends = await pass(Promise.all(handles.map((handle) => handle.result())))
    expect(ends.sort()).toEqual(['NESTED_LIMIT', 'inner', 'inner'])
  })

  it('is not refused as long as a slot is held by somebody who gets on', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(2)
    await scheduler.addJob({ execute: takes(runtime, 600_000) })
    const outer = await scheduler.addJob({
      execute: async () => {
        const inner = await scheduler.addJob({ execute: () => 'inner' })
        return inner.result()
      },
    })
    expect(await pass(outer.result())).toBe('inner')
    expect(runtime.monotonic()).toBe(600_000)
  })

  it('is not refused for a job of another pool, nor when there is a slot', async () => {
    const { open, pass } = world()
    const scheduler = open({ concurrency: 1, pools: { other: { concurrency: 1 } } })
    scheduler.define('inner', { pool: 'other' }, () => 'inner')
    const outer = await scheduler.addJob({
      execute: async () => (await scheduler.addJob({ type: 'inner' })).result(),
    })
    expect(await pass(outer.result())).toBe('inner')
  })

  it('is not refused to a job that has submitted and goes on without waiting', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const results: unknown[] = []
    const outer = await scheduler.addJob({
      execute: async (context) => {
        const [inner] = await context.submit({ execute: () => 'inner' })
        inner?.result().then((value) => results.push(value))
        await takes(runtime, 60_000)(context)
        return 'outer'
      },
    })
    expect(await pass(outer.result())).toBe('outer')
    await pass(scheduler.idle())
    expect(results).toEqual(['inner'])
  })

  it('is not refused to anybody outside, however long it takes', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    await scheduler.addJob({ execute: takes(runtime, 600_000) })
    const waits = await Promise.all(
      Array.from({ length: 300 }, (_, n) => scheduler.addJob({ execute: () => n })),
    )
    const ends = await pass(Promise.all(waits.map((handle) => handle.result())))
    expect(ends).toEqual(Array.from({ length: 300 }, (_, n) => n))
  })

  it('is found through Promise.all, and through calls of calls', async () => {
    const { open, pass } = world()
    const scheduler = open(1)
    const helper = async () => {
      const handles = await scheduler.addJobs([{ execute: () => 1 }, { execute: () => 2 }])
      return await Promise.all(handles.map((handle) => handle.result()))
    }
    const outer = await scheduler.addJob({ execute: async () => codeOf(helper()) })
    expect(await pass(outer.result())).toBe('NESTED_LIMIT')
  })

  it('is refused in a job with a body of a defined type, too, under its own signal', async () => {
    const { open, pass } = world()
    const scheduler = open(1)
    scheduler.define('outer', async ({ signal }) => {
      const inner = await scheduler.addJob({ execute: () => 1 })
      return codeOf(inner.result({ signal }))
    })
    expect(await pass((await scheduler.addJob({ type: 'outer' })).result())).toBe('NESTED_LIMIT')
  })

  it('is left alone where it gives up by itself: under a signal of its own', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const outer = await scheduler.addJob({
      execute: async () => {
        const controller = new AbortController()
        runtime.after(30_000, () => controller.abort(new Error('enough')))
        const inner = await scheduler.addJob({ execute: () => 1 })
        return inner.result({ signal: controller.signal }).catch((error) => error.message)
      },
    })
    expect(await pass(outer.result())).toBe('enough')
    expect(runtime.monotonic()).toBe(30_000)
  })

  it('is refused for a job of its own lane', async () => {
    const { open, pass } = world()
    const scheduler = open(10)
    const outer = await scheduler.addJob({
      exclusive: 'account:42',
      execute: async () => {
        const inner = await scheduler.addJob({ exclusive: 'account:42', execute: () => 1 })
        return inner.result().catch((error) => error)
      },
    })
    const error = (await pass(outer.result())) as { code: string; message: string }
    expect(error.code).toBe('NESTED_LIMIT')
    expect(error.message).toContain('the lane "account:42"')
  })

  it('is not refused for a job of another lane', async () => {
    const { open, pass } = world()
    const scheduler = open(10)
    const outer = await scheduler.addJob({
      exclusive: 'a',
      execute: async () => (await scheduler.addJob({ exclusive: 'b', execute: () => 1 })).result(),
    })
    expect(await pass(outer.result())).toBe(1)
  })

  it('is refused for what depends on the one that waits, over however many others', async () => {
    const { open, pass } = world()
    const scheduler = open(10)
    const execute = () => 'dependent'
    await scheduler.addJobs([
      { id: 'b', deps: ['a'], execute },
      { id: 'c', deps: ['b'], execute },
      { id: 'd', deps: [{ id: 'c', on: 'end' }, 'b'], execute },
    ])
    const a = await scheduler.addJob({
      id: 'a',
      execute: async () => {
        const handle = await scheduler.addJob({ id: 'e', deps: ['d'], execute })
        return handle.result().catch((error) => error)
      },
    })
    const error = (await pass(a.result())) as { code: string; message: string }
    expect(error).toMatchObject({ code: 'NESTED_LIMIT', jobId: 'e' })
    expect(error.message).toContain('job a, on which it depends,')
  })

  it('is refused where two wait for each other', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(10)
    const handles = new Map<string, { result(): Promise<unknown> }>()
    const waitsFor = (id: string) => async () => {
      await takes(runtime, 10)({ signal: new AbortController().signal } as JobContext)
      return codeOf(handles.get(id)?.result() as Promise<unknown>)
    }
    for (const [id, other] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      handles.set(id, await scheduler.addJob({ id, execute: waitsFor(other) }))
    }
    const ends = [...handles.values()].map((handle) => handle.result())
    expect(await pass(Promise.all(ends))).toContain('NESTED_LIMIT')
  })

  it('is not refused for a quorum that can do without the one that waits', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(10)
    await scheduler.addJob({ id: 'other', execute: takes(runtime, 60_000) })
    const a = await scheduler.addJob({
      id: 'a',
      execute: async () => {
        const deps = ['a', 'other']
        const any = await scheduler.addJob({ deps, depMode: 'any', execute: () => 'any' })
        return any.result()
      },
    })
    expect(await pass(a.result())).toBe('any')
  })

  it('is refused for a job of a type that may run as few as there are such jobs', async () => {
    const { open, pass } = world()
    const scheduler = open(10)
    scheduler.define('t', { concurrency: 1 }, async ({ payload }) => {
      if (payload === 0) return 'inner'
      const inner = await scheduler.addJob({ type: 't', payload: 0 })
      return inner.result().catch(({ code, message }) => `${code}: ${message}`)
    })
    const outer = await scheduler.addJob({ type: 't', payload: 1 })
    expect(await pass(outer.result())).toMatch(/^NESTED_LIMIT: .*the type "t"/)
  })

  it('is not refused for an urgent job, for which there is room above the cap', async () => {
    const { open, pass } = world()
    const pools = { default: { concurrency: 1, elastic: { minPriority: 95 } } }
    const scheduler = open({ pools })
    const outer = await scheduler.addJob({
      execute: async () => {
        const inner = await scheduler.addJob({ priority: 99, execute: () => 'inner' })
        return inner.result()
      },
    })
    expect(await pass(outer.result())).toBe('inner')
  })

  it('is found in a ring with a limiter', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const limit = createLimiter(1, { runtime })
    const outer = await scheduler.addJob({
      execute: () =>
        limit(async () => {
          const inner = await scheduler.addJob({ execute: () => 'inner' })
          return codeOf(inner.result())
        }),
    })
    expect(await pass(outer.result())).toBe('NESTED_LIMIT')
  })

  it('is not refused while another process has slots of the pool', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'], { concurrency: 2 })
    const [w1, w2] = nodes
    w1.scheduler.define('outer', async () => {
      const inner = await w1.scheduler.addJob({ type: 'inner' })
      return inner.result()
    })
    w2.scheduler.define('busy', takes(runtime, 300_000))
    w2.scheduler.define('inner', () => 'inner')
    await w1.scheduler.start()
    await w2.scheduler.start()
    await w2.scheduler.addJob({ type: 'busy' })
    await runtime.advance(1)
    const outer = await w1.scheduler.addJob({ type: 'outer' })
    expect(await pass(outer.result())).toBe('inner')
    expect(runtime.monotonic()).toBeGreaterThanOrEqual(300_000)
  })

  it('is not refused when an operator has made room meanwhile', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const outer = await scheduler.addJob({
      execute: async () => (await scheduler.addJob({ execute: () => 'inner' })).result(),
    })
    await runtime.drain()
    await scheduler.pool('default').configure({ concurrency: 2 })
    expect(await pass(outer.result())).toBe('inner')
  })
})
