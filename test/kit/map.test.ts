// Owns the promises of limit.map: what is pulled when, in which order results come, how it ends.

import { AsyncLocalStorage } from 'node:async_hooks'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter } from '../../src/kit/limiter.ts'
import { systemRuntime } from '../../src/kit/runtime.ts'
import { type Body, body, listeners, outcome, poisoned, turn } from './helpers.ts'

/** A source that counts what is done to it. */
class Source {
  pulled = 0
  returned = 0
  readonly #length: number
  readonly #wait: (index: number) => Promise<unknown> | undefined

  constructor(
    length: number,
    wait: (index: number) => Promise<unknown> | undefined = () => undefined,
  ) {
    this.#length = length
    this.#wait = wait
  }

  [Symbol.asyncIterator](): AsyncIterator<number> {
    return {
      next: async () => {
        const index = this.pulled
        this.pulled += 1
        await this.#wait(index)
        return index < this.#length
          ? { done: false, value: index }
          : { done: true, value: undefined }
      },
      return: async () => {
        this.returned += 1
        return { done: true, value: undefined }
      },
    }
  }

  *sync(): Generator<number> {
    try {
      while (this.pulled < this.#length) yield this.pulled++
    } finally {
      this.returned += 1
    }
  }
}

async function collect<T>(results: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const result of results) all.push(result)
  return all
}

/** A body per index, ended by hand. */
function bodies(count: number): Body<string>[] {
  return Array.from({ length: count }, () => body<string>())
}

const at = <T>(list: readonly T[], index: number): T => list[index] as T
const kinds = ['sync', 'async'] as const
const open = (source: Source, kind: 'sync' | 'async') => (kind === 'sync' ? source.sync() : source)

describe('results', () => {
  it.each(kinds)('come in the order of their items, with index and signal (%s)', async (kind) => {
    const limit = createLimiter(3)
    const seen: string[] = []
    const results = await collect(
      limit.map(open(new Source(50), kind), async (item, index, { signal }) => {
        await (item % 3 === 0 ? turn() : null)
        seen.push(`${item} ${index} ${signal.aborted}`)
        return item * 2
      }),
    )
    expect(results).toEqual(Array.from({ length: 50 }, (_, item) => item * 2))
    expect(new Set(seen).size).toBe(50)
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 3 })
  })

  it('come as they finish when they need no order', async () => {
    const limit = createLimiter(3)
    const work = bodies(3)
    const results = limit.map([0, 1, 2], (item) => at(work, item).run(), { ordered: false })
    const all = collect(results)
    await turn()
    for (const index of [2, 0, 1]) {
      at(work, index).end(`${index}`)
      await turn()
    }
    expect(await all).toEqual(['2', '0', '1'])
  })

  it('come to several who ask at once, each result once', async () => {
    const limit = createLimiter(2)
    const results = limit.map([1, 2, 3], async (item) => item)
    const asked = [1, 2, 3, 4, 5].map(() => results.next())
    expect((await Promise.all(asked)).map(({ value }) => value)).toEqual([
      1,
      2,
      3,
      undefined,
      undefined,
    ])
  })

  it.each([
    ['an array', []],
    ['a string', ''],
    ['an async source', new Source(0)],
  ])('C37: of nothing are nothing (%s)', async (_, source) => {
    const limit = createLimiter(2)
    expect(await collect(limit.map<unknown, number>(source, () => 1))).toEqual([])
    await limit.idle()
  })

  it('may be anything, and are asked for once', async () => {
    const limit = createLimiter(2)
    const values = [undefined, null, 0, () => 1, Symbol.iterator]
    expect(await collect(limit.map(values, (value) => value))).toEqual(values)
    const error = new Error('getter')
    expect(await outcome(collect(limit.map([1], () => poisoned(error))))).toBe(error)
  })

  it('B12: are made in the async context of whoever called map', async () => {
    const limit = createLimiter(2)
    const storage = new AsyncLocalStorage<string>()
    const results = storage.run('caller', () =>
      limit.map([1, 2, 3, 4, 5], () => storage.getStore()),
    )
    const consumed = storage.run('consumer', () => collect(results))
    expect(await consumed).toEqual(Array(5).fill('caller'))
  })

  it('of 300,000 bodies that do nothing leave timers their turn', async () => {
    let now = 0
    // A clock that says at every look that another five milliseconds have gone by.
    const monotonic = () => {
      now += 5
      return now
    }
    const limit = createLimiter(10, { runtime: { ...systemRuntime, monotonic } })
    let [turns, done] = [0, false]
    const tick = () => {
      turns += 1
      if (!done) setImmediate(tick)
    }
    setImmediate(tick)
    let count = 0
    for await (const _ of limit.map(new Source(300_000).sync(), async () => null)) count += 1
    done = true
    expect(count).toBe(300_000)
    expect(turns).toBeGreaterThan(500)
  })
})

