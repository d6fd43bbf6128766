// Owns the replay of a real cluster's log of arrivals: who waits, with ageing and without.
// May never use the scheduler's own arithmetic of ranks: the order is counted again from the log.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AxScheduler, virtualTime } from './lib/ax.mjs'
import { Checks } from './lib/checks.mjs'
import { compareWithStored, follow, readLog } from './lib/history.mjs'
import { percentile } from './lib/numbers.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine, printTable, show } from './lib/report.mjs'

/**
 * `atMs` counts from the first arrival. A job comes before another if it has more `points`: its
 * priority, and with ageing one more for each `everyMs` waited.
 *
 * @typedef {{ id: string, priority: number, atMs: number, runMs: number, place: number }} Arrival
 * @typedef {{ name: string, everyMs: number }} Order `everyMs` Infinity: waiting earns nothing
 * @typedef {{ from: number, length: number }} Stretch
 * @typedef {{ startMs: number, endMs: number }} Run
 * @typedef {{ runs: Map<string, Run>, stretches: Stretch[] }} Replay
 * @typedef {import('../src/index.ts').JobEvent} JobEvent
 */

const FILE = 'd11-hpc2n-1000.swf'

/** Fields of a row, counted from 0; -1 stands for unknown. Times are seconds. */
const FIELD = { job: 0, submit: 1, run: 3, cpu: 5, requested: 8, user: 11 }

const HOUR_MS = 3_600_000

const options = readOptions({
  dags: fileURLToPath(new URL('../../shared/dags', import.meta.url)),
  // The log keeps four slots busy on the average: in its bursts more arrives than leaves for days.
  cap: 4,
  // A job that is 40 points behind has made up for it after ten days.
  every: 6,
})
const checks = new Checks()
const file = join(options.dags, FILE)

if (existsSync(file)) await main()
else print(`There is no file ${file}: nothing was replayed. Give another folder with --dags.`)

async function main() {
  printMachine()
  const arrivals = readArrivals()
  /** @type {Order[]} */
  const orders = [
    { name: 'strict', everyMs: Number.POSITIVE_INFINITY },
    { name: 'ageing', everyMs: options.every * HOUR_MS },
  ]
  print(`Ageing: one point for ${options.every} h waited, so that nobody is overtaken for ever.`)
  /** @type {Replay[]} */
  const replays = []
  for (const order of orders) replays.push(await replay(arrivals, order))
  printWaits(arrivals, orders, replays)
  for (const [index, order] of orders.entries()) {
    const one = /** @type {Replay} */ (replays[index])
    printQueue(arrivals, order, one)
    checkBounds(arrivals, order, one)
  }
  checks.conclude()
}

/**
 * One job of one slot per row, whatever its processors. Five levels of priority, by user.
 *
 * @returns {Arrival[]}
 */
function readArrivals() {
  const rows = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => /^\s*\d/.test(line))
    .map((line) => line.trim().split(/\s+/).map(Number))
  const field = (/** @type {number[]} */ row, /** @type {keyof typeof FIELD} */ name) =>
    row[FIELD[name]] ?? -1
  const start = Math.min(...rows.map((row) => field(row, 'submit')))
  const unknown = rows.filter((row) => field(row, 'run') < 0).length
  print(`${rows.length} rows of ${FILE} on simulated time, at their own pace; cap ${options.cap}.`)
  print(`${unknown} rows with an unknown run time run for their processor time instead.`)
  return rows.map((row, place) => {
    // A run lasts at least as long as the processor time of its average process.
    const known = ['run', 'cpu', 'requested'].map((name) => field(row, /** @type {any} */ (name)))
    const seconds = known.find((value) => value >= 0) ?? 0
    return {
      id: String(field(row, 'job')),
      priority: 10 * (1 + (Math.max(0, field(row, 'user')) % 5)),
      atMs: (field(row, 'submit') - start) * 1000,
      runMs: Math.ceil(seconds * 1000),
      place,
    }
  })
}

/**
 * Runs everything once, each job submitted at its instant, and reads the log back.
 *
 * @param {readonly Arrival[]} arrivals
 * @param {Order} order
 * @returns {Promise<Replay>}
 */
