// Owns taking jobs out that others take the place of, as if they had never been submitted.
// May never take out what has a lease, or has succeeded.

import { hasEnded } from '../../core/job.ts'
import type { InsertAnswer, ReplaceGroup } from '../../store/store.ts'
import type { Board } from './board.ts'
import { insertGroups } from './insertion.ts'
import { unpark } from './moves.ts'
import type { Row } from './row.ts'

/** Thrown to have the transaction rolled back: the group was refused when the old were out. */
export class Undone extends Error {
  readonly answer: InsertAnswer

  constructor(answer: InsertAnswer) {
    super('A replacement was refused.')
    this.answer = answer
  }
}

/** Out with the old, in with the new. Throws Undone where that is refused. */
export function replaceJobs(board: Board, { gone, ...group }: ReplaceGroup): InsertAnswer {
  const { session } = board
  session.prepare(gone.map(({ id }) => id))
  const rows: Row[] = []
  for (const { id, seq, rev } of gone) {
    const row = session.byId(id)
    const stands = row?.seq === seq && row.rev === rev && row.lease === undefined
    if (!stands || row.status === 'success') return { status: 'stale' }
    rows.push(row)
  }
  for (const row of rows) withdraw(board, row)
  for (const row of rows) {
    board.releaseLane(row)
    // Giving its lane up has touched it.
    session.remove(row)
  }
  const [answer] = insertGroups(board, [group], true) as [InsertAnswer]
  if (answer.status !== 'done') throw new Undone(answer)
  return answer
}

function withdraw(board: Board, row: Row): void {
  const { session, graph } = board
  board.finishFanOut(row)
  board.leave(row)
  if (!hasEnded(row.status)) session.endRank(row)
  graph.reopen(row)
  const free = graph.withdraw(row)
  board.keys.release(row, 0)
  session.tally(row, row.status, -1)
  session.remove(row)
  if (row.status === 'failed') session.countFailure(row.code ?? 'HANDLER_FAILED', -1)
  session.state.forgotten += 1
  session.signs.ended.push(row.id)
  unpark(board, free)
}
