// Owns the answers that change nothing: listings, counts, places in line, settings, workers.
// May never scan all jobs.

import { freeAt } from '../../core/gcra.ts'
import type { JobEvent, JobStatus } from '../../core/job.ts'
import { shownAs } from '../../core/quorum.ts'
import type { StoredSettings } from '../../core/settings.ts'
import { isUrgent, raiseOf, shareOf } from '../../core/settings.ts'
import { isSuspect } from '../../core/suspect.ts'
import { LIMITS } from '../../store/limits.ts'
import type {
  Counted,
  EventPage,
  PoolState,
  Standing,
  StatusCounts,
  WorkerInfo,
} from '../../store/store.ts'
import type { Board } from './board.ts'
import { type Batch, eventsOf } from './entries.ts'
import { depOf } from './graph.ts'
import { Slots, suspectHolders } from './pick.ts'
import { addTo, type Tally, zeros } from './pools.ts'
import { type Row, viewOf } from './row.ts'
import type { Session } from './session.ts'
import { schedulesOf } from './timetable.ts'

export function settingsOf({ session, pools }: Board): StoredSettings {
  const { facts, state } = session
  facts.said ??= { pools: termsOf(pools), types: pools.types(), schedules: schedulesOf(session) }
  return { ...facts.said, ageing: state.ageing, budget: state.budget }
}

function termsOf(pools: Board['pools']): StoredSettings['pools'] {
  const said = pools.all().map(({ name, start, operator }) => [name, { start, operator }] as const)
  return Object.fromEntries([...said].sort(byFirst))
}

function byFirst(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : 1
}

interface WorkerColumns {
  readonly holder: string
  readonly name: string
  readonly types: string
  readonly full: number
  readonly zombies: number
  readonly settings: string
  readonly until: number
}

export function workersOf({ session }: Board): readonly WorkerInfo[] {
  const slots = Slots.of(session)
  const live = session.all<WorkerColumns>('workers', session.now).map((found) => ({
    holder: found.holder,
    name: found.name,
    types: JSON.parse(found.types),
    full: found.full === 1,
    zombies: found.zombies,
    settings: found.settings,
    until: found.until,
    running: slots.ofHolder(found.holder),
  }))
  return live.sort((a, b) => (a.holder < b.holder ? -1 : 1))
}

export function dependents({ session }: Board, id: string, after: number, limit: number) {
  const most = Math.min(limit, LIMITS.page)
  const seqs = session.all<{ job: number }>('dependents', id, after, most).map(({ job }) => job)
  session.prepareSeqs(seqs)
  return seqs.flatMap((seq) => session.bySeq(seq) ?? []).map(viewOf)
}

export function count(board: Board): Counted {
  const { session, pools } = board
  const { now, state } = session
  const slots = Slots.of(session)
  const tallies = session.all<Tally>('tallies')
  const types: Record<string, Record<JobStatus, number>> = Object.create(null)
  const byPool = new Map<string, Tally[]>(pools.all().map(({ name }) => [name, []]))
  for (const tally of tallies) {
    types[tally.type] ??= zeros()
    addTo(types[tally.type] as Record<JobStatus, number>, tally)
    byPool.set(tally.pool, [...(byPool.get(tally.pool) ?? []), tally])
  }
  const states: Record<string, PoolState> = Object.create(null)
  for (const name of [...byPool.keys()].sort()) {
    states[name] = pools.stateOf(name, byPool.get(name) ?? [], slots.ofPool(name))
  }
  return {
    at: now,
    types: types as Record<string, StatusCounts>,
    pools: states,
    failures: failuresOf(session),
    held: session.rows('heldFirst', LIMITS.held).map(viewOf),
    doomed: session.number('doomed') ?? 0,
    fanOuts: session.number('fanOutCount') ?? 0,
    forgotten: state.forgotten,
    unranked: state.unranked,
    budgeted:
      state.budget === null
        ? 0
        : (session.number('heldCount', -1) ?? 0) + (session.number('dueCount', now) ?? 0),
  }
}

/** The most frequent codes by name; what is beyond the bound is counted together. */
function failuresOf(session: Session): Readonly<Record<string, number>> {
  const found = session.all<{ code: string; count: number }>('failures')
  const sorted = [...found].sort((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1))
  const counts: Record<string, number> = Object.create(null)
  for (const { code, count: times } of sorted.slice(0, LIMITS.codes)) counts[code] = times
  const rest = sorted.slice(LIMITS.codes).reduce((sum, each) => sum + each.count, 0)
  if (rest > 0) counts.other = (counts.other ?? 0) + rest
  return counts
}

