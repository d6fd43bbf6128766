// Owns the bounds of queues: which jobs of a group find room in their pools, and who has to be
// told when there is room again. May never change a job: a group is judged before it is stored.

import type { JobStatus, NewJob } from '../../core/job.ts'
import { isBefore, rankOf } from '../../core/rank.ts'
import type { Refusal } from '../store.ts'
import type { Board } from './board.ts'
import type { Pool } from './queues.ts'
import type { JobRecord } from './record.ts'

/** What is kept of a pool with a bound, and of no other. */
export interface Room {
  /** Its jobs that are pending or ready. */
  queued: number
  /** The fewest places with which somebody who waits would be let in; Infinity: nobody waits. */
  wanted: number
}

/** Whether a job in this state takes a place. */
export function takesPlace(status: JobStatus): boolean {
  return status === 'pending' || status === 'ready'
}

/** Pools in which somebody waits for room. Few, or none: each is looked at once per call. */
export class Rooms {
  readonly #waiting = new Set<Pool>()
  #bounds = 0

  /** Whether any pool has a bound at all. */
  get any(): boolean {
    return this.#bounds > 0
  }

  /** The rules of a pool have changed. Counts its jobs if it has a bound only now. */
  configure(pool: Pool): void {
    const isBound = pool.rules.maxQueue !== Number.POSITIVE_INFINITY
    if (isBound && pool.room === undefined) {
      let queued = 0
      for (const { counts } of pool.queues.values()) queued += counts.pending + counts.ready
      pool.room = { queued, wanted: Number.POSITIVE_INFINITY }
      this.#bounds += 1
    } else if (!isBound && pool.room !== undefined) {
      pool.room = undefined
      this.#bounds -= 1
    }
    // Whoever waits learns the new rule: by getting in, or by being refused under it.
    if (pool.room !== undefined && this.#waiting.has(pool)) pool.room.wanted = 0
  }

  /** A group was refused that would be let in with so many places. */
  want(pool: Pool, places: number): void {
    if (pool.room === undefined) return
    pool.room.wanted = Math.min(pool.room.wanted, places)
    this.#waiting.add(pool)
  }

  /** The pools that have room for somebody who waits: each is told once, then asked for anew. */
  take(): readonly string[] {
    if (this.#waiting.size === 0) return NO_POOLS
    const pools = [...this.#waiting].filter(({ rules, room }) => {
      return room === undefined || room.wanted <= Math.max(0, rules.maxQueue - room.queued)
    })
    for (const pool of pools) {
      this.#waiting.delete(pool)
      if (pool.room !== undefined) pool.room.wanted = Number.POSITIVE_INFINITY
    }
    return pools.map(({ name }) => name)
  }
}

const NO_POOLS: readonly string[] = Object.freeze([])

/** What a group asks of one pool. */
interface Claim {
  /** The jobs that would be pending or ready, in order: where in the group, and if exempt. */
  readonly jobs: { readonly index: number; readonly awaited: boolean }[]
  /** Places that its lanes' holders give back, because they yield to jobs of the group. */
  yielded: number
}

/** Who would hold a lane: a record, or the job of the group with that index. */
interface Holder {
  readonly by: JobRecord | number
  readonly rank: number
  readonly seq: number
  readonly yields: boolean
}

/**
 * Why a group has to stay out: one refusal for each pool in which it finds no room, in order of
 * the jobs. `fresh`: those that would be added, with their places in the group. `behind`: pools
 * whose free places are for others, where they wait for them. O(jobs + edges).
 */
export function refuseForRoom(
  board: Board,
  fresh: readonly Placed[],
  behind: readonly string[],
): readonly Refusal[] {
  const refusals: Refusal[] = []
  const wants: { readonly pool: Pool; readonly places: number }[] = []
  for (const [pool, { jobs, yielded }] of claimsOf(board, fresh)) {
    if (pool.room === undefined) continue
    const { maxQueue, overflow } = pool.rules
    const free = maxQueue - pool.room.queued
    const isBehind = overflow === 'wait' && behind.includes(pool.name)
    const room = Math.max(0, (isBehind ? Math.min(0, free) : free) + yielded)
    const last = jobs.findLastIndex(({ awaited }) => !awaited)
    if (last < room) continue
    const first = jobs.findIndex(({ awaited }, at) => at >= room && !awaited)
    const index = jobs[first]?.index ?? 0
    const never = last >= maxQueue
    refusals.push({ index, reason: 'full', pool: pool.name, maxQueue, overflow, never })
    const isFull = last >= free + yielded
    if (isFull) wants.push({ pool, places: Math.max(1, last + 1 - yielded) })
  }
  const mayWait = (each: Refusal) =>
    each.reason === 'full' && each.overflow === 'wait' && !each.never
  if (refusals.every(mayWait)) for (const { pool, places } of wants) board.rooms.want(pool, places)
  return refusals.sort((a, b) => a.index - b.index)
}

export interface Placed {
  readonly index: number
  readonly job: NewJob
}

/** Who of the group would be pending or ready, pool by pool: lanes are taken in order. */
function claimsOf(board: Board, fresh: readonly Placed[]): ReadonlyMap<Pool, Claim> {
  const { graph, now } = board
  const ids = new Set(fresh.map(({ job }) => job.id))
  const lanes = new Map<string, Holder>()
  const out = new Set<number>()
  const claims = new Map<Pool, Claim>()
  const claimOf = (pool: Pool): Claim => {
    const claim = claims.get(pool) ?? { jobs: [], yielded: 0 }
    claims.set(pool, claim)
    return claim
  }
  fresh.forEach(({ index, job }, at) => {
    if (graph.wouldWait(job, ids, now)) return
    if (job.delayMs === 0 && job.exclusive !== undefined) {
      const rank = rankOf(now, board.ranks.weightOf(job.priority))
      const seq = board.lastSeq + 1 + at
      const holder = lanes.get(job.exclusive) ?? board.lanes.claimOn(job.exclusive)
      if (holder !== undefined) {
        if (!holder.yields || !isBefore(rank, seq, holder.rank, holder.seq)) return
        if (typeof holder.by === 'number') out.add(holder.by)
        else claimOf(holder.by.queue.pool).yielded += 1
      }
      lanes.set(job.exclusive, { by: index, rank, seq, yields: true })
    }
    const pool = board.pools.find(job.pool)
    if (pool?.room === undefined) return
    claimOf(pool).jobs.push({ index, awaited: graph.isAwaited(job.id) })
  })
  if (out.size === 0) return claims
  return new Map(
    [...claims].map(([pool, { jobs, yielded }]) => {
      return [pool, { jobs: jobs.filter(({ index }) => !out.has(index)), yielded }]
    }),
  )
}
