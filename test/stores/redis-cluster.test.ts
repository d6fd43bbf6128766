// Owns the proof that a client of a cluster will do: all keys of a call are in one slot.
// May never need more than one node: a key in another slot would be refused all the same.

import { Cluster } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Move } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import type { Hint } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { KEEP, SUCCEEDED } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { type RedisServer, startRedis } from './redis-server.ts'

let server: RedisServer
let cluster: Cluster

beforeAll(async () => {
  server = await startRedis('--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1')
  await server.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
  const isUp = async () => String(await server.client.cluster('INFO')).includes('state:ok')
  while (!(await isUp())) await server.client.ping()
  cluster = new Cluster([{ host: '127.0.0.1', port: server.port }])
})
afterAll(async () => {
  cluster.disconnect()
  await server.stop()
})

it('keeps jobs, edges, lanes and hints by a client of a cluster, on any prefix', async () => {
  for (const prefix of ['a', 'another', 'ein dritter', '第四']) {
    const store = redisStore(cluster, { prefix })
    const other = redisStore(cluster, { prefix })
    const heard: Hint[] = []
    await store.open()
    const next = new Promise<void>((resolve) => {
      void store.watch((hint) => {
        heard.push(hint)
        resolve()
      })
    })
    const stop = await store.watch(() => {})
    const jobs = [
      newJob('first', { exclusive: 'lane', key: 'key', flow: 'flow' }),
      newJob('second', { exclusive: 'lane' }),
      newJob('third', { deps: [{ id: 'first', on: 'success' }] }),
    ]
    await other.insert([{ jobs, unknownDeps: 'wait' }], false)
    await next
    expect(heard[0]).toMatchObject({ ready: true })
    const ask = { holder: 'w', leaseMs: 1_000, max: 9, types: ['alpha'] }
    const { answer } = await store.lease(ask, false)
    expect(answer.jobs.map(({ id }) => id)).toEqual(['first'])
    const moves = answer.jobs.map((job) => decide(job, SUCCEEDED, KEEP) as Move)
    expect((await store.apply(moves, false)).answer.map(({ status }) => status)).toEqual(['moved'])
    const states = (await other.get(['first', 'second', 'third'])).map((job) => job?.status)
    expect(states).toEqual(['success', 'ready', 'ready'])
    expect((await store.inspect()).damage).toEqual([])
    await stop()
    await store.close()
    await other.close()
  }
})