export function standing(board: Board, id: string): Standing {
  const { session, pools, lanes } = board
  const row = session.byId(id)
  const type = row?.type ?? ''
  const pool = row?.pool ?? ''
  const slots = Slots.of(session)
  const live = workersOf(board)
  const able = live.filter(({ types }) => types.includes(type))
  const takers = able.filter((worker) => !worker.full)
  const tallies = session.all<Tally>('talliesOf', pool)
  const barred = row !== undefined && isSuspect(row) ? suspectHolders(session) : NOBODY
  return {
    ahead: row?.status === 'ready' ? ahead(session, row, tallies, live) : 0,
    pool: pools.stateOf(pool, tallies, slots.ofPool(pool)),
    laneHolder: row === undefined ? undefined : lanes.holderOf(row),
    deps: row === undefined ? [] : unsatisfied(board, row),
    served: able.length > 0,
    full: able.length > 0 && able.every((worker) => worker.full),
    barred: takers.length > 0 && takers.every(({ holder }) => barred.has(holder)),
    spent:
      row !== undefined &&
      takers.length > 0 &&
      takers.every(({ holder }) => barred.has(holder) || isSpent(board, row, holder, slots)),
    type: {
      concurrency: pools.typeOf(type)?.concurrency ?? null,
      running: slots.ofType(type),
    },
    budgetAt: row?.status === 'pending' ? budgetAt(session, row) : 0,
    victim: row?.victim,
  }
}

const NOBODY: ReadonlySet<string> = new Set()

/** Ready jobs of the pool that come before this one, of the types that somebody serves. */
function ahead(
  session: Session,
  { rank, seq }: Row,
  tallies: readonly Tally[],
  live: readonly WorkerInfo[],
): number {
  const served = new Set(live.flatMap(({ types }) => types))
  let before = 0
  for (const { line, type, ready } of tallies) {
    if (ready === 0 || !served.has(type)) continue
    before += session.number('ahead', line, rank, seq, LIMITS.position - before) ?? 0
  }
  return before
}

function unsatisfied({ session, graph }: Board, row: Row): Standing['deps'] {
  const edges = graph.edgesOf(row).filter(({ state }) => state !== 'satisfied')
  return edges.map((edge) => {
    const { dep, state } = edge
    const status = session.byId(dep)?.status ?? graph.outcomeOf(dep) ?? 'unknown'
    return { ...depOf(edge), status: shownAs(state === 'dead', status) }
  })
}

/** Whether a worker has as many of the pool as it may, if this job were to start there. */
function isSpent({ pools, session }: Board, row: Row, holder: string, slots: Slots): boolean {
  const { rules } = pools.get(row.pool)
  const { elastic } = rules
  const { ageing } = session.state
  const raised = elastic !== null && isUrgent(row.priority, elastic.minPriority, ageing)
  const share = shareOf(rules)
  return slots.ofShare(row.pool, holder) >= share + (raised ? raiseOf(share, elastic) : 0)
}

/** When the budget lets this one go at the earliest, those before it first; 0 if it does now. */
function budgetAt(session: Session, { again, availableAt, rank, seq }: Row): number {
  const { now } = session
  const { budget, budgetTat } = session.state
  if (budget === null || again === 0 || availableAt > now) return 0
  const held = session.number('heldBefore', rank, seq, LIMITS.position) ?? 0
  const due = session.number('dueBefore', now, rank, seq, LIMITS.position) ?? 0
  const before = Math.min(held + due, LIMITS.position)
  const tat = Math.max(budgetTat, now * 1_000) + before * budget.intervalUs
  const at = freeAt(budget, tat)
  return at > now ? at : 0
}

/** Rows of the log that are read at a time: each holds some of the entries of one transaction. */
const BATCHES = 16

export function events({ session }: Board, after: number, limit: number): EventPage {
  const { oldestEvent, lastEvent } = session.state
  const most = Math.min(limit, LIMITS.events)
  const page: JobEvent[] = []
  for (let next = Math.max(after, oldestEvent - 1); next < lastEvent && page.length < most; ) {
    const batches = session.all<Batch>('batches', next, BATCHES)
    for (const batch of batches) {
      if (page.length < most) page.push(...eventsOf(batch, next))
    }
    next = batches.at(-1)?.last ?? lastEvent
  }
  return { events: page.slice(0, most), oldest: oldestEvent, last: lastEvent }
}
