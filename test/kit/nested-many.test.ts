// Owns the promises about waits that could never end and are hard to see: among very many others,
// and at the end of a long chain.

import { describe, expect, it, vi } from 'vitest'
import { createInflight } from '../../src/kit/inflight.ts'
import { createLimiter } from '../../src/kit/limiter.ts'
import { some } from '../../src/kit/nested/some.ts'
import { createRunner } from '../../src/kit/runner.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'
import { body, outcome, turn } from './helpers.ts'

/** What a promise comes to, or 'waits' if it does not come to anything in a day. */
async function within(runtime: VirtualRuntime, promise: Promise<unknown>): Promise<unknown> {
  let end: unknown = 'waits'
  outcome(promise).then((value) => {
    end = value
  })
  await runtime.advance(86_400_000)
  return end
}

describe('a body that waits for a call of its own', () => {
  it.each([50, 90])(
    'B28: is found before ten thousand calls of others (priority %i)',
    async (priority) => {
      const runtime = virtualRuntime(1)
      const limit = createLimiter(1, { runtime })
      // The body begins within the call: what it calls is first in line, and not among the newest.
      const outer = limit(() => limit(() => 'inner', { priority }))
      const others = Array.from({ length: 10_000 }, () => limit(() => 'other'))
      expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
      expect((await Promise.all(others)).length).toBe(10_000)
    },
  )

  it('B28: is found at the end of a long recursion', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const page = async (left: number): Promise<unknown> => {
      await turn()
      return left === 0 ? await limit(() => 'inner') : await page(left - 1)
    }
    const outer = limit(() => page(1_000))
    for (let turns = 0; turns < 1_010; turns += 1) await turn()
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
  })

  it('B28: is found in a runner before ten thousand calls of others', async () => {
    const runtime = virtualRuntime(1)
    const runner = createRunner({ concurrency: 1, enqueueTimeout: 0, maxQueue: 20_000, runtime })
    const run = (key: string, task: () => unknown) => outcome(runner(key, task))
    const outer = run('outer', () => runner('inner', () => 'inner'))
    const others = Array.from({ length: 10_000 }, (_, n) => run(`${n}`, () => 'other'))
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
    expect((await Promise.all(others)).length).toBe(10_000)
  })

  it('B23: is found in single flight before ten thousand others who come to one of its keys', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const call = (own: string, other: string) =>
      inflight(own, async () => {
        await turn()
        return await inflight(other, () => 'none')
      })
    const ends = Promise.all([outcome(call('a', 'b')), outcome(call('b', 'a'))])
    await turn()
    const others = Array.from({ length: 10_000 }, () => outcome(inflight('a', () => 'none')))
    expect(await within(runtime, ends)).toContain('NESTED_LIMIT')
    expect((await Promise.all(others)).length).toBe(10_000)
  })
})

describe('those who are looked at', () => {
  it('are so few that many slow limiters cost no more than one', async () => {
    const runtime = virtualRuntime(1)
    const asked = vi.spyOn(Error, 'captureStackTrace')
    const seconds = 5
    const calls = Array.from({ length: 200 }, () => {
      const limit = createLimiter(1, { runtime })
      const slow = limit(() => new Promise<void>((done) => runtime.after(seconds * 1_000, done)))
      return [slow, ...Array.from({ length: 20 }, () => limit(() => {}))]
    })
    await runtime.advance(seconds * 1_000 - 1)
    // 4 us each are a twentieth of the time, and one look that has begun.
    expect(asked.mock.calls.length).toBeLessThanOrEqual((seconds * 1_000) / 0.08 + 5_000)
    expect(asked.mock.calls.length).toBeGreaterThan(0)
    asked.mockRestore()
    await runtime.advance(1)
    await Promise.all(calls.flat())
  })

  it('are those of a ring, however many others have stalled', async () => {
    const runtime = virtualRuntime(1)
    const gate = body<void>()
    const slow = Array.from({ length: 200 }, () => {
      const limit = createLimiter(1, { runtime })
      return [limit(gate.run), ...Array.from({ length: 20 }, () => limit(() => {}))]
    })
    const limit = createLimiter(1, { runtime })
    const other = createLimiter(1, { runtime })
    const nested = limit(async () => await other(async () => await limit(() => 'inner')))
    const end = outcome(nested)
    await runtime.advance(5_000)
    expect(limit.stats().active).toBe(0)
    expect(await end).toBe('NESTED_LIMIT')
    gate.end()
    await Promise.all(slow.flat())
  })

  it('are all, or the newest and those who are next', () => {
    const line = [1, 2, 3, 4, 5, 6]
    const look = (most: number) => [...some(line.length, most, line.toReversed(), line)]
    expect(look(6)).toEqual([6, 5, 4, 3, 2, 1])
    expect(look(5)).toEqual([6, 5, 4, 1, 2])
    expect(look(2)).toEqual([6, 1])
  })
})
