// Owns the proof that a lease reads the head of each of many types once, however many it grants.
// May never depend on how long anything takes: what the server is asked is counted.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Store } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'

const TYPES = 500
const SLOTS = 200

let server: RedisServer
let store: Store
/** For looking at what the server has been asked. */
let client: Redis

/** How often each command has been run, those of scripts included. */
async function commands(): Promise<ReadonlyMap<string, number>> {
  const text = await client.info('commandstats')
  const found = text.matchAll(/cmdstat_(\w+):calls=(\d+)/g)
  return new Map([...found].map(([, name = '', calls]) => [name, Number(calls)]))
}

describeOnRedis('many types', () => {
  beforeAll(async () => {
    server = await startRedis()
    client = new Redis(server.url)
    store = redisStore(server.url, { prefix: 'many' })
  })
  afterAll(async () => {
    await store.close()
    client.disconnect()
  })

  it('have the head of each read once by a lease', async () => {
    const types = Array.from({ length: TYPES }, (_, at) => `type-${at}`)
    // Two of each type, so that each queue that is taken of goes on; in an order of their own.
    const jobs = [...types, ...types].map((type, at) => {
      return newJob(`job-${at}`, { type, priority: (at * 37) % 100 })
    })
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    const terms = { concurrency: SLOTS }
    await store.configure({ pool: 'default', by: 'start', terms })
    await client.config('RESETSTAT')
    const ask = { holder: 'worker', leaseMs: 60_000, max: SLOTS, types }
    const { answer } = await store.lease(ask, false)
    const asked = await commands()
    const order = jobs
      .slice()
      .sort((a, b) => b.priority - a.priority)
      .slice(0, SLOTS)
    expect(answer.jobs.map(({ id }) => id)).toEqual(order.map(({ id }) => id))
    expect(asked.get('zrange')).toBeLessThanOrEqual(TYPES + 2 * SLOTS)
    const sum = [...asked.values()].reduce((all, calls) => all + calls, 0)
    expect(sum).toBeLessThanOrEqual(4 * TYPES + 8 * SLOTS)
  })
  it('are added up once by a call that judges many groups for a bounded pool', async () => {
    const types = Array.from({ length: TYPES }, (_, at) => `type-${at}`)
    const jobs = types.map((type) => newJob(`bounded ${type}`, { type, pool: 'bounded' }))
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    const terms = { maxQueue: TYPES + 20, overflow: 'reject' } as const
    await store.configure({ pool: 'bounded', by: 'start', terms })
    const groups = Array.from({ length: 30 }, (_, at) => {
      const type = types[at] as string
      return {
        jobs: [newJob(`single ${at}`, { type, pool: 'bounded' })],
        unknownDeps: 'wait',
      } as const
    })
    await client.config('RESETSTAT')
    const { answer } = await store.insert(groups, false)
    const asked = await commands()
    const done = answer.filter(({ status }) => status === 'done')
    expect(done).toHaveLength(20)
    expect(answer.slice(20).every(({ status }) => status === 'refused')).toBe(true)
    expect(asked.get('hgetall')).toBe(1)
  })
})