async function replay(arrivals, order) {
  const runtime = await virtualTime(1)
  const begun = runtime.now()
  const bodies = watchBodies(arrivals, order, runtime)
  const long = '365d'
  const scheduler = new AxScheduler({
    concurrency: options.cap,
    ageing: Number.isFinite(order.everyMs) ? { every: order.everyMs } : false,
    // Nobody dies here; with short leases most of the time would go into prolonging them.
    leaseMs: '1d',
    keep: { success: long, log: long },
    runtime,
  })
  scheduler.define('run', ({ job }) => bodies.run(job.id))
  await scheduler.start()
  for (const { id, priority, atMs } of arrivals) {
    runtime.after(atMs, () => void scheduler.addJob({ id, type: 'run', priority }))
  }
  await runtime.run(() => false, Math.max(...arrivals.map(({ atMs }) => atMs)))
  let over = false
  scheduler.idle().then(() => {
    over = true
  })
  await runtime.run(() => over)
  const recounted = recount(await readLog(scheduler), arrivals, order, begun)
  await compareWithStored(recounted.states, scheduler, arrivals.length, checks)
  checks.expect(bodies.most <= options.cap, () => `${bodies.most} bodies ran at once.`)
  checks.expect(
    bodies.begun.size === arrivals.length,
    () => `${bodies.begun.size} of ${arrivals.length} bodies ran.`,
  )
  const closing = scheduler.close()
  await runtime.run()
  await closing
  return recounted
}

/**
 * @param {readonly Arrival[]} arrivals
 * @param {Order} order
 * @param {import('../src/index.ts').Runtime} runtime
 */
function watchBodies(arrivals, { name }, runtime) {
  const runs = new Map(arrivals.map(({ id, runMs }) => [id, runMs]))
  let running = 0
  return {
    most: 0,
    begun: new Set(),
    /** @param {string} id */
    async run(id) {
      checks.expect(!this.begun.has(id), () => `${name}: job ${id} runs twice.`)
      this.begun.add(id)
      running += 1
      this.most = Math.max(this.most, running)
      await new Promise((resolve) => runtime.after(runs.get(id) ?? 0, () => resolve(undefined)))
      running -= 1
    },
  }
}

/**
 * Plays the log back with a queue of its own. At each start, the job that starts must be the
 * first of those that are ready: by points, then by the time they became ready, then by
 * submission.
 *
 * @param {readonly JobEvent[]} events
 * @param {readonly Arrival[]} arrivals
 * @param {Order} order
 * @param {number} begun
 */
function recount(events, arrivals, order, begun) {
  const known = new Map(arrivals.map((arrival) => [arrival.id, arrival]))
  /** @type {Map<string, Arrival>} */
  const queue = new Map()
  /** @type {Map<string, Run>} */
  const runs = new Map()
  /** @type {Stretch[]} */
  const stretches = []
  const states = follow(events, options.cap, checks, ({ job, at, from, to }) => {
    const arrival = /** @type {Arrival} */ (known.get(job))
    const now = at - begun
    if (to === 'ready') {
      const { atMs } = arrival
      checks.expect(now === atMs, () => `Job ${job} is ready at ${now} ms, it came at ${atMs} ms.`)
      queue.set(job, arrival)
    }
    if (to === 'running') {
      checkFirst(arrival, queue, order, now)
      queue.delete(job)
      runs.set(job, { startMs: now, endMs: now + arrival.runMs })
    }
    if (from === 'running') {
      const { endMs } = /** @type {Run} */ (runs.get(job))
      checks.expect(now === endMs, () => `Job ${job} ends at ${now} ms, and not at ${endMs} ms.`)
    }
    stretches.push({ from: now, length: queue.size })
  })
  return { states, runs, stretches }
}

/**
 * @param {Arrival} own
 * @param {ReadonlyMap<string, Arrival>} queue
 * @param {Order} order
 * @param {number} now
 */
function checkFirst(own, queue, order, now) {
  for (const other of queue.values()) {
    const fault = () => `${order.name}: job ${own.id} starts although ${other.id} comes before it.`
    checks.expect(other === own || comesBefore(own, other, order, now), fault)
  }
}

/**
 * Whether one job comes before another while both wait. With ageing both gain alike, so that
 * `now` makes no difference: it is here because that is how the promise is worded.
 *
 * @param {Arrival} own
 * @param {Arrival} other
 * @param {Order} order
 * @param {number} now
 */
function comesBefore(own, other, { everyMs }, now) {
  if (everyMs === Number.POSITIVE_INFINITY) {
    const order = own.priority - other.priority || other.atMs - own.atMs || other.place - own.place
    return order > 0
  }
  // Points, in milliseconds of waiting, so that they are whole numbers.
  const points = (/** @type {Arrival} */ job) => job.priority * everyMs + (now - job.atMs)
  return (points(own) - points(other) || other.place - own.place) > 0
}

