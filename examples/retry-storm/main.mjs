// node main.mjs [setting ...] [--svg FILE]: lets the storm come with each setting, and prints calls
// per second side by side, and what became of the jobs. The same chart goes to FILE, or to a file in
// a temporary folder that is named on standard error.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chartInCharacters, chartInSvg } from './chart.mjs'
import { LIMIT } from './downstream.mjs'
import { RESTART_MS, runStorm } from './storm.mjs'

/** @type {Record<string, import('./storm.mjs').Terms>} */
const SETTINGS = {
  // "It must get through some time": every second, for ever.
  naive: { policy: { retries: 1_000, backoff: { type: 'fixed', delay: '1s' } } },
  // Three at most, each later than the one before; but all of them at once.
  few: { policy: { retries: 3, backoff: { type: 'exponential', delay: '1s' } } },
  // The same three, but no more than 10 retries a second, and no more than 20 calls of any kind.
  budget: {
    policy: { retries: 3, backoff: { type: 'exponential', delay: '1s' } },
    retryBudget: { count: 10, per: '1s' },
    rate: { count: 20, per: '1s' },
  },
}

const { names, svg } = readArguments()
/** @type {import('./storm.mjs').Report[]} */
const reports = []
for (const name of names) {
  reports.push(await runStorm(/** @type {import('./storm.mjs').Terms} */ (SETTINGS[name])))
}
const series = names.map((name, index) => ({ name, values: reports[index]?.perSecond ?? [] }))
const chart = { series, limit: LIMIT, from: Math.floor(RESTART_MS / 1_000) - 1 }
console.log(chartInCharacters({ ...chart, until: chart.from + 26 }))
printTable()
const file = svg ?? join(mkdtempSync(join(tmpdir(), 'ax-retry-storm-')), 'chart.svg')
writeFileSync(file, chartInSvg({ ...chart, from: 0, until: 70 }))
console.error(`The chart as a picture: ${file}`)

function readArguments() {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: { svg: { type: 'string' } },
    })
    const unknown = positionals.find((name) => !Object.hasOwn(SETTINGS, name))
    if (unknown !== undefined) throw new Error(`There is no setting '${unknown}'.`)
    return { names: positionals.length > 0 ? positionals : ['naive', 'budget'], svg: values.svg }
  } catch (error) {
    const known = Object.keys(SETTINGS).join(', ')
    console.error(`${error instanceof Error ? error.message : error} Settings: ${known}.`)
    return process.exit(2)
  }
}

function printTable() {
  const count = (/** @type {number} */ number) => Math.round(number).toLocaleString('en-US')
  /** @type {[string, (report: import('./storm.mjs').Report) => string][]} */
  const rows = [
    ['exports broken at one instant', ({ broken }) => count(broken)],
    ['most calls in any second', ({ peak }) => count(peak)],
    ['most retries in any second', ({ retryPeak }) => count(retryPeak)],
    ['calls in all', ({ calls }) => count(calls)],
    ['jobs that succeeded', ({ done }) => count(done)],
    ['jobs that failed', ({ failed }) => count(failed)],
    ['jobs still at it after two minutes', ({ left }) => count(left)],
    [
      'the last one ended after',
      ({ seconds }) => (seconds === undefined ? 'never' : `${count(seconds)} s`),
    ],
    ['longest wait of a first attempt', ({ waitMs }) => `${count(waitMs)} ms`],
  ]
  console.log(''.padEnd(36) + names.map((name) => name.padStart(10)).join(''))
  for (const [name, read] of rows) {
    console.log(name.padEnd(36) + reports.map((one) => read(one).padStart(10)).join(''))
  }
}
