// Owns the promises of the limiter: the cap, the order, and how a call leaves the queue.

import { AsyncLocalStorage } from 'node:async_hooks'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import { createLimiter, type Limiter } from '../../src/kit/limiter.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'
import { type Body, body, listeners, outcome, poisoned, thenable, turn } from './helpers.ts'

const idleStats = (concurrency: number) => ({ active: 0, waiting: 0, concurrency })

/** Fills every slot with bodies that the test ends by hand. */
function occupy(limit: Limiter, slots = limit.concurrency): Body<unknown>[] {
  return Array.from({ length: slots }, () => {
    const work = body<unknown>()
    limit(work.run)
    return work
  })
}

describe('the cap', () => {
  it('C06: a freed slot goes to the head of the queue; a newcomer never overtakes', async () => {
    for (let round = 0; round < 10_000; round += 1) {
      const limit = createLimiter(1)
      const order: string[] = []
      const work = body<void>()
      const start = (name: string) => limit(() => order.push(name))
      const a = limit(() => {
        order.push('A')
        return work.run()
      })
      const b = start('B')
      const d = work.run().then(() => start('D'))
      const later = a.then(() => start('E'))
      work.end()
      await Promise.all([a, b, d, later])
      if (order.join('') !== 'ABDE') throw new Error(`round ${round}: ${order.join('')}`)
    }
  })

  it.each([1, 2, 5])('C06: with %i slots and three times as many callers it holds', async (cap) => {
    const limit = createLimiter(cap)
    let running = 0
    let most = 0
    const call = () =>
      limit(async () => {
        running += 1
        most = Math.max(most, running)
        await (running % 2 === 0 ? turn() : null)
        running -= 1
      })
    const caller = async () => {
      for (let i = 0; i < 500; i += 1) await (i % 7 === 6 ? turn().then(call) : call())
    }
    await Promise.all(Array.from({ length: 3 * cap }, caller))
    expect(most).toBe(cap)
    expect(limit.stats()).toEqual(idleStats(cap))
  })

  it('C07 (a): lowering it ends nothing, and starts nothing until enough has ended', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(4, { runtime })
    const seen: number[] = []
    const all = callTen(limit, seen, runtime)
    limit.concurrency = 2
    await runtime.run()
    await all
    expect(seen).toEqual([1, 2, 3, 4, 2, 2, 2, 2, 2, 2])
  })

  it('C07 (b): raising it starts waiting calls within the assignment', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(2, { runtime })
    const seen: number[] = []
    const all = callTen(limit, seen, runtime)
    expect(seen).toEqual([1, 2])
    limit.concurrency = 4
    expect(seen).toEqual([1, 2, 3, 4])
    await runtime.run()
    await all
  })

  it('C07 (c): lowering and raising it again does not get stuck', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(6, { runtime })
    for (let i = 0; i < 100; i += 1) limit(() => sleep(runtime, 20))
    runtime.after(30, () => {
      limit.concurrency = 1
    })
    await runtime.advance(199)
    expect(limit.stats().active).toBe(1)
    runtime.after(1, () => {
      limit.concurrency = 6
      expect(limit.stats().active).toBe(6)
    })
    await runtime.run()
    expect(limit.stats()).toEqual(idleStats(6))
  })

  it('C07 (d), B27: refuses a limit that makes no sense, and keeps the old one', () => {
    const limit = createLimiter(3)
    for (const wrong of [0, -1, Number.NaN, 1.5, '4', 2 ** 53, null, undefined]) {
      const refused = expect.objectContaining({ code: 'INVALID_OPTION' })
      expect(thrown(() => createLimiter(wrong as number))).toEqual(refused)
      expect(thrown(() => Object.assign(limit, { concurrency: wrong }))).toEqual(refused)
    }
    expect(limit.concurrency).toBe(3)
    expect(thrown(() => createLimiter(0))).toMatchObject({
      message: 'concurrency must be an integer of at least 1, or Infinity, got 0.',
    })
  })

  it('B27: may be Infinity, and the queue keeps its bound while it is paused', async () => {
    const limit = createLimiter(Number.POSITIVE_INFINITY, { maxQueue: 2 })
    limit.pause()
    const calls = [1, 2, 3].map((n) => outcome(limit(() => n)))
    limit.resume()
    expect(await Promise.all(calls)).toEqual([1, 2, 'QUEUE_OVERFLOW'])
  })

  it('B16, B18: holds, and no slot is lost, whatever is done to the limiter', async () => {
    const kinds = [
      'call',
      'call',
      'call',
      'end',
      'end',
      'abort',
      'limit',
      'pause',
      'resume',
      'clear',
    ]
    const step = fc.record({ kind: fc.constantFrom(...kinds), pick: fc.nat(1000) })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80, size: 'max' }), async (steps) => {
        await new Model(steps).play()
      }),
      { numRuns: 300 },
    )
  })
})

