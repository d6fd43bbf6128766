// Owns taking turns between durable queues in the cells of a comparison, and what is told of their
// figures. May never let a figure pass whose jobs were not delivered exactly.

import { measure } from './fresh.mjs'
import { median, spread } from './numbers.mjs'
import { print, printTable, printTarget, show } from './report.mjs'

/**
 * @typedef {import('./checks.mjs').Checks} Checks
 * @typedef {Record<string, string | number> & {
 *   contender: string, measure: string, jobs: number,
 * }} Turn
 *
 * A run of the script. `isSame`: the slow ones, too, do all that their turn says. `absent` are
 * those who cannot be measured here, and why.
 *
 * @typedef {{
 *   script: string, jobs: number, starts: number, repeats: number, only: readonly string[],
 *   absent: Map<string, string>, checks: Checks, isSame?: boolean,
 * }} Trial
 *
 * `us` and `cpuUs` are per job; `off` is the spread of the rates; `of` gives the median of any
 * figure that was measured.
 *
 * @typedef {{
 *   turn: Turn, label: string, times: number, us: number, cpuUs: number, rssMb: number,
 *   off: number, p50: number, p99: number, of: (name: string) => number,
 * }} Result
 *
 * What a comparison is about: its contenders (`needs` are packages; `share` is how much of the
 * work is enough for one that is slower), which of them is the floor, and why one cannot be
 * measured here (undefined if it can).
 *
 * @typedef {{
 *   contenders: Record<string, { needs: readonly string[], share: number }>,
 *   floor: string,
 *   absence: (name: string) => Promise<string | undefined>,
 *   labelOf: (turn: Turn) => string,
 * }} About
 *
 * A column that not every comparison has.
 *
 * @typedef {{ head: string, of: (result: Result) => string }} Column
 */

const LEAST = 2

export class Comparison {
  /** @type {About} */
  #about

  /** @param {About} about */
  constructor(about) {
    this.#about = about
  }

  /**
   * Who of those that are wanted cannot be measured here, and why: said once.
   *
   * @param {readonly string[]} only
   */
  async findAbsent(only) {
    /** @type {Map<string, string>} */
    const absent = new Map()
    for (const name of only) {
      const reason = await this.#about.absence(name)
      if (reason !== undefined) skip(absent, name, reason)
    }
    return absent
  }

