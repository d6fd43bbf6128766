// Owns the question of what a long queue costs: time per job, and memory per job.
// May never let two sizes share a process, or count what the script itself keeps.

import { AxScheduler } from './lib/ax.mjs'
import { Checks } from './lib/checks.mjs'
import { answer, assignment, measure, watched } from './lib/fresh.mjs'
import { median, seeded } from './lib/numbers.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine, printTable, printTarget, show } from './lib/report.mjs'

/**
 * @typedef {{ size: number, payload: string, warm: number }} Task
 * @typedef {{ size: number, wallUs: number, cpuUs: number, queuedBytes: number }} Measured
 * @typedef {InstanceType<typeof AxScheduler>} Scheduler
 */

const BATCH = 10_000
const PAYLOAD_BYTES = 200

/** Up to here the order of all starts is checked: the log still holds every one of them. */
const CHECKED_SIZE = 300_000

/** Nothing, or an object that becomes 200 bytes of JSON. */
const PAYLOADS = /** @type {readonly string[]} */ (['none', 'json'])

const task = assignment()
if (task === undefined) await main()
else answer(await measureQueue(task))

async function main() {
  const options = readOptions({
    sizes: /** @type {readonly number[]} */ ([10_000, 100_000, 1_000_000]),
    repeats: /** @type {readonly number[]} */ ([5, 3, 1]),
    payloads: PAYLOADS,
    warm: 20_000,
  })
  printMachine()
  const checks = new Checks()
  for (const payload of options.payloads) {
    checks.expect(PAYLOADS.includes(payload), () => `There is no payload '${payload}'.`)
  }
  checks.faults.length > 0 ? checks.conclude() : await measureAll(options, checks)
}

/**
 * @param {{
 *   sizes: readonly number[], repeats: readonly number[],
 *   payloads: readonly string[], warm: number,
 * }} options
 * @param {Checks} checks
 */
async function measureAll({ sizes, repeats, payloads, warm }, checks) {
  /** @type {string[][]} */
  const rows = []
  for (const payload of payloads) {
    /** @type {Measured[]} */
    const measured = []
    for (const [at, size] of sizes.entries()) {
      const figures = await repeat({ size, payload, warm }, repeats[at] ?? 1, checks)
      const of = (/** @type {string} */ name) => median(figures.map((each) => each[name] ?? NaN))
      const [addUs, drainUs, cpuUs] = [of('addUs'), of('drainUs'), of('cpuUs')]
      const queuedBytes = of('queuedBytes')
      measured.push({ size, wallUs: addUs + drainUs, cpuUs, queuedBytes })
      const times = [addUs, drainUs, cpuUs].map((us) => show(us, 2))
      const bytes = [queuedBytes, of('endedBytes')].map((value) => show(value))
      const runs = String(figures.length)
      rows.push([payload, show(size), runs, ...times, ...bytes, show(of('rssMb'))])
    }
    judge(payload, measured)
  }
  const times = ['add us', 'drain us', 'cpu us']
  printTable(['payload', 'jobs', 'runs', ...times, 'B queued', 'B ended', 'rss MB'], rows)
  print('Per job. Bytes are heap and external memory after a collection, without the payload.')
  checks.conclude()
}

/**
 * @param {Task} task
 * @param {number} times
 * @param {Checks} checks
 */
async function repeat(task, times, checks) {
  const figures = []
  for (let round = 0; round < times; round += 1) {
    const result = await measure(import.meta.url, task, ['--expose-gc'])
    const { ran, succeeded, outOfOrder } = result
    const what = `Of ${task.size} jobs (payload ${task.payload})`
    checks.expect(
      ran === task.size && succeeded === task.size,
      () => `${what}, ${ran} bodies ran and ${succeeded} succeeded.`,
    )
    checks.expect(outOfOrder === 0, () => `${what}, ${outOfOrder} started out of order.`)
    figures.push(result)
  }
  return figures
}

/**
 * @param {string} payload
 * @param {readonly Measured[]} all
 */
