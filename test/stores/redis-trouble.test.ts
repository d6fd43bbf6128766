// Owns what the Redis store says when the server, the connection or an option is not as it should.
// May never depend on how long anything takes.

import { type AddressInfo, createServer } from 'node:net'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { STRICT_WEIGHT } from '../../src/core/rank.ts'
import type { Hint, Store } from '../../src/store/store.ts'
import { type RedisOptions, redisStore } from '../../src/stores/redis/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'

let server: RedisServer
/** For looking at what is there. */
let client: Redis
const opened: Store[] = []

function storeOn(options: RedisOptions = {}): Store {
  const store = redisStore(server.url, { prefix: 'trouble', ...options })
  opened.push(store)
  return store
}

const group = (...ids: readonly string[]) => ({
  jobs: ids.map((id) => newJob(id)),
  unknownDeps: 'wait' as const,
})
const add = (store: Store, ...ids: readonly string[]) => store.insert([group(...ids)], false)

function errorIn(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  return undefined
}

/** The error of a call, which has to be one. */
async function errorOf(call: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(Error)
  return error as Error & Record<string, unknown>
}

describeOnRedis('a server with a password', () => {
  beforeAll(async () => {
    server = await startRedis({ requirepass: 'se/cret' })
    client = new Redis(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 20 })
    client.on('error', () => {})
  })
  afterEach(async () => {
    vi.doUnmock('ioredis')
    for (const store of opened.splice(0)) await store.close()
    await client.config('SET', 'maxmemory', '0')
    await client.flushall()
  })
  afterAll(() => client.disconnect())

  describe('the Redis store in trouble', () => {
    it('says that the server is gone, without its password, and works when it is back', async () => {
      const store = storeOn()
      await add(store, 'a')
      await server.kill()
      const error = await errorOf(add(store, 'b'))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
      expect(error.message).toContain(`127.0.0.1:${server.port}`)
      expect(error.message).toContain('not known whether')
      expect(JSON.stringify([error.message, error.address])).not.toContain('cret')
      await server.restart()
      await add(store, 'c')
      expect((await store.get(['a', 'c'])).map((job) => job?.id)).toEqual([undefined, 'c'])
    })

    it('says that the password is wrong', async () => {
      const url = `redis://:other@127.0.0.1:${server.port}`
      const store = redisStore(url, { prefix: 'trouble' })
      opened.push(store)
      const error = await errorOf(store.open())
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(error.message).not.toContain('other')
    })

    it('says what a user may not do, in the words of the server', async () => {
      const rights = ['on', '>pw', '~{trouble}:*', '+@all', 'resetchannels']
      await client.call('ACL', 'SETUSER', 'few', ...rights)
      const store = redisStore(`redis://few:pw@127.0.0.1:${server.port}`, { prefix: 'trouble' })
      opened.push(store)
      const error = await errorOf(store.watch(() => {}))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
      expect(error.message).toMatch(/channel of hints\. The server says: NOPERM .*channel/)
      const other = await errorOf(add(store, 'a'))
      expect(other).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
      expect(other.message).toMatch(/The server says: .*channel.*not known whether/s)
      await client.call('ACL', 'DELUSER', 'few')
    })

    it('says that what listens there is no Redis, as long as it does', async () => {
      const other = createServer((socket) => {
        socket.on('error', () => {}).resume()
        socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
      })
      await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
      const { port } = other.address() as AddressInfo
      const store = redisStore(`redis://127.0.0.1:${port}`)
      opened.push(store)
      for (let call = 0; call < 3; call += 1) {
        const error = await errorOf(store.open())
        expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
        expect(error.message).toContain('does not speak the protocol of Redis')
        expect(error.message).toContain(`127.0.0.1:${port}`)
      }
      await new Promise((resolve) => other.close(resolve))
      await vi.waitFor(async () => {
        const gone = await errorOf(store.open())
        expect(gone).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
        expect(gone.message).toContain('ECONNREFUSED')
      }, 10_000)
    })

    it('loads its scripts again when the server has forgotten them', async () => {
      const store = storeOn()
      await add(store, 'a')
      await client.script('FLUSH')
      await add(store, 'b')
      expect((await store.get(['a', 'b'])).map((job) => job?.status)).toEqual(['ready', 'ready'])
    })

    it('refuses what a later version has written', async () => {
      await client.set('{trouble}:state', Buffer.from([2]))
      const error = await errorOf(storeOn().open())
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false, version: 2 })
      expect(error.message).toContain('Update ax-scheduler')
    })

    it('says that a key is used by something else', async () => {
      await client.set('{trouble}:n', 'text')
      const error = await errorOf(add(storeOn(), 'a'))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
      expect(error.message).toContain('a prefix of its own')
    })

    it('says that there is no memory left, and has stored nothing', async () => {
      const store = storeOn()
      await add(store, 'a')
      await client.config('SET', 'maxmemory', '1')
      const error = await errorOf(add(store, 'b'))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
      expect(error.message).toContain('maxmemory')
      await client.config('SET', 'maxmemory', '0')
      expect((await store.get(['a', 'b'])).map((job) => job?.id)).toEqual(['a', undefined])
      expect((await store.count()).types.alpha).toMatchObject({ ready: 1 })
    })

    it.each(['allkeys-lru', 'allkeys-random'])(
      'does not open where %s evicts jobs',
      async (policy) => {
        await client.config('SET', 'maxmemory-policy', policy)
        await add(storeOn(), 'a')
        await client.config('SET', 'maxmemory', '50mb')
        const error = await errorOf(add(storeOn(), 'b'))
        expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false, policy })
        expect(error.message).toContain('noeviction')
        await client.config('SET', 'maxmemory-policy', 'noeviction')
        await add(storeOn(), 'b')
      },
    )

    it('refuses a database that the server does not have, and writes into no other', async () => {
      const [before, store] = [await client.dbsize(), redisStore(`${server.url}/99`)]
      opened.push(store)
      const error = await errorOf(add(store, 'a'))
      expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'url', value: '/99' })
      expect(await client.dbsize()).toBe(before)
    })

    it('says that a replica cannot be written', async () => {
      const store = storeOn()
      await store.open()
      await client.call('REPLICAOF', '127.0.0.1', '1')
      const error = await errorOf(add(store, 'a'))
      await client.call('REPLICAOF', 'NO', 'ONE')
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(error.message).toMatch(/replica|primary/)
    })

    it('rejects what too few replicas have, though it has happened', async () => {
      const error = await errorOf(add(storeOn({ waitReplicas: 1, waitMs: 1 }), 'a'))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(error.message).toContain('the call has happened, but only 0 of 1 replicas')
      expect((await storeOn().get(['a']))[0]?.status).toBe('ready')
    })

    it('refuses waitAof where the server does not know it', async () => {
      const version = /redis_version:(\d+)\.(\d+)/.exec(await client.info('server'))
      const isOld = Number(version?.[1]) * 100 + Number(version?.[2]) < 702
      const call = add(storeOn({ waitAof: 1, waitMs: 1 }), 'a')
      const expected = isOld
        ? { code: 'INVALID_OPTION', option: 'waitAof' }
        : { code: 'STORE_UNAVAILABLE' }
      expect(await errorOf(call)).toMatchObject(expected)
    })

    it('says how to install the library that it lacks', async () => {
      vi.doMock('ioredis', () => {
        throw new Error('Cannot find package')
      })
      const error = await errorOf(storeOn().open())
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: false })
      expect(error.message).toContain('npm install ioredis')
    })

    it('answers nothing once it is closed', async () => {
      const store = storeOn()
      await store.open()
      await store.close()
      expect(await errorOf(store.count())).toMatchObject({ code: 'CLOSED' })
      await store.open()
      expect((await store.count()).forgotten).toBe(0)
    })
  })

  describe('the options of the Redis store', () => {
    it.each(['', 'a{b', '}', 'x\0', 'x'.repeat(201), 5, null])('refuse the prefix %j', (prefix) => {
      const options = { prefix } as unknown as RedisOptions
      expect(() => redisStore(server.url, options)).toThrow(/prefix must be/)
    })

    it.each([
      ['a URL of something else', 'http://localhost', {}],
      ['no client', {}, {}],
      ['an option that there is not', 'redis://localhost', { prefx: 'a' }],
      ['half a replica', 'redis://localhost', { waitReplicas: 0.5 }],
    ])('refuse %s', (_, given, options) => {
      expect(() => redisStore(given as string, options as RedisOptions)).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      )
    })

    it.each([
      'redis://:se/cret@localhost:1',
      'redis://me:se%cret@localhost:1',
      'redis://me:secret@localhost:99999',
      'redis://me:secret@localhost/one',
      'redis:///secret.sock',
      'redis://localhost?keyPrefix=a',
    ])('%s is refused at once, and its password not shown', (url) => {
      const refused = errorIn(() => redisStore(url))
      expect(refused).toMatchObject({ code: 'INVALID_OPTION', option: 'url' })
      expect(JSON.stringify(refused) + String(refused)).not.toMatch(/se(\/|%)?cret@/)
    })

    it('refuse a client that would send calls under other names, or none before it is ready', () => {
      for (const option of [
        { enableAutoPipelining: true },
        { enableOfflineQueue: false },
        { keyPrefix: 'a:' },
      ]) {
        const given = new Redis({ ...option, lazyConnect: true })
        expect(errorIn(() => redisStore(given))).toMatchObject({ code: 'INVALID_OPTION' })
        given.disconnect()
      }
    })

    it('refuse a prefix with half a surrogate', () => {
      expect(errorIn(() => redisStore('redis://localhost', { prefix: 'x\ud800' }))).toMatchObject({
        option: 'prefix',
      })
    })

    it('never show the password of a URL', () => {
      expect(() => redisStore('http://user:secret@localhost')).toThrow(/^(?!.*secret)/)
    })
  })

  describe('what the Redis store keeps', () => {
    it('is all within the hash tag of its prefix', async () => {
      const store = storeOn({ prefix: 'own' })
      const all = {
        key: 'k',
        exclusive: 'l',
        flow: 'f',
        keyForMs: 1_000,
        enqueueTimeoutMs: 1_000,
      }
      const jobs = [
        newJob('a', all),
        newJob('b', { deps: [{ id: 'a', on: 'success' }] }),
        newJob('c', { deps: [{ id: 'ghost', on: 'end' }], exclusive: 'l' }),
        newJob('d', { delayMs: 1_000 }),
      ]
      await store.insert([{ jobs, unknownDeps: 'wait' }], false)
      await store.configure({ pool: 'default', by: 'start', terms: { maxQueue: 9 } })
      await store.configure({ type: 'alpha', setting: { concurrency: 3 } })
      const beat = { name: 'w', types: ['alpha'], full: false, zombies: 0, settings: '{}' }
      await store.beat({ holder: 'w', ...beat, ttlMs: 1_000 })
      await store.lease({ holder: 'w', leaseMs: 1_000, max: 9, types: ['alpha'] }, false)
      const keys = await client.keys('*')
      expect(keys.length).toBeGreaterThan(20)
      expect(keys.filter((key) => !key.startsWith('{own}:'))).toEqual([])
    })

    it('has ranks as exact as the core makes them', async () => {
      const store = storeOn({ now: () => 1_700_000_000_001 })
      const jobs = [newJob('a', { priority: 100 }), newJob('b', { priority: 99 })]
      await store.insert([{ jobs, unknownDeps: 'wait' }], false)
      const ranks = (await store.get(['a', 'b'])).map((job) => [job?.rank, job?.weight])
      const expected = [100, 99].map((priority) => {
        return [1_700_000_000_001 - priority * STRICT_WEIGHT, priority * STRICT_WEIGHT]
      })
      expect(ranks).toEqual(expected)
      const [first] = await client.keys('{trouble}:r:*')
      const scores = await client.zrange(first as string, '0', '-1', 'WITHSCORES')
      expect([scores[1], scores[3]].map(Number)).toEqual(expected.map(([rank]) => rank))
    })

    it('is read by a process that has not written it', async () => {
      const terms = { ...newJob('').terms, retries: 77 }
      const jobs = [newJob('a', { terms, payload: undefined }), newJob('b', { terms })]
      await storeOn().insert([{ jobs, unknownDeps: 'wait' }], false)
      const read = await storeOn().get(['a', 'b', 'nobody'])
      expect(read.map((job) => [job?.terms, job?.payload])).toEqual([
        [terms, undefined],
        [terms, '1'],
        [undefined, undefined],
      ])
    })

    it('is left alone by other prefixes', async () => {
      await add(storeOn({ prefix: 'one' }), 'a')
      expect(await storeOn({ prefix: 'other' }).get(['a'])).toEqual([null])
    })
  })

  describe('a client that is handed in', () => {
    it('is used, and goes on when the store is closed', async () => {
      const client = new Redis(server.url)
      const store = redisStore(client, { prefix: 'handed' })
      await store.open()
      await add(store, 'a')
      const stop = await store.watch(() => {})
      await stop()
      await store.close()
      expect(await client.exists('{handed}:state')).toBe(1)
      await client.quit()
    })
  })

  describe('hints of the Redis store', () => {
    it('reach other processes, and are heard again after an outage', async () => {
      const heard: Hint[] = []
      let wake = () => {}
      const watcher = storeOn()
      const next = () =>
        new Promise<void>((resolve) => {
          wake = resolve
        })
      await watcher.watch((hint) => {
        heard.push(hint)
        wake()
      })
      const other = storeOn()
      let waiting = next()
      await add(other, 'a')
      await waiting
      expect(heard[0]).toMatchObject({ ready: true, ended: [] })
      waiting = next()
      await server.kill()
      await server.restart()
      await waiting
      expect(heard.at(-1)).toMatchObject({ ready: true, overdue: true, settings: true })
    })

    it('of its own are heard once, and at once', async () => {
      const heard: Hint[] = []
      const store = storeOn()
      await store.watch((hint) => heard.push(hint))
      await add(store, 'a')
      expect(heard).toHaveLength(1)
      await client.ping()
      await store.count()
      expect(heard).toHaveLength(1)
    })
  })
})
