// Owns the promises of retrying: which failures, how long after, and until when.

import { AsyncLocalStorage } from 'node:async_hooks'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AxError, type AxErrorCode, ERROR_CODES } from '../../src/core/errors.ts'
import { createLimiter } from '../../src/kit/limiter.ts'
import { isRetryable, type RetryInfo, withRetry } from '../../src/kit/retry.ts'
import { withTimeout } from '../../src/kit/timeout.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'
import { body, listeners, outcome, turn } from './helpers.ts'

const DAY = 86_400_000

const transient = (more: object = {}) =>
  Object.assign(new Error('again'), { retryable: true, ...more })

/** A task that always fails, and the attempts it was called with. */
function failing(error: unknown = transient()): {
  task: (attempt: number) => never
  seen: number[]
} {
  const seen: number[] = []
  const task = (attempt: number): never => {
    seen.push(attempt)
    throw error
  }
  return { task, seen }
}

/** The waits that `onRetry` was told of while a task failed until it was given up. */
async function delays(options: object, error: unknown = transient(), seed = 1): Promise<number[]> {
  const runtime = virtualRuntime(seed)
  const waits: number[] = []
  const onRetry = ({ delay }: RetryInfo) => waits.push(delay)
  const call = outcome(withRetry(failing(error).task, { ...options, onRetry, runtime }))
  await runtime.run()
  expect(await call).toBe(error)
  return waits
}

describe('a retried call', () => {
  it('calls the task with 0, 1, 2 until it succeeds', async () => {
    const runtime = virtualRuntime(1)
    const seen: number[] = []
    const call = withRetry(
      (attempt) => {
        seen.push(attempt)
        if (attempt < 2) throw transient()
        return 'done'
      },
      { runtime },
    )
    await runtime.run()
    expect(await call).toBe('done')
    expect(seen).toEqual([0, 1, 2])
    expect(runtime.pending()).toBe(0)
  })

  it('ends with the last failure when no attempt is left, three retries by default', async () => {
    const runtime = virtualRuntime(1)
    const errors = [1, 2, 3, 4].map((n) => transient({ n }))
    const call = outcome(withRetry((attempt) => Promise.reject(errors[attempt]), { runtime }))
    await runtime.run()
    expect(await call).toBe(errors[3])
    const none = failing()
    expect(await outcome(withRetry(none.task, { retries: 0, runtime }))).toMatchObject({
      message: 'again',
    })
    expect(none.seen).toEqual([0])
  })

  it('starts the first attempt within the call, and tells of each wait before it', async () => {
    const runtime = virtualRuntime(1)
    const told: RetryInfo[] = []
    const { task, seen } = failing()
    const options = { jitter: false, retries: 2, runtime, onRetry: (i: RetryInfo) => told.push(i) }
    const call = outcome(withRetry(task, options))
    expect(seen).toEqual([0])
    await turn()
    expect(told).toEqual([{ attempt: 0, delay: 200, error: expect.any(Error) }])
    await runtime.advance(199)
    expect(seen).toEqual([0])
    await runtime.advance(1)
    expect(seen).toEqual([0, 1])
    await runtime.run()
    await call
    expect(told.map(({ attempt, delay }) => [attempt, delay])).toEqual([
      [0, 200],
      [1, 400],
    ])
  })

  it('is not changed by a hook that throws, and ends with what a rule throws', async () => {
    const runtime = virtualRuntime(1)
    const bad = () => {
      throw new Error('hook')
    }
    const late = async () => bad()
    for (const onRetry of [bad, late as never]) {
      const call = outcome(withRetry(failing().task, { retries: 1, onRetry, runtime }))
      await runtime.run()
      expect(await call).toMatchObject({ message: 'again' })
    }
    expect(await outcome(withRetry(failing().task, { isRetryable: bad, runtime }))).toMatchObject({
      message: 'hook',
    })
    expect(await outcome(withRetry(failing().task, { jitter: () => -1, runtime }))).toBe(
      'INVALID_OPTION',
    )
  })

  it('B12: shows every attempt, and every hook, the context of the caller', async () => {
    const runtime = virtualRuntime(1)
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const look = () => seen.push(storage.getStore())
    const call = storage.run('request', () =>
      outcome(
        withRetry(
          () => {
            look()
            throw new Error('no')
          },
          { retries: 2, runtime, onRetry: look, isRetryable: () => look() > 0 },
        ),
      ),
    )
    await runtime.run()
    await call
    expect(seen).toEqual(Array(7).fill('request'))
  })

  it('takes plain values, throws and hostile options as they come', async () => {
    expect(await withRetry(() => 42)).toBe(42)
    expect(await withRetry(async () => undefined)).toBe(undefined)
    const wrong = [
      { retries: -1 },
      { retries: 1.5 },
      { baseDelay: -1 },
      { factor: 0.5 },
      { factor: Number.NaN },
      { baseDelay: 100, maxDelay: 50 },
      { jitter: 'full' },
      { isRetryable: true },
      { onRetry: 1 },
      { signal: {} },
      { retry: 3 },
    ]
    for (const options of wrong) {
      const never = body<number>()
      expect(await outcome(withRetry(never.run, options as object))).toBe('INVALID_OPTION')
      expect(never.started()).toBe(false)
    }
    expect(await outcome(withRetry(undefined as never))).toBe('INVALID_OPTION')
  })
})

