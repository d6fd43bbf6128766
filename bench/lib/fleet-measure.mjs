// Owns what a fleet's calls cost one Redis server: its processor time, asked of the server itself.
// May never measure a call on a store in which nobody else is: costs may grow with the fleet.

import { setTimeout } from 'node:timers/promises'
import { AxScheduler, builtFile } from './ax.mjs'
import { load } from './packages.mjs'
import { payloadOf } from './queue-measure.mjs'
import { workOf } from './redis-server.mjs'
import { subscribe } from './redis-sockets.mjs'

/**
 * @typedef {import('../../src/index.ts').Store} Store
 * @typedef {{ redisStore: (url: string, options?: object) => Store }} Module
 * @typedef {{ flushall: () => Promise<unknown>, publish: Function, info: any }} Control
 * @typedef {{ jobs: number, workers: number, held: number, idle: number, listeners: number }} Sizes
 */

const LEASE_MS = 600_000
const FLIGHT = 16

/** Of each kind, so many calls are measured, and a tenth as many before that. */
const CALLS = 1_000

/** As long as a hint: the name of a process, three flags, three empty lists. */
const HINT = 'x'.repeat(20)
const HINTS = 400

/** Jobs in one call, at most. */
const LARGEST = 10_000

/** So long a fleet is watched that has nothing to do. */
const REST_MS = 5_000

/** @type {Module} */
const { redisStore } = await load(builtFile('stores/redis/index.js').href)

/**
 * How jobs may come and go: so many in a call, on so many slots of one process; of the jobs, this
 * share is enough.
 */
const WAYS = [
  { how: 'by the thousand', batch: 1_000, slots: 100, share: 1 },
  { how: 'by ten', batch: 10, slots: 10, share: 0.25 },
  { how: 'one by one', batch: 1, slots: 1, share: 0.1 },
]

/**
 * What a job costs from its submission to its end, each way.
 *
 * @param {string} url
 * @param {Control} control
 * @param {Sizes} sizes
 */
export async function measureJobs(url, control, { jobs }) {
  const ways = []
  // The server learns the scripts, and this process its code.
  await throughOne(url, control, 500, 10, 10)
  for (const { how, batch, slots, share } of WAYS) {
    await control.flushall()
    const count = Math.ceil(jobs * share)
    ways.push({ how, slots, count, ...(await throughOne(url, control, count, batch, slots)) })
  }
  return ways
}

/**
 * @param {string} url
 * @param {Control} control
 * @param {number} jobs
 * @param {number} batch
 * @param {number} concurrency
 */
async function throughOne(url, control, jobs, batch, concurrency) {
  const store = redisStore(url)
  const scheduler = new AxScheduler({ store, concurrency, autoStart: false })
  let ran = 0
  scheduler.define('work', async () => {
    ran += 1
  })
  await scheduler.snapshot()
  const empty = await workOf(control)
  for (let from = 0; from < jobs; from += batch) {
    const length = Math.min(batch, jobs - from)
    const inputs = Array.from({ length }, (_, at) => ({
      type: 'work',
      payload: payloadOf(from + at),
    }))
    await scheduler.addJobs(inputs)
  }
  const queued = await workOf(control)
  await scheduler.start()
  await scheduler.idle()
  const ended = await workOf(control)
  const { states } = await scheduler.snapshot()
  await scheduler.close()
  await store.close()
  return {
    us: (1_000 * (ended.cpuMs - empty.cpuMs)) / jobs,
    queuedBytes: (queued.bytes - empty.bytes) / jobs,
    endedBytes: (ended.bytes - empty.bytes) / jobs,
    ran,
    succeeded: states.success,
  }
}

/**
 * The largest call there is, or half of the jobs: nobody else is served meanwhile.
 *
 * @param {string} url
 * @param {Control} control
 * @param {Sizes} sizes
 */
export async function measureLargest(url, control, { jobs }) {
  await control.flushall()
  const store = redisStore(url)
  const scheduler = new AxScheduler({ store, autoStart: false })
  const count = Math.min(LARGEST, Math.ceil(jobs / 2))
  const inputs = Array.from({ length: count }, (_, at) => ({
    type: 'work',
    payload: payloadOf(at),
  }))
  await scheduler.snapshot()
  const before = await workOf(control)
  await scheduler.addJobs(inputs)
  const after = await workOf(control)
  await scheduler.close()
  await store.close()
  return { count, us: 1_000 * (after.cpuMs - before.cpuMs) }
}

/**
 * What each call of a worker costs that finds nothing to do, in a store that knows so many workers
 * and has a few jobs that run.
 *
 * @param {string} url
 * @param {Control} control
 * @param {Sizes} sizes
 */
