// Owns advice: what a stretch of the log says about timeouts, queues, slots and retries.
// May never advise on a few cases, or without the figures that led to it.

import type { Digest, PoolDigest, Run, TypeDigest } from './digest.ts'
import { showMs } from './duration.ts'
import { show } from './options.ts'
import type { Advice } from './types.ts'

/**
 * The kinds of advice; a piece of advice has one of these for ever.
 *
 * - `timeout` (type): none is set, or it is far from two to three times the p99 of the runs
 * - `queue-grows` (pool): more arrives than leaves, early and late in the stretch
 * - `downstream` (pool): more concurrency will not help: runs get longer with it, and throughput
 *   does not, or slots are full and the queue is short
 * - `futile-retries` (type): retries that never succeed
 * - `lost` (type): many attempts were lost with their workers
 * - `silent` (type): many attempts missed their heartbeat
 * - `enqueue-timeouts` (pool): jobs waited for a slot longer than they may
 */
export const ADVICE = [
  'timeout',
  'queue-grows',
  'downstream',
  'futile-retries',
  'lost',
  'silent',
  'enqueue-timeouts',
] as const

export type AdviceKind = (typeof ADVICE)[number]

/** What holds now, to compare the log with. */
export interface AdviceSettings {
  /**
   * Of types, in milliseconds; 0 for none, and unknown types are taken to have none. Null: none
   * that all jobs have, but a body that hangs is stopped.
   */
  readonly timeouts: Readonly<Record<string, number | null>>
  /** Of pools. */
  readonly concurrency: Readonly<Record<string, number>>
}

/** Fewer cases than this are chance. */
const ENOUGH = 20

/** The same for what should not happen at all. */
const ENOUGH_FAULTS = 3

/** A share of the starts that is many. */
const MANY = 0.05

/** A timeout so many times the p99 lets a body hang for long; one below the other cuts off. */
const LOOSE = 10
const TIGHT = 1.2

/** By so much more has to arrive than leaves. */
const GROWTH = 1.1

/** Two levels of concurrency differ by this at least, and so do the runs; throughput does not. */
const MORE = 1.3
const NO_MORE = 1.1

/** Slots that are full for this share of the time are full; a queue below half of them is short. */
const FULL = 0.8
const SHORT = 0.5

/** What a digest of the log shows. O(runs * log runs). */
export function adviseOn(digest: Digest, settings: AdviceSettings): Advice[] {
  const types = Object.entries(digest.types)
  const pools = Object.entries(digest.pools)
  const span = Math.max(1, digest.to - digest.from)
  return [
    ...types.flatMap(([type, log]) => timeoutOf(type, log, own(settings.timeouts, type))),
    ...pools.flatMap(([pool, log]) => growthOf(pool, log, span)),
    ...pools.flatMap(([pool, log]) => bottleneckOf(pool, log, own(settings.concurrency, pool))),
    ...types.flatMap(([type, log]) => futileOf(type, log)),
    ...types.flatMap(([type, log]) => lostOf(type, log)),
    ...types.flatMap(([type, log]) => silentOf(type, log)),
    ...pools.flatMap(([pool, log]) => expiredOf(pool, log)),
  ]
}

function own<T>(values: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined
}

function timeoutOf(
  type: string,
  { runs, timeouts, starts }: TypeDigest,
  set: number | null = 0,
): Advice[] {
  if (set === null || runs.length < ENOUGH) return []
  const sorted = runs.toSorted((a, b) => a - b)
  const p50 = percentile(sorted, 0.5)
  const p99 = percentile(sorted, 0.99)
  // Where attempts are cut off, the runs that succeeded say little about the others.
  const cutOff = set > 0 && timeouts >= ENOUGH_FAULTS && timeouts > starts * 0.01
  const suggested = roundBetween(2, 3, cutOff ? Math.max(p99, set) : Math.max(p99, 1))
  const figures = { runs: runs.length, p50Ms: p50, p99Ms: p99, timeoutMs: set, timeouts }
  const say = (why: string): Advice[] => {
    const took = `Runs of type ${show(type)} took ${showMs(p50)} (half of them) to ${showMs(p99)} `
    const text = `${took}(99 in 100), and ${why}. Give it a timeout of ${showMs(suggested)}.`
    return [advice('timeout', { type }, text, { ...figures, suggestedMs: suggested })]
  }
  if (set === 0) return say('it has no timeout: one that hangs keeps its slot for ever')
  if (cutOff) return say(`its timeout of ${showMs(set)} cut off ${timeouts} of ${starts} attempts`)
  if (set < p99 * TIGHT) return say(`its timeout of ${showMs(set)} leaves hardly any room`)
  if (set <= suggested * (LOOSE / 2)) return []
  return say(`its timeout of ${showMs(set)} lets one that hangs keep its slot for long`)
}

function growthOf(pool: string, { arrived, left, halves }: PoolDigest, span: number): Advice[] {
  const grows = halves.every((half) => half.arrived >= ENOUGH && half.arrived > half.left * GROWTH)
  if (!grows) return []
  const figures = {
    arrived,
    left,
    arrivedPerSecond: perSecond(arrived, span),
    leftPerSecond: perSecond(left, span),
    spanMs: span,
  }
  const text =
    `The queue of pool ${show(pool)} grows: ${arrived} jobs arrived and ${left} left in ` +
    `${showMs(span)}. Raise its concurrency if what lies behind it can bear that, send less, or ` +
    'bound it with maxQueue, so that whoever submits learns of it.'
  return [advice('queue-grows', { pool }, text, figures)]
}