describe('the order', () => {
  it('B14: is by priority, then first come first served, as a sort would have it', async () => {
    const call = fc.record({ priority: fc.constantFrom(1, 2, 50, 99, 100), drop: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 200, size: 'max' }), async (calls) => {
        const limit = createLimiter(1)
        const [blocker] = occupy(limit)
        const started: number[] = []
        const controller = new AbortController()
        const all = calls.map(({ priority, drop }, at) =>
          outcome(
            limit(
              () => started.push(at),
              drop ? { priority, signal: controller.signal } : { priority },
            ),
          ),
        )
        controller.abort('dropped')
        blocker?.end(undefined)
        await Promise.all(all)
        const kept = calls.map((call, at) => ({ ...call, at })).filter(({ drop }) => !drop)
        const expected = kept.sort((a, b) => b.priority - a.priority || a.at - b.at)
        expect(started).toEqual(expected.map(({ at }) => at))
      }),
      { numRuns: 50 },
    )
  })

  it('B17: of a slot that is freed as others arrive belongs to the oldest', async () => {
    const limit = createLimiter(1, { maxQueue: 1 })
    const order: string[] = []
    const work = body<void>()
    const a = limit(work.run).then(() => order.push('A'))
    const b = limit(() => order.push('B'))
    const c = work.run().then(() => outcome(limit(() => order.push('C'))))
    const d = work.run().then(() => outcome(limit(() => order.push('D'))))
    work.end()
    const ends = await Promise.all([a, b, c, d])
    expect(order.filter((name) => name !== 'A')).toEqual(['B', 'C'])
    expect(ends[3]).toBe('QUEUE_OVERFLOW')
    expect(await limit(() => 'next')).toBe('next')
  })

  it('is kept when a body that starts calls the limiter while others are being started', async () => {
    const limit = createLimiter(1)
    const [blocker] = occupy(limit)
    const order: string[] = []
    const nested: Promise<unknown>[] = []
    const calls = [
      limit(() => {
        order.push('B')
        nested.push(limit(() => order.push('newcomer')))
      }),
      limit(() => order.push('C')),
    ]
    limit.concurrency = 4
    expect(order).toEqual(['B', 'C', 'newcomer'])
    blocker?.end(undefined)
    await Promise.all([...calls, ...nested])
  })

  it('is given to calls of the default priority between 49 and 51', async () => {
    const limit = createLimiter(1)
    const [blocker] = occupy(limit)
    const order: string[] = []
    const all = [
      limit(() => order.push('49'), { priority: 49 }),
      limit(() => order.push('default')),
      limit(() => order.push('51'), { priority: 51 }),
    ]
    blocker?.end(undefined)
    await Promise.all(all)
    expect(order).toEqual(['51', 'default', '49'])
  })
})

