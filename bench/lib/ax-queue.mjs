// Owns how ax takes part in the comparisons of durable queues, whatever its store is.
// May never give it a setting that its cell does not name.

import { AxScheduler } from './ax.mjs'

/**
 * @param {import('../../src/index.ts').Store} store
 * @param {{
 *   concurrency: number, body?: import('./queue-measure.mjs').Body | undefined,
 * }} settings
 * @returns {Promise<import('./queue-measure.mjs').Opened>}
 */
export async function openAxOn(store, { concurrency, body }) {
  const scheduler = new AxScheduler({ store, concurrency, autoStart: false })
  if (body !== undefined) {
    scheduler.define('work', ({ payload }) => {
      return body(/** @type {import('./queue-measure.mjs').Payload} */ (payload))
    })
  }
  await scheduler.snapshot()
  return {
    add: (payload) => scheduler.addJob({ type: 'work', payload }),
    addMany: (payloads) => {
      return scheduler.addJobs(payloads.map((payload) => ({ type: 'work', payload })))
    },
    start: () => scheduler.start(),
    ended: () => scheduler.idle(),
    left: async () => {
      const { total, states } = await scheduler.snapshot()
      return total - states.success
    },
    close: async () => {
      await scheduler.close()
      await store.close()
    },
  }
}
