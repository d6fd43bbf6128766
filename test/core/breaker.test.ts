// Owns the promises of the circuit breaker.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  Breaker,
  type BreakerOptions,
  type BreakerVerdict,
  breakerTerms,
} from '../../src/core/breaker.ts'

const breakerOf = (options: BreakerOptions = {}) => new Breaker(breakerTerms(options))

/** Lets attempts pass one after another; answers how many did. */
function feed(breaker: Breaker, verdicts: readonly BreakerVerdict[], now = 0): number {
  let passed = 0
  for (const verdict of verdicts) {
    const pass = breaker.admit(now)
    if (pass === undefined) continue
    passed += 1
    breaker.record(pass, verdict, now)
  }
  return passed
}

const fail: BreakerVerdict = 'failure'
const ok: BreakerVerdict = 'success'

describe('a breaker', () => {
  it('opens after so many failures in a row, five by default', () => {
    const breaker = breakerOf()
    expect(feed(breaker, [fail, fail, fail, fail, ok])).toBe(5)
    expect(breaker.state(0)).toBe('closed')
    expect(feed(breaker, [fail, fail, fail, fail, fail, ok, ok])).toBe(5)
    expect([breaker.state(0), breaker.retryAfter(0)]).toEqual(['open', 10_000])
    expect([breaker.state(9_999), breaker.admit(9_999)]).toEqual(['open', undefined])
    expect(breaker.retryAfter(4_000)).toBe(6_000)
  })

  it('counts only what speaks against the downstream', () => {
    const breaker = breakerOf({ failures: 2 })
    feed(breaker, [fail, 'neutral', 'neutral'])
    expect(breaker.state(0)).toBe('closed')
    feed(breaker, [fail])
    expect(breaker.state(0)).toBe('open')
  })

  it('opens at a share of failures, once the window is full', () => {
    const breaker = breakerOf({ failureRate: 0.5, window: 4 })
    feed(breaker, [fail, fail, fail])
    expect(breaker.state(0)).toBe('closed')
    feed(breaker, [ok])
    expect(breaker.state(0)).toBe('closed')
    feed(breaker, [fail])
    expect(breaker.state(0)).toBe('open')
  })

  it('forgets what has left the window', () => {
    const breaker = breakerOf({ failureRate: 0.5, window: 4 })
    feed(breaker, [fail, ok, ok, ok, fail, ok, ok, ok, fail, ok, ok])
    expect(breaker.state(0)).toBe('closed')
    feed(breaker, [fail])
    feed(breaker, [fail])
    expect(breaker.state(0)).toBe('open')
  })

  it('lets exactly one through when its time is over, and closes when that succeeds', () => {
    const breaker = breakerOf({ failures: 1, resetMs: '5s' })
    feed(breaker, [fail])
    expect(breaker.state(5_000)).toBe('half-open')
    expect(breaker.retryAfter(5_000)).toBe(0)
    const probe = breaker.admit(5_000)
    expect(probe).toBeDefined()
    expect([breaker.admit(5_000), breaker.admit(60_000)]).toEqual([undefined, undefined])
    expect(breaker.retryAfter(60_000)).toBe(5_000)
    breaker.record(probe as number, 'success', 6_000)
    expect([breaker.state(6_000), feed(breaker, [ok, ok], 6_000)]).toEqual(['closed', 2])
  })

  it('opens anew when the probe fails, for as long again', () => {
    const breaker = breakerOf({ failures: 3, resetMs: 1_000 })
    feed(breaker, [fail, fail, fail])
    breaker.record(breaker.admit(1_000) as number, 'failure', 1_500)
    expect([breaker.state(2_499), breaker.state(2_500)]).toEqual(['open', 'half-open'])
  })

  it('makes the next one the probe when the first shows nothing', () => {
    const breaker = breakerOf({ failures: 1, resetMs: 1_000 })
    feed(breaker, [fail])
    breaker.record(breaker.admit(1_000) as number, 'neutral', 1_000)
    expect(breaker.state(1_000)).toBe('half-open')
    expect(feed(breaker, [ok], 1_000)).toBe(1)
    expect(breaker.state(1_000)).toBe('closed')
  })

  it('does not listen to attempts of an earlier period', () => {
    const breaker = breakerOf({ failures: 1, resetMs: 1_000 })
    const old = [breaker.admit(0), breaker.admit(0), breaker.admit(0)] as number[]
    breaker.record(old[0] as number, 'failure', 0)
    breaker.record(old[1] as number, 'success', 0)
    expect(breaker.state(0)).toBe('open')
    const probe = breaker.admit(1_000) as number
    breaker.record(old[2] as number, 'success', 1_000)
    expect([breaker.state(1_000), breaker.admit(1_000)]).toEqual(['half-open', undefined])
    breaker.record(probe, 'success', 1_000)
    expect(breaker.state(1_000)).toBe('closed')
  })

  it('is the same after it was kept elsewhere as data', () => {
    const verdict = fc.constantFrom<BreakerVerdict>('success', 'failure', 'neutral')
    const steps = fc.array(fc.tuple(verdict, fc.nat(400)), { maxLength: 60 })
    const terms = breakerTerms({ failures: 3, failureRate: 0.6, window: 5, resetMs: 1_000 })
    fc.assert(
      fc.property(steps, (all) => {
        const kept = new Breaker(terms)
        let moved = new Breaker(terms)
        let now = 0
        for (const [result, wait] of all) {
          now += wait
          moved = new Breaker(terms, JSON.parse(JSON.stringify(moved.toData())))
          const passes = [kept.admit(now), moved.admit(now)]
          expect(passes[1]).toBe(passes[0])
          if (passes[0] === undefined) continue
          kept.record(passes[0], result, now)
          moved.record(passes[0], result, now)
          expect(moved.toData()).toEqual(kept.toData())
        }
      }),
      { numRuns: 200 },
    )
  })

  it('says from when on it lets somebody through, and admits nobody before', () => {
    const breaker = breakerOf({ failures: 1, resetMs: 100 })
    expect(breaker.freeAt(0)).toBe(0)
    feed(breaker, [fail])
    expect([breaker.freeAt(99), breaker.admit(99)]).toEqual([100, undefined])
    expect(breaker.freeAt(100)).toBe(0)
    const pass = breaker.admit(100)
    expect([breaker.freeAt(100), breaker.admit(100)]).toEqual([Infinity, undefined])
    breaker.record(pass as number, 'neutral', 100)
    expect(breaker.freeAt(100)).toBe(0)
  })

  it('begins anew under other terms, deaf to passes that were given before', () => {
    const breaker = breakerOf({ failures: 1 })
    const pass = breaker.admit(0) as number
    const renewed = breaker.renewed(breakerTerms({ failures: 1, resetMs: 5 }))
    renewed.record(pass, fail, 0)
    expect(renewed.state(0)).toBe('closed')
    feed(renewed, [fail])
    expect([renewed.state(0), renewed.freeAt(0)]).toEqual(['open', 5])
  })

  it('refuses rules that make no sense', () => {
    const wrong = [
      { failures: 0 },
      { failures: 1.5 },
      { failures: Number.POSITIVE_INFINITY },
      { failureRate: 0 },
      { failureRate: 2 },
      { failureRate: 0.5, window: 0 },
      { window: 5 },
      { resetMs: -1 },
      { threshold: 5 },
    ]
    for (const options of wrong) {
      expect(() => breakerTerms(options)).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      )
    }
    expect(breakerTerms({ failureRate: 0.2 })).toMatchObject({ failures: 0, window: 20 })
  })
})
