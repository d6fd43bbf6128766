// Owns how the model lets time and settings work: budget, ageing, schedules, who is alive.
// May never keep a count: what is left to do is found by looking at all the rows.

import type { RateTerms } from '../core/gcra.ts'
import type { Schedule } from '../core/settings.ts'
import type { Change, InsertGroup, PoolChange, WorkerInfo } from '../store/store.ts'
import { rebook } from './model-pools.ts'
import { typeAfter } from './model-types.ts'
import {
  hasEnded,
  inOrder,
  place,
  type Row,
  record,
  settingsOf,
  type World,
  weighed,
} from './model-world.ts'

const CHUNK = 1_000
const POSITION = 1_000

/** Lets out of `pending` whose time has come: retries last, and only what the budget has. */
export function promote(world: World): void {
  if (world.budget === null) for (const row of line(world).slice(0, CHUNK)) row.isInLine = false
  const isHeldBack = (row: Row) => row.isInLine || (world.budget !== null && row.isRetry)
  const due = world.rows.filter((row) => row.status === 'pending' && row.availableAt <= world.now())
  due.sort((a, b) => a.availableAt - b.availableAt || a.seq - b.seq)
  const first = due.filter((row) => !isHeldBack(row))
  for (const row of first.slice(0, CHUNK)) letOut(world, row)
  if (world.budget === null) return
  const late = due.filter((row) => row.isRetry && !row.isInLine)
  for (const row of late.slice(0, CHUNK)) row.isInLine = true
  if (late.length > CHUNK) return
  for (const row of line(world).slice(0, CHUNK)) if (takesOne(world)) letOut(world, row)
}

function line(world: World): Row[] {
  const rows = world.rows.filter((row) => row.status === 'pending' && row.isInLine)
  return rows.sort((a, b) => (world.rules.goesFirst(a, b) ? -1 : 1))
}

function letOut(world: World, row: Row): void {
  row.isRetry = false
  row.isInLine = false
  place(world, row, 'due')
  row.rev += 1
  record(world, row, 'pending', 'due')
}

/** Whether the budget holds this one now: its time has come, and it is still here. */
export function isHeld(world: World, row: Row): boolean {
  const isDue = row.status === 'pending' && row.availableAt <= world.now()
  return world.budget !== null && row.isRetry && isDue
}

/** When time alone lets a pending job out. */
export function nextOut(world: World): number {
  const pending = world.rows.filter((row) => row.status === 'pending')
  const times = pending.filter((row) => !row.isInLine).map((row) => row.availableAt)
  const wait = world.budget === null ? 0 : waitFor(world, 1)
  const held = pending.some((row) => row.isInLine) ? [world.now() + wait] : []
  return Math.min(Number.POSITIVE_INFINITY, ...times, ...held)
}

/** When the budget lets this one go; 0 if the next lease does, or something else holds it. */
export function budgetAt(world: World, row: Row): number {
  if (!isHeld(world, row)) return 0
  const held = inOrder(
    world,
    world.rows.filter((each) => isHeld(world, each)),
  )
  const wait = waitFor(world, Math.min(POSITION, held.indexOf(row)) + 1)
  return wait > 0 ? world.now() + wait : 0
}

/**
 * A bucket that leaks a microsecond's worth each microsecond. One retry pours an interval in, and
 * the bucket has room for a burst of them.
 */
function level(world: World): number {
  const { fill, at } = world.bucket
  return Math.max(0, fill - (world.now() - at) * 1_000)
}

/** Milliseconds until the bucket has room for so many. */
function waitFor(world: World, count: number): number {
  const { intervalUs, burst } = world.budget as RateTerms
  return Math.max(0, Math.ceil((level(world) + (count - burst) * intervalUs) / 1_000))
}

function takesOne(world: World): boolean {
  if (waitFor(world, 1) > 0) return false
  const { intervalUs } = world.budget as RateTerms
  world.bucket = { fill: level(world) + intervalUs, at: world.now() }
  return true
}

export function configure(world: World, change: Change): void {
  if ('pool' in change) configurePool(world, change)
  else if ('type' in change) {
    world.types.set(change.type, typeAfter(world.types.get(change.type), change.setting))
  } else if ('ageing' in change) world.ageing = change.ageing
  else if ('budget' in change) configureBudget(world, change.budget)
  else if (change.row === null) world.schedules.delete(change.schedule)
  else configureSchedule(world, change.schedule, change.row)
}

/** What is null is taken back, what is absent stays as it was. */
function configurePool(world: World, { pool, by, terms }: PoolChange): void {
  const before = settingsOf(world, pool)
  const settings = world.pools.get(pool) ?? { start: {}, operator: {} }
  const said: Record<string, unknown> = { ...settings[by] }
  for (const [name, value] of Object.entries(terms)) {
    if (value === null) delete said[name]
    else if (value !== undefined) said[name] = value
  }
  world.pools.set(pool, { ...settings, [by]: said })
  rebook(world, pool, before)
}

/** The bucket keeps the retries that are in it, begun ones as whole, as far as they fit. */
function configureBudget(world: World, budget: RateTerms | null): void {
  const before = world.budget
  if (before?.intervalUs === budget?.intervalUs && before?.burst === budget?.burst) {
    world.budget = budget
    return
  }
  const fill =
    before === null || budget === null ? 0 : world.rules.carries(level(world), before, budget)
  world.budget = budget
  world.bucket = { fill, at: world.now() }
}

function configureSchedule(world: World, name: string, row: Schedule): void {
  const before = world.schedules.get(name)
  const keeps = before !== undefined && world.rules.keepsInstant(before, row)
  world.schedules.set(name, keeps ? { ...row, nextAt: before.nextAt } : row)
}

export function schedulesOf(world: World): Schedule[] {
  return [...world.schedules.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

export function schedulesDue(world: World): Schedule[] {
  const due = schedulesOf(world).filter(({ nextAt }) => nextAt <= world.now())
  return due.sort((a, b) => a.nextAt - b.nextAt || (a.name < b.name ? -1 : 1))
}

export function isStaleTick(world: World, { tick }: InsertGroup): boolean {
  if (tick === undefined) return false
  const row = world.schedules.get(tick.of.name)
  return row === undefined || !world.rules.stands(row, tick)
}

export function moveOn(world: World, { tick }: InsertGroup): void {
  const row = tick === undefined ? undefined : world.schedules.get(tick.of.name)
  if (tick === undefined || row === undefined) return
  world.schedules.set(tick.of.name, { ...row, nextAt: tick.nextAt })
}

/** Those that are alive and weigh otherwise than they would by now. */
export function unrankedOf(world: World): Row[] {
  return world.rows.filter(
    (row) => !hasEnded(row.status) && row.weight !== weighed(world, row.job.priority),
  )
}

export function rankAnew(world: World): void {
  for (const row of unrankedOf(world).slice(0, CHUNK)) {
    const before = row.weight
    row.weight = weighed(world, row.job.priority)
    if (world.rules.isRankedAnew(row)) row.rank += before - row.weight
  }
}

export function workersOf(world: World): WorkerInfo[] {
  const live = [...world.workers.values()].filter(({ until }) => world.now() < until)
  live.sort((a, b) => (a.holder < b.holder ? -1 : 1))
  return live.map(({ ttlMs: _, ...worker }) => {
    const mine = world.rows.filter(({ lease }) => lease?.holder === worker.holder)
    return { ...worker, running: mine.length }
  })
}
