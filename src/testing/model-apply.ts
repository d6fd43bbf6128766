// Owns how the model writes decisions: compare, check the table, move; then tell the others.
// May never decide: what a move says is done, or it is refused.

import type { JobStatus, Move, StepName } from '../core/job.ts'
import type { RefusedMove } from '../store/store.ts'
import { loosen, show } from './model-pools.ts'
import {
  closeAttempt,
  edgeStateOf,
  find,
  freeLane,
  hasEnded,
  isDoomed,
  keyOwner,
  needsOf,
  openOf,
  place,
  type Row,
  record,
  type World,
  weighed,
} from './model-world.ts'

export type MoveResult =
  | { readonly status: 'moved'; readonly gone?: Row }
  | { readonly status: 'stale' }
  | { readonly status: 'refused'; readonly why: RefusedMove }

/** Where each decision may begin, and where it may lead. */
const LEGAL: Readonly<Partial<Record<StepName, readonly [from: string, to: string]>>> = {
  succeed: ['running', 'success'],
  fail: ['running', 'failed'],
  retry: ['running', 'pending ready'],
  timeout: ['running', 'pending ready failed'],
  lose: ['running', 'pending ready failed'],
  return: ['running', 'ready failed'],
  preempt: ['running', 'ready failed'],
  cancel: ['waiting pending ready running', 'cancelled'],
  settle: ['cancelled', 'cancelled'],
  expire: ['ready', 'failed'],
  cascade: ['waiting', 'cancelled'],
  revive: ['failed cancelled waiting', 'waiting pending ready'],
  forget: ['success failed cancelled', 'gone'],
}

/** Until a job that its flow keeps is looked at again. */
const FLOW_MS = 3_600_000

const NO_COMING: ReadonlySet<string> = new Set()

export function applyMoves(world: World, moves: readonly Move[]): MoveResult[] {
  const results = moves.map((move) => {
    const result = applyOne(world, move)
    loosen(world)
    unblockForgetting(world)
    return result
  })
  for (const [index, move] of moves.entries()) {
    const row = find(world, move.id)
    if (results[index]?.status !== 'moved' || row === undefined) continue
    if (move.step !== 'settle' && hasEnded(row.status)) tellDependents(world, row)
    freeLaneIfEnded(world, row)
  }
  loosen(world)
  return results
}

function applyOne(world: World, move: Move): MoveResult {
  const row = find(world, move.id)
  if (row === undefined || !isExpected(world, row, move)) return { status: 'stale' }
  const [from, to] = LEGAL[move.step] ?? ['', '']
  if (!from.split(' ').includes(row.status) || !to.split(' ').includes(move.to)) {
    return { status: 'stale' }
  }
  if (move.step === 'forget') return forget(world, row, move)
  if (move.step === 'revive') return revive(world, row, move)
  row.rev += 1
  if (move.step === 'settle') settle(row)
  else if (move.to === 'ready') runAgain(world, row, move)
  else end(world, row, move)
  return { status: 'moved' }
}

function isExpected(world: World, row: Row, move: Move): boolean {
  const { expect } = move
  if ('lease' in expect) return world.rules.leaseIsCurrent(row, expect.lease)
  if (row.seq !== expect.seq || row.rev !== expect.rev) return false
  return !expect.overdue || (row.deadline > 0 && row.deadline <= world.now())
}

/** Books the open attempt of a running job; answers who held its lease. */
function book(world: World, row: Row, move: Move): string | undefined {
  if (row.status !== 'running') return undefined
  closeAttempt(world, row, move.outcome, move.code)
  show(world, row, world.rules.shows(move))
  if (move.charge !== 'attempt') row.attempts -= 1
  if (move.charge === 'lost') row.lost += 1
  if (move.charge === 'preempted') row.preempted += 1
  if (move.unknown !== undefined) row.unknown = move.unknown
  return row.lease?.holder
}

function runAgain(world: World, row: Row, move: Move): void {
  const from = row.status
  const worker = book(world, row, move)
  if (move.error !== undefined) {
    row.error = move.error
    row.code = move.code
  }
  row.lease = undefined
  row.availableAt = world.now() + move.delayMs
  row.keepsRank = move.keepRank
  place(world, row, move.step)
  record(world, row, from, move.step, { code: move.code, worker })
}

function end(world: World, row: Row, move: Move): void {
  const now = world.now()
  const from = row.status
  const worker = book(world, row, move)
  row.status = move.to as JobStatus
  row.isRetry = false
  row.finishedAt = now
  row.keepMs = move.keepMs
  row.result = move.result
  row.error = move.error
  row.code = move.code
  if (move.to === 'success') row.keyUntil = now + row.job.keyForMs
  if (from === 'running' && move.step === 'cancel') {
    world.lastLease += 1
    row.lease = { holder: worker as string, number: world.lastLease, hold: true }
  } else {
    row.lease = undefined
    row.deadline = now + move.keepMs
  }
  const cause = move.step === 'cascade' ? row.cause : undefined
  record(world, row, from, move.step, { code: move.code, cause, worker })
}

