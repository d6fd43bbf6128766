// Owns the promises of the runner about calls: arguments, slots, order, the end.

import { describe, expect, it } from 'vitest'
import { createRunner } from '../../src/kit/runner.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'
import { body, listeners, outcome, poisoned, thenable, turn } from './helpers.ts'
import { bench, obedient, sleep, stubborn, transient } from './runner-helpers.ts'

describe('a call', () => {
  it('resolves to its result, how long it took, and how many attempts', async () => {
    const { runtime, runner } = bench()
    const call = runner('a', () => sleep(runtime, 30).then(() => 'done'))
    await runtime.run()
    expect(await call).toEqual({ result: 'done', ms: 30, attempts: 1, deduplicated: false })
  })

  it('hands its task the key, the attempt from 1, a signal, and an idempotency key', async () => {
    const { runner } = bench()
    const { result } = await runner('pay:42', ({ key, attempt, signal, idempotencyKey }) => {
      return [key, attempt, signal.aborted, idempotencyKey]
    })
    expect(result).toEqual(['pay:42', 1, false, 'pay:42'])
  })

  it('starts within the call when a slot is free', () => {
    const work = body<number>()
    bench().runner('a', work.run)
    expect(work.started()).toBe(true)
  })

  it('rejects with the very error of the task, and B09 to B11: takes what comes', async () => {
    const { runner } = bench({ concurrency: 10 })
    const error = new Error('mine')
    const odd = [undefined, null, 'text', Object.freeze({ a: 1 })]
    const tasks: (() => unknown)[] = [
      () => {
        throw error
      },
      () => Promise.reject(error),
      () => poisoned(error),
      ...odd.map((reason) => () => Promise.reject(reason)),
    ]
    const ended = await Promise.all(tasks.map((task, i) => outcome(runner(`k${i}`, task))))
    expect(ended).toEqual([error, error, error, ...odd])
    let asked = 0
    const twice = thenable((resolve, reject) => {
      asked += 1
      resolve(7)
      reject(error)
    })
    expect((await runner('t', () => twice)).result).toBe(7)
    expect((await runner('u', () => undefined)).result).toBe(undefined)
    expect([asked, runner.stats().active]).toEqual([1, 0])
  })

  it('refuses wrong arguments without a call', async () => {
    const { runner } = bench()
    const work = body<number>()
    const wrong: unknown[][] = [
      ['', work.run],
      [7, work.run],
      ['a', 'task'],
      ['a', work.run, { priority: 101 }],
      ['a', work.run, { priority: 1.5 }],
      ['a', work.run, { timeoutMs: -1 }],
      ['a', work.run, { signal: {} }],
      ['a', work.run, { retry: { retires: 1 } }],
      ['a', work.run, { retry: { signal: new AbortController() } }],
      ['a', work.run, { retry: { runtime: virtualRuntime(1) } }],
      ['a', work.run, { idempotent: 'yes' }],
      ['a', work.run, { timeout: 5 }],
    ]
    for (const given of wrong) {
      expect(await outcome(runner(...(given as Parameters<typeof runner>)))).toBe('INVALID_OPTION')
    }
    expect([work.started(), runner.stats().calls]).toEqual([false, 0])
  })

  it('C84: refuses options that make no sense, with the nearest name', () => {
    const wrong = [
      {},
      { concurrency: 0 },
      { concurrency: { min: 5, max: 1 } },
      { concurrency: 1, maxQueue: -1 },
      { concurrency: 1, overflow: 'drop' },
      { concurrency: 1, graceMs: -1 },
      { concurrency: 1, maxZombies: 1.5 },
      { concurrency: 1, retry: { retries: -1 } },
      { concurrency: 1, retry: { inSlotConcurrency: 0 } },
      { concurrency: 1, confirm: true },
      { concurrency: 1, remember: { ms: 5, max: 0 } },
      { concurrency: 1, remember: { max: 5 } },
      { concurrency: 1, breaker: { failures: 0 } },
      { concurrency: 1, onAttempt: 1 },
      { concurrency: 1, logger: { info() {} } },
    ]
    for (const options of wrong) {
      expect(() => createRunner(options as { concurrency: 1 })).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      )
    }
    expect(() => createRunner({ concurrency: 1, retrys: {} } as { concurrency: 1 })).toThrow(
      "Did you mean 'retry'?",
    )
  })
})

