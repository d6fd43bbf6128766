// Owns the proof that the Redis store keeps the promises of the port.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Store } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { conformance } from '../../src/testing/conformance.ts'
import { startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'

const seeds = Number(process.env.AX_REDIS_SEEDS ?? 30)

/** Where functions cannot be called, as before 7.0, scripts take their place. */
const servers = [
  { kind: 'on a server', count: seeds, args: [] },
  { kind: 'on a server without functions', count: 10, args: ['--rename-command', 'FCALL', ''] },
]

describeOnRedis('real servers', () => {
  describe.each(servers)('$kind', ({ count, args }) => {
    let client: Redis
    let url: string
    let stores = 0

    beforeAll(async () => {
      url = (await startRedis({ args })).url
      client = new Redis(url)
    })
    afterAll(() => client.disconnect())

    /** A prefix of its own each time; everything is gone again when the store is closed. */
    async function open(clock: { now(): number }): Promise<Store> {
      stores += 1
      const store = redisStore(url, { prefix: `test ${stores}`, now: () => clock.now() })
      const close = store.close.bind(store)
      store.close = async () => {
        await close()
        await client.flushall()
      }
      return store
    }

    conformance('Redis', open, { describe, it, expect }, { seeds: count })
  })
})
