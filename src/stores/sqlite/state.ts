// Owns the one row of what holds for the whole store: counters, ageing, budget.
// May never be trusted once somebody else has written.

import type { RateTerms } from '../../core/gcra.ts'
import type { Ageing } from '../../core/rank.ts'
import type { Connection } from './connection.ts'
import type { Columns, Value } from './driver.ts'
import { pack, unpack } from './pack.ts'

export interface State {
  /** The instant of the last write. */
  now: number
  lastSeq: number
  lastLease: number
  lastEvent: number
  oldestEvent: number
  forgotten: number
  ageing: Ageing | null
  /** Jobs that have not ended and carry a weight that is set no more; how far ranking has come. */
  unranked: number
  rankedAfter: number
  budget: RateTerms | null
  budgetTat: number
  /** How many pools have a bound of their queue; in how many somebody waits for room. */
  bounds: number
  wanting: number
  /** Counts the changes of what is set. */
  settings: number
}

export function readState(connection: Connection): State {
  const c = connection.first<Columns>('state') as Columns
  return {
    now: c.now as number,
    lastSeq: c.last_seq as number,
    lastLease: c.last_lease as number,
    lastEvent: c.last_event as number,
    oldestEvent: c.oldest_event as number,
    forgotten: c.forgotten as number,
    ageing: c.ageing === null ? null : unpack(c.ageing as string),
    unranked: c.unranked as number,
    rankedAfter: c.ranked_after as number,
    budget: c.budget === null ? null : unpack(c.budget as string),
    budgetTat: c.budget_tat as number,
    bounds: c.bounds as number,
    wanting: c.wanting as number,
    settings: c.settings as number,
  }
}

/** In the order of the columns of `setState`. */
export function valuesOf(state: State): Value[] {
  return [
    state.now,
    state.lastSeq,
    state.lastLease,
    state.lastEvent,
    state.oldestEvent,
    state.forgotten,
    state.ageing === null ? null : pack(state.ageing),
    state.unranked,
    state.rankedAfter,
    state.budget === null ? null : pack(state.budget),
    state.budgetTat,
    state.bounds,
    state.wanting,
    state.settings,
  ]
}
