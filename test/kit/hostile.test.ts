// Owns the promises about bodies and answers that are made to hurt: only their own call is hurt.

import { describe, expect, it } from 'vitest'
import { createInflight } from '../../src/kit/inflight.ts'
import { createLimiter } from '../../src/kit/limiter.ts'
import { withRetry } from '../../src/kit/retry.ts'
import { createRunner } from '../../src/kit/runner.ts'
import { withTimeout } from '../../src/kit/timeout.ts'

/** A promise whose constructor may be asked for `reads` times, and throws from then on. */
function touchy(reads: number): Promise<number> {
  let left = reads
  const get = () => {
    left -= 1
    if (left < 0) throw new Error('do not ask')
    return Promise
  }
  return Object.defineProperty(Promise.resolve(7), 'constructor', { get })
}

/** How a call ends: nothing but its value or a failure will do. */
async function endOf(call: () => Promise<unknown>): Promise<string> {
  try {
    return String(await call())
  } catch (error) {
    return (error as Error).message
  }
}

const ENDS = ['7', 'do not ask']

describe.each([0, 1, 2, 3])(
  'a promise that throws when asked for its constructor %i times',
  (n) => {
    it('B11: ends its own call, with a slot free and from the queue, and frees the slot', async () => {
      for (const concurrency of [1, Number.POSITIVE_INFINITY]) {
        const limit = createLimiter(concurrency)
        const calls = [limit(() => 1), endOf(() => limit(() => touchy(n))), limit(() => 2)]
        const [first, hurt, last] = await Promise.all(calls)
        expect([first, last]).toEqual([1, 2])
        expect(ENDS).toContain(hurt)
        expect(limit.stats()).toMatchObject({ active: 0, waiting: 0 })
      }
    })

    it('B11: ends every other call of the toolkit, too', async () => {
      const again = (attempt: number) => {
        if (attempt === 0) throw Object.assign(new Error('busy'), { status: 503 })
        return touchy(n)
      }
      const limit = createLimiter(2)
      const mapped = async () => {
        for await (const value of limit.map([1], () => touchy(n))) return value
        return undefined
      }
      const run = createRunner({ concurrency: 1 })
      const inflight = createInflight()
      const ends = [
        await endOf(() => withRetry(again, { retries: 1, baseDelay: 0 })),
        await endOf(() => withTimeout(() => touchy(n), 1_000)),
        await endOf(() => inflight('k', () => touchy(n))),
        await endOf(mapped),
        await endOf(async () => (await run('k', () => touchy(n))).result),
      ]
      for (const end of ends) expect(ENDS).toContain(end)
      expect([limit.stats().active, run.stats().active, inflight.size]).toEqual([0, 0, 0])
    })
  },
)

describe('a runner', () => {
  it('B24: that is closed by a rule of its own ends the call, and itself', async () => {
    const run = createRunner({
      concurrency: 1,
      enqueueTimeout: 0,
      retry: {
        retries: 3,
        isRetryable: () => {
          void run.close()
          return true
        },
      },
    })
    const fail = () => {
      throw new Error('no')
    }
    await expect(run('k', fail)).rejects.toMatchObject({ code: 'CLOSED' })
    await run.close()
  })

  it('B11: survives an answer of confirm that throws when it is looked at', async () => {
    const answer = Object.defineProperty({}, 'done', {
      get() {
        throw new Error('do not look')
      },
    })
    const run = createRunner({
      concurrency: 1,
      timeoutMs: 5,
      graceMs: 0,
      retry: { retries: 1, baseDelay: 0 },
      confirm: async () => answer as { done: false },
    })
    await expect(run('k', () => new Promise(() => {}))).rejects.toThrow()
    expect((await run('other', () => 1)).result).toBe(1)
  })
})