  /**
   * Measures what can be measured here. A peer that fails is left out from then on, and that is
   * said; ax and the floor may not fail.
   *
   * @param {Trial} trial
   * @param {readonly Turn[]} wanted
   * @returns {Promise<readonly Result[]>}
   */
  async takeTurns(trial, wanted) {
    const { script, repeats, absent, checks } = trial
    const turns = this.#turnsOf(trial, wanted)
    /** @type {Map<Turn, Record<string, number>[]>} */
    const figures = new Map(turns.map((turn) => [turn, []]))
    for (let round = 0; round < repeats; round += 1) {
      for (const turn of turns) {
        if (absent.has(turn.contender)) continue
        try {
          figures.get(turn)?.push(await measure(script, turn))
        } catch (error) {
          if (!this.#isPeer(turn.contender)) throw error
          skip(absent, turn.contender, error instanceof Error ? error.message : String(error))
        }
      }
    }
    return turns
      .filter(({ contender }) => !absent.has(contender))
      .map((turn) => {
        const all = figures.get(turn) ?? []
        for (const one of all) check(this.#about.labelOf(turn), turn, one, checks)
        return summary(turn, this.#about.labelOf(turn), all)
      })
  }

  /**
   * @param {Trial} trial
   * @param {readonly Turn[]} wanted
   */
  #turnsOf({ only, isSame = false }, wanted) {
    return wanted
      .filter(({ contender }) => only.includes(contender))
      .map((turn) => {
        const share = isSame ? 1 : (this.#about.contenders[turn.contender]?.share ?? 1)
        return { ...turn, jobs: Math.max(LEAST, Math.round(turn.jobs * share)) }
      })
  }

  /** @param {string} name */
  #isPeer(name) {
    return name !== 'ax' && name !== this.#about.floor
  }

  /**
   * The table of a cell, with ax beside everybody.
   *
   * @param {readonly Result[]} results
   * @param {readonly Column[]} [more]
   */
  printRates(results, more = []) {
    const head = ['contender', 'jobs', 'runs', 'jobs/s', 'us/job', 'cpu us/job', 'rss MB', 'spread']
    const own = ownOf(results)
    const rows = results.map((result) => {
      const { turn, label, times, us, cpuUs, rssMb, off } = result
      const each = [
        show(1e6 / us),
        show(us, 1),
        show(cpuUs, 1),
        show(rssMb),
        `${show(100 * off)} %`,
      ]
      const rest = more.map(({ of }) => of(result))
      return [label, show(turn.jobs), show(times), ...each, ...rest, ratio(own, result)]
    })
    printTable([...head, ...more.map((column) => column.head), 'ax by rate (by CPU)'], rows)
  }

  /**
   * ax beside a peer, with what the floor would reach: nobody can be better.
   *
   * @param {readonly Result[]} results
   * @param {string} label
   * @param {number} least
   */
  judgePeer(results, label, least) {
    const peer = find(results, label)
    const floor = this.#floorOf(results)
    if (peer === undefined) return
    const most = floor === undefined ? '' : `; ${this.#about.floor} ${ratio(floor, peer)}`
    judge(ownOf(results), peer, least, ` x${most}`)
  }

  /**
   * @param {readonly Result[]} results
   * @param {number} share
   */
  judgeFloor(results, share) {
    const floor = this.#floorOf(results)
    if (floor !== undefined) judge(ownOf(results), floor, share, ' x')
  }

  /** @param {readonly Result[]} results */
  #floorOf(results) {
    return results.find(({ turn }) => turn.contender === this.#about.floor)
  }
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
 * @param {string} label
 * @param {Turn} turn
 * @param {Record<string, number>} figures
 * @param {Checks} checks
 */
function check(label, { measure: cell, jobs }, { ran, wrong, left }, checks) {
  const who = `${label}, ${cell}, ${jobs} jobs`
  checks.expect(ran === jobs, () => `${who}: ${ran} ran exactly once.`)
  checks.expect(wrong === 0, () => `${who}: ${wrong} were lost or doubled.`)
  checks.expect(left === 0, () => `${who}: ${left} had not ended by the store.`)
}

/**
 * @param {Turn} turn
 * @param {string} label
 * @param {readonly Record<string, number>[]} figures
 * @returns {Result}
 */
function summary(turn, label, figures) {
  const values = (/** @type {string} */ name) => figures.map((one) => one[name] ?? Number.NaN)
  const of = (/** @type {string} */ name) => median(values(name))
  return {
    turn,
    label,
    times: figures.length,
    us: (1000 * of('ms')) / turn.jobs,
    cpuUs: (1000 * of('cpuMs')) / turn.jobs,
    rssMb: of('rssMb'),
    off: spread(values('ms')),
    p50: of('p50'),
    p99: of('p99'),
    of,
  }
}

/** @param {readonly Result[]} results */
export function ownOf(results) {
  return results.find(({ turn }) => turn.contender === 'ax')
}

/**
 * @param {readonly Result[]} results
 * @param {string} label
 */
export function find(results, label) {
  return results.find((result) => result.label === label)
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

/**
 * A figure that may be as large as a limit, and at 0.6 of the target as large as that over 0.6.
 *
 * @param {string} what
 * @param {{ figure: number, limit: number, decimals: number, unit: string }} judged
 */
export function judgeLimit(what, { figure, limit, decimals, unit }) {
  for (const [note, most] of /** @type {const} */ ([
    ['', limit],
    [', 0.6 of it', limit / 0.6],
  ])) {
    const target = `<= ${show(most, 2)}${unit}${note}`
    printTarget(what, `${show(figure, decimals)}${unit}`, target, figure <= most)
  }
}
