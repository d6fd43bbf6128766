// Owns pools and their ready queues, one per type, merged by rank.
// May never decide who may start: that is pick.ts.

import { type Breaker, isSameBreaker, renewBreaker } from '../../core/breaker.ts'
import { carried, freeAt } from '../../core/gcra.ts'
import { type JobStatus, STATUSES } from '../../core/job.ts'
import {
  changedTerms,
  isUrgent,
  type PoolRules,
  type PoolTerms,
  poolRules,
  raiseOf,
  shareOf,
} from '../../core/settings.ts'
import { isSuspect } from '../../core/suspect.ts'
import { Heap } from '../../kit/heap.ts'
import { LIMITS } from '../limits.ts'
import type { LeaseAsk, PoolChange, PoolState, StatusCounts } from '../store.ts'
import { type Call, takeFrom } from './pick.ts'
import type { JobRecord } from './record.ts'
import type { Room } from './room.ts'
import { Caps, Tally } from './slots.ts'

type Counts = Record<JobStatus, number>

/** The ready jobs of one pool and type; those with a body of their own have a queue apart. */
export interface Queue {
  readonly pool: Pool
  readonly type: string
  readonly bodies: boolean
  readonly line: Line
  /** Where its suspects stand, apart from the others; made for the first one. */
  suspects: Line | null
  readonly counts: Counts
  /** The number under which the log knows this pool and type. */
  readonly kind: number
}

/** Ready jobs by rank, all of which some worker may take, or none. */
export interface Line {
  readonly pool: Pool
  readonly type: string
  readonly bodies: boolean
  readonly suspects: boolean
  readonly heap: Heap<JobRecord>
  /** Its index among the lines of its pool that have ready jobs; -1 for none. */
  at: number
}

export interface Pool {
  readonly name: string
  /** Keyed by type; the queue of bodies has the type with a NUL before it. */
  readonly queues: Map<string, Queue>
  /** The lines with ready jobs, by the rank of their first one. */
  readonly heads: Heap<Line>
  /** Jobs that hold a lease or a hold here: slots in use are counted from these. */
  readonly held: Set<JobRecord>
  start: PoolTerms
  operator: PoolTerms
  /** What the two come to. */
  rules: PoolRules
  /** Only with a bound of its queue. */
  room: Room | undefined
  /** Its cap and its pause are all there is to it. */
  isPlain: boolean
  /** By holder, where one worker may have less than the pool. */
  shares: Tally | null
  /** The state of its rate; see core/gcra.ts. */
  tat: number
  breaker: Breaker | null
  /** The breaker that it had, if it has none: no pass of that one may count for the next. */
  oldBreaker: Breaker | null
}

const NO_TERMS: PoolTerms = Object.freeze({})

export class Pools {
  /** Types with a cap over all pools. */
  readonly caps = new Caps()
  /** Leases and holds of suspects, by holder. */
  readonly #suspects = new Tally()
  readonly #pools = new Map<string, Pool>()
  #names: readonly string[] | null = null
  readonly #asked = new WeakMap<readonly string[], ReadonlySet<string>>()
  readonly #kindOf: (type: string, pool: string) => number

  constructor(kindOf: (type: string, pool: string) => number) {
    this.#kindOf = kindOf
  }

  queueOf(name: string, type: string, bodies: boolean): Queue {
    const pool = this.#poolOf(name)
    const key = bodies ? `\0${type}` : type
    let queue = pool.queues.get(key)
    if (queue === undefined) {
      const of = { pool, type, bodies }
      const line = newLine(of, false)
      const kind = this.#kindOf(type, name)
      queue = { ...of, line, suspects: null, counts: zeros(), kind }
      pool.queues.set(key, queue)
    }
    return queue
  }

  /** Lets go of a queue whose last record is forgotten: types may be named per user or per day. */
  release(queue: Queue): void {
    if (STATUSES.some((status) => queue.counts[status] > 0)) return
    const { pool } = queue
    pool.queues.delete(queue.bodies ? `\0${queue.type}` : queue.type)
    const isSet = pool.start !== NO_TERMS || pool.operator !== NO_TERMS
    if (isSet || pool.queues.size > 0 || pool.held.size > 0) return
    this.#pools.delete(pool.name)
    this.#names = null
  }

