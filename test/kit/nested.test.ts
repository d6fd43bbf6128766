// Owns the promises about calls inside bodies: a wait that could never end is ended, and no other.

import { describe, expect, it } from 'vitest'
import { createInflight } from '../../src/kit/inflight.ts'
import { createLimiter, type Limiter } from '../../src/kit/limiter.ts'
import { withTimeout } from '../../src/kit/timeout.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'
import { body, outcome, turn } from './helpers.ts'

const DAY = 86_400_000

/** Lets more time pass than any look at a stalled limiter waits for. */
async function stall(runtime: VirtualRuntime): Promise<void> {
  await runtime.advance(DAY)
}

/** What a promise comes to, or 'waits' if it does not come to anything. */
async function within(runtime: VirtualRuntime, promise: Promise<unknown>): Promise<unknown> {
  let end: unknown = 'waits'
  outcome(promise).then((value) => {
    end = value
  })
  await stall(runtime)
  return end
}

const sleep = (runtime: VirtualRuntime, ms: number) =>
  new Promise<void>((resolve) => runtime.after(ms, resolve))

type Inner = () => Promise<unknown>

/** How a body may come to wait for a call. */
const ways: [string, (inner: Inner, runtime: VirtualRuntime) => unknown][] = [
  ['returns it', (inner) => inner()],
  ['awaits it at once', async (inner) => await inner()],
  [
    'awaits it later',
    async (inner, runtime) => {
      await sleep(runtime, 1)
      await inner()
    },
  ],
  [
    'makes it first and awaits it later',
    async (inner, runtime) => {
      const call = inner()
      await sleep(runtime, 1000)
      await call
    },
  ],
  ['returns it from an async function', async (inner) => inner()],
  ['chains it', (inner, runtime) => sleep(runtime, 1).then(() => inner())],
  [
    'chains on',
    (inner) =>
      inner()
        .then(() => 1)
        .finally(() => {}),
  ],
  ['awaits several', async (inner) => await Promise.all([inner(), 1, turn()])],
  ['settles several', async (inner) => await Promise.allSettled([inner()])],
  [
    'has a helper',
    async (inner) => {
      const helper = async () => {
        await turn()
        await inner()
      }
      await Promise.all([helper(), helper()])
    },
  ],
  ['resolves with it', (inner) => new Promise((resolve) => resolve(inner()))],
  [
    'iterates over it',
    async (inner) => {
      const source = (async function* () {
        yield await inner()
      })()
      for await (const _ of source) await turn()
    },
  ],
]

describe('a body that waits for a call of its own limiter', () => {
  it.each(ways)('B28: has that call refused when no slot is left (%s)', async (way, act) => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const inner = () => limit(() => 'inner')
    const outer = limit(() => act(inner, runtime))
    const end = await within(runtime, outer)
    if (way === 'settles several') {
      expect(end).toMatchObject([{ status: 'rejected', reason: { code: 'NESTED_LIMIT' } }])
    } else expect(end).toBe('NESTED_LIMIT')
    await limit.idle()
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 1 })
  })

  it('B28: is found behind calls of others, and among bodies that have waited themselves', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(2, { runtime })
    const first = [1, 2].map(() => limit(() => sleep(runtime, 5)))
    const nested = [1, 2].map(() =>
      outcome(
        limit(async () => {
          await sleep(runtime, 5)
          return await limit(() => 'inner')
        }),
      ),
    )
    await runtime.advance(7)
    const others = Array.from({ length: 3000 }, () => limit(() => 'other'))
    await stall(runtime)
    // One of the two has to give way; then the other one's call has its turn.
    expect((await Promise.all(nested)).sort()).toEqual(['NESTED_LIMIT', 'inner'])
    await Promise.all([...first, ...others])
  })

  it('is left alone while a slot can still come free', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(2, { runtime })
    const other = limit(() => sleep(runtime, DAY / 2))
    const outer = limit(async () => await limit(() => 'inner'))
    expect(await within(runtime, outer)).toBe('inner')
    await other
  })

  it('is left alone when the call gives up by itself', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const outer = limit(async () => await limit(() => 'inner', { enqueueTimeout: '1h' }))
    expect(await within(runtime, outer)).toBe('ENQUEUE_TIMEOUT')
  })

  it('is left alone when its time is limited', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    let inner: Promise<unknown> = Promise.resolve()
    const outer = limit(() =>
      withTimeout(
        () => {
          inner = limit(() => 'inner')
          return inner.then((value) => value)
        },
        '1h',
        { runtime },
      ),
    )
    expect(await within(runtime, outer)).toBe('EXECUTION_TIMEOUT')
    expect(await within(runtime, inner)).toBe('inner')
  })

  it('waits all the same where that was asked for', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, nested: 'queue' })
    const outer = limit(async () => await limit(() => 'inner'))
    expect(await within(runtime, outer)).toBe('waits')
    limit.concurrency = 2
    expect(await within(runtime, outer)).toBe('inner')
  })

  it('goes on when the refusal is caught', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const outer = limit(async () => await limit(() => 'inner').catch(({ code }) => `after ${code}`))
    expect(await within(runtime, outer)).toBe('after NESTED_LIMIT')
  })
})

