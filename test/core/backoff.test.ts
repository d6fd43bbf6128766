// Owns the properties of the waiting times. May never wait.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { backoffMs, lossDelayMs, seededRandom } from '../../src/core/backoff.ts'
import { idMaker } from '../../src/core/id.ts'
import type { BackoffTerms, StoredJob } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import { jobOf, LEASE, TERMS } from './helpers.ts'

const terms: fc.Arbitrary<BackoffTerms> = fc
  .record({
    type: fc.constantFrom<BackoffTerms['type']>('fixed', 'exponential'),
    delayMs: fc.nat(10_000_000),
    room: fc.nat(10_000_000),
    factor: fc.integer({ min: 1, max: 10 }),
    jitter: fc.boolean(),
  })
  .map(({ room, ...rest }) => ({ ...rest, maxMs: rest.delayMs + room }))

const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

/** The delay before jitter, grown step by step and stopped at the cap. */
function cappedSlowly({ type, delayMs, maxMs, factor }: BackoffTerms, failure: number): number {
  let delay = delayMs
  for (let step = 1; step < failure && type === 'exponential' && delay < maxMs; step += 1) {
    delay = Math.min(maxMs, delay * factor)
  }
  return delay
}

const KEEP = { successMs: 0, failedMs: 0, cancelledMs: 0, outcomesMs: 0, logMs: 0 }

/** How long a job waits after a failure, as the machine decides it; null: it has failed. */
function delayAfter(job: StoredJob): number | null {
  const error = { name: 'Error', message: 'No.' }
  const move = decide(job, { type: 'failed', error, retryable: true }, KEEP)
  return move?.to === 'ready' ? move.delayMs : null
}

function failing(id: string, backoff: BackoffTerms, retries: number, attempts: number): StoredJob {
  return jobOf({
    id,
    status: 'running',
    lease: LEASE,
    terms: { ...TERMS, retries, backoff },
    starts: attempts,
    attempts,
  })
}

describe('backoff', () => {
  it('is capped first and jittered into its upper half, always whole and finite', () => {
    fc.assert(
      fc.property(terms, fc.integer({ min: 1, max: 10_000 }), randoms, (each, failure, random) => {
        const capped = cappedSlowly(each, failure)
        const delay = backoffMs(each, failure, random)
        expect(Number.isSafeInteger(delay)).toBe(true)
        expect(delay).toBeLessThanOrEqual(capped)
        expect(delay).toBeGreaterThanOrEqual(Math.floor(each.jitter ? capped / 2 : capped))
      }),
      { numRuns: 1_000 },
    )
  })

  it('stays nothing when it begins with nothing', () => {
    const none: BackoffTerms = { ...TERMS.backoff, delayMs: 0 }
    for (const failure of [1, 2, 1_024, 1_025, 1_026, 10_000]) {
      expect(backoffMs(none, failure, 0.5)).toBe(0)
    }
  })

  it('C14: grows to its cap and stays there for 1,101 attempts', () => {
    const backoff: BackoffTerms = {
      type: 'exponential',
      delayMs: 300_000,
      maxMs: 3_600_000,
      factor: 2,
      jitter: false,
    }
    const delays: (number | null)[] = []
    for (let attempt = 1; delays.at(-1) !== null; attempt += 1) {
      delays.push(delayAfter(failing('a', backoff, 1_100, attempt)))
    }
    expect(delays).toHaveLength(1_101)
    expect(delays.slice(0, 4)).toEqual([300_000, 600_000, 1_200_000, 2_400_000])
    expect(delays.slice(4, -1)).toEqual(Array.from({ length: 1_096 }, () => 3_600_000))
  })

  it.each([
    [10_000, 60_000],
    [1_000, 60_000],
    [60_000, 10_000],
  ])('C15: 500 jobs that failed together come back apart (delay %i, at most %i)', (delay, max) => {
    const mint = idMaker(() => 0.123)
    const ids = Array.from({ length: 500 }, () => mint(1_700_000_000_000))
    const backoff = { ...TERMS.backoff, delayMs: delay, maxMs: max }
    const dues = () => ids.map((id) => delayAfter(failing(id, backoff, 3, 1)) as number)
    const capped = Math.min(delay, max)
    const all = dues()
    expect(all).toEqual(dues())
    expect(Math.min(...all)).toBeGreaterThanOrEqual(capped / 2)
    expect(Math.max(...all)).toBeLessThanOrEqual(capped)
    const crowd = new Map<number, number>()
    for (const due of all) {
      const bucket = Math.floor((due * 100) / capped)
      crowd.set(bucket, (crowd.get(bucket) ?? 0) + 1)
    }
    expect(Math.max(...crowd.values())).toBeLessThanOrEqual(25)
    if (capped >= 10_000) expect(new Set(all).size).toBeGreaterThanOrEqual(400)
  })

  it('waits after losses for nothing, 1 s, 4 s, 16 s ... at most ten minutes', () => {
    const longest = 1 - 2 ** -32
    const all = [1, 2, 3, 4, 5, 6, 7, 8, 100, 2_000]
    expect(all.map((loss) => lossDelayMs(loss, longest))).toEqual([
      0, 1_000, 4_000, 16_000, 64_000, 256_000, 600_000, 600_000, 600_000, 600_000,
    ])
    expect(all.slice(0, 4).map((loss) => lossDelayMs(loss, 0))).toEqual([0, 500, 2_000, 8_000])
  })
})

describe('the random numbers of a job', () => {
  it('lie in [0, 1) and depend on nothing but the job and the salt', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(1_000_000), (id, salt) => {
        const random = seededRandom(id, salt)
        expect(random).toBeGreaterThanOrEqual(0)
        expect(random).toBeLessThan(1)
        expect(seededRandom(id, salt)).toBe(random)
      }),
    )
  })

  it('are spread evenly over ids that differ by a digit, and over the attempts of one', () => {
    const byId = Array.from({ length: 10_000 }, (_, index) => seededRandom(`job-${index}`, 1))
    const bySalt = Array.from({ length: 10_000 }, (_, index) => seededRandom('job', index))
    for (const numbers of [byId, bySalt]) {
      const tenths = Array.from({ length: 10 }, () => 0)
      for (const number of numbers) {
        const tenth = Math.floor(number * 10)
        tenths[tenth] = (tenths[tenth] ?? 0) + 1
      }
      expect(Math.min(...tenths)).toBeGreaterThan(850)
      expect(Math.max(...tenths)).toBeLessThan(1_150)
    }
  })
})
