// Owns the measurements that comparisons of durable queues share: adding, draining, both at once,
// and starts from rest. May never count a job as done that was not delivered exactly once.

import { setTimeout } from 'node:timers/promises'
import { percentile, seeded } from './numbers.mjs'

/**
 * @typedef {{ at: number, sent: number, text: string }} Payload
 * @typedef {(payload: Payload) => Promise<void>} Body
 *
 * `add` and `addMany` end when the job is in the store; without a body, nothing runs here.
 * `turn` is for those that have no loop of their own: it runs what is there.
 * `ended` is called once all bodies have run, and ends when the store knows that too.
 * `left` is how many jobs in the store have not ended.
 *
 * @typedef {{
 *   add: (payload: Payload) => unknown,
 *   addMany: (payloads: readonly Payload[]) => unknown,
 *   start: () => unknown,
 *   turn?: () => unknown,
 *   ended: () => unknown,
 *   left: () => number | Promise<number>,
 *   close: () => unknown,
 * }} Opened
 *
 * @typedef {{ opened: Opened, done: ReturnType<typeof deliveries> }} Stage
 *
 * Measures what `act` does.
 *
 * @typedef {(act: () => Promise<void>) => Promise<Record<string, number>>} Meter
 * @typedef {(stage: Stage, jobs: number, meter: Meter) => Promise<Record<string, number>>} Way
 */

const BATCH = 1_000
const TEXT = 'x'.repeat(170)
/** Between one job and the next, where starts from rest are measured. */
const PAUSE_MS = { least: 5, most: 45 }

/**
 * A contender that is open, and who has run of its jobs.
 *
 * @param {number} jobs
 * @param {(body: Body) => Promise<Opened>} open
 * @returns {Promise<Stage>}
 */
export async function stageOf(jobs, open) {
  const done = deliveries(jobs)
  return { opened: await open(done.body), done }
}

/**
 * @param {number} at
 * @returns {Payload}
 */
export function payloadOf(at) {
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
 * All that were added have run, once each, and the store knows it.
 *
 * @param {Stage} stage
 */
export async function verdict({ opened, done }) {
  const left = await opened.left()
  const figures = { ran: done.ran(), wrong: done.wrong(), left }
  await opened.close()
  return figures
}

/**
 * Runs what is in the store.
 *
 * @param {Stage} stage
 */
async function run({ opened, done }) {
  await opened.start()
  await done.all
  await opened.ended()
}

/**
 * A thousand at a time, and so many thousands on their way at once.
 *
 * @param {Opened} opened
 * @param {number} jobs
 * @param {number} flight
 */
export async function addInBulk(opened, jobs, flight = 1) {
  let next = 0
  const lane = async () => {
    while (next < jobs) {
      const from = next
      next += BATCH
      await opened.addMany(batch(from, jobs))
    }
  }
  await Promise.all(Array.from({ length: flight }, lane))
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
export async function addOneByOne(opened, jobs) {
  for (let at = 0; at < jobs; at += 1) await opened.add(payloadOf(at))
}

/**
 * @param {Opened} opened
 * @param {number} jobs
 */
export async function addAtOnce(opened, jobs) {
  for (let at = 0; at < jobs; at += BATCH) {
    await Promise.all(batch(at, jobs).map((payload) => opened.add(payload)))
  }
}

/**
 * Only the adding is measured, but all of them run afterwards: what was added must be there.
 *
 * @param {(opened: Opened, jobs: number) => Promise<void>} add
 * @returns {Way}
 */
export function measureAdds(add) {
  return async (stage, jobs, meter) => {
    const figures = await meter(() => add(stage.opened, jobs))
    await run(stage)
    return { ...figures, ...(await verdict(stage)) }
  }
}

/** @type {Way} */
export async function measureDrain(stage, jobs, meter) {
  await addInBulk(stage.opened, jobs)
  const figures = await meter(() => run(stage))
  return { ...figures, ...(await verdict(stage)) }
}

/**
 * The first batch is there before anybody looks: who polls would rest for a second otherwise.
 *
 * @type {Way}
 */
export async function measureCycle(stage, jobs, meter) {
  const { opened, done } = stage
  const figures = await meter(async () => {
    await opened.addMany(batch(0, jobs))
    await opened.start()
    for (let at = BATCH; at < jobs; at += BATCH) {
      await opened.addMany(batch(at, jobs))
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
 * @type {Way}
 */
export async function measureIdle(stage, jobs, meter) {
  const { opened, done } = stage
  const pause = pauses()
  await opened.start()
  const figures = await meter(async () => {
    for (let at = 0; at < jobs; at += 1) {
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
export function pauses() {
  const random = seeded(1)
  const { least, most } = PAUSE_MS
  return () => setTimeout(least + random() * (most - least))
}
