// Owns what is in a move beside the step: what it compares, how it books, what it keeps and says.
// May never compute what it expects.

import { describe, expect, it } from 'vitest'
import type { Fact, StoredJob } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import { ERROR, FACTS, KEEP, moveOf, ROWS, running } from './rows.ts'

describe('what a move compares', () => {
  it.each([
    'succeeded',
    'failed, retryable',
    'failed, lasting',
    'failed, asked',
    'timedOut',
    'timedOut, silent',
    'returned',
    'preempted',
    'preempted, unbegun',
    'abandoned',
  ])('is the lease, for %s', (fact) => {
    expect(moveOf('running, left', fact)?.expect).toEqual({ lease: 7 })
    expect(moveOf('running, once, last', fact)?.expect).toEqual({ lease: 7 })
  })

  it('is the number of the hold, for settled', () => {
    expect(moveOf('cancelled, held', 'settled')?.expect).toEqual({ lease: 8 })
  })

  it('is the revision, for cancel and retry', () => {
    expect(moveOf('running, left', 'cancel')?.expect).toEqual({ seq: 1, rev: 5, overdue: false })
    expect(moveOf('failed', 'retry')?.expect).toEqual({ seq: 1, rev: 5, overdue: false })
  })

  it.each(Object.keys(ROWS))(
    'is the revision and a deadline that is past, for overdue: %s',
    (row) => {
      const move = moveOf(row, 'overdue')
      if (move === null) expect(['pending', 'waiting']).toContain(row)
      else expect(move.expect).toEqual({ seq: 1, rev: 5, overdue: true })
    },
  )
})

describe('how an attempt is booked', () => {
  it.each([
    ['running, left', 'succeeded', 'attempt', 'success', false],
    ['running, left', 'failed, retryable', 'attempt', 'failure', false],
    ['running, last', 'failed, retryable', 'attempt', 'failure', false],
    ['running, left', 'timedOut', 'attempt', 'timeout', false],
    ['running, once, left', 'timedOut', 'attempt', 'timeout', false],
    ['running, left', 'returned', 'free', 'returned', true],
    ['running, once, left', 'returned', 'attempt', 'returned', false],
    ['running, left', 'timedOut, silent', 'attempt', 'timeout', false],
    ['running, left', 'failed, asked', 'attempt', 'failure', false],
    ['running, left', 'returned, unbegun', 'free', 'returned', true],
    ['running, left', 'preempted', 'preempted', 'preempted', true],
    ['running, left', 'preempted, unbegun', 'preempted', 'preempted', true],
    ['running, asks, left', 'preempted', 'preempted', 'preempted', true],
    ['running, once, left', 'preempted', 'preempted', 'preempted', false],
    ['running, asks, left', 'returned', 'free', 'returned', true],
    ['running, left', 'overdue', 'lost', 'lost', true],
    ['running, lost 3x', 'overdue', 'lost', 'lost', false],
    ['running, once, left', 'overdue', 'lost', 'lost', false],
    ['running, left', 'cancel', 'attempt', 'cancelled', false],
    ['ready', 'cancel', 'attempt', undefined, false],
    ['ready', 'overdue', 'attempt', undefined, false],
  ])('%s x %s: charged as %s, outcome %s, old place %s', (row, fact, charge, outcome, keepRank) => {
    expect(moveOf(row, fact)).toMatchObject({ charge, outcome, keepRank })
  })
})

/** `unknown`: what the job is afterwards; undefined: as it was. */
describe('what an attempt leaves open, and what it says of the downstream', () => {
  it.each([
    ['succeeded', false, 'success'],
    ['failed, retryable', false, 'neutral'],
    ['failed, lasting', false, 'neutral'],
    ['failed, transient', false, 'failure'],
    ['failed, asked', undefined, 'neutral'],
    ['timedOut', true, 'failure'],
    ['timedOut, silent', true, 'failure'],
    ['returned', true, 'neutral'],
    ['returned, unbegun', undefined, 'neutral'],
    ['preempted', true, 'neutral'],
    ['preempted, unbegun', undefined, 'neutral'],
    ['abandoned', true, 'neutral'],
    ['overdue', true, 'neutral'],
    ['cancel', undefined, 'neutral'],
  ])('%s: unknown %s, verdict %s', (fact, unknown, verdict) => {
    for (const row of ['running, left', 'running, last', 'running, asks, left']) {
      const move = moveOf(row, fact)
      expect([move?.unknown, move?.verdict], row).toEqual([unknown, verdict])
    }
  })

  it('is unknown as well where nobody may start it again', () => {
    for (const fact of ['timedOut', 'timedOut, silent', 'returned', 'preempted', 'overdue']) {
      expect(moveOf('running, once, left', fact), fact).toMatchObject({
        code: 'OUTCOME_UNKNOWN',
        unknown: true,
      })
    }
  })

  it('stays as it was when somebody else ends it, or asks for another try', () => {
    for (const [row, fact] of [
      ['ready', 'overdue'],
      ['ready', 'cancel'],
      ['failed', 'retry'],
      ['waiting, doomed', 'overdue'],
    ] as const) {
      expect(moveOf(row, fact)).toMatchObject({ unknown: undefined, verdict: 'neutral' })
    }
  })
})

