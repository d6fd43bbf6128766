// Owns the calls in which time passes: lease, overdue, extend.
// May never hand a job out that some rule holds back.

import { allowance, freeAt, taken } from '../../core/gcra.ts'
import { LIMITS } from '../../store/limits.ts'
import type {
  ExtendAnswer,
  ExtendAsk,
  Extended,
  LeaseAnswer,
  LeaseAsk,
  OverdueAnswer,
  OverdueAsk,
} from '../../store/store.ts'
import { type Member, viewOfMember } from './alike.ts'
import type { Board } from './board.ts'
import { giveBack } from './moves.ts'
import {
  type Call,
  type Head,
  headsAmong,
  headsOf,
  Queue,
  roomIn,
  roomOf,
  Slots,
  suspectHolders,
  takeFrom,
} from './pick.ts'
import { AGAIN, openAttemptOf, type Row, viewOf } from './row.ts'
import type { Session } from './session.ts'
import { dueSchedules } from './timetable.ts'

const NEVER = Number.POSITIVE_INFINITY

/** Promotes what is due, then grants ready jobs, pool by pool in order of name. */
export function lease(board: Board, ask: LeaseAsk): LeaseAnswer {
  const { session } = board
  const inHand = session.readyInHand(ask.types)
  const anyPending = inHand === undefined && session.askOne('anyPending') !== undefined
  if (anyPending) promote(board)
  const jobs: (Row | Member)[] = []
  const heads = inHand === undefined ? headsOf(session, ask.types) : headsAmong(inHand)
  if (!anyPending && heads.length === 0) session.facts.drained = JSON.stringify(ask.types)
  const byPool = new Map<string, Head[]>()
  for (const head of heads) {
    const known = byPool.get(head.pool)
    if (known === undefined) byPool.set(head.pool, [head])
    else known.push(head)
  }
  const areSuspects = heads.some(({ suspect }) => suspect === 1)
  const call: Call = {
    board,
    holder: ask.holder,
    slots: heads.length === 0 ? NO_SLOTS : Slots.of(session),
    caps: heads.length === 0 ? NO_CAPS : capsOf(session),
    hasSuspect: areSuspects && suspectHolders(session).has(ask.holder),
    left: Math.min(ask.max, LIMITS.moves),
    nextAt: NEVER,
    grant: (row, pass) => {
      grant(board, row, ask, pass)
      jobs.push(row)
    },
    repeat: (before, row, others) => {
      jobs[jobs.length - 1] = session.repeat(before, row, others)
      for (const member of others) jobs.push(member)
    },
  }
  for (const name of [...byPool.keys()].sort((a, b) => (a < b ? -1 : 1))) {
    if (call.left <= 0) break
    const pool = board.pools.get(name)
    const most = Math.min(call.left, roomIn(pool, call))
    const queues = (byPool.get(name) ?? []).map((head) => {
      return new Queue(session, head, Math.max(1, Math.min(most, roomOf(head.type, call))))
    })
    takeFrom(pool, queues, call)
  }
  // A lease sends nobody to wait for a time.
  const nextAt = anyPending ? nextOut(board) : NEVER
  const views = jobs.map((job) => ('kin' in job ? viewOfMember(job) : viewOf(job)))
  return { jobs: views, nextAt: Math.min(call.nextAt, nextAt) }
}

const NO_CAPS: ReadonlyMap<string, number> = new Map()
const NO_SLOTS = new Slots([])

function capsOf(session: Session): ReadonlyMap<string, number> {
  const { facts } = session
  if (facts.caps !== undefined) return facts.caps
  const caps = session.all<{ type: string; concurrency: number }>('caps')
  facts.caps = new Map(caps.map((cap) => [cap.type, cap.concurrency]))
  return facts.caps
}

function grant(board: Board, row: Row, ask: LeaseAsk, pass: number): void {
  const { now } = board
  row.pass = pass >= 0 ? pass : row.pass
  board.calm(row)
  board.setDeadline(row, 0)
  row.starts += 1
  row.attempts += 1
  row.startedAt = now
  row.log = [...row.log.slice(1 - LIMITS.attempts), openAttemptOf(row, ask.holder)]
  board.grant(row, ask.holder, false)
  board.lanes.started(row)
  board.enter(row, 'lease', 'running', { worker: ask.holder })
  board.setDeadline(row, now + ask.leaseMs)
}

/** Lets out whose time has come, by (instant, seq); with a budget, retries after the others. */
function promote(board: Board): void {
  const { session, now } = board
  const { state } = session
  const hasBudget = state.budget !== null
  if (!hasBudget) for (const row of session.rows('held', LIMITS.chunk)) hold(board, row, AGAIN.due)
  const due = session.rows('due', AGAIN.no, now, LIMITS.chunk)
  const retries = hasBudget ? NOBODY : session.rows('due', AGAIN.due, now, LIMITS.chunk)
  const all = retries.length === 0 ? due : [...due, ...retries].sort(byInstant)
  for (const row of all.slice(0, LIMITS.chunk)) letOut(board, row)
  if (!hasBudget) return
  standInLine(board)
  for (const row of released(board)) letOut(board, row)
}

const NOBODY: readonly Row[] = Object.freeze([])

function byInstant(a: Row, b: Row): number {
  return a.availableAt - b.availableAt || a.seq - b.seq
}

function hold({ session }: Board, row: Row, again: 1 | 2): void {
  row.again = again
  session.touch(row)
}

