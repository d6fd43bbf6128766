// Owns what becomes of work while the server, a connection or a primary is away, and afterwards.
// May never count on a word from outside: whoever was connected goes on by itself.

import { Redis } from 'ioredis'
import { afterEach, expect, it, vi } from 'vitest'
import type { StoredJob } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import { AxScheduler, type SchedulerOptions } from '../../src/index.ts'
import type { Hint, Store } from '../../src/store/store.ts'
import { type RedisOptions, redisStore } from '../../src/stores/redis/index.ts'
import { KEEP } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { startProxy } from '../servers/proxy.ts'
import { type RedisServer, startRedis, until } from '../servers/redis.ts'
import { ask } from '../servers/resp.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { allEvents, allJobs, findingsOf } from './reading.ts'

const DURABLE = { appendonly: true, appendfsync: 'always' } as const

const QUIET = { info: () => {}, warn: () => {}, error: () => {} }

const opened: { close(): Promise<void> }[] = []

afterEach(async () => {
  vi.useRealTimers()
  for (const each of opened.splice(0)) await each.close()
})

function storeOn(url: string, options: RedisOptions = {}): Store {
  const store = redisStore(url, options)
  opened.push(store)
  return store
}

function schedulerOn(store: Store, options: SchedulerOptions = {}): AxScheduler {
  const scheduler = new AxScheduler({ store, logger: QUIET, ...options })
  opened.unshift(scheduler)
  return scheduler
}

const add = (store: Store, ...ids: readonly string[]) =>
  store.insert([{ jobs: ids.map((id) => newJob(id)), unknownDeps: 'wait' }], false)

const lease = async (store: Store, holder: string): Promise<StoredJob | undefined> => {
  const told = await store.lease({ holder, leaseMs: 60_000, max: 1, types: ['alpha'] }, false)
  return told.answer.jobs[0]
}

