// Owns the promises of the time limit.

import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { createLimiter } from '../../src/kit/limiter.ts'
import { withTimeout } from '../../src/kit/timeout.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'
import { body, listeners, outcome, poisoned, thenable, turn } from './helpers.ts'

const DAY = 86_400_000

describe('a time limit', () => {
  it('passes a result through and leaves no timer behind', async () => {
    const runtime = virtualRuntime(1)
    const work = body<number>()
    const call = withTimeout(work.run, 1000, { runtime })
    expect(runtime.pending()).toBe(1)
    work.end(7)
    expect(await call).toBe(7)
    expect(runtime.pending()).toBe(0)
  })

  it('ends the call at the deadline, whether the body listens or not', async () => {
    const runtime = virtualRuntime(1)
    const work = body<number>()
    let seen: AbortSignal | undefined
    const call = outcome(
      withTimeout(
        (signal) => {
          seen = signal
          return work.run()
        },
        '1s',
        { runtime },
      ),
    )
    await runtime.advance(999)
    expect(seen?.aborted).toBe(false)
    await runtime.advance(1)
    expect(await call).toBe('EXECUTION_TIMEOUT')
    expect(seen?.reason).toMatchObject({
      code: 'EXECUTION_TIMEOUT',
      retryable: true,
      timeoutMs: 1000,
    })
    work.fail(new Error('late, and nobody hears of it'))
    await turn()
  })

  it('B06, C60: is honoured above 2^31-1 ms, and there is none at Infinity', async () => {
    const runtime = virtualRuntime(1)
    const work = body<number>()
    const long = outcome(withTimeout(work.run, '40d', { runtime }))
    const endless = withTimeout(work.run, Number.POSITIVE_INFINITY, { runtime })
    await runtime.advance(40 * DAY - 1)
    expect(runtime.pending()).toBe(1)
    await runtime.advance(1)
    expect(await long).toBe('EXECUTION_TIMEOUT')
    work.end(1)
    expect(await endless).toBe(1)
  })

  it('B07: is not touched by a jump of the wall clock', async () => {
    const runtime = virtualRuntime(1)
    const call = outcome(withTimeout(body().run, 1000, { runtime }))
    runtime.jump(3_600_000)
    await runtime.advance(999)
    expect(runtime.pending()).toBe(1)
    runtime.jump(-7_200_000)
    await runtime.advance(1)
    expect(await call).toBe('EXECUTION_TIMEOUT')
  })

  it('B22: hears the I/O that had arrived by the deadline before it judges', async () => {
    const runtime = virtualRuntime(1)
    const work = body<string>()
    const call = withTimeout(work.run, 1000, { runtime })
    // A blocked event loop: at its next turn the timer fires first, then the I/O is heard.
    runtime.after(1000, () => work.end('answered in time'))
    await runtime.advance(2000)
    expect(await call).toBe('answered in time')
  })

  it('ends with the reason of the caller’s signal, and passes it to the body', async () => {
    const runtime = virtualRuntime(1)
    const controller = new AbortController()
    const options = { runtime, signal: controller.signal }
    let seen: AbortSignal | undefined
    const call = outcome(
      withTimeout(
        (signal) => {
          seen = signal
          return body().run()
        },
        1000,
        options,
      ),
    )
    controller.abort('enough')
    expect(await call).toBe('enough')
    expect(seen?.reason).toBe('enough')
    expect([runtime.pending(), listeners(controller.signal)]).toEqual([0, 0])
    const never = body<number>()
    expect(await outcome(withTimeout(never.run, 1000, options))).toBe('enough')
    expect([never.started(), runtime.pending()]).toEqual([false, 0])
  })

  it('B09, B10, B11: takes throws, plain values and hostile thenables as they come', async () => {
    const runtime = virtualRuntime(1)
    const error = new Error('thrown')
    let asked = 0
    const twice = thenable((resolve, reject) => {
      asked += 1
      resolve('first')
      reject(new Error('second'))
      throw new Error('third')
    })
    const factories: (() => unknown)[] = [
      () => {
        throw error
      },
      () => poisoned(error),
      () => thenable((_, reject) => reject(error)),
      () => twice,
      () => 42,
      () => undefined,
      () => null,
    ]
    const calls = factories.map((factory) => outcome(withTimeout(factory, 1000, { runtime })))
    expect(await Promise.all(calls)).toEqual([error, error, error, 'first', 42, undefined, null])
    expect([asked, runtime.pending()]).toEqual([1, 0])
  })

  it('B12: is invisible to the async context: the body’s listeners see the body’s', async () => {
    const runtime = virtualRuntime(1)
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const listening = (signal: AbortSignal) => {
      signal.addEventListener('abort', () => seen.push(storage.getStore()))
      return body().run()
    }
    const controller = new AbortController()
    const { signal } = controller
    const calls = storage.run('request', () => [
      outcome(withTimeout(listening, 10, { runtime })),
      outcome(withTimeout(listening, 10, { runtime: virtualRuntime(1), signal })),
    ])
    await runtime.advance(10)
    controller.abort('over')
    expect(await Promise.all(calls)).toEqual(['EXECUTION_TIMEOUT', 'over'])
    expect(seen).toEqual(['request', 'request'])
  })

  it('C45, B03: leaves no listener on a signal that outlives 10,000 calls', async () => {
    const warnings: unknown[] = []
    const warned = (warning: unknown) => warnings.push(warning)
    process.on('warning', warned)
    const controller = new AbortController()
    const { signal } = controller
    const limit = createLimiter(4)
    const call = () => {
      return limit(() => withTimeout(async () => 1, 1000, { signal }), { signal })
    }
    for (let i = 0; i < 10_000; i += 1) {
      await call()
      if (listeners(signal) !== 0) throw new Error(`a listener is left after call ${i}`)
    }
    const all = Promise.all(Array.from({ length: 100 }, call))
    // One for the queue of the limiter, one for all time limits.
    expect(listeners(signal)).toBe(2)
    await all
    expect(listeners(signal)).toBe(0)
    await turn()
    process.off('warning', warned)
    expect(warnings).toEqual([])
  })

  it('B06: is refused when it makes no sense, without a call', async () => {
    const work = body<number>()
    const calls = [Number.NaN, -1, 'soon', '5 parsecs', undefined].map((ms) =>
      outcome(withTimeout(work.run, ms as number)),
    )
    calls.push(outcome(withTimeout(work.run, 10, { signla: 1 } as object)))
    calls.push(outcome(withTimeout(undefined as unknown as () => number, 10)))
    expect(await Promise.all(calls)).toEqual(Array(7).fill('INVALID_OPTION'))
    expect(work.started()).toBe(false)
  })
})
