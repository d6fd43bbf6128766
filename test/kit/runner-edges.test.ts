// Owns the promises of the runner about what ends early: retries under a signal of their own, a
// probe whose call is cancelled, an attempt that a confirmation makes needless.

import { channel } from 'node:diagnostics_channel'
import { describe, expect, it } from 'vitest'
import type { AttemptRecord, RunnerOptions } from '../../src/kit/runner.ts'
import { body, listeners, outcome } from './helpers.ts'
import { type Bench, bench, obedient, stubborn, transient } from './runner-helpers.ts'

const plain = { jitter: false, baseDelay: 100, retries: 3 } as const

/** Fails in a transient way, whatever the attempt. */
const down = () => {
  throw transient({ code: 'ECONNREFUSED' })
}

describe('the signal of retry', () => {
  const ending = () => {
    const controller = new AbortController()
    return { controller, retry: { ...plain, signal: controller.signal } }
  }

  it('ends a call that backs off, at once, with its reason, and those who have joined it', async () => {
    const { controller, retry } = ending()
    const { runtime, runner, timeline } = bench({ retry })
    const calls = [outcome(runner('k', down)), outcome(runner('k', down))]
    await runtime.advance(50)
    expect(listeners(controller.signal)).toBe(1)
    controller.abort('shutting down')
    expect(await Promise.all(calls)).toEqual(['shutting down', 'shutting down'])
    await runtime.run()
    expect(timeline()).toEqual([
      'k 1 failure ECONNREFUSED',
      'k 0 deduplicated',
      'k 2 cancelled CANCELLED',
    ])
    expect(runner.stats()).toMatchObject({ attempts: 1, cancelled: 1, waiting: 0, active: 0 })
    expect(listeners(controller.signal)).toBe(0)
  })

  it('ends a call that is queued for its next attempt, and one that backs off in its slot', async () => {
    const { controller, retry } = ending()
    const { runtime, runner } = bench({ retry })
    const queued = outcome(runner('k', down))
    const blocker = runner('other', stubborn(runtime, 1_000, 'done'))
    await runtime.advance(500)
    expect(runner.stats()).toMatchObject({ active: 1, waiting: 1 })
    controller.abort('off')
    expect(await queued).toBe('off')
    await runtime.run()
    expect((await blocker).result).toBe('done')
    const other = ending()
    const session = bench({ retry: { ...other.retry, inSlot: true, inSlotConcurrency: 1 } })
    const holding = outcome(session.runner('k', down))
    await session.runtime.advance(50)
    expect(session.runner.stats().active).toBe(1)
    other.controller.abort('off')
    expect([await holding, session.runner.stats().active]).toEqual(['off', 0])
    expect((await session.runner('next', () => 1)).result).toBe(1)
  })

  it('interrupts no attempt: a success counts, a failure is not followed by another', async () => {
    for (const failing of [false, true]) {
      const { controller, retry } = ending()
      const { runtime, runner, timeline } = bench({ retry })
      const work = body<string>()
      const call = outcome(runner('k', work.run))
      controller.abort('off')
      if (failing) work.fail(transient({ code: 'ECONNREFUSED' }))
      else work.end('done')
      expect(await call).toEqual(
        failing ? 'off' : { result: 'done', ms: 0, attempts: 1, deduplicated: false },
      )
      await runtime.run()
      expect(timeline()).toEqual([failing ? 'k 1 failure ECONNREFUSED' : 'k 1 success'])
      expect(runner.stats()).toMatchObject({ cancelled: failing ? 1 : 0, succeeded: +!failing })
    }
  })

  it('leaves a failure that no attempt would have followed as it is', async () => {
    const { controller, retry } = ending()
    const { runner } = bench({ retry })
    controller.abort('off')
    const bug = () => {
      throw new RangeError('a bug')
    }
    expect(await outcome(runner('k', bug))).toEqual(new RangeError('a bug'))
    expect(await outcome(runner('k', down, { retry: { retries: 0 } }))).toMatchObject({
      code: 'ECONNREFUSED',
    })
    expect((await runner('k', () => 'first attempts are made')).attempts).toBe(1)
  })

  it('of a call stands in for that of its runner', async () => {
    const all = ending()
    const one = ending()
    const { runtime, runner } = bench({ concurrency: 2, retry: all.retry })
    const calls = [
      outcome(runner('a', down)),
      outcome(runner('b', down, { retry: { signal: one.controller.signal } })),
    ]
    await runtime.advance(50)
    all.controller.abort('all')
    expect(await calls[0]).toBe('all')
    expect(runner.stats().waiting).toBe(1)
    one.controller.abort('one')
    expect(await calls[1]).toBe('one')
  })

  it('does not hide that nobody knows the outcome', async () => {
    const { controller, retry } = ending()
    const { runtime, runner } = bench({ retry, timeoutMs: 10 })
    const call = outcome(runner('pay', obedient(runtime, 1_000, 0)))
    controller.abort('off')
    await runtime.run()
    expect(await call).toBe('OUTCOME_UNKNOWN')
  })

  it('that is aborted by a rule of the caller ends the call', async () => {
    const { controller, retry } = ending()
    const isRetryable = () => {
      controller.abort('enough')
      return true
    }
    const { runner } = bench({ retry: { ...retry, isRetryable } })
    expect(await outcome(runner('k', down))).toBe('enough')
  })
})

