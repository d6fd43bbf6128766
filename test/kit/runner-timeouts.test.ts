// Owns the promises of the runner about time: timeouts, grace, and unknown outcomes.

import { describe, expect, it } from 'vitest'
import { isAxError } from '../../src/core/errors.ts'
import { body, outcome } from './helpers.ts'
import { bench, obedient, sleep, stubborn, transient } from './runner-helpers.ts'

const DAY = 86_400_000
const plain = { jitter: false, baseDelay: 100 } as const

describe('a timeout', () => {
  it('aborts the body and ends the call at the deadline, whatever the body does', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100 })
    const call = runner('k', stubborn(runtime, 1_000, 1)).catch((error: unknown) => error)
    await runtime.advance(99)
    expect(runner.stats().failed).toBe(0)
    await runtime.advance(1)
    expect(await call).toMatchObject({ code: 'EXECUTION_TIMEOUT', key: 'k', timeoutMs: 100 })
    expect(runner.stats()).toMatchObject({
      failed: 1,
      active: 1,
      stopping: 1,
      codes: { EXECUTION_TIMEOUT: 1 },
    })
  })

  it('C23: is counted from the start of the attempt, each time anew', async () => {
    const { runtime, runner, records } = bench({
      timeoutMs: 180_000,
      enqueueTimeout: 0,
      retry: { ...plain, retries: 1 },
    })
    const blocker = runner('b', stubborn(runtime, 600_000, 0), { timeoutMs: 0 })
    const j = runner('j', stubborn(runtime, 1_000, 'j'))
    const variant = runner('v', async ({ attempt }) => {
      await sleep(runtime, 170_000)
      if (attempt === 1) throw transient()
      return 'v'
    })
    await runtime.run()
    await blocker
    expect(await j).toMatchObject({ result: 'j', attempts: 1 })
    expect(records.find(({ key }) => key === 'j')?.queuedMs).toBe(600_000)
    expect(await variant).toMatchObject({ result: 'v', attempts: 2 })
  })

  it('B06, C60: may be 40 days, on few timers', async () => {
    const { runtime, runner } = bench({ timeoutMs: '40d' })
    const call = outcome(runner('k', body().run))
    await runtime.advance(40 * DAY - 1)
    expect(runtime.pending()).toBe(1)
    await runtime.advance(1)
    expect(await call).toBe('EXECUTION_TIMEOUT')
  })

  it('B22: hears what had arrived by the deadline before it judges', async () => {
    const { runtime, runner } = bench({ timeoutMs: 1_000 })
    const work = body<string>()
    const call = runner('k', work.run)
    // A blocked event loop: at its next turn the timer fires first, then the I/O is heard.
    runtime.after(1_000, () => work.end('in time'))
    await runtime.advance(2_000)
    expect((await call).result).toBe('in time')
    expect(runner.stats()).toMatchObject({ succeeded: 1, failed: 0 })
  })

  it('leaves no timer behind', async () => {
    const { runtime, runner } = bench({ timeoutMs: 1_000, concurrency: 3 })
    const works = [body<number>(), body<number>(), body<number>()]
    const calls = works.map((work, i) => runner(`k${i}`, work.run))
    expect(runtime.pending()).toBe(1)
    for (const work of works) work.end(1)
    await Promise.all(calls)
    expect(runtime.pending()).toBe(0)
  })

  it('holds the slot until the body has settled: no two bodies in one slot', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100 })
    const order: string[] = []
    const first = outcome(
      runner('a', async () => {
        await sleep(runtime, 300)
        order.push('a ended')
      }),
    )
    const second = runner('b', () => order.push('b began'))
    await runtime.advance(150)
    expect([await first, order]).toEqual(['EXECUTION_TIMEOUT', []])
    await runtime.run()
    await second
    expect(order).toEqual(['a ended', 'b began'])
  })

  it('is forgotten if the body succeeds in its grace and the call has attempts left', async () => {
    const { runtime, runner, timeline } = bench({
      timeoutMs: 100,
      idempotent: true,
      retry: { ...plain, retries: 3 },
    })
    const call = runner('k', stubborn(runtime, 300, 'the truth'))
    await runtime.run()
    expect(await call).toMatchObject({ result: 'the truth', attempts: 1, ms: 300 })
    expect(timeline()).toEqual(['k 1 success'])
    expect(runner.stats()).toMatchObject({ succeeded: 1, failed: 0, active: 0, zombies: 0 })
  })

  it('whose error comes in its grace is a timeout all the same', async () => {
    const { runtime, runner, timeline } = bench({
      timeoutMs: 100,
      idempotent: true,
      retry: { ...plain, retries: 1 },
    })
    const call = outcome(
      runner('k', async ({ attempt }) => {
        await sleep(runtime, 150)
        throw new Error(`body ${attempt}`)
      }),
    )
    await runtime.run()
    expect(await call).toBe('EXECUTION_TIMEOUT')
    expect(timeline()).toEqual(['k 1 timeout EXECUTION_TIMEOUT', 'k 2 timeout EXECUTION_TIMEOUT'])
  })
})

