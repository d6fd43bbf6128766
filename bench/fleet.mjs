// Owns a fleet on paper: what calls cost one Redis server is measured here, on at most 20,000 jobs
// unless more are asked for, and what fleets need is computed from that.
// May never print a figure without saying which of the two it is.

import { REMEDY, redisServer } from '../scripts/redis-server.mjs'
import { Checks } from './lib/checks.mjs'
import {
  measureCalls,
  measureHints,
  measureJobs,
  measureLargest,
  measureWakes,
} from './lib/fleet-measure.mjs'
import { coresOf, INPUTS, restOf, shardsByMemory, shardsFor, wakeUs } from './lib/fleet-model.mjs'
import { readOptions } from './lib/options.mjs'
import { connectTo } from './lib/redis-client.mjs'
import { startServer } from './lib/redis-server.mjs'
import { print, printMachine, printTable, show } from './lib/report.mjs'

/**
 * @typedef {Awaited<ReturnType<typeof measureAll>>} Measured
 * @typedef {{ workers: number, idle: number, rates: readonly number[] }} Fleet
 */

const program = redisServer()
if (program === undefined) {
  print(`There is no redis-server here, so nothing was measured: ${REMEDY}.`)
  process.exitCode = 1
} else await main(program)

/** @param {string} program */
async function main(program) {
  const options = readOptions({
    jobs: 20_000,
    workers: 10_000,
    rates: /** @type {readonly number[]} */ ([100_000, 1_000_000]),
    held: 10,
    idle: 20,
    listeners: 200,
  })
  printMachine()
  const checks = new Checks()
  const url = await startServer(program)
  const control = await connectTo(url)
  const measured = await measureAll(url, control, options, checks)
  printMeasured(measured, options)
  printRest(measured, options)
  printWakes(measured, options)
  printShards(measured, options)
  control.disconnect()
  checks.conclude()
  // The server ends with this process.
  process.stdout.write('', () => process.exit())
}

/**
 * @param {string} url
 * @param {any} control
 * @param {import('./lib/fleet-measure.mjs').Sizes} sizes
 * @param {Checks} checks
 */
async function measureAll(url, control, sizes, checks) {
  const version = /redis_version:(\S+)/.exec(await control.info('server'))?.[1]
  const ways = await measureJobs(url, control, sizes)
  const largest = await measureLargest(url, control, sizes)
  const calls = await measureCalls(url, control, sizes)
  const hints = await measureHints(url, control, sizes)
  const wakes = await measureWakes(url, control, sizes)
  for (const { how, count, ran, succeeded } of ways) {
    const holds = ran === count && succeeded === count
    checks.expect(holds, () => `Of ${count} jobs, ${how}, ${ran} ran and ${succeeded} succeeded.`)
  }
  checks.expect(calls.known === sizes.workers, () => `The store knew ${calls.known} workers.`)
  checks.expect(calls.leases === sizes.held, () => `${calls.leases} jobs were leased.`)
  checks.expect(hints.arrived === hints.sent, () => `Each listener heard ${hints.arrived} hints.`)
  checks.expect(wakes.ran === wakes.COUNT, () => `The fleet that waited ran ${wakes.ran} jobs.`)
  return { version, ways, largest, ...calls, hints, wakes }
}

/**
 * @param {Measured} measured
 * @param {import('./lib/fleet-measure.mjs').Sizes} sizes
 */
function printMeasured({ version, ways, largest, costs, hints, wakes }, sizes) {
  print(`\nMeasured: processor time of one Redis ${version} that writes nothing to the disk`)
  const { workers, held, listeners, idle } = sizes
  /** @type {readonly [string, string, string][]} */
  const rows = [
    ...ways.map(({ how, us, count, slots }) => {
      return /** @type {[string, string, string]} */ ([
        `a job, ${how}`,
        show(us, 1),
        `added and run, on ${slots} slots; ${show(count)} of them`,
      ])
    }),
    ['a large call', show(largest.us), `one that adds ${show(largest.count)} jobs`],
    ['lease', show(costs.lease, 1), 'nothing is ready'],
    ['overdue', show(costs.overdue, 1), 'nothing is'],
    ['time', show(costs.time, 1), ''],
    ['beat', show(costs.beat, 1), `${show(workers)} workers are known`],
    ['extend', show(costs.extend, 1), 'of a worker that holds nothing'],
    ['extend, holding', show(costs.extendHeld, 1), `of one that holds ${held}`],
    ['a hint', show(hints.us, 2), `for each of ${listeners} who listen`],
    ['a job, waited for', show(wakes.us, 1), `by ${idle} workers: ${show(wakes.calls, 1)} calls`],
  ]
  printTable(['what', 'us', 'how'], rows)
  const [most] = ways
  const bytes = [most?.queuedBytes, most?.endedBytes].map((each) => show(each ?? Number.NaN))
  print(`memory, with 200 bytes of payload: ${bytes[0]} B a queued job, ${bytes[1]} B an ended one`)
  const rates = ways.map(({ us }) => show(1e6 / us)).join(', ')
  print(`so a server, one core in full use, carries ${rates} jobs a second`)
}