export async function measureCalls(url, control, { workers, held }) {
  await control.flushall()
  const store = redisStore(url)
  const holder = 'the worker that is measured'
  const adder = new AxScheduler({ store, autoStart: false, concurrency: held })
  await adder.addJobs(Array.from({ length: held }, (_, at) => ({ type: 'work', payload: at })))
  const types = ['work']
  const { answer } = await store.lease({ holder, leaseMs: LEASE_MS, max: held, types }, false)
  const leases = answer.jobs.map(({ id, lease }) => ({ id, lease: lease?.number ?? 0 }))
  const said = { name: 'worker', types, full: false, zombies: 0, settings: '{}', ttlMs: LEASE_MS }
  const beat = (/** @type {number} */ at) => {
    return store.beat({ ...said, holder: `worker:${at % workers}` })
  }
  await inFlight(workers, beat)
  /** @param {(at: number) => Promise<unknown>} call */
  const cost = async (call) => {
    await inFlight(CALLS / 10, call)
    const before = await workOf(control)
    await inFlight(CALLS, call)
    const after = await workOf(control)
    return (1_000 * (after.cpuMs - before.cpuMs)) / CALLS
  }
  const asks = { leaseMs: LEASE_MS, max: 100, types, upTo: 0 }
  const costs = {
    lease: await cost((at) => store.lease({ ...asks, holder: `worker:${at}` }, false)),
    overdue: await cost(() => store.overdue({ limit: 100, keepLogMs: LEASE_MS }, false)),
    time: await cost(() => store.time()),
    beat: await cost(beat),
    extend: await cost((at) => store.extend({ ...asks, holder: `worker:${at}`, held: [] }, false)),
    extendHeld: await cost(() => store.extend({ ...asks, holder, held: leases }, false)),
  }
  const known = (await store.workers()).length
  await adder.close()
  await store.close()
  return { costs, known, leases: leases.length }
}

/**
 * @param {number} count
 * @param {(at: number) => Promise<unknown>} call
 */
async function inFlight(count, call) {
  let next = 0
  const lane = async () => {
    while (next < count) {
      next += 1
      await call(next - 1)
    }
  }
  await Promise.all(Array.from({ length: FLIGHT }, lane))
}

/**
 * What a hint costs for each who listens: the same message, with and without listeners.
 *
 * @param {string} url
 * @param {Control} control
 * @param {Sizes} sizes
 */
export async function measureHints(url, control, { listeners }) {
  const publish = async () => {
    const before = await workOf(control)
    for (let at = 0; at < HINTS; at += 1) await control.publish('{fleet}:hint', HINT)
    return (await workOf(control)).cpuMs - before.cpuMs
  }
  const unheard = await publish()
  const { heard, close } = await subscribe(url, '{fleet}:hint', listeners)
  const ms = await publish()
  const arrived = await heard(HINTS, HINT)
  close()
  return { us: Math.max(0, (1_000 * (ms - unheard)) / (HINTS * listeners)), arrived, sent: HINTS }
}

/**
 * How often a fleet that waits asks for each job that is added alone: every worker is told of it.
 *
 * @param {string} url
 * @param {Control} control
 * @param {Sizes} sizes
 */
export async function measureWakes(url, control, { idle }) {
  const COUNT = 100
  await control.flushall()
  const stores = Array.from({ length: idle }, () => redisStore(url))
  const fleet = stores.map((store) => new AxScheduler({ store, concurrency: idle }))
  let ran = 0
  for (const worker of fleet) {
    worker.define('work', async () => {
      ran += 1
    })
    await worker.start()
  }
  const perSecond = await restingCalls(control)
  const [first] = fleet
  const before = await workOf(control)
  const scripts = await callsOf(control)
  for (let at = 0; at < COUNT; at += 1) await (await first?.addJob({ type: 'work' }))?.result()
  const after = await workOf(control)
  const asked = (await callsOf(control)) - scripts
  for (const worker of fleet) await worker.close()
  for (const store of stores) await store.close()
  return {
    perSecond,
    calls: asked / COUNT,
    us: (1_000 * (after.cpuMs - before.cpuMs)) / COUNT,
    ran,
    COUNT,
  }
}

/**
 * Calls in a second while nobody adds anything.
 *
 * @param {Control} control
 */
async function restingCalls(control) {
  const [startedAt, before] = [performance.now(), await callsOf(control)]
  await setTimeout(REST_MS)
  const calls = (await callsOf(control)) - before
  return (1_000 * calls) / (performance.now() - startedAt)
}

/** @param {Control} control */
async function callsOf(control) {
  const text = await control.info('commandstats')
  const counts = Array.from(
    text.matchAll(/^cmdstat_(?:fcall|evalsha):calls=(\d+)/gm),
    (of) => of[1],
  )
  return counts.reduce((sum, count) => sum + Number(count), 0)
}
