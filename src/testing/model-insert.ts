// Owns how the model takes jobs in: what refuses a group, and where its jobs are placed.
// May never store a part of a group.

import { Live, type NewJob } from '../core/job.ts'
import type { InsertAnswer, InsertGroup, Refusal } from '../store/store.ts'
import { loosen } from './model-pools.ts'
import { awaitedOf, keptFor, refusalsForRoom, savepoint } from './model-room.ts'
import { isStaleTick, moveOn } from './model-time.ts'
import {
  culpritOf,
  type Edge,
  edgeStateOf,
  find,
  isDoomed,
  keyOwner,
  place,
  type Row,
  record,
  remembered,
  type World,
  weighed,
} from './model-world.ts'

/** What becomes of one group. Jobs are named by id: their records may change until the answer. */
export type GroupResult =
  | Exclude<InsertAnswer, { status: 'done' }>
  | { readonly status: 'done'; readonly jobs: readonly { added: boolean; id: string }[] }

/** Either a whole group, or nothing of it and all the reasons. */
export function insertGroup(world: World, group: InsertGroup, needsNoRoom = false): GroupResult {
  if (!holdsFence(world, group)) return { status: 'stale' }
  if (isStaleTick(world, group)) return { status: 'stale' }
  const verdicts = judge(world, group)
  const refusals = verdicts.flatMap((verdict) => ('reason' in verdict ? [verdict] : []))
  if (refusals.length > 0) return { status: 'refused', refusals }
  const jobs = verdicts.flatMap((verdict) => ('reason' in verdict ? [] : [verdict]))
  const added = group.jobs.filter((_, index) => jobs[index]?.added === true)
  const coming = new Set(group.jobs.map((job) => job.id))
  const rows = added.map((job) => newRow(world, job, coming))
  const loop = findLoop(world, rows)
  if (loop !== null) {
    const index = group.jobs.findIndex((job) => loop.includes(job.id))
    return {
      status: 'refused',
      refusals: [{ index: Math.max(0, index), reason: 'cycle', path: loop }],
    }
  }
  const awaited = awaitedOf(world, added)
  const kept = keptFor(world, group)
  const takeBack = savepoint(world)
  const stored = rows.map((row) => store(world, row))
  const full = needsNoRoom ? [] : refusalsForRoom(world, group.jobs, stored, awaited, kept)
  if (full.length > 0) {
    takeBack()
    return { status: 'refused', refusals: full }
  }
  moveOn(world, group)
  return { status: 'done', jobs }
}

/** Whether the running job on whose behalf this is still holds its lease. */
export function holdsFence(world: World, { fence }: Pick<InsertGroup, 'fence'>): boolean {
  if (fence === undefined) return true
  const parent = find(world, fence.id)
  return parent?.status === 'running' && world.rules.leaseIsCurrent(parent, fence.lease)
}

type Verdict = Refusal | { readonly added: boolean; readonly id: string }

function judge(world: World, group: InsertGroup): Verdict[] {
  const claims: NewJob[] = []
  return group.jobs.map((_, index) => judgeOne(world, group, index, claims))
}

/** `claims`: earlier jobs of the group that take their key, if the group is stored at all. */
function judgeOne(world: World, group: InsertGroup, index: number, claims: NewJob[]): Verdict {
  const job = group.jobs[index] as NewJob
  const { id } = job
  if (group.jobs.slice(0, index).some((earlier) => earlier.id === id)) {
    return { index, reason: 'duplicate', id }
  }
  const there = find(world, id)
  if (there !== undefined) {
    return isSame(there.job, job) ? { added: false, id } : { index, reason: 'duplicate', id }
  }
  const owner =
    keyOwner(world, job.key)?.job.id ??
    claims.find((earlier) => job.key !== undefined && earlier.key === job.key)?.id
  if (owner !== undefined && job.minted) return { added: false, id: owner }
  if (owner !== undefined) return { index, reason: 'key', key: job.key as string, owner }
  claims.push(job)
  const dep = group.unknownDeps === 'reject' ? firstUnknown(world, group, job) : undefined
  return dep === undefined ? { added: true, id } : { index, reason: 'unknown', dep }
}