describe('after a timeout the outcome is unknown', () => {
  const retry = { ...plain, retries: 2 }

  it('and the call ends there if nobody says that it may go on', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100, retry })
    let runs = 0
    const call = runner('pay', (context) => {
      runs += 1
      return obedient(runtime, 1_000, 0)(context)
    }).catch((error: unknown) => error)
    await runtime.run()
    expect(await call).toMatchObject({ code: 'OUTCOME_UNKNOWN', key: 'pay', retryable: false })
    expect(isAxError(((await call) as Error).cause, 'EXECUTION_TIMEOUT')).toBe(true)
    expect([runs, runner.stats().codes]).toEqual([1, { EXECUTION_TIMEOUT: 1, OUTCOME_UNKNOWN: 1 }])
  })

  it('unless the body succeeds in its grace', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100, retry })
    const call = runner('pay', stubborn(runtime, 200, 'paid'))
    await runtime.run()
    expect((await call).result).toBe('paid')
  })

  it('an idempotent task is tried again, when the body has settled', async () => {
    const { runtime, runner, records } = bench({ timeoutMs: 100, retry })
    const starts: number[] = []
    const task = async ({ attempt }: { attempt: number }) => {
      starts.push(runtime.monotonic())
      await sleep(runtime, attempt === 1 ? 400 : 10)
      if (attempt === 1) throw new Error('late')
      return attempt
    }
    const call = runner('get', task, { idempotent: true })
    await runtime.run()
    expect((await call).result).toBe(2)
    expect(starts).toEqual([0, 500])
    expect(records[0]).toMatchObject({ outcome: 'timeout', callMs: 400 })
  })

  it('confirm is asked in the slot of the next attempt: done, and nothing is sent again', async () => {
    const asked: unknown[] = []
    const { runtime, runner, timeline } = bench({
      timeoutMs: 100,
      retry,
      confirm: async ({ key, signal }) => {
        asked.push([key, signal.aborted, runtime.monotonic(), runner.stats().active])
        await sleep(runtime, 5)
        return { done: true, result: 'receipt' }
      },
    })
    let runs = 0
    const call = runner('pay', (context) => {
      runs += 1
      return obedient(runtime, 1_000, 0)(context)
    })
    await runtime.run()
    expect(await call).toEqual({ result: 'receipt', ms: 205, attempts: 1, deduplicated: false })
    expect([runs, asked]).toEqual([1, [['pay', false, 200, 1]]])
    // No second body was started, so there is no second record.
    expect(timeline()).toEqual(['pay 1 timeout EXECUTION_TIMEOUT'])
    expect(runner.stats()).toMatchObject({ succeeded: 1, attempts: 1, retried: 0, active: 0 })
    expect(runner.stats().effectiveSuccessRate).toBe(1)
  })

  it('not done, and the attempt is made, with a timeout of its own', async () => {
    const { runtime, runner, timeline } = bench({
      timeoutMs: 100,
      retry,
      confirm: () => sleep(runtime, 90).then(() => ({ done: false }) as const),
    })
    const call = runner('pay', (context) =>
      obedient(runtime, context.attempt === 1 ? 1_000 : 90, context.attempt)(context),
    )
    await runtime.run()
    expect(await call).toMatchObject({ result: 2, attempts: 2 })
    expect(timeline()).toEqual(['pay 1 timeout EXECUTION_TIMEOUT', 'pay 2 success'])
  })

  it('a confirm that fails, hangs or answers nonsense is a failed attempt', async () => {
    const answers = [
      () => Promise.reject(transient({ code: 'ECONNRESET' })),
      () => new Promise<never>(() => {}),
      () => ({ done: true, result: 'at last' }) as const,
    ]
    const { runtime, runner, timeline } = bench({
      timeoutMs: 100,
      graceMs: 50,
      retry: { ...plain, retries: 3 },
      confirm: () => (answers.shift() as () => never)(),
    })
    const call = runner('pay', obedient(runtime, 1_000, 0))
    await runtime.run()
    expect(await call).toMatchObject({ result: 'at last', attempts: 3 })
    expect(timeline()).toEqual([
      'pay 1 timeout EXECUTION_TIMEOUT',
      'pay 2 failure ECONNRESET',
      'pay 3 timeout EXECUTION_TIMEOUT',
    ])
    expect(runner.stats()).toMatchObject({ attempts: 3, retried: 2, succeeded: 1 })
    const odd = bench({ timeoutMs: 100, retry, confirm: (() => 'yes') as never })
    const unknown = odd.runner('pay', obedient(odd.runtime, 1_000, 0)).catch((e: unknown) => e)
    await odd.runtime.run()
    expect(await unknown).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      cause: { code: 'INVALID_OPTION' },
    })
  })

  it('when confirm fails for good nobody knows, and the call says so', async () => {
    const { runtime, runner } = bench({
      timeoutMs: 100,
      retry: { ...plain, retries: 1 },
      confirm: () => Promise.reject(transient()),
    })
    const call = runner('pay', obedient(runtime, 1_000, 0)).catch((e: unknown) => e)
    await runtime.run()
    expect(await call).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      cause: { message: 'try again' },
    })
  })

  it('with no attempt left the caller has EXECUTION_TIMEOUT at the deadline', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100, idempotent: true, retry: { retries: 0 } })
    const call = outcome(runner('k', stubborn(runtime, 300, 0)))
    await runtime.advance(100)
    expect([await call, runner.stats().active]).toEqual(['EXECUTION_TIMEOUT', 1])
    const picky = bench({ timeoutMs: 100, retry: { retries: 3, isRetryable: () => false } })
    const other = outcome(picky.runner('k', stubborn(picky.runtime, 300, 0)))
    await picky.runtime.advance(100)
    expect(await other).toBe('EXECUTION_TIMEOUT')
  })
})

