// Owns the promises of the limiter's queue: its bound, its time limit, and those who wait for it.

import { describe, expect, it } from 'vitest'
import { createLimiter } from '../../src/kit/limiter.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'
import { type Body, body, outcome, turn } from './helpers.ts'

function blocked(limit: (task: () => Promise<unknown>) => unknown): Body<unknown> {
  const work = body<unknown>()
  limit(work.run)
  return work
}

describe('a bounded queue', () => {
  it('rejects what does not fit, and says what is the matter', async () => {
    const limit = createLimiter(1, { maxQueue: 1 })
    const blocker = blocked(limit)
    const first = limit(() => 1)
    const second = limit(() => 2)
    await expect(second).rejects.toMatchObject({
      code: 'QUEUE_OVERFLOW',
      retryable: true,
      maxQueue: 1,
      active: 1,
      waiting: 1,
    })
    blocker.end(undefined)
    expect(await first).toBe(1)
  })

  it('with maxQueue 0 has no queue at all', async () => {
    const limit = createLimiter(1, { maxQueue: 0 })
    const blocker = blocked(limit)
    expect(await outcome(limit(() => 1))).toBe('QUEUE_OVERFLOW')
    blocker.end(undefined)
    await turn()
    expect(await limit(() => 1)).toBe(1)
  })

  it.each([0, 1, 3])(
    'lets callers wait for room, first come first served (maxQueue %i)',
    async (maxQueue) => {
      const limit = createLimiter(1, { maxQueue, overflow: 'wait' })
      const blocker = blocked(limit)
      const order: number[] = []
      const calls = Array.from({ length: 10 }, (_, i) => limit(() => order.push(i)))
      expect(limit.stats()).toEqual({ active: 1, waiting: 10, concurrency: 1 })
      blocker.end(undefined)
      await Promise.all(calls)
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    },
  )

  it('looks at priority only among those who are in it', async () => {
    const limit = createLimiter(1, { maxQueue: 2, overflow: 'wait' })
    const blocker = blocked(limit)
    const order: string[] = []
    const call = (name: string, priority: number) => limit(() => order.push(name), { priority })
    const calls = [call('a10', 10), call('b20', 20), call('c99', 99), call('d50', 50)]
    blocker.end(undefined)
    await Promise.all(calls)
    expect(order).toEqual(['b20', 'c99', 'd50', 'a10'])
  })

  it('gives the place of a dropped call to the next who waits for room', async () => {
    const limit = createLimiter(1, { maxQueue: 1, overflow: 'wait' })
    const blocker = blocked(limit)
    const [one, two] = [new AbortController(), new AbortController()]
    const calls = [
      outcome(limit(() => 'one', { signal: one.signal })),
      outcome(limit(() => 'two', { signal: two.signal })),
      outcome(limit(() => 'three')),
    ]
    two.abort('left the lobby')
    one.abort('left the queue')
    blocker.end(undefined)
    expect(await Promise.all(calls)).toEqual(['left the queue', 'left the lobby', 'three'])
  })
})

