// Owns what one `lease` takes of a pool. Of the promises of the port (src/store/store.ts) it keeps
// the ones about granting (5), the room above the cap for urgent jobs (16), the running job that
// has to give way to one (17), and the breaker (18).
// May never look at more queues and jobs than it takes, puts aside, or has to choose among.

import { freeAt, taken } from '../../core/gcra.ts'
import { victimOf } from '../../core/preempt.ts'
import { isBefore } from '../../core/rank.ts'
import { isUrgent, raiseOf, shareOf } from '../../core/settings.ts'
import { isSuspect } from '../../core/suspect.ts'
import { type Kin, LEAST_ALIKE, type Member } from './alike.ts'
import type { Board } from './board.ts'
import type { Line } from './connection.ts'
import type { Ask } from './line.ts'
import type { Pool } from './pools.ts'
import type { Row } from './row.ts'
import type { Session } from './session.ts'

/** Slots in use, counted from the leases and holds in the file. */
export class Slots {
  readonly #pools = new Map<string, number>()
  readonly #shares = new Map<string, Map<string, number>>()
  readonly #types = new Map<string, number>()
  readonly #holders = new Map<string, number>()

  constructor(found: readonly SlotColumns[]) {
    for (const each of found) this.add(each, each.count)
  }

  static of(session: Session): Slots {
    const found = session.all<{ holder: string; line: number; count: number }>('slots')
    const { lineOf } = session.connection
    return new Slots(found.map(({ holder, line, count }) => ({ holder, count, ...lineOf(line) })))
  }