describe('the wait', () => {
  it('C14, B25: is capped before it can overflow, however many there are', async () => {
    const options = { baseDelay: 300_000, factor: 2, maxDelay: 3_600_000, jitter: false }
    const waits = await delays({ ...options, retries: 1_100 })
    expect(waits.slice(0, 5)).toEqual([300_000, 600_000, 1_200_000, 2_400_000, 3_600_000])
    expect(waits).toHaveLength(1_100)
    expect(waits.slice(4).every((wait) => wait === 3_600_000)).toBe(true)
  })

  it('B25: is capped first and then jittered into [50 %, 100 %], for 10,000 attempts', async () => {
    const waits = await delays({ baseDelay: 100, maxDelay: 1_000, retries: 10_000 })
    const capped = waits.slice(4)
    expect(Math.min(...capped)).toBeGreaterThanOrEqual(500)
    expect(Math.max(...capped)).toBeLessThanOrEqual(1_000)
    expect(new Set(capped).size).toBeGreaterThan(400)
    expect(waits[0]).toBeGreaterThanOrEqual(50)
    expect(waits[0]).toBeLessThanOrEqual(100)
  })

  it('C15: spreads calls that failed together, scales, and depends on the seed alone', async () => {
    const runtime = virtualRuntime(7)
    const once = async (base: number) => {
      const waits: number[] = []
      const onRetry = ({ delay }: RetryInfo) => waits.push(delay)
      const options = { baseDelay: base, maxDelay: base, retries: 1, onRetry, runtime }
      const calls = Array.from({ length: 500 }, () => outcome(withRetry(failing().task, options)))
      await runtime.run()
      await Promise.all(calls)
      return waits
    }
    const waits = await once(10_000)
    expect(waits.every((wait) => wait >= 5_000 && wait <= 10_000)).toBe(true)
    const buckets = new Map<number, number>()
    for (const wait of waits) {
      const bucket = Math.floor(wait / 100)
      buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1)
    }
    expect(Math.max(...buckets.values())).toBeLessThanOrEqual(25)
    expect(new Set(waits).size).toBeGreaterThanOrEqual(400)
    const short = await once(1_000)
    expect(short.every((wait) => wait >= 500 && wait <= 1_000)).toBe(true)
    expect(await delays({}, transient(), 3)).toEqual(await delays({}, transient(), 3))
  })

  it('C15: may be jittered by a function', async () => {
    const seen: number[] = []
    const jitter = (delay: number, random: number) => {
      seen.push(random)
      return delay + 1
    }
    expect(await delays({ jitter, baseDelay: 10, retries: 3 })).toEqual([11, 21, 41])
    expect(seen.every((random) => random >= 0 && random < 1)).toBe(true)
  })

  it('B25: is never shorter than Retry-After, which neither jitter nor cap shortens', async () => {
    const error = transient({ retryAfter: 60_000 })
    expect(await delays({ maxDelay: 5_000, retries: 3 }, error)).toEqual([60_000, 60_000, 60_000])
    expect(await delays({ jitter: () => 0, retries: 1 }, error)).toEqual([60_000])
    const short = transient({ retryAfter: 1 })
    expect(await delays({ jitter: false, retries: 1 }, short)).toEqual([200])
    for (const retryAfter of [-1, Number.NaN, Number.POSITIVE_INFINITY, '60', null]) {
      expect(await delays({ jitter: false, retries: 1 }, transient({ retryAfter }))).toEqual([200])
    }
  })

  it('B06, C60: may be 60 days, on one timer', async () => {
    const runtime = virtualRuntime(1)
    const { task, seen } = failing()
    const options = { baseDelay: '60d', jitter: false, retries: 1, runtime } as const
    const call = outcome(withRetry(task, options))
    await runtime.advance(60 * DAY - 1)
    expect([seen.length, runtime.pending()]).toEqual([1, 1])
    await runtime.advance(1)
    expect(seen.length).toBe(2)
    await call
  })

  it('C16, B24: ends at once when it is called off, and leaves nothing behind', async () => {
    const runtime = virtualRuntime(1)
    const controller = new AbortController()
    const { task, seen } = failing()
    const options = { baseDelay: '10s', runtime, signal: controller.signal } as const
    const call = outcome(withRetry(task, options))
    await runtime.advance(100)
    expect([runtime.pending(), listeners(controller.signal)]).toEqual([1, 1])
    const reason = new Error('R')
    controller.abort(reason)
    expect(await call).toBe(reason)
    expect([runtime.pending(), listeners(controller.signal), seen.length]).toEqual([0, 0, 1])
  })

  it('B24: never begins when the signal is aborted before it, wherever that is', async () => {
    const runtime = virtualRuntime(1)
    const before = body<number>()
    const aborted = AbortSignal.abort('before')
    expect(await outcome(withRetry(before.run, { signal: aborted }))).toBe('before')
    expect(before.started()).toBe(false)
    for (const place of ['task', 'isRetryable', 'jitter', 'onRetry'] as const) {
      const controller = new AbortController()
      const abort = (at: string): number => {
        if (at === place) controller.abort(place)
        return 0
      }
      let calls = 0
      const call = outcome(
        withRetry(
          () => {
            calls += 1
            abort('task')
            throw transient()
          },
          {
            signal: controller.signal,
            runtime,
            isRetryable: () => abort('isRetryable') === 0,
            jitter: (delay) => delay + abort('jitter'),
            onRetry: () => abort('onRetry'),
          },
        ),
      )
      await turn()
      expect(await call).toBe(place)
      expect([calls, runtime.pending(), listeners(controller.signal)]).toEqual([1, 0, 0])
    }
  })

  it('lets an attempt that runs come to its end, and its success counts', async () => {
    const controller = new AbortController()
    const work = body<number>()
    const call = withRetry(work.run, { signal: controller.signal })
    controller.abort('too late')
    work.end(7)
    expect(await call).toBe(7)
  })

  it('C45: leaves no listener on a signal that outlives 10,000 calls', async () => {
    const warnings: unknown[] = []
    const warned = (warning: unknown) => warnings.push(warning)
    process.on('warning', warned)
    const { signal } = new AbortController()
    const runtime = virtualRuntime(1)
    const limit = createLimiter(4)
    const call = (fails: boolean) => {
      const task = (attempt: number) =>
        withTimeout(
          async () => {
            if (fails && attempt === 0) throw transient()
          },
          1000,
          { signal, runtime },
        )
      const options = { signal, runtime, baseDelay: 0 }
      return limit(() => withRetry(task, options), { signal })
    }
    for (let i = 0; i < 10_000; i += 1) {
      await call(false)
      if (listeners(signal) !== 0) throw new Error(`a listener is left after call ${i}`)
    }
    const all = Promise.all(Array.from({ length: 100 }, () => call(true)))
    await turn()
    expect(listeners(signal)).toBeLessThanOrEqual(3)
    await runtime.run()
    await all
    expect([listeners(signal), runtime.pending()]).toEqual([0, 0])
    await turn()
    process.off('warning', warned)
    expect(warnings).toEqual([])
  })
})

