// Owns what the model finds when it looks at itself: ghosts, loops, keys, leases that are over.
// May never expect to find nothing: it looks.

import type { Inspection } from '../store/store.ts'
import { viewOf } from './model-read.ts'
import { find, hasEnded, keyOwner, needsOf, type Row, type World } from './model-world.ts'

const PAGE = 500

export function inspectWorld(world: World): Inspection {
  const waiting = world.rows.filter((row) => row.status === 'waiting' && needsOf(row) > 0)
  const openDeps = (row: Row) =>
    row.edges.filter((edge) => edge.state === 'open').map((edge) => edge.dep.id)
  const ghosts = waiting.flatMap((row) =>
    openDeps(row)
      .filter((dep) => find(world, dep) === undefined)
      .map((dep) => ({ id: row.job.id, dep })),
  )
  const reaches = (from: string, to: string, seen: string[]): boolean => {
    if (seen.includes(from)) return false
    seen.push(from)
    const next = waiting.filter((row) => row.job.id === from).flatMap(openDeps)
    return next.some((id) => id === to || reaches(id, to, seen))
  }
  const looping = waiting.filter((row) => reaches(row.job.id, row.job.id, []))
  const late = world.rows.filter(
    ({ lease, deadline }) => lease !== undefined && deadline > 0 && deadline <= world.now(),
  )
  return {
    ghosts: ghosts.slice(0, PAGE),
    // One by one: the model is asked about loops only to see that there is none.
    cycles: looping.map((row) => [row.job.id]),
    orphanedKeys: orphansOf(world),
    expired: late
      .sort((a, b) => a.deadline - b.deadline || a.seq - b.seq)
      .slice(0, PAGE)
      .map(viewOf),
    damage: [],
  }
}

/** A key that somebody alive brought along, and that is another's or nobody's. */
function orphansOf(world: World): Inspection['orphanedKeys'] {
  const alive = world.rows.filter((row) => row.job.key !== undefined && !hasEnded(row.status))
  const robbed = alive.filter((row) => keyOwner(world, row.job.key) !== row)
  return robbed.map((row) => ({ key: row.job.key as string, owner: row.job.id }))
}
