// Owns the answer that an insertion deserves, worked out anew: what is added, what was there
// already, what is refused and why, and whether a loop would close.
// May never trust an answer: it is compared, job by job.

import { Live, type NewJob, type Stored } from '../../core/job.ts'
import type { Schedule } from '../../core/settings.ts'
import type { InsertAnswer, InsertGroup, Refusal } from '../../store/store.ts'
import { type Commit, expect, type Watch } from './oracle.ts'
import { noRoom } from './oracle-room.ts'
import { judgeTick } from './oracle-settings.ts'
import type { View } from './view.ts'

/** What becomes of a group: each job's place, or why nothing was stored. */
type Verdict =
  | { readonly status: 'stale' }
  | { readonly status: 'refused'; readonly reasons: readonly string[] }
  | { readonly status: 'done'; readonly owners: readonly (string | null)[] }

/**
 * Judges a call group by group: `fold` takes the entries of one group into the view, so that the
 * next one meets what the one before has left. It is told how many jobs that one added.
 */
export function judgeInsert(watch: Watch, commit: Commit, fold: (added: number) => void): void {
  const groups = commit.call.args[0] as readonly InsertGroup[]
  const { answer } = commit.answer as { readonly answer: readonly InsertAnswer[] }
  for (const [index, group] of groups.entries()) {
    const given = answer[index] as InsertAnswer
    const overlay = new Overlay(watch.view, commit.now)
    const verdict = judge(overlay, group)
    compare(watch, group, verdict, given)
    judgeTick(watch, commit, group, given)
    noteDeeds(watch, group, given)
    const owners = verdict.status === 'done' ? verdict.owners : []
    fold(owners.filter((owner) => owner === null).length)
  }
}

function noteDeeds({ view, coverage }: Watch, group: InsertGroup, given: InsertAnswer): void {
  const { tick } = group
  if (tick !== undefined && given.status === 'stale') coverage.deed('tick came too late')
  if (given.status === 'refused' && given.refusals.some(({ reason }) => reason === 'full')) {
    coverage.deed(tick === undefined ? 'refused for room' : 'schedule waits for room')
  }
  if (group.behind !== undefined) {
    coverage.deed(given.status === 'done' ? 'let in behind others' : 'kept out behind others')
  }
  if (given.status !== 'done') return
  for (const { added, job } of given.jobs) {
    const { pool } = job
    const isFull = view.queued(pool) >= view.pool(pool).maxQueue
    const inQueue = job.status === 'pending' || job.status === 'ready'
    if (added && inQueue && isFull) coverage.deed('fills a ghost in a full pool')
    const { payload } = job
    if (typeof payload === 'string' && payload.includes('"shaped":true')) coverage.deed('shaped')
  }
}

/** The view, with the jobs of a group that is not there yet. */
export class Overlay {
  readonly view: View
  readonly now: number
  readonly added = new Map<string, NewJob>()

  constructor(view: View, now: number) {
    this.view = view
    this.now = now
  }

  get(id: string): { readonly type: string; readonly payload: Stored } | undefined {
    return this.view.jobs.get(id)?.job
  }

  ownerOf(key: string): string | undefined {
    return this.view.ownerOf(key, this.now)
  }

  knows(id: string): boolean {
    return this.get(id) !== undefined || this.view.endOf(id, this.now) !== undefined
  }

  /** Edges that may still hold a job back, of jobs that have not succeeded. */
  openDeps(id: string): readonly string[] {
    const fresh = this.added.get(id)
    if (fresh !== undefined)
      return fresh.deps.filter((dep) => this.#opens(dep)).map((dep) => dep.id)
    const seen = this.view.jobs.get(id)
    if (seen === undefined || seen.status === 'success') return []
    return [...seen.edges].filter(([, state]) => state !== 'satisfied').map(([dep]) => dep)
  }

  /** Whether a dependency of a job that is only just added may count in a loop. */
  #opens({ id, on }: NewJob['deps'][number]): boolean {
    const end = this.added.has(id) ? undefined : this.view.endOf(id, this.now)
    return end === undefined || (on === 'success' && end !== 'success')
  }
}

function judge(overlay: Overlay, group: InsertGroup): Verdict {
  const { fence } = group
  if (fence !== undefined) {
    const parent = overlay.view.jobs.get(fence.id)
    const holds = parent?.status === 'running' && parent.job.lease?.number === fence.lease
    if (!holds) return { status: 'stale' }
  }
  const { tick } = group
  const row = tick === undefined ? undefined : overlay.view.schedules.get(tick.of.name)
  const says = (of: Schedule) => SAID.every((part) => row?.[part] === of[part])
  const isDue = tick === undefined || (row?.nextAt === tick.at && says(tick.of))
  if (!isDue) return { status: 'stale' }
  const reasons: string[] = []
  const owners: (string | null)[] = []
  const ids = new Set<string>()
  const keys = new Map<string, string>()
  const groupIds = new Set(group.jobs.map((job) => job.id))
  for (const [index, job] of group.jobs.entries()) {
    const place = placeOf(overlay, group, job, { ids, keys, groupIds })
    ids.add(job.id)
    if ('reason' in place) reasons.push(`${index} ${place.reason}`)
    // One that only names an unknown dependency has its key all the same: every fault is told.
    const keyed = 'reason' in place ? place.reason.startsWith('unknown') : place.owner === null
    if (keyed && job.key !== undefined) keys.set(job.key, job.id)
    owners.push('owner' in place ? place.owner : null)
  }
  if (reasons.length > 0) return { status: 'refused', reasons }
  if (closesLoop(overlay, group, owners)) return { status: 'refused', reasons: ['cycle'] }
  const full = noRoom(overlay, group, owners)
  return full.length > 0 ? { status: 'refused', reasons: full } : { status: 'done', owners }
}

