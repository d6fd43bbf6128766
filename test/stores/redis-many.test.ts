// Owns the proof that calls read no more than they need: of many types, and of many jobs.
// May never depend on how long anything takes: what the server is asked is counted.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Move } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import type { Store } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { KEEP, SUCCEEDED } from '../../src/testing/cases-bench.ts'
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

/** How many jobs scripts read meanwhile: `n` how they are, `j` what was said of them. */
async function readMeanwhile(
  act: () => Promise<unknown>,
): Promise<Readonly<Record<string, number>>> {
  const read: Record<string, number> = { n: 0, j: 0 }
  const monitor = await client.duplicate().monitor()
  monitor.on('monitor', (_time: string, [command = '', key = '', ...fields]: string[]) => {
    const name = key.slice(key.indexOf(':') + 1)
    if (command.toUpperCase() === 'HMGET') read[name] = (read[name] ?? 0) + fields.length
  })
  await act()
  // What is monitored comes in order: this is behind all the rest.
  const last = new Promise<void>((resolve) => {
    monitor.on('monitor', (_time: string, [command]: string[]) => {
      if (command?.toUpperCase() === 'ECHO') resolve()
    })
  })
  await client.echo('over')
  await last
  monitor.disconnect()
  return read
}

describeOnRedis('many types and jobs', () => {
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

  it('are read by a lease only as far as there is room', async () => {
    const jobs = Array.from({ length: 300 }, (_, at) => newJob(`r${at}`, { pool: 'room' }))
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    await store.configure({ pool: 'room', by: 'start', terms: { concurrency: 100 } })
    const ask = { holder: 'worker', leaseMs: 60_000, types: ['alpha'] }
    const lease = async (max: number) => (await store.lease({ ...ask, max }, false)).answer.jobs
    expect(await lease(97)).toHaveLength(97)
    expect(await readMeanwhile(() => lease(1_000))).toEqual({ n: 3, j: 3 })
    expect(await readMeanwhile(() => lease(1_000))).toEqual({ n: 0, j: 0 })
  })

  it('whose leases were given back are not read again to find the next end of one', async () => {
    const own = redisStore(server.url, { prefix: 'given back' })
    const jobs = Array.from({ length: 1_000 }, (_, at) => newJob(`g${at}`))
    await own.insert([{ jobs, unknownDeps: 'wait' }], false)
    await own.configure({ pool: 'default', by: 'start', terms: { concurrency: 100 } })
    const ask = { holder: 'worker', leaseMs: 60_000, types: ['alpha'], max: 100 }
    for (let round = 1; round <= 10; round += 1) {
      const leased = (await own.lease(ask, false)).answer.jobs
      expect(leased).toHaveLength(100)
      const moves = leased.map((job) => decide(job, SUCCEEDED, KEEP) as Move)
      // Of the last, one goes on.
      await own.apply(round < 10 ? moves : moves.slice(1), false)
    }
    // That one, and of what is kept the first to be forgotten, with those that stand beside it.
    const sweep = () => own.overdue({ limit: 100, keepLogMs: 60_000 }, false)
    expect((await readMeanwhile(sweep)).n).toBeLessThanOrEqual(101)
    await own.close()
  })
})