describe('pulling', () => {
  it('begins when the first result is asked for', async () => {
    const limit = createLimiter(2)
    const source = new Source(10)
    const results = limit.map(source, (item) => item)
    await turn()
    expect(source.pulled).toBe(0)
    await results.next()
    expect(source.pulled).toBeGreaterThan(0)
  })

  it.each(kinds)('takes no more than there are slots while bodies run (%s)', async (kind) => {
    const limit = createLimiter(3)
    const source = new Source(100)
    const work = bodies(100)
    const all = collect(limit.map(open(source, kind), (item) => at(work, item).run()))
    await turn()
    expect([source.pulled, limit.stats().active]).toEqual([3, 3])
    at(work, 1).end('1')
    await turn()
    expect([source.pulled, limit.stats().active]).toEqual([4, 3])
    for (const each of work) each.end('x')
    expect((await all).length).toBe(100)
  })

  it.each([
    { cap: 1, buffer: 2 },
    { cap: 1, buffer: 10 },
    { cap: 3, buffer: 0 },
    { cap: 4, buffer: undefined },
  ])(
    'C72, B26: stays within concurrency + buffer of the consumer, and ends with him (%o)',
    async ({ cap, buffer }) => {
      for (const kind of kinds) {
        const limit = createLimiter(cap)
        const source = new Source(1_000_000)
        let [running, most, ahead, consumed] = [0, 0, 0, 0]
        const options = buffer === undefined ? {} : { buffer }
        const results = limit.map(
          open(source, kind),
          async (item) => {
            running += 1
            most = Math.max(most, running)
            ahead = Math.max(ahead, source.pulled - consumed)
            await (item % 2 === 0 ? turn() : null)
            running -= 1
            return item
          },
          options,
        )
        for await (const item of results) {
          expect(item).toBe(consumed)
          consumed += 1
          for (let i = 0; i < 5; i += 1) await turn()
          ahead = Math.max(ahead, source.pulled - consumed)
          if (consumed === 10) break
        }
        const { pulled } = source
        expect(pulled).toBeLessThan(10 + cap + (buffer ?? cap) + 1)
        for (let i = 0; i < 5; i += 1) await turn()
        expect(most).toBeLessThanOrEqual(cap)
        // One more than that has been pulled for as long as a result is on its way to the consumer.
        expect(ahead).toBeLessThanOrEqual(cap + (buffer ?? cap) + 1)
        expect([source.pulled, source.returned, running]).toEqual([pulled, 1, 0])
        expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: cap })
      }
    },
  )

  it('holds no slot while an async source is silent', async () => {
    const limit = createLimiter(1)
    const gate = body<void>()
    const all = collect(limit.map(new Source(2, (i) => (i === 1 ? gate.run() : undefined)), String))
    await turn()
    expect(limit.stats().active).toBe(0)
    expect(await limit(() => 'another caller')).toBe('another caller')
    gate.end()
    expect(await all).toEqual(['0', '1'])
  })

  it.each(kinds)('shares the slots with other callers, in turn (%s)', async (kind) => {
    const limit = createLimiter(1)
    const order: string[] = []
    const all = collect(
      limit.map(open(new Source(4), kind), async (item) => {
        order.push(`item ${item}`)
        await turn()
      }),
    )
    const others = [0, 1].map((n) => limit(async () => order.push(`call ${n}`)))
    await Promise.all([all, ...others])
    expect([...order].sort()).toEqual(['call 0', 'call 1', 'item 0', 'item 1', 'item 2', 'item 3'])
    expect(order.indexOf('call 1')).toBeLessThan(order.indexOf('item 2'))
  })

  it('does not overflow a bounded queue, and waits while the limiter is paused', async () => {
    const limit = createLimiter(1, { maxQueue: 0 })
    const blocker = body<void>()
    limit(blocker.run)
    const all = collect(limit.map([1, 2, 3], (item) => item))
    await turn()
    limit.pause()
    blocker.end()
    await turn()
    expect(limit.stats().active).toBe(0)
    limit.resume()
    expect(await all).toEqual([1, 2, 3])
  })

  it('goes on when the concurrency is raised, and keeps to it when it is lowered', async () => {
    const limit = createLimiter(1)
    const work = bodies(10)
    const all = collect(limit.map(new Source(10).sync(), (item) => at(work, item).run()))
    await turn()
    limit.concurrency = 3
    at(work, 0).end('0')
    await turn()
    expect(limit.stats().active).toBe(3)
    limit.concurrency = 1
    at(work, 1).end('1')
    at(work, 2).end('2')
    await turn()
    expect(limit.stats().active).toBe(1)
    for (const each of work) each.end('x')
    expect((await all).length).toBe(10)
  })
})

