// Owns a second opinion on why a job does not run, worked out from the naive view alone.
// May never read the engine's explanation before it has one of its own.

import type { Explanation } from '../../core/types.ts'
import { isEnd } from './copy.ts'
import { isSuspect } from './counts.ts'
import { expect, type Watch } from './oracle.ts'
import type { Seen } from './view.ts'

/** Blockers that an explanation names at most. */
const NAMED = 100

interface Opinion {
  readonly reason: string
  readonly blockedBy?: readonly string[]
  readonly position?: number
}

/** Asked for while the world stands still. */
export async function checkExplain(
  watch: Watch,
  seen: Seen,
  explain: (id: string) => Promise<Explanation>,
): Promise<void> {
  const { id } = seen.job
  const own = opinionOn(watch, seen)
  const given = await explain(id)
  const text = () => `${id}: explain says ${JSON.stringify(given)}, not ${JSON.stringify(own)}`
  const blockers = given.blockedBy?.map((each) => each.id) ?? []
  const same =
    given.status === seen.status &&
    given.reason === own.reason &&
    (own.position === undefined || own.position === given.position) &&
    (own.blockedBy === undefined || isListOf(own.blockedBy, blockers))
  expect(watch, 41, same, text, [id])
  watch.coverage.reason(own.reason)
  const ghosts = own.reason === 'unknown-dependency'
  if (!ghosts) return
  const says = given.blockedBy?.some((each) => each.status === 'unknown') === true
  expect(watch, 33, says, () => `${id}: waits for a ghost, and explain does not say so`, [id])
}

/** The same ids in any order, or as many of them as are ever named. */
function isListOf(all: readonly string[], given: readonly string[]): boolean {
  const known = given.every((id) => all.includes(id))
  return known && new Set(given).size === Math.min(all.length, NAMED)
}

function opinionOn(watch: Watch, seen: Seen): Opinion {
  if (seen.status === 'pending') return { reason: reasonOfPending(watch, seen) }
  if (seen.status === 'waiting') return opinionOnWaiting(watch, seen)
  if (seen.status === 'ready') return opinionOnReady(watch, seen)
  if (seen.status === 'cancelled' && seen.job.lease !== undefined) return { reason: 'stopping' }
  return { reason: seen.status }
}

/** Why it was sent to wait, by the last entry of its log that says so. */
function reasonOfPending({ view, world }: Watch, seen: Seen): string {
  const { budget } = view
  const isDue = (each: Seen) => each.again && each.job.availableAt <= world.time
  if (budget !== null && isDue(seen)) {
    const others = [...view.of('pending')].filter(isDue)
    const ahead = others.filter((each) => view.comesBefore(each, seen)).length
    if (budget.opensAt(ahead, world.time) > world.time) return 'budget'
  }
  const last = seen.log.findLast((event) => event.to === 'pending' || event.event === 'job:revived')
  if (last?.event === 'job:lost') return 'lost'
  return last?.event === 'job:retry' || last?.event === 'job:timeout' ? 'backoff' : 'delayed'
}

function opinionOnWaiting(watch: Watch, seen: Seen): Opinion {
  const { view, world } = watch
  const { needs } = view.countsOf(seen)
  if (needs === 0) return { reason: 'lane' }
  if (view.isDoomed(seen)) return { reason: 'doomed' }
  const open = [...seen.edges].filter(([, state]) => state === 'open').map(([id]) => id)
  const known = open.filter((id) => {
    return view.jobs.has(id) || view.endOf(id, world.time) !== undefined
  })
  const ghosts = known.length < needs && known.length < open.length
  return { reason: ghosts ? 'unknown-dependency' : 'dependency', blockedBy: open }
}

/** In the order in which they are given: what only people change, what time does, other jobs. */
function opinionOnReady(watch: Watch, seen: Seen): Opinion {
  const { view, world } = watch
  const { job } = seen
  const workers = [...view.workers.values()].filter((worker) => worker.until > world.time)
  const runs = (worker: (typeof workers)[number], other: typeof job) =>
    other.body !== undefined || worker.types.includes(other.type)
  const able = workers.filter((worker) => runs(worker, job))
  if (able.length === 0) return { reason: 'no-handler' }
  const takers = able.filter((worker) => !worker.full)
  if (takers.length === 0) return { reason: 'zombies' }
  const pool = view.pool(job.pool)
  if (pool.paused) return { reason: 'paused' }
  const line = [...view.of('ready')].filter((other) => {
    const isBefore = other.job.pool === job.pool && view.comesBefore(other, seen)
    return isBefore && workers.some((worker) => runs(worker, other.job))
  })
  const position = line.length + 1
  const cap = view.types.get(job.type)?.concurrency ?? Number.POSITIVE_INFINITY
  if (pool.concurrency === 0) return { reason: 'pool-full', position }
  if (cap === 0) return { reason: 'type-full' }
  if (pool.perWorker === 0) return { reason: 'worker-full' }
  const used = view.used(job.pool)
  const state = pool.breaker?.stateAt(world.time) ?? 'closed'
  // Nothing runs and nobody is ahead: this one is the probe.
  const isProbe = state === 'half-open' && used === 0 && line.length === 0
  if (state !== 'closed' && !isProbe) return { reason: 'breaker' }
  const rateAt = pool.rate?.opensAt(0, world.time) ?? 0
  if (rateAt > world.time) return { reason: 'rate', position }
  const free = isSuspect(seen) ? takers.filter(({ holder }) => !view.hasSuspect(holder)) : takers
  if (free.length === 0) return { reason: 'suspect' }
  if (view.usedOf(job.type) >= cap) return { reason: 'type-full' }
  const victim = view.victimOf(job.id)?.job.id
  if (victim !== undefined) return { reason: 'preempting', blockedBy: [victim] }
  const { elastic } = pool
  const isRaised = elastic !== null && view.isUrgent(job, elastic.minPriority)
  const most = isRaised ? pool.raised(pool.concurrency) : pool.concurrency
  if (used >= most) return { reason: 'pool-full', position }
  const share = isRaised ? pool.raised(pool.share) : pool.share
  const spent = free.every(({ holder }) => view.used(job.pool, holder) >= share)
  return spent ? { reason: 'worker-full', position } : { reason: 'next' }
}

/** Whether nothing at all keeps a ready job from starting. */
export function isStartable(watch: Watch, seen: Seen): boolean {
  return opinionOnReady(watch, seen).reason === 'next'
}

/** Whether what a job waits for is, in the end, an id that nobody has submitted. */
export function waitsForGhost(watch: Watch, seen: Seen, path = new Set<Seen>()): boolean {
  if (seen.status !== 'waiting' || path.has(seen)) return false
  path.add(seen)
  const { view, world } = watch
  for (const [id, state] of seen.edges) {
    if (state !== 'open') continue
    const other = view.jobs.get(id)
    if (other === undefined && view.endOf(id, world.time) === undefined) return true
    if (other !== undefined && !isEnd(other.status) && waitsForGhost(watch, other, path))
      return true
  }
  return laneHolderWaits(watch, seen, path)
}

function laneHolderWaits(watch: Watch, seen: Seen, path: Set<Seen>): boolean {
  const { exclusive } = seen.job
  if (exclusive === undefined || watch.view.countsOf(seen).needs > 0) return false
  const holder = [...(watch.view.lanes.get(exclusive) ?? [])].find((each) => each.admitted)
  return holder !== undefined && waitsForGhost(watch, holder, path)
}