describeOnRedis('a server that was away', () => {
  it('has everything that was acknowledged, and the workers go on by themselves', async () => {
    const server = await startRedis(DURABLE)
    const starts: string[] = []
    const workers = ['w1', 'w2'].map((name) => {
      const scheduler = schedulerOn(storeOn(server.url), { name, concurrency: 5, leaseMs: 3_000 })
      scheduler.define('t', { timeout: '1m' }, async ({ job, attempt }) => {
        starts.push(`${job.id} ${attempt}`)
        await new Promise((resolve) => setTimeout(resolve, 10))
        return job.id
      })
      return scheduler
    })
    for (const worker of workers) await worker.start()
    const submitter = schedulerOn(storeOn(server.url), { autoStart: false })
    const acknowledged: string[] = []
    let isAway = false
    const submit = async () => {
      for (let n = 0; !isAway; n += 1) {
        const ids = [`a${n}`, `b${n}`, `c${n}`]
        const jobs = await submitter
          .addJobs(ids.map((id) => ({ id, type: 't' })))
          .catch(() => undefined)
        if (jobs !== undefined) acknowledged.push(...ids)
      }
    }
    const submitting = submit()
    await until('some have run', async () => starts.length > 60)
    await server.kill()
    isAway = true
    await server.restart()
    await submitting
    const store = storeOn(server.url)
    expect(acknowledged.length).toBeGreaterThan(60)
    const there = new Set((await allJobs(store)).keys())
    expect(acknowledged.filter((id) => !there.has(id))).toEqual([])
    await submitter.idle()
    const jobs = await allJobs(store)
    expect(new Set([...jobs.values()].map(({ status }) => status))).toEqual(new Set(['success']))
    const runs = (await allEvents(store)).filter(({ to }) => to === 'running')
    expect(new Set(starts).size).toBe(starts.length)
    expect(runs.length).toBeGreaterThanOrEqual(jobs.size)
    expect(await findingsOf(store)).toEqual([])
  })

  const outages: readonly (readonly [
    name: string,
    outage: (server: RedisServer, proxy: Awaited<ReturnType<typeof startProxy>>) => Promise<void>,
  ])[] = [
    [
      'was killed, and is back',
      async (server) => {
        await server.kill()
        await server.restart()
      },
    ],
    [
      'has ended all connections',
      async (server) => {
        for (const type of ['normal', 'pubsub']) {
          await ask(server.url, 'CLIENT', 'KILL', 'TYPE', type).catch(() => {})
        }
      },
    ],
    [
      'could not be reached, and connections stayed open',
      async (_, proxy) => {
        proxy.blackHole()
        await until('something has vanished', async () => proxy.lost > 0)
        proxy.heal()
      },
    ],
  ]

  it.each(outages)(
    'DQ-01: is asked again by an idle worker, whose server %s',
    async (_, outage) => {
      const server = await startRedis(DURABLE)
      const proxy = await startProxy(server.url)
      const worker = schedulerOn(storeOn(proxy.url))
      const done: string[] = []
      worker.define('t', ({ job }) => {
        done.push(job.id)
      })
      await worker.start()
      await outage(server, proxy)
      const other = schedulerOn(storeOn(server.url), { autoStart: false })
      const job = await other.addJob({ id: 'late', type: 't' })
      await job.result()
      expect(done).toEqual(['late'])
    },
  )

  it('DQ-02: is polled where the channel of its hints is dead, which is heard again later', async () => {
    const server = await startRedis()
    const proxy = await startProxy(server.url)
    const client = new Redis(server.url, { maxRetriesPerRequest: 0 })
    const listening = Object.assign(client, { duplicate: () => new Redis(proxy.url) })
    const store = redisStore(listening)
    const hints: Hint[] = []
    await store.watch((hint) => hints.push(hint))
    const worker = schedulerOn(store)
    worker.define('t', () => {})
    await worker.start()
    proxy.freeze()
    const other = storeOn(server.url)
    const submitter = schedulerOn(other, { autoStart: false })
    await (await submitter.addJob({ type: 't' })).result()
    expect(proxy.lost).toBeGreaterThan(0)
    hints.length = 0
    proxy.heal()
    await until('it listens again', async () => hints.some(({ settings }) => settings))
    hints.length = 0
    await other.configure({ pool: 'other', by: 'operator', terms: { concurrency: 7 } })
    await until('a hint has come', async () => hints.some(({ settings }) => settings))
    await worker.close()
    await store.close()
    await client.quit()
  })

  it('is spoken of once by a worker, in its own words, and again when it is back', async () => {
    const server = await startRedis()
    const said: string[] = []
    const speak = (_: object, text = '') => {
      said.push(text)
    }
    const rights = ['SETUSER', 'worker', 'on', '>pw', '~*', '&*', '+@all']
    await ask(server.url, 'ACL', ...rights)
    const store = storeOn(server.url.replace('//', '//worker:pw@'))
    const logger = { info: () => {}, warn: speak, error: speak }
    const worker = schedulerOn(store, { name: 'w', logger })
    worker.define('t', { timeout: '1m' }, () => {})
    await worker.start()
    await ask(server.url, 'ACL', 'SETUSER', 'worker', '-@scripting')
    await until('it has said so', async () => said.length > 0)
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    await ask(server.url, 'ACL', ...rights)
    await until('it has said that too', async () => said.length > 1)
    expect(said).toEqual([
      expect.stringMatching(/^The store refuses what 'w' asks of it.*NOPERM/),
      expect.stringMatching(/^The store answers 'w' again, after \d+ ms\.$/),
    ])
  })

  it('is not waited for on a connection that is dead and does not say so', async () => {
    const server = await startRedis()
    const proxy = await startProxy(server.url)
    const store = storeOn(proxy.url)
    await add(store, 'a')
    proxy.freeze()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const unheard = add(store, 'b').catch((error: unknown) => error)
    while (proxy.lost === 0) await new Promise((resolve) => setImmediate(resolve))
    vi.advanceTimersByTime(30_000)
    expect(await unheard).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
    vi.useRealTimers()
    await until('it is connected again', async () => {
      return store.get(['a', 'b']).then(
        (jobs) => jobs[0]?.id === 'a' && jobs[1] === null,
        () => false,
      )
    })
  })
})