/**
 * No wait may be longer than what comes before a job, worked off by all slots, and one job more:
 * while it waits every slot is busy, with work that comes before it, or with what ran already.
 * The sharper bound counts only what was left of that work when the job came.
 *
 * @param {readonly Arrival[]} arrivals
 * @param {Order} order
 * @param {Replay} replay
 */
function checkBounds(arrivals, order, { runs }) {
  const longest = Math.max(...arrivals.map(({ runMs }) => runMs))
  let least = Number.POSITIVE_INFINITY
  let sharpest = Number.POSITIVE_INFINITY
  for (const own of arrivals) {
    const waited = /** @type {Run} */ (runs.get(own.id)).startMs - own.atMs
    let all = 0
    let left = 0
    for (const other of arrivals) {
      if (other === own || !comesBefore(other, own, order, 0)) continue
      const { startMs, endMs } = /** @type {Run} */ (runs.get(other.id))
      all += other.runMs
      left += Math.max(0, endMs - Math.max(startMs, own.atMs))
    }
    const [bound, sharp] = [all / options.cap + longest, left / options.cap + longest]
    const fault = (/** @type {number} */ ms) =>
      `${order.name}: job ${own.id} waited ${waited} ms; the bound is ${ms} ms.`
    checks.expect(waited <= bound, () => fault(bound))
    checks.expect(waited <= sharp, () => fault(sharp))
    least = Math.min(least, bound - waited)
    sharpest = Math.min(sharpest, sharp - waited)
  }
  const [wide, narrow] = [least, sharpest].map((ms) => show(ms / HOUR_MS, 1))
  print(`  Every wait is within its bound, by ${wide} h at the worst;`)
  print(`  and by ${narrow} h if only work that was left when the job came is counted.`)
}

/**
 * @param {readonly Arrival[]} arrivals
 * @param {readonly Order[]} orders
 * @param {readonly Replay[]} replays
 */
function printWaits(arrivals, orders, replays) {
  const priorities = [...new Set(arrivals.map(({ priority }) => priority))].sort((a, b) => b - a)
  const shares = [
    ['p50', 0.5],
    ['p95', 0.95],
    ['max', 1],
  ]
  const head = orders.flatMap(({ name }) => shares.map(([share]) => `${name} ${share} h`))
  const rows = priorities.map((priority) => {
    const own = arrivals.filter((arrival) => arrival.priority === priority)
    const cells = replays.flatMap(({ runs }) => {
      const waits = own.map(({ id, atMs }) => (runs.get(id)?.startMs ?? Number.NaN) - atMs)
      return shares.map(([, share]) => show(percentile(waits, Number(share)) / HOUR_MS, 1))
    })
    return [String(priority), String(own.length), ...cells]
  })
  printTable(['priority', 'jobs', ...head], rows)
}

/**
 * @param {readonly Arrival[]} arrivals
 * @param {Order} order
 * @param {Replay} replay
 */
function printQueue(arrivals, { name }, { runs, stretches }) {
  const { cap } = options
  const work = arrivals.reduce((sum, { runMs }) => sum + runMs, 0)
  const arrivedMs = Math.max(...arrivals.map(({ atMs }) => atMs))
  const tookMs = Math.max(...[...runs.values()].map(({ endMs }) => endMs))
  const spells = spellsOf(stretches, cap)
  const days = (/** @type {number} */ ms) => show(ms / (24 * HOUR_MS), 1)
  const percent = (/** @type {number} */ share) => `${show(100 * share, 1)} %`
  const longest = stretches.reduce((most, { length }) => Math.max(most, length), 0)
  print(
    `${name}: ${days(work / cap)} days of work for ${cap} slots came in ${days(arrivedMs)} days`,
  )
  print(`  and were done after ${days(tookMs)}; slots in use: ${percent(work / (cap * tookMs))}.`)
  print(`  More jobs waited than there are slots for ${percent(spells.sum / tookMs)} of the time,`)
  print(`  for ${days(spells.longest)} days on end; the longest queue had ${longest} jobs.`)
}

/**
 * For how long the queue was longer than the cap: in all, and without a break.
 *
 * @param {readonly Stretch[]} stretches
 * @param {number} cap
 */
function spellsOf(stretches, cap) {
  let sum = 0
  let spell = 0
  let longest = 0
  stretches.forEach(({ from, length }, at) => {
    const ms = (stretches[at + 1]?.from ?? from) - from
    // What changes at one instant and back again has not been.
    if (length > cap) spell += ms
    else if (ms > 0) spell = 0
    sum += length > cap ? ms : 0
    longest = Math.max(longest, spell)
  })
  return { sum, longest }
}
