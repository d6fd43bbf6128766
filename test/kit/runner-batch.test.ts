// Owns the promises of batches: every item accounted for, pulled as slots free up, stopped in time.

import { describe, expect, it } from 'vitest'
import { body, outcome, turn } from './helpers.ts'
import { bench, sleep, stubborn, transient } from './runner-helpers.ts'

const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

describe('a batch', () => {
  it('settles every item, and reports values, errors and codes in order', async () => {
    const { runtime, runner } = bench({ concurrency: 3 })
    const batch = runner.batch(
      upTo(6),
      async (item) => {
        await sleep(runtime, 60 - item * 10)
        if (item % 2 === 1) throw Object.assign(new Error(`no ${item}`), { code: 'ODD' })
        return item * 10
      },
      { key: (item) => `item ${item}` },
    )
    await runtime.run()
    const { fulfilled, rejected, skipped, codes } = await batch
    expect(fulfilled).toEqual([
      { key: 'item 0', item: 0, value: 0 },
      { key: 'item 2', item: 2, value: 20 },
      { key: 'item 4', item: 4, value: 40 },
    ])
    expect(rejected.map(({ key, item, error }) => [key, item, (error as Error).message])).toEqual([
      ['item 1', 1, 'no 1'],
      ['item 3', 3, 'no 3'],
      ['item 5', 5, 'no 5'],
    ])
    expect([skipped, codes]).toEqual([[], { ODD: 3 }])
  })

  it('C37: of nothing is done at once', async () => {
    const { runner } = bench()
    const nothing = { fulfilled: [], rejected: [], skipped: [], codes: {} }
    expect(await runner.batch([], () => 1)).toEqual(nothing)
  })

  it('hands fn what a task gets, retries it, and gives every item a key of its own', async () => {
    const { runtime, runner } = bench({
      concurrency: 2,
      retry: { retries: 1, baseDelay: 10, jitter: false },
    })
    const seen: unknown[] = []
    const batch = runner.batch(['a', 'a'], (item, { key, attempt, signal }) => {
      seen.push([item, typeof key, attempt, signal.aborted])
      if (attempt === 1) throw transient()
      return key
    })
    await runtime.run()
    const { fulfilled } = await batch
    expect(seen).toEqual([
      ['a', 'string', 1, false],
      ['a', 'string', 1, false],
      ['a', 'string', 2, false],
      ['a', 'string', 2, false],
    ])
    expect(new Set(fulfilled.map(({ value }) => value)).size).toBe(2)
  })

  it('shares bodies of the same key, as calls do', async () => {
    const { runtime, runner } = bench({ concurrency: 3 })
    let runs = 0
    const fn = async () => {
      await sleep(runtime, 10)
      runs += 1
      return runs
    }
    const batch = runner.batch(['x', 'x', 'y'], fn, { key: (item) => item })
    await runtime.run()
    expect((await batch).fulfilled.map(({ value }) => value)).toEqual([1, 1, 2])
  })

  it('goes on with other items while one waits for a body of its key', async () => {
    const { runtime, runner } = bench({ concurrency: 3 })
    const order: string[] = []
    const busy = runner('x', stubborn(runtime, 100, 'from before'))
    const batch = runner.batch(['x', 'y', 'z'], (item) => order.push(item), {
      key: (item) => item,
    })
    await runtime.advance(10)
    expect(order).toEqual(['y', 'z'])
    await runtime.run()
    await busy
    expect((await batch).fulfilled.map(({ value }) => value)).toEqual(['from before', 1, 2])
  })

  it('C72: pulls an item only when a slot is free for it', async () => {
    const { runtime, runner } = bench({ concurrency: 2 })
    let pulled = 0
    let ended = 0
    let ahead = 0
    function* source() {
      for (const item of upTo(100)) {
        pulled += 1
        ahead = Math.max(ahead, pulled - ended)
        yield item
      }
    }
    const batch = runner.batch(source(), async () => {
      await sleep(runtime, 5)
      ended += 1
    })
    await turn()
    expect(pulled).toBe(2)
    await runtime.run()
    expect((await batch).fulfilled).toHaveLength(100)
    expect(ahead).toBe(2)
  })

  it('goes on with other items while some back off', async () => {
    const { runtime, runner } = bench({
      retry: { retries: 1, baseDelay: 1_000, jitter: false },
    })
    const order: string[] = []
    const batch = runner.batch(upTo(3), (item, { attempt }) => {
      order.push(`${item}.${attempt}`)
      if (item === 0 && attempt === 1) throw transient()
    })
    await runtime.run()
    await batch
    expect(order).toEqual(['0.1', '1.1', '2.1', '0.2'])
  })

  it('does not let more items back off than may wait', async () => {
    const { runtime, runner } = bench({
      maxQueue: 3,
      retry: { retries: 1, baseDelay: 1_000, jitter: false },
    })
    let pulled = 0
    function* source() {
      for (const item of upTo(50)) {
        pulled += 1
        yield item
      }
    }
    const batch = runner.batch(source(), (_, { attempt }) => {
      if (attempt === 1) throw transient()
    })
    await runtime.advance(500)
    expect(pulled).toBe(4)
    await runtime.run()
    expect((await batch).fulfilled).toHaveLength(50)
  })

  it('is not starved by others, waits among them, and is never refused for room', async () => {
    const { runtime, runner } = bench({ maxQueue: 5, concurrency: 1 })
    let others = 0
    const other = () => {
      others += 1
      if (others < 60) runner(`other ${others}`, () => sleep(runtime, 10).then(other))
    }
    for (let i = 0; i < 4; i += 1) other()
    let waiting = 0
    const batch = runner.batch(upTo(5), () => {
      waiting = Math.max(waiting, runner.stats().waiting)
      return sleep(runtime, 10)
    })
    await runtime.run()
    expect((await batch).fulfilled).toHaveLength(5)
    expect(others).toBeGreaterThanOrEqual(60)
    expect(waiting).toBeLessThanOrEqual(6)
  })

  it('takes async iterables, one item at a time', async () => {
    const { runtime, runner } = bench({ concurrency: 4 })
    let asking = 0
    async function* source() {
      for (const item of upTo(10)) {
        asking += 1
        if (asking > 1) throw new Error('asked twice at once')
        await sleep(runtime, 3)
        asking -= 1
        yield item
      }
    }
    const batch = runner.batch(source(), (item) => sleep(runtime, 20).then(() => item))
    await runtime.run()
    expect((await batch).fulfilled.map(({ value }) => value)).toEqual(upTo(10))
  })

  it('reports an item whose key or body throws at once, and goes on', async () => {
    const { runner } = bench()
    const fail = (why: string) => {
      throw new Error(why)
    }
    const { rejected, fulfilled } = await runner.batch(
      upTo(3),
      (item) => (item === 1 ? fail('body') : item),
      { key: (item) => (item === 0 ? fail('key') : `k${item}`) },
    )
    expect(rejected.map(({ item, error }) => [item, (error as Error).message])).toEqual([
      [0, 'key'],
      [1, 'body'],
    ])
    expect(fulfilled.map(({ item }) => item)).toEqual([2])
  })

  it('C53: rejects when its source throws, after what was begun has ended', async () => {
    const { runtime, runner } = bench({ concurrency: 5 })
    let ended = false
    function* source() {
      yield 1
      throw new Error('source')
    }
    const batch = outcome(
      runner.batch(source(), async () => {
        await sleep(runtime, 20)
        ended = true
        throw new Error('item')
      }),
    )
    await runtime.run()
    expect(await batch).toMatchObject({ message: 'source' })
    expect(ended).toBe(true)
  })

  it('refuses what makes no sense', async () => {
    const { runner } = bench()
    const wrong: [unknown, unknown, unknown?][] = [
      [5, () => 1],
      [null, () => 1],
      [[], 'fn'],
      [[], () => 1, { kee: 1 }],
      [[], () => 1, { key: 'id' }],
      [[], () => 1, { stopWhen: { consecutiveFailures: 0 } }],
      [[], () => 1, { stopWhen: { failureRate: 2 } }],
      [[], () => 1, { stopWhen: { window: 0 } }],
      [[], () => 1, { stopWhen: { rate: 1 } }],
    ]
    for (const given of wrong) {
      const call = runner.batch(...(given as Parameters<typeof runner.batch>))
      expect(await outcome(call)).toBe('INVALID_OPTION')
    }
  })
})

