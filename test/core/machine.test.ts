// Owns the golden table: every state against every fact, written by hand for people to review.
// May never compute what it expects.

import { describe, expect, it } from 'vitest'
import type { Fact, JobStatus, Move, StepName, StoredJob } from '../../src/core/job.ts'
import { decide, type Keep } from '../../src/core/machine.ts'
import { isLegal, STEPS } from '../../src/core/steps.ts'
import { HOLD, jobOf, LEASE, TERMS } from './helpers.ts'

const KEEP: Keep = {
  successMs: 1_000,
  failedMs: 2_000,
  cancelledMs: 3_000,
  outcomesMs: 4_000,
  logMs: 5_000,
}

const ERROR = { name: 'Error', message: 'No.', code: 'BOOM' }

/** `left`: an attempt is left. `last`: none is. `once`: not idempotent. `revived`: just allowed. */
const ROWS: Readonly<Record<string, StoredJob>> = {
  pending: jobOf({ availableAt: 9_000 }),
  waiting: jobOf({ status: 'waiting', needs: 1, open: 1, deps: [{ id: 'b', on: 'success' }] }),
  'waiting, doomed': jobOf({ status: 'waiting', needs: 1, open: 0, cause: 'b', deadline: 2_000 }),
  ready: jobOf({ status: 'ready', enqueueTimeoutMs: 50, deadline: 1_050 }),
  'running, left': running({ retries: 2 }),
  'running, last': running({ retries: 0 }),
  'running, once, left': running({ retries: 2, idempotent: false }),
  'running, once, last': running({ retries: 0, idempotent: false }),
  'running, lost 3x': running({ retries: 0 }, { starts: 4, lost: 3 }),
  'running, revived': running(
    { retries: 1 },
    { starts: 7, attempts: 2, attemptsBefore: 1, lost: 5, lostBefore: 3 },
  ),
  success: ended('success'),
  failed: ended('failed'),
  cancelled: ended('cancelled'),
  'cancelled, held': { ...ended('cancelled'), lease: HOLD },
}

const FACTS: Readonly<Record<string, Fact>> = {
  succeeded: { type: 'succeeded', result: '1' },
  'failed, retryable': { type: 'failed', error: ERROR, retryable: true },
  'failed, lasting': { type: 'failed', error: ERROR, retryable: false },
  timedOut: { type: 'timedOut' },
  returned: { type: 'returned' },
  'returned, unbegun': { type: 'returned', unbegun: true },
  abandoned: { type: 'abandoned' },
  settled: { type: 'settled' },
  overdue: { type: 'overdue' },
  cancel: { type: 'cancel' },
  retry: { type: 'retry' },
}

