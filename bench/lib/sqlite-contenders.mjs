// Owns how each contender of the comparison on one SQLite file is opened, filled and run.
// May never give one a setting that its cell does not name.

import { createRequire } from 'node:module'
import { sqliteStoreOf } from './ax.mjs'
import { openAxOn } from './ax-queue.mjs'
import { lack, load } from './packages.mjs'
import { connect, forPlainjob } from './sqlite-driver.mjs'
import { openRows } from './sqlite-rows.mjs'

/**
 * @typedef {import('./sqlite-driver.mjs').Sync} Sync
 * @typedef {import('./queue-measure.mjs').Payload} Payload
 * @typedef {import('./queue-measure.mjs').Body} Body
 * @typedef {import('./queue-measure.mjs').Opened} Opened
 *
 * @typedef {(file: string, settings: { sync: Sync, body?: Body | undefined }) => Promise<Opened>} Open
 *
 * `needs` are packages; `share` is how much of the work is enough for one that is slower.
 *
 * @typedef {{ needs: readonly string[], share: number, open: Open }} Contender
 */

const CONCURRENCY = 100

const require = createRequire(import.meta.url)
const LIMIT_SECONDS = 600

/** @type {Record<string, Contender>} */
export const CONTENDERS = {
  ax: { needs: [], share: 1, open: openAx },
  plainjob: { needs: ['plainjob'], share: 1, open: openPlainjob },
  'better-queue': {
    needs: ['better-queue', 'better-queue-sqlite'],
    share: 0.25,
    open: openBetterQueue,
  },
  liteque: { needs: ['liteque'], share: 0.1, open: openLiteque },
  rows: { needs: [], share: 1, open: openRows },
}

/**
 * Why a contender cannot be measured here; undefined if it can.
 *
 * @param {string} name
 */
export async function absence(name) {
  return await lack(CONTENDERS[name]?.needs ?? [])
}

/** @type {Open} */
async function openAx(file, { sync, body }) {
  const sqliteStore = await sqliteStoreOf()
  return await openAxOn(sqliteStore(file, { sync }), { concurrency: CONCURRENCY, body })
}

/**
 * It sets NORMAL when it opens the file. Its worker takes one job after the other, and looks again
 * after a second if there is none.
 *
 * @type {Open}
 */
async function openPlainjob(file, { sync, body }) {
  const { defineQueue, defineWorker, JobStatus } = await import('plainjob')
  const silent = () => {}
  const logger = { error: silent, warn: silent, info: silent, debug: silent }
  const connection = /** @type {any} */ (forPlainjob(await connect(file), file))
  const queue = defineQueue({ connection, logger })
  connection.exec(`PRAGMA synchronous = ${sync}`)
  const run = async (/** @type {{ data: string }} */ job) => body?.(JSON.parse(job.data))
  const worker = defineWorker('work', run, { queue, logger })
  return {
    add: (payload) => queue.add('work', payload),
    addMany: (payloads) => queue.addMany('work', [...payloads]),
    start: () => {
      void worker.start()
    },
    ended: async () => {
      await worker.stop()
      await turnOfTheLoop()
    },
    left: () => queue.countJobs() - queue.countJobs({ status: JobStatus.Done }),
    close: () => queue.close(),
  }
}

/**
 * Its store has synchronous OFF and a journal in memory, and says that a job is queued before it
 * is written: `getTask` waits for the writing, so it is asked for a job that there is not.
 *
 * @type {Open}
 */
async function openBetterQueue(file, { body }) {
  const [Queue, Store] = [require('better-queue'), require('better-queue-sqlite')]
  const store = new Store({ path: file })
  const connected = new Promise((resolve) => {
    const connect = store.connect.bind(store)
    store.connect = (/** @type {(...values: unknown[]) => void} */ done) => {
      connect((/** @type {unknown[]} */ ...values) => {
        done(...values)
        resolve(undefined)
      })
    }
  })
  /** @typedef {(error: unknown) => void} Done */
  const process = (/** @type {Payload} */ payload, /** @type {Done} */ done) => {
    body?.(payload).then(() => done(null), done)
  }
  const queue = new Queue(process, { store, concurrent: CONCURRENCY })
  queue.pause()
  await connected
  const queued = (/** @type {Payload} */ payload) => {
    return new Promise((resolve) => queue.push(payload).on('queued', resolve))
  }
  const written = () => new Promise((resolve) => store.getTask('none', resolve))
  const left = () => {
    return new Promise((resolve, reject) => {
      const sql = 'SELECT count(*) AS count FROM task'
      store._db.get(sql, (/** @type {unknown} */ error, /** @type {{ count: number }} */ row) => {
        if (error) reject(error)
        else resolve(row.count)
      })
    })
  }
  return {
    add: async (payload) => {
      await queued(payload)
      await written()
    },
    addMany: async (payloads) => {
      await Promise.all(payloads.map(queued))
      await written()
    },
    start: () => queue.resume(),
    ended: () => untilNone(left),
    left,
    close: () => new Promise((resolve) => queue.destroy(resolve)),
  }
}

/**
 * It has no way to add many at once, nor to close its file. It sets NORMAL when it opens it.
 *
 * @type {Open}
 */
async function openLiteque(file, { body }) {
  const { buildDBClient, Runner, SqliteQueue } = await load('liteque')
  const queue = new SqliteQueue('work', buildDBClient(file, { runMigrations: true }), {
    defaultJobArgs: { numRetries: 0 },
    keepFailedJobs: true,
  })
  const funcs = { run: (/** @type {{ data: Payload }} */ { data }) => body?.(data) }
  const settings = { concurrency: CONCURRENCY, pollIntervalMs: 1_000, timeoutSecs: LIMIT_SECONDS }
  const runner = new Runner(queue, funcs, settings)
  const left = async () => {
    const counts = /** @type {Record<string, number>} */ (await queue.stats())
    return Object.values(counts).reduce((sum, count) => sum + count, 0)
  }
  return {
    add: (payload) => queue.enqueue(payload),
    addMany: async (payloads) => {
      for (const payload of payloads) await queue.enqueue(payload)
    },
    start: () => {
      void runner.run()
    },
    ended: () => untilNone(left),
    left,
    close: () => runner.stop(),
  }
}

/** @param {() => Promise<number>} left */
async function untilNone(left) {
  while ((await left()) > 0) await turnOfTheLoop()
}

function turnOfTheLoop() {
  return new Promise((resolve) => setImmediate(resolve))
}