describe('a batch that meets a lasting failure', () => {
  const failing = (from: number) => (item: number) => {
    if (item >= from) throw Object.assign(new Error('down'), { code: 'DOWN' })
    return item
  }

  it('stops after so many failures in a row, and reports the rest as skipped', async () => {
    const { runner } = bench()
    const { fulfilled, rejected, skipped, codes } = await runner.batch(upTo(100), failing(10), {
      stopWhen: { consecutiveFailures: 3 },
    })
    expect(fulfilled.map(({ item }) => item)).toEqual(upTo(10))
    expect(rejected.map(({ item }) => item)).toEqual([10, 11, 12])
    expect(skipped).toEqual(upTo(100).slice(13))
    expect(codes).toEqual({ DOWN: 3 })
  })

  it('stops at a share of failures among the last ones', async () => {
    const { runner } = bench()
    const fn = (item: number) => failing(item % 2 === 0 ? 99 : 0)(item)
    const { rejected, fulfilled, skipped } = await runner.batch(upTo(40), fn, {
      stopWhen: { failureRate: 0.5, window: 10 },
    })
    expect([fulfilled.length, rejected.length, skipped.length]).toEqual([5, 5, 30])
  })

  it('sees to the end what is running, and drops nothing of an async source either', async () => {
    const { runtime, runner } = bench({ concurrency: 3 })
    async function* source() {
      for (const item of upTo(20)) {
        await sleep(runtime, 1)
        yield item
      }
    }
    const batch = runner.batch(
      source(),
      async (item) => {
        await sleep(runtime, item === 0 ? 100 : 5)
        if (item > 0) throw new Error('down')
        return 'slow but good'
      },
      { stopWhen: { consecutiveFailures: 2 } },
    )
    await runtime.run()
    const { fulfilled, rejected, skipped } = await batch
    expect(fulfilled.map(({ value }) => value)).toEqual(['slow but good'])
    const seen = [...fulfilled, ...rejected].map(({ item }) => item)
    expect([...seen, ...skipped].sort((a, b) => a - b)).toEqual(upTo(20))
    expect(rejected.length).toBeLessThanOrEqual(4)
  })

  it('stops when the runner is closed', async () => {
    const { runtime, runner } = bench()
    const batch = runner.batch(upTo(10), (item) => (item < 3 ? item : body<number>().run()))
    await turn()
    const closing = runner.close()
    await runtime.run()
    await runtime.advance(0)
    await closing
    const { fulfilled, rejected, skipped, codes } = await batch
    expect([fulfilled.length, rejected.length, skipped]).toEqual([3, 1, upTo(10).slice(4)])
    expect(codes).toEqual({ CLOSED: 1 })
  })

  it('a closed runner begins none', async () => {
    const { runner } = bench()
    await runner.close()
    const { skipped } = await runner.batch(upTo(3), stubborn as never)
    expect(skipped).toEqual(upTo(3))
  })
})