describe('a task', () => {
  const error = new Error('thrown')

  it.each([0, 1])(
    'B09: that throws at once is a rejection, and frees its slot (%i ahead)',
    async (n) => {
      const limit = createLimiter(1)
      const ahead = occupy(limit, n)
      const call = outcome(
        limit(() => {
          throw error
        }),
      )
      const next = limit(() => 'next')
      ahead[0]?.end(undefined)
      expect([await call, await next]).toEqual([error, 'next'])
      expect(limit.stats()).toEqual(idleStats(1))
    },
  )

  it.each([0, 1])('B10: may return anything (%i ahead)', async (n) => {
    const limit = createLimiter(1)
    const ahead = occupy(limit, n)
    const iterable = { [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true }) }) }
    const values = [42, undefined, null, iterable, () => 1, Symbol.iterator]
    const calls = values.map((value) => limit(() => value))
    ahead[0]?.end(undefined)
    expect(await Promise.all(calls)).toEqual(values)
  })

  it.each([0, 1])(
    'B11: may return a hostile thenable, which is asked once (%i ahead)',
    async (n) => {
      const limit = createLimiter(1)
      const ahead = occupy(limit, n)
      let asked = 0
      const twice = () =>
        thenable((resolve, reject) => {
          asked += 1
          resolve('first')
          reject(error)
          resolve('third')
          throw error
        })
      class Lazy extends Promise<unknown> {
        // biome-ignore lint/suspicious/noThenProperty: that is what is tested
        override then(): never {
          throw error
        }
      }
      const trap = new Proxy(Promise.resolve(1), {})
      const calls = [
        twice,
        () => poisoned(error),
        () => Lazy.resolve(1),
        () => trap,
        () => 'last',
      ].map((task) => outcome(limit(task)))
      ahead[0]?.end(undefined)
      const ends = await Promise.all(calls)
      expect([ends[0], ends[1], ends[2], ends[4]]).toEqual(['first', error, error, 'last'])
      expect(ends[3]).toBeInstanceOf(TypeError)
      expect(asked).toBe(1)
      expect(limit.stats()).toEqual(idleStats(1))
    },
  )

  it('B12: sees the async context of its caller, however long it has waited', async () => {
    const limit = createLimiter(2)
    const storage = new AsyncLocalStorage<number>()
    const request = (id: number) =>
      storage.run(id, async () => {
        const before = await limit(async () => {
          const first = storage.getStore()
          await turn()
          return [first, storage.getStore()]
        })
        return [...before, storage.getStore()]
      })
    const all = await Promise.all([1, 2, 3, 4, 5, 6].map(request))
    expect(all).toEqual([1, 2, 3, 4, 5, 6].map((id) => [id, id, id]))
  })

  it('B13: may be one of 100,000 that do nothing, or that are dropped at once', async () => {
    const limit = createLimiter(1)
    const [blocker] = occupy(limit)
    let ran = 0
    const run = () => {
      ran += 1
    }
    const calls = Array.from({ length: 100_000 }, () => limit(run))
    blocker?.end(undefined)
    await Promise.all(calls)
    expect(ran).toBe(100_000)
    occupy(limit)
    const controller = new AbortController()
    const { signal } = controller
    const dropped = Array.from({ length: 100_000 }, () => outcome(limit(run, { signal })))
    expect(listeners(signal)).toBe(1)
    controller.abort('all of them')
    expect(new Set(await Promise.all(dropped))).toEqual(new Set(['all of them']))
    expect([ran, listeners(signal), limit.stats().waiting]).toEqual([100_000, 0, 0])
  })
})

describe('an abort', () => {
  it.each(['B first', 'A first', 'both at once'])(
    'B01: in any order wedges nothing (%s)',
    async (which) => {
      const limit = createLimiter(1)
      const [a, b] = [new AbortController(), new AbortController()]
      const work = () =>
        new Promise((_, reject) =>
          a.signal.addEventListener('abort', () => reject(a.signal.reason)),
        )
      const first = outcome(limit(work, { signal: a.signal }))
      const second = outcome(limit(() => 'never', { signal: b.signal }))
      const third = outcome(limit(() => 'C'))
      const order = which === 'A first' ? [a, b] : [b, a]
      for (const [at, controller] of order.entries()) {
        controller.abort(controller === a ? 'A' : 'B')
        // With A gone first, B has had its slot and its result before its own abort comes.
        if (at === 0 && which !== 'both at once') await turn()
      }
      const expected = which === 'A first' ? ['A', 'never', 'C'] : ['A', 'B', 'C']
      expect(await Promise.all([first, second, third])).toEqual(expected)
      expect(limit.stats()).toEqual(idleStats(1))
    },
  )

  it('B02: that came before the call rejects it at once, and leaves no trace', async () => {
    const limit = createLimiter(1)
    const signal = AbortSignal.abort('before')
    let ran = false
    const task = () => {
      ran = true
    }
    expect(await outcome(limit(task, { signal }))).toBe('before')
    occupy(limit)
    expect(await outcome(limit(task, { signal }))).toBe('before')
    expect([ran, listeners(signal), limit.stats().waiting]).toEqual([false, 0, 0])
  })

  it('B03: of a signal that outlives 100,000 calls finds no listener', async () => {
    const limit = createLimiter(10)
    const { signal } = new AbortController()
    const calls = Array.from({ length: 100_000 }, () => limit(() => null, { signal }))
    expect(listeners(signal)).toBe(1)
    await Promise.all(calls)
    expect(listeners(signal)).toBe(0)
  })

  it('ends the wait and not the body: what has started tells its own end', async () => {
    const limit = createLimiter(1)
    const controller = new AbortController()
    const work = body<string>()
    const call = limit(work.run, { signal: controller.signal })
    controller.abort('too late')
    work.end('the truth')
    expect(await call).toBe('the truth')
  })

  it('gives dropped calls no room in the queue', async () => {
    const limit = createLimiter(1, { maxQueue: 1 })
    const [blocker] = occupy(limit)
    for (let i = 0; i < 1000; i += 1) {
      const controller = new AbortController()
      const call = outcome(limit(() => 'never', { signal: controller.signal }))
      controller.abort(i)
      expect(await call).toBe(i)
    }
    const next = limit(() => 'room')
    blocker?.end(undefined)
    expect(await next).toBe('room')
  })
})