function bottleneckOf(pool: string, log: PoolDigest, concurrency = 0): Advice[] {
  const measured = saturated(log.runs)
  if (measured !== null) {
    const { low, high } = measured
    const figures = {
      concurrency,
      lowRunning: round(low.running),
      highRunning: round(high.running),
      lowRunMs: round(low.runMs),
      highRunMs: round(high.runMs),
      lowPerSecond: round(low.perSecond),
      highPerSecond: round(high.perSecond),
    }
    const text =
      `What lies behind pool ${show(pool)} is the bottleneck: ` +
      `with ${figures.highRunning} running instead of ${figures.lowRunning}, ` +
      `each run took ${showMs(high.runMs)} instead of ${showMs(low.runMs)}, and no more were ` +
      `done (${figures.highPerSecond} instead of ${figures.lowPerSecond} a second). ` +
      'More concurrency will not help; less may do as well.'
    return [advice('downstream', { pool }, text, figures)]
  }
  const total = log.levels.reduce((sum, { ms }) => sum + ms, 0)
  const atCap = log.levels.filter(({ running }) => running >= concurrency)
  const full = total === 0 ? 0 : atCap.reduce((sum, { ms }) => sum + ms, 0) / total
  const isShort = log.queue <= concurrency * SHORT
  if (concurrency === 0 || log.starts < ENOUGH || full < FULL || !isShort) return []
  const figures = { concurrency, fullShare: round(full), queue: round(log.queue) }
  const text =
    `The slots of pool ${show(pool)} are full ${Math.round(full * 100)} % of the time, and its ` +
    `queue is short (${figures.queue} on average): the time goes into the runs themselves. What ` +
    'lies behind the pool is the bottleneck; more concurrency will not help.'
  return [advice('downstream', { pool }, text, figures)]
}

/** Runs with about so many side by side: how long they took, and how many end in a second. */
interface Regime {
  readonly running: number
  readonly runMs: number
  readonly perSecond: number
}

/**
 * Whether runs with more others beside them took longer, and no more of them ended: the half with
 * fewest beside them against the other half. What ends in a second is what runs divided by how
 * long it takes (Little's law).
 */
function saturated(runs: readonly Run[]): { low: Regime; high: Regime } | null {
  const sorted = runs.toSorted((a, b) => a.running - b.running)
  const middle = Math.floor(sorted.length / 2)
  if (middle < ENOUGH) return null
  const low = regimeOf(sorted.slice(0, middle))
  const high = regimeOf(sorted.slice(middle))
  const differ = high.running >= low.running * MORE
  const longer = high.runMs >= low.runMs * MORE
  return differ && longer && high.perSecond <= low.perSecond * NO_MORE ? { low, high } : null
}

function regimeOf(runs: readonly Run[]): Regime {
  const mean = (of: (run: Run) => number) =>
    runs.reduce((all, run) => all + of(run), 0) / runs.length
  const running = mean((run) => run.running)
  const runMs = Math.max(
    mean((run) => run.ms),
    0.001,
  )
  return { running, runMs, perSecond: (running * 1_000) / runMs }
}

function futileOf(type: string, { retries, lateSuccesses }: TypeDigest): Advice[] {
  if (retries < ENOUGH || lateSuccesses > 0) return []
  const text =
    `None of the ${retries} retries of type ${show(type)} succeeded. Mark its lasting errors ` +
    'with retryable: false, or give it fewer retries: they only take slots.'
  return [advice('futile-retries', { type }, text, { retries, succeeded: 0 })]
}

function lostOf(type: string, { losses, starts }: TypeDigest): Advice[] {
  if (losses < ENOUGH_FAULTS || losses < starts * MANY) return []
  const text =
    `${losses} of ${starts} attempts of type ${show(type)} were lost: their workers died or ` +
    'stalled. Look at their memory, and at handlers that block the event loop for seconds.'
  return [advice('lost', { type }, text, { lost: losses, starts })]
}

function silentOf(type: string, { silences, starts }: TypeDigest): Advice[] {
  if (silences < ENOUGH_FAULTS || silences < starts * MANY) return []
  const text =
    `${silences} of ${starts} attempts of type ${show(type)} missed their heartbeat. Let the ` +
    'handler call progress() more often, or give it a longer heartbeat.'
  return [advice('silent', { type }, text, { silent: silences, starts })]
}

function expiredOf(pool: string, { expired, arrived }: PoolDigest): Advice[] {
  if (expired < ENOUGH_FAULTS || expired < arrived * 0.01) return []
  const text =
    `${expired} jobs of pool ${show(pool)} waited for a slot longer than their enqueueTimeout, ` +
    `of ${arrived} that arrived. Raise its concurrency if what lies behind it can bear that, ` +
    'send less, or let them wait longer.'
  return [advice('enqueue-timeouts', { pool }, text, { expired, arrived })]
}

function advice(
  kind: AdviceKind,
  about: { readonly type: string } | { readonly pool: string },
  text: string,
  figures: Advice['figures'],
): Advice {
  return { kind, ...about, text, figures }
}

/** By the nearest rank; the list is sorted and not empty. */
function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.ceil(sorted.length * share) - 1] as number
}

/** The roundest number from `least` to `most` times that. */
function roundBetween(least: number, most: number, value: number): number {
  for (let step = 10 ** Math.ceil(Math.log10(value * most)); step >= 1; step /= 10) {
    for (const unit of [step, step / 2]) {
      const round = Math.ceil((value * least) / unit) * unit
      if (unit >= 1 && round <= value * most) return round
    }
  }
  return Math.ceil(value * least)
}

function perSecond(count: number, ms: number): number {
  return round((count * 1_000) / ms)
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