function judge(payload, all) {
  const [small, large] = [all[0], all.at(-1)]
  if (small === undefined || large === undefined || small === large) return
  for (const kind of /** @type {const} */ (['wall', 'cpu'])) {
    const growth = large[`${kind}Us`] / small[`${kind}Us`]
    const sizes = `${show(large.size)} to ${show(small.size)} jobs`
    const what = `payload ${payload}, ${kind} time per job, ${sizes}`
    printTarget(what, `${show(growth, 2)} x`, '< 2 x', growth < 2)
  }
  const bytes = `${show(large.queuedBytes)} B`
  printTarget(
    `payload ${payload}, memory per queued job at ${show(large.size)}`,
    bytes,
    '<= 600 B',
    large.queuedBytes <= 600,
  )
}

// In a process of its own

/**
 * A queue of another scheduler comes first, so that the small sizes do not measure the compiler.
 *
 * @param {Task} task
 */
async function measureQueue({ size, payload, warm }) {
  await fillAndDrain(warm, payload)
  return fillAndDrain(size, payload)
}

/**
 * @param {number} size
 * @param {string} payload
 */
async function fillAndDrain(size, payload) {
  let ran = 0
  const scheduler = new AxScheduler({ pools: { default: { concurrency: 10, paused: true } } })
  scheduler.define('noop', async () => {
    ran += 1
  })
  await scheduler.start()
  const before = memory()
  const add = await fill(scheduler, size, payload)
  const queued = memory()
  const drain = await watched(async () => {
    await scheduler.pool('default').resume()
    await scheduler.idle()
  })
  const ended = memory()
  const { states } = await scheduler.snapshot()
  const outOfOrder = size > CHECKED_SIZE ? 0 : await countOutOfOrder(scheduler)
  await scheduler.close()
  const payloadBytes = payload === 'json' ? PAYLOAD_BYTES : 0
  return {
    addUs: (1000 * add.ms) / size,
    drainUs: (1000 * drain.ms) / size,
    cpuUs: (1000 * (add.cpuMs + drain.cpuMs)) / size,
    queuedBytes: (queued - before) / size - payloadBytes,
    endedBytes: (ended - before) / size - payloadBytes,
    rssMb: drain.rssMb,
    ran,
    succeeded: states.success,
    outOfOrder,
  }
}

/**
 * Adds jobs of random priority; gives what the calls took, without making the inputs.
 *
 * @param {Scheduler} scheduler
 * @param {number} size
 * @param {string} payload
 */
async function fill(scheduler, size, payload) {
  const random = seeded(7)
  const total = { ms: 0, cpuMs: 0 }
  for (let at = 0; at < size; at += BATCH) {
    const jobs = Array.from({ length: Math.min(BATCH, size - at) }, (_, index) => {
      const priority = 1 + Math.floor(100 * random())
      if (payload === 'none') return { type: 'noop', priority }
      return { type: 'noop', priority, payload: payloadOf(at + index) }
    })
    const { ms, cpuMs } = await watched(async () => {
      await scheduler.addJobs(jobs)
    })
    total.ms += ms
    total.cpuMs += cpuMs
  }
  return total
}

/**
 * An object whose JSON has 200 bytes, and of which no part is shared with another.
 *
 * @param {number} index
 */
function payloadOf(index) {
  const text = `${index}:`.padEnd(PAYLOAD_BYTES - '{"text":""}'.length, 'abcdefgh')
  return { text }
}

/** Bytes that are reachable: V8's heap, and buffers outside of it. */
function memory() {
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/**
 * All jobs were ready before the first start, so priorities may only fall from start to start.
 *
 * @param {Scheduler} scheduler
 */
async function countOutOfOrder(scheduler) {
  /** @type {Map<string, number>} */
  const priorities = new Map()
  for await (const { id, priority } of scheduler.jobs()) priorities.set(id, priority)
  let last = Number.POSITIVE_INFINITY
  let count = 0
  for await (const { job, to } of scheduler.events()) {
    if (to !== 'running') continue
    const priority = priorities.get(job) ?? Number.NaN
    if (!(priority <= last)) count += 1
    last = priority
  }
  return count
}
