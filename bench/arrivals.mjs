// Owns the replay of a real cluster's log of arrivals: who waits, and whether the order is right.
// May never use the scheduler's own arithmetic of ranks: the order is counted again from the log.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AxScheduler } from './lib/ax.mjs'
import { Checks } from './lib/checks.mjs'
import { compareWithStored, follow, readLog } from './lib/history.mjs'
import { percentile } from './lib/numbers.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine, printTable, show } from './lib/report.mjs'
import { sleepUntil } from './lib/sleep.mjs'

/**
 * `atMs` counts from the first arrival; both times are scaled.
 *
 * @typedef {{ id: string, priority: number, atMs: number, runMs: number }} Arrival
 * @typedef {{ priority: number, readyAt: number, place: number }} Waiting
 * @typedef {{ from: number, length: number }} Stretch
 * @typedef {import('../src/index.ts').JobEvent} JobEvent
 */

const FILE = 'd11-hpc2n-1000.swf'

/** Fields of a row, counted from 0; -1 stands for unknown. Times are seconds. */
const FIELD = { job: 0, submit: 1, run: 3, cpu: 5, requested: 8, user: 11 }

const options = readOptions({
  dags: fileURLToPath(new URL('../../shared/dags', import.meta.url)),
  // The log's two months take some 25 seconds.
  scale: 100_000,
  // The log keeps four slots busy on the average: eight are too few in its bursts only.
  cap: 8,
})
const checks = new Checks()
const file = join(options.dags, FILE)

if (existsSync(file)) await main()
else print(`There is no file ${file}: nothing was replayed. Give another folder with --dags.`)

async function main() {
  printMachine()
  const arrivals = readArrivals()
  const bodies = watchBodies(arrivals)
  const scheduler = new AxScheduler({ concurrency: options.cap })
  scheduler.define('run', ({ job }) => bodies.run(job.id))
  await scheduler.start()
  const lateness = await submitAll(scheduler, arrivals)
  await scheduler.idle()
  const events = await readLog(scheduler)
  const replay = recount(events, arrivals)
  await compareWithStored(replay.states, scheduler, arrivals.length, checks)
  checks.expect(bodies.most <= options.cap, () => `${bodies.most} bodies ran at once.`)
  checks.expect(
    bodies.begun.size === arrivals.length,
    () => `${bodies.begun.size} of ${arrivals.length} bodies ran.`,
  )
  await scheduler.close()
  printWaits(arrivals, replay.waits)
  printQueue(arrivals, replay, lateness)
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
  print(`${rows.length} rows of ${FILE}, ${options.scale} times as fast, cap ${options.cap}.`)
  print(`${unknown} rows with an unknown run time run for their processor time instead.`)
  return rows.map((row) => {
    // A run lasts at least as long as the processor time of its average process.
    const known = ['run', 'cpu', 'requested'].map((name) => field(row, /** @type {any} */ (name)))
    const seconds = known.find((value) => value >= 0) ?? 0
    return {
      id: String(field(row, 'job')),
      priority: 10 * (1 + (Math.max(0, field(row, 'user')) % 5)),
      atMs: ((field(row, 'submit') - start) * 1000) / options.scale,
      runMs: Math.ceil((seconds * 1000) / options.scale),
    }
  })
}

/** @param {readonly Arrival[]} arrivals */
function watchBodies(arrivals) {
  const runs = new Map(arrivals.map(({ id, runMs }) => [id, runMs]))
  let running = 0
  return {
    most: 0,
    begun: new Set(),
    /** @param {string} id */
    async run(id) {
      checks.expect(!this.begun.has(id), () => `Job ${id} runs twice.`)
      this.begun.add(id)
      running += 1
      this.most = Math.max(this.most, running)
      await sleepUntil(performance.now() + (runs.get(id) ?? 0))
      running -= 1
    },
  }
}

/**
 * Submits every job at its time, without waiting for the one before to be stored. Gives how late
 * each submission was, in ms: a busy machine shows here first.
 *
 * @param {InstanceType<typeof AxScheduler>} scheduler
 * @param {readonly Arrival[]} arrivals
 */