describe('a body that does not wait for the calls it makes', () => {
  const forgetful: [string, (inner: Inner) => void][] = [
    ['forgets it', (inner) => void inner()],
    ['handles its failure', (inner) => void inner().catch(() => {})],
    ['leaves it to a function', (inner) => void (async () => await inner())()],
    [
      'leaves it to a slow function',
      (inner) =>
        void (async () => {
          await turn()
          await inner()
        })(),
    ],
  ]

  it.each(forgetful)('is left alone, however long it takes (%s)', async (_, act) => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const ran: string[] = []
    const outer = limit(async () => {
      act(() => limit(() => ran.push('inner')))
      await sleep(runtime, DAY / 2)
      ran.push('outer')
    })
    await within(runtime, outer)
    await limit.idle()
    expect(ran).toEqual(['outer', 'inner'])
  })

  it('may hand them to somebody outside who waits', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const pages: Promise<unknown>[] = []
    const crawl = (depth: number) => {
      pages.push(
        limit(async () => {
          if (depth > 0) for (let link = 0; link < 3; link += 1) crawl(depth - 1)
          await sleep(runtime, 10_000)
        }),
      )
    }
    crawl(3)
    const all = (async () => {
      for (const page of pages) await page
      return pages.length
    })()
    expect(await within(runtime, all)).toBe(40)
  })
})

describe('several limiters', () => {
  it('B28: in a ring are seen through', async () => {
    const runtime = virtualRuntime(1)
    const [a, b, c] = [1, 2, 3].map(() => createLimiter(1, { runtime })) as [
      Limiter,
      Limiter,
      Limiter,
    ]
    const chain = (outer: Limiter, inner: Limiter) =>
      outcome(
        outer(async () => {
          await sleep(runtime, 1)
          return await inner(() => 'inner')
        }),
      )
    const ends = Promise.all([chain(a, b), chain(b, c), chain(c, a)])
    const all = (await within(runtime, ends)) as string[]
    expect([...all].sort()).toEqual(['NESTED_LIMIT', 'inner', 'inner'])
  })

  it('B28: nested through one another come back to the first', async () => {
    const runtime = virtualRuntime(1)
    const [a, b] = [createLimiter(1, { runtime }), createLimiter(1, { runtime })]
    const outer = a(async () => await b(async () => await a(() => 'inner')))
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
    // The middle one has waited for its slot before: it serves a call, and is not part of it.
    const blocker = body<void>()
    b(blocker.run)
    const late = a(async () => await b(async () => await a(() => 'inner')))
    await turn()
    blocker.end()
    expect(await within(runtime, late)).toBe('NESTED_LIMIT')
  })

  it('are left alone when one of them opts out', async () => {
    const runtime = virtualRuntime(1)
    const a = createLimiter(1, { runtime })
    const b = createLimiter(1, { runtime, nested: 'queue' })
    const outer = a(async () => await b(async () => await a(() => 'inner')))
    // The wait is that for a, and every slot of a is held by a body that waits for it.
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
    const other = b(async () => await a(async () => await b(() => 'inner')))
    expect(await within(runtime, other)).toBe('waits')
  })
})

describe('somebody who waits for a ring without being in it', () => {
  const nest = (runtime: VirtualRuntime, outer: Limiter, inner: Limiter) =>
    outcome(
      outer(async () => {
        await sleep(runtime, 1)
        return await inner(() => 'inner')
      }),
    )

  /** Only those at which somebody has waited are looked at. */
  const known = async (...limiters: Limiter[]) => {
    for (const limit of limiters) {
      await Promise.all(Array.from({ length: limit.concurrency + 1 }, () => limit(turn)))
    }
  }

  it('B28: is left alone, whether he came before or after', async () => {
    const runtime = virtualRuntime(1)
    const [limit, other] = [createLimiter(1, { runtime }), createLimiter(2, { runtime })]
    await known(limit, other)
    const blocker = body<void>()
    const held = limit(blocker.run)
    const before = other(async () => await limit(() => 'before', { priority: 1 }))
    await turn()
    blocker.end()
    const ring = nest(runtime, limit, limit)
    const after = other(async () => {
      await sleep(runtime, 5)
      return await limit(() => 'after')
    })
    expect(await within(runtime, Promise.all([held, before, ring, after]))).toEqual([
      undefined,
      'before',
      'NESTED_LIMIT',
      'after',
    ])
  })

  it('B28: is left alone behind limiters of his own, which were looked at first', async () => {
    const runtime = virtualRuntime(1)
    const [a, b, c, d] = [1, 2, 3, 4].map(() => createLimiter(1, { runtime })) as [
      Limiter,
      Limiter,
      Limiter,
      Limiter,
    ]
    await known(d, b)
    const gate = body<void>()
    const near = b(async () => {
      await gate.run()
      return await a(() => 'inner')
    })
    const far = nest(runtime, d, b)
    await runtime.advance(2)
    gate.end()
    const ring = [nest(runtime, a, c), nest(runtime, c, a)]
    const ends = (await within(runtime, Promise.all([far, near, ...ring]))) as string[]
    expect(ends.slice(0, 2)).toEqual(['inner', 'inner'])
    expect(ends.slice(2).sort()).toEqual(['NESTED_LIMIT', 'inner'])
  })

  it('B28: hears nothing of a ring that his own one waits for', async () => {
    const runtime = virtualRuntime(1)
    const [pair, single] = [createLimiter(2, { runtime }), createLimiter(1, { runtime })]
    // Both slots of the pair are stuck, but one of them only until the single one has given way.
    const waits = nest(runtime, pair, pair)
    const leads = nest(runtime, pair, single)
    const ring = nest(runtime, single, single)
    expect(await within(runtime, Promise.all([waits, leads, ring]))).toEqual([
      'inner',
      'inner',
      'NESTED_LIMIT',
    ])
  })
})