describe('slots', () => {
  it('are never more than the cap, in order of priority and then of the calls', async () => {
    const { runtime, runner } = bench({ concurrency: 2 })
    const order: string[] = []
    let running = 0
    let most = 0
    const call = (key: string, priority = 50) =>
      runner(
        key,
        async () => {
          order.push(key)
          running += 1
          most = Math.max(most, running)
          await sleep(runtime, 10)
          running -= 1
        },
        { priority },
      )
    const calls = [call('a'), call('b'), call('c'), call('d', 10), call('e', 90), call('f')]
    expect(runner.stats()).toMatchObject({ active: 2, waiting: 4 })
    await runtime.run()
    await Promise.all(calls)
    expect([order.join(''), most]).toEqual(['abecfd', 2])
  })

  it('C06: a freed slot goes to the head of the queue before a newcomer', async () => {
    for (let round = 0; round < 1_000; round += 1) {
      const runner = createRunner({ concurrency: 1 })
      const order: string[] = []
      const work = body<void>()
      const start = (name: string) => runner(name, () => order.push(name))
      const a = runner('A', () => {
        order.push('A')
        return work.run()
      })
      const b = start('B')
      const d = work.run().then(() => start('D'))
      const later = a.then(() => start('E'))
      work.end()
      await Promise.all([a, b, d, later])
      if (order.join('') !== 'ABDE') throw new Error(`round ${round}: ${order.join('')}`)
    }
  })

  it('C07: can be changed at any time: raising starts at once, lowering ends nothing', async () => {
    const { runner } = bench({ concurrency: 2 })
    const works = Array.from({ length: 6 }, () => body<void>())
    works.forEach((work, i) => {
      runner(`k${i}`, work.run)
    })
    const started = () => works.filter((work) => work.started()).length
    runner.concurrency = 4
    expect([started(), runner.concurrency]).toEqual([4, 4])
    runner.concurrency = 1
    works[0]?.end()
    works[1]?.end()
    await turn()
    expect([started(), runner.stats().active]).toEqual([4, 2])
    works[2]?.end()
    works[3]?.end()
    await turn()
    expect([started(), runner.stats().active]).toEqual([5, 1])
    expect(() => {
      runner.concurrency = 0
    }).toThrow('an integer of at least 1')
  })

  it('overflow is told at once, with the figures; waiting calls are not touched', async () => {
    const { runner, timeline } = bench({ maxQueue: 1 })
    const works = [body<number>(), body<number>(), body<number>()]
    const calls = works.map((work, i) => outcome(runner(`k${i}`, work.run)))
    expect(await calls[2]).toBe('QUEUE_OVERFLOW')
    expect(timeline()).toEqual(['k2 1 failure QUEUE_OVERFLOW'])
    works[0]?.end(1)
    works[1]?.end(2)
    expect((await Promise.all(calls)).length).toBe(3)
    expect(runner.stats()).toMatchObject({ succeeded: 2, failed: 1, codes: { QUEUE_OVERFLOW: 1 } })
    expect(works[2]?.started()).toBe(false)
  })

  it('with overflow wait, calls wait for room in order, whatever their priority', async () => {
    const { runtime, runner } = bench({ maxQueue: 1, overflow: 'wait' })
    const order: string[] = []
    const call = (key: string, priority: number) =>
      runner(key, () => sleep(runtime, 5).then(() => order.push(key)), { priority })
    const calls = [call('a', 50), call('b', 10), call('c', 20), call('d', 90), call('e', 95)]
    expect(runner.stats()).toMatchObject({ active: 1, waiting: 4 })
    await runtime.run()
    await Promise.all(calls)
    expect(order.join('')).toBe('abcde')
  })

  it('with no queue at all, overflow wait still serves in order', async () => {
    const { runtime, runner } = bench({ maxQueue: 0, overflow: 'wait' })
    const order: string[] = []
    const call = (key: string) => runner(key, () => sleep(runtime, 5).then(() => order.push(key)))
    const calls = ['a', 'b', 'c'].map(call)
    await runtime.run()
    await Promise.all(calls)
    expect(order.join('')).toBe('abc')
  })

  it('who waits for room moves up when a waiting call is called off', async () => {
    const { runtime, runner } = bench({ maxQueue: 2, overflow: 'wait' })
    const order: string[] = []
    const controller = new AbortController()
    const { signal } = controller
    const call = (key: string, priority: number, aborts = false) => {
      const task = () => sleep(runtime, 5).then(() => order.push(key))
      return outcome(runner(key, task, { priority, ...(aborts ? { signal } : {}) }))
    }
    const calls = [call('a', 50), call('b', 50, true), call('c', 50, true)]
    calls.push(call('low', 10), call('high', 90))
    controller.abort('off')
    await runtime.run()
    expect(await Promise.all(calls)).toMatchObject([{}, 'off', 'off', {}, {}])
    expect(order).toEqual(['a', 'high', 'low'])
  })

  it('C22: a call that waited too long never starts, and takes no slot with it', async () => {
    const { runtime, runner, timeline } = bench({ enqueueTimeout: 100 })
    const a = runner('a', stubborn(runtime, 1_000, 'a'))
    const b = body<number>()
    const second = outcome(runner('b', b.run))
    await runtime.advance(99)
    expect(runner.stats().waiting).toBe(1)
    await runtime.advance(1)
    expect(await second).toBe('ENQUEUE_TIMEOUT')
    expect(runner.stats()).toMatchObject({ waiting: 0, active: 1, codes: { ENQUEUE_TIMEOUT: 1 } })
    await runtime.run()
    await a
    expect([b.started(), runner.stats().active, runtime.pending()]).toEqual([false, 0, 0])
    expect(timeline()).toEqual(['b 1 failure ENQUEUE_TIMEOUT', 'a 1 success'])
    expect((await runner('c', () => 3)).result).toBe(3)
  })

  it('ten seconds are the patience by default, and 0 is endless', async () => {
    const [usual, endless] = [bench(), bench({ enqueueTimeout: 0 })]
    const calls = [usual, endless].map(({ runner }) => {
      runner('a', body().run)
      return outcome(runner('b', () => 1))
    })
    await usual.runtime.advance(9_999)
    expect(usual.runner.stats().waiting).toBe(1)
    await usual.runtime.advance(1)
    expect(await calls[0]).toBe('ENQUEUE_TIMEOUT')
    await endless.runtime.advance(1e9)
    expect(endless.runner.stats().waiting).toBe(1)
  })

  it('B13: a hundred thousand that end at once neither overflow the stack nor block', async () => {
    const runner = createRunner({ concurrency: 1, maxQueue: 200_000 })
    let turns = 0
    let counting = true
    const count = () => {
      turns += 1
      if (counting) setImmediate(count)
    }
    setImmediate(count)
    const calls = Array.from({ length: 100_000 }, (_, i) => runner(`k${i}`, () => i))
    await Promise.all(calls)
    counting = false
    expect(runner.stats()).toMatchObject({ succeeded: 100_000, active: 0, waiting: 0 })
    // Timers and I/O had their turn meanwhile.
    expect(turns).toBeGreaterThan(50)
    await turn()
  })

  it('B13: so does aborting a hundred thousand that wait', async () => {
    const runner = createRunner({ concurrency: 1, maxQueue: 200_000 })
    const controller = new AbortController()
    const { signal } = controller
    const work = body<void>()
    runner('first', work.run)
    const calls = Array.from({ length: 100_000 }, (_, i) => runner(`k${i}`, () => i, { signal }))
    expect(listeners(signal)).toBe(1)
    controller.abort('over')
    const ended = await Promise.allSettled(calls)
    expect(ended.every((end) => end.status === 'rejected' && end.reason === 'over')).toBe(true)
    expect(runner.stats()).toMatchObject({ cancelled: 100_000, waiting: 0, active: 1 })
    work.end()
    await runner.idle()
  })
})

