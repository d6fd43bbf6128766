// Owns the properties of a rate whose terms change while it is used, as a budget's may.
// May never count as the rate does: the oracle slides a window over what came.

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

const START = 1_900_000_000_000

const rates: fc.Arbitrary<RateTerms> = fc
  .record({
    count: fc.integer({ min: 1, max: 200 }),
    perMs: fc.integer({ min: 1, max: 5_000 }),
    burst: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
  })
  .map(({ count, perMs, burst }) => {
    return rateTerms(count, perMs, burst === undefined ? undefined : Math.min(burst, count))
  })

const phases = fc.array(
  fc.record({
    rate: rates,
    asks: fc.array(fc.record({ gap: fc.nat(400), wanted: fc.nat(30) }), { maxLength: 30 }),
  }),
  { minLength: 1, maxLength: 4 },
)

/** The most that came in any window [t, t + per) that begins with one of them. */
function mostIn(instants: readonly number[], perMs: number): number {
  const counts = instants.map((from) => {
    return instants.filter((at) => at >= from && at < from + perMs).length
  })
  return Math.max(0, ...counts)
}

function boundOf({ count, burst }: RateTerms): number {
  const own = Math.max(1, Math.floor(count / 50))
  return burst === own ? count : count + burst - 1
}

describe('a budget', () => {
  it('C18: holds its bound in every window, from the moment at which its terms were set', () => {
    fc.assert(
      fc.property(phases, (list) => {
        let now = START
        let tat = 0
        let before: RateTerms | null = null
        for (const { rate, asks } of list) {
          tat = carried(before, rate, tat, now)
          before = rate
          const came: number[] = []
          for (const { gap, wanted } of asks) {
            now += gap
            const count = Math.min(wanted, allowance(rate, tat, now))
            tat = taken(rate, tat, now, count)
            for (let each = 0; each < count; each += 1) came.push(now)
          }
          expect(mostIn(came, rate.perMs)).toBeLessThanOrEqual(boundOf(rate))
        }
      }),
      { numRuns: 500 },
    )
  })

  it('lets the first one go within one new interval, whatever the old terms were', () => {
    fc.assert(
      fc.property(rates, rates, fc.nat(50), (old, next, wanted) => {
        const used = taken(old, 0, START, Math.min(wanted, allowance(old, 0, START)))
        const tat = carried(old, next, used, START)
        const longest = Math.max(Math.ceil(next.intervalUs / 1_000), freeAt(next, used) - START)
        expect(freeAt(next, tat) - START).toBeLessThanOrEqual(longest)
        const isOther = old.intervalUs !== next.intervalUs || old.toleranceUs !== next.toleranceUs
        if (isOther) {
          expect(freeAt(next, tat) - START).toBeLessThanOrEqual(Math.ceil(next.intervalUs / 1_000))
        }
      }),
      { numRuns: 500 },
    )
  })

  it('says the first millisecond at which one more may come', () => {
    fc.assert(
      fc.property(rates, fc.nat(300), (rate, wanted) => {
        const tat = taken(rate, 0, START, Math.min(wanted, allowance(rate, 0, START)))
        const at = Math.max(START, freeAt(rate, tat))
        expect(allowance(rate, tat, at)).toBeGreaterThan(0)
        if (at > START) expect(allowance(rate, tat, at - 1)).toBe(0)
      }),
      { numRuns: 500 },
    )
  })
})
