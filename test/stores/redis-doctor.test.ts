// Owns that the doctor sees when a key of a prefix is gone, in part or as a whole.
// May never let it fail instead: who asks has trouble enough.

import { afterEach, beforeAll, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { ask } from '../servers/resp.ts'
import { describeOnRedis } from '../servers/suites.ts'

describeOnRedis('the doctor', () => {
  let server: RedisServer
  const opened: Store[] = []

  beforeAll(async () => {
    server = await startRedis()
  })
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close()
    await ask(server.url, 'FLUSHALL')
  })

  function open(): Store {
    const store = redisStore(server.url)
    opened.push(store)
    return store
  }

  /** Jobs in many states, of which one is leased, one has a lane and one waits for it. */
  async function filled(): Promise<Store> {
    const store = open()
    const jobs = [
      newJob('leased', { priority: 90 }),
      newJob('first', { exclusive: 'lane', priority: 10 }),
      newJob('next', { exclusive: 'lane', priority: 10 }),
      newJob('after', { deps: [{ id: 'leased', on: 'success' }] }),
      newJob('silent', { payload: undefined, priority: 10 }),
      newJob('gone', { priority: 10 }),
      newJob('patient', { enqueueTimeoutMs: 60_000, priority: 10 }),
    ]
    await store.insert([{ jobs, unknownDeps: 'wait' }], false)
    await store.lease({ holder: 'w', leaseMs: 60_000, max: 1, types: ['alpha'] }, false)
    const template = { type: 'alpha', payload: 1 }
    const scheduler = new AxScheduler({ store, autoStart: false })
    await scheduler.schedule('nightly', '0 3 * * *', template)
    expect(await scheduler.cancel('gone')).toBe(true)
    await scheduler.close()
    expect((await store.inspect()).damage).toEqual([])
    return store
  }

  it.each([
    ['ends', ['leased is running, and the end of its lease is not kept']],
    ['past', ['gone is cancelled, and its retention is not kept']],
    ['waits', ['patient is ready, and its deadline is not kept']],
    ['schedules', ['schedule nightly is set, and in no queue']],
    ['schedule', ['schedule nightly is in the queue, and is not set']],
    [
      'lane',
      [
        'first is ready, and does not hold its lane lane',
        'next is waiting, and waits for lane lane, which nobody holds',
      ],
    ],
    ['w:lane', ['next is waiting, and waits for lane lane, and is not in its queue']],
    ['i', ['the list by id of 7 jobs, in key {ax}:i, is gone']],
    ['n', ['the state of 7 jobs, in key {ax}:n, is gone']],
    ['b', ['the order of 7 jobs, in key {ax}:b, is gone']],
    ['line', ['the pool and type of 7 jobs, in key {ax}:line, is gone']],
    ['terms', ['what is set of 7 jobs, in key {ax}:terms, is gone']],
    [
      'j',
      ['leased', 'first', 'next', 'after', 'gone', 'patient'].map((id) =>
        expect.stringMatching(new RegExp(`^${id} is \\w+, and its payload is gone$`)),
      ),
    ],
  ])('says so when %s is gone, and does not fail', async (name, damage) => {
    await filled()
    await ask(server.url, 'DEL', `{ax}:${name}`)
    const store = open()
    expect((await store.inspect()).damage).toEqual(damage)
    const scheduler = new AxScheduler({ store, autoStart: false })
    const { findings } = await scheduler.doctor()
    expect(findings[0]?.kind).toBe('damage')
    await scheduler.close()
  })

  it('says which jobs lack a line, or terms, of which others are there', async () => {
    const store = await filled()
    const terms = { ...newJob('').terms, retries: 7 }
    const other = [newJob('other', { type: 'beta' }), newJob('own', { terms })]
    await store.insert([{ jobs: other, unknownDeps: 'wait' }], false)
    expect((await store.inspect()).damage).toEqual([])
    await ask(server.url, 'HDEL', '{ax}:line', '2')
    await ask(server.url, 'HDEL', '{ax}:terms', '2')
    const { damage } = await open().inspect()
    expect(damage).toContain('other is of line 2, which there is not')
    expect(damage).toContain('own is ready, and its terms are gone')
  })
})
