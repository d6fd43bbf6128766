// Owns the golden table: every state against every fact, written by hand for people to review.
// May never compute what it expects.

import { describe, expect, it } from 'vitest'
import type { JobStatus, Move, StepName } from '../../src/core/job.ts'
import { isLegal, STEPS } from '../../src/core/steps.ts'
import { FACTS, moveOf, ROWS } from './rows.ts'

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
| running, asks, left | succeed -> success | retry -> ready (BOOM) | fail -> failed (BOOM) |
| running, asks, last | succeed -> success | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, lost 3x    | succeed -> success | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, revived    | succeed -> success | retry -> ready (BOOM) | fail -> failed (BOOM) |
| success             | -                  | -                     | -                     |
| failed              | -                  | -                     | -                     |
| cancelled           | -                  | -                     | -                     |
| cancelled, held     | -                  | -                     | -                     |
`,
  `
|                     | failed, transient     | failed, asked         |
|---------------------|-----------------------|-----------------------|
| pending             | -                     | -                     |
| waiting             | -                     | -                     |
| waiting, doomed     | -                     | -                     |
| ready               | -                     | -                     |
| running, left       | retry -> ready (BOOM) | retry -> ready (BOOM) |
| running, last       | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, once, left | retry -> ready (BOOM) | retry -> ready (BOOM) |
| running, once, last | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, asks, left | retry -> ready (BOOM) | retry -> ready (BOOM) |
| running, asks, last | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, lost 3x    | fail -> failed (BOOM) | fail -> failed (BOOM) |
| running, revived    | retry -> ready (BOOM) | retry -> ready (BOOM) |
| success             | -                     | -                     |
| failed              | -                     | -                     |
| cancelled           | -                     | -                     |
| cancelled, held     | -                     | -                     |
`,
  `
|                     | timedOut                              | timedOut, silent                    |
|---------------------|---------------------------------------|-------------------------------------|
| pending             | -                                     | -                                   |
| waiting             | -                                     | -                                   |
| waiting, doomed     | -                                     | -                                   |
| ready               | -                                     | -                                   |
| running, left       | timeout -> ready (EXECUTION_TIMEOUT)  | timeout -> ready (HEARTBEAT_LOST)   |
| running, last       | timeout -> failed (EXECUTION_TIMEOUT) | timeout -> failed (HEARTBEAT_LOST)  |
| running, once, left | timeout -> failed (OUTCOME_UNKNOWN)   | timeout -> failed (OUTCOME_UNKNOWN) |
| running, once, last | timeout -> failed (EXECUTION_TIMEOUT) | timeout -> failed (HEARTBEAT_LOST)  |
| running, asks, left | timeout -> ready (EXECUTION_TIMEOUT)  | timeout -> ready (HEARTBEAT_LOST)   |
| running, asks, last | timeout -> failed (EXECUTION_TIMEOUT) | timeout -> failed (HEARTBEAT_LOST)  |
| running, lost 3x    | timeout -> failed (EXECUTION_TIMEOUT) | timeout -> failed (HEARTBEAT_LOST)  |
| running, revived    | timeout -> ready (EXECUTION_TIMEOUT)  | timeout -> ready (HEARTBEAT_LOST)   |
| success             | -                                     | -                                   |
| failed              | -                                     | -                                   |
| cancelled           | -                                     | -                                   |
| cancelled, held     | -                                     | -                                   |
`,
  `
|                     | returned                           | returned, unbegun |
|---------------------|------------------------------------|-------------------|
| pending             | -                                  | -                 |
| waiting             | -                                  | -                 |
| waiting, doomed     | -                                  | -                 |
| ready               | -                                  | -                 |
| running, left       | return -> ready                    | return -> ready   |
| running, last       | return -> ready                    | return -> ready   |
| running, once, left | return -> failed (OUTCOME_UNKNOWN) | return -> ready   |
| running, once, last | return -> failed (OUTCOME_UNKNOWN) | return -> ready   |
| running, asks, left | return -> ready                    | return -> ready   |
| running, asks, last | return -> ready                    | return -> ready   |
| running, lost 3x    | return -> ready                    | return -> ready   |
| running, revived    | return -> ready                    | return -> ready   |
| success             | -                                  | -                 |
| failed              | -                                  | -                 |
| cancelled           | -                                  | -                 |
| cancelled, held     | -                                  | -                 |
`,
  `
|                     | preempted                           | preempted, unbegun |
|---------------------|-------------------------------------|--------------------|
| pending             | -                                   | -                  |
| waiting             | -                                   | -                  |
| waiting, doomed     | -                                   | -                  |
| ready               | -                                   | -                  |
| running, left       | preempt -> ready                    | preempt -> ready   |
| running, last       | preempt -> ready                    | preempt -> ready   |
| running, once, left | preempt -> failed (OUTCOME_UNKNOWN) | preempt -> ready   |
| running, once, last | preempt -> failed (OUTCOME_UNKNOWN) | preempt -> ready   |
| running, asks, left | preempt -> ready                    | preempt -> ready   |
| running, asks, last | preempt -> ready                    | preempt -> ready   |
| running, lost 3x    | preempt -> ready                    | preempt -> ready   |
| running, revived    | preempt -> ready                    | preempt -> ready   |
| success             | -                                   | -                  |
| failed              | -                                   | -                  |
| cancelled           | -                                   | -                  |
| cancelled, held     | -                                   | -                  |
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
| running, asks, left | lose -> ready (LOST)             |
| running, asks, last | lose -> ready (LOST)             |
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
| running, asks, left | lose -> ready (LOST)                     | -                   |
| running, asks, last | lose -> ready (LOST)                     | -                   |
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
| running, asks, left | cancel -> cancelled (CANCELLED) | -               |
| running, asks, last | cancel -> cancelled (CANCELLED) | -               |
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
