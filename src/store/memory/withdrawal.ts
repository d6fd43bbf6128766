// Owns taking jobs out that others will take the place of, as if they had never been submitted.
// May never take out what has a lease, or has succeeded.

import { hasEnded } from '../../core/job.ts'
import type { Board } from './board.ts'
import type { JobRecord } from './record.ts'
import { takesPlace } from './room.ts'

/** All of them; then their lanes go on. */
export function withdraw(board: Board, records: readonly JobRecord[]): void {
  for (const record of records) withdrawOne(board, record)
  for (const record of records) board.releaseLane(record)
}

function withdrawOne(board: Board, record: JobRecord): void {
  const { queue, status } = record
  board.finishFanOut(record)
  board.leave(record)
  if (!hasEnded(status)) board.ranks.end(record)
  board.graph.reopen(record)
  const free = board.graph.withdraw(record)
  board.keys.release(record, 0)
  board.catalog.remove(record)
  board.records.delete(record.id)
  queue.counts[status] -= 1
  if (queue.pool.room !== undefined) queue.pool.room.queued -= Number(takesPlace(status))
  board.pools.release(queue)
  if (status === 'failed') board.countFailure(record.code ?? 'HANDLER_FAILED', -1)
  board.forgotten += 1
  board.hintEnded.push(record.id)
  board.unpark(free)
}