/** `step -> to (code)`, or `-` where the fact means nothing. */
const GOLDEN = [
  `
|                     | succeeded          | failed, retryable     | failed, lasting       |
|---------------------|--------------------|-----------------------|-----------------------|
| pending             | -                  | -                     | -                     |
| waiting             | -                  | -                     | -                     |
| waiting, doomed     | -                  | -                     | -                     |
| ready               | -                  | -                     | -                     |
| running, left       | succeed -> success | retry -> ready (BOOM) | fail -> failed (BOOM) |
| running, last       | succeed -> success | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, once, left | succeed -> success | retry -> ready (BOOM) | fail -> failed (BOOM) |
| running, once, last | succeed -> success | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, lost 3x    | succeed -> success | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, revived    | succeed -> success | retry -> ready (BOOM) | fail -> failed (BOOM) |
| success             | -                  | -                     | -                     |
| failed              | -                  | -                     | -                     |
| cancelled           | -                  | -                     | -                     |
| cancelled, held     | -                  | -                     | -                     |
`,
  `
|                     | timedOut                              | returned                           |
|---------------------|---------------------------------------|------------------------------------|
| pending             | -                                     | -                                  |
| waiting             | -                                     | -                                  |
| waiting, doomed     | -                                     | -                                  |
| ready               | -                                     | -                                  |
| running, left       | timeout -> ready (EXECUTION_TIMEOUT)  | return -> ready                    |
| running, last       | timeout -> failed (EXECUTION_TIMEOUT) | return -> ready                    |
| running, once, left | timeout -> failed (OUTCOME_UNKNOWN)   | return -> failed (OUTCOME_UNKNOWN) |
| running, once, last | timeout -> failed (EXECUTION_TIMEOUT) | return -> failed (OUTCOME_UNKNOWN) |
| running, lost 3x    | timeout -> failed (EXECUTION_TIMEOUT) | return -> ready                    |
| running, revived    | timeout -> ready (EXECUTION_TIMEOUT)  | return -> ready                    |
| success             | -                                     | -                                  |
| failed              | -                                     | -                                  |
| cancelled           | -                                     | -                                  |
| cancelled, held     | -                                     | -                                  |
`,
  `
|                     | returned, unbegun |
|---------------------|-------------------|
| pending             | -                 |
| waiting             | -                 |
| waiting, doomed     | -                 |
| ready               | -                 |
| running, left       | return -> ready   |
| running, last       | return -> ready   |
| running, once, left | return -> ready   |
| running, once, last | return -> ready   |
| running, lost 3x    | return -> ready   |
| running, revived    | return -> ready   |
| success             | -                 |
| failed              | -                 |
| cancelled           | -                 |
| cancelled, held     | -                 |
`,
  `
|                     | abandoned                        |
|---------------------|----------------------------------|
| pending             | -                                |
| waiting             | -                                |
| waiting, doomed     | -                                |
| ready               | -                                |
| running, left       | lose -> ready (LOST)             |
| running, last       | lose -> ready (LOST)             |
| running, once, left | lose -> failed (OUTCOME_UNKNOWN) |
| running, once, last | lose -> failed (OUTCOME_UNKNOWN) |
| running, lost 3x    | lose -> failed (LOST)            |
| running, revived    | lose -> ready (LOST)             |
| success             | -                                |
| failed              | -                                |
| cancelled           | -                                |
| cancelled, held     | -                                |
`,
  `
|                     | overdue                                  | settled             |
|---------------------|------------------------------------------|---------------------|
| pending             | -                                        | -                   |
| waiting             | -                                        | -                   |
| waiting, doomed     | cascade -> cancelled (DEPENDENCY_FAILED) | -                   |
| ready               | expire -> failed (ENQUEUE_TIMEOUT)       | -                   |
| running, left       | lose -> ready (LOST)                     | -                   |
| running, last       | lose -> ready (LOST)                     | -                   |
| running, once, left | lose -> failed (OUTCOME_UNKNOWN)         | -                   |
| running, once, last | lose -> failed (OUTCOME_UNKNOWN)         | -                   |
| running, lost 3x    | lose -> failed (LOST)                    | -                   |
| running, revived    | lose -> ready (LOST)                     | -                   |
| success             | forget -> gone                           | -                   |
| failed              | forget -> gone                           | -                   |
| cancelled           | forget -> gone                           | -                   |
| cancelled, held     | settle -> cancelled                      | settle -> cancelled |
`,
  `
|                     | cancel                          | retry           |
|---------------------|---------------------------------|-----------------|
| pending             | cancel -> cancelled (CANCELLED) | -               |
| waiting             | cancel -> cancelled (CANCELLED) | -               |
| waiting, doomed     | -                               | revive -> ready |
| ready               | cancel -> cancelled (CANCELLED) | -               |
| running, left       | cancel -> cancelled (CANCELLED) | -               |
| running, last       | cancel -> cancelled (CANCELLED) | -               |
| running, once, left | cancel -> cancelled (CANCELLED) | -               |
| running, once, last | cancel -> cancelled (CANCELLED) | -               |
| running, lost 3x    | cancel -> cancelled (CANCELLED) | -               |
| running, revived    | cancel -> cancelled (CANCELLED) | -               |
| success             | -                               | -               |
| failed              | -                               | revive -> ready |
| cancelled           | -                               | revive -> ready |
| cancelled, held     | -                               | -               |
`,
]

interface Cell {
  readonly row: string
  readonly fact: string
  readonly expected: string
}

