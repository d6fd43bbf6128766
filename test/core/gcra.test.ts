// Owns the promises of a rate: how many may start in any window, by counting starts.
// May never reuse the formula that it checks.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  allowance,
  carried,
  freeAt,
  type RateTerms,
  rateTerms,
  taken,
} from '../../src/core/gcra.ts'

const NOW = 1_900_000_000_000

/** A caller at one instant: how many it would like, how long it waits for its next call. */
interface Visit {
  readonly wants: number
  readonly pauseMs: number
}

const terms = fc
  .record({
    count: fc.integer({ min: 1, max: 120 }),
    perMs: fc.integer({ min: 20, max: 3_000 }),
    share: fc.option(fc.integer({ min: 0, max: 100 }), { nil: undefined }),
  })
  .map(({ count, perMs, share }) => {
    if (share === undefined) return rateTerms(count, perMs)
    return rateTerms(count, perMs, 1 + Math.floor((share * (count - 1)) / 100))
  })

const visits = fc.array(
  fc.record({
    wants: fc.integer({ min: 0, max: 200 }),
    pauseMs: fc.oneof(fc.constant(0), fc.nat(20), fc.nat(2_000)),
  }),
  { minLength: 1, maxLength: 80 },
)

/** Takes what it may, and comes back when it is told to; writes down each start. */
function greedy(rate: RateTerms, from: number, until: number, tat = 0) {
  const starts: number[] = []
  let state = tat
  let now = from
  while (now < until) {
    const may = allowance(rate, state, now)
    for (let each = 0; each < may; each += 1) starts.push(now)
    state = taken(rate, state, now, may)
    now = Math.max(now + 1, freeAt(rate, state))
  }
  return { starts, tat: state }
}

function visited(rate: RateTerms, calls: readonly Visit[]): number[] {
  const starts: number[] = []
  let state = 0
  let now = NOW
  for (const { wants, pauseMs } of calls) {
    const takes = Math.min(wants, allowance(rate, state, now))
    for (let each = 0; each < takes; each += 1) starts.push(now)
    state = taken(rate, state, now, takes)
    now += pauseMs
  }
  return starts
}

/** The most that any half-open window of that length has: one that begins with a start has it. */
function most(starts: readonly number[], ms: number): number {
  let best = 0
  let end = 0
  for (const [first, from] of starts.entries()) {
    while (end < starts.length && (starts[end] as number) < from + ms) end += 1
    best = Math.max(best, end - first)
  }
  return best
}

/** What was promised for a window of `perMs`. */
function promised(rate: RateTerms, isOwnBurst: boolean): number {
  return isOwnBurst ? rate.count + rate.burst - 1 : rate.count
}

describe('a rate', () => {
  it('lets no more than its count come in any half-open window', () => {
    const own = fc.record({
      count: fc.integer({ min: 1, max: 300 }),
      perMs: fc.integer({ min: 1, max: 3_000 }),
    })
    fc.assert(
      fc.property(own, visits, ({ count, perMs }, calls) => {
        const rate = rateTerms(count, perMs)
        expect(most(visited(rate, calls), perMs)).toBeLessThanOrEqual(count)
        const { starts } = greedy(rate, NOW, NOW + 4 * perMs)
        expect(most(starts, perMs)).toBeLessThanOrEqual(count)
      }),
    )
  })

  it('lets no more than count + burst - 1 come with a burst of its own', () => {
    fc.assert(
      fc.property(terms, visits, (rate, calls) => {
        const bound = promised(rate, true)
        expect(most(visited(rate, calls), rate.perMs)).toBeLessThanOrEqual(bound)
        const { starts } = greedy(rate, NOW, NOW + 4 * rate.perMs)
        expect(most(starts, rate.perMs)).toBeLessThanOrEqual(bound)
      }),
    )
  })

  it('lets a burst come at once after a pause, and no more', () => {
    fc.assert(
      fc.property(terms, (rate) => {
        const { tat } = greedy(rate, NOW, NOW + rate.perMs)
        const later = NOW + 10 * rate.perMs + Math.ceil((rate.burst * rate.intervalUs) / 1_000)
        expect(allowance(rate, tat, later)).toBe(rate.burst)
      }),
    )
  })

  /**
   * Not needlessly slow: of 50 a window or fewer, with a burst of one, a greedy caller gets each
   * of them; of more, all but `burst - 1`, which is less than 2 %. To that come roundings: an
   * interval is rounded up to a microsecond, a wake-up to a millisecond, which a burst makes up.
   */
  it('gives a greedy caller nearly all of its count in the long run', () => {
    const usual = fc.record({
      count: fc.integer({ min: 1, max: 2_000 }),
      perMs: fc.constantFrom(1_000, 10_000, 60_000),
    })
    fc.assert(
      fc.property(usual, ({ count, perMs }) => {
        const windows = 20
        const rate = rateTerms(count, perMs)
        const { starts } = greedy(rate, NOW, NOW + windows * perMs)
        const spaced = count - rate.burst + 1
        // Each of them may lie behind its ideal time by a millisecond of rounding, never by two.
        const exact = (windows * perMs) / (perMs / spaced + 0.001)
        const rounded = rate.burst > 1 ? exact : (windows * perMs) / (perMs / spaced + 1)
        expect(starts.length).toBeGreaterThanOrEqual(Math.floor(rounded))
      }),
      { numRuns: 50 },
    )
    for (const [count, perMs] of [
      [1, 1_000],
      [20, 1_000],
      [50, 60_000],
    ] as const) {
      const { starts } = greedy(rateTerms(count, perMs), NOW, NOW + 100 * perMs)
      expect(starts.length).toBe(100 * count)
    }
  })

  it('is free at the first millisecond at which one more may come', () => {
    fc.assert(
      fc.property(terms, fc.nat(3_000), (rate, ms) => {
        const { tat } = greedy(rate, NOW, NOW + 1 + ms)
        const at = freeAt(rate, tat)
        expect(allowance(rate, tat, at)).toBeGreaterThan(0)
        expect(allowance(rate, tat, at - 1)).toBe(0)
      }),
    )
  })
})