  add({ holder, pool, type }: Omit<SlotColumns, 'count'>, count: number): void {
    increase(this.#pools, pool, count)
    let shares = this.#shares.get(pool)
    if (shares === undefined) {
      shares = new Map()
      this.#shares.set(pool, shares)
    }
    increase(shares, holder, count)
    increase(this.#types, type, count)
    increase(this.#holders, holder, count)
  }

  ofPool = (pool: string): number => this.#pools.get(pool) ?? 0
  ofShare = (pool: string, holder: string): number => this.#shares.get(pool)?.get(holder) ?? 0
  ofType = (type: string): number => this.#types.get(type) ?? 0
  ofHolder = (holder: string): number => this.#holders.get(holder) ?? 0
}

interface SlotColumns {
  readonly holder: string
  readonly pool: string
  readonly type: string
  readonly count: number
}

function increase(counts: Map<string, number>, name: string, by: number): void {
  counts.set(name, (counts.get(name) ?? 0) + by)
}

/** Who asks, and what the call has come to so far. */
export interface Call {
  readonly board: Board
  readonly holder: string
  readonly slots: Slots
  /** Types with a cap over all pools. */
  readonly caps: ReadonlyMap<string, number>
  /** The holder has a suspect: no other for it. */
  hasSuspect: boolean
  /** How many jobs it may still take. */
  left: number
  /** When time alone lets somebody start whom time alone has stopped. */
  nextAt: number
  /** Grants a ready job; `pass` is -1 where there is no breaker. */
  grant(row: Row, pass: number): void
  /** Grants others that are as this one was, just granted: what became of it becomes of them. */
  repeat(before: Kin, row: Row, others: readonly Member[]): void
}

/** Who has a suspect; nobody is asked as long as none is ready. */
export function suspectHolders(session: Session): ReadonlySet<string> {
  const found = session.ask<{ holder: string }>('heldSuspects')
  return new Set(found.map(({ holder }) => holder))
}

/** The first of a line's ready jobs, suspects or others. */
export interface Head extends Line {
  readonly line: number
  readonly suspect: 0 | 1
  readonly rank: number
  readonly seq: number
  /** All jobs of the line that are ready, in order, where they are in hand. */
  readonly jobs?: readonly Row[]
}

/** The same of ready jobs that are all in hand, and nobody's suspects. */
export function headsAmong(rows: readonly Row[]): readonly Head[] {
  const lines = new Map<number, Row[]>()
  for (const row of rows) {
    const known = lines.get(row.line)
    if (known === undefined) lines.set(row.line, [row])
    else known.push(row)
  }
  return [...lines].map(([line, jobs]) => {
    jobs.sort((a, b) => a.rank - b.rank || a.seq - b.seq)
    const { pool, type, rank, seq } = jobs[0] as Row
    return { line, pool, type, suspect: 0, rank, seq, jobs }
  })
}

/** The first ready job of each line of these types; suspects stand in lines of their own. */
export function headsOf(session: Session, types: readonly string[]): readonly Head[] {
  const served = JSON.stringify(types)
  const heads = session.ask<Head>('heads', 0, served)
  const areSuspects = session.first('readySuspect') !== undefined
  return areSuspects ? [...heads, ...session.all<Head>('heads', 1, served)] : heads
}

const NOBODY: readonly Member[] = Object.freeze([])

/** The ready jobs of one line, suspects or others, read some at a time once one is wanted. */
export class Queue {
  readonly type: string
  readonly suspect: 0 | 1
  readonly #session: Session
  readonly #line: number
  readonly #chunk: number
  readonly #isInHand: boolean
  #head: Pick<Head, 'rank' | 'seq'> | undefined
  #jobs: readonly (Row | Member)[]
  #at = 0
  #isDone: boolean
  /** Where the next chunk begins. */
  #after: Pick<Head, 'rank' | 'seq'> = { rank: -(2 ** 53), seq: 0 }

  constructor(session: Session, head: Head, chunk: number) {
    this.type = head.type
    this.suspect = head.suspect
    this.#session = session
    this.#line = head.line
    this.#chunk = head.suspect === 1 ? 1 : chunk
    this.#isInHand = session.hand.has(head.seq)
    this.#head = head
    this.#jobs = head.jobs ?? NOBODY
    this.#isDone = head.jobs !== undefined
  }

  /** Where its first job stands: known without reading it. */
  head(): Pick<Head, 'rank' | 'seq'> | undefined {
    if (this.#head !== undefined) return this.#head
    const job = this.#first()
    return job === undefined ? undefined : this.#placeOf(job)
  }

  peek(): Row | undefined {
    this.#head = undefined
    const job = this.#first()
    return job === undefined ? undefined : this.#session.hand.take(job)
  }

  #first(): Row | Member | undefined {
    if (this.#at === this.#jobs.length && !this.#isDone) this.#read()
    return this.#jobs[this.#at]
  }

  shift(): void {
    this.#at += 1
  }

  /** What the first job has in common with others that are alike, if it has. */
  kin(): Kin | undefined {
    const job = this.#first()
    return job !== undefined && 'kin' in job ? job.kin : undefined
  }

  /** Takes those that come next and are alike, at most so many. */
  shiftAlike(kin: Kin, most: number, isNext: (member: Member) => boolean): readonly Member[] {
    const members: Member[] = []
    while (members.length < most) {
      const job = this.#jobs[this.#at + members.length]
      if (job === undefined || !('kin' in job) || job.kin !== kin) break
      if (job.row !== undefined || !isNext(job)) break
      members.push(job)
    }
    if (members.length < LEAST_ALIKE) return NOBODY
    this.#at += members.length
    return members
  }

  /** Jobs that this process has just added, most of all, need not be read: only their order. */
  #inHand(ask: Ask): readonly (Row | Member)[] {
    const { suspect, line, rank, seq, limit } = ask
    const session = this.#session
    const found = session.ask<{ seqs: string }>('readySeqs', suspect, line, rank, seq, limit)
    const seqs = JSON.parse(found[0]?.seqs ?? '[]') as number[]
    session.prepareSeqs(seqs)
    return seqs.map((each) => session.hand.known(each) ?? (session.bySeq(each) as Row))
  }

  #read(): void {
    const last = this.#jobs.at(-1)
    if (last !== undefined) this.#after = this.#placeOf(last)
    const ask = {
      suspect: this.suspect,
      line: this.#line,
      ...this.#after,
      limit: this.#chunk,
    }
    this.#jobs = this.#isInHand ? this.#inHand(ask) : this.#session.ready(ask)
    this.#at = 0
    this.#isDone = this.#jobs.length < this.#chunk
  }

  #placeOf(job: Row | Member): Pick<Head, 'rank' | 'seq'> {
    return { rank: 'kin' in job ? job.kin.row.rank : job.rank, seq: job.seq }
  }
}

/** Grants the best of a pool that may start. */
export function takeFrom(pool: Pool, queues: readonly Queue[], call: Call): void {
  const { rules } = pool
  if (rules.paused) return
  let isChanged = false
  while (call.left > 0 && (rules.preempt !== null || roomIn(pool, call) > 0)) {
    const queue = next(queues, call)
    const kin = queue?.kin()
    const row = queue?.peek()
    if (queue === undefined || row === undefined) break
    const { cap, share } = limitsFor(row, pool, call)
    const { slots, board } = call
    const hasRoom = slots.ofPool(pool.name) < cap && slots.ofShare(pool.name, call.holder) < share
    const at = opensAt(pool, board.now)
    if (at > board.now) {
      if (hasRoom) call.nextAt = Math.min(call.nextAt, at)
      break
    }
    if (!hasRoom) {
      displaceFor(row, pool, call, cap, share)
      break
    }
    const { rate } = rules
    if (rate !== null) pool.tat = taken(rate, pool.tat, board.now, 1)
    isChanged ||= rate !== null || pool.breaker !== null
    queue.shift()
    call.left -= 1
    call.hasSuspect ||= isSuspect(row)
    call.grant(row, pool.breaker?.admit(board.now) ?? -1)
    slots.add({ holder: call.holder, pool: pool.name, type: row.type }, 1)
    if (kin === undefined || isChanged) continue
    const others = queues.filter((each) => each !== queue)
    takeAlike(pool, queue, others, call, { kin, row, cap, share })
  }
  if (isChanged) call.board.pools.save(pool)
}

/** How many could start at most, whichever they are: no more of a queue are read at a time. */
export function roomIn({ name, rules }: Pool, { slots, holder }: Call): number {
  const { concurrency, elastic } = rules
  const raised = (cap: number) => cap + raiseOf(cap, elastic)
  const inShare = raised(shareOf(rules)) - slots.ofShare(name, holder)
  return Math.min(raised(concurrency) - slots.ofPool(name), inShare)
}

/** How many of a type could start at most, over all pools. */
export function roomOf(type: string, { caps, slots }: Call): number {
  return (caps.get(type) ?? Number.POSITIVE_INFINITY) - slots.ofType(type)
}

/** Grants those that come next in the same queue and are alike, as far as there is room. */
function takeAlike(
  pool: Pool,
  queue: Queue,
  others: readonly Queue[],
  call: Call,
  { kin, row, cap, share }: Granted,
): void {
  const { slots, holder } = call
  const most = Math.min(
    call.left,
    cap - slots.ofPool(pool.name),
    share - slots.ofShare(pool.name, holder),
    roomOf(queue.type, call),
  )
  const rival = bestOf(others, call)?.head()
  const { rank } = kin.row
  const members = queue.shiftAlike(kin, most, ({ seq }) => {
    return rival === undefined || isBefore(rank, seq, rival.rank, rival.seq)
  })
  if (members.length === 0) return
  call.left -= members.length
  call.repeat(kin, row, members)
  slots.add({ holder, pool: pool.name, type: queue.type }, members.length)
}

/** What was just granted: what it had in common with others, and for how many there is room. */
interface Granted {
  readonly kin: Kin
  readonly row: Row
  readonly cap: number
  readonly share: number
}

/** The queue whose first job is next. One whose victim still holds its slot hides nobody. */
function next(queues: readonly Queue[], call: Call): Queue | undefined {
  for (;;) {
    const best = bestOf(queues, call)
    if (best?.peek()?.victim === undefined) return best
    best.shift()
  }
}

/**
 * The queue whose first job ranks best. A type that is at its cap, and suspects while the worker
 * has one, are passed over: they hide nobody.
 */
function bestOf(queues: readonly Queue[], call: Call): Queue | undefined {
  let best: Queue | undefined
  let first: Pick<Head, 'rank' | 'seq'> | undefined
  for (const queue of queues) {
    if (queue.suspect === 1 && call.hasSuspect) continue
    if (roomOf(queue.type, call) <= 0) continue
    const head = queue.head()
    if (head === undefined) continue
    if (first !== undefined && !isBefore(head.rank, head.seq, first.rank, first.seq)) continue
    best = queue
    first = head
  }
  return best
}

/** How many leases and holds there may be with this job, in the pool and of the worker in it. */
function limitsFor(
  { priority }: Row,
  { rules }: Pool,
  { board }: Call,
): { readonly cap: number; readonly share: number } {
  const { concurrency, elastic } = rules
  const share = shareOf(rules)
  if (elastic === null || !isUrgent(priority, elastic.minPriority, board.session.state.ageing)) {
    return { cap: concurrency, share }
  }
  return {
    cap: concurrency + raiseOf(concurrency, elastic),
    share: share + raiseOf(share, elastic),
  }
}

/** From when on rate and breaker let one start; Infinity while that is not up to time alone. */
function opensAt({ rules, tat, breaker }: Pool, now: number): number {
  const byRate = rules.rate === null ? 0 : freeAt(rules.rate, tat)
  return breaker === null ? byRate : Math.max(byRate, breaker.freeAt(now))
}

/** Promise 17, for the job that is next and has no room. One slot less in use has to be enough. */
function displaceFor(row: Row, pool: Pool, call: Call, cap: number, share: number): void {
  const terms = pool.rules.preempt
  const { board, slots, holder } = call
  const { state } = board.session
  if (terms === null || row.displaced) return
  if (!isUrgent(row.priority, terms.minPriority, state.ageing)) return
  const mine = slots.ofShare(pool.name, holder)
  if (slots.ofPool(pool.name) !== cap || mine > share) return
  const of = mine === share ? holder : undefined
  const held = board.session.rows('heldIn', pool.name)
  const { victim, at } = victimOf(
    held.filter((each) => !each.stuck),
    row,
    terms,
    board.now,
    of,
  )
  if (victim === undefined) call.nextAt = Math.min(call.nextAt, at)
  else board.displace(victim, row)
}
