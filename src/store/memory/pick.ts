// Owns what one `lease` takes of a pool. Of the promises of the port (src/store/store.ts) it keeps
// the ones about granting (5), the room above the cap for urgent jobs (16), the running job that
// has to give way to one (17), and the breaker (18).
// May never look at more queues and jobs than it takes, puts aside, or has to choose among.

import { freeAt, taken } from '../../core/gcra.ts'
import { victimOf } from '../../core/preempt.ts'
import type { Ageing } from '../../core/rank.ts'
import { isUrgent, raiseOf, shareOf } from '../../core/settings.ts'
import { headChanged, type Line, type Pool, standInLine } from './queues.ts'
import type { JobRecord } from './record.ts'
import type { Caps, Tally } from './slots.ts'

/** Who asks, and what the call has come to so far. */
export interface Call {
  readonly holder: string
  readonly types: ReadonlySet<string>
  readonly now: number
  readonly ageing: Ageing | null
  readonly caps: Caps
  /** Leases and holds of suspects, by holder. */
  readonly suspects: Tally
  /** How many jobs it may still take. */
  left: number
  /** What has been passed over in the pool in hand, and goes back to its place afterwards. */
  readonly aside: { readonly lines: Line[]; readonly records: JobRecord[] }
  /** When time alone lets somebody start whom time alone has stopped. */
  nextAt: number
  /** Grants a job that has left its queue; `pass` is -1 where there is no breaker. */
  grant(record: JobRecord, pass: number): void
  /** Has the first give way to the second. */
  displace(victim: JobRecord, urgent: JobRecord): void
}

/** Grants the best of a pool that may start. O((lines passed over + granted) * log n). */
export function takeFrom(pool: Pool, call: Call): void {
  const { rules } = pool
  const room = rules.paused ? 0 : rules.concurrency - pool.held.size
  if (pool.heads.size === 0 || (pool.isPlain ? room <= 0 : rules.paused)) return
  if (!pool.isPlain) takeByRules(pool, call)
  else {
    for (let wanted = Math.min(room, call.left); wanted > 0; wanted -= 1) {
      const line = next(pool, call)
      if (line === undefined) break
      start(line, call, -1)
    }
  }
  const { lines, records } = call.aside
  for (let record = records.pop(); record !== undefined; record = records.pop()) {
    standInLine(record)
  }
  for (let line = lines.pop(); line !== undefined; line = lines.pop()) headChanged(line)
}

/** One by one: each start may be the one with which a cap, a rate or a probe is used up. */
function takeByRules(pool: Pool, call: Call): void {
  while (call.left > 0) {
    const line = next(pool, call)
    if (line === undefined) return
    const record = line.heap.peek() as JobRecord
    const { cap, share } = limitsFor(record, pool, call)
    const hasRoom = pool.held.size < cap && inUse(pool, call) < share
    const at = opensAt(pool, call.now)
    if (at > call.now) {
      if (hasRoom) call.nextAt = Math.min(call.nextAt, at)
      return
    }
    if (!hasRoom) {
      displaceFor(record, pool, call, cap, share)
      return
    }
    const { rate } = pool.rules
    if (rate !== null) pool.tat = taken(rate, pool.tat, call.now, 1)
    start(line, call, pool.breaker?.admit(call.now) ?? -1)
  }
}

/**
 * The line whose first job is the next one. A type that is not served, or that is at its cap, a
 * job whose victim still holds its slot, and suspects while the worker has one, are put aside:
 * they hide nobody.
 */
function next(pool: Pool, call: Call): Line | undefined {
  for (;;) {
    const line = pool.heads.peek()
    if (line === undefined) return undefined
    if (isClosed(line, call)) call.aside.lines.push(pool.heads.pop() as Line)
    else if ((line.heap.peek() as JobRecord).has.victim === undefined) return line
    else call.aside.records.push(popFirst(line))
  }
}

function isClosed({ type, bodies, suspects }: Line, call: Call): boolean {
  if (!bodies && !call.types.has(type)) return true
  if (suspects && call.suspects.count(call.holder) > 0) return true
  return call.caps.isFull(type)
}

function start(line: Line, call: Call, pass: number): void {
  const record = popFirst(line)
  call.left -= 1
  call.grant(record, pass)
}

function popFirst(line: Line): JobRecord {
  const record = line.heap.pop() as JobRecord
  headChanged(line)
  return record
}

/** How many leases and holds there may be with this job, in the pool and of the worker in it. */
function limitsFor(
  record: JobRecord,
  { rules }: Pool,
  call: Call,
): { readonly cap: number; readonly share: number } {
  const { concurrency, elastic } = rules
  const share = shareOf(rules)
  if (elastic === null || !isUrgent(record.priority, elastic.minPriority, call.ageing)) {
    return { cap: concurrency, share }
  }
  return {
    cap: concurrency + raiseOf(concurrency, elastic),
    share: share + raiseOf(share, elastic),
  }
}

/** What the worker that asks has of the pool, where anybody has to know. */
function inUse(pool: Pool, { holder }: Call): number {
  return pool.shares?.count(holder) ?? 0
}

/** From when on rate and breaker let one start; Infinity while that is not up to time alone. */
function opensAt({ rules, tat, breaker }: Pool, now: number): number {
  const byRate = rules.rate === null ? 0 : freeAt(rules.rate, tat)
  return breaker === null ? byRate : Math.max(byRate, breaker.freeAt(now))
}

/** Promise 17, for the job that is next and has no room. One slot less in use has to be enough. */
function displaceFor(record: JobRecord, pool: Pool, call: Call, cap: number, share: number): void {
  const terms = pool.rules.preempt
  if (terms === null || record.has.displaced) return
  if (!isUrgent(record.priority, terms.minPriority, call.ageing)) return
  const mine = inUse(pool, call)
  if (pool.held.size !== cap || mine > share) return
  const of = mine === share ? call.holder : undefined
  const { victim, at } = victimOf(obedient(pool.held), record, terms, call.now, of)
  if (victim === undefined) call.nextAt = Math.min(call.nextAt, at)
  else call.displace(victim, record)
}

/** A body that does not stop is no slot about to be free, and nobody's victim. */
function* obedient(held: Iterable<JobRecord>): Iterable<JobRecord> {
  for (const record of held) if (!record.has.stuck) yield record
}
