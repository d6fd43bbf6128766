// Owns the choice of who gives way, compared with a sort of all that may.
// May never reuse the choice that it checks.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { StoredJob } from '../../src/core/job.ts'
import { victimOf } from '../../src/core/preempt.ts'
import { isUrgent, type PoolRules, poolRules, raiseOf, shareOf } from '../../src/core/settings.ts'
import { jobOf } from './helpers.ts'

const NOW = 1_000_000
const URGENT = jobOf({ id: 'urgent', status: 'ready', priority: 95 })
const TERMS = { minPriority: 90, minGap: 10, minRunMs: 100 }

interface Sketch {
  readonly priority: number
  readonly ranMs: number
  readonly preempted: number
  readonly preemptible: boolean
  readonly holder: string
}

function running(sketch: Sketch, seq: number, over: Partial<StoredJob> = {}): StoredJob {
  const job = jobOf({ id: `j${seq}`, seq, status: 'running' })
  return {
    ...job,
    priority: sketch.priority,
    startedAt: NOW - sketch.ranMs,
    preempted: sketch.preempted,
    terms: { ...job.terms, preemptible: sketch.preemptible },
    lease: { holder: sketch.holder, number: seq, hold: false },
    ...over,
  }
}

const sketches = fc.array(
  fc.record({
    priority: fc.constantFrom(1, 50, 85, 86),
    ranMs: fc.constantFrom(0, 99, 100, 150, 150, 200),
    preempted: fc.integer({ min: 0, max: 4 }),
    preemptible: fc.boolean(),
    holder: fc.constantFrom('w1', 'w2'),
  }),
  { maxLength: 12 },
)

describe('who gives way', () => {
  it('is the first of a sort of all that may, whatever the order they are looked at in', () => {
    fc.assert(
      fc.property(sketches, fc.constantFrom(undefined, 'w1'), (list, of) => {
        const jobs = list.map((sketch, index) => running(sketch, index + 1))
        const able = jobs
          .filter((job) => of === undefined || job.lease?.holder === of)
          .filter((job) => job.terms.preemptible && job.preempted <= 2 && job.priority <= 85)
        const [first] = able
          .filter((job) => job.startedAt <= NOW - 100)
          .sort((a, b) => a.priority - b.priority || b.startedAt - a.startedAt || b.seq - a.seq)
        const starts = able.map((job) => job.startedAt + 100)
        const at = first === undefined ? Math.min(Number.POSITIVE_INFINITY, ...starts) : Infinity
        expect(victimOf(jobs, URGENT, TERMS, NOW, of)).toEqual({ victim: first, at })
        expect(victimOf(jobs.toReversed(), URGENT, TERMS, NOW, of).victim).toBe(first)
      }),
    )
  })

  it('is nobody while a slot is about to be free', () => {
    const meek = { priority: 1, ranMs: 500, preempted: 0, preemptible: true, holder: 'w1' }
    const nobody = { victim: undefined, at: Number.POSITIVE_INFINITY }
    const hold = { lease: { holder: 'w2', number: 9, hold: true } }
    for (const over of [hold, { evictor: 'other' }]) {
      const jobs = [running(meek, 1), running(meek, 2, over)]
      expect(victimOf(jobs, URGENT, TERMS, NOW)).toEqual(nobody)
    }
  })
})

describe('what is for urgent jobs', () => {
  it('is for those of the priority given that no ageing can overtake', () => {
    expect([isUrgent(90, 90, null), isUrgent(89, 90, null)]).toEqual([true, false])
    const ageing = { everyMs: 1_000, ceiling: 92 }
    expect([isUrgent(92, 90, ageing), isUrgent(93, 90, ageing)]).toEqual([false, true])
  })

  it('is the floor of the share of a cap, at least one, and nothing of no cap', () => {
    const raises = [0, 1, 3, 9, 10, Number.POSITIVE_INFINITY].map((cap) =>
      raiseOf(cap, { ratio: 0.3, minPriority: 90 }),
    )
    expect(raises).toEqual([0, 1, 1, 2, 3, 0])
    expect(raiseOf(10, null)).toBe(0)
  })
})

describe('the share of a worker', () => {
  it('is none where the cap of the pool comes first in any case', () => {
    const rules = (perWorker: number): PoolRules => poolRules({ concurrency: 4, perWorker }, {})
    expect([3, 4, 5].map((each) => shareOf(rules(each)))).toEqual([3, Infinity, Infinity])
  })
})