function isSame(a: NewJob, b: NewJob): boolean {
  if (a.type !== b.type) return false
  if (a.payload instanceof Live && b.payload instanceof Live) {
    return a.payload.value === b.payload.value
  }
  return a.payload === b.payload
}

function firstUnknown(world: World, group: InsertGroup, job: NewJob): string | undefined {
  return job.deps
    .map((dep) => dep.id)
    .find(
      (id) =>
        find(world, id) === undefined &&
        remembered(world, id) === undefined &&
        !group.jobs.some((other) => other.id === id),
    )
}

/** Repeated edges count once: the first mention of an id is the edge. */
function edgesOf(world: World, job: NewJob, coming: ReadonlySet<string>): Edge[] {
  const first = job.deps.filter(
    (dep, index) => job.deps.findIndex((other) => other.id === dep.id) === index,
  )
  return first.map((dep) => ({ dep, state: edgeStateOf(world, dep, coming), cut: false }))
}

function newRow(world: World, job: NewJob, coming: ReadonlySet<string>): Row {
  const now = world.now()
  return {
    job,
    seq: 0,
    edges: edgesOf(world, job, coming),
    createdAt: now,
    status: 'waiting',
    rev: 1,
    rank: 0,
    weight: weighed(world, job.priority),
    availableAt: now + job.delayMs,
    readySince: 0,
    keepsRank: false,
    isRetry: false,
    isInLine: false,
    holdsLane: false,
    lanePinned: false,
    starts: 0,
    attempts: 0,
    lost: 0,
    preempted: 0,
    evictor: undefined,
    isStuck: false,
    displaced: false,
    pass: -1,
    unknown: false,
    attemptsBefore: 0,
    lostBefore: 0,
    lease: undefined,
    deadline: 0,
    startedAt: 0,
    finishedAt: 0,
    keepMs: 0,
    keyUntil: 0,
    result: undefined,
    error: undefined,
    code: undefined,
    cause: undefined,
    log: [],
    note: undefined,
  }
}

function store(world: World, draft: Row): Row {
  world.lastSeq += 1
  const row: Row = { ...draft, seq: world.lastSeq }
  world.outcomes = world.outcomes.filter((outcome) => outcome.id !== row.job.id)
  world.rows.push(row)
  place(world, row, 'add')
  if (isDoomed(row)) {
    const culprit = culpritOf(row) as string
    row.cause = find(world, culprit)?.cause ?? culprit
    row.deadline = world.now()
  }
  record(world, row, null, 'add')
  loosen(world)
  return row
}

/** A loop through unsatisfied edges, in the order in which its jobs would have to run. */
function findLoop(world: World, rows: readonly Row[]): string[] | null {
  const everyone = [...world.rows, ...rows]
  const next = (id: string): string[] => {
    const row = everyone.find((each) => each.job.id === id)
    if (row === undefined || row.status === 'success') return []
    return row.edges.filter((edge) => edge.state !== 'satisfied').map((edge) => edge.dep.id)
  }
  for (const row of rows) {
    const back = pathTo(row.job.id, row.job.id, next)
    if (back !== null) return back.reverse()
  }
  return null
}

/** Breadth first: the shortest way along dependencies from one id to another, both included. */
function pathTo(from: string, to: string, next: (id: string) => string[]): string[] | null {
  const paths: string[][] = [[from]]
  const seen = new Set<string>()
  for (let path = paths.shift(); path !== undefined; path = paths.shift()) {
    for (const id of next(path.at(-1) as string)) {
      if (id === to) return [...path, id]
      if (!seen.has(id)) paths.push([...path, id])
      seen.add(id)
    }
  }
  return null
}