interface Group {
  readonly ids: ReadonlySet<string>
  readonly keys: ReadonlyMap<string, string>
  readonly groupIds: ReadonlySet<string>
}

function placeOf(
  overlay: Overlay,
  group: InsertGroup,
  job: NewJob,
  { ids, keys, groupIds }: Group,
): { readonly reason: string } | { readonly owner: string | null } {
  if (ids.has(job.id)) return { reason: 'duplicate' }
  const known = overlay.get(job.id)
  if (known !== undefined) {
    const same = known.type === job.type && isSameValue(known.payload, job.payload)
    return same ? { owner: job.id } : { reason: 'duplicate' }
  }
  const owner = job.key === undefined ? undefined : (keys.get(job.key) ?? overlay.ownerOf(job.key))
  if (owner !== undefined) return job.minted ? { owner } : { reason: `key ${owner}` }
  const unknown = job.deps.find((dep) => !groupIds.has(dep.id) && !overlay.knows(dep.id))
  if (unknown !== undefined && group.unknownDeps === 'reject') {
    return { reason: `unknown ${unknown.id}` }
  }
  return { owner: null }
}

function isSameValue(one: Stored, other: Stored): boolean {
  if (one instanceof Live && other instanceof Live) return one.value === other.value
  return one === other
}

/** Whether the graph, with the group in it, has a loop through one of the group. */
function closesLoop(overlay: Overlay, group: InsertGroup, owners: readonly (string | null)[]) {
  const fresh = group.jobs.filter((_, index) => owners[index] === null)
  if (fresh.every((job) => job.deps.length === 0)) return false
  const tried = new Overlay(overlay.view, overlay.now)
  for (const job of fresh) tried.added.set(job.id, job)
  return fresh.some((job) => job.deps.length > 0 && reaches(tried, job.id))
}

/** Whether a job can be reached from itself. */
function reaches(overlay: Overlay, id: string): boolean {
  const todo = [...overlay.openDeps(id)]
  const done = new Set<string>()
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    if (next === id) return true
    if (done.has(next)) continue
    done.add(next)
    todo.push(...overlay.openDeps(next))
  }
  return false
}

function compare(watch: Watch, group: InsertGroup, verdict: Verdict, given: InsertAnswer): void {
  const ids = group.jobs.map((job) => job.id)
  const text = () =>
    `insert of ${ids.join(', ')}: answered ${brief(given)}, expected ${JSON.stringify(verdict)}`
  if (verdict.status === 'stale') watch.coverage.fault('submits while stale')
  const invariant = verdict.status === 'stale' ? 8 : 40
  expect(watch, invariant, given.status === verdict.status, text, ids)
  if (given.status === 'refused' && verdict.status === 'refused') {
    const loop = verdict.reasons[0] === 'cycle'
    const reasons = given.refusals.map(show)
    const same = loop ? given.refusals[0]?.reason === 'cycle' : same2(reasons, verdict.reasons)
    const full = given.refusals.some(({ reason }) => reason === 'full')
    expect(watch, loop ? 32 : full ? 40 : 34, same, text, ids)
    if (loop) checkLoop(watch, group, given.refusals[0] as Refusal, text)
  }
  if (given.status !== 'done' || verdict.status !== 'done') return
  for (const [index, inserted] of given.jobs.entries()) {
    const owner = verdict.owners[index]
    const job = group.jobs[index] as NewJob
    const right = inserted.added === (owner === null) && inserted.job.id === (owner ?? job.id)
    expect(watch, owner === null || owner === job.id ? 36 : 34, right, text, ids)
  }
  if (group.jobs.some((job) => job.deps.length > 0)) watch.coverage.checked(32)
}

function same2(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((each, index) => each === other[index])
}

function show(refusal: Refusal): string {
  if (refusal.reason === 'key') return `${refusal.index} key ${refusal.owner}`
  if (refusal.reason === 'unknown') return `${refusal.index} unknown ${refusal.dep}`
  if (refusal.reason !== 'full') return `${refusal.index} ${refusal.reason}`
  const { index, pool, maxQueue, overflow, never } = refusal
  return `${index} full ${pool} ${maxQueue} ${overflow}${never ? ' never' : ''}`
}

function brief(answer: InsertAnswer): string {
  if (answer.status === 'refused') return JSON.stringify(answer)
  if (answer.status === 'stale') return 'stale'
  return `done (${answer.jobs.map((each) => `${each.job.id}${each.added ? '+' : ''}`).join(' ')})`
}

/** A loop that is shown is one: each id waits for the one before. */
function checkLoop(watch: Watch, group: InsertGroup, refusal: Refusal, text: () => string): void {
  if (refusal.reason !== 'cycle') return
  const { path } = refusal
  const own = new Map(group.jobs.map((job) => [job.id, job]))
  const depsOf = (id: string) => (own.get(id) ?? watch.view.jobs.get(id)?.job)?.deps ?? []
  const linked = path.every((id, index) => {
    const before = path[index - 1]
    return before === undefined || depsOf(id).some((dep) => dep.id === before)
  })
  const closed = path.length > 1 && path[0] === path.at(-1)
  expect(watch, 32, linked && closed, () => `${text()}: the loop shown is none`)
}

/** What has to be as it was when a schedule was handed out. */
const SAID = ['cron', 'timeZone', 'missed', 'template'] as const
