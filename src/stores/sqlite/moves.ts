// Owns what a move does to a row, and what follows from it.
// May never decide: it compares, writes what the move says, and obeys the rules of store.ts.

import { type Attempt, hasEnded, type Move, type StoredJob } from '../../core/job.ts'
import { isDoomed } from '../../core/quorum.ts'
import { isLegal } from '../../core/steps.ts'
import { LIMITS } from '../../store/limits.ts'
import type { Moved } from '../../store/store.ts'
import { doAlike, LEAST_ALIKE, type Member, viewOfMember } from './alike.ts'
import type { Board } from './board.ts'
import { type Row, viewOf } from './row.ts'

/** What became of a move; the job in it is read when the whole call is over. */
type Result =
  | { readonly status: 'moved' | 'stale'; readonly row: Row }
  | { readonly status: 'moved'; readonly member: Member }
  | Extract<Moved, { status: 'stale' }>
  | { readonly status: 'refused'; readonly row: Row; readonly why: RefusedWhy }

type RefusedWhy = Extract<Moved, { status: 'refused' }>['why']

/** All moves of a call; then what follows for others; then how each job is after that. */
export function applyMoves(board: Board, moves: readonly Move[]): readonly Moved[] {
  board.session.prepare(moves.map(({ id }) => id))
  const results: Result[] = []
  while (results.length < moves.length) {
    const members = alikeAt(board, moves, results.length)
    if (members.length < LEAST_ALIKE) {
      results.push(moveOne(board, moves[results.length] as Move))
    } else moveAlike(board, moves, members, results)
  }
  for (const result of results) {
    if (result.status !== 'moved') continue
    if ('row' in result) follow(board, result.row)
    else if (board.graph.isWaitedFor(result.member.id)) followMember(board, result.member)
  }
  return results.map((result): Moved => {
    if ('member' in result) return { status: 'moved', job: viewOfMember(result.member) }
    if (!('row' in result)) return result
    const job: StoredJob = viewOf(result.row)
    if (result.status === 'refused') return { status: 'refused', job, why: result.why }
    return { status: result.status, job }
  })
}

function moveOne(board: Board, move: Move): Result {
  const row = board.session.byId(move.id)
  if (row === undefined) return { status: 'stale', job: null }
  const legal = isLegal(move.step, row.status, move.to)
  if (!legal || !isExpected(board, row, move)) return { status: 'stale', row }
  if (move.to === 'gone') return forget(board, row, move)
  if (move.step === 'revive') return revive(board, row)
  if (move.step === 'settle') settle(board, row)
  else if (hasEnded(move.to)) end(board, row, move)
  else runAgain(board, row, move)
  return { status: 'moved', row }
}

function isExpected(board: Board, row: Row, { expect, step }: Move): boolean {
  if ('lease' in expect) {
    return row.lease?.number === expect.lease && row.lease.hold === (step === 'settle')
  }
  if (row.seq !== expect.seq || row.rev !== expect.rev) return false
  return !expect.overdue || (row.deadline > 0 && row.deadline <= board.now)
}

/** Those that are alike, and succeed alike, from here on. */
function alikeAt({ session }: Board, moves: readonly Move[], at: number): readonly Member[] {
  const first = moves[at] as Move
  const kin = session.hand.member(first.id)?.kin
  if (first.to !== 'success' || kin?.row.status !== 'running') return NOBODY
  const members = new Set<Member>()
  for (let place = at; place < moves.length; place += 1) {
    const move = moves[place] as Move
    const member = session.hand.member(move.id)
    if (member?.kin !== kin || members.has(member) || !doAlike(first, move)) break
    if (!('lease' in move.expect) || move.expect.lease !== member.lease) break
    members.add(member)
  }
  return [...members]
}

const NOBODY: readonly Member[] = Object.freeze([])

/** Moves the first of them. What became of it becomes of the others. */
function moveAlike(
  board: Board,
  moves: readonly Move[],
  members: readonly Member[],
  results: Result[],
): void {
  const { session } = board
  const at = results.length
  const [first, ...others] = members as readonly [Member, ...Member[]]
  const before = first.kin
  const result = moveOne(board, moves[at] as Move)
  results.push(result)
  if (result.status !== 'moved' || !('row' in result)) return
  for (const [place, member] of others.entries()) {
    const { result: said } = moves[at + 1 + place] as Move
    member.result = typeof said === 'string' ? said : undefined
    session.signs.ended.push(member.id)
  }
  results[at] = { status: 'moved', member: session.repeat(before, result.row, others) }
  for (const member of others) results.push({ status: 'moved', member })
}

/** As `follow`: nobody who is alike has a lane. */
function followMember(board: Board, { id, seq }: Member): void {
  const row = board.session.byId(id)
  if (row?.seq === seq) follow(board, row)
}

/** Dependents are told, the lane goes on. */
function follow(board: Board, row: Row): void {
  if (!hasEnded(row.status) || board.session.byId(row.id) !== row) return
  board.fanOut(row)
  if (row.lease === undefined) board.releaseLane(row)
}