/** The body of a cancelled job is out of the way. Its retention counts from when it ended. */
export function settle(row: Row): void {
  row.lease = undefined
  row.deadline = row.finishedAt + row.keepMs
}

function revive(world: World, row: Row, move: Move): MoveResult {
  const owner = keyOwner(world, row.job.key)
  if (owner !== undefined && owner !== row) {
    return { status: 'refused', why: { reason: 'key', owner: owner.job.id } }
  }
  const before = row.edges.map((edge) => edge.state)
  for (const edge of row.edges) {
    if (edge.state !== 'satisfied') edge.state = edgeStateOf(world, edge.dep, NO_COMING)
  }
  if (openOf(row) < needsOf(row)) {
    const dep = row.edges.find((edge) => edge.state === 'dead')?.dep.id as string
    for (const [index, edge] of row.edges.entries()) edge.state = before[index] ?? edge.state
    return { status: 'refused', why: { reason: 'doomed', dep } }
  }
  const from = row.status
  row.rev += 1
  row.availableAt = world.now() + move.delayMs
  row.keepsRank = false
  row.weight = weighed(world, row.job.priority)
  row.finishedAt = 0
  row.result = undefined
  row.error = undefined
  row.code = undefined
  row.cause = undefined
  row.attemptsBefore = row.attempts
  row.lostBefore = row.lost
  place(world, row, 'revive')
  record(world, row, from, 'revive')
  reopenEdgesTo(world, row)
  return { status: 'moved' }
}

/** Those that still wait may hope again; one that is doomed already has to be revived itself. */
export function reopenEdgesTo(world: World, revived: Row): void {
  for (const row of world.rows) {
    if (row.status !== 'waiting' || isDoomed(row)) continue
    for (const edge of row.edges) {
      if (edge.dep.id === revived.job.id && edge.state === 'dead') edge.state = 'open'
    }
  }
}

function forget(world: World, row: Row, move: Move): MoveResult {
  if (row.lease !== undefined) return { status: 'stale' }
  const { id } = row.job
  if (world.rows.some((other) => world.rules.names(other, id))) {
    row.deadline = 0
    return { status: 'refused', why: { reason: 'named' } }
  }
  const head = world.rows.find((other) => other !== row && other.job.id === row.job.flow)
  if (head !== undefined && world.rules.keepsFlow(head)) {
    row.deadline = world.now() + FLOW_MS
    return { status: 'refused', why: { reason: 'named' } }
  }
  world.rows = world.rows.filter((other) => other !== row)
  for (const other of world.rows) {
    for (const edge of other.edges) if (edge.dep.id === id) edge.cut = true
  }
  world.outcomes.push({ id, status: row.status, until: world.now() + move.keepMs })
  world.forgotten += 1
  row.rev += 1
  return { status: 'moved', gone: row }
}

/** What could not be forgotten because it was named can be, once nobody names it any more. */
export function unblockForgetting(world: World): void {
  for (const row of world.rows) {
    const isBlocked = hasEnded(row.status) && row.deadline === 0
    if (!isBlocked || world.rows.some((other) => world.rules.names(other, row.job.id))) continue
    row.deadline = world.now()
  }
}

function tellDependents(world: World, ended: Row): void {
  for (const row of world.rows) {
    const edge = row.edges.find((each) => each.dep.id === ended.job.id && each.state === 'open')
    if (edge === undefined) continue
    const missing = needsOf(row)
    const wasDoomed = isDoomed(row)
    edge.state = world.rules.satisfies(edge.dep, ended.status) ? 'satisfied' : 'dead'
    if (row.status !== 'waiting') continue
    if (missing > 0 && needsOf(row) === 0) release(world, row)
    else if (!wasDoomed && isDoomed(row)) doom(world, row, ended)
  }
}

/** A job that goes on waiting, now for its lane, is no transition. */
function release(world: World, row: Row): void {
  place(world, row, 'release')
  if (row.status === 'waiting') return
  row.rev += 1
  record(world, row, 'waiting', 'release')
}

function doom(world: World, row: Row, culprit: Row): void {
  row.cause = culprit.cause ?? culprit.job.id
  row.deadline = world.now()
}

export function freeLaneIfEnded(world: World, row: Row): void {
  if (hasEnded(row.status)) freeLane(world, row)
}
