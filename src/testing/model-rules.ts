// Owns the rules of the model that stand alone: a test may replace each by a wrong one, to see
// that the suite notices. May never look at more than it is handed.

import type { RateTerms } from '../core/gcra.ts'
import type { Dep, JobStatus, Move, StepName, Verdict } from '../core/job.ts'
import type { Schedule } from '../core/settings.ts'
import type { Tick } from '../store/store.ts'
import { hasEnded, type Row } from './model-world.ts'

/** Rules that a test may replace by wrong ones, to see that the suite notices. */
export interface Rules {
  comesBefore(a: Row, b: Row): boolean
  yields(holder: Row, newcomer: Row): boolean
  satisfies(dep: Dep, end: JobStatus): boolean
  keyIsHeld(row: Row, now: number): boolean
  slotIsUsed(row: Row): boolean
  leaseIsCurrent(row: Row, number: number): boolean
  names(namer: Row, id: string): boolean
  /** Whether the jobs of a flow are kept for the job that it is called after. */
  keepsFlow(head: Row): boolean
  mayBeReplaced(row: Row): boolean
  rankAfterRetry(row: Row, now: number): number
  isCharged(step: StepName): boolean
  goesFirst(a: Row, b: Row): boolean
  carries(fillUs: number, from: RateTerms, to: RateTerms): number
  isRankedAnew(row: Row): boolean
  takesRoom(row: Row): boolean
  fillsForFree(row: Row): boolean
  /** Whether whoever comes behind others may take a place that they wait for. */
  passesBy: boolean
  keepsInstant(before: Schedule, row: Schedule): boolean
  stands(row: Schedule, tick: Tick): boolean
  /** Whether this job uses up a place of that worker's share of the pool. */
  isShared(row: Row, holder: string): boolean
  /** Whether a type that is at its cap stops those behind it, too. */
  capHidesOthers: boolean
  isUrgent(row: Row, minPriority: number, ceiling: number): boolean
  raise(cap: number, ratio: number): number
  /** What is left to pay when the price of a start changes. */
  owed(debts: number, burst: number): number
  mayGiveWay(row: Row): boolean
  givesWayBefore(a: Row, b: Row): boolean
  isAboutToBeFree(row: Row): boolean
  /** Whether nobody may count on its slot. */
  isStuck(row: Row): boolean
  /** Whether no worker may have it beside another one like it. */
  isSuspect(row: Row): boolean
  /** Whether a worker that has this suspect may have no other. */
  bars(row: Row): boolean
  /** Whether an urgent job is passed over as long as its victim holds its slot. */
  waitsForVictim(victim: Row): boolean
  /** What the end of an attempt shows its pool's breaker. */
  shows(move: Move): Verdict
  /** How many may try a breaker that is half-open. */
  probes: number
}

export const RULES: Rules = {
  comesBefore: (a, b) => a.rank < b.rank || (a.rank === b.rank && a.seq < b.seq),

  /** The holder of a lane gives way until its first start, to somebody better only. */
  yields: (holder, newcomer) =>
    holder.status === 'ready' && !holder.lanePinned && RULES.comesBefore(newcomer, holder),

  satisfies: (dep, end) => dep.on === 'end' || end === 'success',

  /** Live jobs hold their key; a success does until its window is over; other ends do not. */
  keyIsHeld: (row, now) =>
    !hasEnded(row.status) || (row.status === 'success' && now < row.keyUntil),

  /** Leases and holds alike. */
  slotIsUsed: (row) => row.lease !== undefined,

  leaseIsCurrent: (row, number) => row.lease !== undefined && row.lease.number === number,

  /** Whether this record keeps the one of that id from being forgotten. */
  names: (namer, id) =>
    namer.status !== 'success' && namer.edges.some((edge) => edge.dep.id === id && !edge.cut),

  keepsFlow: (head) => head.status !== 'success',

  mayBeReplaced: (row) => row.lease === undefined && row.status !== 'success',

  /** A failed attempt rejoins at the tail of its priority. */
  rankAfterRetry: (row, now) => now - row.weight,

  /** Whether a job that runs again after such a step needs one of the budget. */
  isCharged: (step) => step === 'retry' || step === 'timeout',

  /** Among retries that are due: the better rank, not the longer wait. */
  goesFirst: (a, b) => RULES.comesBefore(a, b),

  /** As many retries as are in the bucket now, at the new price, up to a full one. */
  carries: (fillUs, from, to) =>
    Math.min(Math.ceil(fillUs / from.intervalUs), to.burst) * to.intervalUs,

  /** Everybody who is alive keeps the instant, and gets the weight that is set now. */
  isRankedAnew: () => true,

  takesRoom: (row) => row.status === 'pending' || row.status === 'ready',

  fillsForFree: () => true,

  passesBy: false,

  keepsInstant: (before, row) => before.cron === row.cron && before.timeZone === row.timeZone,

  stands: (row, { of, at }) =>
    row.nextAt === at &&
    row.cron === of.cron &&
    row.timeZone === of.timeZone &&
    row.missed === of.missed &&
    row.template === of.template,
  isShared: (row, holder) => row.lease?.holder === holder,

  capHidesOthers: false,

  isUrgent: (row, minPriority, ceiling) =>
    row.job.priority >= minPriority && row.job.priority > ceiling,

  raise: (cap, ratio) => Math.max(1, Math.floor(cap * ratio)),

  owed: (debts, burst) => Math.min(debts, burst),

  mayGiveWay: (row) => row.job.terms.preemptible && row.preempted < 3,

  givesWayBefore: (a, b) => {
    if (a.job.priority !== b.job.priority) return a.job.priority < b.job.priority
    return a.startedAt > b.startedAt || (a.startedAt === b.startedAt && a.seq > b.seq)
  },

  isAboutToBeFree: (row) => row.lease?.hold === true || row.evictor !== undefined,

  isStuck: (row) => row.isStuck,

  isSuspect: (row) => row.lost - row.lostBefore >= 2,

  bars: (row) => row.lease !== undefined,

  waitsForVictim: (victim) => victim.lease !== undefined,

  shows: (move) => move.verdict,

  probes: 1,
}
