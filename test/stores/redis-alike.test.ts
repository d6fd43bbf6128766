// Owns the proof that jobs that are alike, and are treated as one on a server, answer like jobs that
// are not. May never share a prefix with another history.

import { afterAll, beforeAll, expect, it } from 'vitest'
import { redisStore } from '../../src/stores/redis/index.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { differenceIn, SEEDS } from './alike-histories.ts'

let server: RedisServer

/** Of each, a dump is compared fifteen times, which takes a server longer than a file. */
const HISTORIES = Math.ceil(SEEDS / 2)

describeOnRedis('jobs that are alike', () => {
  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(() => server.stop())

  it.each(Array.from({ length: HISTORIES }, (_, at) => at + 1))(
    'answer like any others in history %i',
    async (seed) => {
      const difference = await differenceIn(
        seed,
        (clock) => {
          const options = { prefix: `alike ${seed}`, now: () => clock.now() }
          const processes = seed % 3 === 0 ? 2 : 1
          return Array.from({ length: processes }, () => redisStore(server.url, options))
        },
        async () => undefined,
      )
      expect(difference).toBeUndefined()
    },
    60_000,
  )
})
