// Owns how the model decides who may start in a pool: caps, shares, rates, breakers, victims.
// May never keep a count: who uses what is looked up in the rows, every time.

import type { RateTerms } from '../core/gcra.ts'
import type { Verdict } from '../core/job.ts'
import type { PoolRules } from '../core/settings.ts'
import type { LeaseAsk, PoolState } from '../store/store.ts'
import {
  type BreakerBook,
  find,
  inOrder,
  type Row,
  settingsOf,
  slotsUsed,
  type World,
} from './model-world.ts'

const NEVER = Number.POSITIVE_INFINITY

/** The job that starts next in a pool for this worker, or what time has to do with it. */
export function nextOf(
  world: World,
  pool: string,
  ask: LeaseAsk,
): { readonly row: Row | undefined; readonly nextAt: number } {
  const stop = { row: undefined, nextAt: NEVER }
  if (settingsOf(world, pool).paused) return stop
  const row = firstOf(world, pool, ask)
  if (row === undefined) return stop
  const opens = opensAt(world, pool)
  const hasRoom = lacking(world, row, ask.holder).length === 0
  if (opens > world.now()) return hasRoom ? { row: undefined, nextAt: opens } : stop
  if (hasRoom) return { row, nextAt: NEVER }
  return { row: undefined, nextAt: displace(world, row, ask.holder) }
}

/** The first who may start at all. Whoever may not hides nobody. */
function firstOf(world: World, pool: string, ask: LeaseAsk): Row | undefined {
  const ready = world.rows.filter((row) => row.job.pool === pool && row.status === 'ready')
  const served = ready.filter(({ job }) => job.body !== undefined || ask.types.includes(job.type))
  const isStopped = (row: Row) => typeIsFull(world, row.job.type)
  const isAlone = (row: Row) => !isBarred(world, row, ask.holder)
  const isWaiting = (row: Row) => {
    const victim = victimOf(world, row)
    return victim !== undefined && world.rules.waitsForVictim(victim)
  }
  const line = inOrder(world, served)
  const stopped = world.rules.capHidesOthers ? line.findIndex(isStopped) : -1
  const shown = stopped >= 0 ? line.slice(0, stopped) : line
  return shown.find((row) => !isStopped(row) && !isWaiting(row) && isAlone(row))
}

/** Whether it is a suspect, and the worker has one. */
export function isBarred(world: World, row: Row, holder: string): boolean {
  const has = (other: Row) => other.lease?.holder === holder && world.rules.isSuspect(other)
  return (
    world.rules.isSuspect(row) && world.rows.some((each) => has(each) && world.rules.bars(each))
  )
}

function typeIsFull(world: World, type: string): boolean {
  const cap = world.types.get(type)?.concurrency ?? NEVER
  const used = world.rows.filter((row) => row.job.type === type && world.rules.slotIsUsed(row))
  return used.length >= cap
}

function isUrgent(world: World, row: Row, minPriority: number): boolean {
  return world.rules.isUrgent(row, minPriority, world.ageing?.ceiling ?? 0)
}

/** A cap as it is for this job: urgent ones may go beyond it. */
function capFor(world: World, row: Row, cap: number): number {
  const { elastic } = settingsOf(world, row.job.pool)
  if (elastic === null || cap === 0 || cap === NEVER) return cap
  if (!isUrgent(world, row, elastic.minPriority)) return cap
  return cap + world.rules.raise(cap, elastic.ratio)
}

function ofWorker(world: World, pool: string, holder: string): Row[] {
  const rows = world.rows.filter((row) => row.job.pool === pool && row.lease !== undefined)
  return rows.filter((row) => world.rules.isShared(row, holder))
}

/** What there is not enough of: slots of the pool, of the worker in it. */
function lacking(world: World, row: Row, holder: string): ('pool' | 'worker')[] {
  const { pool } = row.job
  const full: ('pool' | 'worker')[] = []
  if (slotsUsed(world, pool) >= capFor(world, row, settingsOf(world, pool).concurrency)) {
    full.push('pool')
  }
  return isSpent(world, row, holder) ? [...full, 'worker'] : full
}

/** A share that is no less than the whole stops nobody whom the pool's cap does not stop. */
export function isSpent(world: World, row: Row, holder: string): boolean {
  const { perWorker, concurrency } = settingsOf(world, row.job.pool)
  if (perWorker >= concurrency) return false
  return ofWorker(world, row.job.pool, holder).length >= capFor(world, row, perWorker)
}

// Preemption

export function victimOf(world: World, urgent: Row): Row | undefined {
  return world.rows.find((row) => row.evictor === urgent.job.id)
}

/** Tells somebody to give way, if that helps. Answers when time will have made a victim. */
function displace(world: World, urgent: Row, holder: string): number {
  const { pool } = urgent.job
  const { preempt, concurrency, perWorker } = settingsOf(world, pool)
  if (preempt === null || urgent.displaced) return NEVER
  if (!isUrgent(world, urgent, preempt.minPriority)) return NEVER
  const full = lacking(world, urgent, holder)
  if (!full.includes('pool')) return NEVER
  if (slotsUsed(world, pool) - 1 >= capFor(world, urgent, concurrency)) return NEVER
  const mine = ofWorker(world, pool, holder)
  const onlyMine = full.includes('worker')
  if (onlyMine && mine.length - 1 >= capFor(world, urgent, perWorker)) return NEVER
  const held = world.rows.filter((row) => row.job.pool === pool && row.lease !== undefined)
  const obedient = held.filter((row) => !world.rules.isStuck(row))
  if (obedient.some((row) => world.rules.isAboutToBeFree(row))) return NEVER
  const able = (onlyMine ? mine : held).filter(
    (row) =>
      obedient.includes(row) &&
      world.rules.mayGiveWay(row) &&
      urgent.job.priority - row.job.priority >= preempt.minGap,
  )
  const ripe = able.filter((row) => world.now() - row.startedAt >= preempt.minRunMs)
  const [victim] = [...ripe].sort((a, b) => (world.rules.givesWayBefore(a, b) ? -1 : 1))
  if (victim === undefined) {
    return Math.min(NEVER, ...able.map((row) => row.startedAt + preempt.minRunMs))
  }
  victim.evictor = urgent.job.id
  urgent.displaced = true
  return NEVER
}