describe('the time limit of the wait', () => {
  it('C22: drops a call that never starts, and loses no slot by it', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const log: string[] = []
    const note = (name: string) => log.push(`${name} at ${runtime.monotonic()}`)
    const a = limit(() => new Promise<void>((resolve) => runtime.after(1000, resolve)))
    const b = limit(() => note('B started'), { enqueueTimeout: 100 }).catch((error) =>
      note(error.code),
    )
    await runtime.advance(10)
    const c = limit(() => note('C started'))
    await runtime.run()
    await Promise.all([a, b, c])
    expect(log).toEqual(['ENQUEUE_TIMEOUT at 100', 'C started at 1000'])
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 1 })
    expect(await limit(() => 'at once')).toBe('at once')
  })

  it('ends the moment the body starts, and leaves no timer behind', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, enqueueTimeout: '100ms' })
    const blocker = blocked(limit)
    expect(runtime.pending()).toBe(0)
    const work = body<string>()
    const call = limit(work.run)
    expect(runtime.pending()).toBe(1)
    await runtime.advance(99)
    blocker.end(undefined)
    await runtime.drain()
    expect([work.started(), runtime.pending()]).toEqual([true, 0])
    await runtime.advance(10_000)
    work.end('long after')
    expect(await call).toBe('long after')
  })

  it('may differ from call to call; one timer serves them all', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, enqueueTimeout: 500 })
    const blocker = blocked(limit)
    const log: string[] = []
    const call = (name: string, enqueueTimeout?: number) =>
      limit(
        () => log.push(`${name} ran`),
        enqueueTimeout === undefined ? {} : { enqueueTimeout },
      ).catch((error) => log.push(`${name} ${error.code} at ${runtime.monotonic()}`))
    const calls = [call('default'), call('patient', 900), call('hasty', 100), call('endless', 0)]
    expect(runtime.pending()).toBe(1)
    await runtime.run()
    blocker.end(undefined)
    await Promise.all(calls)
    expect(log).toEqual([
      'hasty ENQUEUE_TIMEOUT at 100',
      'default ENQUEUE_TIMEOUT at 500',
      'patient ENQUEUE_TIMEOUT at 900',
      'endless ran',
    ])
  })

  it('runs from the call for those who wait for room, too', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, maxQueue: 1, overflow: 'wait', enqueueTimeout: 100 })
    blocked(limit)
    const queued = outcome(limit(() => 1, { enqueueTimeout: 50 }))
    const lobby = outcome(limit(() => 2))
    await runtime.advance(50)
    expect(await queued).toBe('ENQUEUE_TIMEOUT')
    await runtime.advance(50)
    expect(await lobby).toBe('ENQUEUE_TIMEOUT')
    expect([limit.stats().waiting, runtime.pending()]).toEqual([0, 0])
  })

  it('B06: is honoured above 2^31-1 ms, and Infinity is none', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, enqueueTimeout: '31d' })
    const blocker = blocked(limit)
    const call = outcome(limit(() => 1))
    const endless = limit(() => 2, { enqueueTimeout: Number.POSITIVE_INFINITY })
    await runtime.advance(31 * 86_400_000 - 1)
    expect(limit.stats().waiting).toBe(2)
    await runtime.advance(1)
    expect([await call, runtime.pending()]).toEqual(['ENQUEUE_TIMEOUT', 0])
    blocker.end(undefined)
    expect(await endless).toBe(2)
  })

  it('B07: is not touched by a jump of the wall clock', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, enqueueTimeout: 1000 })
    blocked(limit)
    const call = outcome(limit(() => 1))
    runtime.jump(86_400_000)
    await runtime.advance(999)
    expect(limit.stats().waiting).toBe(1)
    runtime.jump(-2 * 86_400_000)
    await runtime.advance(1)
    expect(await call).toBe('ENQUEUE_TIMEOUT')
  })

  it('B22: gives a slot that I/O has freed meanwhile to the call before it is judged', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const blocker = blocked(limit)
    const call = limit(() => 'started', { enqueueTimeout: 100 })
    runtime.after(100, () => blocker.end(undefined))
    await runtime.advance(100)
    expect(await call).toBe('started')
  })
})

describe('clear', () => {
  it('C26: rejects all that wait in one turn, and runs none of them', async () => {
    const limit = createLimiter(1, { maxQueue: 5, overflow: 'wait' })
    const blocker = body<string>()
    const first = limit(blocker.run)
    let ran = 0
    const calls = Array.from({ length: 9 }, () =>
      limit(() => {
        ran += 1
      }).catch((error) => error),
    )
    const idle = limit.idle()
    expect(limit.clear('shutting down')).toBe(9)
    expect(limit.stats()).toEqual({ active: 1, waiting: 0, concurrency: 1 })
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'CANCELLED', cause: 'shutting down' })
      expect(error.message).toContain('never started')
    }
    blocker.end('done')
    expect(await first).toBe('done')
    await idle
    expect([ran, limit.clear()]).toEqual([0, 0])
  })

  it('takes timers and listeners along', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, enqueueTimeout: 100 })
    const blocker = blocked(limit)
    const calls = [1, 2].map((n) => outcome(limit(() => n)))
    limit.clear()
    expect(runtime.pending()).toBe(0)
    expect(await Promise.all(calls)).toEqual(['CANCELLED', 'CANCELLED'])
    blocker.end(undefined)
    expect(await limit(() => 'fine')).toBe('fine')
  })
})

