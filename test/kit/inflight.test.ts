// Owns the promises of single flight.

import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { createInflight } from '../../src/kit/inflight.ts'
import { body, listeners, outcome, poisoned, turn } from './helpers.ts'

describe('calls of one key', () => {
  it('share one body, and calls of another key do not', async () => {
    const inflight = createInflight()
    const [a, b] = [body<number>(), body<number>()]
    const calls = [inflight('a', a.run), inflight('a', b.run), inflight('b', b.run)]
    expect([a.started(), b.started(), inflight.size]).toEqual([true, true, 2])
    a.end(1)
    b.end(2)
    expect(await Promise.all(calls)).toEqual([1, 1, 2])
    expect(inflight.size).toBe(0)
  })

  it('C30, B23: share a failure, and forget it', async () => {
    const inflight = createInflight()
    const error = new Error('E1')
    let runs = 0
    const call = (task: () => Promise<number>) => {
      return inflight('k', () => {
        runs += 1
        return task()
      })
    }
    const bad = Array.from({ length: 5 }, () =>
      outcome(call(() => turn().then(() => Promise.reject(error)))),
    )
    expect(await Promise.all(bad)).toEqual(Array(5).fill(error))
    expect(inflight.size).toBe(0)
    const good = Array.from({ length: 5 }, () => call(() => turn().then(() => 7)))
    expect(await Promise.all(good)).toEqual(Array(5).fill(7))
    expect([runs, inflight.size]).toEqual([2, 0])
  })

  it('B23: start afresh once the body has ended, even before anybody has heard of it', async () => {
    const inflight = createInflight()
    const first = body<string>()
    const order: string[] = []
    const ended = first.run()
    const old = inflight('k', first.run).then((value) => {
      order.push(value)
      return inflight('k', () => 'second').then((next) => order.push(next))
    })
    first.end('first')
    await ended
    await old
    expect(order).toEqual(['first', 'second'])
  })

  it('B23: all get what a body throws at once', async () => {
    const inflight = createInflight()
    const error = new Error('at once')
    const throwing = (): never => {
      throw error
    }
    const calls = [inflight('k', throwing), inflight('k', throwing)].map(outcome)
    expect(await Promise.all(calls)).toEqual([error, error])
    expect(await outcome(inflight('k', () => poisoned(error)))).toBe(error)
    expect(await inflight('k', () => 42)).toBe(42)
  })

  it('B23: one who leaves takes nobody along; the last one to leave ends the body', async () => {
    const inflight = createInflight()
    const [one, two] = [new AbortController(), new AbortController()]
    let seen: AbortSignal | undefined
    const task = (signal: AbortSignal) => {
      seen = signal
      return new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    }
    const first = outcome(inflight('k', task, { signal: one.signal }))
    const second = outcome(inflight('k', task, { signal: two.signal }))
    one.abort('first leaves')
    expect(await first).toBe('first leaves')
    expect([seen?.aborted, inflight.size]).toEqual([false, 1])
    two.abort('second leaves')
    expect([seen?.aborted, seen?.reason]).toEqual([true, 'second leaves'])
    expect(await second).toBe('second leaves')
    await turn()
    expect([inflight.size, listeners(one.signal), listeners(two.signal)]).toEqual([0, 0, 0])
  })

  it('B23: a body goes on while somebody waits who cannot leave', async () => {
    const inflight = createInflight()
    const work = body<number>()
    const controller = new AbortController()
    let seen: AbortSignal | undefined
    const leaving = outcome(
      inflight(
        'k',
        (signal) => {
          seen = signal
          return work.run()
        },
        { signal: controller.signal },
      ),
    )
    const staying = inflight('k', work.run)
    controller.abort('bye')
    expect(await leaving).toBe('bye')
    expect(seen?.aborted).toBe(false)
    work.end(3)
    expect(await staying).toBe(3)
  })

  it('B23: newcomers wait for an aborted body to end, and share a fresh one', async () => {
    const inflight = createInflight()
    const [old, fresh] = [body<string>(), body<string>()]
    const controller = new AbortController()
    const first = outcome(inflight('k', old.run, { signal: controller.signal }))
    controller.abort('gone')
    expect(await first).toBe('gone')
    const late = [inflight('k', fresh.run), inflight('k', old.run)]
    await turn()
    expect([fresh.started(), inflight.size]).toEqual([false, 1])
    old.end('ignored')
    await turn()
    expect(fresh.started()).toBe(true)
    fresh.end('fresh')
    expect(await Promise.all(late)).toEqual(['fresh', 'fresh'])
    expect(inflight.size).toBe(0)
  })

  it('B23: a newcomer who leaves before his body has started never starts it', async () => {
    const inflight = createInflight()
    const [old, never, last] = [body<string>(), body<string>(), body<string>()]
    const [one, two] = [new AbortController(), new AbortController()]
    const calls = [outcome(inflight('k', old.run, { signal: one.signal }))]
    one.abort('one')
    calls.push(outcome(inflight('k', never.run, { signal: two.signal })))
    two.abort('two')
    calls.push(outcome(inflight('k', last.run)))
    old.fail(new Error('nobody hears this'))
    await turn()
    expect([never.started(), last.started()]).toEqual([false, true])
    last.end('last')
    expect(await Promise.all(calls)).toEqual(['one', 'two', 'last'])
    expect(inflight.size).toBe(0)
  })

  it('a body may abort the signal of its own caller', async () => {
    const inflight = createInflight()
    const controller = new AbortController()
    let aborted = false
    const call = inflight(
      'k',
      (signal) => {
        controller.abort('myself')
        aborted = signal.aborted
        return 1
      },
      { signal: controller.signal },
    )
    expect(await outcome(call)).toBe('myself')
    expect(aborted).toBe(true)
    await turn()
    expect(inflight.size).toBe(0)
  })

  it('B02, B03: leave no listener, and start nothing under an aborted signal', async () => {
    const inflight = createInflight()
    const controller = new AbortController()
    const options = { signal: controller.signal }
    const work = body<number>()
    const calls = Array.from({ length: 1000 }, () => inflight('k', work.run, options))
    expect(listeners(controller.signal)).toBe(1)
    work.end(1)
    await Promise.all(calls)
    expect(listeners(controller.signal)).toBe(0)
    controller.abort('too late')
    const never = body<number>()
    expect(await outcome(inflight('k', never.run, options))).toBe('too late')
    expect([never.started(), listeners(controller.signal)]).toEqual([false, 0])
  })

  it('B12: a body sees the async context of the caller who brought it', async () => {
    const storage = new AsyncLocalStorage<string>()
    const inflight = createInflight()
    const old = body<string>()
    const controller = new AbortController()
    const call = outcome(inflight('k', old.run, { signal: controller.signal }))
    controller.abort('gone')
    const fresh = storage.run('request', () => inflight('k', () => storage.getStore()))
    old.end('done')
    expect([await call, await fresh]).toEqual(['gone', 'request'])
  })

  it('are refused when the arguments make no sense', async () => {
    const inflight = createInflight()
    const wrong = [
      inflight(1 as unknown as string, () => 1),
      inflight('k', undefined as unknown as () => number),
      inflight('k', () => 1, { signals: 1 } as object),
      inflight('k', () => 1, { signal: 1 as unknown as AbortSignal }),
    ]
    expect(await Promise.all(wrong.map(outcome))).toEqual(Array(4).fill('INVALID_OPTION'))
    expect(inflight.size).toBe(0)
  })
})
