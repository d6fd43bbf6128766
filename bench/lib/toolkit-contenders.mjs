// Owns how each contender of the toolkit's comparison is made and called. May never give one a
// setting that its cell does not name.

import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as floors from './toolkit-floors.mjs'

/**
 * A contender takes tasks and gives one promise for each; or it gives none (`drained` is there)
 * and is waited for as a whole.
 *
 * @typedef {() => Promise<unknown>} Task
 * @typedef {(task: Task, priority: number, at: number) => unknown} Add
 * @typedef {{ add: Add, drained?: () => Promise<unknown> }} Contender
 * @typedef {{ needs: string, make: (concurrency: number, size: number) => Promise<Contender> }} Way
 *
 * @typedef {(item: number) => Promise<number>} Fn
 * @typedef {(items: readonly number[], concurrency: number, fn: Fn) => Promise<unknown>} Mapper
 * @typedef {{ needs: string, make: () => Promise<Mapper> }} MapWay
 */

const require = createRequire(import.meta.url)
/** Long enough never to pass; every task of a cell with time limits has this one. */
const LIMIT_MS = 600_000
const FLOOR = ''

const given = process.env.AX_DIST
const dist =
  given === undefined
    ? new URL('../../dist/', import.meta.url)
    : pathToFileURL(`${resolve(given)}/`)

/**
 * Exports of the toolkit that are measured, by the files that may hold them.
 *
 * @type {Record<string, readonly string[]>}
 */
const KIT = {
  createLimiter: ['kit/limiter.js'],
  createRunner: ['kit/runner.js'],
}

/** @type {Record<string, Way>} */
export const QUEUES = {
  ax: { needs: 'createLimiter', make: (concurrency) => makeLimiter(concurrency, {}) },
  'ax unwatched': {
    needs: 'nested',
    make: (concurrency) => makeLimiter(concurrency, { nested: 'queue' }),
  },
  'p-limit': { needs: 'p-limit', make: makePLimit },
  'p-queue': { needs: 'p-queue', make: (concurrency) => makePQueue({ concurrency }) },
  'p-queue timeout': {
    needs: 'p-queue',
    make: (concurrency) => makePQueue({ concurrency, timeout: LIMIT_MS }),
  },
  fastq: { needs: 'fastq', make: makeFastq },
  henrygd: { needs: '@henrygd/queue', make: makeHenrygd },
  'henrygd als': { needs: '@henrygd/queue', make: makeHenrygdContext },
  'async.queue': { needs: 'async', make: makeAsyncQueue },
  'async.priorityQueue': { needs: 'async', make: makeAsyncPriorityQueue },
  bottleneck: { needs: 'bottleneck', make: makeBottleneck },
  'runner all': { needs: 'createRunner', make: makeRunner },
  'runner bare': { needs: 'createRunner', make: makeBareRunner },
  'min-semaphore': floor(floors.minSemaphore),
  'min-slots': floor(floors.minSlots),
  'min-slots als': floor(floors.minSlotsContext),
  'min-prio-bucket': floor(floors.minPrioBucket),
  unlimited: floor(floors.unlimited),
}

/** @type {Record<string, MapWay>} */
export const MAPS = {
  ax: { needs: 'limit.map', make: () => makeMap({}) },
  'ax unordered': { needs: 'limit.map', make: () => makeMap({ ordered: false }) },
  'promise-pool': { needs: '@supercharge/promise-pool', make: makePromisePool },
  'p-limit.map': { needs: 'p-limit', make: makePLimitMap },
  'min-pool': { needs: FLOOR, make: async () => floors.minPool },
  'min-stream': { needs: FLOOR, make: makeMinStream },
}

/**
 * Why something cannot be measured here: a package that is not installed, a part of the toolkit
 * that this build does not have. Undefined if it can.
 *
 * @param {string} needs
 */
export async function absence(needs) {
  const create = await kit('createLimiter')
  const lacks = `this build of ax has no ${needs}`
  if (needs === FLOOR) return undefined
  if (needs in KIT) return (await kit(needs)) ? undefined : lacks
  if (needs === 'limit.map') return typeof create?.(1).map === 'function' ? undefined : lacks
  if (needs === 'nested') return takesNested(create) ? undefined : lacks
  return version(needs) === undefined ? `${needs} is not installed` : undefined
}

/** @param {((concurrency: number, options: object) => unknown) | undefined} create */
function takesNested(create) {
  try {
    return create?.(1, { nested: 'queue' }) !== undefined
  } catch {
    return false
  }
}

/** Name and version of every package that is compared, for the head of a report. */
export function versions() {
  const ways = [...Object.values(QUEUES), ...Object.values(MAPS)]
  return [...new Set(ways.map(({ needs }) => needs))].flatMap((name) => {
    const found = version(name)
    return found === undefined ? [] : [`${name} ${found}`]
  })
}

/** @param {string} name */
function version(name) {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url)
  return existsSync(file) && name !== FLOOR
    ? String(JSON.parse(readFileSync(file, 'utf8')).version)
    : undefined
}