describe('the end', () => {
  const error = new Error('failed')

  it.each(kinds)('is the first failure, in its place (%s)', async (kind) => {
    const limit = createLimiter(3)
    const source = new Source(100)
    const work = bodies(100)
    const signals: AbortSignal[] = []
    const results = limit.map(open(source, kind), (item, _, { signal }) => {
      signals[item] = signal
      return at(work, item).run()
    })
    const first = results.next()
    await turn()
    at(work, 1).fail(error)
    await turn()
    expect([source.pulled, source.returned, at(signals, 2).aborted]).toEqual([3, 0, false])
    at(work, 0).end('0')
    expect(await first).toEqual({ done: false, value: '0' })
    expect(await outcome(results.next())).toBe(error)
    expect([source.pulled, source.returned, at(signals, 2).aborted]).toEqual([3, 1, true])
    expect(at(signals, 2).reason).toMatchObject({ code: 'CANCELLED', cause: error })
    expect(await results.next()).toEqual({ done: true, value: undefined })
    at(work, 2).fail(new Error('late, and nobody hears of it'))
    await turn()
    expect(limit.stats().active).toBe(0)
  })

  it('is the first failure of all, when they need no order', async () => {
    const limit = createLimiter(3)
    const work = bodies(3)
    const results = limit.map([0, 1, 2], (item) => at(work, item).run(), { ordered: false })
    const first = results.next()
    at(work, 2).end('2')
    at(work, 1).fail(error)
    await turn()
    expect(await first).toEqual({ done: false, value: '2' })
    expect(await outcome(results.next())).toBe(error)
    expect((await results.next()).done).toBe(true)
    at(work, 0).fail(error)
    await turn()
    expect(limit.stats().active).toBe(0)
  })

  it('C53: is what the source throws, whatever becomes of bodies that run', async () => {
    const limits = [createLimiter(2), createLimiter(2)] as const
    const late = body<string>()
    const unhandled: unknown[] = []
    const listener = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', listener)
    const broken = function* () {
      yield 1
      throw error
    }
    const brokenAsync = async function* () {
      yield 1
      throw error
    }
    const ends = [
      outcome(collect(limits[0].map(broken(), late.run))),
      outcome(collect(limits[1].map(brokenAsync(), late.run))),
    ]
    expect(await Promise.all(ends)).toEqual([error, error])
    late.fail(new Error('too late'))
    await turn()
    await turn()
    process.off('unhandledRejection', listener)
    expect([unhandled, ...limits.map((limit) => limit.stats().active)]).toEqual([[], 0, 0])
  })

  it.each([undefined, null, 'text', Object.freeze({}), 0])(
    'C53: may be a failure with any reason (%s)',
    async (reason) => {
      const limit = createLimiter(2)
      const results = limit.map([1], () => Promise.reject(reason))
      expect(await outcome(results.next())).toBe(reason)
      const thrown = limit.map([1], () => {
        throw reason
      })
      expect(await outcome(thrown.next())).toBe(reason)
    },
  )

  it.each(['open', 'next', 'value', 'nonsense'])(
    'C53: may come from a hostile source (%s)',
    async (where) => {
      const limit = createLimiter(2)
      const hostile = {
        [Symbol.iterator]: () => {
          if (where === 'open') throw error
          return {
            next: () => {
              if (where === 'next') throw error
              if (where === 'nonsense') return undefined
              return Object.defineProperty({ done: false }, 'value', {
                get: () => {
                  throw error
                },
              })
            },
          }
        },
      } as unknown as Iterable<number>
      const end = await outcome(collect(limit.map(hostile, (item) => item)))
      if (where === 'nonsense') expect(end).toBeInstanceOf(TypeError)
      else expect(end).toBe(error)
      expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 2 })
    },
  )

  it('comes with an abort at once, and drops what lies waiting', async () => {
    const limit = createLimiter(2)
    const controller = new AbortController()
    const { signal } = controller
    const source = new Source(100)
    const work = body<string>()
    const results = limit.map(source, (item) => (item === 1 ? work.run() : `${item}`), { signal })
    expect(await results.next()).toEqual({ done: false, value: '0' })
    const next = outcome(results.next())
    await turn()
    controller.abort('enough')
    expect(await next).toBe('enough')
    const { pulled } = source
    expect([source.returned, listeners(signal)]).toEqual([1, 0])
    expect((await results.next()).done).toBe(true)
    work.end('late')
    await turn()
    expect([source.pulled, limit.stats().active]).toEqual([pulled, 0])
  })

  it('B02, B03: leaves no listener, and touches nothing under an aborted signal', async () => {
    const limit = createLimiter(2)
    const source = new Source(3)
    const { signal } = new AbortController()
    await collect(limit.map(source, String, { signal }))
    expect(listeners(signal)).toBe(0)
    const aborted = new Source(3)
    const options = { signal: AbortSignal.abort('before') }
    expect(await outcome(collect(limit.map(aborted, String, options)))).toBe('before')
    expect([aborted.pulled, aborted.returned]).toEqual([0, 0])
  })

  it('does not wait behind a pull that is under way, and tells the source once', async () => {
    const limit = createLimiter(2)
    const gate = body<void>()
    const source = new Source(10, (index) => (index === 2 ? gate.run() : undefined))
    const results = limit.map(source, String)
    expect([(await results.next()).value, (await results.next()).value]).toEqual(['0', '1'])
    const pending = results.next()
    await turn()
    expect(await results.return?.()).toEqual({ done: true, value: undefined })
    expect(await results.return?.()).toEqual({ done: true, value: undefined })
    expect(await pending).toEqual({ done: true, value: undefined })
    gate.end()
    await turn()
    expect([source.pulled, source.returned, limit.stats().active]).toEqual([3, 1, 0])
  })

  it('waits for the cleaning up of a source that is not being pulled', async () => {
    const limit = createLimiter(1)
    const log: string[] = []
    const source = (async function* () {
      try {
        yield* [1, 2, 3, 4]
      } finally {
        await turn()
        log.push('cleaned up')
      }
    })()
    for await (const _ of limit.map(source, (item) => item, { buffer: 0 })) {
      await turn()
      break
    }
    log.push('after the loop')
    expect(log).toEqual(['cleaned up', 'after the loop'])
  })

  it('B20: of a map that waits for a slot leaves nothing behind', async () => {
    const limit = createLimiter(1, { maxQueue: 1 })
    limit.pause()
    const results = limit.map([1, 2, 3], (item) => item)
    const next = results.next()
    await turn()
    expect(limit.stats().waiting).toBe(1)
    const idle = limit.idle()
    await results.return?.()
    await idle
    expect([(await next).done, limit.stats().waiting]).toEqual([true, 0])
    limit.resume()
    expect(await limit(() => 'free')).toBe('free')
  })

  it('C26: comes with clear() for a map that waits for its slot', async () => {
    const limit = createLimiter(1)
    const blocker = body<void>()
    limit(blocker.run)
    const source = new Source(3)
    const all = outcome(collect(limit.map(source, String)))
    await turn()
    expect(limit.clear()).toBe(1)
    expect(await all).toBe('CANCELLED')
    blocker.end()
    await limit.idle()
    expect(source.pulled).toBe(0)
  })
})

