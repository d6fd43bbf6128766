// Owns the part of a history in which settings change while jobs are about: ageing, budget, room,
// schedules. May never hold an instant: rows say how far from now, ticks how far from their row.

import { rateTerms } from '../core/gcra.ts'
import type { Change } from '../store/store.ts'
import type { Command, PlannedGroup, PlannedRow } from './history-commands.ts'

/** What is needed of whoever throws the dice. */
export interface Dice {
  readonly chance: (probability: number) => boolean
  readonly below: (limit: number) => number
  readonly pick: <T>(from: readonly T[]) => T
}

const SCHEDULES = ['s1', 's2', 's3'] as const

export function drawAgeing({ chance, pick }: Dice): Change {
  if (chance(0.25)) return { ageing: null }
  return { ageing: { everyMs: pick([1, 100, 5_000, 60_000]), ceiling: pick([1, 49, 50, 90, 100]) } }
}

export function drawBudget({ chance, pick }: Dice): Change {
  if (chance(0.2)) return { budget: null }
  const [count, perMs, burst] = [pick([1, 2, 3, 10]), pick([7, 500, 2_000, 30_000]), pick([1, 2])]
  return { budget: chance(0.4) ? rateTerms(count, perMs) : rateTerms(count, perMs, burst) }
}

export function drawRoom({ pick }: Dice, pool: string, by: 'start' | 'operator'): Change {
  const overflow = pick(['wait', 'reject', null] as const)
  return { pool, by, terms: { maxQueue: pick([0, 2, 4, 8, 30, null]), overflow } }
}

/** One row set, or taken away; or a row that has come to its instant moves on. */
export function drawSchedule(dice: Dice): Command {
  const { chance, pick } = dice
  const name = pick(SCHEDULES)
  if (chance(0.4)) return { do: 'insert', groups: [{ jobs: [], ...drawTick(dice) }] }
  return { do: 'schedule', name, row: chance(0.15) ? null : drawRow(dice) }
}

function drawRow({ pick }: Dice): PlannedRow {
  return {
    cron: pick(['0 * * * *', '5 * * * *']),
    timeZone: pick(['UTC', 'UTC', null]),
    missed: pick(['skip', 'one', 'all']),
    template: pick(['{"type":"alpha"}', '{"type":"alpha"}', '{"type":"beta"}']),
    inMs: pick([0, 10, 1_000, 5_000, 60_000]),
  }
}

/** What makes a group the one of a schedule's instant; now and then of one that has passed. */
export function drawTick({
  chance,
  pick,
}: Dice): Required<Pick<PlannedGroup, 'tick' | 'unknownDeps'>> {
  const tick = { schedule: pick(SCHEDULES), isStale: chance(0.2), stepMs: pick([100, 5_000]) }
  return { tick, unknownDeps: 'wait' }
}

/** Everything that is set, who is alive, what doctor would see. */
export function drawLook({ pick }: Dice): Command {
  return { do: pick(['settings', 'workers', 'inspect']) }
}
