// Owns the promises of the runner about attempts: retries, slots between them, sessions, breaker.

import { describe, expect, it } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import type { RetryInfo } from '../../src/kit/retry.ts'
import { body, outcome, turn } from './helpers.ts'
import { bench, obedient, sleep, stubborn, transient } from './runner-helpers.ts'

const DAY = 86_400_000

/** A task that fails in a transient way until the attempt with that number. */
const until = (good: number) => (context: { attempt: number }) => {
  if (context.attempt < good) throw transient()
  return `attempt ${context.attempt}`
}

const plain = { jitter: false, baseDelay: 100 } as const

describe('retries', () => {
  it('are made only if asked for', async () => {
    const { runner, timeline } = bench()
    expect(await outcome(runner('a', until(2)))).toMatchObject({ message: 'try again' })
    expect(timeline()).toEqual(['a 1 failure HANDLER_FAILED'])
    const usual = bench({ retry: plain })
    const call = outcome(usual.runner('a', until(99)))
    await usual.runtime.run()
    await call
    expect(usual.timeline()).toHaveLength(4)
  })

  it('number attempts from 1, and tell of each wait', async () => {
    const told: RetryInfo[] = []
    const retry = { ...plain, retries: 3, onRetry: (info: RetryInfo) => told.push(info) }
    const { runtime, runner } = bench({ retry })
    const call = runner('a', until(3))
    await runtime.run()
    expect(await call).toMatchObject({ result: 'attempt 3', attempts: 3, ms: 300 })
    expect(told.map(({ attempt, delay }) => [attempt, delay])).toEqual([
      [1, 100],
      [2, 200],
    ])
    expect(runner.stats()).toMatchObject({ retried: 2, succeeded: 1, failed: 0, attempts: 3 })
    expect(runner.stats().effectiveSuccessRate).toBeCloseTo(1 / 3)
  })

  it('hold no slot while they back off, and queue again at the tail of their priority', async () => {
    const { runtime, runner, records } = bench({ retry: { ...plain, retries: 1 } })
    const order: string[] = []
    const call = (key: string, failing: boolean, ms: number, priority = 50) =>
      runner(
        key,
        async ({ attempt }) => {
          order.push(`${key}${attempt}`)
          await sleep(runtime, ms)
          if (failing && attempt === 1) throw transient()
        },
        { priority },
      )
    const calls = [call('a', true, 10), call('b', false, 150), call('c', false, 10)]
    await runtime.advance(20)
    expect(runner.stats()).toMatchObject({ active: 1, waiting: 2 })
    await runtime.run()
    await Promise.all(calls)
    // a is due at 110, while b runs until 160; c was there before.
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2'])
    expect(records.at(-1)).toMatchObject({ key: 'a', attempt: 2, queuedMs: 60 })
  })

  it('an urgent call goes before a retry, and a retry before what is less urgent', async () => {
    const { runtime, runner } = bench({ retry: { ...plain, retries: 1 } })
    const order: string[] = []
    const call = (key: string, priority: number, failing = false) =>
      runner(
        key,
        async ({ attempt }) => {
          order.push(`${key}${attempt}`)
          await sleep(runtime, 100)
          if (failing && attempt === 1) throw transient()
        },
        { priority },
      )
    const calls = [call('a', 50, true), call('b', 50), call('low', 10), call('high', 90)]
    await runtime.run()
    await Promise.all(calls)
    expect(order).toEqual(['a1', 'high1', 'b1', 'a2', 'low1'])
  })

  it('are let into a full queue: overflow is for first attempts', async () => {
    const { runtime, runner } = bench({ maxQueue: 1, retry: { ...plain, retries: 1 } })
    const retried = runner('a', until(2))
    await turn()
    const others = [runner('b', stubborn(runtime, 200, 0)), runner('c', () => 1)]
    expect(await outcome(runner('d', () => 1))).toBe('QUEUE_OVERFLOW')
    await runtime.advance(150)
    expect(runner.stats()).toMatchObject({ active: 1, waiting: 2 })
    await runtime.run()
    expect((await retried).result).toBe('attempt 2')
    await Promise.all(others)
  })

  it('end with ENQUEUE_TIMEOUT when a later attempt waits too long', async () => {
    const { runtime, runner, timeline } = bench({
      enqueueTimeout: 50,
      retry: { ...plain, retries: 1 },
    })
    const call = outcome(runner('a', until(2)))
    await turn()
    const busy = runner('b', stubborn(runtime, 500, 0))
    await runtime.run()
    expect(await call).toBe('ENQUEUE_TIMEOUT')
    await busy
    expect(timeline().slice(0, 2)).toEqual([
      'a 1 failure HANDLER_FAILED',
      'a 2 failure ENQUEUE_TIMEOUT',
    ])
  })

  it('follow the default rule, or one of the call; what a rule throws ends the call', async () => {
    const { runtime, runner } = bench({ concurrency: 9, retry: { ...plain, retries: 1 } })
    let runs = 0
    const failing = (error: unknown) => () => {
      runs += 1
      throw error
    }
    const bug = new TypeError('bug')
    expect(await outcome(runner('bug', failing(bug)))).toBe(bug)
    const full = new AxError('QUEUE_OVERFLOW', 'elsewhere')
    expect(await outcome(runner('full', failing(full)))).toBe('QUEUE_OVERFLOW')
    expect(runs).toBe(2)
    const own = outcome(runner('own', failing(bug), { retry: { isRetryable: () => true } }))
    await runtime.run()
    expect([await own, runs]).toEqual([bug, 4])
    const broken = new Error('rule')
    const rule = () => {
      throw broken
    }
    expect(await outcome(runner('r', failing(bug), { retry: { isRetryable: rule } }))).toBe(broken)
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0 })
  })

  it('of a call are laid over those of the runner', async () => {
    const { runtime, runner, records } = bench({ retry: { ...plain, retries: 5 } })
    const none = outcome(runner('none', until(9), { retry: { retries: 0 } }))
    const some = outcome(runner('some', until(9), { retry: { retries: 2, baseDelay: 1_000 } }))
    await runtime.run()
    await Promise.all([none, some])
    const ends = records.filter(({ key }) => key === 'some').map(({ at }) => at)
    expect(ends.map((at) => at - (ends[0] as number))).toEqual([0, 1_000, 3_000])
    const bare = bench()
    const three = outcome(bare.runner('a', until(9), { retry: { baseDelay: 1 } }))
    await bare.runtime.run()
    await three
    expect(bare.records).toHaveLength(4)
  })

  it('C14, C60: back off for as long as they are told, on one timer', async () => {
    const retry = { baseDelay: '60d', jitter: false, retries: 1 } as const
    const { runtime, runner } = bench({ retry })
    const call = runner('a', until(2))
    await runtime.advance(60 * DAY - 1)
    expect([runner.stats().waiting, runtime.pending()]).toEqual([1, 1])
    await runtime.advance(1)
    expect((await call).attempts).toBe(2)
  })

  it('C14: never overflow, however many there are', async () => {
    const waits: number[] = []
    const onRetry = ({ delay }: RetryInfo) => waits.push(delay)
    const { runtime, runner } = bench({
      retry: {
        retries: 1_100,
        baseDelay: 300_000,
        maxDelay: 3_600_000,
        jitter: false,
        onRetry,
      },
    })
    const call = outcome(runner('a', until(9_999)))
    await runtime.run()
    await call
    expect(waits.slice(0, 5)).toEqual([300_000, 600_000, 1_200_000, 2_400_000, 3_600_000])
    expect([waits.length, new Set(waits.slice(4)).size]).toEqual([1_100, 1])
    expect(runner.stats().attempts).toBe(1_101)
  })

  it('B24: abort ends them at once, wherever they are, and the timeline says so', async () => {
    for (const place of ['backing', 'queued', 'isRetryable', 'onRetry'] as const) {
      const controller = new AbortController()
      const stop = (here: string) => here === place && controller.abort(place)
      const { runtime, runner, timeline } = bench({
        retry: {
          ...plain,
          retries: 5,
          onRetry: () => stop('onRetry'),
          isRetryable: () => {
            stop('isRetryable')
            return true
          },
        },
      })
      let runs = 0
      const call = outcome(
        runner(
          'a',
          () => {
            runs += 1
            throw transient()
          },
          { signal: controller.signal },
        ),
      )
      await runtime.advance(50)
      if (place === 'backing') stop('backing')
      const busy = runner('b', stubborn(runtime, 100, 0))
      await runtime.advance(70)
      if (place === 'queued') stop('queued')
      expect(await call).toBe(place)
      expect(runner.stats()).toMatchObject({ waiting: 0, active: 1, cancelled: 1 })
      await runtime.run()
      await busy
      expect([runs, runtime.pending(), runner.stats().active]).toEqual([1, 0, 0])
      const mine = timeline().filter((line) => line.startsWith('a'))
      expect(mine).toEqual(['a 1 failure HANDLER_FAILED', 'a 2 cancelled CANCELLED'])
    }
  })
})

