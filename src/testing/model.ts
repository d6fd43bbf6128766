// Owns the model: the port in its plainest form, to be read beside the promises in store.ts.
// May never be quick or clever: lists, full scans, recounts. It is the judge of every store.

import type { JobEvent } from '../core/job.ts'
import type { InsertAnswer, Moved, Store, Told } from '../store/store.ts'
import { applyMoves, type MoveResult } from './model-apply.ts'
import { type GroupResult, insertGroup } from './model-insert.ts'
import { inspectWorld } from './model-inspect.ts'
import { extendLeases, leaseJobs, overdueJobs } from './model-lease.ts'
import {
  countJobs,
  dependentsOf,
  dumpOf,
  eventPage,
  listJobs,
  type ModelDump,
  standingOf,
  viewOf,
} from './model-read.ts'
import { replaceGroup } from './model-replace.ts'
import { RULES, type Rules } from './model-rules.ts'
import { configure, schedulesOf, workersOf } from './model-time.ts'
import { find, newWorld, type World } from './model-world.ts'

export type { ModelDump } from './model-read.ts'
export type { Rules } from './model-rules.ts'

export interface ModelStore extends Store {
  /** Everything there is, also what the port does not show. For people and for failures. */
  dump(): ModelDump
  /** The records in short, for those who make histories up. */
  peek(): readonly Peeked[]
}

export interface Peeked {
  readonly id: string
  readonly status: string
  readonly holder: string | undefined
  /** Its body has been told to stop: it gives way, or was cancelled. */
  readonly isTold: boolean
  readonly deps: readonly string[]
}

export interface ModelOptions {
  readonly now: () => number
  /** Wrong rules, to prove that the suite can fail. */
  readonly rules?: Partial<Rules>
}

/** A store for judging others. Answers show the jobs as they are after the whole call. */
export function modelStore({ now, rules }: ModelOptions): ModelStore {
  const world = newWorld(now, { ...RULES, ...rules })
  return {
    traits: { name: 'model', keepsLive: true, lossyHints: true },
    insert: async (groups, tell) =>
      told(world, tell, () => {
        const results = groups.map((group) => insertGroup(world, group))
        return results.map((result) => insertAnswer(world, result))
      }),
    replace: async (group, tell) =>
      told(world, tell, () => insertAnswer(world, replaceGroup(world, group))),
    lease: async (ask, tell) =>
      told(world, tell, () => {
        const { rows, nextAt } = leaseJobs(world, ask)
        return { jobs: rows.map(viewOf), nextAt }
      }),
    overdue: async (ask, tell) => told(world, tell, () => overdueJobs(world, ask)),
    apply: async (moves, tell) =>
      told(world, tell, () => {
        const results = applyMoves(world, moves)
        return results.map((result, index) => moved(world, moves[index]?.id ?? '', result))
      }),
    extend: async (ask, tell) => told(world, tell, () => extendLeases(world, ask)),
    configure: async (...changes) => {
      for (const change of changes) configure(world, change)
    },
    settings: async () => ({
      pools: Object.fromEntries(world.pools),
      types: Object.fromEntries(world.types),
      ageing: world.ageing,
      budget: world.budget,
      schedules: schedulesOf(world),
    }),
    beat: async (worker) => {
      world.workers.set(worker.holder, { ...worker, until: now() + worker.ttlMs })
    },
    workers: async () => workersOf(world),
    inspect: async () => inspectWorld(world),
    get: async (ids) =>
      ids.map((id) => find(world, id)).map((row) => (row === undefined ? null : viewOf(row))),
    list: async (query) => listJobs(world, query),
    count: async () => countJobs(world),
    dependents: async (id, after, limit) => dependentsOf(world, id, after, limit),
    standing: async (id) => standingOf(world, id),
    events: async (after, limit) => eventPage(world, after, limit),
    watch: async () => async () => {},
    time: async () => now(),
    open: async () => {},
    close: async () => {},
    dump: () => dumpOf(world),
    peek: () =>
      world.rows.map(({ job, status, lease, evictor }) => ({
        id: job.id,
        status,
        isTold: evictor !== undefined || lease?.hold === true,
        holder: lease?.holder,
        deps: job.deps.map((dep) => dep.id),
      })),
  }
}

function told<T>(world: World, tell: boolean, call: () => T): Told<T> {
  const before = world.lastEvent
  const answer = call()
  const isNew = (event: JobEvent) => event.seq > before
  return { answer, events: tell ? world.log.filter(isNew) : [] }
}

function insertAnswer(world: World, result: GroupResult): InsertAnswer {
  if (result.status !== 'done') return result
  const jobs = result.jobs.map(({ added, id }) => {
    const row = find(world, id)
    if (row === undefined) throw new Error(`There is no job ${id}.`)
    return { added, job: viewOf(row) }
  })
  return { status: 'done', jobs }
}

function moved(world: World, id: string, result: MoveResult): Moved {
  const row = result.status === 'moved' && result.gone ? result.gone : find(world, id)
  if (result.status === 'stale') {
    return { status: 'stale', job: row === undefined ? null : viewOf(row) }
  }
  if (row === undefined) throw new Error(`There is no job ${id}.`)
  if (result.status === 'moved') return { status: 'moved', job: viewOf(row) }
  return { status: 'refused', job: viewOf(row), why: result.why }
}
