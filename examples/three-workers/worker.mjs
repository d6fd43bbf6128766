// node worker.mjs NAME URL PREFIX FOLDER [JAMS]: a worker like any other. It runs orders until it is
// told to stop: charges each in the ledger, and prints a receipt. With JAMS its printer jams at that
// order, and it says so to whoever started it.

import { setTimeout as sleep } from 'node:timers/promises'
import { AxScheduler } from 'ax-scheduler'
import { redisStore } from 'ax-scheduler/redis'
import { openLedger } from './ledger.mjs'
import { LEASE, POOLS } from './terms.mjs'

const [name = '', url = '', prefix = '', folder = '', jams = ''] = process.argv.slice(2)
const ledger = openLedger(folder)
const store = redisStore(url, { prefix })
const scheduler = new AxScheduler({ store, name, pools: POOLS, leaseMs: LEASE, autoStart: false })
let orders = 0

scheduler.define('order', { pool: 'orders' }, async ({ payload, idempotencyKey, signal }) => {
  const { order } = /** @type {{ order: string }} */ (payload)
  orders += 1
  const nth = orders
  await sleep(50 + 50 * Math.random(), undefined, { signal })
  // The same key in every attempt: this is why nobody pays twice.
  const isNew = ledger.charge(idempotencyKey, { order, by: name })
  if (nth === Number(jams)) {
    process.send?.({ jammed: order })
    await sleep(60_000, undefined, { signal })
  }
  return isNew ? 'charged' : 'had been charged'
})

await scheduler.start()
process.send?.({ started: name })
process.once('SIGTERM', async () => {
  await scheduler.close()
  await store.close()
  process.disconnect?.()
})