describe('retries in the slot', () => {
  it('keep it while they back off', async () => {
    const { runtime, runner } = bench({ retry: { ...plain, retries: 1, inSlot: true } })
    const order: string[] = []
    const a = runner('a', ({ attempt }) => {
      order.push(`a${attempt}`)
      return until(2)({ attempt })
    })
    const b = runner('b', () => order.push('b'))
    await runtime.advance(50)
    expect(runner.stats()).toMatchObject({ active: 1, waiting: 1 })
    await runtime.run()
    await Promise.all([a, b])
    expect(order).toEqual(['a1', 'a2', 'b'])
  })

  it('give it up when they are called off, and when nothing is left', async () => {
    const { runtime, runner } = bench({ retry: { ...plain, retries: 1, inSlot: true } })
    const controller = new AbortController()
    const a = outcome(runner('a', until(9), { signal: controller.signal }))
    const b = runner('b', () => 'b')
    await runtime.advance(50)
    controller.abort('enough')
    expect([await a, (await b).result]).toEqual(['enough', 'b'])
    const c = outcome(runner('c', until(9)))
    await runtime.run()
    await c
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0 })
  })

  it('are capped by themselves, and leave the other slots alone', async () => {
    const { runtime, runner } = bench({
      concurrency: 3,
      retry: { ...plain, retries: 1, inSlotConcurrency: 1 },
    })
    const order: string[] = []
    const session = (key: string) =>
      runner(
        key,
        ({ attempt }) => {
          order.push(`${key}${attempt}`)
          return until(2)({ attempt })
        },
        { retry: { inSlot: true } },
      )
    const calls = [session('a'), session('b')]
    const others = ['x', 'y', 'z'].map((key) => runner(key, () => order.push(key)))
    await runtime.advance(10)
    expect(runner.stats()).toMatchObject({ active: 1, waiting: 1 })
    await runtime.run()
    await Promise.all([...calls, ...others])
    expect(order).toEqual(['a1', 'x', 'y', 'z', 'a2', 'b1', 'b2'])
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0, succeeded: 5 })
  })

  it('a session ends with its body, also when its call has ended before', async () => {
    const { runtime, runner } = bench({
      concurrency: 3,
      timeoutMs: 100,
      retry: { ...plain, retries: 0, inSlot: true, inSlotConcurrency: 1 },
    })
    const a = outcome(runner('a', stubborn(runtime, 300, 'a')))
    const b = runner('b', () => runtime.monotonic())
    await runtime.run()
    expect([await a, (await b).result]).toEqual(['EXECUTION_TIMEOUT', 300])
  })

  it('a session that waits for its place can be called off, time out, and be closed', async () => {
    const { runtime, runner } = bench({
      concurrency: 3,
      enqueueTimeout: 100,
      retry: { ...plain, retries: 1, inSlot: true, inSlotConcurrency: 1 },
    })
    const a = runner('a', stubborn(runtime, 500, 'a'))
    const controller = new AbortController()
    const b = outcome(runner('b', () => 1, { signal: controller.signal }))
    const c = outcome(runner('c', () => 1))
    controller.abort('b leaves')
    expect(await b).toBe('b leaves')
    await runtime.advance(100)
    expect(await c).toBe('ENQUEUE_TIMEOUT')
    const d = outcome(runner('d', () => 1))
    const closing = runner.close()
    expect(await d).toBe('CLOSED')
    await runtime.run()
    await runtime.advance(0)
    await closing
    expect((await a).result).toBe('a')
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0 })
  })
})

