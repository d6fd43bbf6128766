// Owns the properties of ageing: who is picked, by whom one can be overtaken, what a change does.
// May never reuse the formula it checks: the oracle adds up what each job has reached by waiting.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Ageing, isBefore, rankOf, weightOf } from '../../src/core/rank.ts'

interface Waiter {
  readonly seq: number
  readonly priority: number
  readonly readyAt: number
}

interface Picked extends Waiter {
  readonly at: number
}

const NOW = 1_900_000_000_000

const ageings: fc.Arbitrary<Ageing> = fc.record({
  everyMs: fc.integer({ min: 1, max: 1_000 }),
  ceiling: fc.integer({ min: 1, max: 100 }),
})

/** Jobs as they come, and slots as they become free: a queue that grows and shrinks. */
const arrivals = fc.array(
  fc.record({ gap: fc.nat(500), priority: fc.integer({ min: 1, max: 100 }), picks: fc.nat(2) }),
  { minLength: 1, maxLength: 40 },
)

/** Picks the best by `isBetter` whenever a slot is free, and goes on until nobody waits. */
function run(
  list: readonly { gap: number; priority: number; picks: number }[],
  isBetter: (a: Waiter, b: Waiter, now: number) => boolean,
): Picked[] {
  const waiting: Waiter[] = []
  const picked: Picked[] = []
  let now = NOW
  const pick = () => {
    const [first, ...rest] = waiting
    if (first === undefined) return
    const best = rest.reduce((a, b) => (isBetter(b, a, now) ? b : a), first)
    waiting.splice(waiting.indexOf(best), 1)
    picked.push({ ...best, at: now })
  }
  list.forEach(({ gap, priority, picks }, seq) => {
    now += gap
    waiting.push({ seq, priority, readyAt: now })
    for (let count = 0; count < picks; count += 1) pick()
  })
  while (waiting.length > 0) {
    now += 10
    pick()
  }
  return picked
}

const byRank =
  (ageing: Ageing) =>
  (a: Waiter, b: Waiter): boolean => {
    const [left, right] = [a, b].map((job) => rankOf(job.readyAt, weightOf(job.priority, ageing)))
    return isBefore(left as number, a.seq, right as number, b.seq)
  }

/** Above the ceiling priority alone counts; below it, priority and the points of waiting. */
const byReach =
  ({ everyMs, ceiling }: Ageing) =>
  (a: Waiter, b: Waiter, now: number): boolean => {
    const reach = ({ priority, readyAt }: Waiter): readonly [number, number] =>
      priority > ceiling ? [priority, now - readyAt] : [0, priority * everyMs + (now - readyAt)]
    const [left, right] = [reach(a), reach(b)]
    if (left[0] !== right[0]) return left[0] > right[0]
    return left[1] > right[1] || (left[1] === right[1] && a.seq < b.seq)
  }

describe('ageing', () => {
  it('picks whoever has reached the highest priority, at every pick', () => {
    fc.assert(
      fc.property(arrivals, ageings, (list, ageing) => {
        expect(run(list, byRank(ageing))).toEqual(run(list, byReach(ageing)))
      }),
      { numRuns: 500 },
    )
  })

  it('never lets a job at or below the ceiling overtake one above it', () => {
    fc.assert(
      fc.property(arrivals, ageings, (list, ageing) => {
        const picked = run(list, byRank(ageing))
        for (const [at, low] of picked.entries()) {
          if (low.priority > ageing.ceiling) continue
          const passed = picked.slice(at + 1).filter(({ readyAt }) => readyAt <= low.at)
          const stillThere = passed.filter(({ readyAt }) => readyAt < low.at)
          expect(stillThere.every(({ priority }) => priority <= ageing.ceiling)).toBe(true)
        }
      }),
      { numRuns: 500 },
    )
  })

  it('bounds who overtakes: by (difference in priority) * every, and work above the ceiling', () => {
    fc.assert(
      fc.property(arrivals, ageings, (list, ageing) => {
        const picked = run(list, byRank(ageing))
        for (const [at, job] of picked.entries()) {
          if (job.priority > ageing.ceiling) continue
          const overtook = picked.slice(0, at).filter(({ seq }) => seq > job.seq)
          for (const { priority, readyAt } of overtook) {
            const lead = (priority - job.priority) * ageing.everyMs
            expect(priority > ageing.ceiling || readyAt - job.readyAt < lead).toBe(true)
          }
        }
      }),
      { numRuns: 500 },
    )
  })

  it('is worked out anew from the old rank exactly, through any number of changes', () => {
    const jobs = fc.array(
      fc.record({ priority: fc.integer({ min: 1, max: 100 }), age: fc.nat(10_000_000) }),
      { minLength: 1, maxLength: 20 },
    )
    const changes = fc.array(fc.option(ageings), { minLength: 1, maxLength: 5 })
    fc.assert(
      fc.property(jobs, changes, (list, settings) => {
        for (const { priority, age } of list) {
          let weight = weightOf(priority, null)
          let rank = rankOf(NOW - age, weight)
          for (const ageing of settings) {
            const next = weightOf(priority, ageing)
            rank = rank + weight - next
            weight = next
            expect(rank).toBe(rankOf(NOW - age, weight))
          }
        }
      }),
      { numRuns: 300 },
    )
  })
})
