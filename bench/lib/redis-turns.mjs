// Owns what the comparison on one Redis server tells the shared one: its contenders, its floor,
// and the columns about the server. May never judge a figure itself.

import { Comparison } from './queue-turns.mjs'
import { absence, CONTENDERS } from './redis-contenders.mjs'
import { show } from './report.mjs'

/** @typedef {import('./queue-turns.mjs').Result} Result */

export const comparison = new Comparison({
  contenders: CONTENDERS,
  floor: 'lua',
  absence,
  labelOf: ({ contender }) => contender,
})

/**
 * Microseconds of the server per job.
 *
 * @param {Result} result
 */
export function serverUs({ of, turn }) {
  return (1000 * of('serverMs')) / turn.jobs
}

/** @type {readonly import('./queue-turns.mjs').Column[]} */
export const SERVER = [
  { head: 'redis us/job', of: (result) => show(serverUs(result), 1) },
  { head: 'cmds/job', of: ({ of, turn }) => show(of('commands') / turn.jobs, 1) },
]

/** @type {import('./queue-turns.mjs').Column} */
export const MEMORY = { head: 'redis B/job', of: ({ of, turn }) => show(of('bytes') / turn.jobs) }
