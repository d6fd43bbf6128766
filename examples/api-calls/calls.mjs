// 5,000 calls to the API: what is called, on what terms, and what came of it.
// It runs on simulated time, so that a minute takes a second and every run is like the last.

import { createRunner } from 'ax-scheduler'
import { virtualRuntime } from 'ax-scheduler/testing'
import { createApi } from './api.mjs'

/**
 * @typedef {import('ax-scheduler').RunnerOptions} RunnerOptions
 * @typedef {import('ax-scheduler').RunnerStats} RunnerStats
 * @typedef {{ order: string, amount: number }} Delivery
 * @typedef {{
 *   concurrency: RunnerOptions['concurrency'],
 *   ill?: boolean | undefined,
 *   quota?: number | undefined,
 *   breaker?: RunnerOptions['breaker'],
 *   stopWhen?: { failureRate: number, window: number },
 * }} Setting
 * @typedef {{
 *   during: RunnerStats, stats: RunnerStats, seconds: number, skipped: number,
 *   api: { requests: number, charged: number, repeats: number, peak: number },
 * }} Report
 */

/**
 * What a message queue delivers: 4,800 orders, 200 of them twice, since it promises no more than
 * to deliver each at least once.
 *
 * @returns {Delivery[]}
 */
export function deliveries() {
  return Array.from({ length: 5_000 }, (_, index) => {
    const isRepeat = index % 25 === 24
    const order = isRepeat ? index - 17 : index
    return { order: `order-${order}`, amount: 5 + (order % 90) }
  })
}

/** When the figures are taken while it runs. */
const LOOK_MS = 3_000

/**
 * @param {Setting} setting
 * @returns {Promise<Report>}
 */
export async function runCalls({ concurrency, ill, quota, breaker, stopWhen }) {
  const runtime = virtualRuntime(1)
  const api = createApi(runtime, { ill, quota })
  const runner = createRunner({
    concurrency,
    maxQueue: 1_000,
    overflow: 'wait',
    enqueueTimeout: 0,
    timeoutMs: '1s',
    retry: { retries: 3, baseDelay: '500ms', maxDelay: '8s' },
    idempotent: true,
    remember: { ms: '10m', max: 10_000 },
    breaker,
    runtime,
  })
  /** @type {(order: string, amount: number, signal: AbortSignal) => Promise<unknown>} */
  const charge = (order, amount, signal) =>
    api.charge({ idempotencyKey: `charge:${order}`, amount }, signal)

  const work =
    stopWhen === undefined
      ? Promise.allSettled(
          deliveries().map(({ order, amount }) =>
            runner(order, ({ signal }) => charge(order, amount, signal)),
          ),
        )
      : runner.batch(
          deliveries(),
          ({ order, amount }, { signal }) => charge(order, amount, signal),
          {
            key: ({ order }) => order,
            stopWhen,
          },
        )
  const over = watch(work)
  await runtime.run(() => over.done, LOOK_MS)
  const during = runner.stats()
  await runtime.run(() => over.done)
  const seconds = runtime.monotonic() / 1_000
  const outcome = await work
  const skipped = 'skipped' in outcome ? outcome.skipped.length : 0
  return { during, stats: runner.stats(), seconds, skipped, api: api.seen }
}

/** @param {Promise<unknown>} work */
function watch(work) {
  const over = { done: false }
  const end = () => {
    over.done = true
  }
  work.then(end, end)
  return over
}
