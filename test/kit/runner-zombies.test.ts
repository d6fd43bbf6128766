// Owns the promises of the runner about what outlasts a call: zombies, and memory.

import { describe, expect, it } from 'vitest'
import { body, outcome, turn } from './helpers.ts'
import { bench, obedient, stubborn } from './runner-helpers.ts'

const plain = { jitter: false, baseDelay: 100 } as const

describe('zombies', () => {
  it('B08: are bodies that outlive their grace: counted, listed, and without a slot', async () => {
    const { runtime, runner, timeline } = bench({ timeoutMs: 100, graceMs: 1_000 })
    const start = runtime.now()
    const stuck = body<string>()
    const call = outcome(runner('z', stuck.run))
    const next = runner('n', () => 'n')
    await runtime.advance(1_099)
    expect(runner.stats()).toMatchObject({ active: 1, zombies: 0, waiting: 1 })
    expect([await call, timeline()]).toEqual(['EXECUTION_TIMEOUT', []])
    await runtime.advance(1)
    expect((await next).result).toBe('n')
    expect(runner.stats()).toMatchObject({ active: 0, stopping: 0, zombies: 1 })
    expect(runner.zombies()).toEqual([
      {
        key: 'z',
        attempt: 1,
        startedAt: start,
        since: start + 1_100,
        worker: `pid:${process.pid}`,
      },
    ])
    expect(timeline()).toEqual(['z 1 timeout EXECUTION_TIMEOUT', 'n 1 success'])
    stuck.end('far too late')
    await turn()
    expect([runner.zombies(), runner.stats().succeeded]).toEqual([[], 1])
  })

  it('hold up the next attempt no longer than their grace, and change nothing later', async () => {
    const { runtime, runner } = bench({
      timeoutMs: 100,
      graceMs: 200,
      idempotent: true,
      retry: { ...plain, retries: 1 },
      remember: { ms: '1h' },
    })
    const works = [body<string>(), body<string>()]
    const call = runner('k', ({ attempt }) => works[attempt - 1]?.run() as Promise<string>)
    await runtime.advance(399)
    expect(works[1]?.started()).toBe(false)
    await runtime.advance(1)
    expect([works[1]?.started(), runner.stats().zombies]).toEqual([true, 1])
    works[0]?.end('zombie')
    await turn()
    works[1]?.end('second')
    expect((await call).result).toBe('second')
    expect((await runner('k', () => 'third')).result).toBe('second')
  })

  it('B08: are bounded: then new starts wait, and grace goes on', async () => {
    const { runtime, runner } = bench({
      concurrency: 2,
      timeoutMs: 100,
      graceMs: 100,
      maxZombies: 1,
    })
    const stuck = [body<void>(), body<void>()]
    const calls = stuck.map((work, i) => outcome(runner(`z${i}`, work.run)))
    await runtime.advance(200)
    expect(await Promise.all(calls)).toEqual(['EXECUTION_TIMEOUT', 'EXECUTION_TIMEOUT'])
    expect(runner.stats()).toMatchObject({ zombies: 1, active: 1, stopping: 1 })
    const next = body<string>()
    const call = runner('n', next.run)
    await turn()
    expect([next.started(), runner.stats().waiting]).toEqual([false, 1])
    stuck[0]?.end()
    await turn()
    // The other one is the zombie now, so still nothing starts.
    expect([next.started(), runner.stats()]).toMatchObject([false, { zombies: 1, active: 0 }])
    stuck[1]?.end()
    await turn()
    expect([next.started(), runner.stats().zombies]).toEqual([true, 0])
    next.end('n')
    expect((await call).result).toBe('n')
  })

  it('may be forbidden: then a body keeps its slot for as long as it runs', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100, graceMs: 100, maxZombies: 0 })
    const stuck = body<void>()
    const first = outcome(runner('a', stuck.run))
    const second = runner('b', () => 'b')
    await runtime.advance(5_000)
    expect(await first).toBe('EXECUTION_TIMEOUT')
    expect(runner.stats()).toMatchObject({ zombies: 0, active: 1, stopping: 1, waiting: 1 })
    stuck.end()
    expect((await second).result).toBe('b')
    expect(runner.stats()).toMatchObject({ active: 0, stopping: 0 })
  })

  it('make a new call of their key wait for their end', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100, graceMs: 100, concurrency: 3 })
    const stuck = body<string>()
    const first = outcome(runner('k', stuck.run))
    await runtime.advance(200)
    await first
    const fresh = body<string>()
    const second = runner('k', fresh.run)
    const other = runner('other', () => 1)
    expect((await other).result).toBe(1)
    expect([fresh.started(), runner.stats().waiting]).toEqual([false, 1])
    stuck.end('too late')
    await turn()
    expect(fresh.started()).toBe(true)
    fresh.end('fresh')
    expect(await second).toMatchObject({ result: 'fresh', deduplicated: false })
  })

  it('or ask, if it can', async () => {
    const answers = [{ done: false } as const, { done: true, result: 'landed' } as const]
    const { runtime, runner } = bench({
      timeoutMs: 100,
      graceMs: 100,
      concurrency: 3,
      confirm: () => answers.shift() as { done: false },
    })
    const first = outcome(runner('k', body().run))
    await runtime.advance(200)
    await first
    expect(await runner('k', () => 'sent again')).toMatchObject({ result: 'sent again' })
    expect(await runner('k', () => 'and again')).toMatchObject({
      result: 'landed',
      deduplicated: true,
    })
  })

  it('and whoever has waited for their grace and asked is left alone when they end', async () => {
    const { runtime, runner } = bench({
      timeoutMs: 100,
      graceMs: 100,
      concurrency: 3,
      confirm: () => ({ done: false }),
    })
    const [stuck, fresh] = [body<string>(), body<string>()]
    const first = outcome(runner('k', stuck.run))
    await runtime.advance(150)
    await first
    let runs = 0
    const second = runner('k', () => {
      runs += 1
      return fresh.run()
    })
    await runtime.advance(50)
    expect([runs, runner.stats().zombies]).toEqual([1, 1])
    stuck.end('too late')
    await turn()
    expect([runs, runner.stats()]).toMatchObject([1, { active: 1, waiting: 0, zombies: 0 }])
    fresh.end('fresh')
    expect((await second).result).toBe('fresh')
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0 })
  })

  it('cancelled bodies become zombies, too', async () => {
    const { runtime, runner } = bench({ graceMs: 100 })
    const controller = new AbortController()
    const stuck = body<void>()
    const call = outcome(runner('k', stuck.run, { signal: controller.signal }))
    const next = runner('n', () => 'n')
    controller.abort('off')
    expect(await call).toBe('off')
    await runtime.advance(100)
    expect((await next).result).toBe('n')
    expect(runner.stats()).toMatchObject({ zombies: 1, cancelled: 1, active: 0 })
    stuck.end()
    await turn()
    expect(runner.stats().zombies).toBe(0)
  })
})

