// 200 long calls break at one instant, and all of them want to come back: what happens then, on
// given terms. It runs on simulated time, so that two minutes take a second or two.

import { AxScheduler } from 'ax-scheduler'
import { virtualRuntime } from 'ax-scheduler/testing'
import { createDownstream } from './downstream.mjs'

/**
 * @typedef {import('ax-scheduler').SchedulerOptions} SchedulerOptions
 * @typedef {import('ax-scheduler').PoolOptions} PoolOptions
 * @typedef {import('ax-scheduler').TypePolicy} TypePolicy
 * @typedef {{
 *   policy: Pick<TypePolicy, 'retries' | 'backoff'>,
 *   retryBudget?: SchedulerOptions['retryBudget'],
 *   rate?: PoolOptions['rate'],
 * }} Terms
 * @typedef {{
 *   perSecond: number[], peak: number, retryPeak: number, calls: number, broken: number,
 *   done: number, failed: number, left: number, seconds: number | undefined, waitMs: number,
 * }} Report
 */

/** Exports: ten are begun in each of the first 20 seconds, and each takes 30 s. */
const EXPORTS = { count: 200, everyMs: 100, takesMs: 30_000 }

/** Lookups: five in each of the first 60 seconds, quick ones. They are always first attempts. */
const LOOKUPS = { count: 300, everyMs: 200, takesMs: 80 }

/** Then the downstream restarts, and all exports, none of which has ended, fail at once. */
export const RESTART_MS = 19_950

/** What has not ended by then is given up: it would never end. */
const HORIZON_MS = 120_000

/**
 * @param {Terms} terms
 * @returns {Promise<Report>}
 */
export async function runStorm({ policy, retryBudget = false, rate = false }) {
  const runtime = virtualRuntime(1)
  const downstream = createDownstream(runtime)
  const scheduler = new AxScheduler({
    pools: { downstream: { concurrency: 1_000, rate } },
    retryBudget,
    runtime,
  })
  const pool = 'downstream'
  /** @type {number[]} */
  const retries = []
  for (const [type, { takesMs }] of Object.entries({ export: EXPORTS, lookup: LOOKUPS })) {
    scheduler.define(type, { ...policy, pool }, ({ attempt }) => {
      if (attempt > 1) retries.push(runtime.monotonic())
      return downstream.call(takesMs)
    })
  }
  await scheduler.start()

  submit('export', EXPORTS)
  submit('lookup', LOOKUPS)
  let broken = 0
  runtime.after(RESTART_MS, () => {
    broken = downstream.restart()
  })
  await runtime.run(() => false, LOOKUPS.count * LOOKUPS.everyMs)
  const over = watch(scheduler.idle())
  await runtime.run(() => over.done, HORIZON_MS - runtime.monotonic())
  const { calls } = downstream
  return {
    ...(await figuresOf(scheduler)),
    perSecond: perSecondOf(calls),
    calls: calls.length,
    peak: peakOf(calls),
    retryPeak: peakOf(retries),
    broken,
  }

  /**
   * @param {string} type
   * @param {{ count: number, everyMs: number }} load
   */
  function submit(type, { count, everyMs }) {
    for (let nth = 0; nth < count; nth += 1) {
      runtime.after(nth * everyMs, () => void scheduler.addJob({ id: `${type}-${nth}`, type }))
    }
  }

  /** @param {AxScheduler} scheduler */
  async function figuresOf(scheduler) {
    const { states } = await scheduler.snapshot()
    let finishedAt = 0
    let waitMs = 0
    for await (const job of scheduler.jobs()) {
      finishedAt = Math.max(finishedAt, job.finishedAt ?? Number.POSITIVE_INFINITY)
      waitMs = Math.max(waitMs, job.attemptLog[0]?.queuedMs ?? 0)
    }
    const done = states.success
    const failed = states.failed
    const left = EXPORTS.count + LOOKUPS.count - done - failed
    const began = runtime.now() - runtime.monotonic()
    return {
      done,
      failed,
      left,
      waitMs,
      seconds: left > 0 ? undefined : (finishedAt - began) / 1000,
    }
  }
}

/** @param {readonly number[]} instants */
function perSecondOf(instants) {
  const counts = Array.from({ length: HORIZON_MS / 1_000 }, () => 0)
  for (const at of instants) {
    const second = Math.floor(at / 1_000)
    counts[second] = (counts[second] ?? 0) + 1
  }
  return counts
}

/**
 * The most in any second, wherever it begins.
 *
 * @param {readonly number[]} instants in order
 */
function peakOf(instants) {
  let peak = 0
  let first = 0
  instants.forEach((at, index) => {
    while (Number(instants[first]) <= at - 1_000) first += 1
    peak = Math.max(peak, index - first + 1)
  })
  return peak
}

/** @param {Promise<unknown>} work */
function watch(work) {
  const over = { done: false }
  const end = () => {
    over.done = true
  }
  work.then(end, end)
  return over
}