/** Nobody gives way who has nothing to give, or for somebody who waits no more. */
export function loosen(world: World): void {
  for (const row of world.rows) if (row.status !== 'ready') row.displaced = false
  for (const row of world.rows) {
    const urgent = row.evictor === undefined ? undefined : find(world, row.evictor)
    if (row.lease === undefined || urgent?.displaced !== true) row.evictor = undefined
  }
}

// Rates and breakers

/** From when on time lets one start: rate and breaker together. */
function opensAt(world: World, pool: string): number {
  return Math.max(rateOpensAt(world, pool), breakerOpensAt(world, pool))
}

/** Each start fills the bucket by one interval; it empties as time passes. Microseconds. */
function filledUntil(world: World, pool: string, rate: RateTerms): number {
  const book = world.rates.get(pool) ?? { owedUntil: 0, starts: [] }
  let until = book.owedUntil
  for (const start of book.starts) until = Math.max(until, start * 1_000) + rate.intervalUs
  return until
}

function rateOpensAt(world: World, pool: string): number {
  const { rate } = settingsOf(world, pool)
  if (rate === null) return 0
  return Math.ceil((filledUntil(world, pool, rate) - (rate.burst - 1) * rate.intervalUs) / 1_000)
}

function breakerOpensAt(world: World, pool: string): number {
  const book = world.breakers.get(pool)
  if (book === undefined || book.opensAt === null) return 0
  if (book.opensAt > world.now()) return book.opensAt
  return book.probing < world.rules.probes ? 0 : NEVER
}

/** What a start is to the rate and to the breaker of its pool. */
export function noteStart(world: World, row: Row): void {
  const { pool } = row.job
  if (settingsOf(world, pool).rate !== null) {
    const book = world.rates.get(pool) ?? { owedUntil: 0, starts: [] }
    world.rates.set(pool, { ...book, starts: [...book.starts, world.now()] })
  }
  const breaker = world.breakers.get(pool)
  if (breaker === undefined) return
  if (breaker.opensAt !== null) {
    if (breaker.probing === 0) breaker.period += 1
    breaker.probing += 1
  }
  row.pass = breaker.period
}

/** What the end of an attempt has shown, for the breaker under which it was started. */
export function show(world: World, row: Row, verdict: Verdict): void {
  const book = world.breakers.get(row.job.pool)
  const { pass } = row
  row.pass = -1
  if (book === undefined || pass !== book.period) return
  if (book.opensAt !== null) {
    book.probing = 0
    if (verdict === 'success') change(book, null)
    if (verdict === 'failure') change(book, world.now() + book.terms.resetMs)
  } else if (verdict !== 'neutral') {
    book.shown.push(verdict)
    if (verdict === 'failure' && isTooMuch(book)) change(book, world.now() + book.terms.resetMs)
  }
}

function change(book: BreakerBook, opensAt: number | null): void {
  book.opensAt = opensAt
  book.period += 1
  book.shown = []
}

function isTooMuch({ terms, shown }: BreakerBook): boolean {
  const inARow = shown.length - 1 - shown.lastIndexOf('success')
  if (terms.failures > 0 && inARow >= terms.failures) return true
  const last = shown.slice(-terms.window)
  const failed = last.filter((verdict) => verdict === 'failure').length
  if (terms.failureRate === 0 || last.length < terms.window) return false
  return failed >= terms.failureRate * last.length
}

/** After a change of what is set: debts at the new price, a breaker with other terms anew. */
export function rebook(world: World, pool: string, before: PoolRules): void {
  const { rate, breaker } = settingsOf(world, pool)
  if (rate === null) world.rates.delete(pool)
  else if (before.rate !== null) reprice(world, pool, before.rate, rate)
  if (JSON.stringify(before.breaker) === JSON.stringify(breaker)) return
  const last = world.breakers.get(pool)?.period ?? world.periods.get(pool) ?? -1
  world.periods.set(pool, last)
  world.breakers.delete(pool)
  if (breaker === null) return
  const book = { terms: breaker, opensAt: null, period: last + 1, shown: [], probing: 0 }
  world.breakers.set(pool, book)
}

function reprice(world: World, pool: string, before: RateTerms, after: RateTerms): void {
  if (before.intervalUs === after.intervalUs && before.burst === after.burst) return
  const now = world.now() * 1_000
  const ahead = Math.max(0, filledUntil(world, pool, before) - now)
  const debts = Math.ceil(ahead / before.intervalUs)
  const owedUntil = now + world.rules.owed(debts, after.burst) * after.intervalUs
  world.rates.set(pool, { owedUntil, starts: [] })
}

/** What a pool shows of them. */
export function gatesOf(
  world: World,
  pool: string,
): Pick<PoolState, 'rateAt' | 'breakerState' | 'breakerUntil'> {
  const now = world.now()
  const rateAt = rateOpensAt(world, pool)
  const opens = world.breakers.get(pool)?.opensAt ?? null
  const isOpen = opens !== null && opens > now
  return {
    rateAt: rateAt > now ? rateAt : 0,
    breakerState: opens === null ? 'closed' : isOpen ? 'open' : 'half-open',
    breakerUntil: isOpen ? opens : 0,
  }
}
