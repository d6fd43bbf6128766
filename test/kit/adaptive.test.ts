// Owns the promises of adaptive concurrency, against a simulated downstream.

import { describe, expect, it } from 'vitest'
import { Adaptive } from '../../src/kit/adaptive.ts'
import { virtualRuntime } from '../../src/testing/virtual.ts'

const BASE_MS = 50

interface Downstream {
  /** How many it serves at once without slowing down. */
  knee: number
  /** Share of the latency that is chance, to either side. */
  readonly noise: number
}

/** Clients that always have something to ask, as many at a time as they may. */
function world(adaptive: Adaptive, downstream: Downstream, seed: number, demand = Infinity) {
  const runtime = virtualRuntime(seed)
  let inFlight = 0
  const limits: number[] = []
  const finish = (startedAt: number, ok: boolean) => {
    adaptive.sample(startedAt, runtime.monotonic(), inFlight, ok ? 'ok' : 'overload')
    inFlight -= 1
    fill()
  }
  const start = () => {
    inFlight += 1
    const { knee, noise } = downstream
    const startedAt = runtime.monotonic()
    if (inFlight > 1.5 * knee) {
      runtime.after(5, () => finish(startedAt, false))
      return
    }
    const slow = Math.max(1, inFlight / knee)
    const chance = 1 + noise * (2 * runtime.random() - 1)
    runtime.after(BASE_MS * slow * chance, () => finish(startedAt, true))
  }
  const fill = () => {
    while (inFlight < Math.min(adaptive.limit, demand)) start()
  }
  const sample = () => {
    limits.push(adaptive.limit)
    runtime.after(BASE_MS, sample)
  }
  fill()
  sample()
  return { runtime, limits }
}

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length

describe('an adaptive limit', () => {
  const cases = [5, 20, 60].flatMap((knee) =>
    [0, 0.2].flatMap((noise) => [1, 120].map((initial) => ({ knee, noise, initial }))),
  )

  it.each(cases)(
    'finds the knee within 20 %%: $knee, noise $noise, from $initial',
    async (given) => {
      const { knee, noise, initial } = given
      const adaptive = new Adaptive({ min: 1, max: 200, initial })
      const { runtime, limits } = world(adaptive, { knee, noise }, 11)
      await runtime.advance(60_000)
      const settled = limits.slice(-600)
      expect(Math.abs(mean(settled) / knee - 1)).toBeLessThanOrEqual(0.2)
      expect(Math.max(...settled)).toBeLessThanOrEqual(1.5 * knee + 1)
    },
  )

  it('does not climb while less than half of it is used', async () => {
    const adaptive = new Adaptive({ min: 1, max: 200, initial: 10 })
    const { runtime } = world(adaptive, { knee: 100, noise: 0 }, 1, 4)
    await runtime.advance(60_000)
    expect(adaptive.limit).toBe(10)
  })

  it('does not climb when nothing is asked at all', () => {
    const adaptive = new Adaptive({ min: 2, max: 10 })
    for (let now = 0; now < 100_000; now += 1_000) adaptive.sample(now, now + 10, 1, 'neutral')
    expect(adaptive.limit).toBe(2)
  })

  it.each([0, 0.2])(
    'falls within two windows when the downstream halves, noise %d',
    async (noise) => {
      const downstream = { knee: 40, noise }
      const adaptive = new Adaptive({ min: 1, max: 200, initial: 30 })
      const { runtime, limits } = world(adaptive, downstream, 5)
      await runtime.advance(30_000)
      const before = adaptive.limit
      downstream.knee = 20
      // A window: what was begun before has ended, and 64 answers of what was begun since.
      const window = (BASE_MS * 40) / 20 + (64 / 20) * BASE_MS
      await runtime.advance(2 * window)
      expect(adaptive.limit).toBeLessThan(0.8 * before)
      await runtime.advance(30_000)
      expect(Math.abs(mean(limits.slice(-200)) / 20 - 1)).toBeLessThanOrEqual(0.2)
    },
  )

  it('rises again when the downstream recovers', async () => {
    const downstream = { knee: 10, noise: 0.1 }
    const adaptive = new Adaptive({ min: 1, max: 200 })
    const { runtime, limits } = world(adaptive, downstream, 5)
    await runtime.advance(30_000)
    downstream.knee = 40
    await runtime.advance(60_000)
    expect(Math.abs(mean(limits.slice(-200)) / 40 - 1)).toBeLessThanOrEqual(0.2)
  })

  it('accepts in the end that everything has become slower', async () => {
    const adaptive = new Adaptive({ min: 1, max: 50, initial: 20 })
    const runtime = virtualRuntime(1)
    let latency = 50
    const tick = () => {
      const startedAt = runtime.monotonic()
      const { limit } = adaptive
      for (let i = 0; i < limit; i += 1) {
        runtime.after(latency, () => adaptive.sample(startedAt, runtime.monotonic(), limit, 'ok'))
      }
      runtime.after(latency + 1, tick)
    }
    tick()
    await runtime.advance(10_000)
    latency = 200
    await runtime.advance(120_000)
    expect(adaptive.limit).toBeGreaterThan(20)
  })

  it('stays within its bounds, whatever happens', () => {
    const adaptive = new Adaptive({ min: 3, max: 6, initial: 4 })
    let now = 0
    for (let i = 0; i < 50; i += 1) {
      now += 100
      adaptive.sample(now, now + 50, 6, 'overload')
    }
    expect(adaptive.limit).toBe(3)
    for (let i = 0; i < 500; i += 1) {
      now += 100
      adaptive.sample(now, now + 50, 6, 'ok')
    }
    expect(adaptive.limit).toBe(6)
  })

  it('falls once for everything that was in flight at the first sign of overload', () => {
    const adaptive = new Adaptive({ min: 1, max: 100, initial: 50 })
    for (let i = 0; i < 50; i += 1) adaptive.sample(0, 100 + i, 50, 'overload')
    expect(adaptive.limit).toBe(40)
  })

  it('can be moved by hand, within its bounds', () => {
    const adaptive = new Adaptive({ min: 2, max: 10 })
    adaptive.limit = 7
    expect(adaptive.limit).toBe(7)
    adaptive.limit = 100
    expect(adaptive.limit).toBe(10)
  })

  it('refuses bounds that make no sense', () => {
    const wrong = [
      { min: 0, max: 1 },
      { min: 5, max: 4 },
      { min: 1, max: 4, initial: 5 },
      { max: 3 },
    ]
    for (const options of [...wrong, { min: 1, max: 2, maximum: 3 }, null]) {
      expect(() => new Adaptive(options as { min: number; max: number })).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      )
    }
  })
})