  /** What is counted or remembered for a rule begins and ends with the rule. */
  configure({ pool: name, by, terms }: PoolChange, now: number): Pool {
    const pool = this.#poolOf(name)
    const before = pool.rules
    pool[by] = changedTerms(pool[by], terms)
    pool.rules = poolRules(pool.start, pool.operator)
    const { rate, elastic, preempt, breaker } = pool.rules
    pool.tat = carried(before.rate, rate, pool.tat, now)
    if (!isSameBreaker(before.breaker, breaker)) renewBreaker(pool, breaker)
    pool.shares = shareOf(pool.rules) === Number.POSITIVE_INFINITY ? null : sharesOf(pool)
    const rules = [rate, elastic, preempt, breaker, pool.shares]
    pool.isPlain = rules.every((rule) => rule === null)
    return pool
  }

  find(name: string): Pool | undefined {
    return this.#pools.get(name)
  }

  /** A slot is used, or free again. */
  occupy(record: JobRecord, holder: string): void {
    record.queue.pool.shares?.add(holder, record)
    this.caps.add(record)
    if (isSuspect(record)) this.#suspects.add(holder, record)
  }

  vacate(record: JobRecord, holder: string): void {
    record.queue.pool.held.delete(record)
    record.queue.pool.shares?.delete(holder, record)
    this.caps.delete(record)
    this.#suspects.delete(holder, record)
  }

  /** What was said of each pool. */
  settings(): Record<string, { start: PoolTerms; operator: PoolTerms }> {
    const said: Record<string, { start: PoolTerms; operator: PoolTerms }> = Object.create(null)
    for (const name of this.#sorted()) {
      const { start, operator } = this.#pools.get(name) as Pool
      if (start !== NO_TERMS || operator !== NO_TERMS) said[name] = { start, operator }
    }
    return said
  }

