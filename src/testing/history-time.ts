// Owns the part of a history in which settings change while jobs are about: ageing, budget, room,
// schedules. May never hold an instant: rows say how far from now, ticks how far from their row.

import { rateTerms } from '../core/gcra.ts'
import type { Change } from '../store/store.ts'
import type { Maker } from './history.ts'
import type { Command, PlannedGroup, PlannedRow } from './history-commands.ts'

const POOLS = ['default', 'io', 'narrow'] as const
const SCHEDULES = ['s1', 's2', 's3'] as const

/** Another ageing, budget, bound or row: of those that the seed has switched on. */
export function drawSetting(maker: Maker): Command | undefined {
  const on = DRAWS.filter(([feature]) => maker.has(feature))
  return on.length === 0 ? undefined : maker.pick(on)[1](maker)
}

const DRAWS: readonly (readonly [
  feature: 'ageing' | 'budget' | 'room' | 'schedules',
  draw: (maker: Maker) => Command,
])[] = [
  ['ageing', (maker) => ({ do: 'configure', change: drawAgeing(maker) })],
  ['budget', (maker) => ({ do: 'configure', change: drawBudget(maker) })],
  ['room', (maker) => ({ do: 'configure', change: drawRoom(maker) })],
  ['schedules', drawSchedule],
]

function drawAgeing({ chance, pick }: Maker): Change {
  if (chance(0.25)) return { ageing: null }
  return { ageing: { everyMs: pick([1, 100, 5_000, 60_000]), ceiling: pick([1, 49, 50, 90, 100]) } }
}

function drawBudget({ chance, pick }: Maker): Change {
  if (chance(0.2)) return { budget: null }
  const [count, perMs, burst] = [pick([1, 2, 3, 10]), pick([7, 500, 2_000, 30_000]), pick([1, 2])]
  return { budget: chance(0.4) ? rateTerms(count, perMs) : rateTerms(count, perMs, burst) }
}

function drawRoom({ pick }: Maker): Change {
  const pool = pick(POOLS)
  const by = pick(['start', 'operator'] as const)
  const overflow = pick(['wait', 'reject', null] as const)
  return { pool, by, terms: { maxQueue: pick([0, 2, 4, 8, 30, null]), overflow } }
}

/** One row set, or taken away; or a row that has come to its instant moves on. */
function drawSchedule(maker: Maker): Command {
  const { chance, pick } = maker
  const name = pick(SCHEDULES)
  if (chance(0.4)) return { do: 'insert', groups: [{ jobs: [], ...drawTick(maker) }] }
  return { do: 'schedule', name, row: chance(0.15) ? null : drawRow(maker) }
}

function drawRow({ pick }: Maker): PlannedRow {
  return {
    cron: pick(['0 * * * *', '5 * * * *']),
    timeZone: pick(['UTC', 'UTC', null]),
    missed: pick(['skip', 'one', 'all']),
    template: pick(['{"type":"alpha"}', '{"type":"alpha"}', '{"type":"beta"}']),
    inMs: pick([0, 10, 1_000, 5_000, 60_000]),
  }
}

/** A group of a schedule's instant; now and then of one that has passed, or of an old row. */
export function drawTick({
  chance,
  pick,
}: Maker): Required<Pick<PlannedGroup, 'tick' | 'unknownDeps'>> {
  const [isStale, isOld] = [chance(0.2), chance(0.1)]
  const tick = { schedule: pick(SCHEDULES), isStale, isOld, stepMs: pick([100, 5_000]) }
  return { tick, unknownDeps: 'wait' }
}

/** Now and then others stand in line. Counted, not drawn: kept histories stay what they were. */
export function behindOthers({ made }: Maker): Pick<PlannedGroup, 'behind'> {
  const other = POOLS[made % POOLS.length] as string
  return made % 5 === 0 ? { behind: ['default', other] } : {}
}

/** Everything that is set, who is alive, what doctor would see. */
export function drawLook({ pick }: Maker): Command {
  return { do: pick(['settings', 'workers', 'inspect']) }
}