describe('a change of a rate', () => {
  /** Starts before and after a change, by callers as greedy as can be. */
  function across(before: RateTerms, after: RateTerms, ms: number, idleMs: number) {
    const change = NOW + ms
    const first = greedy(before, NOW, change)
    const tat = carried(before, after, first.tat, change + idleMs)
    const second = greedy(after, change + idleMs, change + idleMs + 3 * after.perMs, tat)
    return { change: change + idleMs, before: first.starts, after: second.starts }
  }

  it('holds in every window that begins with it or after it', () => {
    fc.assert(
      fc.property(terms, terms, fc.nat(5_000), fc.nat(50), (before, after, ms, idleMs) => {
        const { after: starts } = across(before, after, ms, idleMs)
        expect(most(starts, after.perMs)).toBeLessThanOrEqual(promised(after, true))
      }),
    )
  })

  it('lets fewer than window / shorter interval + larger burst come across it', () => {
    const windows = fc.integer({ min: 1, max: 4_000 })
    fc.assert(
      fc.property(terms, terms, fc.nat(5_000), fc.nat(50), windows, (a, b, ms, idleMs, window) => {
        const starts = across(a, b, ms, idleMs)
        const interval = Math.min(a.intervalUs, b.intervalUs)
        const bound = Math.ceil((window * 1_000) / interval) - 1 + Math.max(a.burst, b.burst)
        expect(most([...starts.before, ...starts.after], window)).toBeLessThanOrEqual(bound)
      }),
    )
  })

  it('never gives a second allowance, however often the terms go to and fro', () => {
    const loose = rateTerms(50, 1_000, 10)
    const tight = rateTerms(25, 1_000, 10)
    const starts: number[] = []
    let tat = 0
    let rate = loose
    for (let now = NOW; now < NOW + 3_000; now += 1) {
      const may = allowance(rate, tat, now)
      for (let each = 0; each < may; each += 1) starts.push(now)
      tat = taken(rate, tat, now, may)
      const other = rate === loose ? tight : loose
      tat = carried(rate, other, tat, now)
      rate = other
    }
    expect(most(starts, 1_000)).toBeLessThanOrEqual(59)
  })

  it('makes nobody wait longer than one interval of the new terms', () => {
    fc.assert(
      fc.property(terms, terms, fc.nat(3_000), (before, after, ms) => {
        const { tat } = greedy(before, NOW, NOW + 1 + ms)
        const now = NOW + ms
        const wait = freeAt(after, carried(before, after, tat, now)) - now
        expect(wait).toBeLessThanOrEqual(Math.ceil(after.intervalUs / 1_000))
      }),
    )
  })

  it('changes nothing when the same is said again, and forgets a rate that was taken away', () => {
    const rate = rateTerms(3, 1_000)
    const { tat } = greedy(rate, NOW, NOW + 10)
    expect(carried(rate, { ...rate }, tat, NOW + 10)).toBe(tat)
    expect(carried(rate, null, tat, NOW + 10)).toBe(0)
    expect(carried(null, rate, 0, NOW + 10)).toBe(0)
  })
})