  /** Grants the best ready jobs that may start, pool by pool in order of name. */
  take(
    ask: LeaseAsk,
    { now, ageing, grant, displace }: Pick<Call, 'now' | 'ageing' | 'grant' | 'displace'>,
  ): { readonly nextAt: number } {
    const call: Call = {
      holder: ask.holder,
      types: this.#typesOf(ask),
      now,
      ageing,
      caps: this.caps,
      suspects: this.#suspects,
      left: Math.min(ask.max, LIMITS.moves),
      aside: { lines: [], records: [] },
      nextAt: Number.POSITIVE_INFINITY,
      grant,
      displace,
    }
    for (const name of this.#sorted()) {
      if (call.left > 0) takeFrom(this.#pools.get(name) as Pool, call)
    }
    return call
  }

  get(name: string, now: number): PoolState {
    return stateOf(this.#poolOf(name), now)
  }

  states(now: number): Record<string, PoolState> {
    const states: Record<string, PoolState> = Object.create(null)
    for (const name of this.#sorted()) states[name] = stateOf(this.#pools.get(name) as Pool, now)
    return states
  }

  /** Whether a worker has as many of the pool as it may, if this job were to start there. */
  isSpent({ queue, priority }: JobRecord, holder: string, ageing: Call['ageing']): boolean {
    const { rules, shares } = queue.pool
    if (shares === null) return false
    const { elastic } = rules
    const raised = elastic !== null && isUrgent(priority, elastic.minPriority, ageing)
    const share = shareOf(rules)
    return shares.count(holder) >= share + (raised ? raiseOf(share, elastic) : 0)
  }

  /** Whether the worker has a suspect, and so may not have this one. */
  isBarred(record: JobRecord, holder: string): boolean {
    return isSuspect(record) && this.#suspects.count(holder) > 0
  }

  types(): Record<string, StatusCounts> {
    const types: Record<string, Counts> = Object.create(null)
    for (const pool of this.#pools.values()) {
      for (const queue of pool.queues.values()) {
        types[queue.type] ??= zeros()
        add(types[queue.type] as Counts, queue.counts)
      }
    }
    return types
  }

  *queues(): Iterable<Queue> {
    for (const pool of this.#pools.values()) yield* pool.queues.values()
  }

  /** Leases and holds of a type over all pools. O(held). */
  runningOf(type: string): number {
    let count = 0
    for (const record of this.held()) if (record.type === type) count += 1
    return count
  }

  *held(): Iterable<JobRecord> {
    for (const pool of this.#pools.values()) yield* pool.held
  }

  /** Ready jobs of the pool that come before this one, of the types that somebody serves. */
  ahead(record: JobRecord, served: ReadonlySet<string> | null): number {
    let ahead = 0
    for (const queue of record.queue.pool.queues.values()) {
      if (served === null || !(queue.bodies || served.has(queue.type))) continue
      for (const line of [queue.line, queue.suspects]) {
        const { rank, seq } = record
        ahead += line?.heap.countBefore(rank, seq, LIMITS.position - ahead) ?? 0
      }
    }
    return ahead
  }

  /** Workers ask with the same list again and again. */
  #typesOf({ types }: LeaseAsk): ReadonlySet<string> {
    let known = this.#asked.get(types)
    if (known === undefined) {
      known = new Set(types)
      this.#asked.set(types, known)
    }
    return known
  }

  #poolOf(name: string): Pool {
    let pool = this.#pools.get(name)
    if (pool === undefined) {
      const heads = new Heap<Line>((line, index) => {
        line.at = index
      })
      const held = new Set<JobRecord>()
      const rules = poolRules(NO_TERMS, NO_TERMS)
      const said = { start: NO_TERMS, operator: NO_TERMS, rules, room: undefined }
      const kept = { shares: null, tat: 0, breaker: null, oldBreaker: null }
      pool = { name, queues: new Map(), heads, held, ...said, isPlain: true, ...kept }
      this.#pools.set(name, pool)
      this.#names = null
    }
    return pool
  }

  #sorted(): readonly string[] {
    this.#names ??= [...this.#pools.keys()].sort((a, b) => (a < b ? -1 : 1))
    return this.#names
  }
}

/** Puts a ready job where its rank belongs. */
export function standInLine(record: JobRecord): void {
  const line = lineOf(record)
  line.heap.push(record, record.rank, record.seq)
  headChanged(line)
}

/** Takes a ready job out, before it is ready no more. */
export function leaveLine(record: JobRecord): void {
  const line = lineOf(record)
  line.heap.remove(record.at)
  headChanged(line)
}

/** The rank of a ready job has changed. */
export function moveInLine(record: JobRecord): void {
  const line = lineOf(record)
  line.heap.update(record.at, record.rank, record.seq)
  headChanged(line)
}

/** As long as a job is ready, its losses stay what they are. */
function lineOf(record: JobRecord): Line {
  const { queue } = record
  if (!isSuspect(record)) return queue.line
  queue.suspects ??= newLine(queue, true)
  return queue.suspects
}

function newLine(
  { pool, type, bodies }: Pick<Queue, 'pool' | 'type' | 'bodies'>,
  suspects: boolean,
): Line {
  const heap = new Heap<JobRecord>((record, index) => {
    record.at = index
  })
  return { pool, type, bodies, suspects, heap, at: -1 }
}

/** Puts a line where its first job belongs among the lines of its pool. */
export function headChanged(line: Line): void {
  const { heap, pool } = line
  const { heads } = pool
  if (heap.size === 0) {
    if (line.at >= 0) heads.remove(line.at)
  } else if (line.at < 0) heads.push(line, heap.peekKey(), heap.peekTie())
  else heads.update(line.at, heap.peekKey(), heap.peekTie())
}

function sharesOf(pool: Pool): Tally {
  const shares = new Tally()
  for (const record of pool.held) shares.add(record.lease?.holder ?? '', record)
  return shares
}

function stateOf(pool: Pool, now: number): PoolState {
  const { rules, tat, breaker } = pool
  const states = zeros()
  const rateAt = rules.rate === null ? 0 : freeAt(rules.rate, tat)
  const breakerState = breaker?.state(now) ?? 'closed'
  for (const queue of pool.queues.values()) add(states, queue.counts)
  return {
    ...rules,
    rateAt: rateAt > now ? rateAt : 0,
    breakerState,
    breakerUntil: breakerState === 'open' ? (breaker?.freeAt(now) ?? 0) : 0,
    running: pool.held.size,
    ready: states.ready,
    states,
  }
}

function zeros(): Counts {
  return {
    pending: 0,
    waiting: 0,
    ready: 0,
    running: 0,
    success: 0,
    failed: 0,
    cancelled: 0,
  }
}

function add(sum: Counts, more: Counts): void {
  for (const status of STATUSES) sum[status] += more[status]
}
