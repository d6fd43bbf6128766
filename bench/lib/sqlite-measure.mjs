// Owns one measurement of the comparison on one SQLite file, in a process of its own.
// May never count a job as done that was not delivered exactly once.

import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { watched } from './fresh.mjs'
import {
  addAtOnce,
  addInBulk,
  addOneByOne,
  measureAdds,
  measureCycle,
  measureDrain,
  measureIdle,
  pauses,
  payloadOf,
  stageOf,
  verdict,
} from './queue-measure.mjs'
import { CONTENDERS } from './sqlite-contenders.mjs'

/**
 * @typedef {'bulk' | 'single' | 'concurrent' | 'drain' | 'cycle' | 'idle' | 'across'} Measure
 * @typedef {{
 *   measure: Measure, contender: string, sync: import('./sqlite-driver.mjs').Sync, jobs: number,
 * }} Task
 *
 * What the other process of `across` is told.
 *
 * @typedef {Omit<Task, 'measure'> & { measure: 'submit', file: string }} Submit
 */

/**
 * @param {Task | Submit} task
 * @returns {Promise<Record<string, number>>}
 */
export async function measureOne(task) {
  if (task.measure === 'submit') return await submit(task)
  const folder = mkdtempSync(join(tmpdir(), 'ax-bench-sqlite-'))
  // However this process ends: what a peer throws in a loop of its own nobody can catch.
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'bench.db')
  const { measure, contender: name, sync, jobs } = task
  const stage = await stageOf(jobs, (body) => contender(name).open(file, { sync, body }))
  if (measure === 'across') return await measureAcross(task, file, stage)
  return await WAYS[measure](stage, jobs, watched)
}

/** @type {Record<Exclude<Measure, 'across'>, import('./queue-measure.mjs').Way>} */
const WAYS = {
  bulk: measureAdds(addInBulk),
  single: measureAdds(addOneByOne),
  concurrent: measureAdds(addAtOnce),
  drain: measureDrain,
  cycle: measureCycle,
  idle: measureIdle,
}

/** @param {string} name */
function contender(name) {
  const found = CONTENDERS[name]
  if (found === undefined) throw new Error(`There is no contender '${name}'.`)
  return found
}

/**
 * As `idle`, where another process adds the jobs: this one runs them, and tells the other each
 * time.
 *
 * @param {Task} task
 * @param {string} file
 * @param {import('./queue-measure.mjs').Stage} stage
 */
async function measureAcross(task, file, stage) {
  const { opened, done } = stage
  await opened.start()
  /** @type {Submit} */
  const order = { ...task, measure: 'submit', file }
  const other = fork(process.argv[1] ?? '', ['--measure', JSON.stringify(order)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  /** @type {Promise<number | null>} */
  const exit = new Promise((resolve, reject) => {
    other.on('error', reject)
    other.on('exit', resolve)
  })
  const over = exit.then((code) => {
    if (code !== 0) throw new Error(`The process that submits ended with code ${code}.`)
  })
  await Promise.race([over, new Promise((resolve) => other.once('message', resolve))])
  const figures = await watched(async () => {
    const proceed = () => other.send('next', () => {})
    done.afterEach(proceed)
    proceed()
    await Promise.race([done.all, over.then(() => done.all)])
    await opened.ended()
  })
  await over
  return { ...figures, ...done.waited(), ...(await verdict(stage)) }
}

/**
 * The other process: adds one job whenever it is told that the last one has started.
 *
 * @param {Submit} task
 */
async function submit({ contender: name, sync, jobs, file }) {
  const opened = await contender(name).open(file, { sync })
  const pause = pauses()
  let told = 0
  let wake = () => {}
  process.on('message', () => {
    told += 1
    wake()
  })
  process.send?.('ready')
  for (let at = 0; at < jobs; at += 1) {
    while (told <= at) {
      await new Promise((resolve) => {
        wake = () => resolve(undefined)
      })
    }
    await pause()
    await opened.add(payloadOf(at))
  }
  await opened.close()
  process.disconnect()
  return { added: jobs }
}
