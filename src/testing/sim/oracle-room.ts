// Owns a second opinion on room: which jobs of a group would stand in a bounded queue, and which
// of them find no place. May never keep a count: it looks at every pending and ready job.

import type { NewJob } from '../../core/job.ts'
import type { InsertGroup } from '../../store/store.ts'
import type { Overlay } from './oracle-insert.ts'
import type { Seen, View } from './view.ts'

/** A job of the group that would be pending or ready. */
interface Place {
  readonly index: number
  readonly job: NewJob
  readonly awaited: boolean
}

/** One line per pool without room, in order of the first job that finds none there. */
export function noRoom(
  overlay: Overlay,
  group: InsertGroup,
  owners: readonly (string | null)[],
): string[] {
  const fresh = group.jobs
    .map((job, index) => ({ job, index }))
    .filter(({ index }) => owners[index] === null)
  const { places, yielders } = placesOf(overlay, fresh)
  const refusals: { readonly index: number; readonly text: string }[] = []
  for (const name of new Set(places.map(({ job }) => job.pool))) {
    const { maxQueue, overflow } = overlay.view.pool(name)
    if (!Number.isFinite(maxQueue)) continue
    const own = places.filter(({ job }) => job.pool === name)
    const freed = yielders.filter((seen) => seen.job.pool === name).length
    const free = maxQueue - overlay.view.queued(name)
    const isBehind = overflow === 'wait' && group.behind?.includes(name) === true
    const room = Math.max(0, (isBehind ? Math.min(0, free) : free) + freed)
    const out = own.filter(({ awaited }, at) => at >= room && !awaited)
    const [first] = out
    if (first === undefined) continue
    const never = own.some(({ awaited }, at) => at >= maxQueue && !awaited) ? ' never' : ''
    const text = `${first.index} full ${name} ${maxQueue} ${overflow}${never}`
    refusals.push({ index: first.index, text })
  }
  return refusals.sort((one, other) => one.index - other.index).map(({ text }) => text)
}

/** Who holds a lane as the group goes in: somebody who is there, or one of the group. */
interface Holder {
  readonly rank: number
  readonly yields: boolean
  readonly index: number
  readonly seen: Seen | undefined
}

function placesOf(
  overlay: Overlay,
  fresh: readonly { readonly job: NewJob; readonly index: number }[],
): { readonly places: readonly Place[]; readonly yielders: readonly Seen[] } {
  const { view, now } = overlay
  const ids = new Set(fresh.map(({ job }) => job.id))
  const lanes = new Map<string, Holder>()
  const yielders: Seen[] = []
  let places: Place[] = []
  for (const { job, index } of fresh) {
    if (stillNeeds(view, job, ids, now)) continue
    const lane = job.delayMs > 0 ? undefined : job.exclusive
    if (lane !== undefined) {
      const rank = now - view.worth(job.priority)
      const holder = lanes.get(lane) ?? holderOf(view, lane)
      // Whoever is there came earlier: at the same rank it stays.
      if (holder !== undefined && !(holder.yields && rank < holder.rank)) continue
      if (holder?.seen !== undefined) yielders.push(holder.seen)
      else if (holder !== undefined) places = places.filter((place) => place.index !== holder.index)
      lanes.set(lane, { rank, yields: true, index, seen: undefined })
    }
    places.push({ index, job, awaited: isAwaited(view, job.id) })
  }
  return { places, yielders }
}

function stillNeeds(view: View, job: NewJob, ids: ReadonlySet<string>, now: number): boolean {
  const met = job.deps.filter((dep) => {
    const end = ids.has(dep.id) ? undefined : view.endOf(dep.id, now)
    return end === 'success' || (end !== undefined && dep.on === 'end')
  })
  const { depMode, deps } = job
  const wanted = depMode === 'all' ? deps.length : depMode === 'any' ? 1 : depMode
  return deps.length > 0 && met.length < wanted
}

function holderOf(view: View, lane: string): Holder | undefined {
  const seen = [...(view.lanes.get(lane) ?? [])].find((each) => each.admitted)
  if (seen === undefined) return undefined
  const yields = seen.status === 'ready' && !seen.startedSinceAdmission
  return { rank: view.rankOf(seen), yields, index: -1, seen }
}

/** Whether somebody who has not ended counts on an id that nobody has submitted. */
function isAwaited(view: View, id: string): boolean {
  if (view.jobs.has(id)) return false
  return [...(view.namers.get(id) ?? [])].some(({ status, edges }) => {
    return edges.get(id) === 'open' && !ENDS.includes(status)
  })
}

const ENDS: readonly string[] = ['success', 'failed', 'cancelled']
