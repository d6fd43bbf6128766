// Owns taking turns between the contenders of a cell, and what is told of their figures.
// May never let a figure pass whose tasks were not delivered exactly.

import { measure } from './fresh.mjs'
import { median, spread } from './numbers.mjs'
import { print, printTable, printTarget, show } from './report.mjs'
import { absence, MAPS, QUEUES } from './toolkit-contenders.mjs'

/**
 * @typedef {import('./checks.mjs').Checks} Checks
 * @typedef {import('./toolkit-measure.mjs').Task} Task
 *
 * A run of the script: how often each contender is measured, and by what sizes are divided.
 *
 * @typedef {{ script: string, repeats: number, divide: number, checks: Checks }} Trial
 *
 * `most` is for contenders that are too slow to be measured as often as the others.
 *
 * @typedef {Task & { most?: number }} Turn
 *
 * `us` and `cpuUs` are per task; `off` is the spread of the processor times.
 *
 * @typedef {{
 *   turn: Turn, label: string, times: number, us: number, cpuUs: number, rssMb: number,
 *   off: number, p50: number, p99: number, bytes: number,
 * }} Result
 */

const LEAST = 20

/**
 * Measures what can be measured here, and says what cannot.
 *
 * @param {Trial} trial
 * @param {readonly Turn[]} wanted
 * @returns {Promise<readonly Result[]>}
 */
export async function takeTurns({ script, repeats, divide, checks }, wanted) {
  const turns = (await present(wanted)).map((turn) => ({
    ...turn,
    size: Math.max(LEAST, Math.round(turn.size / divide)),
    ...(turn.warm === undefined ? {} : { warm: Math.round(turn.warm / divide) }),
  }))
  /** @type {Map<Turn, Record<string, number>[]>} */
  const figures = new Map(turns.map((turn) => [turn, []]))
  for (let round = 0; round < repeats; round += 1) {
    for (const turn of turns) {
      if (round >= (turn.most ?? repeats)) continue
      figures.get(turn)?.push(await measure(script, turn, ['--expose-gc']))
    }
  }
  return turns.map((turn) => {
    const all = figures.get(turn) ?? []
    for (const one of all) check(turn, one, checks)
    return summary(turn, all)
  })
}

/** @param {readonly Turn[]} wanted */
async function present(wanted) {
  /** @type {Turn[]} */
  const there = []
  /** @type {Set<string>} */
  const absent = new Set()
  for (const turn of wanted) {
    const way = turn.measure === 'map' ? MAPS[turn.contender] : QUEUES[turn.contender]
    const reason = await absence(way?.needs ?? '')
    if (reason === undefined) there.push(turn)
    else absent.add(`skipped ${turn.contender}: ${reason}`)
  }
  for (const line of absent) print(line)
  return there
}

/**
 * @param {Turn} turn
 * @param {Record<string, number>} figures
 * @param {Checks} checks
 */
function check({ contender, size, concurrency }, { ran, wrong, most = 0 }, checks) {
  const who = `${contender} with ${size} tasks`
  checks.expect(ran === size, () => `${who}: ${ran} ran.`)
  checks.expect(wrong === 0, () => `${who}: ${wrong} were out of order, lost or doubled.`)
  checks.expect(most <= concurrency, () => `${who}: ${most} ran at once, the cap ${concurrency}.`)
}

/**
 * @param {Turn} turn
 * @param {readonly Record<string, number>[]} figures
 * @returns {Result}
 */
function summary(turn, figures) {
  const values = (/** @type {string} */ name) => figures.map((one) => one[name] ?? Number.NaN)
  const of = (/** @type {string} */ name) => median(values(name))
  return {
    turn,
    label: turn.contender,
    times: figures.length,
    us: (1000 * of('ms')) / turn.size,
    cpuUs: (1000 * of('cpuMs')) / turn.size,
    rssMb: of('rssMb'),
    off: spread(values('cpuMs')),
    p50: of('p50'),
    p99: of('p99'),
    bytes: of('bytes'),
  }
}

/**
 * The table of a cell, with everybody beside one contender.
 *
 * @param {readonly Result[]} results
 * @param {string} beside
 */
export function printResults(results, beside) {
  const head = ['contender', 'tasks', 'runs', 'tasks/s', 'cpu us/task', 'rss MB', 'spread']
  const rows = results.map((result) => {
    const { turn, label, times, us, cpuUs, rssMb, off } = result
    const own = find(results, beside, turn.size)
    const ratios = [show((own?.cpuUs ?? NaN) / cpuUs, 2), show((own?.us ?? NaN) / us, 2)]
    const figures = [show(turn.size), show(times), show(1e6 / us), show(cpuUs, 2), show(rssMb)]
    return [label, ...figures, `${show(100 * off)} %`, ...ratios]
  })
  printTable([...head, `cpu x ${beside}`, `rate x ${beside}`], rows)
}

/**
 * The result of a contender, at a size if one is given.
 *
 * @param {readonly Result[]} results
 * @param {string} contender
 * @param {number} [size]
 */
export function find(results, contender, size) {
  return results.find(({ label, turn }) => {
    return label === contender && (size === undefined || turn.size === size)
  })
}

/**
 * How many times as good as a peer, judged by processor time, and how good the floor is beside
 * it: nobody can be better. Nothing is said of those who were not measured.
 *
 * @param {Result | undefined} own
 * @param {Result | undefined} peer
 * @param {number} least
 * @param {Result} [floor]
 */
export function judge(own, peer, least, floor) {
  if (own === undefined || peer === undefined) return
  const byCpu = peer.cpuUs / own.cpuUs
  const most = floor === undefined ? '' : `; ${floor.label} ${show(peer.cpuUs / floor.cpuUs, 2)} x`
  const figure = `${show(byCpu, 2)} x by cpu, ${show(peer.us / own.us, 2)} x by rate${most}`
  const what = `${own.label} beside ${peer.label}, ${show(own.turn.size)} tasks`
  printTarget(what, figure, `>= ${least} x`, byCpu >= least)
}
