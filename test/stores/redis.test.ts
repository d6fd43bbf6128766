// Owns the proof that the Redis store keeps the promises of the port.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Store } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { conformance } from '../../src/testing/conformance.ts'
import { type RedisServer, startRedis } from './redis-server.ts'

let server: RedisServer
let stores = 0

beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

/** A prefix of its own each time; everything is gone again when the store is closed. */
async function open(clock: { now(): number }): Promise<Store> {
  stores += 1
  const store = redisStore(server.url, { prefix: `test ${stores}`, now: () => clock.now() })
  const close = store.close.bind(store)
  store.close = async () => {
    await close()
    await server.client.flushall()
  }
  return store
}

const seeds = Number(process.env.AX_REDIS_SEEDS ?? 30)

conformance('Redis', open, { describe, it, expect }, { seeds })
