// Owns the promises of the Redis store on a cluster: a prefix lives in one slot, on whichever node
// has that, and the slot may move. May never look at one node only.

import { Cluster as ClusterClient } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import type { Hint, Store } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { conformance } from '../../src/testing/conformance.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { type Cluster, startCluster } from '../servers/cluster.ts'
import type { RedisServer } from '../servers/redis.ts'
import { ask } from '../servers/resp.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { allEvents, allJobs, findingsOf } from './reading.ts'

/** Histories beside the model, of all three nodes together. */
const seeds = Number(process.env.AX_REDIS_CLUSTER_SEEDS ?? 3)

const NODES = [0, 1, 2] as const

/** How many keys stay behind in the middle of a move: none, some, all but a few, and all. */
const LEFT = [0, 5, 20, 1_000] as const

describeOnRedis('a cluster', () => {
  let cluster: Cluster
  let client: ClusterClient
  let names = 0
  const clients: ClusterClient[] = []
  const stores: Store[] = []

  beforeAll(async () => {
    // What a server has answered is with the system: a server that is killed loses nothing of it.
    cluster = await startCluster(NODES.length, { appendonly: true, appendfsync: 'no' })
    client = newClient()
  }, 60_000)
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close()
    for (const { url } of cluster.nodes) await ask(url, 'FLUSHALL')
  })
  afterAll(() => {
    for (const each of clients) each.disconnect()
  })

  /** It gives up soon on a slot that is on its way: a call is asked again after 5 ms, four times. */
  function newClient(): ClusterClient {
    const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }))
    const made = new ClusterClient(nodes, {
      redisOptions: { maxRetriesPerRequest: 0 },
      retryDelayOnFailover: 0,
      retryDelayOnTryAgain: 5,
      maxRedirections: 4,
    })
    made.on('error', () => {})
    clients.push(made)
    return made
  }

  const slotOf = (prefix: string) => cluster.slotOf(`{${prefix}}:state`)

  /** A prefix that nobody has used, on that node. */
  async function prefixOn(node: RedisServer | undefined): Promise<string> {
    for (;;) {
      names += 1
      const prefix = `prefix ${names}`
      if ((await cluster.ownerOf(await slotOf(prefix))) === node) return prefix
    }
  }

  function storeOn(prefix: string, by = client): Store {
    const store = redisStore(by, { prefix })
    stores.push(store)
    return store
  }

  /** Everything that there is of a prefix, by the keys of each node. */
  const keysOf = (prefix: string) =>
    Promise.all(
      cluster.nodes.map(async ({ url }) => {
        const keys = (await ask(url, 'KEYS', `{${prefix}}:*`)) as string[]
        return keys.length
      }),
    )

  let opened = 0
  conformance(
    'Redis, on each node of a cluster in turn,',
    async (clock) => {
      opened += 1
      const prefix = await prefixOn(cluster.nodes[opened % NODES.length])
      const store = redisStore(client, { prefix, now: () => clock.now() })
      stores.push(store)
      return store
    },
    { describe, it, expect },
    { seeds, crowds: 1 },
  )

  it.each(NODES)('has a prefix on node %i, in which a flow runs', async (node) => {
    const prefix = await prefixOn(cluster.nodes[node])
    const worker = new AxScheduler({ store: storeOn(prefix), concurrency: 4 })
    const ended: string[] = []
    worker.define('t', ({ job }) => {
      ended.push(job.id)
      return job.id
    })
    await worker.start()
    const submitter = new AxScheduler({ store: storeOn(prefix, newClient()), autoStart: false })
    const flow = await submitter.addJobs([
      { id: 'end', type: 't', deps: ['left', 'right'] },
      { id: 'left', type: 't', deps: ['start'], exclusive: 'lane' },
      { id: 'right', type: 't', deps: ['start'], exclusive: 'lane' },
      { id: 'start', type: 't', key: 'key' },
    ])
    expect(await Promise.all(flow.map((job) => job.result()))).toEqual([
      ...['end', 'left', 'right', 'start'],
    ])
    expect([ended[0], ended[3]]).toEqual(['start', 'end'])
    const there = await keysOf(prefix)
    expect(there.map((count) => count > 0)).toEqual(NODES.map((each) => each === node))
    expect(await findingsOf(storeOn(prefix))).toEqual([])
    await submitter.close()
    await worker.close()
  })

  it.each(NODES)('carries hints from client to client, of a prefix on node %i', async (node) => {
    const prefix = await prefixOn(cluster.nodes[node])
    let wake = (_: Hint) => {}
    const heard = new Promise<Hint>((resolve) => {
      wake = resolve
    })
    await storeOn(prefix).watch((hint) => wake(hint))
    await add(storeOn(prefix, newClient()), 'a')
    expect(await heard).toMatchObject({ ready: true })
  })

  it('refuses to wait for replicas, of which the client cannot say which node they follow', () => {
    for (const option of ['waitReplicas', 'waitAof']) {
      expect(() => redisStore(client, { [option]: 1 })).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION', option }),
      )
    }
  })

  it('serves a prefix that is new to it while the node of others is down', async () => {
    const prefix = await prefixOn(cluster.nodes[0])
    const by = newClient()
    await by.ping()
    for (const { url } of cluster.nodes) await ask(url, 'FUNCTION', 'FLUSH')
    const down = cluster.nodes[2] as RedisServer
    await down.kill()
    const store = storeOn(prefix, by)
    await add(store, 'a')
    expect((await store.get(['a']))[0]).toMatchObject({ id: 'a', status: 'ready' })
    await down.restart()
    expect(await ask(down.url, 'FUNCTION', 'LIST')).toEqual([])
  })

  it('goes on by itself when the node of its prefix was killed and is back', async () => {
    const [, , node] = cluster.nodes as [RedisServer, RedisServer, RedisServer]
    const prefix = await prefixOn(node)
    const logger = { info: () => {}, warn: () => {}, error: () => {} }
    const store = storeOn(prefix)
    const worker = new AxScheduler({ store, concurrency: 3, leaseMs: 3_000, logger })
    const seen = new Set<string>()
    let wake = () => {}
    const tenth = new Promise<void>((resolve) => {
      wake = resolve
    })
    worker.define('t', { timeout: '1m' }, async ({ job }) => {
      seen.add(job.id)
      if (seen.size === 10) wake()
      await new Promise((resolve) => setTimeout(resolve, 5))
    })
    await worker.start()
    const ids = Array.from({ length: 60 }, (_, n) => `j${n}`)
    const handles = await worker.addJobs(ids.map((id) => ({ id, type: 't' })))
    await tenth
    await node.kill()
    const error = await storeOn(prefix)
      .count()
      .catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
    await node.restart()
    await Promise.all(handles.map((handle) => handle.result()))
    expect(seen.size).toBe(ids.length)
    expect(await findingsOf(storeOn(prefix))).toEqual([])
    await worker.close()
  })

  /** Jobs in every state that lasts, and the rest of what a prefix has keys for. */
  async function filled(prefix: string): Promise<Store> {
    const store = storeOn(prefix)
    const jobs = [
      newJob('ready', { key: 'key', flow: 'flow', keyForMs: 60_000 }),
      newJob('lane', { exclusive: 'lane' }),
      newJob('waits', { exclusive: 'lane' }),
      newJob('after', { deps: [{ id: 'ready', on: 'success' }] }),
      newJob('ghost', { deps: [{ id: 'nobody', on: 'end' }] }),
      newJob('later', { delayMs: 3_600_000 }),
    ]
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    await store.configure({ pool: 'default', by: 'operator', terms: { paused: true } })
    return store
  }

  it('moves a slot whose pools are paused, and nothing is lost', async () => {
    const [from, to] = cluster.nodes as [RedisServer, RedisServer, RedisServer]
    const prefix = await prefixOn(from)
    const slot = await slotOf(prefix)
    const seen: string[] = []
    const worker = new AxScheduler({ store: storeOn(prefix), concurrency: 3 })
    worker.define('t', ({ job }) => {
      seen.push(job.id)
    })
    await worker.start()
    await worker.pool('default').pause()
    const ids = Array.from({ length: 40 }, (_, n) => `j${n}`)
    const handles = await worker.addJobs(
      ids.map((id, n) => ({ id, type: 't', ...(n % 4 === 3 ? { deps: [`j${n - 1}`] } : {}) })),
    )
    const store = storeOn(prefix)
    const before = [await allJobs(store), await allEvents(store)]
    await cluster.moveSlot(slot, from, to)
    expect([await allJobs(store), await allEvents(store)]).toEqual(before)
    expect(await keysOf(prefix)).toEqual([0, expect.any(Number), 0])
    expect(seen).toEqual([])
    await worker.pool('default').resume()
    await Promise.all(handles.map((handle) => handle.result()))
    expect(seen.sort()).toEqual(ids.sort())
    expect(await findingsOf(store)).toEqual([])
    await worker.close()
    await cluster.moveSlot(slot, to, from)
  })

  it('moves a slot whose jobs run, which go on where it has arrived', async () => {
    const [, from, to] = cluster.nodes as [RedisServer, RedisServer, RedisServer]
    const prefix = await prefixOn(from)
    const slot = await slotOf(prefix)
    const logger = { info: () => {}, warn: () => {}, error: () => {} }
    const worker = new AxScheduler({ store: storeOn(prefix), concurrency: 3, logger })
    const runs = new Map<string, number>()
    let wake = () => {}
    const tenth = new Promise<void>((resolve) => {
      wake = resolve
    })
    worker.define('t', async ({ job }) => {
      runs.set(job.id, (runs.get(job.id) ?? 0) + 1)
      if (runs.size === 10) wake()
      await new Promise((resolve) => setTimeout(resolve, 5))
    })
    await worker.start()
    const ids = Array.from({ length: 300 }, (_, n) => `j${n}`)
    const handles = await worker.addJobs(ids.map((id) => ({ id, type: 't' })))
    await tenth
    const amid = (leave: number) => ({
      leave,
      run: () => new Promise<void>((resolve) => setTimeout(resolve, 100)),
    })
    await cluster.moveSlot(slot, from, to, amid(10))
    await cluster.moveSlot(slot, to, from, amid(0))
    await cluster.moveSlot(slot, from, to, amid(20))
    await Promise.all(handles.map((handle) => handle.result()))
    expect([...runs.values()]).toEqual(ids.map(() => 1))
    expect(await findingsOf(storeOn(prefix))).toEqual([])
    await worker.close()
    await cluster.moveSlot(slot, to, from)
  })

  it.each(LEFT)(
    'refuses every call while at most %i keys of a slot that moves stay behind',
    async (leave) => {
      const [from, , to] = cluster.nodes as [RedisServer, RedisServer, RedisServer]
      const prefix = await prefixOn(from)
      const slot = await slotOf(prefix)
      const store = await filled(prefix)
      const before = [await allJobs(store), await allEvents(store), await store.settings()]
      const [count = 0] = await keysOf(prefix)
      expect(count).toBeGreaterThan(25)
      await cluster.moveSlot(slot, from, to, {
        leave,
        run: async () => {
          const there = await keysOf(prefix)
          expect(there[0]).toBe(Math.min(leave, count))
          for (const call of [
            () => add(store, 'b'),
            () => store.get(['ready', 'later']),
            () => store.count(),
            () => store.overdue({ limit: 10, keepLogMs: 0 }, false),
            () => store.configure({ pool: 'default', by: 'operator', terms: { paused: false } }),
            () => store.lease({ holder: 'w', leaseMs: 1_000, max: 9, types: ['alpha'] }, false),
          ]) {
            const error = await call().catch((reason: unknown) => reason)
            expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
            expect((error as Error).message).toContain('on its way to another node')
          }
          expect(await keysOf(prefix)).toEqual(there)
        },
      })
      const after = [await allJobs(store), await allEvents(store), await store.settings()]
      expect(after).toEqual(before)
      const found = await store.inspect()
      expect(found).toMatchObject({ damage: [], cycles: [], orphanedKeys: [] })
      await add(store, 'b')
      expect((await store.get(['b']))[0]?.status).toBe('ready')
      await cluster.moveSlot(slot, to, from)
    },
  )

  const add = (store: Store, id: string) =>
    store.insert([{ jobs: [newJob(id)], unknownDeps: 'wait' }], false)
})
