// Owns the promises of limit.map about what it takes for itself: bodies where nothing limits them,
// turns of the event loop, places in the queue, async context.

import { AsyncLocalStorage } from 'node:async_hooks'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter } from '../../src/kit/limiter.ts'
import { systemRuntime } from '../../src/kit/runtime.ts'
import { body, outcome, turn } from './helpers.ts'

const never = new Promise<never>(() => {})

/** A clock that says at every look that another five milliseconds have gone by. */
function hurried() {
  let now = 0
  const monotonic = () => {
    now += 5
    return now
  }
  return { ...systemRuntime, monotonic }
}

/** Numbers without end, or up to `length`, and how many have been handed out. */
class Numbers {
  pulled = 0
  readonly #length: number

  constructor(length = Number.POSITIVE_INFINITY) {
    this.#length = length
  }

  *sync(): Generator<number> {
    while (this.pulled < this.#length) yield this.pulled++
  }

  async *async(): AsyncGenerator<number> {
    while (this.pulled < this.#length) yield this.pulled++
  }
}

const kinds = ['sync', 'async'] as const

/** Counts turns of the event loop until it is told to stop. */
function countTurns(): () => number {
  let [turns, isOver] = [0, false]
  const tick = () => {
    turns += 1
    if (!isOver) setImmediate(tick)
  }
  setImmediate(tick)
  return () => {
    isOver = true
    return turns
  }
}

async function settled(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await turn()
}

describe('without a limit', () => {
  it.each(kinds)('C72: 1,000 bodies run at once, and no more (%s)', async (kind) => {
    const limit = createLimiter(Number.POSITIVE_INFINITY)
    const source = new Numbers()
    const results = limit.map(source[kind](), () => never)
    const next = results.next()
    // An async generator takes three microtasks an item, all of them within a turn.
    await settled()
    expect([source.pulled, limit.stats().active]).toEqual([1_000, 1_000])
    await results.return?.()
    expect(await next).toEqual({ done: true, value: undefined })
  })

  it.each([
    { buffer: undefined, most: 2_000 },
    { buffer: 0, most: 1_000 },
    { buffer: 7, most: 1_007 },
  ])('C72: an endless source is pulled so far ahead and no further (%o)', async (given) => {
    for (const kind of kinds) {
      const limit = createLimiter(Number.POSITIVE_INFINITY)
      const source = new Numbers()
      const { buffer } = given
      const options = buffer === undefined ? {} : { buffer }
      const results = limit.map(source[kind](), async (item) => item, options)
      expect(await results.next()).toEqual({ done: false, value: 0 })
      await settled()
      expect(source.pulled).toBe(given.most + 1)
      expect(await results.next()).toEqual({ done: false, value: 1 })
      await settled()
      expect(source.pulled).toBe(given.most + 2)
      await results.return?.()
      expect(limit.stats().active).toBe(0)
    }
  })

  it('all items are done all the same', async () => {
    const limit = createLimiter(Number.POSITIVE_INFINITY)
    let [sum, count] = [0, 0]
    for await (const item of limit.map(new Numbers(5_000).sync(), turnWith)) {
      sum += item
      count += 1
    }
    expect([count, sum]).toEqual([5_000, (5_000 * 4_999) / 2])
  })

  it('does not lower a limit that was given', async () => {
    const limit = createLimiter(1_500)
    const source = new Numbers()
    const results = limit.map(source.sync(), () => never)
    results.next()
    await settled()
    expect([source.pulled, limit.stats().active]).toEqual([1_500, 1_500])
    await results.return?.()
  })
})

async function turnWith(item: number): Promise<number> {
  await turn()
  return item
}

describe('turns of the event loop', () => {
  it.each([
    { kind: 'sync', cap: 1, buffer: 0 },
    { kind: 'sync', cap: 10, buffer: undefined },
    { kind: 'async', cap: 1, buffer: 0 },
    { kind: 'async', cap: 1, buffer: undefined },
    { kind: 'async', cap: 10, buffer: 0 },
    { kind: 'async', cap: 10, buffer: undefined },
  ] as const)(
    'are left to timers by sources and bodies that do nothing (%o)',
    async ({ kind, cap, buffer }) => {
      const limit = createLimiter(cap, { runtime: hurried() })
      const options = buffer === undefined ? {} : { buffer }
      const stop = countTurns()
      let count = 0
      for await (const item of limit.map(new Numbers(20_000)[kind](), async (n) => n, options)) {
        expect(item).toBe(count)
        count += 1
      }
      expect(count).toBe(20_000)
      expect(stop()).toBeGreaterThan(50)
    },
  )

  it('are waited for without a place in the queue', async () => {
    const limit = createLimiter(10, { runtime: hurried() })
    let most = 0
    for await (const _ of limit.map(new Numbers(5_000).sync(), turnWith)) {
      most = Math.max(most, limit.stats().waiting)
    }
    expect(most).toBe(0)
  })

  it('do not hold back the end: a break, an abort, a failure', async () => {
    const run = fc.record({
      kind: fc.constantFrom(...kinds),
      cap: fc.integer({ min: 1, max: 5 }),
      buffer: fc.integer({ min: 0, max: 5 }),
      ordered: fc.boolean(),
      asked: fc.integer({ min: 1, max: 400 }),
      endAt: fc.integer({ min: 250, max: 800 }),
      end: fc.constantFrom('source', 'body', 'abort', 'return'),
    })
    await fc.assert(
      fc.asyncProperty(run, async ({ kind, cap, buffer, ordered, asked, endAt, end }) => {
        const limit = createLimiter(cap, { runtime: hurried() })
        const controller = new AbortController()
        const { signal } = controller
        const source = new Numbers(end === 'source' ? endAt : Number.POSITIVE_INFINITY)
        const work = async (item: number) => {
          if (end === 'body' && item === endAt) throw new Error('planned')
          return item
        }
        const results = limit.map(source[kind](), work, { ordered, buffer, signal })
        const got: number[] = []
        let why: unknown = 'done'
        // Always several ask at once, so that many wait whenever a turn is due.
        for (let isOver = false; !isOver; ) {
          const all = Array.from({ length: asked }, () => results.next())
          // They are looked at one after the other: none of them is nobody's meanwhile.
          for (const each of all) each.catch(() => {})
          if (end === 'abort' && got.length >= endAt) controller.abort('enough')
          if (end === 'return' && got.length >= endAt) await results.return?.()
          for (const each of all) {
            try {
              const { done, value } = await each
              if (done === true) isOver = true
              else got.push(value)
            } catch (error) {
              why = error instanceof Error ? error.message : error
            }
          }
        }
        await limit.idle()
        expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: cap })
        if (ordered) expect(got).toEqual(got.map((_, index) => index))
        expect(new Set(got).size).toBe(got.length)
        const wanted = { source: 'done', body: 'planned', abort: 'enough', return: 'done' }
        expect(why).toBe(wanted[end])
        if (end === 'source') expect(got.length).toBe(endAt)
      }),
      { numRuns: 100 },
    )
  })
})

