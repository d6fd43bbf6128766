// Owns what a move does to a record, and what follows from it.
// May never decide: it compares, writes what the move says, and obeys the rules of store.ts.

import { type Attempt, hasEnded, type Move } from '../../core/job.ts'
import { isDoomed } from '../../core/quorum.ts'
import { isLegal } from '../../core/steps.ts'
import { LIMITS } from '../limits.ts'
import type { Moved } from '../store.ts'
import type { Board } from './board.ts'
import type { JobRecord } from './record.ts'

const NOTHING = Object.freeze({})

export class Moves {
  readonly #board: Board

  constructor(board: Board) {
    this.#board = board
  }

  /** Phase one: a move happens if what it expects is true. */
  move(move: Move): Moved {
    const record = this.#board.records.get(move.id)
    if (record === undefined) return { status: 'stale', job: null }
    const legal = isLegal(move.step, record.status, move.to)
    if (!legal || !this.#isExpected(record, move)) return { status: 'stale', job: record }
    if (move.to === 'gone') return this.#forget(record, move)
    if (move.step === 'revive') return this.#revive(record)
    if (move.step === 'settle') this.#settle(record)
    else if (hasEnded(move.to)) this.#end(record, move)
    else this.#runAgain(record, move)
    return { status: 'moved', job: record }
  }

  #isExpected(record: JobRecord, { expect, step }: Move): boolean {
    if ('lease' in expect) {
      const { lease } = record
      return lease?.number === expect.lease && lease.hold === (step === 'settle')
    }
    if (record.seq !== expect.seq || record.rev !== expect.rev) return false
    return !expect.overdue || (record.deadline > 0 && record.deadline <= this.#board.now)
  }

  /** Phase two: what follows for others. Dependents are told, the lane goes on. */
  follow(record: JobRecord): void {
    if (!hasEnded(record.status)) return
    this.#board.fanOut(record)
    if (record.lease === undefined) this.#board.releaseLane(record)
  }

  #end(record: JobRecord, move: Move): void {
    const board = this.#board
    const to = move.to as 'success' | 'failed' | 'cancelled'
    const worker = record.lease?.holder
    const hold = move.step === 'cancel' && record.lease !== undefined ? record.lease : undefined
    const { deadline } = record
    const { evictor, stuck } = record.has
    this.#charge(record, move)
    board.leave(record)
    board.drop(record)
    board.setFailure(record, move.error, move.code)
    if (to === 'failed') board.countFailure(move.code ?? 'HANDLER_FAILED', 1)
    record.result = move.result
    record.finishedAt = board.now
    board.enter(record, move.step, to, { worker, code: move.code, cause: causeOf(record, move) })
    board.ranks.end(record)
    if (hold === undefined) board.setDeadline(record, board.now + move.keepMs)
    else {
      board.grant(record, hold.holder, true)
      if (stuck) board.stick(record)
      if (evictor !== undefined) board.displace(record, evictor)
      board.setDeadline(record, deadline)
      board.hintHolders.push(hold.holder)
      record.rare.keepMs = move.keepMs
    }
    board.keys.release(
      record,
      to === 'success' && record.keyForMs > 0 ? board.now + record.keyForMs : 0,
    )
    board.hintEnded.push(record.id)
    if (to === 'success') board.unpark(board.graph.unname(record))
  }