describe('pause', () => {
  it('starts nothing, not even with a slot free, until resume, which starts at once', async () => {
    const limit = createLimiter(2)
    const blocker = blocked(limit)
    limit.pause()
    const started: number[] = []
    const calls = [1, 2, 3].map((n) => limit(() => started.push(n)))
    blocker.end(undefined)
    await turn()
    expect([started, limit.stats()]).toEqual([[], { active: 0, waiting: 3, concurrency: 2 }])
    limit.resume()
    expect(started).toEqual([1, 2])
    await Promise.all(calls)
    expect(started).toEqual([1, 2, 3])
  })

  it('B16: and resume, again and again, start no more than the cap', async () => {
    const limit = createLimiter(2)
    const bodies = Array.from({ length: 10 }, () => body<void>())
    const calls = bodies.map((each) => limit(each.run))
    for (let i = 0; i < 5; i += 1) {
      limit.pause()
      limit.resume()
    }
    expect(bodies.filter((each) => each.started()).length).toBe(2)
    for (const each of bodies) each.end()
    await Promise.all(calls)
  })
})

describe('idle', () => {
  it('B20: resolves at once on a limiter that has never been used', async () => {
    await createLimiter(1).idle()
  })

  it('B20: resolves when the queue empties through abort, clear, or a higher cap', async () => {
    const limit = createLimiter(1)
    limit.pause()
    const controller = new AbortController()
    const aborted = outcome(limit(() => 1, { signal: controller.signal }))
    const first = limit.idle()
    controller.abort('gone')
    await first
    const cleared = outcome(limit(() => 1))
    const second = limit.idle()
    limit.clear()
    await second
    expect(await Promise.all([aborted, cleared])).toEqual(['gone', 'CANCELLED'])
    limit.resume()
    const blocker = blocked(limit)
    const ran = limit(() => 'ran')
    const third = limit.idle()
    limit.concurrency = 2
    blocker.end(undefined)
    await third
    expect(await ran).toBe('ran')
  })

  it('B20: waits for what callers add when they hear of the end, and for bodies', async () => {
    const limit = createLimiter(1)
    const log: string[] = []
    const work = body<void>()
    const call = limit(work.run).then(async () => {
      log.push('caller')
      await null
      await null
      limit(async () => {
        await turn()
        log.push('second body')
      })
    })
    const idle = limit.idle().then(() => log.push('idle'))
    work.end()
    await Promise.all([call, idle])
    expect(log).toEqual(['caller', 'second body', 'idle'])
  })

  it('C47: may be awaited 20,000 times, one after another and all at once', async () => {
    const limit = createLimiter(1)
    for (let i = 0; i < 20_000; i += 1) {
      limit(() => {})
      await limit.idle()
    }
    const blocker = blocked(limit)
    const all = Array.from({ length: 20_000 }, () => limit.idle())
    blocker.end(undefined)
    await Promise.all(all)
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 1 })
  })
})

describe('room', () => {
  it('is there at once while the queue is not full, and comes back place by place', async () => {
    const limit = createLimiter(1, { maxQueue: 1 })
    await limit.room()
    const [first, second] = [body<void>(), body<void>()]
    const calls = [limit(first.run), limit(second.run)]
    const log: string[] = []
    const producers = ['one', 'two', 'three'].map(async (name) => {
      await limit.room()
      log.push(name)
      await limit(() => turn())
    })
    await turn()
    expect(log).toEqual([])
    first.end()
    await turn()
    expect(log).toEqual(['one'])
    second.end()
    await Promise.all([...calls, ...producers])
    expect(log).toEqual(['one', 'two', 'three'])
  })

  it('keeps a thousand producers from ever overflowing the queue', async () => {
    const limit = createLimiter(3, { maxQueue: 2 })
    let done = 0
    const producer = async () => {
      await limit.room()
      await limit(() => turn())
      done += 1
    }
    await Promise.all(Array.from({ length: 1000 }, producer))
    expect(done).toBe(1000)
  })

  it('with no queue means a free slot', async () => {
    const limit = createLimiter(1, { maxQueue: 0 })
    await limit.room()
    const blocker = blocked(limit)
    const room = limit.room().then(() => outcome(limit(() => 'in')))
    blocker.end(undefined)
    expect(await room).toBe('in')
  })

  it('B05: is not used up by somebody who never comes', async () => {
    const limit = createLimiter(1, { maxQueue: 1 })
    const blocker = blocked(limit)
    await limit.room()
    let second = false
    const room = limit.room().then(() => {
      second = true
    })
    await Promise.resolve()
    expect(second).toBe(false)
    await room
    expect(limit.stats().waiting).toBe(0)
    blocker.end(undefined)
  })
})
