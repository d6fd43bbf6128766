// Owns putting groups of jobs in: what would become of each, and then all of them or none.
// May never change anything before the whole group has been considered.

import { Live, type NewJob } from '../../core/job.ts'
import type { InsertAnswer, Inserted, InsertGroup, Refusal, ReplaceGroup } from '../store.ts'
import type { Board } from './board.ts'
import { JobRecord } from './record.ts'
import { refuseForRoom } from './room.ts'
import { withdraw } from './withdrawal.ts'

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

const NOBODY: ReadonlySet<string> = new Set()
const NOWHERE: readonly string[] = []

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
    if (tick !== undefined && !timetable.stands(tick)) return { status: 'stale' }
    const plan = this.#plan(group, NOBODY)
    if ('refusals' in plan) return { status: 'refused', refusals: plan.refusals }
    const full = this.#board.rooms.any ? this.#refuseForRoom(group, plan) : []
    if (full.length > 0) return { status: 'refused', refusals: full }
    if (tick !== undefined) {
      timetable.moveOn(tick.of.name, tick.nextAt)
      this.#board.scheduled(tick.nextAt)
    }
    return this.#carryOut(plan)
  }

  /** The same, in place of jobs that are taken out: see `replace` of the port. */
  replace(group: ReplaceGroup): InsertAnswer {
    const { fence, gone } = group
    const board = this.#board
    if (fence !== undefined && !this.#holds(fence.id, fence.lease)) return { status: 'stale' }
    const records = gone.map(({ id }) => board.records.get(id))
    const stands = (record: JobRecord | undefined, at: number) =>
      record !== undefined &&
      record.seq === gone[at]?.seq &&
      record.rev === gone[at]?.rev &&
      record.lease === undefined &&
      record.status !== 'success'
    if (!records.every(stands)) return { status: 'stale' }
    const plan = this.#plan(group, new Set(gone.map(({ id }) => id)))
    if ('refusals' in plan) return { status: 'refused', refusals: plan.refusals }
    withdraw(board, records as JobRecord[])
    return this.#carryOut(plan)
  }

  #carryOut(plan: Plan): InsertAnswer {
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

  /** What would become of each job without those that are `gone`: nothing is changed yet. */
  #plan(
    group: Omit<InsertGroup, 'tick'>,
    gone: ReadonlySet<string>,
  ): Plan | { readonly refusals: readonly Refusal[] } {
    const ids = group.jobs.length > 1 ? new Set<string>() : undefined
    const plan: Plan = { ids, fresh: [], answers: [], keys: undefined, linked: false }
    const refusals: Refusal[] = []
    const given = group.unknownDeps === 'wait' ? null : new Set(group.jobs.map(({ id }) => id))
    for (let index = 0; index < group.jobs.length; index += 1) {
      const refusal = this.#consider(group.jobs[index] as NewJob, index, plan, given, gone)
      if (refusal !== undefined) refusals.push(refusal)
    }
    if (refusals.length > 0) return { refusals }
    const path = plan.linked ? this.#board.graph.loopOf(plan.fresh, this.#board.now, gone) : null
    if (path === null) return plan
    const index = group.jobs.findIndex((job) => path.includes(job.id))
    return { refusals: [{ index: Math.max(0, index), reason: 'cycle', path }] }
  }

  #refuseForRoom(group: InsertGroup, plan: Plan): readonly Refusal[] {
    const placed = group.jobs.map((job, index) => ({ job, index }))
    const fresh = new Set(plan.fresh)
    return refuseForRoom(
      this.#board,
      placed.filter(({ job }) => fresh.has(job)),
      group.behind ?? NOWHERE,
    )
  }

  /** `given`: the ids of the group, where a dependency that nobody knows is refused. */
  #consider(
    job: NewJob,
    index: number,
    plan: Plan,
    given: ReadonlySet<string> | null,
    gone: ReadonlySet<string>,
  ): Refusal | undefined {
    const { id, key } = job
    const { graph, keys, now, records } = this.#board
    if (plan.ids?.has(id)) return { index, reason: 'duplicate', id }
    plan.ids?.add(id)
    const known = records.get(id)
    if (known !== undefined && !gone.has(id)) {
      if (known.type !== job.type || !isSame(known.payload, job.payload)) {
        return { index, reason: 'duplicate', id }
      }
      plan.answers.push(known)
      return undefined
    }
    if (key !== undefined) {
      const owned = keys.ownerOf(key, now)?.id
      const owner =
        plan.keys?.get(key) ?? (owned !== undefined && gone.has(owned) ? undefined : owned)
      if (owner !== undefined && !job.minted) return { index, reason: 'key', key, owner }
      if (owner !== undefined) {
        plan.answers.push(plan.keys?.has(key) ? owner : (records.get(owner) ?? owner))
        return undefined
      }
      plan.keys ??= new Map()
      plan.keys.set(key, id)
    }
    if (given !== null) {
      const isKnown = (dep: string) => given.has(dep) || (graph.knows(dep, now) && !gone.has(dep))
      const unknown = job.deps.find((dep) => !isKnown(dep.id))
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
