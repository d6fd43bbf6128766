// Owns the promises of the runner about who calls: keys, signals, async context, the timeline.

import { AsyncLocalStorage } from 'node:async_hooks'
import { channel } from 'node:diagnostics_channel'
import { describe, expect, it } from 'vitest'
import { createRunner } from '../../src/kit/runner.ts'
import { body, listeners, outcome, turn } from './helpers.ts'
import { bench, obedient, sleep, stubborn, transient } from './runner-helpers.ts'

describe('calls of one key', () => {
  it('share one body and its outcome; who joined is told so', async () => {
    const { runtime, runner, timeline } = bench({ concurrency: 5 })
    let runs = 0
    const task = () => {
      runs += 1
      return sleep(runtime, 50).then(() => 'shared')
    }
    const first = runner('k', task)
    await runtime.advance(20)
    const second = runner('k', task)
    await runtime.run()
    expect(await first).toEqual({ result: 'shared', ms: 50, attempts: 1, deduplicated: false })
    expect(await second).toEqual({ result: 'shared', ms: 30, attempts: 1, deduplicated: true })
    expect([runs, runner.stats().deduplicated, runner.stats().succeeded]).toEqual([1, 1, 1])
    expect(timeline()).toEqual(['k 0 deduplicated', 'k 1 success'])
  })

  it('C30: share a failure, and forget it', async () => {
    const { runner } = bench()
    const error = new Error('E1')
    const work = body<number>()
    const calls = [1, 2, 3].map(() => outcome(runner('k', work.run)))
    work.fail(error)
    expect(await Promise.all(calls)).toEqual([error, error, error])
    expect((await runner('k', () => 7)).result).toBe(7)
  })

  it('share the wait for a slot, and the task and options of the first hold', async () => {
    const { runtime, runner } = bench()
    runner('busy', stubborn(runtime, 10, 0))
    const first = runner('k', ({ attempt }) => `first ${attempt}`, { priority: 90 })
    const second = runner('k', () => 'second', { priority: 1 })
    await runtime.run()
    expect([(await first).result, (await second).result]).toEqual(['first 1', 'first 1'])
  })

  it('a body that calls its own key is told, instead of waiting for itself for ever', async () => {
    const { runtime, runner } = bench({ concurrency: 5 })
    const ways: ((key: string) => Promise<unknown>)[] = [
      (key) => runner(key, () => 1),
      async (key) => {
        await turn()
        return await runner(key, () => 1)
      },
    ]
    for (const [i, way] of ways.entries()) {
      const key = `k${i}`
      expect(await outcome(runner(key, () => way(key)))).toBe('NESTED_LIMIT')
    }
    // Over another key it is told soon: only then is it known that the one waits for the other.
    const inner = async () => (await runner('outer', () => 1)).result
    const outer = outcome(runner('outer', async () => (await runner('inner', inner)).result))
    await runtime.advance(1_000)
    expect(await outer).toBe('NESTED_LIMIT')
    expect(runner.stats()).toMatchObject({ active: 0, waiting: 0 })
    // Somebody else may join, and so may another body.
    const first = runner('shared', stubborn(runtime, 10, 'shared'))
    const second = runner('other', async () => (await runner('shared', () => 0)).result)
    await runtime.run()
    expect([(await first).result, (await second).result]).toEqual(['shared', 'shared'])
  })

  it('a joiner’s signal ends only its own wait', async () => {
    const { runner } = bench()
    const work = body<number>()
    const controller = new AbortController()
    const { signal } = controller
    const first = runner('k', work.run)
    const second = outcome(runner('k', work.run, { signal }))
    controller.abort('bye')
    expect(await second).toBe('bye')
    expect(listeners(signal)).toBe(0)
    work.end(3)
    expect((await first).result).toBe(3)
  })

  it('the first caller may leave, too: the body goes on for those who joined', async () => {
    const { runner } = bench()
    const controller = new AbortController()
    let seen: AbortSignal | undefined
    const work = body<number>()
    const first = outcome(
      runner(
        'k',
        ({ signal }) => {
          seen = signal
          return work.run()
        },
        { signal: controller.signal },
      ),
    )
    const second = runner('k', work.run)
    controller.abort('bye')
    expect([await first, seen?.aborted]).toEqual(['bye', false])
    work.end(3)
    expect(await second).toMatchObject({ result: 3, deduplicated: true })
  })

  it('in the queue, too', async () => {
    const { runtime, runner } = bench()
    runner('busy', stubborn(runtime, 10, 0))
    const controller = new AbortController()
    const first = outcome(runner('k', () => 5, { signal: controller.signal }))
    const second = runner('k', () => 6)
    controller.abort('bye')
    expect(await first).toBe('bye')
    await runtime.run()
    expect((await second).result).toBe(5)
    expect(runner.stats()).toMatchObject({ cancelled: 0, succeeded: 2, deduplicated: 1 })
  })

  it('when the last one leaves, the body is aborted with that reason', async () => {
    const { runtime, runner, timeline } = bench()
    const [one, two] = [new AbortController(), new AbortController()]
    const task = obedient(runtime, 1_000, 1)
    const calls = [one, two].map(({ signal }) => outcome(runner('k', task, { signal })))
    one.abort('one')
    expect(runner.stats().active).toBe(1)
    two.abort('two')
    expect(runner.stats()).toMatchObject({ cancelled: 1, stopping: 1, active: 1 })
    expect(await Promise.all(calls)).toEqual(['one', 'two'])
    await turn()
    expect(runner.stats()).toMatchObject({ active: 0, stopping: 0, failed: 0 })
    expect(timeline()).toEqual(['k 0 deduplicated', 'k 1 cancelled CANCELLED'])
    expect([listeners(one.signal), listeners(two.signal), runtime.pending()]).toEqual([0, 0, 0])
  })

  it('who comes to an aborted body waits for its end, and starts afresh', async () => {
    const { runner } = bench({ concurrency: 5 })
    const controller = new AbortController()
    const [old, fresh] = [body<string>(), body<string>()]
    const first = outcome(runner('k', old.run, { signal: controller.signal }))
    controller.abort('gone')
    expect(await first).toBe('gone')
    const late = [runner('k', fresh.run), runner('k', old.run)]
    await turn()
    expect([fresh.started(), runner.stats().waiting]).toEqual([false, 1])
    old.end('old')
    await turn()
    expect(fresh.started()).toBe(true)
    fresh.end('fresh')
    expect((await Promise.all(late)).map(({ result }) => result)).toEqual(['fresh', 'fresh'])
  })

  it('and may give up that wait, by its signal or its patience', async () => {
    const { runtime, runner } = bench({ concurrency: 5, graceMs: Infinity, enqueueTimeout: 100 })
    const controllers = [new AbortController(), new AbortController()] as const
    const old = body<string>()
    const [a, b] = controllers
    const first = outcome(runner('k', old.run, { signal: a.signal }))
    a.abort('gone')
    await first
    const second = outcome(runner('k', () => 1, { signal: b.signal }))
    b.abort('me too')
    expect(await second).toBe('me too')
    const third = outcome(runner('k', () => 1))
    await runtime.advance(100)
    expect(await third).toBe('ENQUEUE_TIMEOUT')
    expect([runner.stats().waiting, runtime.pending()]).toEqual([0, 0])
    old.end('old')
    await turn()
    expect((await runner('k', () => 2)).result).toBe(2)
  })
})