function end(board: Board, row: Row, move: Move): void {
  const to = move.to as 'success' | 'failed' | 'cancelled'
  const { session } = board
  const worker = row.lease?.holder
  const hold = move.step === 'cancel' ? row.lease : undefined
  const { deadline, evictor, stuck } = row
  charge(board, row, move)
  board.leave(row)
  board.drop(row)
  row.error = move.error
  row.code = move.code
  if (to === 'failed') session.countFailure(move.code ?? 'HANDLER_FAILED', 1)
  row.result = typeof move.result === 'string' ? move.result : undefined
  row.finishedAt = board.now
  const cause = move.step === 'cascade' ? row.cause : undefined
  board.enter(row, move.step, to, { worker, code: move.code, cause })
  session.endRank(row)
  if (hold === undefined) board.setDeadline(row, board.now + move.keepMs)
  else {
    board.grant(row, hold.holder, true)
    if (stuck) board.stick(row)
    const urgent = evictor === undefined ? undefined : session.byId(evictor)
    if (urgent !== undefined) board.displace(row, urgent)
    board.setDeadline(row, deadline)
    session.signs.holders.push(hold.holder)
    row.keepMs = move.keepMs
  }
  const isKept = to === 'success' && row.keyForMs > 0
  board.keys.release(row, isKept ? board.now + row.keyForMs : 0)
  session.signs.ended.push(row.id)
  if (to === 'success') unpark(board, board.graph.unname(row))
}

function runAgain(board: Board, row: Row, move: Move): void {
  const worker = row.lease?.holder
  charge(board, row, move)
  board.leave(row)
  board.drop(row)
  if (move.error !== undefined) {
    row.error = move.error
    row.code = move.code
  }
  row.availableAt = board.now + move.delayMs
  board.place(row, move.step, move.keepRank, { worker, code: move.code })
}

function charge(board: Board, row: Row, move: Move): void {
  if (row.status !== 'running') return
  close(board, row, move.outcome, move.code)
  board.show(row, move.verdict)
  if (move.unknown !== undefined) row.unknown = move.unknown
  board.session.touch(row)
  if (move.charge === 'attempt') return
  row.attempts -= 1
  if (move.charge === 'lost') row.lost += 1
  if (move.charge === 'preempted') row.preempted += 1
}

/** Writes the closing record of the attempt that is open. */
function close(
  board: Board,
  row: Row,
  outcome: Attempt['outcome'],
  code: string | undefined,
): void {
  const open = row.log.at(-1)
  if (open === undefined) return
  const closed: Attempt = {
    attempt: open.attempt,
    startedAt: open.startedAt,
    queuedMs: open.queuedMs,
    worker: open.worker,
    callMs: board.now - open.startedAt,
    ...(outcome === undefined ? {} : { outcome }),
    ...(code === undefined ? {} : { code }),
  }
  row.log = [...row.log.slice(0, -1), closed]
  board.session.touch(row)
}

/** A hold is over: slot and lane are free, and the retention counts from the end. */
function settle(board: Board, row: Row): void {
  board.setDeadline(row, 0)
  board.drop(row)
  row.rev += 1
  board.setDeadline(row, row.finishedAt + row.keepMs)
  board.session.signs.ended.push(row.id)
}

function revive(board: Board, row: Row): Result {
  const { session, graph, keys } = board
  const owner = row.key === undefined ? undefined : keys.ownerOf(row.key)
  if (owner !== undefined && owner !== row) {
    return { status: 'refused', row, why: { reason: 'key', owner: owner.id } }
  }
  board.finishFanOut(row)
  const survey = graph.survey(row)
  if (isDoomed(survey.counts)) {
    return { status: 'refused', row, why: { reason: 'doomed', dep: survey.dead ?? row.id } }
  }
  board.leave(row)
  if (row.status === 'failed') session.countFailure(row.code ?? 'HANDLER_FAILED', -1)
  row.error = undefined
  row.code = undefined
  graph.commit(row, survey)
  row.cause = undefined
  row.parked = false
  row.attemptsBefore = row.attempts
  row.lostBefore = row.lost
  if (hasEnded(row.status)) session.beginRank(row)
  else session.weigh(row)
  row.finishedAt = 0
  row.result = undefined
  row.availableAt = board.now
  keys.take(row)
  session.signs.ended.push(row.id)
  if (row.needs > 0) board.enter(row, 'revive', 'waiting')
  else board.place(row, 'revive', false)
  graph.reopen(row)
  return { status: 'moved', row }
}

function forget(board: Board, row: Row, move: Move): Result {
  if (row.lease !== undefined) return { status: 'stale', row }
  const { session } = board
  board.setDeadline(row, 0)
  if (board.graph.isNamed(row.id)) {
    row.parked = true
    return { status: 'refused', row, why: { reason: 'named' } }
  }
  if (isKeptByFlow(board, row)) {
    board.setDeadline(row, board.now + LIMITS.flowMs)
    return { status: 'refused', row, why: { reason: 'named' } }
  }
  board.finishFanOut(row)
  const free = board.graph.forget(row, move.keepMs)
  board.keys.release(row, 0)
  session.tally(row, row.status, -1)
  session.remove(row)
  if (row.status === 'failed') session.countFailure(row.code ?? 'HANDLER_FAILED', -1)
  session.state.forgotten += 1
  session.signs.ended.push(row.id)
  unpark(board, free)
  return { status: 'moved', row }
}

/** Whether the job that its flow is called after is not done with it. */
function isKeptByFlow({ session }: Board, { id, flow }: Row): boolean {
  if (flow === undefined || flow === id) return false
  const head = session.byId(flow)
  return head !== undefined && head.status !== 'success'
}

/** Jobs that nobody names any more, and whose retention has been over for a while. */
export function unpark(board: Board, rows: readonly Row[]): void {
  for (const row of rows) {
    row.parked = false
    board.setDeadline(row, board.now)
    board.session.signs.overdue = true
  }
}

/** A lease that its worker never heard of goes back uncharged; such a hold is settled. */
export function giveBack(board: Board, row: Row): void {
  if (row.lease?.hold === true) {
    settle(board, row)
    board.releaseLane(row)
    return
  }
  const worker = row.lease?.holder
  close(board, row, 'returned', undefined)
  board.show(row, 'neutral')
  row.attempts -= 1
  board.setDeadline(row, 0)
  board.drop(row)
  board.pass(row, 'unheard', undefined, { worker })
}
