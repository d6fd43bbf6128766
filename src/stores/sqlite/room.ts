// Owns the bounds of queues: which jobs of a group find room in their pools.
// May never change a job: a group is judged before it is stored.

import type { NewJob } from '../../core/job.ts'
import { isBefore, rankOf } from '../../core/rank.ts'
import type { Refusal } from '../../store/store.ts'
import type { Board } from './board.ts'
import type { Pool } from './pools.ts'
import type { Row } from './row.ts'

/** What a group asks of one pool. */
interface Claim {
  /** The jobs that would be pending or ready, in order: where in the group, and if exempt. */
  readonly jobs: { readonly index: number; readonly awaited: boolean }[]
  /** Places that its lanes' holders give back, because they yield to jobs of the group. */
  yielded: number
}

/** Who would hold a lane: a row, or the job of the group with that index. */
interface Holder {
  readonly by: Row | number
  readonly rank: number
  readonly seq: number
  readonly yields: boolean
}

export interface Placed {
  readonly index: number
  readonly job: NewJob
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
  for (const [name, { jobs, yielded }] of claimsOf(board, fresh)) {
    const pool = board.pools.get(name)
    const { maxQueue, overflow } = pool.rules
    if (maxQueue === Number.POSITIVE_INFINITY) continue
    const free = maxQueue - board.pools.queuedOf(name)
    const isBehind = overflow === 'wait' && behind.includes(name)
    const room = Math.max(0, (isBehind ? Math.min(0, free) : free) + yielded)
    const last = jobs.findLastIndex(({ awaited }) => !awaited)
    if (last < room) continue
    const first = jobs.findIndex(({ awaited }, at) => at >= room && !awaited)
    const index = jobs[first]?.index ?? 0
    const never = last >= maxQueue
    refusals.push({ index, reason: 'full', pool: name, maxQueue, overflow, never })
    const isFull = last >= free + yielded
    if (isFull) wants.push({ pool, places: Math.max(1, last + 1 - yielded) })
  }
  const mayWait = (each: Refusal) =>
    each.reason === 'full' && each.overflow === 'wait' && !each.never
  if (refusals.every(mayWait)) for (const { pool, places } of wants) board.pools.want(pool, places)
  return refusals.sort((a, b) => a.index - b.index)
}

/** Who of the group would be pending or ready, pool by pool: lanes are taken in order. */
function claimsOf(board: Board, fresh: readonly Placed[]): ReadonlyMap<string, Claim> {
  const { graph, session } = board
  const ids = new Set(fresh.map(({ job }) => job.id))
  const lanes = new Map<string, Holder>()
  const out = new Set<number>()
  const claims = new Map<string, Claim>()
  const claimOf = (pool: string): Claim => {
    const claim = claims.get(pool) ?? { jobs: [], yielded: 0 }
    claims.set(pool, claim)
    return claim
  }
  fresh.forEach(({ index, job }, at) => {
    if (graph.wouldWait(job, ids)) return
    if (job.delayMs === 0 && job.exclusive !== undefined) {
      const rank = rankOf(session.now, session.weightOf(job.priority))
      const seq = session.state.lastSeq + 1 + at
      const holder = lanes.get(job.exclusive) ?? holderOf(board, job.exclusive)
      if (holder !== undefined) {
        if (!holder.yields || !isBefore(rank, seq, holder.rank, holder.seq)) return
        if (typeof holder.by === 'number') out.add(holder.by)
        else claimOf(holder.by.pool).yielded += 1
      }
      lanes.set(job.exclusive, { by: index, rank, seq, yields: true })
    }
    if (board.pools.get(job.pool).rules.maxQueue === Number.POSITIVE_INFINITY) return
    claimOf(job.pool).jobs.push({ index, awaited: graph.isAwaited(job.id) })
  })
  if (out.size === 0) return claims
  return new Map(
    [...claims].map(([pool, { jobs, yielded }]) => {
      return [pool, { jobs: jobs.filter(({ index }) => !out.has(index)), yielded }]
    }),
  )
}

function holderOf({ lanes }: Board, name: string): Holder | undefined {
  const claim = lanes.claimOn(name)
  if (claim === undefined) return undefined
  const { by, yields } = claim
  return { by, rank: by.rank, seq: by.seq, yields }
}
