// Owns the promises of figures in fixed memory.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Counts, Histogram, Rate } from '../../src/kit/stats.ts'

describe('a histogram', () => {
  it('answers zero before anything was recorded', () => {
    expect(new Histogram().percentiles()).toEqual({ count: 0, p50: 0, p95: 0, p99: 0, max: 0 })
  })

  it('is at most 3 % off the nearest rank, over nine orders of magnitude', () => {
    const value = fc.double({ min: 0.001, max: 1e6, noNaN: true })
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 300 }), (values) => {
        const histogram = new Histogram()
        for (const each of values) histogram.record(each)
        const sorted = [...values].sort((a, b) => a - b)
        const { count, max, ...shares } = histogram.percentiles()
        expect([count, max]).toEqual([values.length, sorted.at(-1)])
        for (const [name, share] of [
          ['p50', 0.5],
          ['p95', 0.95],
          ['p99', 0.99],
        ] as const) {
          const exact = sorted[Math.ceil(share * values.length) - 1] as number
          const error = Math.abs(shares[name] - exact)
          // Below a thousandth of a millisecond everything counts as nothing.
          expect(error).toBeLessThanOrEqual(Math.max(exact * 0.03, 0.0011))
        }
      }),
      { numRuns: 200 },
    )
  })

  it('keeps percentiles in order and below the largest value', () => {
    const histogram = new Histogram()
    for (let ms = 1; ms <= 1_000; ms += 1) histogram.record(ms)
    const { p50, p95, p99, max } = histogram.percentiles()
    expect([p50 / 500, p95 / 950, p99 / 990].every((x) => Math.abs(x - 1) < 0.03)).toBe(true)
    expect(p50 <= p95 && p95 <= p99 && p99 <= max).toBe(true)
  })

  it('takes whatever it is given without harm', () => {
    const histogram = new Histogram()
    for (const odd of [0, -5, Number.NaN, 1e-9, 1e30, Number.POSITIVE_INFINITY]) {
      histogram.record(odd)
    }
    expect(histogram.percentiles()).toMatchObject({ count: 6, p50: 0, max: Infinity })
    expect(histogram.percentiles().p99).toBeGreaterThan(1e9)
  })
})

describe('counts', () => {
  it('B30: are kept for a hundred names, and then for all others together', () => {
    const counts = new Counts()
    for (let i = 0; i < 250; i += 1) counts.add(`E${i}`)
    counts.add('E0')
    const all = counts.toObject()
    expect(Object.keys(all)).toHaveLength(101)
    expect([all.E0, all.E99, all.E100, all.other]).toEqual([2, 1, undefined, 150])
  })

  it('take a name for what it is', () => {
    const counts = new Counts()
    for (const name of ['__proto__', 'constructor', '__proto__']) counts.add(name)
    expect(Object.entries(counts.toObject())).toEqual([
      ['__proto__', 2],
      ['constructor', 1],
    ])
  })
})

describe('a rate', () => {
  it('is that of the last ten seconds', () => {
    const rate = new Rate(0)
    for (let ms = 0; ms < 20_000; ms += 100) rate.add(ms)
    expect(rate.perSecond(19_999)).toBeCloseTo(10, 0)
    expect(rate.perSecond(25_000)).toBeCloseTo(5, 0)
    expect(rate.perSecond(31_000)).toBe(0)
    expect(rate.perSecond(1_000_000)).toBe(0)
  })

  it('begins with the first second as a whole', () => {
    const rate = new Rate(123_456)
    for (let i = 0; i < 7; i += 1) rate.add(123_456)
    expect(rate.perSecond(123_466)).toBe(7)
    expect(rate.perSecond(125_456)).toBe(3.5)
  })
})
