// Owns how the model bounds queues: it stores a group, counts, and takes it all back if need be.
// May never foresee where a job will be placed: it looks where it is.

import type { NewJob } from '../core/job.ts'
import type { InsertGroup, Refusal } from '../store/store.ts'
import { find, hasEnded, type Row, settingsOf, type World } from './model-world.ts'

/** Everything that storing a group can change, as it was before. */
export function savepoint(world: World): () => void {
  const rows = world.rows.map((row) => [row, { ...row, edges: row.edges.map(copyOf) }] as const)
  const { outcomes, lastSeq, lastEvent } = world
  const log = [...world.log]
  return () => {
    for (const [row, before] of rows) Object.assign(row, before)
    world.rows = rows.map(([row]) => row)
    Object.assign(world, { outcomes, lastSeq, lastEvent, log })
  }
}

function copyOf<T extends object>(part: T): T {
  return { ...part }
}

/** The ids that somebody alive counts on, and that nobody has submitted. */
export function awaitedOf(world: World, jobs: readonly NewJob[]): ReadonlySet<string> {
  const isAwaited = ({ id }: NewJob) =>
    find(world, id) === undefined &&
    world.rows.some(
      (row) =>
        !hasEnded(row.status) &&
        row.edges.some((edge) => edge.dep.id === id && edge.state === 'open' && !edge.cut),
    )
  return new Set(jobs.filter(isAwaited).map(({ id }) => id))
}

/** The places that are kept for others, by pool: those that are free where others wait for one. */
export function keptFor(
  world: World,
  { behind = [] }: Pick<InsertGroup, 'behind'>,
): ReadonlyMap<string, number> {
  const patient = behind.filter((pool) => settingsOf(world, pool).overflow === 'wait')
  return new Map(
    patient.map((pool) => {
      const free = settingsOf(world, pool).maxQueue - queuedIn(world, pool).length
      return [pool, world.rules.passesBy ? 0 : Math.max(0, free)]
    }),
  )
}

function queuedIn(world: World, pool: string): readonly Row[] {
  return world.rows.filter((row) => row.job.pool === pool && world.rules.takesRoom(row))
}

/**
 * Why the group that has just been stored may not stay. As it was before: `awaited`, the ids that
 * need no room, and `kept`, the places that are for others.
 */
export function refusalsForRoom(
  world: World,
  jobs: readonly NewJob[],
  rows: readonly Row[],
  awaited: ReadonlySet<string>,
  kept: ReadonlyMap<string, number>,
): Refusal[] {
  const pools = [...new Set(rows.map((row) => row.job.pool))]
  const refusals = pools.flatMap((pool): Refusal[] => {
    const { maxQueue, overflow } = settingsOf(world, pool)
    if (!Number.isFinite(maxQueue)) return []
    const queued = queuedIn(world, pool)
    const own = queued.filter((row) => rows.includes(row))
    const left = maxQueue - (queued.length - own.length) - (kept.get(pool) ?? 0)
    const needsRoom = (row: Row) => !(awaited.has(row.job.id) && world.rules.fillsForFree(row))
    const out = own.filter((row, at) => at + 1 > left && needsRoom(row))[0]
    if (out === undefined) return []
    const never = own.some((row, at) => at + 1 > maxQueue && needsRoom(row))
    const index = jobs.findIndex((job) => job.id === out.job.id)
    return [{ index, reason: 'full', pool, maxQueue, overflow, never }]
  })
  return refusals.sort((a, b) => a.index - b.index)
}
