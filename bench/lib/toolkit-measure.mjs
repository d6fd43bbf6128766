// Owns one measurement of the toolkit's comparison, in a process of its own.
// May never count work as done that was not checked: each task ran once, its value came back.

import { watched } from './fresh.mjs'
import { percentile, seeded } from './numbers.mjs'
import { MAPS, QUEUES } from './toolkit-contenders.mjs'

/**
 * `priorities` is the number of different ones, 0 for none; `warm` is how many tasks run first.
 *
 * @typedef {{
 *   measure: 'queue' | 'map' | 'idle' | 'bytes',
 *   contender: string, size: number, concurrency: number,
 *   priorities?: number, warm?: number, body?: 'micro' | 'immediate',
 * }} Task
 */

const PAUSE = 50

/**
 * @param {Task} task
 * @returns {Promise<Record<string, number>>}
 */
export async function measureOne(task) {
  return await WAYS[task.measure](task)
}

/** @type {Record<Task['measure'], (task: Task) => Promise<Record<string, number>>>} */
const WAYS = { queue: measureQueue, map: measureMap, idle: measureIdle, bytes: measureBytes }

/**
 * @param {string} name
 * @param {number} concurrency
 * @param {number} size
 */
async function make(name, concurrency, size) {
  const way = QUEUES[name]
  if (way === undefined) throw new Error(`There is no contender '${name}'.`)
  return await way.make(concurrency, size)
}

/**
 * A queue is filled at once, and all its promises are collected and awaited.
 *
 * @param {Task} task
 */
async function measureQueue(task) {
  const { warm = 0 } = task
  if (warm > 0) await runQueue({ ...task, size: warm })
  return await runQueue(task)
}

/** @param {Task} task */
async function runQueue({ contender, size, concurrency, priorities: count = 0, body = 'micro' }) {
  const priorities = randomPriorities(size, count)
  const { add, drained } = await make(contender, concurrency, size)
  /** @type {unknown[]} */
  let results = []
  let ran = 0
  // A task's value is the number of its start, so that the values tell who ran, and when.
  const micro = async () => {
    ran += 1
    return ran
  }
  const immediate = async () => {
    ran += 1
    const mine = ran
    await new Promise((resolve) => setImmediate(resolve))
    return mine
  }
  const task = body === 'micro' ? micro : immediate
  const figures = await watched(async () => {
    if (drained === undefined) {
      const all = new Array(size)
      for (let at = 0; at < size; at += 1) all[at] = add(task, priorities[at] ?? 0, at)
      results = await Promise.all(all)
    } else {
      for (let at = 0; at < size; at += 1) add(task, priorities[at] ?? 0, at)
      await drained()
    }
  })
  const wrong = drained === undefined ? misplaced(results, priorities, concurrency) : 0
  return { ...figures, ran, wrong }
}

/**
 * @param {number} size
 * @param {number} count
 */
function randomPriorities(size, count) {
  const random = seeded(size)
  return Uint8Array.from({ length: size }, () => (count > 0 ? 1 + Math.floor(random() * count) : 0))
}

/**
 * How many tasks did not start when they should have: those that find a slot free at once, then
 * higher priorities first, first come first served among equals.
 *
 * @param {readonly unknown[]} values
 * @param {Uint8Array} priorities
 * @param {number} concurrency
 */
function misplaced(values, priorities, concurrency) {
  const order = [...values.keys()]
  const atOnce = order.splice(0, concurrency)
  order.sort((a, b) => (priorities[b] ?? 0) - (priorities[a] ?? 0) || a - b)
  let wrong = 0
  for (const [place, at] of [...atOnce, ...order].entries()) {
    if (startOf(values[at]) !== place + 1) wrong += 1
  }
  return wrong
}

/**
 * A runner gives the value of a task within an object.
 *
 * @param {unknown} value
 */
function startOf(value) {
  return typeof value === 'object' && value !== null && 'result' in value ? value.result : value
}

/**
 * The items of an array are mapped, and every result is looked at.
 *
 * @param {Task} task
 */
async function measureMap({ contender, size, concurrency, body = 'micro' }) {
  const way = MAPS[contender]
  if (way === undefined) throw new Error(`There is no contender '${contender}'.`)
  const map = await way.make()
  const items = Array.from({ length: size }, (_, at) => at)
  const seen = new Uint8Array(size)
  const work = body === 'micro' ? micro() : immediate()
  let taken = 0
  const take = (/** @type {number} */ item) => {
    seen[item] = 1
    taken += 1
  }
  const figures = await watched(async () => {
    const values = /** @type {AsyncIterable<number> | number[]} */ (
      await map(items, concurrency, work.fn)
    )
    if (Array.isArray(values)) for (const item of values) take(item)
    else for await (const item of values) take(item)
  })
  const wrong = Math.abs(taken - size) + seen.reduce((missing, one) => missing + 1 - one, 0)
  return { ...figures, ran: work.ran(), most: work.most(), wrong }
}

function micro() {
  let ran = 0
  const fn = async (/** @type {number} */ item) => {
    ran += 1
    return item
  }
  return { fn, ran: () => ran, most: () => 0 }
}

function immediate() {
  let ran = 0
  let active = 0
  let most = 0
  const fn = async (/** @type {number} */ item) => {
    active += 1
    if (active > most) most = active
    await new Promise((resolve) => setImmediate(resolve))
    active -= 1
    ran += 1
    return item
  }
  return { fn, ran: () => ran, most: () => most }
}

/**
 * How long a task waits for its start where nothing runs, in nanoseconds, the clock's own 50
 * included. Between tasks the event loop turns, and now and then rests.
 *
 * @param {Task} task
 */
async function measureIdle({ contender, size, concurrency, warm = 0 }) {
  const { add } = await make(contender, concurrency, size + warm)
  const waits = new Float64Array(size)
  let ran = 0
  let startedAt = 0
  const task = async () => {
    startedAt = performance.now()
    ran += 1
  }
  const figures = await watched(async () => {
    for (let at = -warm; at < size; at += 1) {
      const addedAt = performance.now()
      await add(task, 0, at + warm)
      if (at >= 0) waits[at] = (startedAt - addedAt) * 1e6
      if (at % PAUSE === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      else await new Promise((resolve) => setImmediate(resolve))
    }
  })
  const all = [...waits]
  const [p50, p99] = [percentile(all, 0.5), percentile(all, 0.99)]
  return { ...figures, p50, p99, ran: ran - warm, wrong: 0 }
}

/**
 * What a call that waits keeps alive, its promise and its place in an array included; the heap
 * is collected before and after, so that nothing depends on the machine.
 *
 * @param {Task} task
 */
async function measureBytes({ contender, size, concurrency }) {
  const { add } = await make(contender, concurrency, size)
  const all = new Array(size).fill(undefined)
  let ran = 0
  let open = () => {}
  const gate = new Promise((resolve) => {
    open = () => resolve(undefined)
  })
  const task = async () => {
    await gate
    ran += 1
  }
  const before = heapInUse()
  for (let at = 0; at < size; at += 1) all[at] = add(task, 0, at)
  await new Promise((resolve) => setImmediate(resolve))
  const bytes = (heapInUse() - before) / size
  const figures = await watched(async () => {
    open()
    await Promise.all(all)
  })
  return { ...figures, bytes, ran, wrong: 0 }
}

function heapInUse() {
  if (globalThis.gc === undefined) throw new Error('This measurement needs --expose-gc.')
  globalThis.gc()
  globalThis.gc()
  return process.memoryUsage().heapUsed
}
