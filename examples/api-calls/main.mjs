// node main.mjs [setting ...]: runs the 5,000 calls with each setting and prints the figures side
// by side. With --stats: what `runner.stats()` says at the end, in full.

import { runCalls } from './calls.mjs'

/** @type {Record<string, import('./calls.mjs').Setting>} */
const SETTINGS = {
  low: { concurrency: 5 },
  right: { concurrency: 30 },
  high: { concurrency: 300 },
  fitting: { concurrency: 40, quota: Number.POSITIVE_INFINITY },
  crowded: { concurrency: 100, quota: Number.POSITIVE_INFINITY },
  ill: { concurrency: 30, ill: true },
  stopped: {
    concurrency: 30,
    ill: true,
    breaker: { failureRate: 0.4, window: 100, resetMs: '5s' },
    stopWhen: { failureRate: 0.5, window: 50 },
  },
  adaptive: { concurrency: { min: 2, max: 300, initial: 5 } },
}

const args = process.argv.slice(2)
const named = args.filter((arg) => arg !== '--stats')
const unknown = named.find((name) => !Object.hasOwn(SETTINGS, name))
if (unknown !== undefined) {
  console.error(`No setting '${unknown}'. There are: ${Object.keys(SETTINGS).join(', ')}.`)
  process.exit(2)
}
const names = named.length > 0 ? named : ['low', 'right', 'high', 'ill']

const reports = []
for (const name of names) {
  reports.push(await runCalls(/** @type {import('./calls.mjs').Setting} */ (SETTINGS[name])))
}
if (args.includes('--stats')) for (const { stats } of reports) console.log(rounded(stats))
else printTable(reports)

/** Milliseconds without their fractions. @param {import('ax-scheduler').RunnerStats} stats */
function rounded(stats) {
  return JSON.parse(JSON.stringify(stats), (_, value) =>
    typeof value === 'number' && value > 1 ? Math.round(value) : value,
  )
}

/** @param {import('./calls.mjs').Report[]} reports */
function printTable(reports) {
  const count = (/** @type {number} */ number) => Math.round(number).toLocaleString('en-US')
  const codes = [...new Set(reports.flatMap(({ stats }) => Object.keys(stats.codes)))].sort()
  /** @type {[string, (report: import('./calls.mjs').Report) => string][]} */
  const rows = [
    ['after 3 s: concurrency', ({ during }) => count(during.concurrency)],
    ['  active', ({ during }) => count(during.active)],
    ['  waiting', ({ during }) => count(during.waiting)],
    ['  throughput (per s)', ({ during }) => count(during.throughput)],
    ['  call p50 (ms)', ({ during }) => count(during.call.p50)],
    ['  call p99', ({ during }) => count(during.call.p99)],
    ['  queueWait p50', ({ during }) => count(during.queueWait.p50)],
    ['at the end: seconds', ({ seconds }) => count(seconds)],
    ['  succeeded', ({ stats }) => count(stats.succeeded)],
    ['  failed', ({ stats }) => count(stats.failed)],
    ['  deduplicated', ({ stats }) => count(stats.deduplicated)],
    ['  retried', ({ stats }) => count(stats.retried)],
    ['  effectiveSuccessRate', ({ stats }) => stats.effectiveSuccessRate.toFixed(2)],
    .../** @type {typeof rows} */ (
      codes.map((code) => [`  ${code}`, ({ stats }) => count(stats.codes[code] ?? 0)])
    ),
    ['skipped', ({ skipped }) => count(skipped)],
    ['the API: requests', ({ api }) => count(api.requests)],
    ['  orders charged', ({ api }) => count(api.charged)],
    ['  repeats not charged', ({ api }) => count(api.repeats)],
  ]
  console.log(''.padEnd(24) + names.map((name) => name.padStart(10)).join(''))
  for (const [name, read] of rows) {
    console.log(name.padEnd(24) + reports.map((one) => read(one).padStart(10)).join(''))
  }
}
