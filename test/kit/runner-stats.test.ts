// Owns the promises of the runner about its figures, and about finding its own concurrency.

import { describe, expect, it } from 'vitest'
import { createRunner } from '../../src/kit/runner.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'
import { outcome } from './helpers.ts'
import { bench, obedient, sleep, stubborn, transient } from './runner-helpers.ts'

describe('figures', () => {
  it('are all zero at rest', () => {
    const none = { count: 0, p50: 0, p95: 0, p99: 0, max: 0 }
    expect(bench({ concurrency: 7 }).runner.stats()).toEqual({
      calls: 0,
      active: 0,
      stopping: 0,
      waiting: 0,
      zombies: 0,
      succeeded: 0,
      failed: 0,
      cancelled: 0,
      deduplicated: 0,
      attempts: 0,
      retried: 0,
      codes: {},
      latency: none,
      queueWait: none,
      call: none,
      effectiveSuccessRate: 1,
      throughput: 0,
      concurrency: 7,
    })
  })

  it('tell waiting, running and completion apart', async () => {
    const { runtime, runner } = bench()
    const calls = Array.from({ length: 10 }, (_, i) => runner(`k${i}`, stubborn(runtime, 100, i)))
    await runtime.run()
    await Promise.all(calls)
    const { queueWait, call, latency } = runner.stats()
    expect([queueWait.count, call.count, latency.count]).toEqual([10, 10, 10])
    expect([queueWait.max, call.max, latency.max]).toEqual([900, 100, 1_000])
    const near = (value: number, exact: number) => Math.abs(value / exact - 1) <= 0.03
    expect(near(call.p50, 100) && near(latency.p50, 500) && near(queueWait.p50, 400)).toBe(true)
    expect(near(latency.p99, 1_000)).toBe(true)
  })

  it('count failures by code: each attempt, and what ended without one', async () => {
    const { runtime, runner } = bench({
      maxQueue: 1,
      timeoutMs: 50,
      retry: { retries: 2, jitter: false, baseDelay: 10 },
    })
    const failing = outcome(runner('a', () => Promise.reject(transient({ code: 'ECONNRESET' }))))
    await runtime.run()
    await failing
    const slow = outcome(runner('b', obedient(runtime, 100, 0), { retry: { retries: 0 } }))
    const others = [outcome(runner('c', () => 1)), outcome(runner('d', () => 1))]
    await runtime.run()
    await Promise.all([slow, ...others])
    const stats = runner.stats()
    expect(stats.codes).toEqual({ ECONNRESET: 3, EXECUTION_TIMEOUT: 1, QUEUE_OVERFLOW: 1 })
    expect(stats).toMatchObject({ calls: 4, succeeded: 1, failed: 3, attempts: 5, retried: 2 })
    expect(stats.effectiveSuccessRate).toBeCloseTo(1 / 5)
  })

  it('B30: are kept in fixed memory: a hundred codes, then other; no key leaves a trace', async () => {
    const { runner } = bench({ concurrency: 50 })
    for (let i = 0; i < 3_000; i += 1) {
      await outcome(runner(`k${i}`, () => Promise.reject(transient({ code: `E${i}` }))))
    }
    const { codes } = runner.stats()
    expect([Object.keys(codes).length, codes.E0, codes.other]).toEqual([101, 1, 2_900])
  })

  it('know the throughput of the last ten seconds', async () => {
    const { runtime, runner } = bench()
    for (let i = 0; i < 200; i += 1) {
      const call = runner(`k${i}`, stubborn(runtime, 100, i))
      await runtime.run()
      await call
    }
    expect(Math.abs(runner.stats().throughput - 10)).toBeLessThan(0.6)
    await runtime.advance(60_000)
    expect(runner.stats().throughput).toBe(0)
  })
})

describe('a runner that finds its own concurrency', () => {
  const downstream = (knee: number) => {
    const runtime = virtualRuntime(3)
    let inFlight = 0
    const serve = async () => {
      inFlight += 1
      const load = inFlight / knee
      try {
        if (load > 1.5) {
          await sleep(runtime, 5)
          throw Object.assign(new Error('too much'), { status: 503 })
        }
        await sleep(runtime, 50 * Math.max(1, load))
      } finally {
        inFlight -= 1
      }
    }
    return { runtime, serve }
  }

  it.each([5, 20])('settles within 20 %% of the knee at %i', async (knee) => {
    const { runtime, serve } = downstream(knee)
    const concurrency = { min: 1, max: 100 }
    const runner = createRunner({ concurrency, runtime, enqueueTimeout: 0, maxQueue: 1e6 })
    let calls = 0
    const again = () => {
      calls += 1
      const next = () => {
        if (runtime.monotonic() < 40_000) again()
      }
      runner(`k${calls}`, serve).then(next, next)
    }
    for (let i = 0; i < 150; i += 1) again()
    const limits: number[] = []
    const look = () => {
      limits.push(runner.concurrency)
      if (runtime.monotonic() < 40_000) runtime.after(50, look)
    }
    look()
    await runtime.run()
    const settled = limits.slice(-300)
    const mean = settled.reduce((a, b) => a + b, 0) / settled.length
    expect(Math.abs(mean / knee - 1)).toBeLessThanOrEqual(0.2)
    expect(runner.stats().concurrency).toBe(runner.concurrency)
  })

  it('does not climb while it has next to nothing to do', async () => {
    const { runtime, serve } = downstream(50)
    const runner = createRunner({ concurrency: { min: 1, max: 100, initial: 10 }, runtime })
    for (let i = 0; i < 500; i += 1) {
      const call = runner(`k${i}`, serve)
      await runtime.run()
      await call
    }
    expect(runner.concurrency).toBe(10)
  })

  it('falls when bodies time out, at the deadline', async () => {
    const { runtime, runner } = bench({
      concurrency: { min: 1, max: 100, initial: 10 },
      timeoutMs: 100,
      graceMs: '1h',
    })
    const call = outcome(runner('k', stubborn(runtime, 1e6, 0)))
    await runtime.advance(100)
    expect([await call, runner.concurrency]).toEqual(['EXECUTION_TIMEOUT', 8])
  })

  it('can be moved by hand, within its bounds, and serves at once', () => {
    const { runner } = bench({ concurrency: { min: 1, max: 10, initial: 2 } })
    for (let i = 0; i < 20; i += 1) runner(`k${i}`, () => new Promise(() => {}))
    runner.concurrency = 50
    expect(runner.stats()).toMatchObject({ concurrency: 10, active: 10, waiting: 10 })
  })
})
