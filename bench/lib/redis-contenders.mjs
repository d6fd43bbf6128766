// Owns how each contender of the comparison on one Redis server is opened, filled and run.
// May never give one a setting that its cell does not name, nor deny one what makes it fast.

import { existsSync } from 'node:fs'
import { builtFile } from './ax.mjs'
import { openAxOn } from './ax-queue.mjs'
import { lack, load } from './packages.mjs'
import { openLua } from './redis-lua.mjs'

/**
 * @typedef {import('./queue-measure.mjs').Payload} Payload
 * @typedef {import('./queue-measure.mjs').Body} Body
 * @typedef {import('./queue-measure.mjs').Opened} Opened
 *
 * @typedef {(url: string, settings: { concurrency: number, body: Body }) => Promise<Opened>} Open
 *
 * `needs` are packages; `share` is how much of the work is enough for one that is slower.
 *
 * @typedef {{ needs: readonly string[], share: number, open: Open }} Contender
 */

const STORE = builtFile('stores/redis/index.js')

/** @type {Record<string, Contender>} */
export const CONTENDERS = {
  ax: { needs: ['ioredis'], share: 1, open: openAx },
  bullmq: { needs: ['bullmq', 'ioredis'], share: 1, open: openBullmq },
  'bee-queue': { needs: ['bee-queue'], share: 1, open: openBeeQueue },
  lua: { needs: ['ioredis'], share: 1, open: openLua },
}

/**
 * Why a contender cannot be measured here; undefined if it can.
 *
 * @param {string} name
 */
export async function absence(name) {
  const missing = await lack(CONTENDERS[name]?.needs ?? [])
  if (missing !== undefined || name !== 'ax') return missing
  if (!existsSync(STORE)) return 'this build has no store on Redis'
  return await load(STORE.href).then(
    () => undefined,
    (error) => `its store cannot be loaded: ${String(error).split('\n')[0]}`,
  )
}

/** @type {Open} */
async function openAx(url, settings) {
  const { redisStore } = await load(STORE.href)
  return await openAxOn(redisStore(url), settings)
}

/** @type {Open} */
async function openBullmq(url, { concurrency, body }) {
  const { Queue, Worker } = await load('bullmq')
  const connection = addressOf(url)
  const queue = new Queue('work', { connection, defaultJobOptions: { removeOnComplete: true } })
  const run = (/** @type {{ data: Payload }} */ { data }) => body(data)
  const worker = new Worker('work', run, { connection, concurrency, autorun: false })
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()])
  const left = async () => sum(await queue.getJobCounts())
  return {
    add: (payload) => queue.add('work', payload),
    addMany: (payloads) => queue.addBulk(payloads.map((data) => ({ name: 'work', data }))),
    start: () => {
      void worker.run()
    },
    ended: () => untilNone(left),
    left,
    close: async () => {
      await worker.close()
      await queue.close()
    },
  }
}

/**
 * Nobody listens to its events, nor asks its jobs for their results: it need not send, nor keep
 * them.
 *
 * @type {Open}
 */
async function openBeeQueue(url, { concurrency, body }) {
  const { default: Queue } = await load('bee-queue')
  const quiet = { getEvents: false, sendEvents: false, storeJobs: false }
  const queue = new Queue('work', { redis: addressOf(url), removeOnSuccess: true, ...quiet })
  await queue.ready()
  const left = async () => {
    const { waiting, active, delayed, failed } = await queue.checkHealth()
    return waiting + active + delayed + failed
  }
  return {
    add: (payload) => queue.createJob(payload).save(),
    addMany: async (payloads) => {
      const refused = await queue.saveAll(payloads.map((payload) => queue.createJob(payload)))
      for (const error of refused.values()) throw error
    },
    start: () => {
      queue.process(concurrency, (/** @type {{ data: Payload }} */ { data }) => body(data))
    },
    ended: () => untilNone(left),
    left,
    close: () => queue.close(),
  }
}

/** @param {string} url */
function addressOf(url) {
  const { hostname, port, password } = new URL(url)
  return { host: hostname, port: Number(port), password }
}

/** @param {Record<string, number>} counts */
function sum(counts) {
  return Object.values(counts).reduce((total, count) => total + count, 0)
}

/** @param {() => Promise<number>} left */
async function untilNone(left) {
  while ((await left()) > 0) await new Promise((resolve) => setImmediate(resolve))
}
