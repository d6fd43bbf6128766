// Owns how calls reach a Redis server: together, as functions, and as scripts where there are none.
// May never look at what the calls do: that is the conformance suite.

import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import type { Store } from '../../src/store/store.ts'
import { type RedisOptions, redisStore } from '../../src/stores/redis/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'

let server: RedisServer
/** For looking at what is there. */
let client: Redis
const opened: Store[] = []

function storeOn(url = server.url, options: RedisOptions = {}): Store {
  const store = redisStore(url, { prefix: 'calls', ...options })
  opened.push(store)
  return store
}

const add = (store: Store, ...ids: readonly string[]) =>
  store.insert([{ jobs: ids.map((id) => newJob(id)), unknownDeps: 'wait' }], false)

const lease = (store: Store) =>
  store.lease({ holder: 'w', leaseMs: 60_000, max: 1, types: ['alpha'] }, false)

/** How often clients have called this since the figures were set back. */
async function callsOf(command: string): Promise<number> {
  const stats = await client.info('commandstats')
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
}

describeOnRedis('calls of a Redis server', () => {
  beforeAll(async () => {
    server = await startRedis()
    client = new Redis(server.url)
  })
  beforeEach(() => client.config('RESETSTAT'))
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close()
    await client.flushall()
    await client.function('FLUSH')
  })
  afterAll(() => client.disconnect())

  it('go together if they were made in one turn, each a step of its own, in order', async () => {
    const store = storeOn()
    await store.open()
    const before = await callsOf('fcall')
    const [added, leased, counted] = await Promise.all([
      add(store, 'a', 'b'),
      lease(store),
      store.count(),
    ])
    expect(added.answer[0]).toMatchObject({ status: 'done' })
    expect(leased.answer.jobs.map((job) => job.id)).toEqual(['a'])
    expect(counted.held.map((job) => job.id)).toEqual(['a'])
    // What only reads goes by itself.
    expect((await callsOf('fcall')) - before).toBe(2)
  })

  it('say of all that went together that nothing is known, if one of them fails', async () => {
    const store = storeOn()
    await store.open()
    await client.set('{calls}:heads', 'no set')
    const results = await Promise.allSettled([add(store, 'a'), lease(store)])
    expect(results.map((result) => result.status)).toEqual(['rejected', 'rejected'])
    await client.del('{calls}:heads')
    expect((await lease(store)).answer.jobs).toEqual([])
  })

  it('are loaded once, by whoever comes first, and again when the server has lost them', async () => {
    const stores = [storeOn(), storeOn()]
    await Promise.all(stores.map((store) => store.open()))
    expect(await client.function('LIST')).toHaveLength(1)
    await client.function('FLUSH')
    await Promise.all(stores.map((store, at) => add(store, `job ${at}`)))
    expect(await client.function('LIST')).toHaveLength(1)
    const [store] = stores as [Store]
    expect((await store.get(['job 0', 'job 1'])).map((job) => job?.id)).toEqual(['job 0', 'job 1'])
  })

  const lesser = [
    { lacks: 'call functions', without: '-fcall' },
    { lacks: 'load functions', without: '-function' },
    { lacks: 'load libraries', without: '-function|load' },
  ]

  it.each(lesser)('are scripts for a user who may not $lacks', async ({ without }) => {
    await client.acl('SETUSER', 'less', 'on', '>word', '~*', '&*', '+@all', without)
    const store = storeOn(server.url.replace('redis://', 'redis://less:word@'))
    await Promise.all([add(store, 'a'), lease(store)])
    expect((await store.get(['a']))[0]).toMatchObject({ id: 'a', status: 'running' })
    expect(await client.function('LIST')).toEqual([])
    expect(await callsOf('evalsha')).toBeGreaterThan(0)
    await client.acl('DELUSER', 'less')
  })

  it('are read all the same where no library can be loaded: on a server that is full', async () => {
    await add(storeOn(), 'a')
    await client.function('FLUSH')
    await client.config('SET', 'maxmemory', '1mb')
    const store = storeOn()
    expect((await store.get(['a']))[0]).toMatchObject({ id: 'a', status: 'ready' })
    await expect(add(store, 'b')).rejects.toThrow('no memory left')
    await client.config('SET', 'maxmemory', '0')
    await add(store, 'b')
    expect(await client.function('LIST')).toHaveLength(1)
  })

  it('are read all the same where no library can be loaded: on a replica', async () => {
    await add(storeOn(), 'a')
    await client.function('FLUSH')
    const store = storeOn((await startRedis({ replicaof: server })).url)
    expect((await store.get(['a']))[0]).toMatchObject({ id: 'a', status: 'ready' })
    await expect(add(store, 'b')).rejects.toThrow('this is a replica')
  })

  it('happen all the same where the library is lost as soon as it is loaded', async () => {
    const forgetful = new Redis(server.url, { maxRetriesPerRequest: 0 })
    const callBuffer = forgetful.callBuffer.bind(forgetful)
    const callAndForget = async (command: string, ...words: (string | Buffer | number)[]) => {
      const answer = await callBuffer(command, ...words)
      if (command === 'function') await client.function('FLUSH')
      return answer
    }
    forgetful.callBuffer = callAndForget as Redis['callBuffer']
    const store = redisStore(forgetful, { prefix: 'calls' })
    opened.push(store)
    await store.open()
    await Promise.all([add(store, 'a'), lease(store)])
    expect((await store.get(['a']))[0]).toMatchObject({ id: 'a', status: 'running' })
    forgetful.disconnect()
  })

  it('give no number twice, although one has ended amid its writes', async () => {
    const store = storeOn()
    await add(store, 'a')
    await client.rename('{calls}:log', '{calls}:kept')
    await client.set('{calls}:log', 'no stream')
    await expect(add(store, 'b')).rejects.toThrow('used by something else')
    await client.rename('{calls}:kept', '{calls}:log')
    await add(store, 'c')
    const jobs = await store.get(['a', 'b', 'c'])
    expect(jobs.map((job) => job?.id)).toEqual(['a', 'b', 'c'])
    expect(new Set(jobs.map((job) => job?.seq)).size).toBe(3)
    const page = await store.events(0, 10)
    expect(page.events.map(({ seq, job }) => `${seq} ${job}`)).toEqual(['1 a', '3 c'])
  })

  it('give no number twice, although one has ended while it drew its edges', async () => {
    const store = storeOn()
    await add(store, 'a')
    const job = { ...newJob('b'), deps: [{ id: 'a', on: 'success' as const }] }
    await client.set('{calls}:named', 'no hash')
    const adding = store.insert([{ jobs: [job], unknownDeps: 'wait' }], false)
    await expect(adding).rejects.toThrow('used by something else')
    await client.del('{calls}:named')
    await add(store, 'c')
    const edge = (await client.callBuffer('zrange', '{calls}:d:a', '0', '-1')) as Buffer[]
    expect((await store.get(['c']))[0]?.seq).toBeGreaterThan(edge[0]?.readUIntBE(0, 6) ?? 0)
  })
})
