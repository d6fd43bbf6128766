// Owns the promises of Node's own clock and timers. Time is faked underneath, not slept through.

import { AsyncLocalStorage } from 'node:async_hooks'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { captureContext, outside } from '../../src/kit/context.ts'
import { systemRuntime } from '../../src/kit/runtime.ts'

const DAY = 86_400_000

describe('the system runtime', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it('C60, B06: honours delays above 2^31-1 ms, with few wake-ups', () => {
    const set = vi.spyOn(globalThis, 'setTimeout')
    let fired = 0
    systemRuntime.after(40 * DAY, () => {
      fired += 1
    })
    vi.advanceTimersByTime(40 * DAY - 1)
    expect(fired).toBe(0)
    vi.advanceTimersByTime(1)
    expect(fired).toBe(1)
    expect(set.mock.calls.length).toBeLessThan(5)
    expect(set.mock.calls.every(([, ms]) => (ms as number) <= 2 ** 31 - 1)).toBe(true)
  })

  it('B06: never fires after Infinity, and on the next turn after nothing', () => {
    const log: string[] = []
    systemRuntime.after(Number.POSITIVE_INFINITY, () => log.push('never')).cancel()
    systemRuntime.after(-5, () => log.push('negative'))
    systemRuntime.after(0, () => log.push('zero'))
    expect(log).toEqual([])
    vi.advanceTimersByTime(1)
    expect(log).toEqual(['negative', 'zero'])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('forgets a cancelled timer, also one that has been armed again', () => {
    let fired = 0
    const long = systemRuntime.after(30 * DAY, () => {
      fired += 1
    })
    vi.advanceTimersByTime(29 * DAY)
    long.cancel()
    long.cancel()
    vi.advanceTimersByTime(5 * DAY)
    expect([fired, vi.getTimerCount()]).toEqual([0, 0])
  })

  it('B07: measures on a clock that does not jump with the wall clock', () => {
    const [wall, steady] = [systemRuntime.now(), systemRuntime.monotonic()]
    vi.setSystemTime(wall - 3_600_000)
    expect(systemRuntime.now()).toBe(wall - 3_600_000)
    expect(systemRuntime.monotonic()).toBeGreaterThanOrEqual(steady)
  })
})

describe('the async context', () => {
  const storage = new AsyncLocalStorage<string>()

  it('B12: is not held by timers, and not seen by them', async () => {
    const seen = await storage.run('request', () =>
      Promise.all([
        new Promise((resolve) => systemRuntime.after(1, () => resolve(storage.getStore()))),
        new Promise((resolve) => systemRuntime.soon(() => resolve(storage.getStore()))),
      ]),
    )
    expect(seen).toEqual([undefined, undefined])
  })

  it('B12: is taken along as a function, through which results and throws pass', () => {
    const enter = storage.run('request', captureContext)
    expect(enter(() => storage.getStore())).toBe('request')
    expect(storage.run('other', () => enter(() => storage.getStore()))).toBe('request')
    expect(() =>
      enter(() => {
        throw new Error('through')
      }),
    ).toThrow('through')
    expect(storage.getStore()).toBeUndefined()
    expect(storage.run('request', () => outside(() => storage.getStore()))).toBeUndefined()
  })
})
