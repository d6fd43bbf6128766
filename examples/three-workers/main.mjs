// node main.mjs: three workers on one Redis share 60 orders. The printer of the second one jams after
// it has charged an order, and it is killed there and then; the others take over what it held. At the
// end: who did what, and that every order was charged once.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AxScheduler } from 'ax-scheduler'
import { redisStore } from 'ax-scheduler/redis'
import { openLedger } from './ledger.mjs'
import { findRedis } from './server.mjs'
import { LEASE, POOLS } from './terms.mjs'

/** @typedef {import('ax-scheduler').Job} Job */

const ORDERS = 60
const NAMES = ['worker-1', 'worker-2', 'worker-3']
/** It jams at its third order. */
const VICTIM = { name: 'worker-2', jams: 3 }

const redis = await findRedis().catch((error) => {
  console.error(error.message)
  process.exit(1)
})
const folder = mkdtempSync(join(tmpdir(), 'ax-ledger-'))
// A prefix of its own: whatever else is on that server is left alone.
const prefix = `three-workers-${process.pid}-${Date.now()}`
const ledger = openLedger(folder)
const store = redisStore(redis.url, { prefix })
const scheduler = new AxScheduler({ store, leaseMs: LEASE, pools: POOLS, autoStart: false })

console.log(`${NAMES.length} workers on ${redis.where}`)
const workers = new Map(NAMES.map((name) => [name, startWorker(name)]))
await Promise.all([...workers.values()].map((worker) => heard(worker, 'started')))

const killed = killVictim()
const handles = await scheduler.addJobs(
  Array.from({ length: ORDERS }, (_, at) => {
    const order = `order-${at + 1}`
    return { id: order, type: 'order', pool: 'orders', payload: { order } }
  }),
)
const ended = Promise.all(handles.map((handle) => handle.result()))
const order = await Promise.race([killed, ended.then(() => undefined)])
if (order === undefined) console.log(`${VICTIM.name} was too slow to get a third order`)
else console.log(`${VICTIM.name} has charged ${order} and hangs: it is killed`)
await ended
const jobs = /** @type {Job[]} */ (await Promise.all(handles.map(({ id }) => scheduler.job(id))))
report(jobs)
await tidyUp()

/** @param {string} name */
function startWorker(name) {
  const jams = name === VICTIM.name ? [String(VICTIM.jams)] : []
  const program = fileURLToPath(new URL('./worker.mjs', import.meta.url))
  return fork(program, [name, redis.url, prefix, folder, ...jams])
}

/**
 * What a worker says under that name.
 *
 * @param {import('node:child_process').ChildProcess} worker
 * @param {string} name
 * @returns {Promise<string>}
 */
function heard(worker, name) {
  return new Promise((resolve) => {
    worker.on('message', (message) => {
      const { [name]: value } = /** @type {Record<string, string>} */ (message)
      if (value !== undefined) resolve(value)
    })
  })
}

/** Kills the second worker as soon as it hangs; answers which order it had charged. */
async function killVictim() {
  const worker = /** @type {ReturnType<typeof startWorker>} */ (workers.get(VICTIM.name))
  const jammed = await heard(worker, 'jammed')
  worker.kill('SIGKILL')
  return jammed
}

/** @param {readonly Job[]} jobs */
function report(jobs) {
  const attempts = jobs.flatMap(({ attemptLog }) => attemptLog)
  const charges = ledger.charges()
  console.log(`\n${'worker'.padEnd(10)}${'started'.padStart(9)}${'succeeded'.padStart(11)}`)
  for (const name of NAMES) {
    const own = attempts.filter(({ worker }) => worker.startsWith(`${name}:`))
    const done = own.filter(({ outcome }) => outcome === 'success').length
    console.log(`${name.padEnd(10)}${String(own.length).padStart(9)}${String(done).padStart(11)}`)
  }
  console.log()
  for (const { id, attemptLog, result } of jobs.filter(({ attemptLog }) => attemptLog.length > 1)) {
    const way = attemptLog.map(({ worker, outcome }) => `${worker.split(':')[0]} (${outcome})`)
    console.log(`${id}: ${way.join(', then ')}; the last one says: ${result}`)
  }
  const done = jobs.filter(({ status }) => status === 'success').length
  const charged = new Set(charges.map((charge) => charge.order)).size
  console.log(`\n${done} of ${ORDERS} orders succeeded, ${charged} were charged.`)
  console.log(`Charged twice: ${charges.length - charged}.`)
  if (done !== ORDERS || charged !== ORDERS || charges.length !== ORDERS) process.exitCode = 1
}

async function tidyUp() {
  for (const [name, worker] of workers) {
    if (name === VICTIM.name && order !== undefined) continue
    worker.kill('SIGTERM')
    await once(worker, 'exit')
  }
  await scheduler.close()
  await store.close()
  await removePrefix()
  await redis.stop()
  rmSync(folder, { recursive: true, force: true })
}

/** What a server of somebody else should not have to keep. */
async function removePrefix() {
  const { Redis } = await import('ioredis')
  const client = new Redis(redis.url)
  for await (const keys of client.scanStream({ match: `{${prefix}}:*`, count: 1_000 })) {
    if (keys.length > 0) await client.unlink(...keys)
  }
  await client.quit()
}
