// Owns the promises of batching.

import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { coalesce } from '../../src/kit/coalesce.ts'
import { body, outcome, turn } from './helpers.ts'

describe('coalesced calls', () => {
  it('share the first batch when they come in one turn, and the next when they come later', async () => {
    const batches: number[][] = []
    const first = body<void>()
    const double = coalesce(async (items: readonly number[]) => {
      batches.push([...items])
      if (batches.length === 1) await first.run()
      return items.map((item) => item * 2)
    })
    const answers = [double(1), double(2)]
    expect(batches).toEqual([])
    await turn()
    answers.push(double(3))
    await turn()
    answers.push(double(4))
    expect(batches).toEqual([[1, 2]])
    first.end()
    expect(await Promise.all(answers)).toEqual([2, 4, 6, 8])
    expect(batches).toEqual([
      [1, 2],
      [3, 4],
    ])
  })

  it('never has two batches in flight, and never a batch above the maximum', async () => {
    let inFlight = 0
    const sizes: number[] = []
    const echo = coalesce(
      async (items: readonly number[]) => {
        inFlight += 1
        expect(inFlight).toBe(1)
        sizes.push(items.length)
        await turn()
        inFlight -= 1
        return items
      },
      { max: 3 },
    )
    const numbers = Array.from({ length: 10 }, (_, i) => i)
    expect(await Promise.all(numbers.map(echo))).toEqual(numbers)
    expect(sizes).toEqual([3, 3, 3, 1])
  })

  it('reject together when their batch does, and the next batch is none the worse', async () => {
    const error = new Error('no')
    const call = coalesce((items: readonly string[]) =>
      items.includes('bad') ? Promise.reject(error) : Promise.resolve(items),
    )
    expect(await Promise.all([outcome(call('good')), outcome(call('bad'))])).toEqual([error, error])
    expect(await call('good')).toBe('good')
  })

  it('reject when the batch throws, or answers with the wrong number of results', async () => {
    const error = new Error('at once')
    const throwing = coalesce((): Promise<number[]> => {
      throw error
    })
    expect(await outcome(throwing(1))).toBe(error)
    const short = coalesce(async (_: readonly number[]) => [1])
    const [one, two] = [short(1), short(2)]
    await expect(one).rejects.toThrow('a batch of 2 items was answered with 1 results')
    await expect(two).rejects.toThrow(TypeError)
    const none = coalesce((async () => undefined) as unknown as () => Promise<number[]>)
    await expect(none(1)).rejects.toThrow('answered with undefined')
  })

  it('B12: run in nobody’s async context, and answer in the caller’s', async () => {
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const call = coalesce(async (items: readonly number[]) => {
      seen.push(storage.getStore())
      return items
    })
    const after = await storage.run('request', async () => {
      await call(1)
      return storage.getStore()
    })
    expect([seen, after]).toEqual([[undefined], 'request'])
  })
})

describe('items of different size', () => {
  it('share a batch up to its weight, and one of them may be too large', async () => {
    const batches: number[][] = []
    const weigh = coalesce(
      async (items: readonly number[]) => {
        batches.push([...items])
        return items
      },
      { max: 10, weigh: (item) => item },
    )
    await Promise.all([4, 5, 6, 25, 1].map((item) => weigh(item)))
    expect(batches).toEqual([[4, 5, 6], [25], [1]])
  })
})