describe('limit.map', () => {
  it('B28: whose function calls the limiter is seen through', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const results = limit.map([1, 2], async (item) => {
      await turn()
      return await limit(() => item)
    })
    expect(await within(runtime, results.next())).toBe('NESTED_LIMIT')
    await limit.idle()
  })

  it('B28: inside a body needs a slot', async () => {
    const runtime = virtualRuntime(1)
    const [limit, other] = [createLimiter(1, { runtime }), createLimiter(1, { runtime })]
    const collect = async (results: AsyncIterable<number>) => {
      const all: number[] = []
      for await (const result of results) all.push(result)
      return all
    }
    const inside = limit(() => collect(limit.map([1, 2], (item) => item)))
    expect(await within(runtime, inside)).toBe('NESTED_LIMIT')
    const ring = limit(() => collect(other.map([1, 2], (item) => limit(() => item))))
    expect(await within(runtime, ring)).toBe('NESTED_LIMIT')
    const fine = limit(() => collect(other.map([1, 2], (item) => item)))
    expect(await within(runtime, fine)).toEqual([1, 2])
  })

  it('that waits for a slot hears of `clear`, after a look as before', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const blocker = body<void>()
    const held = limit(blocker.run)
    const results = limit.map([1, 2], (item) => item)
    const next = outcome(results.next())
    await runtime.advance(1000)
    limit.clear()
    expect(await next).toBe('CANCELLED')
    blocker.end()
    await held
  })

  it('B28: without an order waits for any of its bodies', async () => {
    const runtime = virtualRuntime(1)
    const [limit, other] = [createLimiter(2, { runtime }), createLimiter(1, { runtime })]
    const collect = async (slow: boolean) => {
      const all: number[] = []
      const visit = async (item: number) => {
        if (item === 1 && slow) await sleep(runtime, DAY / 2)
        else await other(() => item)
        return item
      }
      for await (const result of limit.map([1, 2], visit, { ordered: false })) all.push(result)
      return all
    }
    // What the inner bodies wait for is held by whoever waits for the results.
    const stuck = other(() => collect(false))
    expect(await within(runtime, stuck)).toBe('NESTED_LIMIT')
    await limit.idle()
    const fine = other(async () => {
      const results = limit.map([1, 2, 3], (item) => sleep(runtime, 10_000 * item), {
        ordered: false,
      })
      await results.next()
      await results.return?.()
      return 'one is enough'
    })
    expect(await within(runtime, fine)).toBe('one is enough')
  })
})

describe('single flight', () => {
  it('B23: is refused to a body that calls for its own key', async () => {
    const inflight = createInflight()
    const self: (() => Promise<unknown>)[] = [
      () => inflight('k', () => inflight('k', () => 1)),
      () => inflight('k', async () => await inflight('k', () => 1)),
      () =>
        inflight('k', async () => {
          await turn()
          return await inflight('k', () => 1)
        }),
      () => inflight('k', () => turn().then(() => inflight('other', () => inflight('k', () => 1)))),
    ]
    for (const call of self) expect(await outcome(call())).toBe('NESTED_LIMIT')
    expect(inflight.size).toBe(0)
    const message = await inflight('k', () => inflight('k', () => 1)).catch(
      (error) => error.message,
    )
    expect(message).toBe('The body of "k" has called for "k": it would wait for itself.')
  })

  it('B23: is not refused to others, or for another key', async () => {
    const inflight = createInflight()
    const work = body<number>()
    const first = inflight('k', work.run)
    const joined = [inflight('k', work.run), inflight('other', () => inflight('k', work.run))]
    work.end(1)
    expect(await Promise.all([first, ...joined])).toEqual([1, 1, 1])
    expect(await inflight('a', () => inflight('b', () => inflight('c', () => 2)))).toBe(2)
  })
})
