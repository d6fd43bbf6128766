// Owns the cells of the comparison on one Redis server: who takes part, and the targets.
// May never hold ax's figures against those of another run.

import { find, judgeLimit, ownOf } from './queue-turns.mjs'
import { comparison, MEMORY, SERVER, serverUs } from './redis-turns.mjs'
import { printTable, show } from './report.mjs'

/**
 * @typedef {import('./queue-turns.mjs').Trial & { url: string }} Trial
 * @typedef {import('./queue-turns.mjs').Result} Result
 * @typedef {import('./redis-measure.mjs').Measure} Measure
 */

const ALL = ['ax', 'bullmq', 'bee-queue', 'lua']
/** Where each job waits for an answer of its own, fewer will do. */
const SLOW_SHARE = 0.1
const SLOTS = 100

/** @type {Record<string, { about: string, run: (trial: Trial) => Promise<void> }>} */
export const CELLS = {
  single: { about: 'added one by one, each awaited', run: single },
  concurrent: { about: 'a thousand single adds at once', run: concurrent },
  bulk: { about: 'added by the thousand, four thousands on their way', run: bulk },
  'drain-1': { about: 'run one at a time', run: (trial) => drained(trial, 1, SLOW_SHARE) },
  'drain-10': { about: 'run ten at a time', run: (trial) => drained(trial, 10, 0.5) },
  drain: { about: 'run a hundred at a time', run: drain },
  cycle: { about: 'added by the thousand while a hundred at a time run', run: cycle },
  idle: { about: 'from the call to the start in one process that rests', run: idle },
}

/**
 * @param {Trial} trial
 * @param {Measure} measure
 * @param {number} concurrency
 * @param {number} jobs
 */
async function measured(trial, measure, concurrency, jobs) {
  const { url } = trial
  const turns = ALL.map((contender) => ({ contender, measure, concurrency, jobs, url }))
  return await comparison.takeTurns(trial, turns)
}

/** @param {Trial} trial */
async function single(trial) {
  const results = await measured(trial, 'single', SLOTS, trial.jobs * SLOW_SHARE)
  comparison.printRates(results, SERVER)
}

/** @param {Trial} trial */
async function concurrent(trial) {
  comparison.printRates(await measured(trial, 'concurrent', SLOTS, trial.jobs), SERVER)
}

/** @param {Trial} trial */
async function bulk(trial) {
  const results = await measured(trial, 'bulk', SLOTS, trial.jobs)
  comparison.printRates(results, [...SERVER, MEMORY])
  comparison.judgePeer(results, 'bee-queue', 1.8)
  comparison.judgePeer(results, 'bullmq', 6.5)
  comparison.judgeFloor(results, 0.6)
}

/**
 * @param {Trial} trial
 * @param {number} concurrency
 * @param {number} share
 */
async function drained(trial, concurrency, share) {
  comparison.printRates(await measured(trial, 'drain', concurrency, trial.jobs * share), SERVER)
}

/** @param {Trial} trial */
async function drain(trial) {
  const results = await measured(trial, 'drain', SLOTS, trial.jobs)
  comparison.printRates(results, SERVER)
  comparison.judgePeer(results, 'bee-queue', 4)
  comparison.judgePeer(results, 'bullmq', 5)
  comparison.judgeFloor(results, 0.38)
  judgeServer(results)
}

/** @param {Trial} trial */
async function cycle(trial) {
  const results = await measured(trial, 'cycle', SLOTS, trial.jobs)
  comparison.printRates(results, SERVER)
  comparison.judgePeer(results, 'bee-queue', 4)
  comparison.judgePeer(results, 'bullmq', 6)
  comparison.judgeFloor(results, 0.4)
  judgeServer(results)
}

/**
 * What the server spends on a job of ax, as a share of what it spends on one of bee-queue.
 *
 * @param {readonly Result[]} results
 */
function judgeServer(results) {
  const [own, peer] = [ownOf(results), find(results, 'bee-queue')]
  if (own === undefined || peer === undefined) return
  const figure = serverUs(own) / serverUs(peer)
  const what = `ax beside bee-queue, ${own.turn.measure}, CPU of the server`
  judgeLimit(what, { figure, limit: 0.25, decimals: 2, unit: ' x' })
}

/** @param {Trial} trial */
async function idle(trial) {
  const results = await measured(trial, 'idle', 1, trial.starts)
  const rows = results.map((result) => {
    const { label, turn, times, p50, p99, cpuUs } = result
    const more = [show(p50, 3), show(p99, 3), show(cpuUs), ...SERVER.map(({ of }) => of(result))]
    return [label, show(turn.jobs), show(times), ...more]
  })
  const head = ['contender', 'jobs', 'runs', 'p50 ms', 'p99 ms', 'cpu us/job']
  printTable([...head, ...SERVER.map((column) => column.head)], rows)
  const [own, peer] = [ownOf(results), find(results, 'bee-queue')]
  if (own === undefined || peer === undefined) return
  const what = 'ax beside bee-queue, idle'
  const rest = { decimals: 2, unit: ' x' }
  judgeLimit(`${what}, p50`, { figure: own.p50 / peer.p50, limit: 1, ...rest })
  judgeLimit(`${what}, p99`, { figure: own.p99 / peer.p99, limit: 2, ...rest })
}