describe('a call that comes while a body of its key is stopping', () => {
  it('waits for it, and gets its result if it succeeds after all', async () => {
    const { runtime, runner, timeline } = bench({ timeoutMs: 100, concurrency: 5 })
    const first = outcome(runner('k', stubborn(runtime, 300, 'late truth')))
    await runtime.advance(150)
    expect(await first).toBe('EXECUTION_TIMEOUT')
    const work = body<string>()
    const second = runner('k', work.run)
    expect(runner.stats()).toMatchObject({ active: 1, stopping: 1, waiting: 1 })
    await runtime.run()
    expect(await second).toEqual({
      result: 'late truth',
      ms: 150,
      attempts: 1,
      deduplicated: true,
    })
    expect([work.started(), runner.stats().deduplicated]).toEqual([false, 1])
    expect(timeline()).toEqual(['k 0 deduplicated', 'k 1 success'])
  })

  it('starts afresh if that fails', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100, concurrency: 5 })
    const first = outcome(
      runner('k', () => sleep(runtime, 300).then(() => Promise.reject(new Error('late')))),
    )
    await runtime.advance(150)
    await first
    const second = runner('k', () => 'fresh')
    await runtime.run()
    expect(await second).toMatchObject({ result: 'fresh', ms: 150, deduplicated: false })
  })

  it('asks first if it can', async () => {
    const { runtime, runner } = bench({
      timeoutMs: 100,
      concurrency: 5,
      confirm: () => ({ done: true, result: 'it was done' }),
    })
    const fails = () => sleep(runtime, 120).then(() => Promise.reject(new Error('late')))
    const first = outcome(runner('k', fails))
    await runtime.advance(110)
    expect(await first).toBe('EXECUTION_TIMEOUT')
    const work = body<string>()
    const second = runner('k', work.run)
    await runtime.run()
    expect(await second).toEqual({
      result: 'it was done',
      ms: 10,
      attempts: 0,
      deduplicated: true,
    })
    expect(work.started()).toBe(false)
  })
})
