// Owns the cells of the comparison on one SQLite file: who takes part, and the targets.
// May never hold ax's figures against those of another run.

import { find, judgeLimit } from './queue-turns.mjs'
import { print, printTable, show } from './report.mjs'
import { comparison } from './sqlite-turns.mjs'

/**
 * @typedef {import('./queue-turns.mjs').Trial} Trial
 * @typedef {import('./sqlite-measure.mjs').Task} Turn
 */

const PEERS = ['plainjob', 'better-queue', 'liteque']
/** Where each job waits for a commit of its own, or even for the disk, fewer will do. */
const SLOW_SHARE = 0.25
/** A peer that polls keeps each job waiting for as long as it polls, whatever the machine. */
const POLLED_SHARE = 1 / 30

/** @type {Record<string, { about: string, run: (trial: Trial) => Promise<void> }>} */
export const CELLS = {
  bulk: { about: 'added by the thousand, NORMAL', run: bulk },
  single: { about: 'added one by one, each awaited, NORMAL', run: single },
  concurrent: { about: 'a thousand single adds at once, FULL', run: concurrent },
  drain: { about: 'run a hundred at a time, NORMAL', run: drain },
  cycle: { about: 'added by the thousand while they run, NORMAL', run: cycleNormal },
  'cycle-full': { about: 'added by the thousand while they run, FULL', run: cycleFull },
  idle: { about: 'from the call to the start in one process that rests', run: idle },
  across: { about: 'one process adds, another that rests runs', run: across },
}

/**
 * @param {readonly string[]} contenders
 * @param {Omit<Turn, 'contender'>} rest
 * @returns {Turn[]}
 */
function turns(contenders, rest) {
  return contenders.map((contender) => ({ contender, ...rest }))
}

/** @param {Trial} trial */
async function bulk(trial) {
  const contenders = ['ax', 'plainjob', 'better-queue', 'rows']
  const shape = /** @type {const} */ ({ measure: 'bulk', sync: 'normal' })
  comparison.printRates(
    await comparison.takeTurns(trial, turns(contenders, { ...shape, jobs: trial.jobs })),
  )
}

/** @param {Trial} trial */
async function single(trial) {
  const shape = /** @type {const} */ ({ measure: 'single', sync: 'normal' })
  const jobs = trial.jobs * SLOW_SHARE
  comparison.printRates(
    await comparison.takeTurns(trial, turns(['ax', ...PEERS, 'rows'], { ...shape, jobs })),
  )
}

/** @param {Trial} trial */
async function concurrent(trial) {
  const { jobs } = trial
  const results = await comparison.takeTurns(trial, [
    { contender: 'ax', measure: 'concurrent', sync: 'full', jobs },
    { contender: 'plainjob', measure: 'single', sync: 'normal', jobs },
    { contender: 'plainjob', measure: 'single', sync: 'full', jobs: jobs * SLOW_SHARE },
    { contender: 'rows', measure: 'bulk', sync: 'full', jobs },
  ])
  comparison.printRates(results)
  comparison.judgePeer(results, 'plainjob NORMAL', 4)
  comparison.judgeFloor(results, 0.7)
}

/** @param {Trial} trial */
async function drain(trial) {
  const shape = /** @type {const} */ ({ measure: 'drain', sync: 'normal' })
  const all = turns(['ax', ...PEERS, 'rows'], { ...shape, jobs: trial.jobs })
  const results = await comparison.takeTurns(trial, all)
  comparison.printRates(results)
  comparison.judgePeer(results, 'plainjob NORMAL', 8)
  comparison.judgeFloor(results, 0.45)
}

/** @param {Trial} trial */
async function cycleNormal(trial) {
  const shape = /** @type {const} */ ({ measure: 'cycle', sync: 'normal' })
  const all = turns(['ax', ...PEERS, 'rows'], { ...shape, jobs: trial.jobs })
  const results = await comparison.takeTurns(trial, all)
  comparison.printRates(results)
  comparison.judgePeer(results, 'plainjob NORMAL', 6)
  comparison.judgeFloor(results, 0.5)
}

/** @param {Trial} trial */
async function cycleFull(trial) {
  const shape = /** @type {const} */ ({ measure: 'cycle', sync: 'full' })
  const { jobs } = trial
  const results = await comparison.takeTurns(trial, [
    ...turns(['ax', 'rows'], { ...shape, jobs }),
    ...turns(['plainjob'], { ...shape, jobs: jobs * SLOW_SHARE }),
  ])
  comparison.printRates(results)
  comparison.judgePeer(results, 'plainjob FULL', 5)
  comparison.judgeFloor(results, 0.5)
}

/** @param {Trial} trial */
async function idle(trial) {
  await starts(
    trial,
    'idle',
    { polled: ['plainjob', 'liteque'], others: ['better-queue', 'rows'] },
    1,
  )
}

/**
 * better-queue looks at its own memory only: jobs of other processes do not reach it.
 *
 * @param {Trial} trial
 */
async function across(trial) {
  await starts(trial, 'across', { polled: ['plainjob', 'liteque'], others: [] }, 25)
}

/**
 * @param {Trial} trial
 * @param {'idle' | 'across'} measure
 * @param {{ polled: readonly string[], others: readonly string[] }} peers
 * @param {number} most milliseconds
 */
async function starts(trial, measure, { polled, others }, most) {
  const shape = /** @type {const} */ ({ measure, sync: 'normal' })
  const few = Math.max(2, Math.round(trial.starts * POLLED_SHARE))
  const results = await comparison.takeTurns({ ...trial, isSame: true }, [
    ...turns(['ax', ...others], { ...shape, jobs: trial.starts }),
    ...turns(polled, { ...shape, jobs: few }),
  ])
  const rows = results.map(({ label, turn, times, p50, p99, cpuUs }) => {
    return [label, show(turn.jobs), show(times), show(p50, 3), show(p99, 3), show(cpuUs)]
  })
  printTable(['contender', 'jobs', 'runs', 'p50 ms', 'p99 ms', 'cpu us/job'], rows)
  const own = find(results, 'ax NORMAL')
  if (own === undefined) return
  judgeLimit(`ax, ${measure}, p99`, { figure: own.p99, limit: most, decimals: 3, unit: ' ms' })
  if (measure === 'across') print('Processor time is that of the process that runs the jobs.')
}
