// Owns putting groups of jobs in: what would become of each, and then all of them or none.
// May never change anything before the whole group has been considered.

import { Live, type NewJob } from '../../core/job.ts'
import type { InsertAnswer, Inserted, InsertGroup, Refusal } from '../store.ts'
import type { Board } from './board.ts'
import { JobRecord } from './record.ts'
import { refuseForRoom } from './room.ts'

/** What is to become of a group: who is new, who was there, and the keys that it takes. */
interface Plan {
  /** Of all its jobs; a group of one needs none. */
  readonly ids: Set<string> | undefined
  readonly fresh: NewJob[]
  /** Per job: the record that was there already, or the id of one that is new. */
  readonly answers: (JobRecord | string)[]
  keys: Map<string, string> | undefined
  /** Whether any new job has dependencies. */
  linked: boolean
}

export class Insertion {
  readonly #board: Board

  constructor(board: Board) {
    this.#board = board
  }

  /** All of the group, or nothing of it. */
  insert(group: InsertGroup): InsertAnswer {
    const { fence, tick } = group
    const { timetable } = this.#board
    if (fence !== undefined && !this.#holds(fence.id, fence.lease)) return { status: 'stale' }
    if (tick !== undefined && !timetable.stands(tick.schedule, tick.at)) return { status: 'stale' }
    const plan = this.#plan(group)
    if ('refusals' in plan) return { status: 'refused', refusals: plan.refusals }
    if (tick !== undefined) {
      timetable.moveOn(tick.schedule, tick.nextAt)
      this.#board.scheduled(tick.nextAt)
    }
    const fresh = plan.fresh.map((job) => this.#record(job))
    for (const record of fresh) this.#board.introduce(record)
    for (const record of fresh) {
      if (record.deps.length > 0) this.#board.graph.link(record, this.#board.now)
    }
    for (const record of fresh) this.#board.begin(record)
    return { status: 'done', jobs: this.#answers(plan, fresh) }
  }

  /** Two jobs of one group that share a key share a record: only the first has added it. */
  #answers(plan: Plan, fresh: readonly JobRecord[]): readonly Inserted[] {
    let next = 0
    return plan.answers.map((answer): Inserted => {
      if (typeof answer !== 'string') return { added: false, job: answer }
      const record = fresh[next]
      if (record?.id !== answer) {
        return { added: false, job: this.#board.records.get(answer) as JobRecord }
      }
      next += 1
      return { added: true, job: record }
    })
  }

  #record(job: NewJob): JobRecord {
    const board = this.#board
    board.lastSeq += 1
    const queue = board.pools.queueOf(job.pool, job.type, job.body !== undefined)
    return new JobRecord(job, board.lastSeq, board.now, queue, board.ranks.weightOf(job.priority))
  }

  /** What would become of each job of a group: nothing is changed yet. */
  #plan(group: InsertGroup): Plan | { readonly refusals: readonly Refusal[] } {
    const ids = group.jobs.length > 1 ? new Set<string>() : undefined
    const plan: Plan = { ids, fresh: [], answers: [], keys: undefined, linked: false }
    const refusals: Refusal[] = []
    const given = group.unknownDeps === 'wait' ? null : new Set(group.jobs.map(({ id }) => id))
    for (let index = 0; index < group.jobs.length; index += 1) {
      const refusal = this.#consider(group.jobs[index] as NewJob, index, plan, given)
      if (refusal !== undefined) refusals.push(refusal)
    }
    if (refusals.length > 0) return { refusals }
    const path = plan.linked ? this.#board.graph.loopOf(plan.fresh, this.#board.now) : null
    if (path === null) return this.#withRoom(group, plan)
    const index = group.jobs.findIndex((job) => path.includes(job.id))
    return { refusals: [{ index: Math.max(0, index), reason: 'cycle', path }] }
  }

  #withRoom(group: InsertGroup, plan: Plan): Plan | { readonly refusals: readonly Refusal[] } {
    if (!this.#board.rooms.any) return plan
    const placed = group.jobs.map((job, index) => ({ job, index }))
    const fresh = new Set(plan.fresh)
    const refusals = refuseForRoom(
      this.#board,
      placed.filter(({ job }) => fresh.has(job)),
    )
    return refusals.length === 0 ? plan : { refusals }
  }

  /** `given`: the ids of the group, where a dependency that nobody knows is refused. */
  #consider(
    job: NewJob,
    index: number,
    plan: Plan,
    given: ReadonlySet<string> | null,
  ): Refusal | undefined {
    const { id, key } = job
    const { graph, keys, now, records } = this.#board
    if (plan.ids?.has(id)) return { index, reason: 'duplicate', id }
    plan.ids?.add(id)
    const known = records.get(id)
    if (known !== undefined) {
      if (known.type !== job.type || !isSame(known.payload, job.payload)) {
        return { index, reason: 'duplicate', id }
      }
      plan.answers.push(known)
      return undefined
    }
    if (key !== undefined) {
      const owner = plan.keys?.get(key) ?? keys.ownerOf(key, now)?.id
      if (owner !== undefined && !job.minted) return { index, reason: 'key', key, owner }
      if (owner !== undefined) {
        plan.answers.push(records.get(owner) ?? owner)
        return undefined
      }
      plan.keys ??= new Map()
      plan.keys.set(key, id)
    }
    if (given !== null) {
      const unknown = job.deps.find((dep) => !given.has(dep.id) && !graph.knows(dep.id, now))
      if (unknown !== undefined) return { index, reason: 'unknown', dep: unknown.id }
    }
    if (job.deps.length > 0) plan.linked = true
    plan.fresh.push(job)
    plan.answers.push(id)
    return undefined
  }

  #holds(id: string, lease: number): boolean {
    const record = this.#board.records.get(id)
    return record?.lease?.number === lease && !record.lease.hold
  }
}

function isSame(stored: unknown, given: unknown): boolean {
  if (stored instanceof Live && given instanceof Live) return Object.is(stored.value, given.value)
  return stored === given
}
