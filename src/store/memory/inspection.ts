// Owns the look at the records that `doctor` asks for: what should not be, or waits for nobody.
// May never change anything. It is the one place that scans: nobody asks for it in a hurry.

import { findCycles } from '../../core/cycle.ts'
import { hasEnded, type JobStatus, STATUSES } from '../../core/job.ts'
import { LIMITS } from '../limits.ts'
import type { Inspection } from '../store.ts'
import type { Board } from './board.ts'
import type { Queue } from './queues.ts'
import type { JobRecord } from './record.ts'

type Counts = Record<JobStatus, number>

/** O(jobs + edges). */
export function inspect(board: Board): Inspection {
  return {
    ghosts: ghostsOf(board),
    cycles: cyclesOf(board),
    orphanedKeys: orphansOf(board),
    expired: expiredOf(board),
    damage: damageOf(board).slice(0, LIMITS.page),
  }
}

/** Each job that waits with each ghost it waits for, in order of seq. */
function ghostsOf(board: Board): Inspection['ghosts'] {
  const edges = [...board.graph.ghostEdges()].filter(
    ({ from, state }) => state === 'open' && from.status === 'waiting' && from.needs > 0,
  )
  const place = ({ from, dep }: (typeof edges)[number]) => from.deps.indexOf(dep)
  edges.sort((a, b) => a.from.seq - b.from.seq || place(a) - place(b))
  return edges.slice(0, LIMITS.page).map(({ from, dep }) => ({ id: from.id, dep: dep.id }))
}

function cyclesOf({ records }: Board): Inspection['cycles'] {
  const waits = (id: string) => records.get(id)?.status === 'waiting'
  const depsOf = (id: string) => {
    const edges = records.get(id)?.has.edges ?? []
    return edges.flatMap(({ state, dep }) => (state === 'open' && waits(dep.id) ? dep.id : []))
  }
  return findCycles([...records.keys()].filter(waits), depsOf, LIMITS.page)
}

/** A window that is over is no fault: it is forgotten when somebody asks for the key. */
function orphansOf({ keys, records }: Board): Inspection['orphanedKeys'] {
  const orphans: { readonly key: string; readonly owner: string }[] = []
  for (const [key, { owner, until }] of keys.entries()) {
    const isKnown = records.get(owner.id) === owner
    const isDue = until > 0 ? owner.status === 'success' : !hasEnded(owner.status)
    if (!isKnown || !isDue) orphans.push({ key, owner: owner.id })
    if (orphans.length === LIMITS.page) break
  }
  return orphans
}

function expiredOf({ pools, now }: Board): readonly JobRecord[] {
  const held = [...pools.held()].filter(({ deadline }) => deadline > 0 && deadline <= now)
  held.sort((a, b) => a.deadline - b.deadline || a.seq - b.seq)
  return held.slice(0, LIMITS.page)
}

/** Records that stand where they do not belong, and counts that are not those of the records. */
function damageOf(board: Board): readonly string[] {
  const damage: string[] = []
  const counts = new Map<Queue, Counts>()
  let unranked = 0
  for (const record of board.records.values()) {
    const count = counts.get(record.queue) ?? zeros()
    counts.set(record.queue, count)
    count[record.status] += 1
    const live = !hasEnded(record.status)
    if (live && record.weight !== board.ranks.weightOf(record.priority)) unranked += 1
    const fault = faultOf(record)
    if (fault !== undefined) damage.push(`${record.id} is ${record.status}, ${fault}`)
  }
  for (const queue of board.pools.queues()) {
    damage.push(...miscounts(queue, counts.get(queue) ?? zeros()))
  }
  const counted = board.ranks.unranked
  if (counted !== unranked) {
    damage.push(`${counted} jobs are counted as ranked by an older ageing: there are ${unranked}`)
  }
  return damage
}

function miscounts({ pool, type, counts }: Queue, found: Counts): readonly string[] {
  const wrong = STATUSES.filter((status) => counts[status] !== found[status])
  return wrong.map((status) => {
    const what = `jobs of type ${type} in pool ${pool.name} are counted as ${status}`
    return `${counts[status]} ${what}: there are ${found[status]}`
  })
}

function faultOf(record: JobRecord): string | undefined {
  const { status, lease, at, needs, open } = record
  if (status === 'running' && lease === undefined) return 'without a lease'
  if (lease !== undefined && !record.queue.pool.held.has(record)) return 'with a lease in no slot'
  if ((status === 'ready' || status === 'pending') && at < 0) return 'and stands in no line'
  if (status === 'waiting' && needs === 0 && at < 0) return 'for nothing'
  const stillOpen = record.has.edges.filter((edge) => edge.state === 'open').length
  return open === stillOpen ? undefined : `with ${open} open edges, of which ${stillOpen} are there`
}

function zeros(): Counts {
  return { pending: 0, waiting: 0, ready: 0, running: 0, success: 0, failed: 0, cancelled: 0 }
}
