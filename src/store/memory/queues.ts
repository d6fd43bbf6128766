// Owns pools and their ready queues, one per type, merged by rank.
// May never hand out more than a pool's concurrency allows.

import { type JobStatus, STATUSES } from '../../core/job.ts'
import { changedTerms, type PoolRules, type PoolTerms, poolRules } from '../../core/settings.ts'
import { Heap } from '../../kit/heap.ts'
import { LIMITS } from '../limits.ts'
import type { LeaseAsk, PoolChange, PoolState, StatusCounts } from '../store.ts'
import type { JobRecord } from './record.ts'
import type { Room } from './room.ts'

type Counts = Record<JobStatus, number>

/** The ready jobs of one pool and type; those with a body of their own have a queue apart. */
export interface Queue {
  readonly pool: Pool
  readonly type: string
  readonly bodies: boolean
  readonly heap: Heap<JobRecord>
  readonly counts: Counts
  /** The number under which the log knows this pool and type. */
  readonly kind: number
  /** Its index among the queues of its pool that have ready jobs; -1 for none. */
  at: number
}

export interface Pool {
  readonly name: string
  /** Keyed by type; the queue of bodies has the type with a NUL before it. */
  readonly queues: Map<string, Queue>
  /** Those with ready jobs, by the rank of their first one. */
  readonly heads: Heap<Queue>
  /** Jobs that hold a lease or a hold here: slots in use are counted from these. */
  readonly held: Set<JobRecord>
  start: PoolTerms
  operator: PoolTerms
  /** What the two come to. */
  rules: PoolRules
  /** Only with a bound of its queue. */
  room: Room | undefined
}

const NO_TERMS: PoolTerms = Object.freeze({})

export class Pools {
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
      const heap = new Heap<JobRecord>((record, index) => {
        record.at = index
      })
      const kind = this.#kindOf(type, name)
      queue = { pool, type, bodies, heap, counts: zeros(), kind, at: -1 }
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

  configure({ pool: name, by, terms }: PoolChange): Pool {
    const pool = this.#poolOf(name)
    pool[by] = changedTerms(pool[by], terms)
    pool.rules = poolRules(pool.start, pool.operator)
    return pool
  }

  find(name: string): Pool | undefined {
    return this.#pools.get(name)
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

  /** Takes the best ready jobs that fit, pool by pool in order of name. */
  take(ask: LeaseAsk): readonly JobRecord[] {
    const taken: JobRecord[] = []
    const types = this.#typesOf(ask)
    const max = Math.min(ask.max, LIMITS.moves)
    for (const name of this.#sorted()) {
      const pool = this.#pools.get(name) as Pool
      const room = pool.rules.paused ? 0 : pool.rules.concurrency - pool.held.size
      const wanted = Math.min(room, max - taken.length)
      if (wanted > 0) takeFrom(pool, types, wanted, taken)
    }
    return taken
  }

  get(name: string): PoolState {
    return stateOf(this.#poolOf(name))
  }

  states(): Record<string, PoolState> {
    const states: Record<string, PoolState> = Object.create(null)
    for (const name of this.#sorted()) states[name] = stateOf(this.#pools.get(name) as Pool)
    return states
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

  *held(): Iterable<JobRecord> {
    for (const pool of this.#pools.values()) yield* pool.held
  }

  /** Ready jobs of the pool that come before this one, of the types that somebody serves. */
  ahead(record: JobRecord, served: ReadonlySet<string> | null): number {
    let ahead = 0
    for (const queue of record.queue.pool.queues.values()) {
      if (served === null || !(queue.bodies || served.has(queue.type))) continue
      ahead += queue.heap.countBefore(record.rank, record.seq, LIMITS.position - ahead)
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
      const heads = new Heap<Queue>((queue, index) => {
        queue.at = index
      })
      const held = new Set<JobRecord>()
      const rules = poolRules(NO_TERMS, NO_TERMS)
      const said = { start: NO_TERMS, operator: NO_TERMS, rules, room: undefined }
      pool = { name, queues: new Map(), heads, held, ...said }
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

/** Takes the best of the queues that are served. O(log types + log jobs) for each. */
function takeFrom(pool: Pool, types: ReadonlySet<string>, most: number, taken: JobRecord[]) {
  const unserved: Queue[] = []
  for (let wanted = most; wanted > 0; ) {
    const best = pool.heads.peek()
    if (best === undefined) break
    if (best.bodies || types.has(best.type)) {
      taken.push(best.heap.pop() as JobRecord)
      headChanged(best)
      wanted -= 1
    } else unserved.push(pool.heads.pop() as Queue)
  }
  for (const queue of unserved) headChanged(queue)
}

/** Puts a queue where its first job belongs among the queues of its pool. */
export function headChanged(queue: Queue): void {
  const { heap, pool } = queue
  if (heap.size === 0) {
    if (queue.at >= 0) pool.heads.remove(queue.at)
  } else if (queue.at < 0) pool.heads.push(queue, heap.peekKey(), heap.peekTie())
  else pool.heads.update(queue.at, heap.peekKey(), heap.peekTie())
}

function stateOf(pool: Pool): PoolState {
  const states = zeros()
  for (const queue of pool.queues.values()) add(states, queue.counts)
  return {
    ...pool.rules,
    rateAt: 0,
    breakerState: 'closed',
    breakerUntil: 0,
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