/** Retries whose time has come stand in line for the budget. Changes nothing that shows. */
function standInLine(board: Board): void {
  const due = board.session.rows('due', AGAIN.due, board.now, LIMITS.chunk)
  for (const row of due) hold(board, row, AGAIN.held)
}

/**
 * As many of those that are due as the budget has now, the best first. Nobody as long as not all
 * who are due stand in line: one who comes late may be the best.
 */
function released({ session, now }: Board): readonly Row[] {
  const { state } = session
  const first = session.number('nextDue', AGAIN.due) ?? NEVER
  if (state.budget === null || first <= now) return NOBODY
  const count = Math.min(allowance(state.budget, state.budgetTat, now), LIMITS.chunk)
  const rows = count === 0 ? NOBODY : session.rows('held', count)
  state.budgetTat = taken(state.budget, state.budgetTat, now, rows.length)
  return rows
}

function letOut(board: Board, row: Row): void {
  const readyAt = row.keepRank ? undefined : row.availableAt
  row.keepRank = false
  row.again = AGAIN.no
  board.pass(row, 'due', readyAt)
}

/** When time alone lets the next one out. */
function nextOut({ session, now }: Board): number {
  const { budget, budgetTat } = session.state
  const due = session.number('nextDue', AGAIN.no) ?? NEVER
  const retry = session.number('nextDue', AGAIN.due) ?? NEVER
  const isHeld = (session.number('heldCount', 1) ?? 0) > 0
  if (!isHeld) return Math.min(due, retry)
  return Math.min(due, retry, budget === null ? now : Math.max(now, freeAt(budget, budgetTat)))
}

/** Jobs at whose deadline somebody has to decide; also continues what was left unfinished. */
export function overdue(board: Board, ask: OverdueAsk): OverdueAnswer {
  const { session, now, announced } = board
  board.continueFanOuts()
  board.continueRanking()
  if (session.first('oldOutcome', now) !== undefined) {
    session.run('pruneOutcomes', now, LIMITS.prune)
  }
  if (session.first('idleWeight') !== undefined) session.run('dropWeights')
  const oldestAt = pruneLog(session, now - ask.keepLogMs)
  const limit = Math.min(ask.limit, LIMITS.moves)
  const late = [
    ...session.rows('waits', now, limit),
    ...session.rows('ends', now, limit),
    ...session.rows('pastEnds', now, limit),
  ]
  const jobs = late.sort((a, b) => a.deadline - b.deadline || a.seq - b.seq).slice(0, limit)
  const schedules = dueSchedules(session, limit)
  announced.wait = Math.min(session.number('nextWait') ?? NEVER, schedules.nextAt)
  announced.quiet = session.number('nextEnd') ?? NEVER
  const unfinished = (session.number('fanOutCount') ?? 0) > 0 || session.state.unranked > 0
  const isFull = jobs.length === limit || schedules.rows.length === limit
  // An entry is dropped once it is older than that, a millisecond later than its age.
  const nextPrune = oldestAt + ask.keepLogMs + 1
  return {
    jobs: jobs.map(viewOf),
    schedules: schedules.rows,
    nextAt: announced.wait,
    nextQuietAt: Math.min(announced.quiet, nextPrune),
    more: unfinished || isFull || nextPrune <= now,
  }
}

/** Drops entries from before `time`, at most LIMITS.prune. Answers when the oldest was written. */
function pruneLog(session: Session, time: number): number {
  const { state } = session
  session.writeLog()
  const oldestAt = () => session.number('oldestEvent', state.oldestEvent) ?? NEVER
  const first = oldestAt()
  if (first >= time) return first
  const end = Math.min(state.oldestEvent + LIMITS.prune, state.lastEvent + 1)
  const found = session.first<{ seq: number | null }>('firstKept', state.oldestEvent, end, time)
  state.oldestEvent = found?.seq ?? end
  session.run('dropBatches', state.oldestEvent)
  return oldestAt()
}

/** Prolongs what a worker holds; what it does not list, and never heard of, goes back. */
export function extend(board: Board, ask: ExtendAsk): ExtendAnswer {
  const { session } = board
  session.prepare(ask.held.map(({ id }) => id))
  const listed = new Set<number>()
  const leases = ask.held.map((held) => extendOne(board, held, ask, listed))
  const mine = [...session.rows('heldBy', ask.holder)].sort((a, b) => numberOf(a) - numberOf(b))
  for (const row of mine) {
    const number = numberOf(row)
    if (number <= ask.upTo && !listed.has(number)) giveBack(board, row)
  }
  return { leases, mark: session.state.lastLease }
}

function numberOf({ lease }: Row): number {
  return lease?.number ?? 0
}

function extendOne(
  board: Board,
  held: ExtendAsk['held'][number],
  ask: ExtendAsk,
  listed: Set<number>,
): Extended {
  const row = board.session.byId(held.id)
  const lease = row?.lease
  if (row === undefined || lease?.holder !== ask.holder) return { status: 'lost' }
  if (!lease.hold && lease.number !== held.lease) return { status: 'lost' }
  listed.add(lease.number)
  board.setDeadline(row, board.now + ask.leaseMs)
  if (held.stuck === true) board.stick(row)
  if (held.note !== undefined) row.note = held.note
  if (lease.hold) return { status: 'cancelled', lease }
  const by = row.evictor
  return by === undefined ? { status: 'held' } : { status: 'evicted', by }
}
