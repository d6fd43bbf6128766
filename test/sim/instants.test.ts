// Owns the check that the simulator's own reading of cron expressions agrees with the one that is
// used, and that its naive books agree with what the words of a rate promise.

import { describe, expect, it } from 'vitest'
import { allowance, rateTerms, taken } from '../../src/core/gcra.ts'
import { CronTimes } from '../../src/kit/cron.ts'
import { RateBook, successor } from '../../src/testing/sim/books.ts'
import { Instants } from '../../src/testing/sim/instants.ts'
import { Random } from '../../src/testing/sim/random.ts'

const CRONS = [
  ...['*/2 * * * * *', '1,4,30,59 * * * * *', '7 * * * * *', '30 30 2 * * *', '0 0 2 * * *'],
  ...['2,4,9 0 3 * * *', '1,3,6,58 59,0 1,2 * * *', '0 0 * * * *', '30 */10 * * * *'],
]

/** Clocks in Berlin go forward, clocks in Berlin go back, and nothing happens. */
const MOMENTS = [1_711_846_800_000, 1_729_990_800_000, 1_700_000_000_000]

describe('two readings of a cron expression', () => {
  it.each(CRONS)('agree on %s, whatever the clocks do', (cron) => {
    for (const zone of ['UTC', 'Europe/Berlin']) {
      for (const moment of MOMENTS) {
        const used = new CronTimes(cron, zone)
        const own = new Instants(cron, zone)
        let at = moment - 70_000
        for (let step = 0; step < 12; step += 1) {
          const next = own.after(at)
          expect([zone, next]).toEqual([zone, used.after(at)])
          expect(own.isOne(next)).toBe(true)
          expect(own.before(next + 1)).toBe(next)
          at = next
        }
      }
    }
  })
})

describe('the naive book of a rate', () => {
  it('lets as many start as the bucket does, and never more than its bound in a window', () => {
    const random = new Random(3, 'rates')
    for (let round = 0; round < 50; round += 1) {
      const count = random.pick([1, 2, 5, 20, 120])
      const burst = random.chance(0.5) ? undefined : Math.min(count, random.int(3, 8))
      const terms = rateTerms(count, random.pick([50, 1_000]), burst)
      const book = new RateBook(terms)
      expect(book.spacing).toBe(terms.intervalUs)
      expect(book.bound).toBe(burst === undefined ? count : count + burst - 1)
      let tat = 0
      for (let now = 0, step = 0; step < 120; step += 1, now += random.int(0, 40)) {
        const may = allowance(terms, tat, now) > 0
        expect(book.opensAt(0, now) <= now).toBe(may)
        if (!may) continue
        tat = taken(terms, tat, now, 1)
        book.takes.push(now)
        expect(book.inWindow(now)).toBeLessThanOrEqual(book.bound)
      }
    }
  })

  it('begins at once after nothing, and owes what it owed at the new price', () => {
    const fast = rateTerms(100, 1_000)
    expect(successor(null, fast, 5)?.opensAt(0, 5)).toBeLessThanOrEqual(5)
    const slow = new RateBook(rateTerms(1, 60_000))
    slow.takes.push(1_000)
    expect(slow.opensAt(0, 1_000)).toBe(61_000)
    expect(successor(slow, fast, 1_000)?.opensAt(0, 1_000)).toBeLessThan(1_020)
    expect(successor(slow, slow.terms, 1_000)).toBe(slow)
    expect(successor(slow, null, 1_000)).toBeNull()
  })
})