function sleep(runtime: { after(ms: number, run: () => void): unknown }, ms: number) {
  return new Promise<void>((resolve) => runtime.after(ms, resolve))
}

/** Ten calls of 50 ms; `seen` gets the number that ran at each start. */
function callTen(limit: Limiter, seen: number[], runtime: Parameters<typeof sleep>[0]) {
  let running = 0
  const task = async () => {
    seen.push(++running)
    await sleep(runtime, 50)
    running -= 1
  }
  return Promise.all(Array.from({ length: 10 }, () => limit(task)))
}

function thrown(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return error
  }
}

/** A random life of a limiter, with the books kept beside it. */
class Model {
  readonly #limit = createLimiter(2, { maxQueue: 10 })
  readonly #steps: readonly { kind: string; pick: number }[]
  readonly #running: Body<unknown>[] = []
  readonly #controllers: AbortController[] = []
  readonly #ends: Promise<unknown>[] = []
  #started = 0
  #cap = 2
  #paused = false

  constructor(steps: readonly { kind: string; pick: number }[]) {
    this.#steps = steps
  }

  async play(): Promise<void> {
    for (const { kind, pick } of this.#steps) {
      const before = this.#started
      this.#do(kind, pick)
      if (pick % 3 === 0) await turn()
      const { active, waiting } = this.#limit.stats()
      if (this.#started > before) expect(active).toBeLessThanOrEqual(this.#cap)
      if (waiting > 0) expect(this.#paused || active >= this.#cap).toBe(true)
    }
    this.#limit.resume()
    await turn()
    while (this.#running.length > 0) {
      this.#running.pop()?.end('done')
      await turn()
    }
    expect(this.#limit.stats().active).toBe(0)
    await this.#limit.idle()
    expect(this.#limit.stats()).toEqual(idleStats(this.#cap))
    const ends = await Promise.all(this.#ends)
    const done = ends.filter((end) => end === 'done').length
    const dropped = ends.filter((end) =>
      ['CANCELLED', 'QUEUE_OVERFLOW', 'aborted'].includes(end as string),
    )
    expect([done, done + dropped.length]).toEqual([this.#started, ends.length])
  }

  #do(kind: string, pick: number): void {
    if (kind === 'call') this.#call(pick)
    else if (kind === 'end')
      this.#running.splice(pick % (this.#running.length || 1), 1)[0]?.end('done')
    else if (kind === 'abort')
      this.#controllers[pick % (this.#controllers.length || 1)]?.abort('aborted')
    else if (kind === 'limit') this.#limit.concurrency = this.#cap = 1 + (pick % 4)
    else if (kind === 'clear') this.#limit.clear()
    else {
      this.#paused = kind === 'pause'
      this.#limit[kind as 'pause' | 'resume']()
    }
  }

  #call(pick: number): void {
    const controller = new AbortController()
    const work = body<unknown>()
    const task = () => {
      this.#started += 1
      this.#running.push(work)
      return work.run()
    }
    const options = { priority: 1 + (pick % 100), signal: controller.signal }
    this.#controllers.push(controller)
    this.#ends.push(outcome(this.#limit(task, options)))
  }
}

describe('wrong arguments', () => {
  it('are refused by name', async () => {
    const limit = createLimiter(1)
    const task = () => 1
    const calls = [
      limit(undefined as unknown as () => number),
      limit(task, { priority: 0 }),
      limit(task, { priority: 101 }),
      limit(task, { priority: 1.5 }),
      limit(task, { signal: {} as AbortSignal }),
      limit(task, { enqueueTimeout: -1 }),
      limit(task, { prio: 1 } as object),
    ]
    expect(await Promise.all(calls.map(outcome))).toEqual(Array(7).fill('INVALID_OPTION'))
    const options = [
      { maxQueue: -1 },
      { maxQueue: 1.5 },
      { overflow: 'drop' },
      { enqueueTimeout: 'soon' },
      { nested: 'never' },
      { maxqueue: 1 },
    ]
    for (const wrong of options) {
      expect(thrown(() => createLimiter(1, wrong as object))).toBeInstanceOf(AxError)
    }
  })
})
