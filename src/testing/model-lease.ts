// Owns the part of the model where time passes: grants, deadlines, heartbeats.
// May never hand a job out that some rule holds back.

import type { JobEvent } from '../core/job.ts'
import type {
  ExtendAnswer,
  ExtendAsk,
  Extended,
  LeaseAsk,
  OverdueAnswer,
  OverdueAsk,
} from '../store/store.ts'
import { freeLaneIfEnded, settle } from './model-apply.ts'
import { loosen, nextOf, noteStart, show } from './model-pools.ts'
import { viewOf } from './model-read.ts'
import { nextOut, promote, rankAnew, schedulesDue, unrankedOf } from './model-time.ts'
import { closeAttempt, hasEnded, place, type Row, record, type World } from './model-world.ts'

const MOVES = 1_000
const PRUNE = 10_000
const ATTEMPTS = 100

export function leaseJobs(world: World, ask: LeaseAsk): { rows: Row[]; nextAt: number } {
  promote(world)
  const rows: Row[] = []
  const pools = new Set(world.rows.map((row) => row.job.pool))
  const times: number[] = []
  for (const pool of [...pools].sort((a, b) => (a < b ? -1 : 1))) {
    while (rows.length < Math.min(ask.max, MOVES)) {
      const answer = nextOf(world, pool, ask)
      times.push(answer.nextAt)
      if (answer.row === undefined) break
      grant(world, answer.row, ask)
      rows.push(answer.row)
    }
  }
  return { rows, nextAt: Math.min(nextOut(world), ...times) }
}

function grant(world: World, row: Row, ask: LeaseAsk): void {
  const now = world.now()
  noteStart(world, row)
  world.lastLease += 1
  row.lease = { holder: ask.holder, number: world.lastLease, hold: false }
  row.isStuck = false
  row.status = 'running'
  row.starts += 1
  row.attempts += 1
  row.rev += 1
  row.lanePinned = true
  row.startedAt = now
  row.deadline = now + ask.leaseMs
  row.log.push({
    attempt: row.starts,
    startedAt: now,
    queuedMs: now - row.readySince,
    worker: ask.holder,
  })
  row.log = row.log.slice(-ATTEMPTS)
  record(world, row, 'ready', 'lease', { worker: ask.holder })
}

export function overdueJobs(world: World, ask: OverdueAsk): OverdueAnswer {
  const now = world.now()
  rankAnew(world)
  const late = world.rows
    .filter((row) => row.deadline > 0 && row.deadline <= now)
    .sort((a, b) => a.deadline - b.deadline || a.seq - b.seq)
  prune(world, now - ask.keepLogMs)
  const oldest = world.log[0]?.at ?? Number.POSITIVE_INFINITY
  const nextPrune = oldest + ask.keepLogMs + 1
  const isQuiet = (row: Row) => row.lease !== undefined || hasEnded(row.status)
  const limit = Math.min(ask.limit, MOVES)
  const schedules = schedulesDue(world)
  const handed = schedules.slice(0, limit)
  const others = [...world.schedules.values()].filter((row) => !handed.includes(row))
  const instants = others.map(({ nextAt }) => nextAt)
  return {
    jobs: late.slice(0, limit).map(viewOf),
    schedules: handed,
    nextAt: Math.min(earliest(world.rows.filter((row) => !isQuiet(row))), ...instants),
    nextQuietAt: Math.min(earliest(world.rows.filter(isQuiet)), nextPrune),
    more:
      late.length > limit ||
      schedules.length > limit ||
      nextPrune <= now ||
      unrankedOf(world).length > 0,
  }
}

function earliest(rows: readonly Row[]): number {
  const deadlines = rows.map((row) => row.deadline).filter((deadline) => deadline > 0)
  return Math.min(Number.POSITIVE_INFINITY, ...deadlines)
}

function prune(world: World, before: number): void {
  const isOld = (event: JobEvent) => event.at < before
  for (let dropped = 0; dropped < PRUNE; dropped += 1) {
    const [first] = world.log
    if (first === undefined || !isOld(first)) return
    world.log.shift()
    world.oldestEvent = first.seq + 1
  }
}

export function extendLeases(world: World, ask: ExtendAsk): ExtendAnswer {
  const leases = ask.held.map((entry) => extendOne(world, ask, entry))
  const mine = world.rows.filter(({ lease }) => lease?.holder === ask.holder)
  const unheard = mine
    .filter((row) => (row.lease?.number as number) <= ask.upTo && !isListed(row, ask))
    .sort((a, b) => (a.lease?.number as number) - (b.lease?.number as number))
  for (const row of unheard) {
    takeBack(world, row)
    loosen(world)
  }
  return { leases, mark: world.lastLease }
}

function extendOne(world: World, ask: ExtendAsk, entry: ExtendAsk['held'][number]): Extended {
  const row = world.rows.find(({ job }) => job.id === entry.id)
  const lease = row?.lease
  if (row === undefined || lease?.holder !== ask.holder) return { status: 'lost' }
  if (!lease.hold && !world.rules.leaseIsCurrent(row, entry.lease)) return { status: 'lost' }
  row.deadline = world.now() + ask.leaseMs
  row.note = entry.note ?? row.note
  if (entry.stuck === true) {
    row.isStuck = true
    if (world.rules.isStuck(row)) row.evictor = undefined
  }
  if (lease.hold) return { status: 'cancelled', lease }
  return row.evictor === undefined ? { status: 'held' } : { status: 'evicted', by: row.evictor }
}

/** A lease is listed by its number. A hold is listed by its job: its number may be news. */
function isListed(row: Row, ask: ExtendAsk): boolean {
  const entry = ask.held.find(({ id }) => id === row.job.id)
  return entry !== undefined && (row.lease?.hold === true || entry.lease === row.lease?.number)
}

function takeBack(world: World, row: Row): void {
  const worker = row.lease?.holder
  row.rev += 1
  if (row.lease?.hold === true) {
    settle(row)
    freeLaneIfEnded(world, row)
    return
  }
  closeAttempt(world, row, 'returned', undefined)
  show(world, row, 'neutral')
  row.attempts -= 1
  row.lease = undefined
  row.keepsRank = true
  place(world, row, 'unheard')
  record(world, row, 'running', 'unheard', { worker })
}