describe('a probe of the breaker whose call is cancelled', () => {
  const probing = async (more: Partial<RunnerOptions> = {}) => {
    const it = bench({
      concurrency: 5,
      breaker: { failures: 1, resetMs: 1_000 },
      graceMs: Number.POSITIVE_INFINITY,
      ...more,
    })
    await outcome(it.runner('a', down))
    await it.runtime.advance(1_000)
    return it
  }

  const cancelled = async ({ runner }: Bench, task: () => Promise<unknown>) => {
    const controller = new AbortController()
    const probe = outcome(runner('probe', task, { signal: controller.signal }))
    expect(await outcome(runner('b', () => 1))).toBe('BREAKER_OPEN')
    controller.abort('off')
    expect(await probe).toBe('off')
  }

  it('leaves its place to the next call, however long its body lives', async () => {
    const world = await probing()
    const { runtime, runner } = world
    await cancelled(world, stubborn(runtime, 60_000, 'late'))
    const next = body<string>()
    const probe = runner('c', next.run)
    expect(next.started()).toBe(true)
    // There is one probe at a time all the same.
    expect(await outcome(runner('d', () => 1))).toBe('BREAKER_OPEN')
    next.end('up')
    expect((await probe).result).toBe('up')
    expect((await runner('e', () => 'open')).result).toBe('open')
    await runtime.run()
    expect(runner.stats()).toMatchObject({ active: 0, stopping: 0 })
  })

  it('says nothing about the downstream afterwards, whatever its body does', async () => {
    const late = [() => 'late', () => Promise.reject(transient({ code: 'ECONNREFUSED' }))]
    for (const end of late) {
      const world = await probing()
      const { runtime, runner } = world
      await cancelled(world, () => stubborn(runtime, 500, 0)().then(end))
      const next = body<string>()
      const probe = outcome(runner('c', next.run))
      await runtime.run()
      // The body of the first probe has ended by now; the second one is still the probe.
      expect(await outcome(runner('d', () => 1))).toBe('BREAKER_OPEN')
      next.fail(transient())
      await probe
      expect(await outcome(runner('e', () => 1))).toBe('BREAKER_OPEN')
      await runtime.advance(1_000)
      expect((await runner('f', () => 'up')).result).toBe('up')
    }
  })

  it('that ran out of time opens it anew, at the deadline', async () => {
    const { runtime, runner } = await probing({ timeoutMs: 100 })
    const probe = outcome(runner('probe', stubborn(runtime, 60_000, 'late')))
    await runtime.advance(100)
    expect(await probe).toBe('EXECUTION_TIMEOUT')
    const error = await runner('c', () => 1).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'BREAKER_OPEN', retryAfter: 1_000 })
  })
})