describe('the breaker', () => {
  const down = () => {
    throw transient({ code: 'ECONNREFUSED' })
  }

  it('opens on lasting failure, and says when to come back', async () => {
    const { runtime, runner, timeline } = bench({ breaker: { failures: 2, resetMs: 1_000 } })
    await outcome(runner('a', down))
    await outcome(runner('b', down))
    const work = body<number>()
    const error = await runner('c', work.run).catch((e: unknown) => e)
    expect(error).toMatchObject({ code: 'BREAKER_OPEN', retryable: true, retryAfter: 1_000 })
    expect([work.started(), timeline().at(-1)]).toEqual([false, 'c 1 failure BREAKER_OPEN'])
    await runtime.advance(400)
    expect(await runner('c', work.run).catch((e: unknown) => e)).toMatchObject({ retryAfter: 600 })
    expect(runner.stats()).toMatchObject({ failed: 4, active: 0, codes: { BREAKER_OPEN: 2 } })
  })

  it('lets one probe through, and all when it succeeds', async () => {
    const { runtime, runner } = bench({
      concurrency: 5,
      breaker: { failures: 1, resetMs: 1_000 },
    })
    await outcome(runner('a', down))
    await runtime.advance(1_000)
    const probe = runner('probe', stubborn(runtime, 100, 'up'))
    expect(await outcome(runner('b', () => 1))).toBe('BREAKER_OPEN')
    await runtime.run()
    expect((await probe).result).toBe('up')
    expect((await runner('c', () => 2)).result).toBe(2)
  })

  it('ends calls that wait, one after another, when it opens meanwhile', async () => {
    const { runner } = bench({ breaker: { failures: 1 } })
    const work = body<number>()
    const first = outcome(runner('a', work.run))
    const others = Array.from({ length: 100 }, (_, i) => outcome(runner(`k${i}`, () => i)))
    work.fail(transient())
    await first
    expect(new Set(await Promise.all(others))).toEqual(new Set(['BREAKER_OPEN']))
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0, failed: 101 })
  })

  it('ends a call between its attempts', async () => {
    const { runtime, runner } = bench({
      breaker: { failures: 2, resetMs: 60_000 },
      retry: { ...plain, retries: 5 },
    })
    const call = outcome(runner('a', down))
    await runtime.run()
    expect(await call).toBe('BREAKER_OPEN')
    expect(runner.stats()).toMatchObject({ attempts: 2, active: 0, waiting: 0 })
  })

  it('does not count what is wrong with the call, and counts timeouts', async () => {
    const { runtime, runner } = bench({
      breaker: { failures: 2 },
      timeoutMs: 10,
      concurrency: 5,
    })
    const bug = () => {
      throw new TypeError('bug')
    }
    const wrong = () => {
      throw Object.assign(new Error('no'), { status: 400 })
    }
    for (const [key, task] of Object.entries({ a: bug, b: wrong, c: bug })) {
      await outcome(runner(key, task))
    }
    expect((await runner('d', () => 1)).result).toBe(1)
    const slow = ['e', 'f'].map((key) => outcome(runner(key, obedient(runtime, 100, 0))))
    await runtime.run()
    expect(await Promise.all(slow)).toEqual(['EXECUTION_TIMEOUT', 'EXECUTION_TIMEOUT'])
    expect(await outcome(runner('g', () => 1))).toBe('BREAKER_OPEN')
  })

  it('makes the next call the probe when the first is called off', async () => {
    const { runtime, runner } = bench({ breaker: { failures: 1, resetMs: 1_000 } })
    await outcome(runner('a', down))
    await runtime.advance(1_000)
    const controller = new AbortController()
    const probe = outcome(runner('probe', obedient(runtime, 100, 0), { signal: controller.signal }))
    controller.abort('off')
    expect(await probe).toBe('off')
    await turn()
    expect((await runner('b', () => 'up')).result).toBe('up')
  })
})