describe('a signal', () => {
  it('B02: that is aborted already ends the call at once, slot or no slot', async () => {
    const { runner } = bench()
    runner('busy', body().run)
    const work = body<number>()
    const signal = AbortSignal.abort('before')
    expect(await outcome(runner('k', work.run, { signal }))).toBe('before')
    expect([work.started(), listeners(signal), runner.stats().waiting]).toEqual([false, 0, 0])
    expect(runner.stats()).toMatchObject({ calls: 2, cancelled: 1 })
  })

  it('ends a wait at once, and the timeline says so', async () => {
    const { runtime, runner, timeline, records } = bench()
    runner('busy', stubborn(runtime, 1_000, 0))
    const controller = new AbortController()
    const work = body<number>()
    const call = outcome(runner('k', work.run, { signal: controller.signal }))
    await runtime.advance(70)
    const reason = new Error('R')
    controller.abort(reason)
    expect(await call).toBe(reason)
    expect(runner.stats()).toMatchObject({ waiting: 0, cancelled: 1 })
    expect([timeline(), records[0]?.queuedMs]).toEqual([['k 1 cancelled CANCELLED'], 70])
    await runtime.run()
    expect(work.started()).toBe(false)
  })

  it('B01: aborting in any order neither wedges the queue nor starts what was aborted', async () => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const { runtime, runner } = bench()
      const controllers = [new AbortController(), new AbortController()]
      const tasks = controllers.map(({ signal }, i) =>
        outcome(runner(`k${i}`, obedient(runtime, 100, i), { signal })),
      )
      const third = runner('c', () => 'c')
      for (const i of order) controllers[i]?.abort(i)
      expect(await Promise.all(tasks)).toEqual([0, 1])
      expect((await third).result).toBe('c')
      expect(runner.stats()).toMatchObject({ active: 0, waiting: 0, cancelled: 2, succeeded: 1 })
    }
  })

  it('B05, C45: leaves nothing behind on a signal that outlives 10,000 calls', async () => {
    const { runtime, runner } = bench({ concurrency: 4, timeoutMs: 1_000, retry: { retries: 1 } })
    const { signal } = new AbortController()
    for (let i = 0; i < 10_000; i += 1) {
      await runner(`k${i}`, async () => i, { signal })
      if (listeners(signal) !== 0) throw new Error(`a listener is left after call ${i}`)
    }
    const task = async ({ attempt }: { attempt: number }) => {
      if (attempt === 1) throw transient()
    }
    const all = Array.from({ length: 100 }, (_, i) => runner(`m${i}`, task, { signal }))
    await turn()
    expect(listeners(signal)).toBe(1)
    await runtime.run()
    await Promise.all(all)
    expect([listeners(signal), runtime.pending()]).toEqual([0, 0])
  })

  it('is made for a body only if it looks, and is aborted then if it looks too late', async () => {
    const { runtime, runner } = bench({ timeoutMs: 10 })
    let late: unknown
    const call = outcome(
      runner('k', async (context) => {
        await sleep(runtime, 20)
        late = context.signal.reason
      }),
    )
    await runtime.run()
    expect(await call).toBe('EXECUTION_TIMEOUT')
    expect(late).toMatchObject({ code: 'EXECUTION_TIMEOUT' })
  })
})