describe('for how long a record is kept', () => {
  it.each([
    ['running, left', 'succeeded', 1_000],
    ['running, last', 'failed, retryable', 2_000],
    ['running, lost 3x', 'overdue', 2_000],
    ['ready', 'overdue', 2_000],
    ['ready', 'cancel', 3_000],
    ['waiting, doomed', 'overdue', 3_000],
    ['success', 'overdue', 4_000],
  ])('%s x %s: %i ms', (row, fact, keepMs) => {
    expect(moveOf(row, fact)?.keepMs).toBe(keepMs)
  })

  it('is at least the window of its key, after a success', () => {
    const job = { ...(ROWS['running, left'] as StoredJob), keyForMs: 60_000 }
    expect(decide(job, FACTS.succeeded as Fact, KEEP)?.keepMs).toBe(60_000)
    expect(decide(job, FACTS['failed, lasting'] as Fact, KEEP)?.keepMs).toBe(2_000)
  })
})

describe('when the next attempt is due', () => {
  const job = ROWS['running, left'] as StoredJob
  const failed = { type: 'failed', error: ERROR, retryable: true } as const

  it('is what the terms say, or what a function said', () => {
    const own = decide(job, failed, KEEP)?.delayMs ?? 0
    expect(own).toBeGreaterThanOrEqual(500)
    expect(own).toBeLessThanOrEqual(1_000)
    expect(decide(job, { ...failed, delayMs: 42 }, KEEP)?.delayMs).toBe(42)
    expect(decide(job, { type: 'timedOut', delayMs: 43 }, KEEP)?.delayMs).toBe(43)
  })

  it('is never before the moment that the downstream asked for', () => {
    expect(decide(job, { ...failed, retryAfterMs: 90_000 }, KEEP)?.delayMs).toBe(90_000)
    expect(decide(job, { ...failed, delayMs: 42, retryAfterMs: 10 }, KEEP)?.delayMs).toBe(42)
  })

  it('is the same each time it is asked, and another one for another job', () => {
    const again = decide({ ...job }, failed, KEEP)
    expect(decide(job, failed, KEEP)).toEqual(again)
    expect(decide({ ...job, id: 'b' }, failed, KEEP)?.delayMs).not.toBe(again?.delayMs)
  })

  it('is at once after the first loss, and later after the second', () => {
    expect(decide(job, { type: 'overdue' }, KEEP)?.delayMs).toBe(0)
    const second = decide({ ...job, lost: 1 }, { type: 'overdue' }, KEEP)?.delayMs ?? 0
    expect(second).toBeGreaterThanOrEqual(500)
    expect(second).toBeLessThanOrEqual(1_000)
  })

  it('counts failures and losses from the last revival', () => {
    const before = { attempts: 10, attemptsBefore: 9, lost: 5, lostBefore: 5, starts: 15 }
    const revived = { ...job, ...before }
    expect(decide(revived, failed, KEEP)?.delayMs).toBeLessThanOrEqual(1_000)
    expect(decide(revived, { type: 'overdue' }, KEEP)?.delayMs).toBe(0)
  })
})

describe('what a move says', () => {
  it('keeps the code of the error, or calls it HANDLER_FAILED', () => {
    const { code: _, ...plain } = ERROR
    const fact = { type: 'failed', error: plain, retryable: false } as const
    const move = decide(ROWS['running, left'] as StoredJob, fact, KEEP)
    expect(move).toMatchObject({ code: 'HANDLER_FAILED', error: plain })
  })

  it('names the time that was too long', () => {
    const silent = running({ retries: 0, heartbeatMs: 250 })
    const said = (fact: Fact) => decide(silent, fact, KEEP)?.error?.message
    expect(said({ type: 'timedOut' })).toContain('timeout of 500 ms')
    expect(said({ type: 'timedOut', silent: true })).toContain('heartbeat of 250 ms')
  })

  it('says why nobody knows the outcome', () => {
    const said = (fact: string) => moveOf('running, once, left', fact)?.error?.message
    expect(said('timedOut')).toMatch(/timeout of 500 ms.*not idempotent/s)
    expect(said('timedOut, silent')).toMatch(/no progress.*not idempotent/s)
    expect(said('preempted')).toMatch(/urgent.*not idempotent/s)
    expect(said('returned')).toMatch(/stopped.*not idempotent/s)
    expect(said('overdue')).toMatch(/died, stalled.*not idempotent/s)
  })

  it('keeps the result of a success', () => {
    expect(moveOf('running, left', 'succeeded')).toMatchObject({ result: '1', error: undefined })
  })

  it('keeps the reason of whoever cancelled it', () => {
    const move = decide(ROWS.ready as StoredJob, { type: 'cancel', reason: 'Not today.' }, KEEP)
    expect(move?.error).toEqual({ name: 'AxError', message: 'Not today.', code: 'CANCELLED' })
  })

  it('names the culprit of a cascade', () => {
    expect(moveOf('waiting, doomed', 'overdue')?.error?.message).toContain(': b.')
  })
})
