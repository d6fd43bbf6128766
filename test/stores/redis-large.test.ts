// Owns what becomes of calls that carry more than a server takes at once.
// May never need a server that takes much: one that takes little shows the same.

import { expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'

const LARGE = 'x'.repeat(900_000)

const logger = { info: () => {}, warn: () => {}, error: () => {} }

describeOnRedis('a server that takes 20 MB at once', () => {
  it('is given the results of one turn in pieces', async () => {
    const server = await startRedis({ args: ['--proto-max-bulk-len', '20mb'] })
    const store = redisStore(server.url)
    const scheduler = new AxScheduler({ store, concurrency: 40, logger })
    const all = { count: 0, release: () => {} }
    const end = new Promise<void>((resolve) => {
      all.release = resolve
    })
    scheduler.define('t', { timeout: '1m' }, async () => {
      all.count += 1
      if (all.count === 40) all.release()
      await end
      return LARGE
    })
    const ids = Array.from({ length: 40 }, (_, n) => ({ id: `${n}`, type: 't' }))
    const jobs = await scheduler.addJobs(ids)
    const results = await Promise.all(jobs.map((job) => job.result()))
    expect(results.every((result) => result === LARGE)).toBe(true)
    await scheduler.close()
    await store.close()
  })

  it('is not asked for what no server takes, and the largest job is named', async () => {
    const server = await startRedis()
    const store = redisStore(server.url)
    const jobs = Array.from({ length: 600 }, (_, n) => {
      return newJob(`j${n}`, { payload: n === 77 ? `${LARGE}!` : LARGE })
    })
    const error = await store.insert([{ jobs, unknownDeps: 'wait' }], false).catch((e) => e)
    expect(error).toMatchObject({ code: 'TOO_LARGE', retryable: false, jobId: 'j77' })
    expect(error.message).toContain("job 'j77' has 900001 bytes. With 599 others in one step")
    await store.close()
  })
})
