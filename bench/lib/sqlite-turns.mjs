// Owns taking turns between the contenders of a cell on SQLite, and what is told of their figures.
// May never let a figure pass whose jobs were not delivered exactly.

import { measure } from './fresh.mjs'
import { median, spread } from './numbers.mjs'
import { print, printTable, printTarget, show } from './report.mjs'
import { absence, CONTENDERS } from './sqlite-contenders.mjs'

/**
 * @typedef {import('./checks.mjs').Checks} Checks
 * @typedef {import('./sqlite-measure.mjs').Task} Turn
 *
 * A run of the script. `isSame`: the slow ones, too, do all that their turn says. `absent` are
 * those who cannot be measured here, and why.
 *
 * @typedef {{
 *   script: string, jobs: number, starts: number, repeats: number, only: readonly string[],
 *   absent: Map<string, string>, checks: Checks, isSame?: boolean,
 * }} Trial
 *
 * `us` and `cpuUs` are per job; `off` is the spread of the rates.
 *
 * @typedef {{
 *   turn: Turn, label: string, times: number, us: number, cpuUs: number, rssMb: number,
 *   off: number, p50: number, p99: number,
 * }} Result
 */

const LEAST = 2

/**
 * Who of those that are wanted cannot be measured here, and why: said once.
 *
 * @param {readonly string[]} only
 */
export async function findAbsent(only) {
  /** @type {Map<string, string>} */
  const absent = new Map()
  for (const name of only) {
    const reason = await absence(name)
    if (reason !== undefined) skip(absent, name, reason)
  }
  return absent
}

/**
 * @param {Map<string, string>} absent
 * @param {string} name
 * @param {string} reason
 */
function skip(absent, name, reason) {
  absent.set(name, reason)
  print(`skipped ${name}: ${reason}`)
}

/**
 * Measures what can be measured here. A peer that fails is left out from then on, and that is
 * said; ax and the floor may not fail.
 *
 * @param {Trial} trial
 * @param {readonly Turn[]} wanted
 * @returns {Promise<readonly Result[]>}
 */
export async function takeTurns(trial, wanted) {
  const { script, repeats, only, absent, checks, isSame = false } = trial
  const turns = wanted
    .filter(({ contender }) => only.includes(contender))
    .map((turn) => {
      const share = isSame ? 1 : (CONTENDERS[turn.contender]?.share ?? 1)
      return { ...turn, jobs: Math.max(LEAST, Math.round(turn.jobs * share)) }
    })
  /** @type {Map<Turn, Record<string, number>[]>} */
  const figures = new Map(turns.map((turn) => [turn, []]))
  for (let round = 0; round < repeats; round += 1) {
    for (const turn of turns) {
      if (absent.has(turn.contender)) continue
      try {
        figures.get(turn)?.push(await measure(script, turn))
      } catch (error) {
        if ((CONTENDERS[turn.contender]?.needs ?? []).length === 0) throw error
        skip(absent, turn.contender, error instanceof Error ? error.message : String(error))
      }
    }
  }
  return turns
    .filter(({ contender }) => !absent.has(contender))
    .map((turn) => {
      const all = figures.get(turn) ?? []
      for (const one of all) check(turn, one, checks)
      return summary(turn, all)
    })
}

/**
 * @param {Turn} turn
 * @param {Record<string, number>} figures
 * @param {Checks} checks
 */
function check({ contender, measure: cell, sync, jobs }, { ran, wrong, left }, checks) {
  const who = `${contender}, ${cell}, ${sync}, ${jobs} jobs`
  checks.expect(ran === jobs, () => `${who}: ${ran} ran exactly once.`)
  checks.expect(wrong === 0, () => `${who}: ${wrong} were lost or doubled.`)
  checks.expect(left === 0, () => `${who}: ${left} had not ended by the file.`)
}

/**
 * @param {Turn} turn
 * @param {readonly Record<string, number>[]} figures
 * @returns {Result}
 */
function summary(turn, figures) {
  const values = (/** @type {string} */ name) => figures.map((one) => one[name] ?? Number.NaN)
  const of = (/** @type {string} */ name) => median(values(name))
  // better-queue's store knows one kind of durability, and that is none.
  const sync = turn.contender === 'better-queue' ? 'OFF' : turn.sync.toUpperCase()
  return {
    turn,
    label: `${turn.contender} ${sync}`,
    times: figures.length,
    us: (1000 * of('ms')) / turn.jobs,
    cpuUs: (1000 * of('cpuMs')) / turn.jobs,
    rssMb: of('rssMb'),
    off: spread(values('ms')),
    p50: of('p50'),
    p99: of('p99'),
  }
}

/**
 * The table of a cell, with ax beside everybody.
 *
 * @param {readonly Result[]} results
 */
export function printRates(results) {
  const head = ['contender', 'jobs', 'runs', 'jobs/s', 'us/job', 'cpu us/job', 'rss MB', 'spread']
  const own = ownOf(results)
  const rows = results.map((result) => {
    const { turn, label, times, us, cpuUs, rssMb, off } = result
    const each = [show(1e6 / us), show(us, 1), show(cpuUs, 1), show(rssMb), `${show(100 * off)} %`]
    return [label, show(turn.jobs), show(times), ...each, ratio(own, result)]
  })
  printTable([...head, 'ax by rate (by CPU)'], rows)
}

/** @param {readonly Result[]} results */
function ownOf(results) {
  return results.find(({ turn }) => turn.contender === 'ax')
}

/**
 * How many times as good ax is as another.
 *
 * @param {Result | undefined} own
 * @param {Result} other
 */
function ratio(own, other) {
  const byCpu = other.cpuUs / (own?.cpuUs ?? Number.NaN)
  return `${show(other.us / (own?.us ?? Number.NaN), 2)} (${show(byCpu, 2)})`
}

/**
 * @param {readonly Result[]} results
 * @param {string} label
 */
export function find(results, label) {
  return results.find((result) => result.label === label)
}

/**
 * ax beside a peer, with what the floor would reach: nobody can be better.
 *
 * @param {readonly Result[]} results
 * @param {string} label
 * @param {number} least
 */
export function judgePeer(results, label, least) {
  const peer = find(results, label)
  const floor = results.find(({ turn }) => turn.contender === 'rows')
  if (peer === undefined) return
  const most = floor === undefined ? '' : `; rows ${ratio(floor, peer)}`
  judge(ownOf(results), peer, least, ` x${most}`)
}

/**
 * @param {readonly Result[]} results
 * @param {number} share
 */
export function judgeFloor(results, share) {
  const floor = results.find(({ turn }) => turn.contender === 'rows')
  if (floor !== undefined) judge(ownOf(results), floor, share, ' x')
}

/**
 * A target, and 0.6 of it. Nothing is said of those who were not measured.
 *
 * @param {Result | undefined} own
 * @param {Result} other
 * @param {number} least
 * @param {string} unit
 */
function judge(own, other, least, unit) {
  if (own === undefined) return
  const rate = other.us / own.us
  const what = `${own.label} beside ${other.label}, ${own.turn.measure}`
  const figure = `${ratio(own, other)}${unit}`
  printTarget(what, figure, `>= ${show(least, 2)} x`, rate >= least)
  const part = 0.6 * least
  printTarget(what, figure, `>= ${show(part, 2)} x, 0.6 of it`, rate >= part)
}
