// Owns the passage of time for pending jobs: who is let out of `pending` by a lease.
// May never let a retry out that the budget holds.

import type { Heap } from '../../kit/heap.ts'
import { LIMITS } from '../limits.ts'
import type { Board } from './board.ts'
import type { JobRecord } from './record.ts'

/** Lets out whose time has come, by (instant, seq); with a budget, retries after the others. */
export function promote(board: Board): void {
  const { due, retries, now } = board
  const hasBudget = retries.terms !== null
  if (!hasBudget) retries.letGo()
  for (let count = 0; count < LIMITS.chunk; count += 1) {
    const isRetry = !hasBudget && isSooner(retries.due, due)
    if ((isRetry ? retries.due : due).peekKey() > now) break
    letOut(board, isRetry ? retries.pop() : (due.pop() as JobRecord))
  }
  if (!hasBudget) return
  retries.hold(now)
  for (const record of retries.release(now)) letOut(board, record)
}

/** When time alone lets the next one out. */
export function nextDue(board: Board): number {
  return Math.min(board.due.peekKey(), board.retries.nextAt(board.now))
}

function letOut(board: Board, record: JobRecord): void {
  const readyAt = record.has.keepRank ? undefined : record.availableAt
  if (record.has.keepRank) record.rare.keepRank = false
  board.pass(record, 'due', readyAt)
}

/** Whether the first of one heap comes before that of the other, by (key, tie). */
export function isSooner(heap: Heap<JobRecord>, than: Heap<JobRecord>): boolean {
  if (heap.peekKey() !== than.peekKey()) return heap.peekKey() < than.peekKey()
  return heap.peekTie() < than.peekTie()
}
