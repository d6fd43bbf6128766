// Owns putting groups of jobs in: what would become of each, and then all of them or none.
// May never change anything before the whole group has been considered.

import type { NewJob, StoredJob } from '../../core/job.ts'
import type { InsertAnswer, InsertGroup, Refusal } from '../../store/store.ts'
import { areAlike, isBareJob, LEAST_ALIKE, type Member, viewOfMember } from './alike.ts'
import type { Board } from './board.ts'
import { refuseForRoom } from './room.ts'
import { optional, type Row, rowOf, viewOf } from './row.ts'
import { moveOn, stands } from './timetable.ts'

/** What is to become of a group: who is new, who was there, and the keys that it takes. */
interface Plan {
  readonly ids: Set<string>
  readonly fresh: NewJob[]
  /** Per job: the row that was there already, or the id of one that is new. */
  readonly answers: (Row | string)[]
  readonly keys: Map<string, string>
  /** Whether any new job has dependencies. */
  linked: boolean
}

type Result =
  | Exclude<InsertAnswer, { status: 'done' }>
  | { readonly status: 'done'; readonly jobs: readonly { added: boolean; row: Row }[] }
  | { readonly status: 'added'; readonly members: readonly Member[] }

/** All groups, one by one; then how each job is after that. */
export function insertGroups(
  board: Board,
  groups: readonly InsertGroup[],
  needsNoRoom = false,
): InsertAnswer[] {
  const ids: string[] = []
  for (const { jobs } of groups) for (const { id } of jobs) ids.push(id)
  board.session.prepare(ids)
  const arrivals = new Arrivals(board)
  const areMany = ids.length >= LEAST_ALIKE
  const results = groups.map((group) => {
    if (areMany && arrivals.mayTake(group)) return arrivals.take(group)
    arrivals.end()
    return insertOne(board, group, needsNoRoom)
  })
  arrivals.end()
  const views = new Map<Row, StoredJob>()
  const view = (row: Row) => {
    const known = views.get(row) ?? viewOf(row)
    views.set(row, known)
    return known
  }
  return results.map((result) => {
    if (result.status === 'added') {
      const jobs = result.members.map((each) => ({ added: true, job: viewOfMember(each) }))
      return { status: 'done', jobs }
    }
    if (result.status !== 'done') return result
    return {
      status: 'done',
      jobs: result.jobs.map(({ added, row }) => ({ added, job: view(row) })),
    }
  })
}

/** New jobs of which no rule asks who they are: the first of many that are alike is placed. */
class Arrivals {
  readonly #board: Board
  #first: NewJob | undefined
  #members: Member[] = []

  constructor(board: Board) {
    this.#board = board
  }

  /** Whether no job of a group can be refused, is there already, or touches any other. */
  mayTake({ jobs, fence, tick }: InsertGroup): boolean {
    const { session, graph } = this.#board
    if (fence !== undefined || tick !== undefined || session.state.bounds > 0) return false
    if (!jobs.every((job) => isBareJob(job) && session.hand.lacks(job.id))) return false
    if (jobs.length > 1 && new Set(jobs.map(({ id }) => id)).size < jobs.length) return false
    return !graph.remembers()
  }