describe('memory', () => {
  it('answers a second delivery with the first result, for as long as it was told', async () => {
    const { runtime, runner, timeline } = bench({ remember: { ms: '1m' } })
    let runs = 0
    const task = () => {
      runs += 1
      return runs
    }
    await runner('k', task)
    await runtime.advance(59_999)
    expect(await runner('k', task)).toEqual({
      result: 1,
      ms: 0,
      attempts: 1,
      deduplicated: true,
    })
    await runtime.advance(1)
    expect(await runner('k', task)).toMatchObject({ result: 2, deduplicated: false })
    expect(timeline()).toEqual(['k 1 success', 'k 0 deduplicated', 'k 1 success'])
    expect(runner.stats()).toMatchObject({ calls: 3, succeeded: 2, deduplicated: 1 })
  })

  it('keeps no failures', async () => {
    const { runner } = bench({ remember: { ms: '1m' } })
    await outcome(runner('k', () => Promise.reject(new Error('no'))))
    expect((await runner('k', () => 7)).result).toBe(7)
  })

  it('B30: is bounded by number and by time, and keeps no process alive', async () => {
    const { runtime, runner } = bench({ remember: { ms: '1m', max: 3 } })
    for (let i = 0; i < 10; i += 1) await runner(`k${i}`, () => i)
    const again = await Promise.all([6, 7, 8, 9].map((i) => runner(`k${i}`, () => -1)))
    expect(again.map(({ result }) => result)).toEqual([-1, 7, 8, 9])
    expect(runtime.pending()).toBe(0)
  })

  it('keeps a success in its grace that came too late for its caller', async () => {
    const { runtime, runner } = bench({ timeoutMs: 100, remember: { ms: '1m' } })
    const call = outcome(runner('k', stubborn(runtime, 200, 'late')))
    await runtime.run()
    expect(await call).toBe('EXECUTION_TIMEOUT')
    expect((await runner('k', () => 'again')).result).toBe('late')
  })

  it('keeps an unknown outcome, so that the next call asks first', async () => {
    const answers = [{ done: false } as const, { done: true, result: 'receipt' } as const]
    const { runtime, runner } = bench({
      timeoutMs: 100,
      remember: { ms: '1m' },
      confirm: () => answers.shift() as { done: false },
    })
    const call = () => outcome(runner('pay', obedient(runtime, 1_000, 0)))
    for (let i = 0; i < 2; i += 1) {
      const ended = call()
      await runtime.run()
      expect(await ended).toBe('EXECUTION_TIMEOUT')
    }
    const third = await runner('pay', () => 'sent again')
    expect(third).toEqual({ result: 'receipt', ms: 0, attempts: 0, deduplicated: true })
    // A confirmed result is remembered like any other.
    expect(await runner('pay', () => 'sent again')).toMatchObject({ result: 'receipt' })
    expect(answers).toEqual([])
  })

  it('without confirm the next call is told that nobody knows, unless it is idempotent', async () => {
    const { runtime, runner } = bench({
      timeoutMs: 100,
      remember: { ms: '1m' },
      retry: { ...plain, retries: 1 },
    })
    const first = outcome(runner('pay', obedient(runtime, 1_000, 0)))
    await runtime.run()
    expect(await first).toBe('OUTCOME_UNKNOWN')
    const work = body<number>()
    expect(await outcome(runner('pay', work.run))).toBe('OUTCOME_UNKNOWN')
    expect(work.started()).toBe(false)
    const sure = await runner('pay', () => 'paid', { idempotent: true })
    expect(sure.result).toBe('paid')
    expect((await runner('pay', work.run)).result).toBe('paid')
  })
})