describe('the default rule', () => {
  const error = (more: object) => Object.assign(new Error('x'), more)

  it('retries what says so, network errors, and HTTP statuses that pass', () => {
    const codes = ['ECONNRESET', 'ECONNREFUSED', 'ETIMEDOUT', 'EPIPE', 'EAI_AGAIN', 'ENETUNREACH']
    const undici = ['CONNECT_TIMEOUT', 'HEADERS_TIMEOUT', 'BODY_TIMEOUT', 'SOCKET']
    for (const code of [...codes, 'EHOSTUNREACH', ...undici.map((name) => `UND_ERR_${name}`)]) {
      expect([code, isRetryable(error({ code }))]).toEqual([code, true])
    }
    for (const status of [408, 425, 429, 500, 502, 503, 504, 599]) {
      expect(isRetryable(error({ status }))).toBe(true)
      expect(isRetryable(error({ statusCode: status }))).toBe(true)
      expect(isRetryable(error({ response: { status } }))).toBe(true)
    }
    expect(isRetryable({ retryable: true })).toBe(true)
  })

  it('leaves alone what it does not know', () => {
    for (const status of [200, 301, 400, 401, 403, 404, 409, 422, 600, '503', null]) {
      expect(isRetryable(error({ status }))).toBe(false)
    }
    for (const thrown of [undefined, null, 0, 'ECONNRESET', new Error('x'), error({ code: 5 })]) {
      expect(isRetryable(thrown)).toBe(false)
    }
    expect(isRetryable(error({ code: 'ENOENT' }))).toBe(false)
  })

  it('never retries an abort, an overflow, what forbids it, or a programming error', () => {
    const { signal } = new AbortController()
    expect(isRetryable(AbortSignal.abort().reason)).toBe(false)
    expect(isRetryable(error({ name: 'AbortError', retryable: true }))).toBe(false)
    expect(isRetryable(error({ code: 'ABORT_ERR', status: 503 }))).toBe(false)
    expect(isRetryable(new AxError('QUEUE_OVERFLOW', 'full'))).toBe(false)
    expect(isRetryable(error({ retryable: false, code: 'ECONNRESET' }))).toBe(false)
    for (const Bug of [TypeError, ReferenceError, SyntaxError, RangeError]) {
      expect(isRetryable(new Bug('x'))).toBe(false)
    }
    expect(signal.aborted).toBe(false)
  })

  it('looks at causes: `fetch failed` is as transient as what it failed for', () => {
    const fetchFailed = (cause: unknown) => new TypeError('fetch failed', { cause })
    expect(isRetryable(fetchFailed(error({ code: 'ECONNREFUSED' })))).toBe(true)
    expect(isRetryable(fetchFailed(error({ code: 'UND_ERR_SOCKET' })))).toBe(true)
    expect(isRetryable(fetchFailed(error({ code: 'ERR_INVALID_URL' })))).toBe(false)
    expect(isRetryable(fetchFailed(undefined))).toBe(false)
    const wrapped = new Error('query', {
      cause: new Error('pool', { cause: error({ status: 503 }) }),
    })
    expect(isRetryable(wrapped)).toBe(true)
    expect(isRetryable(new Error('query', { cause: AbortSignal.abort().reason }))).toBe(false)
  })

  it('follows the table of ax’s own codes', () => {
    for (const code of Object.keys(ERROR_CODES) as AxErrorCode[]) {
      const expected = ERROR_CODES[code] && code !== 'QUEUE_OVERFLOW'
      expect([code, isRetryable(new AxError(code, 'x'))]).toEqual([code, expected])
    }
  })

  it('never throws, whatever it looks at, and comes to an end', () => {
    const ring = error({})
    Object.assign(ring, { cause: ring })
    expect(isRetryable(ring)).toBe(false)
    const hostile = new Proxy(
      {},
      {
        get() {
          throw new Error('no')
        },
      },
    )
    expect(isRetryable(hostile)).toBe(false)
    fc.assert(
      fc.property(
        fc.anything({ withNullPrototype: true }),
        (x) => typeof isRetryable(x) === 'boolean',
      ),
    )
  })
})