const CELLS = GOLDEN.flatMap(cellsOf)

function running(terms: Partial<StoredJob['terms']>, fields: Partial<StoredJob> = {}): StoredJob {
  return jobOf({
    status: 'running',
    terms: { ...TERMS, timeoutMs: 500, ...terms },
    lease: LEASE,
    starts: 1,
    attempts: 1,
    startedAt: 1_500,
    deadline: 2_000,
    ...fields,
  })
}

function ended(status: 'success' | 'failed' | 'cancelled'): StoredJob {
  return jobOf({ status, starts: 1, attempts: 1, finishedAt: 2_000, deadline: 3_000 })
}

function cellsOf(table: string): Cell[] {
  const [head = [], , ...rows] = table
    .trim()
    .split('\n')
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
  return rows.flatMap(([row = '', ...cells]) =>
    cells.map((expected, index) => ({ row, fact: head[index + 1] ?? '', expected })),
  )
}

function show(move: Move | null): string {
  if (move === null) return '-'
  return `${move.step} -> ${move.to}${move.code === undefined ? '' : ` (${move.code})`}`
}

function moveOf(row: string, fact: string, keep = KEEP): Move | null {
  return decide(ROWS[row] as StoredJob, FACTS[fact] as Fact, keep)
}

function movesOf(): { row: string; move: Move }[] {
  return CELLS.flatMap(({ row, fact }) => {
    const move = moveOf(row, fact)
    return move === null ? [] : [{ row, move }]
  })
}

describe('the golden table', () => {
  it('has a cell for every state and every fact', () => {
    const written = CELLS.map(({ row, fact }) => `${row} x ${fact}`)
    const all = Object.keys(ROWS).flatMap((row) =>
      Object.keys(FACTS).map((fact) => `${row} x ${fact}`),
    )
    expect([...written].sort()).toEqual([...all].sort())
  })

  it.each(CELLS)('$row x $fact: $expected', ({ row, fact, expected }) => {
    expect(show(moveOf(row, fact))).toBe(expected)
  })

  it('has moves that the table of transitions knows, and no others', () => {
    const illegal = movesOf().filter(({ row, move }) => {
      return !isLegal(move.step, ROWS[row]?.status as JobStatus, move.to)
    })
    expect(illegal).toEqual([])
  })

  it('takes every step that is a decision, and none that is a rule', () => {
    const taken = new Set(movesOf().map(({ move }) => move.step))
    const decisions = Object.entries(STEPS).filter(([, step]) => step.by === 'decision')
    expect([...taken].sort()).toEqual(decisions.map(([name]) => name).sort())
  })
})

describe('the table of transitions', () => {
  it('lets an ended job change only by another try, or by being forgotten', () => {
    const names = Object.keys(STEPS) as StepName[]
    for (const end of ['success', 'failed', 'cancelled'] as const) {
      const steps = names.filter((name) => STEPS[name].from.includes(end))
      const allowed: StepName[] = end === 'success' ? ['forget'] : ['revive', 'forget']
      if (end === 'cancelled') allowed.unshift('settle')
      expect(steps).toEqual(allowed)
    }
  })

  it('starts jobs from ready alone', () => {
    const starts = Object.entries(STEPS).filter(([, step]) => step.to.includes('running'))
    expect(starts.map(([name, step]) => [name, step.from])).toEqual([['lease', ['ready']]])
  })

  it('knows nothing that it does not list', () => {
    expect(isLegal('succeed', 'running', 'success')).toBe(true)
    expect(isLegal('succeed', 'ready', 'success')).toBe(false)
    expect(isLegal('succeed', 'running', 'failed')).toBe(false)
    expect(isLegal('add', 'new', 'running')).toBe(false)
  })
})

describe('what a move compares', () => {
  it.each(['succeeded', 'failed, retryable', 'failed, lasting', 'timedOut', 'returned'])(
    'is the lease, for %s',
    (fact) => {
      expect(moveOf('running, left', fact)?.expect).toEqual({ lease: 7 })
      expect(moveOf('running, once, last', fact)?.expect).toEqual({ lease: 7 })
    },
  )

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
