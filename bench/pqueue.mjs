// Owns the comparison with p-queue, which limits concurrency and stores nothing.
// May never give one contender work that the other is spared: both add and run the same no-op.

import { AxScheduler } from './lib/ax.mjs'
import { Checks } from './lib/checks.mjs'
import { answer, assignment, takeTurns, watched } from './lib/fresh.mjs'
import { median, spread } from './lib/numbers.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine, printTable, printTarget, show } from './lib/report.mjs'

/** @typedef {{ contender: string, size: number }} Task */

const CONCURRENCY = 10
const BATCH = 10_000
const PEER = 'p-queue'

/**
 * Each adds and runs so many no-ops, and resolves when the last one has ended.
 *
 * @type {Record<string, (size: number, noop: () => Promise<void>) => Promise<void>>}
 */
const CONTENDERS = {
  [PEER]: addToQueue,
  addJob: (size, noop) => runOnAx(size, noop, addOneByOne),
  'addJob-execute': (size, noop) => runOnAx(size, noop, addFunctions),
  'addJob-result': (size, noop) => runOnAx(size, noop, addAndAwait),
  addJobs: (size, noop) => runOnAx(size, noop, addInBatches),
}

const task = /** @type {Task | undefined} */ (assignment())
if (task === undefined) await main()
else answer(await measureOne(task))

async function main() {
  const options = readOptions({
    sizes: /** @type {readonly number[]} */ ([10_000, 100_000]),
    repeats: 5,
    only: /** @type {readonly string[]} */ (Object.keys(CONTENDERS)),
  })
  printMachine()
  const checks = new Checks()
  for (const name of options.only) {
    checks.expect(name in CONTENDERS, () => `There is no contender '${name}'.`)
  }
  if (checks.faults.length === 0) {
    for (const size of options.sizes) await compare(size, options.only, options.repeats, checks)
    print('Medians of fresh processes that took turns; ratios are those of the medians.')
  }
  checks.conclude()
}

/**
 * @param {number} size
 * @param {readonly string[]} contenders
 * @param {number} repeats
 * @param {Checks} checks
 */
async function compare(size, contenders, repeats, checks) {
  const tasks = contenders.map((contender) => ({ contender, size }))
  const measured = await takeTurns(import.meta.url, tasks, repeats)
  const results = tasks.map((each) => {
    const figures = measured.get(each) ?? []
    for (const { ran } of figures) {
      checks.expect(ran === size, () => `${each.contender}: ${ran} of ${size} no-ops ran.`)
    }
    const times = figures.map(({ ms }) => ms ?? Number.NaN)
    const of = (/** @type {string} */ name) => median(figures.map((one) => one[name] ?? NaN))
    const { contender } = each
    return { contender, ms: of('ms'), cpuMs: of('cpuMs'), rssMb: of('rssMb'), off: spread(times) }
  })
  const peer = results.find(({ contender }) => contender === PEER)
  const rows = results.map(({ contender, ms, cpuMs, rssMb, off }) => {
    const rates = [show((1000 * size) / ms), show((1000 * cpuMs) / size, 2)]
    const ratios = [show((peer?.ms ?? NaN) / ms, 2), show((peer?.cpuMs ?? NaN) / cpuMs, 2)]
    return [contender, show(size), ...rates, ...ratios, show(rssMb), `${show(100 * off)} %`]
  })
  const head = ['contender', 'jobs', 'jobs/s', 'cpu us/job', 'x rate', 'x cpu', 'rss MB', 'spread']
  printTable(head, rows)
  for (const { contender, ms } of results) {
    if (peer === undefined || contender === PEER) continue
    const ratio = peer.ms / ms
    printTarget(
      `${contender} at ${show(size)}`,
      `${show(ratio, 2)} x p-queue`,
      '>= 1 x',
      ratio >= 1,
    )
  }
}

// In a process of its own

/** @param {Task} task */
async function measureOne({ contender, size }) {
  let ran = 0
  const noop = async () => {
    ran += 1
  }
  const run = CONTENDERS[contender]
  if (run === undefined) throw new Error(`There is no contender '${contender}'.`)
  // What is loaded on the way must not count.
  if (contender === PEER) await import('p-queue')
  const figures = await watched(() => run(size, noop))
  return { ...figures, ran }
}

/**
 * @param {number} size
 * @param {() => Promise<void>} noop
 */
async function addToQueue(size, noop) {
  const { default: PQueue } = await import('p-queue')
  const queue = new PQueue({ concurrency: CONCURRENCY })
  await Promise.all(Array.from({ length: size }, () => queue.add(noop)))
}

/**
 * @typedef {(
 *   scheduler: InstanceType<typeof AxScheduler>, size: number, noop: () => Promise<void>,
 * ) => Promise<unknown>} Add
 *
 * @param {number} size
 * @param {() => Promise<void>} noop
 * @param {Add} add
 */
async function runOnAx(size, noop, add) {
  const scheduler = new AxScheduler(CONCURRENCY)
  scheduler.define('noop', noop)
  await add(scheduler, size, noop)
  await scheduler.idle()
  const { states, total } = await scheduler.snapshot()
  if (states.success !== total) throw new Error(`Of ${total} jobs, ${states.success} succeeded.`)
}

/** @type {Add} */
function addOneByOne(scheduler, size) {
  return Promise.all(Array.from({ length: size }, () => scheduler.addJob({ type: 'noop' })))
}

/** @type {Add} */
function addFunctions(scheduler, size, noop) {
  return Promise.all(Array.from({ length: size }, () => scheduler.addJob({ execute: noop })))
}

/** @type {Add} */
function addAndAwait(scheduler, size) {
  const one = async () => (await scheduler.addJob({ type: 'noop' })).result()
  return Promise.all(Array.from({ length: size }, one))
}

/**
 * @param {InstanceType<typeof AxScheduler>} scheduler
 * @param {number} size
 */
async function addInBatches(scheduler, size) {
  for (let at = 0; at < size; at += BATCH) {
    const length = Math.min(BATCH, size - at)
    await scheduler.addJobs(Array.from({ length }, () => ({ type: 'noop' })))
  }
}