describe('whatever happens', () => {
  it('B18: each item is done once, within the cap, and no slot is lost', async () => {
    const run = fc.record({
      cap: fc.integer({ min: 1, max: 4 }),
      length: fc.integer({ min: 0, max: 30 }),
      buffer: fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined }),
      kind: fc.constantFrom(...kinds),
      ordered: fc.boolean(),
      failAt: fc.option(fc.nat(40), { nil: undefined }),
      breakAt: fc.option(fc.nat(40), { nil: undefined }),
      others: fc.nat(5),
      slow: fc.integer({ min: 1, max: 5 }),
    })
    await fc.assert(
      fc.asyncProperty(run, async ({ cap, length, kind, buffer, ...rest }) => {
        const limit = createLimiter(cap)
        const source = new Source(length)
        let [running, most] = [0, 0]
        const done: number[] = []
        const track = async (work: () => Promise<unknown> | undefined) => {
          running += 1
          most = Math.max(most, running)
          await work()
          running -= 1
        }
        const others = Array.from({ length: rest.others }, () => limit(() => track(turn)))
        const options = buffer === undefined ? {} : { buffer }
        const results = limit.map(
          open(source, kind),
          async (item) => {
            await track(() => (item % rest.slow === 0 ? turn() : undefined))
            done.push(item)
            if (item === rest.failAt) throw new Error('planned')
            return item
          },
          { ordered: rest.ordered, ...options },
        )
        const got: number[] = []
        const end = await outcome(
          (async () => {
            for await (const item of results) {
              got.push(item)
              if (item === rest.breakAt) return 'break'
            }
            return 'all'
          })(),
        )
        await Promise.all(others)
        await limit.idle()
        expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: cap })
        expect([most <= cap, new Set(done).size]).toEqual([true, done.length])
        if (rest.ordered) expect(got).toEqual(got.map((_, index) => index))
        if (end === 'all') expect([got.length, source.returned <= 1]).toEqual([length, true])
        else
          expect([rest.breakAt, rest.failAt].some((n) => n !== undefined && n < length)).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  it('wrong arguments are refused by name, at the call', () => {
    const limit = createLimiter(1)
    const refused = (run: () => unknown) => {
      try {
        return run()
      } catch (error) {
        return (error as { code?: string }).code
      }
    }
    const wrong = [
      () => limit.map(7 as unknown as number[], (item) => item),
      () => limit.map(null as unknown as number[], (item) => item),
      () => limit.map([1], undefined as unknown as () => number),
      () => limit.map([1], (item) => item, { bufer: 1 } as object),
      () => limit.map([1], (item) => item, { buffer: -1 }),
      () => limit.map([1], (item) => item, { buffer: 1.5 }),
      () => limit.map([1], (item) => item, { ordered: 1 as unknown as boolean }),
      () => limit.map([1], (item) => item, { signal: {} as AbortSignal }),
    ]
    expect(wrong.map(refused)).toEqual(Array(8).fill('INVALID_OPTION'))
  })
})
