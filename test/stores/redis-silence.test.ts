// Owns that every wait for a server ends, and that what is said of it names the reason.
// May never wait for half a minute: the timers of these stores are the test's.

import { Cluster, Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { type Runtime, systemRuntime } from '../../src/kit/runtime.ts'
import type { Store } from '../../src/store/store.ts'
import { type RedisOptions, redisStore } from '../../src/stores/redis/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { startCluster } from '../servers/cluster.ts'
import { startProxy } from '../servers/proxy.ts'
import { startRedis, until } from '../servers/redis.ts'
import { ask } from '../servers/resp.ts'
import { describeOnRedis } from '../servers/suites.ts'

/** Nobody listens there. */
const NOWHERE = { host: '127.0.0.1', port: 1 }

const ended: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end()
})

/** Timers that go off when the test says so: those that are set for so long. */
function byHand() {
  const timers = new Map<() => void, number>()
  const runtime: Runtime = {
    ...systemRuntime,
    after: (ms, run) => {
      timers.set(run, ms)
      return { cancel: () => timers.delete(run) }
    },
  }
  const pass = async (ms: number) => {
    await until('it waits', async () => [...timers.values()].includes(ms))
    for (const [run, each] of [...timers]) {
      if (each !== ms) continue
      timers.delete(run)
      run()
    }
  }
  return { runtime, timers, pass }
}

function storeOn(given: string | Redis | Cluster, options: RedisOptions = {}): Store {
  const store = redisStore(given, options)
  ended.push(() => store.close())
  return store
}

function clientOf<T extends Redis | Cluster>(client: T): T {
  ended.push(() => client.disconnect())
  return client
}

async function errorOf(call: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(Error)
  return error as Error & Record<string, unknown>
}

const add = (store: Store, id: string) =>
  store.insert([{ jobs: [newJob(id)], unknownDeps: 'wait' }], false)

const RETRYABLE = { code: 'STORE_UNAVAILABLE', retryable: true }

describe('a client that would wait for ever', () => {
  it('of a cluster that is all away is given up after 30 s, with the reason', async () => {
    const { runtime, timers, pass } = byHand()
    const cluster = clientOf(new Cluster([NOWHERE], { redisOptions: { maxRetriesPerRequest: 0 } }))
    const store = storeOn(cluster, { runtime })
    const heard = new Promise((resolve) => cluster.once('node error', resolve))
    const call = errorOf(store.open())
    await heard
    await pass(30_000)
    const error = await call
    expect(error).toMatchObject(RETRYABLE)
    expect(error.message).toMatch(/Command timed out; .*127\.0\.0\.1:1: Connection is closed/)
    expect(timers.size).toBe(0)
    const listening = errorOf(store.watch(() => {}))
    await pass(30_000)
    expect(await listening).toMatchObject(RETRYABLE)
    expect(timers.size).toBe(0)
  })

  it('of one server, that keeps calls until it is there, is given up as well', async () => {
    const { runtime, pass } = byHand()
    const client = clientOf(new Redis({ ...NOWHERE, maxRetriesPerRequest: null }))
    const call = errorOf(storeOn(client, { runtime }).open())
    await new Promise((resolve) => client.once('error', resolve))
    await pass(30_000)
    expect(await call).toMatchObject(RETRYABLE)
    expect((await call).message).toContain('ECONNREFUSED')
  })

  it('and limits its calls by itself is left to that', async () => {
    const { runtime, timers } = byHand()
    const client = clientOf(
      new Redis({ ...NOWHERE, maxRetriesPerRequest: null, commandTimeout: 100 }),
    )
    expect(await errorOf(storeOn(client, { runtime }).open())).toMatchObject(RETRYABLE)
    expect(timers.size).toBe(0)
  })
})

describeOnRedis('a cluster of which nobody is left', () => {
  it('is given up after 30 s by whoever has worked with it, and by who listens', async () => {
    const { nodes } = await startCluster(2)
    const { runtime, pass } = byHand()
    const at = nodes.map(({ port }) => ({ host: '127.0.0.1', port }))
    const options = { redisOptions: { maxRetriesPerRequest: 0 }, retryDelayOnFailover: 0 }
    const client = clientOf(new Cluster(at, options))
    client.on('error', () => {})
    const store = storeOn(client, { runtime })
    await add(store, 'a')
    for (const node of nodes) await node.kill()
    await until('the client knows', async () => client.status === 'reconnecting')
    const call = errorOf(add(store, 'b'))
    await pass(30_000)
    expect(await call).toMatchObject(RETRYABLE)
  }, 60_000)
})

