// Owns one measurement of the comparison on one SQLite file, in a process of its own.
// May never count a job as done that was not delivered exactly once.

import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { watched } from './fresh.mjs'
import { percentile, seeded } from './numbers.mjs'
import { CONTENDERS } from './sqlite-contenders.mjs'

/**
 * @typedef {import('./sqlite-contenders.mjs').Payload} Payload
 * @typedef {'bulk' | 'single' | 'concurrent' | 'drain' | 'cycle' | 'idle' | 'across'} Measure
 * @typedef {{
 *   measure: Measure, contender: string, sync: import('./sqlite-driver.mjs').Sync, jobs: number,
 * }} Task
 *
 * What the other process of `across` is told.
 *
 * @typedef {Omit<Task, 'measure'> & { measure: 'submit', file: string }} Submit
 */

const BATCH = 1_000
const TEXT = 'x'.repeat(170)
/** Between one job and the next, where starts from rest are measured. */
const PAUSE_MS = { least: 5, most: 45 }

/**
 * @param {Task | Submit} task
 * @returns {Promise<Record<string, number>>}
 */
export async function measureOne(task) {
  if (task.measure === 'submit') return await submit(task)
  const folder = mkdtempSync(join(tmpdir(), 'ax-bench-sqlite-'))
  // However this process ends: what a peer throws in a loop of its own nobody can catch.
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  return await WAYS[task.measure](task, join(folder, 'bench.db'))
}

/** @type {Record<Measure, (task: Task, file: string) => Promise<Record<string, number>>>} */
const WAYS = {
  bulk: (task, file) => measureAdds(task, file, addInBulk),
  single: (task, file) => measureAdds(task, file, addOneByOne),
  concurrent: (task, file) => measureAdds(task, file, addAtOnce),
  drain: measureDrain,
  cycle: measureCycle,
  idle: measureIdle,
  across: measureAcross,
}

/** @param {string} name */
function contender(name) {
  const found = CONTENDERS[name]
  if (found === undefined) throw new Error(`There is no contender '${name}'.`)
  return found
}

/**
 * @param {number} at
 * @returns {Payload}
 */
function payloadOf(at) {
  return { at, sent: clock(), text: TEXT }
}

/** Milliseconds that all processes of the machine count alike. */
function clock() {
  return Number(process.hrtime.bigint()) / 1e6
}

/**
 * Who has run, and how often.
 *
 * @param {number} jobs
 */
function deliveries(jobs) {
  const seen = new Uint8Array(jobs)
  const waits = new Float64Array(jobs)
  let runs = 0
  let next = () => {}
  /** @type {() => void} */
  let end = () => {}
  const all = new Promise((resolve) => {
    end = () => resolve(undefined)
  })
  return {
    all,
    /** @param {Payload} payload */
    body: async ({ at, sent }) => {
      waits[at] = clock() - sent
      seen[at] = (seen[at] ?? 0) + 1
      runs += 1
      next()
      if (runs === jobs) end()
    },
    /** @param {() => void} act */
    afterEach: (act) => {
      next = act
    },
    ran: () => seen.filter((times) => times === 1).length,
    wrong: () => Math.abs(runs - jobs) + seen.filter((times) => times !== 1).length,
    /** The first tenth does not count: it measures the compiler. */
    waited: () => {
      const counted = [...waits.subarray(Math.floor(jobs / 10))]
      return { p50: percentile(counted, 0.5), p99: percentile(counted, 0.99) }
    },
  }
}

/**
 * @param {Task} task
 * @param {string} file
 */
async function open({ contender: name, sync, jobs }, file) {
  const done = deliveries(jobs)
  return { opened: await contender(name).open(file, { sync, body: done.body }), done }
}

/**
 * @typedef {Awaited<ReturnType<typeof open>>} Stage
 * @typedef {import('./sqlite-contenders.mjs').Opened} Opened
 */

/**
 * All that were added have run, once each, and the file knows it.
 *
 * @param {Stage} stage
 */
async function verdict({ opened, done }) {
  const left = await opened.left()
  const figures = { ran: done.ran(), wrong: done.wrong(), left }
  await opened.close()
  return figures
}

/**
 * Runs what is in the file.
 *
 * @param {Stage} stage
 */
async function run({ opened, done }) {
  await opened.start()
  await done.all
  await opened.ended()
}

/**
 * @param {Opened} opened
 * @param {number} jobs
 */
async function addInBulk(opened, jobs) {
  for (let at = 0; at < jobs; at += BATCH) await opened.addMany(batch(at, jobs))
}

/**
 * @param {number} from
 * @param {number} jobs
 */
function batch(from, jobs) {
  const length = Math.min(BATCH, jobs - from)
  return Array.from({ length }, (_, at) => payloadOf(from + at))
}

/**
 * @param {Opened} opened
 * @param {number} jobs
 */
async function addOneByOne(opened, jobs) {
  for (let at = 0; at < jobs; at += 1) await opened.add(payloadOf(at))
}

/**
 * @param {Opened} opened
 * @param {number} jobs
 */
async function addAtOnce(opened, jobs) {
  for (let at = 0; at < jobs; at += BATCH) {
    await Promise.all(batch(at, jobs).map((payload) => opened.add(payload)))
  }
}

/**
 * Only the adding is measured, but all of them run afterwards: what was added must be there.
 *
 * @param {Task} task
 * @param {string} file
 * @param {(opened: Opened, jobs: number) => Promise<void>} add
 */
async function measureAdds(task, file, add) {
  const stage = await open(task, file)
  const figures = await watched(() => add(stage.opened, task.jobs))
  await run(stage)
  return { ...figures, ...(await verdict(stage)) }
}

/**
 * @param {Task} task
 * @param {string} file
 */
async function measureDrain(task, file) {
  const stage = await open(task, file)
  await addInBulk(stage.opened, task.jobs)
  const figures = await watched(() => run(stage))
  return { ...figures, ...(await verdict(stage)) }
}

/**
 * The first batch is there before anybody looks: plainjob would rest for a second otherwise.
 *
 * @param {Task} task
 * @param {string} file
 */
async function measureCycle(task, file) {
  const stage = await open(task, file)
  const { opened, done } = stage
  const figures = await watched(async () => {
    await opened.addMany(batch(0, task.jobs))
    await opened.start()
    for (let at = BATCH; at < task.jobs; at += BATCH) {
      await opened.addMany(batch(at, task.jobs))
      await opened.turn?.()
    }
    await done.all
    await opened.ended()
  })
  return { ...figures, ...(await verdict(stage)) }
}

/**
 * From before the call that adds a job to its start, in one process that has nothing else to do.
 *
 * @param {Task} task
 * @param {string} file
 */
async function measureIdle(task, file) {
  const stage = await open(task, file)
  const { opened, done } = stage
  const pause = pauses()
  await opened.start()
  const figures = await watched(async () => {
    for (let at = 0; at < task.jobs; at += 1) {
      await pause()
      const ran = new Promise((resolve) => done.afterEach(() => resolve(undefined)))
      await opened.add(payloadOf(at))
      await opened.turn?.()
      await ran
    }
    await opened.ended()
  })
  return { ...figures, ...done.waited(), ...(await verdict(stage)) }
}

/** Lengths that no timer of a contender can fall in step with. */
function pauses() {
  const random = seeded(1)
  const { least, most } = PAUSE_MS
  return () => setTimeout(least + random() * (most - least))
}

/**
 * The same where another process adds the jobs: this one runs them, and tells the other each time.
 *
 * @param {Task} task
 * @param {string} file
 */
async function measureAcross(task, file) {
  const stage = await open(task, file)
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