describeOnRedis('a primary that was replaced', () => {
  /** A primary and its replica: what parts them, and what puts one in the other's place. */
  async function pair() {
    const primary = await startRedis()
    const between = await startProxy(primary.url)
    const replica = await startRedis({ replicaof: { ...primary, port: between.port } })
    const failOver = async () => {
      await primary.kill()
      await ask(replica.url, 'REPLICAOF', 'NO', 'ONE')
    }
    return { primary, replica, part: () => between.blackHole(), failOver }
  }

  it('ES-06: has handed on all that was acknowledged, where replicas are waited for', async () => {
    const { primary, replica, failOver } = await pair()
    const store = storeOn(primary.url, { waitReplicas: 1, waitMs: 60_000 })
    const ids = Array.from({ length: 50 }, (_, n) => `j${n}`)
    await Promise.all(ids.map((id) => add(store, id)))
    const leased = await lease(store, 'w')
    await failOver()
    const next = storeOn(replica.url)
    expect((await next.get(ids)).map((job) => job?.id)).toEqual(ids)
    const move = decide(leased as StoredJob, { type: 'succeeded', result: '1' }, KEEP)
    const { answer } = await next.apply(move === null ? [] : [move], false)
    expect(answer[0]).toMatchObject({ status: 'moved', job: { status: 'success', result: '1' } })
    expect(await next.inspect()).toMatchObject({ damage: [], expired: [], orphanedKeys: [] })
  })

  it('ES-06: is not trusted to have it by a connection that has not written it', async () => {
    const { primary, part } = await pair()
    const proxy = await startProxy(primary.url)
    const client = new Redis(proxy.url, { maxRetriesPerRequest: 0, retryStrategy: () => 10 })
    client.on('error', () => {})
    const store = storeOn(client as unknown as string, { waitReplicas: 1, waitMs: 1_000 })
    await add(store, 'first')
    part()
    const call = client.callBuffer.bind(client)
    client.callBuffer = (async (command: string, ...words: Buffer[]) => {
      if (command === 'WAIT') {
        // The new connection has written nothing itself.
        const isBack = new Promise((resolve) => client.once('ready', resolve))
        proxy.cut()
        await isBack
      }
      return call(command, ...words)
    }) as typeof client.callBuffer
    const error = await add(store, 'second').catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', retryable: true })
    expect((error as Error).message).toContain('only 0 of 1 replicas')
    await store.close()
    client.disconnect()
  })

  it('ES-06: may have lost what was not, whose lease counts for nobody', async () => {
    const { primary, replica, part, failOver } = await pair()
    const store = storeOn(primary.url)
    await add(storeOn(primary.url, { waitReplicas: 1, waitMs: 60_000 }), 'kept')
    part()
    await add(store, 'lost')
    const old = await lease(store, 'old')
    expect(old?.id).toBe('kept')
    await failOver()
    const next = storeOn(replica.url)
    expect((await next.get(['kept', 'lost'])).map((job) => job?.status)).toEqual([
      ...['ready', undefined],
    ])
    const now = await lease(next, 'new')
    expect(now?.id).toBe('kept')
    // The number was never heard of here, and still it is not given again.
    expect(now?.lease?.number).toBeGreaterThan(old?.lease?.number ?? 0)
    const move = decide(old as StoredJob, { type: 'succeeded', result: '"old"' }, KEEP)
    const { answer } = await next.apply(move === null ? [] : [move], false)
    expect(answer[0]).toMatchObject({ status: 'stale', job: { status: 'running' } })
    await add(next, 'lost')
    expect((await next.get(['lost']))[0]?.status).toBe('ready')
    expect(await next.inspect()).toMatchObject({ damage: [], expired: [], orphanedKeys: [] })
  })
})