describe('slots', () => {
  it('do not lie idle behind a slow item, once it is done, while many have asked', async () => {
    const limit = createLimiter(3)
    const slow = body<number>()
    const work = (item: number) => (item === 0 ? slow.run() : item < 6 ? item : never)
    const results = limit.map(new Numbers().sync(), work)
    const asked = Array.from({ length: 50 }, () => results.next())
    await settled()
    // Six items ahead of the consumer: that is all there is room for.
    expect(limit.stats().active).toBe(1)
    slow.end(0)
    await settled()
    expect(limit.stats().active).toBe(3)
    await results.return?.()
    const ends = await Promise.all(asked)
    expect(ends.filter(({ done }) => done !== true).map(({ value }) => value)).toEqual([
      0, 1, 2, 3, 4, 5,
    ])
  })
})

describe('the source', () => {
  it('B12: is pulled in the async context of whoever called map', async () => {
    const limit = createLimiter(2)
    const storage = new AsyncLocalStorage<string>()
    const seen = new Set<string | undefined>()
    const source = function* () {
      for (let item = 0; item < 20; item += 1) {
        seen.add(storage.getStore())
        yield item
      }
    }
    const results = storage.run('caller', () => limit.map(source(), turnWith))
    const consume = async () => {
      for await (const _ of results) await turn()
    }
    await storage.run('consumer', consume)
    expect([...seen]).toEqual(['caller'])
  })

  it('gets no body for what it yields once it has called for the end', async () => {
    const limit = createLimiter(1)
    const started: number[] = []
    let item = 0
    const source = {
      [Symbol.iterator]: () => ({
        next: () => {
          item += 1
          if (item === 3) void outcome(results.return?.() as Promise<unknown>)
          return { done: false, value: item }
        },
      }),
    } as Iterable<number>
    const results = limit.map(source, async (n) => started.push(n), { buffer: 0 })
    const got: number[] = []
    for await (const n of results) got.push(n)
    expect([item, started]).toEqual([3, [1, 2]])
    expect(got.length).toBeLessThanOrEqual(2)
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 1 })
  })

  it('may ask for results itself while it is pulled', async () => {
    const limit = createLimiter(2)
    const inner: Promise<IteratorResult<number>>[] = []
    const source = function* () {
      for (let item = 0; item < 6; item += 1) {
        if (item % 2 === 1) inner.push(results.next())
        yield item
      }
    }
    const results = limit.map(source(), turnWith)
    const got: number[] = []
    for await (const item of results) got.push(item)
    for (const each of inner) got.push((await each).value)
    expect(got.sort()).toEqual([0, 1, 2, 3, 4, 5])
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 2 })
  })
})