describe('the message of a lost connection', () => {
  it.each([
    ['nobody listens', 'redis://me:secret@127.0.0.1:1', 'ECONNREFUSED'],
    ['nobody listens, at either address', 'redis://me:secret@localhost:1', 'ECONNREFUSED'],
    ['there is no such host', 'redis://me:secret@nobody.invalid', 'ENOTFOUND|EAI_AGAIN'],
  ])('says that %s', async (_, url, why) => {
    const store = storeOn(url)
    for (const call of [() => store.open(), () => store.count(), () => store.watch(() => {})]) {
      const error = await errorOf(call())
      expect(error).toMatchObject(RETRYABLE)
      expect(error.message).toMatch(new RegExp(why))
      expect(error.message + String(error.cause)).not.toContain('secret')
    }
  })

  it('says why there is none to a client that was handed in', async () => {
    const client = clientOf(new Redis({ ...NOWHERE, password: 'secret', maxRetriesPerRequest: 0 }))
    const error = await errorOf(storeOn(client).open())
    expect(error).toMatchObject(RETRYABLE)
    expect(error.message).toContain('ECONNREFUSED')
    expect(error.message).not.toContain('secret')
  })
})

describeOnRedis('a server that does not let in', () => {
  it('is quoted to a client that was handed in', async () => {
    const server = await startRedis({ requirepass: 'right' })
    const { port } = server
    const client = clientOf(new Redis({ port, password: 'wrong one', maxRetriesPerRequest: 0 }))
    const error = await errorOf(storeOn(client).open())
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
    expect(error.message).toContain('does not take this user and password')
    expect(error.message).not.toContain('wrong one')
  })

  it('closes a connection amid a call, and that is said', async () => {
    const server = await startRedis()
    const proxy = await startProxy(server.url)
    const store = storeOn(proxy.url)
    await add(store, 'a')
    proxy.freeze()
    const call = errorOf(add(store, 'b'))
    await until('something has vanished', async () => proxy.lost > 0)
    proxy.cut()
    expect((await call).message).toMatch(/no answer \(.*(closed|ECONNRESET).*not known whether/)
  })
})

describeOnRedis('a database that the server does not have', () => {
  it.each(['/99', '?db=99', '/99?db=99'])('is refused in a URL with %s', async (end) => {
    const server = await startRedis()
    const error = await errorOf(add(storeOn(server.url + end), 'a'))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'url', value: '/99' })
    expect(await ask(server.url, 'DBSIZE')).toBe(0)
  })

  it('is refused in a client that was handed in', async () => {
    const server = await startRedis()
    const client = clientOf(new Redis({ port: server.port, db: 99 }))
    const error = await errorOf(add(storeOn(client), 'a'))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'client', value: 'db 99' })
    expect(await ask(server.url, 'DBSIZE')).toBe(0)
  })

  it.each(['redis://h/1?db=2', 'redis://h?db=one', 'redis://h?db=-1'])(
    'cannot be told from %s',
    (url) => {
      expect(() => redisStore(url)).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION', option: 'url' }),
      )
    },
  )

  it('may be named in a query', async () => {
    const server = await startRedis()
    await add(storeOn(`${server.url}?db=3`), 'a')
    const [job] = await storeOn(`${server.url}/3`).get(['a'])
    expect(job?.id).toBe('a')
    expect(await ask(server.url, 'DBSIZE')).toBe(0)
  })

  it('is not written past when the server comes back without it', async () => {
    const args = ['--databases', '9']
    const server = await startRedis({ args })
    const store = storeOn(`${server.url}/8`)
    const client = clientOf(
      new Redis({ port: server.port, db: 8, maxRetriesPerRequest: 0, retryStrategy: () => 20 }),
    )
    client.on('error', () => {})
    const other = storeOn(client, { prefix: 'other' })
    await add(store, 'a')
    await add(other, 'a')
    args[1] = '2'
    await server.restart()
    await until('both are told', async () => {
      const errors = await Promise.all([
        store.count().catch((error: unknown) => error),
        other.count().catch((error: unknown) => error),
      ])
      return errors.every((error) => /DB index/.test(String(error)))
    })
    const error = await errorOf(add(store, 'b'))
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
    expect(await errorOf(add(other, 'b'))).toMatchObject({ retryable: false })
    expect(await ask(server.url, 'DBSIZE')).toBe(0)
  })
})

describeOnRedis('close() of a store', () => {
  it('leaves a server that does not answer after 2 s', async () => {
    const server = await startRedis()
    const proxy = await startProxy(server.url)
    const { runtime, pass } = byHand()
    const store = storeOn(proxy.url, { runtime })
    await add(store, 'a')
    await store.watch(() => {})
    proxy.freeze()
    const call = errorOf(add(store, 'b'))
    const closing = store.close()
    await pass(2_000)
    await closing
    expect(await call).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })
})