describe('the async context', () => {
  it('B12: bodies, retries, hooks and abort listeners see that of the caller', async () => {
    const storage = new AsyncLocalStorage<string>()
    const seen = new Map<string, unknown[]>()
    const look = (what: string) => {
      seen.set(what, [...(seen.get(what) ?? []), storage.getStore()])
    }
    const { runtime, runner } = bench({
      concurrency: 1,
      timeoutMs: 100,
      idempotent: true,
      retry: {
        retries: 1,
        onRetry: () => look('onRetry'),
        isRetryable: () => {
          look('isRetryable')
          return true
        },
      },
      onAttempt: ({ key }) => {
        if (key === 'k') look('onAttempt')
      },
    })
    const calls = [storage.run('other', () => runner('busy', stubborn(runtime, 10, 0)))]
    calls.push(
      storage.run('mine', () =>
        runner('k', ({ signal, attempt }) => {
          look('body')
          signal.addEventListener('abort', () => look('abort'))
          return sleep(runtime, attempt === 1 ? 150 : 1).then(() => {
            if (attempt === 1) throw new Error('late')
            return 1
          })
        }),
      ),
    )
    await runtime.run()
    await Promise.all(calls)
    expect(Object.fromEntries(seen)).toEqual({
      body: ['mine', 'mine'],
      abort: ['mine'],
      isRetryable: ['mine'],
      onRetry: ['mine'],
      onAttempt: ['mine', 'mine'],
    })
  })

  it('B12: aborting and leaving do not bring that of whoever aborts', async () => {
    const storage = new AsyncLocalStorage<string>()
    const { runtime, runner, records } = bench({ onAttempt: () => seen.push(storage.getStore()) })
    const seen: unknown[] = []
    const controller = new AbortController()
    const { signal } = controller
    const calls = storage.run('mine', () => [
      outcome(
        runner(
          'a',
          (context) => {
            context.signal.addEventListener('abort', () => seen.push(storage.getStore()))
            return obedient(runtime, 100, 1)(context)
          },
          { signal },
        ),
      ),
      outcome(runner('b', () => 1, { signal })),
    ])
    storage.run('aborter', () => controller.abort('x'))
    await Promise.all(calls)
    await turn()
    expect(records).toHaveLength(2)
    expect(seen).toEqual(['mine', 'mine', 'mine'])
  })
})

describe('the timeline', () => {
  it('has one record per attempt, to onAttempt, a logger and diagnostics_channel', async () => {
    const logged: unknown[] = []
    const log = (level: string) => (fields: object, message?: string) => {
      logged.push([level, { ...fields }, message])
    }
    const logger = { info: log('info'), warn: log('warn'), error: log('error') }
    const { runtime, runner, records } = bench({
      logger,
      retry: { retries: 1, baseDelay: 100, jitter: false },
    })
    const published: unknown[] = []
    const subscriber = (record: unknown) => published.push(record)
    channel('ax:attempt').subscribe(subscriber)
    const start = runtime.now()
    runner('busy', stubborn(runtime, 10, 0))
    const call = runner('k', async ({ attempt }) => {
      await sleep(runtime, 5)
      if (attempt === 1) throw transient({ code: 'EAGAIN' })
    })
    await runtime.run()
    await call
    channel('ax:attempt').unsubscribe(subscriber)
    const expected = [
      { key: 'busy', attempt: 1, queuedMs: 0, callMs: 10, outcome: 'success', at: start + 10 },
      {
        key: 'k',
        attempt: 1,
        queuedMs: 10,
        callMs: 5,
        outcome: 'failure',
        code: 'EAGAIN',
        at: start + 15,
      },
      { key: 'k', attempt: 2, queuedMs: 0, callMs: 5, outcome: 'success', at: start + 120 },
    ]
    expect(records).toEqual(expected)
    expect(published).toEqual(expected)
    expect(logged).toEqual([
      ['info', expected[0], 'attempt 1 of busy: success'],
      ['warn', expected[1], 'attempt 1 of k: failure'],
      ['info', expected[2], 'attempt 2 of k: success'],
    ])
  })

  it('is not published when nobody has subscribed, and hooks that throw change nothing', async () => {
    const bad = () => {
      throw new Error('hook')
    }
    const logger = { info: bad, warn: bad, error: bad }
    const runner = createRunner({ concurrency: 1, onAttempt: bad, logger })
    expect((await runner('a', () => 1)).result).toBe(1)
    const late = createRunner({ concurrency: 1, onAttempt: (async () => bad()) as () => void })
    expect((await late('a', () => 1)).result).toBe(1)
    await turn()
  })
})