/**
 * @param {Measured} measured
 * @param {Fleet} fleet
 */
function printRest({ costs, wakes }, { workers, idle }) {
  const { leaseMs, pollMs } = INPUTS
  print(`\nComputed: ${show(workers)} workers on one server while nothing happens`)
  print(`inputs: leaseMs ${show(leaseMs)}, a heartbeat every third of it; a poll each ${pollMs} ms`)
  const rows = restOf(workers, costs, INPUTS)
  printTable(
    ['call', 'per second', 'us', 'cores'],
    rows.map(({ what, calls, us, cores }) => [what, show(calls), show(us, 1), show(cores, 2)]),
  )
  print(`together ${show(coresOf(rows), 2)} cores; a server has one for this`)
  const own = restOf(idle, costs, INPUTS).reduce((sum, { calls }) => sum + calls, 0)
  const [seen, should] = [show(wakes.perSecond), show(own)]
  print(`of ${idle} workers: ${seen} calls a second measured, ${should} computed`)
}

/**
 * @param {Measured} measured
 * @param {Fleet} fleet
 */
function printWakes({ ways, costs, hints, wakes }, { workers, idle }) {
  print('\nComputed: one hint, when all workers of a server have room and ask')
  const sizes = [...new Set([10, 100, 1_000, workers])]
  const rows = sizes.map((size) => {
    const us = wakeUs(size, hints.us, costs)
    return [show(size), show(us / 1_000, 1), show((INPUTS.busy * 1e6) / us)]
  })
  printTable(['workers', 'ms of the server', 'hints a second that it bears'], rows)
  // It is hinted at when it is ready, and when it has ended.
  const own = (ways.at(-1)?.us ?? Number.NaN) + 2 * wakeUs(idle, hints.us, costs)
  print(`a job has two, so where ${idle} wait it takes ${show(own)} us; measured ${show(wakes.us)}`)
}

/**
 * @param {Measured} measured
 * @param {Fleet} fleet
 */
function printShards({ ways, costs }, { rates }) {
  const { busy, ratePerWorker, keepMs, memoryGb, mostConnections } = INPUTS
  print('\nComputed: servers for so many jobs a second')
  print(`inputs: each busy to ${100 * busy} %; a worker runs ${ratePerWorker} jobs a second`)
  const rows = rates.flatMap((rate) =>
    ways.map(({ how, us }) => {
      const { workers, cores, shards, rest } = shardsFor(rate, us, costs, INPUTS)
      const figures = [show(workers), show(cores, 1), show(rest, 2), show(shards)]
      return [show(rate), how, ...figures, show(workers / shards)]
    }),
  )
  printTable(['jobs/s', 'jobs go', 'workers', 'cores', 'rest', 'servers', 'workers each'], rows)
  print('rest: the part of the cores that polls and heartbeats take')
  print(`a server takes ${show(mostConnections)} connections (maxclients), and a worker has two`)
  print(`\nComputed: memory of jobs that have succeeded, in servers of ${memoryGb} GB`)
  const endedBytes = ways[0]?.endedBytes ?? Number.NaN
  const kept = rates.flatMap((rate) =>
    [keepMs, 60_000].map((ms) => {
      const { gb, shards } = shardsByMemory(rate, endedBytes, INPUTS, ms)
      return [show(rate), `${show(ms / 1_000)} s`, show(gb), show(shards)]
    }),
  )
  printTable(['jobs/s', 'kept for', 'GB', 'servers'], kept)
}