  take({ jobs }: InsertGroup): Result {
    return { status: 'added', members: jobs.map((job) => this.#place(job)) }
  }

  #place(job: NewJob): Member {
    const { session } = this.#board
    const [first] = this.#members
    if (first !== undefined && areAlike(this.#first as NewJob, job)) {
      const member = session.follow(first.kin, job.id, optional(job.payload))
      this.#members.push(member)
      return member
    }
    this.end()
    const row = newRow(this.#board, job)
    session.introduce(row)
    this.#board.begin(row)
    const member = session.precede(row)
    this.#first = job
    this.#members = [member]
    return member
  }

  /** Before anything else is asked: those that have come are written. */
  end(): void {
    const [first] = this.#members
    if (first !== undefined) this.#board.session.arrived(first.kin, this.#members)
    this.#members = []
  }
}

function insertOne(board: Board, group: InsertGroup, needsNoRoom: boolean): Result {
  const { fence, tick } = group
  if (fence !== undefined && !holds(board, fence.id, fence.lease)) return { status: 'stale' }
  if (tick !== undefined && !stands(board, tick)) return { status: 'stale' }
  const plan = planOf(board, group, needsNoRoom)
  if ('refusals' in plan) return { status: 'refused', refusals: plan.refusals }
  if (tick !== undefined) moveOn(board, tick.of.name, tick.nextAt)
  const fresh = plan.fresh.map((job) => newRow(board, job))
  for (const row of fresh) {
    board.session.introduce(row)
    board.graph.adopt(row)
  }
  board.session.prepare(plan.fresh.flatMap(({ deps }) => deps.map(({ id }) => id)))
  for (const row of fresh) if (row.deps.length > 0) board.graph.link(row)
  for (const row of fresh) board.begin(row)
  return { status: 'done', jobs: answersOf(board, plan, fresh) }
}

/** Two jobs of one group that share a key share a row: only the first has added it. */
function answersOf(board: Board, plan: Plan, fresh: readonly Row[]) {
  let next = 0
  return plan.answers.map((answer) => {
    if (typeof answer !== 'string') return { added: false, row: answer }
    const row = fresh[next]
    if (row?.id !== answer) return { added: false, row: board.session.byId(answer) as Row }
    next += 1
    return { added: true, row }
  })
}

function newRow({ session }: Board, job: NewJob): Row {
  const { state, now } = session
  state.lastSeq += 1
  const weight = session.weightOf(job.priority)
  const line = session.lineFor(job.pool, job.type)
  return rowOf(job, { seq: state.lastSeq, now, weight, line, termsAt: session.termsAt(job.terms) })
}

/** What would become of each job of a group: nothing is changed yet. */
function planOf(
  board: Board,
  group: InsertGroup,
  needsNoRoom: boolean,
): Plan | { readonly refusals: readonly Refusal[] } {
  const plan: Plan = { ids: new Set(), fresh: [], answers: [], keys: new Map(), linked: false }
  const refusals: Refusal[] = []
  const given = group.unknownDeps === 'wait' ? null : new Set(group.jobs.map(({ id }) => id))
  for (const [index, job] of group.jobs.entries()) {
    const refusal = consider(board, job, index, plan, given)
    if (refusal !== undefined) refusals.push(refusal)
  }
  if (refusals.length > 0) return { refusals }
  const path = plan.linked ? board.graph.loopOf(plan.fresh) : null
  if (path === null) return needsNoRoom ? plan : withRoom(board, group, plan)
  const index = group.jobs.findIndex((job) => path.includes(job.id))
  return { refusals: [{ index: Math.max(0, index), reason: 'cycle', path }] }
}

function withRoom(
  board: Board,
  group: InsertGroup,
  plan: Plan,
): Plan | { readonly refusals: readonly Refusal[] } {
  if (board.session.state.bounds === 0) return plan
  const placed = group.jobs.map((job, index) => ({ job, index }))
  const fresh = new Set(plan.fresh)
  const refusals = refuseForRoom(
    board,
    placed.filter(({ job }) => fresh.has(job)),
    group.behind ?? [],
  )
  return refusals.length === 0 ? plan : { refusals }
}

/** `given`: the ids of the group, where a dependency that nobody knows is refused. */
function consider(
  board: Board,
  job: NewJob,
  index: number,
  plan: Plan,
  given: ReadonlySet<string> | null,
): Refusal | undefined {
  const { id, key } = job
  const { graph, keys, session } = board
  if (plan.ids.has(id)) return { index, reason: 'duplicate', id }
  plan.ids.add(id)
  const known = session.byId(id)
  if (known !== undefined) {
    const isSame = known.type === job.type && known.payload === job.payload
    if (!isSame) return { index, reason: 'duplicate', id }
    plan.answers.push(known)
    return undefined
  }
  if (key !== undefined) {
    const owner = plan.keys.get(key) ?? keys.ownerOf(key)?.id
    if (owner !== undefined && !job.minted) return { index, reason: 'key', key, owner }
    if (owner !== undefined) {
      plan.answers.push(session.byId(owner) ?? owner)
      return undefined
    }
    plan.keys.set(key, id)
  }
  if (given !== null) {
    const unknown = job.deps.find((dep) => !given.has(dep.id) && !graph.knows(dep.id))
    if (unknown !== undefined) return { index, reason: 'unknown', dep: unknown.id }
  }
  if (job.deps.length > 0) plan.linked = true
  plan.fresh.push(job)
  plan.answers.push(id)
  return undefined
}

function holds({ session }: Board, id: string, lease: number): boolean {
  const held = session.byId(id)?.lease
  return held?.number === lease && !held.hold
}
