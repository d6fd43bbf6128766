// Owns the hand-written floors of the toolkit's comparison: the least that limits concurrency.
// May never do more than the cell it stands beside asks for, nor import anything of ax.

import { AsyncResource } from 'node:async_hooks'

/**
 * @typedef {() => Promise<unknown>} Task
 * @typedef {(value: unknown) => void} Settle
 * @typedef {{ task: Task, resolve: Settle, reject: Settle }} Waiting
 */

const SMALLEST = 16
const LEVELS = 128
const quiet = { requireManualDestroy: true }

/**
 * A first-in-first-out ring that only grows.
 *
 * @template T
 */
class Ring {
  /** @type {(T | undefined)[]} */
  #values = new Array(SMALLEST).fill(undefined)
  #head = 0
  size = 0

  /** @param {T} value */
  push(value) {
    if (this.size === this.#values.length) this.#grow()
    this.#values[(this.#head + this.size) & (this.#values.length - 1)] = value
    this.size += 1
  }

  /** @returns {T | undefined} */
  shift() {
    if (this.size === 0) return undefined
    const value = this.#values[this.#head]
    this.#values[this.#head] = undefined
    this.#head = (this.#head + 1) & (this.#values.length - 1)
    this.size -= 1
    return value
  }

  #grow() {
    const before = this.#values
    this.#values = new Array(2 * before.length).fill(undefined)
    for (let at = 0; at < before.length; at += 1) {
      this.#values[at] = before[(this.#head + at) & (before.length - 1)]
    }
    this.#head = 0
  }
}

/**
 * One promise per task, and two functions of its own that hear of its end.
 *
 * @param {number} concurrency
 */
export function minSemaphore(concurrency) {
  /** @type {Ring<Waiting>} */
  const ring = new Ring()
  let active = 0
  /** @param {Waiting} waiting */
  const run = ({ task, resolve, reject }) => {
    task().then(
      (value) => {
        resolve(value)
        next()
      },
      (error) => {
        reject(error)
        next()
      },
    )
  }
  const next = () => {
    const waiting = ring.shift()
    if (waiting === undefined) active -= 1
    else run(waiting)
  }
  return (/** @type {Task} */ task) => {
    return new Promise((resolve, reject) => {
      if (active === concurrency) ring.push({ task, resolve, reject })
      else {
        active += 1
        run({ task, resolve, reject })
      }
    })
  }
}

/**
 * The same with as many reusable slots as may run at once, so that no function is made per task.
 *
 * @param {number} concurrency
 */
export function minSlots(concurrency) {
  /** @type {Ring<Waiting>} */
  const ring = new Ring()
  const start = slots(concurrency, () => ring.shift())
  return (/** @type {Task} */ task) => {
    return new Promise((resolve, reject) => {
      const waiting = { task, resolve, reject }
      if (!start(waiting)) ring.push(waiting)
    })
  }
}

/**
 * The same, and a task sees the AsyncLocalStorage of its caller: what that promise alone costs.
 *
 * @param {number} concurrency
 */
export function minSlotsContext(concurrency) {
  /** @type {Ring<WaitingInContext>} */
  const ring = new Ring()
  const start = slots(concurrency, () => ring.shift())
  return (/** @type {Task} */ task) => {
    return new Promise((resolve, reject) => {
      const waiting = new WaitingInContext(task, resolve, reject)
      if (!start(waiting)) ring.push(waiting)
    })
  }
}

class WaitingInContext extends AsyncResource {
  /**
   * @param {Task} body
   * @param {Settle} resolve
   * @param {Settle} reject
   */
  constructor(body, resolve, reject) {
    super('FLOOR', quiet)
    this.body = body
    this.resolve = resolve
    this.reject = reject
  }

  task() {
    return this.runInAsyncScope(this.body)
  }
}

/**
 * Slots and one ring per priority, with a bit that says whether it holds anything.
 *
 * @param {number} concurrency
 */
export function minPrioBucket(concurrency) {
  /** @type {Ring<Waiting>[]} */
  const rings = Array.from({ length: LEVELS }, () => new Ring())
  const busy = new Int32Array(LEVELS / 32)
  const shift = () => {
    for (let at = busy.length - 1; at >= 0; at -= 1) {
      const bits = busy[at] ?? 0
      if (bits === 0) continue
      const bit = 31 - Math.clz32(bits)
      const ring = rings[32 * at + bit]
      const waiting = ring?.shift()
      if (ring?.size === 0) busy[at] = bits & ~(1 << bit)
      return waiting
    }
    return undefined
  }
  const start = slots(concurrency, shift)
  return (/** @type {Task} */ task, /** @type {number} */ priority) => {
    return new Promise((resolve, reject) => {
      const waiting = { task, resolve, reject }
      if (start(waiting)) return
      rings[priority]?.push(waiting)
      busy[priority >> 5] = (busy[priority >> 5] ?? 0) | (1 << (priority & 31))
    })
  }
}

/**
 * Starts a task if a slot is free; a slot whose task has ended takes what `shift` gives.
 *
 * @param {number} concurrency
 * @param {() => Waiting | undefined} shift
 * @returns {(waiting: Waiting) => boolean}
 */
function slots(concurrency, shift) {
  /** @type {((waiting: Waiting) => void)[]} */
  const free = Array.from({ length: concurrency }, () => {
    /** @type {Waiting | undefined} */
    let current
    const run = (/** @type {Waiting} */ waiting) => {
      current = waiting
      waiting.task().then(succeed, fail)
    }
    const go = () => {
      current = shift()
      if (current === undefined) free.push(run)
      else run(current)
    }
    const succeed = (/** @type {unknown} */ value) => {
      current?.resolve(value)
      go()
    }
    const fail = (/** @type {unknown} */ error) => {
      current?.reject(error)
      go()
    }
    return run
  })
  return (waiting) => {
    const run = free.pop()
    run?.(waiting)
    return run !== undefined
  }
}

/** No limit at all: what one promise per task costs anybody. */
export function unlimited() {
  return (/** @type {Task} */ task) => task()
}

/**
 * So many loops over one array: a `map` that hands over its results all at once, at the end.
 *
 * @template I, O
 * @param {readonly I[]} items
 * @param {number} concurrency
 * @param {(item: I) => Promise<O>} fn
 */
export async function minPool(items, concurrency, fn) {
  const results = new Array(items.length)
  let at = 0
  const loop = async () => {
    while (at < items.length) {
      const mine = at
      at += 1
      results[mine] = await fn(/** @type {I} */ (items[mine]))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, loop))
  return /** @type {O[]} */ (results)
}

/**
 * The least that hands over one result after the other, in order, to a `for await`: a window of
 * promises over the items.
 *
 * @template I, O
 * @param {readonly I[]} items
 * @param {number} concurrency
 * @param {(item: I) => Promise<O>} fn
 * @returns {AsyncIterable<O>}
 */
export function minStream(items, concurrency, fn) {
  /** @type {Ring<Promise<O>>} */
  const ring = new Ring()
  let at = 0
  const fill = () => {
    while (ring.size < concurrency && at < items.length) {
      ring.push(fn(/** @type {I} */ (items[at])))
      at += 1
    }
  }
  const wrap = (/** @type {O} */ value) => {
    fill()
    return { done: false, value }
  }
  const next = () => {
    fill()
    const oldest = ring.shift()
    if (oldest === undefined) return Promise.resolve({ done: true, value: undefined })
    return oldest.then(wrap)
  }
  return { [Symbol.asyncIterator]: () => /** @type {AsyncIterator<O>} */ ({ next }) }
}