describe('a confirmed call', () => {
  interface Line {
    readonly level: string
    readonly fields: object
    readonly message: string
  }

  /** What each of those who watch was told. */
  const watched = async (more: Partial<RunnerOptions>, play: (it: Bench) => Promise<void>) => {
    const published: AttemptRecord[] = []
    const lines: Line[] = []
    const log = (level: string) => (fields: object, message?: string) => {
      lines.push({ level, fields, message: message ?? '' })
    }
    const logger = { info: log('info'), warn: log('warn'), error: log('error') }
    const it = bench({ timeoutMs: 100, logger, ...more })
    const subscriber = (record: unknown) => published.push(record as AttemptRecord)
    channel('ax:attempt').subscribe(subscriber)
    await play(it)
    channel('ax:attempt').unsubscribe(subscriber)
    expect(published).toEqual(it.records)
    const attempts = lines.filter(({ fields }) => 'outcome' in fields)
    expect(attempts.map(({ fields }) => fields)).toEqual(it.records)
    const { runner, records } = it
    const stats = runner.stats()
    // What the figures and the timeline say is the same.
    expect(stats.attempts).toBe(records.filter(({ callMs }) => callMs > 0).length)
    expect(stats.retried).toBe(records.filter((it) => it.attempt > 1 && it.callMs > 0).length)
    expect(stats.deduplicated).toBe(records.filter(({ attempt }) => attempt === 0).length)
    const { calls, succeeded, failed, cancelled, deduplicated, active, stopping, waiting } = stats
    const ended = succeeded + failed + cancelled + deduplicated
    expect(calls).toBe(waiting + active - stopping + ended)
    return { ...it, lines }
  }

  it('that did the work itself has the records of what was started, and a line in the log', async () => {
    const confirm = () => ({ done: true, result: 'receipt' }) as const
    const { runner, timeline, lines } = await watched(
      { retry: plain, confirm },
      async ({ runtime, runner }) => {
        const call = runner('pay', obedient(runtime, 1_000, 0))
        await runtime.run()
        expect(await call).toMatchObject({ result: 'receipt', attempts: 1, deduplicated: false })
      },
    )
    expect(timeline()).toEqual(['pay 1 timeout EXECUTION_TIMEOUT'])
    expect(runner.stats()).toMatchObject({
      succeeded: 1,
      deduplicated: 0,
      codes: {
        EXECUTION_TIMEOUT: 1,
      },
    })
    expect(lines.at(-1)).toEqual({
      level: 'info',
      fields: { key: 'pay', attempts: 1 },
      message: 'pay has taken effect: confirmed',
    })
  })

  it('that finds the work of an earlier call is deduplicated, with the wait that it had', async () => {
    const { runner, records } = await watched(
      {
        concurrency: 1,
        remember: { ms: '1m' },
        confirm: () => ({ done: true, result: 'receipt' }),
      },
      async ({ runtime, runner }) => {
        const first = outcome(runner('pay', obedient(runtime, 1_000, 0)))
        await runtime.run()
        expect(await first).toBe('EXECUTION_TIMEOUT')
        const blocker = runner('other', stubborn(runtime, 30, 0))
        const second = runner('pay', () => 'sent again')
        await runtime.run()
        await blocker
        expect(await second).toEqual({
          result: 'receipt',
          ms: 30,
          attempts: 0,
          deduplicated: true,
        })
      },
    )
    expect(records.at(-1)).toMatchObject({
      key: 'pay',
      attempt: 0,
      queuedMs: 30,
      callMs: 0,
      outcome: 'deduplicated',
    })
    expect(runner.stats()).toMatchObject({ calls: 3, succeeded: 1, failed: 1, deduplicated: 1 })
  })

  it('whose answer comes too late has a question that was cancelled, or ran out of time', async () => {
    const slow = (runtime: Bench['runtime']) => () =>
      stubborn(runtime, 150, { done: true, result: 'receipt' } as const)()
    for (const isCancelled of [true, false]) {
      const controller = new AbortController()
      let ask: () => Promise<{ done: true; result: string }> = async () => ({
        done: true,
        result: '',
      })
      const { runner, timeline } = await watched(
        { retry: { ...plain, retries: 1 }, remember: { ms: '1m' }, confirm: () => ask() },
        async ({ runtime, runner }) => {
          ask = slow(runtime)
          const options = { signal: controller.signal }
          const call = outcome(runner('pay', obedient(runtime, 1_000, 0), options))
          await runtime.advance(250)
          if (isCancelled) controller.abort('off')
          await runtime.run()
          expect(await call).toBe(isCancelled ? 'off' : 'OUTCOME_UNKNOWN')
          // It is the truth all the same, and remembered.
          expect((await runner('pay', () => 'sent again')).result).toBe('receipt')
        },
      )
      const second = isCancelled ? 'cancelled CANCELLED' : 'timeout EXECUTION_TIMEOUT'
      expect(timeline()).toEqual([
        'pay 1 timeout EXECUTION_TIMEOUT',
        `pay 2 ${second}`,
        'pay 0 deduplicated',
      ])
      expect(runner.stats()).toMatchObject({ attempts: 2, retried: 1, deduplicated: 1 })
    }
  })
})