describe('the end of a runner', () => {
  it('is idle when nothing waits and nothing runs, a turn after the callers were told', async () => {
    const { runtime, runner } = bench()
    let idle = false
    await runner.idle()
    const call = runner('a', stubborn(runtime, 10, 0)).then(() => runner('b', () => 1))
    const waiting = runner.idle().then(() => {
      idle = true
    })
    await runtime.advance(9)
    expect(idle).toBe(false)
    await runtime.run()
    await runtime.advance(0)
    await Promise.all([call, waiting])
    expect(runner.stats()).toMatchObject({ succeeded: 2, active: 0 })
  })

  it('closed: new and waiting calls reject, running ones are aborted, then it is idle', async () => {
    const { runtime, runner, timeline } = bench({ retry: { retries: 3, baseDelay: 1_000 } })
    const backing = outcome(runner('backing', () => Promise.reject(transient())))
    await turn()
    const running = outcome(runner('running', obedient(runtime, 10_000, 1)))
    const waiting = outcome(runner('waiting', () => 1))
    let closed = false
    const closing = runner.close().then(() => {
      closed = true
    })
    expect(await Promise.all([waiting, backing, outcome(runner('late', () => 1))])).toEqual(
      Array(3).fill('CLOSED'),
    )
    expect(await running).toBe('CLOSED')
    await runtime.run()
    await runtime.advance(0)
    await closing
    expect([closed, runtime.pending()]).toEqual([true, 0])
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0, cancelled: 4, failed: 0 })
    expect(timeline().slice(1)).toEqual([
      'backing 2 cancelled CLOSED',
      'waiting 1 cancelled CLOSED',
      'running 1 cancelled CLOSED',
    ])
  })

  it('closed: a success in its grace counts, a failure does not lead to another attempt', async () => {
    const { runtime, runner } = bench({ concurrency: 2, retry: { retries: 3 } })
    const good = runner('good', stubborn(runtime, 100, 'made it'))
    const bad = outcome(
      runner('bad', async () => {
        await sleep(runtime, 50)
        throw transient()
      }),
    )
    const closing = runner.close()
    await runtime.run()
    await runtime.advance(0)
    await closing
    expect((await good).result).toBe('made it')
    expect(await bad).toBe('CLOSED')
  })

  it('closed: starts nothing, though slots are given up on the way', async () => {
    const retry = { retries: 1, baseDelay: 1_000, inSlot: true }
    const { runtime, runner } = bench({ retry })
    const holding = outcome(runner('a', () => Promise.reject(transient())))
    const work = body<number>()
    const waiting = outcome(runner('b', work.run))
    await turn()
    expect(runner.stats()).toMatchObject({ active: 1, waiting: 1 })
    const closing = runner.close()
    expect(await Promise.all([holding, waiting])).toEqual(['CLOSED', 'CLOSED'])
    await runtime.advance(0)
    await closing
    expect([work.started(), runner.stats().active]).toEqual([false, 0])
  })

  it('closed: counts a call once that another one calls off as it is told to stop', async () => {
    const { runtime, runner } = bench({ concurrency: 2 })
    const child = new AbortController()
    const parent = ({ signal }: { signal: AbortSignal }) =>
      new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => {
          child.abort('the parent was stopped')
          reject(signal.reason)
        })
      })
    const calls = [
      outcome(runner('parent', parent)),
      outcome(runner('child', obedient(runtime, 1_000, 'never'), { signal: child.signal })),
      outcome(runner('waiting', () => 'never', { signal: child.signal })),
    ]
    const closing = runner.close()
    const { calls: all, active, stopping, waiting, cancelled } = runner.stats()
    expect(waiting + active - stopping + cancelled).toBe(all)
    await runtime.run()
    expect(await Promise.all(calls)).toEqual(['CLOSED', ...Array(2).fill('the parent was stopped')])
    expect(runner.stats()).toMatchObject({ calls: 3, active: 0, stopping: 0, cancelled: 3 })
    await runtime.advance(0)
    await closing
  })

  it('closed: does not wait for a body longer than its grace', async () => {
    const { runtime, runner } = bench({ graceMs: 200 })
    const call = outcome(runner('stuck', body().run))
    const closing = runner.close()
    await runtime.advance(199)
    expect(runner.stats().active).toBe(1)
    await runtime.advance(1)
    expect(await call).toBe('CLOSED')
    await closing
    expect(runner.stats()).toMatchObject({ active: 0, zombies: 1 })
  })

  it('await using closes it', async () => {
    const runtime = virtualRuntime(1)
    const runner = createRunner({ concurrency: 1, runtime })
    await runner[Symbol.asyncDispose]()
    expect(await outcome(runner('a', () => 1))).toBe('CLOSED')
  })
})