  #runAgain(record: JobRecord, move: Move): void {
    const board = this.#board
    const worker = record.lease?.holder
    this.#charge(record, move)
    board.leave(record)
    board.drop(record)
    if (move.error !== undefined) board.setFailure(record, move.error, move.code)
    record.availableAt = board.now + move.delayMs
    board.place(record, move.step, move.keepRank, { worker, code: move.code })
  }

  #charge(record: JobRecord, move: Move): void {
    if (record.status !== 'running') return
    this.#close(record, move.outcome, move.code)
    this.#board.show(record, move.verdict)
    if (move.unknown !== undefined && move.unknown !== record.unknown) {
      record.rare.unknown = move.unknown
    }
    if (move.charge === 'attempt') return
    record.attempts -= 1
    if (move.charge === 'lost') record.rare.lost += 1
    if (move.charge === 'preempted') record.rare.preempted += 1
  }

  /** Writes the closing record of the attempt that is open. */
  #close(record: JobRecord, outcome: Attempt['outcome'], code: string | undefined): void {
    const open = record.latest
    if (open === undefined) return
    record.latest = {
      attempt: open.attempt,
      startedAt: open.startedAt,
      queuedMs: open.queuedMs,
      worker: open.worker,
      callMs: this.#board.now - open.startedAt,
      ...(outcome === undefined ? NOTHING : { outcome }),
      ...(code === undefined ? NOTHING : { code }),
    }
  }

  /** A hold is over: slot and lane are free, and the retention counts from the end. */
  #settle(record: JobRecord): void {
    const board = this.#board
    board.setDeadline(record, 0)
    board.drop(record)
    record.rev += 1
    board.setDeadline(record, record.finishedAt + record.has.keepMs)
    board.hintEnded.push(record.id)
  }

  #revive(record: JobRecord): Moved {
    const board = this.#board
    const { key } = record
    const owner = key === undefined ? undefined : board.keys.ownerOf(key, board.now)
    if (owner !== undefined && owner !== record) {
      return { status: 'refused', job: record, why: { reason: 'key', owner: owner.id } }
    }
    board.finishFanOut(record)
    const survey = board.graph.survey(record, board.now)
    if (isDoomed(survey.counts)) {
      const dep = survey.dead ?? record.id
      return { status: 'refused', job: record, why: { reason: 'doomed', dep } }
    }
    board.leave(record)
    if (record.status === 'failed') board.countFailure(record.code ?? 'HANDLER_FAILED', -1)
    board.setFailure(record, undefined, undefined)
    const { rare } = record
    board.graph.commit(record, survey)
    rare.cause = undefined
    rare.parked = false
    rare.attemptsBefore = record.attempts
    rare.lostBefore = record.lost
    if (hasEnded(record.status)) board.ranks.begin(record)
    else board.ranks.weigh(record)
    record.finishedAt = 0
    record.result = undefined
    record.availableAt = board.now
    board.keys.take(record)
    board.hintEnded.push(record.id)
    if (record.needs > 0) board.enter(record, 'revive', 'waiting')
    else board.place(record, 'revive', false)
    board.graph.reopen(record)
    return { status: 'moved', job: record }
  }

  #forget(record: JobRecord, move: Move): Moved {
    const board = this.#board
    if (record.lease !== undefined) return { status: 'stale', job: record }
    board.setDeadline(record, 0)
    if ((record.node?.namers ?? 0) > 0) {
      record.rare.parked = true
      return { status: 'refused', job: record, why: { reason: 'named' } }
    }
    if (isKeptByFlow(board.records, record)) {
      board.setDeadline(record, board.now + LIMITS.flowMs)
      return { status: 'refused', job: record, why: { reason: 'named' } }
    }
    board.finishFanOut(record)
    const free = board.graph.forget(record, move.keepMs, board.now)
    board.keys.release(record, 0)
    board.catalog.remove(record)
    board.records.delete(record.id)
    record.queue.counts[record.status] -= 1
    board.pools.release(record.queue)
    if (record.status === 'failed') board.countFailure(record.code ?? 'HANDLER_FAILED', -1)
    board.forgotten += 1
    board.hintEnded.push(record.id)
    board.unpark(free)
    return { status: 'moved', job: record }
  }

  /** A lease that its worker never heard of goes back uncharged; such a hold is settled. */
  giveBack(record: JobRecord): void {
    const board = this.#board
    if (record.lease?.hold === true) {
      this.#settle(record)
      board.releaseLane(record)
      return
    }
    const worker = record.lease?.holder
    this.#close(record, 'returned', undefined)
    board.show(record, 'neutral')
    record.attempts -= 1
    board.setDeadline(record, 0)
    board.drop(record)
    board.pass(record, 'unheard', undefined, { worker })
  }
}

/** Whether the job that its flow is called after is not done with it. */
function isKeptByFlow(records: ReadonlyMap<string, JobRecord>, { id, flow }: JobRecord): boolean {
  if (flow === undefined || flow === id) return false
  const head = records.get(flow)
  return head !== undefined && head.status !== 'success'
}

/** A job cancelled for its dependencies carries their culprit; no other end has one. */
function causeOf(record: JobRecord, move: Move): string | undefined {
  return move.step === 'cascade' ? record.cause : undefined
}