/**
 * An export of the toolkit, from the first of its files that there is.
 *
 * @param {string} name
 */
async function kit(name) {
  for (const path of KIT[name] ?? []) {
    const url = new URL(path, dist)
    if (!existsSync(url)) continue
    const found = (await import(url.href))[name]
    if (found !== undefined) return found
  }
  return undefined
}

/** @param {(concurrency: number) => (task: Task, priority: number) => unknown} create */
function floor(create) {
  return { needs: FLOOR, make: async (/** @type {number} */ c) => ({ add: create(c) }) }
}

/**
 * @param {number} concurrency
 * @param {object} settings
 * @returns {Promise<Contender>}
 */
async function makeLimiter(concurrency, settings) {
  const limit = (await kit('createLimiter'))(concurrency, settings)
  return {
    add: (task, priority) => (priority === 0 ? limit(task) : limit(task, { priority })),
  }
}

/** @type {Way['make']} */
async function makePLimit(concurrency) {
  const { default: pLimit } = await import('p-limit')
  const limit = pLimit(concurrency)
  return { add: (task) => limit(task) }
}

/** @param {{ concurrency: number, timeout?: number }} settings */
async function makePQueue(settings) {
  const { default: PQueue } = await import('p-queue')
  const queue = new PQueue(settings)
  /** @type {Add} */
  const add = (task, priority) => (priority === 0 ? queue.add(task) : queue.add(task, { priority }))
  return { add }
}

/** @type {Way['make']} */
async function makeFastq(concurrency) {
  const { default: fastq } = await import('fastq')
  const queue = fastq.promise((/** @type {Task} */ task) => task(), concurrency)
  return { add: (task) => queue.push(task) }
}

/** @type {Way['make']} */
async function makeHenrygd(concurrency) {
  const { newQueue } = await import('@henrygd/queue')
  const queue = newQueue(concurrency)
  return { add: (task) => queue.add(task) }
}

/** @type {Way['make']} */
async function makeHenrygdContext(concurrency) {
  const { newQueue } = await import('@henrygd/queue/async-storage')
  const queue = newQueue(concurrency)
  return { add: (task) => queue.add(task) }
}

/** @type {Way['make']} */
async function makeAsyncQueue(concurrency) {
  const queue = require('async').queue(async (/** @type {Task} */ task) => task(), concurrency)
  return { add: (task) => queue.pushAsync(task) }
}

/**
 * Its smallest number comes first, and no push gives a promise.
 *
 * @type {Way['make']}
 */
async function makeAsyncPriorityQueue(concurrency) {
  const worker = async (/** @type {Task} */ task) => task()
  const queue = require('async').priorityQueue(worker, concurrency)
  return {
    add: (task, priority) => queue.push(task, 101 - priority),
    drained: () => queue.drain(),
  }
}

/** @type {Way['make']} */
async function makeBottleneck(concurrency) {
  const { default: Bottleneck } = await import('bottleneck')
  const limiter = new Bottleneck({ maxConcurrent: concurrency })
  return { add: (task) => limiter.schedule(task) }
}

/**
 * Beside a timeout: retries, one run per key, a record of each attempt that is kept, statistics,
 * a limit of the wait.
 *
 * @type {Way['make']}
 */
async function makeRunner(concurrency, size) {
  /** @type {unknown[]} */
  const timeline = []
  return makeKeyed(size, {
    concurrency,
    maxQueue: Number.POSITIVE_INFINITY,
    enqueueTimeout: LIMIT_MS,
    timeoutMs: LIMIT_MS,
    retry: { retries: 3 },
    onAttempt: (/** @type {unknown} */ record) => timeline.push(record),
  })
}

/** @type {Way['make']} */
async function makeBareRunner(concurrency, size) {
  const maxQueue = Number.POSITIVE_INFINITY
  return makeKeyed(size, { concurrency, maxQueue, enqueueTimeout: 0, retry: { retries: 0 } })
}

/**
 * @param {number} size
 * @param {object} settings
 */
async function makeKeyed(size, settings) {
  const runner = (await kit('createRunner'))(settings)
  const keys = Array.from({ length: size }, (_, at) => `key-${at}`)
  /** @type {Add} */
  const add = (task, _, at) => runner(keys[at], task)
  return { add }
}

/** @param {object} settings */
async function makeMap(settings) {
  const create = await kit('createLimiter')
  /** @type {Mapper} */
  return async (items, concurrency, fn) => create(concurrency).map(items, fn, settings)
}

/** @type {MapWay['make']} */
async function makePromisePool() {
  const { PromisePool } = await import('@supercharge/promise-pool')
  return async (items, concurrency, fn) => {
    const pool = PromisePool.for([...items]).withConcurrency(concurrency)
    return (await pool.process((item) => fn(item))).results
  }
}

/** @type {MapWay['make']} */
async function makePLimitMap() {
  const { default: pLimit } = await import('p-limit')
  return async (items, concurrency, fn) => pLimit(concurrency).map(items, fn)
}

/** @type {MapWay['make']} */
async function makeMinStream() {
  return async (items, concurrency, fn) => floors.minStream(items, concurrency, fn)
}
