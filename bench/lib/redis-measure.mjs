// Owns one measurement of the comparison on one Redis server, in a process of its own.
// May never measure on a server that holds anything from before.

import { watched } from './fresh.mjs'
import {
  addAtOnce,
  addInBulk,
  addOneByOne,
  measureAdds,
  measureCycle,
  measureDrain,
  measureIdle,
  stageOf,
} from './queue-measure.mjs'
import { connectTo } from './redis-client.mjs'
import { CONTENDERS } from './redis-contenders.mjs'
import { workOf } from './redis-server.mjs'

/**
 * @typedef {'single' | 'concurrent' | 'bulk' | 'drain' | 'cycle' | 'idle'} Measure
 * @typedef {{
 *   measure: Measure, contender: string, concurrency: number, jobs: number, url: string,
 * }} Task
 */

/** So many thousands are under way at once where jobs come in bulk: the server never rests. */
const FLIGHT = 4

/** @type {Record<Measure, import('./queue-measure.mjs').Way>} */
const WAYS = {
  single: measureAdds(addOneByOne),
  concurrent: measureAdds(addAtOnce),
  bulk: measureAdds((opened, jobs) => addInBulk(opened, jobs, FLIGHT)),
  drain: measureDrain,
  cycle: measureCycle,
  idle: measureIdle,
}

/**
 * @param {Task} task
 * @returns {Promise<Record<string, number>>}
 */
export async function measureOne({ measure, contender: name, concurrency, jobs, url }) {
  const contender = CONTENDERS[name]
  if (contender === undefined) throw new Error(`There is no contender '${name}'.`)
  const control = await connectTo(url)
  await control.flushall()
  const stage = await stageOf(jobs, (body) => contender.open(url, { concurrency, body }))
  const figures = await WAYS[measure](stage, jobs, (act) => withServer(control, act))
  control.disconnect()
  return figures
}

/**
 * Beside what this process did, what the server did meanwhile.
 *
 * @param {any} control
 * @param {() => Promise<void>} act
 */
async function withServer(control, act) {
  const before = await workOf(control)
  const figures = await watched(act)
  const after = await workOf(control)
  return {
    ...figures,
    serverMs: after.cpuMs - before.cpuMs,
    commands: after.commands - before.commands,
    bytes: after.bytes - before.bytes,
  }
}