async function submitAll(scheduler, arrivals) {
  const start = performance.now()
  /** @type {number[]} */
  const lateness = []
  /** @type {Promise<unknown>[]} */
  const adding = []
  for (const { id, priority, atMs } of arrivals) {
    if (performance.now() < start + atMs) await sleepUntil(start + atMs)
    lateness.push(performance.now() - start - atMs)
    adding.push(scheduler.addJob({ id, type: 'run', priority }))
  }
  await Promise.all(adding)
  return lateness
}

/**
 * Plays the log back with a queue of its own. At each start, the job that starts must be the
 * first of those that are ready: by priority, then by the time they became ready, then by
 * submission.
 *
 * @param {readonly JobEvent[]} events
 * @param {readonly Arrival[]} arrivals
 */
function recount(events, arrivals) {
  const priorities = new Map(arrivals.map(({ id, priority }) => [id, priority]))
  /** @type {Map<string, Waiting>} */
  const queue = new Map()
  /** @type {Map<string, number>} */
  const waits = new Map()
  /** @type {Stretch[]} */
  const stretches = []
  let place = 0
  let busyMs = 0
  const startedAt = new Map()
  const states = follow(events, options.cap, checks, ({ job, at, from, to }) => {
    if (from === null) place += 1
    if (to === 'ready') {
      queue.set(job, { priority: priorities.get(job) ?? Number.NaN, readyAt: at, place })
    }
    if (to === 'running') {
      const own = queue.get(job)
      if (own !== undefined) checkFirst(job, own, queue)
      queue.delete(job)
      waits.set(job, at - (own?.readyAt ?? Number.NaN))
      startedAt.set(job, at)
    }
    if (from === 'running') busyMs += at - startedAt.get(job)
    stretches.push({ from: at, length: queue.size })
  })
  return { states, waits, stretches, busyMs }
}

/**
 * @param {string} id
 * @param {Waiting} own
 * @param {ReadonlyMap<string, Waiting>} queue
 */
function checkFirst(id, own, queue) {
  for (const [other, waiting] of queue) {
    const order =
      own.priority - waiting.priority || waiting.readyAt - own.readyAt || waiting.place - own.place
    checks.expect(order >= 0, () => `Job ${id} starts although ${other} comes before it.`)
  }
}

/**
 * @param {readonly Arrival[]} arrivals
 * @param {ReadonlyMap<string, number>} waits
 */
function printWaits(arrivals, waits) {
  const priorities = [...new Set(arrivals.map(({ priority }) => priority))].sort((a, b) => b - a)
  const rows = priorities.map((priority) => {
    const own = arrivals.filter((arrival) => arrival.priority === priority)
    const values = own.map(({ id }) => waits.get(id) ?? Number.NaN)
    const shares = [0.5, 0.95, 1].map((share) => show(percentile(values, share)))
    const waited = values.filter((ms) => ms > 1).length
    return [String(priority), String(own.length), String(waited), ...shares]
  })
  printTable(['priority', 'jobs', 'waited', 'p50 ms', 'p95 ms', 'max ms'], rows)
}

/**
 * @param {readonly Arrival[]} arrivals
 * @param {ReturnType<typeof recount>} replay
 * @param {readonly number[]} lateness
 */
function printQueue(arrivals, { stretches, busyMs }, lateness) {
  const { cap } = options
  const first = stretches[0]?.from ?? 0
  const spanMs = (stretches.at(-1)?.from ?? 0) - first
  const work = arrivals.reduce((sum, { runMs }) => sum + runMs, 0)
  let longMs = 0
  stretches.forEach(({ from, length }, at) => {
    const until = stretches[at + 1]?.from ?? from
    if (length > cap) longMs += until - from
  })
  const longest = stretches.reduce((most, { length }) => Math.max(most, length), 0)
  const percent = (/** @type {number} */ share) => `${show(100 * share, 1)} %`
  print(`The replay took ${show(spanMs / 1000, 1)} s for ${show(work / 1000, 1)} s of work.`)
  print(`Slots in use: ${percent(busyMs / (cap * spanMs))} of the time.`)
  print(`The queue was longer than the cap for ${percent(longMs / spanMs)} of the time.`)
  print(`Longest queue: ${longest} jobs.`)
  const [p50, p99] = [0.5, 0.99].map((share) => show(percentile(lateness, share), 1))
  print(`Submissions came late by ${p50} ms (p50) and ${p99} ms (p99).`)
}
