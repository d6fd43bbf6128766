// Owns the known cases of processes that stop, are stopped, or die, on one server: nobody learns of
// a death but by a lease that runs out. May never bound how long anything takes.

import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { type Child, linesOf, processesOnRedis } from './processes.ts'
import { allEvents, findingsOf } from './reading.ts'

/** Of those that will die; long enough for a process that has to wait for its turn. */
const LEASE_MS = 3_000

const TIMEOUT_MS = 120_000

describeOnRedis('a process on a server', () => {
  const { data, start } = processesOnRedis()
  let server: RedisServer
  let cases = 0
  let prefix = ''

  beforeAll(async () => {
    server = await startRedis()
  })

  /** A prefix of its own, and a journal. */
  function places(): [place: string, journal: string] {
    cases += 1
    prefix = `case ${cases}`
    return [`${server.url}#${prefix}`, join(data, `${cases}.txt`)]
  }

  /** Somebody who only looks and submits, in this process. */
  function onlooker(options: object = {}): AxScheduler {
    return new AxScheduler({ store: redisStore(server.url, { prefix }), ...options })
  }

  async function over(scheduler: AxScheduler): Promise<void> {
    await scheduler.close()
    const store = redisStore(server.url, { prefix })
    const found = await findingsOf(store)
    expect(found.filter((text) => !text.startsWith('doctor finds no-timeout'))).toEqual([])
    await store.close()
  }

  const worker = (body: string, options = '', first = '') => `
    ${first}
    const scheduler = new AxScheduler({ store, leaseMs: ${LEASE_MS}, ${options} })
    const pause = (ms) => new Promise((done) => setTimeout(done, ms))
    scheduler.define('t', { maxLost: 10 }, async ({ job, payload, signal, submit }) => { ${body} })
    process.on('SIGTERM', async () => {
      await scheduler.close()
      await store.close()
    })
    await scheduler.start()
    console.log('started')
  `
  const FOR_EVER = 'await new Promise(() => {})'

  it('C48: that is told to stop has nothing left, and ends', { timeout: TIMEOUT_MS }, async () => {
    const [place, journal] = places()
    const child = start(
      `
        const scheduler = new AxScheduler({ store, concurrency: 5 })
        scheduler.define('t', async ({ payload }) => { if (payload % 2 === 0) throw new Error() })
        const policy = { timeout: '30s', retries: 5, backoff: { type: 'fixed', delay: 10 } }
        const jobs = Array.from({ length: 20 }, (_, n) => ({ type: 't', payload: n, ...policy }))
        await scheduler.addJobs(jobs)
        await scheduler.idle()
        process.once('SIGTERM', async () => {
          await scheduler.close()
          await store.close()
          console.log('closed')
        })
        console.log('idle')
      `,
      place,
      journal,
    )
    await child.said('idle')
    child.process.kill('SIGTERM')
    await child.said('closed')
    expect(await child.ended).toBe(0)
    const scheduler = onlooker()
    const { states } = await scheduler.snapshot()
    expect(states).toMatchObject({ success: 10, failed: 10, running: 0, ready: 0, pending: 0 })
    await over(scheduler)
  })

  it('C50: hands its five jobs over as it stops, though its leases last for hours', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const stopping = (body: string) => `
      const scheduler = new AxScheduler({ store, leaseMs: '4h', concurrency: 5 })
      scheduler.define('t', async ({ payload, signal }) => { ${body} })
      process.on('SIGTERM', async () => {
        await scheduler.close({ drainMs: 500 })
        await store.close()
      })
      await scheduler.start()
      console.log('started')
    `
    const hang = `note('first ' + payload)
      await new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)))`
    const first = start(stopping(hang), place, journal)
    await first.said('started')
    const scheduler = onlooker()
    const jobs = await scheduler.addJobs([1, 2, 3, 4, 5].map((n) => ({ type: 't', payload: n })))
    await running(scheduler, 5)
    const second = start(stopping(`note('second ' + payload)`), place, journal)
    await second.said('started')
    first.process.kill('SIGTERM')
    expect(await first.ended).toBe(0)
    await Promise.all(jobs.map((job) => job.result()))
    for (const job of jobs) {
      expect(await job.job()).toMatchObject({ status: 'success', attempts: 1, lost: 0 })
    }
    expect(linesOf(journal).filter((line) => line.startsWith('second'))).toHaveLength(5)
    second.process.kill('SIGTERM')
    expect(await second.ended).toBe(0)
    await over(scheduler)
  })

  it('C54: that was stopped past its lease completes nothing any more', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const stopped = start(
      worker(
        `
          note(job.id + ' begins')
          process.kill(process.pid, 'SIGSTOP')
          const add = submit({ id: 'late', type: 't' })
          console.log('submit ' + (await add.then(() => 'stored', ({ code }) => code)))
          note(job.id + ' late')
          return 'late'
        `,
        `name: 'stopped'`,
      ),
      place,
      journal,
    )
    await stopped.said('started')
    const scheduler = onlooker()
    const job = await scheduler.addJob({ id: 'a', type: 't' })
    await running(scheduler, 1)
    const body = `note(job.id + ' heir'); return 'heir'`
    const heir = start(worker(body, `name: 'heir'`), place, journal)
    expect(await job.result()).toBe('heir')
    stopped.process.kill('SIGCONT')
    expect(await stopped.said('submit')).toBe('submit LEASE_LOST')
    for (const { process } of [stopped, heir]) process.kill('SIGTERM')
    expect(await Promise.all([stopped.ended, heir.ended])).toEqual([0, 0])
    expect(linesOf(journal)).toEqual(['a begins', 'a heir', 'a late'])
    expect(await scheduler.job('a')).toMatchObject({ result: 'heir', attempts: 1, lost: 1 })
    expect(await scheduler.job('late')).toBe(null)
    const store = redisStore(server.url, { prefix })
    expect((await allEvents(store)).map(({ event }) => event)).toEqual([
      ...['job:added', 'job:running', 'job:lost', 'job:running', 'job:success'],
    ])
    await store.close()
    await over(scheduler)
  })

  it('C57: that is killed between claim and start gives the job and its slot back', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const dies = `
      const { lease } = store
      store.lease = async (...args) => {
        const told = await lease.apply(store, args)
        if (told.answer.jobs.length > 0) process.kill(process.pid, 'SIGKILL')
        return told
      }
    `
    const scheduler = onlooker({ autoStart: false })
    const jobs = await scheduler.addJobs([1, 2, 3, 4].map((n) => ({ type: 't', payload: n })))
    const dying = start(worker('note(payload)', 'concurrency: 1', dies), place, journal)
    expect(await dying.ended).toBe(null)
    start(worker('note(payload)', 'concurrency: 1'), place, journal)
    await Promise.all(jobs.map((job) => job.result()))
    expect(linesOf(journal).map(Number).sort()).toEqual([1, 2, 3, 4])
    expect(await jobs[0]?.job()).toMatchObject({ attempts: 1, lost: 1, status: 'success' })
    await over(scheduler)
  })

  it('C58: that was killed leaves its jobs their place, and the cap holds as they recover', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const scheduler = onlooker({ autoStart: false })
    const ids = Array.from({ length: 10 }, (_, n) => `j${n}`)
    const jobs = await scheduler.addJobs(ids.map((id, n) => ({ id, type: 't', priority: 90 - n })))
    const doomed = start(worker(FOR_EVER, 'concurrency: 2'), place, journal)
    await running(scheduler, 2)
    doomed.process.kill('SIGKILL')
    await doomed.ended
    // Both leases have run out before anybody asks for more.
    while ((await scheduler.doctor()).findings[0]?.jobs?.length !== 2) await pause(50)
    const body = `note('start ' + job.id); await pause(20); note('end ' + job.id)`
    start(worker(body, 'concurrency: 2'), place, journal)
    await Promise.all(jobs.map((job) => job.result()))
    const lines = linesOf(journal).map((line) => line.split(' ') as [string, string])
    let most = 0
    let open = 0
    for (const [what] of lines) {
      open += what === 'start' ? 1 : -1
      most = Math.max(most, open)
    }
    expect(most).toBe(2)
    expect(lines.filter(([what]) => what === 'start').map(([, id]) => id)).toEqual(ids)
    for (const [n, job] of jobs.entries()) {
      expect(await job.job()).toMatchObject({ attempts: 1, lost: n < 2 ? 1 : 0 })
    }
    await over(scheduler)
  })

  it('C77: is waited for by another, whose 2,000 waits all settle', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const child = start(worker('return payload', 'concurrency: 50'), place, journal)
    await child.said('started')
    const scheduler = onlooker({ autoStart: false })
    const numbers = Array.from({ length: 2_000 }, (_, n) => n)
    const handles = await scheduler.addJobs(numbers.map((n) => ({ type: 't', payload: n })))
    expect(await Promise.all(handles.map((each) => each.result()))).toEqual(numbers)
    const [ended] = handles
    expect(await ended?.result()).toBe(0)
    const blocked = await scheduler.addJob({ type: 't', deps: ['nobody'] })
    const waiting = blocked.result().catch(({ code }: { readonly code: string }) => code)
    const other = onlooker({ autoStart: false })
    expect(await other.cancel(blocked.id)).toBe(true)
    expect(await waiting).toBe('CANCELLED')
    await other.close()
    child.process.kill('SIGTERM')
    expect(await child.ended).toBe(0)
    await over(scheduler)
  })

  it('DQ-13: that held a lane and was killed is followed by the same job, then by the next', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const scheduler = onlooker({ autoStart: false })
    const numbers = [0, 1, 2, 3, 4, 5]
    const jobs = await scheduler.addJobs(
      numbers.map((n) => ({
        ...{ id: `q${n}`, type: 't', payload: n, exclusive: 'q' },
      })),
    )
    const begins = `note('start ' + payload);`
    const doomed = start(worker(`${begins} ${FOR_EVER}`, 'concurrency: 4'), place, journal)
    await running(scheduler, 1)
    const body = `${begins} await pause(5); note('end ' + payload)`
    const heir = start(worker(body, 'concurrency: 4'), place, journal)
    await heir.said('started')
    expect((await scheduler.snapshot()).states).toMatchObject({ running: 1, waiting: 5 })
    doomed.process.kill('SIGKILL')
    await Promise.all(jobs.map((job) => job.result()))
    const inTurn = numbers.flatMap((n) => [`start ${n}`, `end ${n}`])
    expect(linesOf(journal)).toEqual(['start 0', ...inTurn])
    await over(scheduler)
  })

  it('DQ-19: dies three times of a poison job, then that fails, and its neighbours live', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const script = `
      const scheduler = new AxScheduler({ store, leaseMs: 1_000, concurrency: 1 })
      scheduler.define('poison', { maxLost: 2 }, () => { note('poison'); process.exit(1) })
      scheduler.define('good', ({ payload }) => { note('good ' + payload) })
      await scheduler.start()
      console.log('started')
    `
    const scheduler = onlooker({ autoStart: false, types: { poison: { maxLost: 2 } } })
    const bad = await scheduler.addJob({ id: 'bad', type: 'poison', priority: 90 })
    const good = await scheduler.addJobs([1, 2, 3].map((n) => ({ type: 'good', payload: n })))
    let isOver = false
    const end = bad.result().catch((error: { readonly code?: string }) => {
      isOver = true
      return error.code
    })
    for (let n = 0; n < 10 && !isOver; n += 1) {
      const victim: Child = start(script, place, journal)
      await Promise.race([victim.ended, end])
    }
    expect(await end).toBe('LOST')
    expect(await bad.job()).toMatchObject({ status: 'failed', lost: 3, attempts: 0 })
    await Promise.all(good.map((job) => job.result()))
    expect(linesOf(journal).filter((line) => line === 'poison')).toHaveLength(3)
    await over(scheduler)
  })

  it('C25: has jobs cancelled around their end by another, and the answer is true', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const [place, journal] = places()
    const body = 'await pause(Math.random() * 8)'
    const child = start(worker(body, 'concurrency: 20'), place, journal)
    await child.said('started')
    const scheduler = onlooker({ autoStart: false })
    const ids = Array.from({ length: 1_000 }, (_, n) => `j${n}`)
    const answers = new Map<string, boolean>()
    for (let at = 0; at < ids.length; at += 20) {
      const some = ids.slice(at, at + 20)
      const jobs = await scheduler.addJobs(some.map((id) => ({ id, type: 't' })))
      const cancelled = jobs.map(async (job) => {
        await pause(Math.random() * 20)
        answers.set(job.id, await job.cancel())
      })
      await Promise.all(cancelled)
    }
    await scheduler.idle()
    const ends = new Map<string, string[]>(ids.map((id) => [id, []]))
    for await (const { job, to } of scheduler.events()) {
      if (to === 'success' || to === 'cancelled' || to === 'failed') ends.get(job)?.push(to)
    }
    for (const [id, answer] of answers) {
      expect([id, ends.get(id)]).toEqual([id, [answer ? 'cancelled' : 'success']])
    }
    for await (const { id, status } of scheduler.jobs()) {
      expect([id, status]).toEqual([id, answers.get(id) === true ? 'cancelled' : 'success'])
    }
    expect(answers.size).toBe(1_000)
    expect(new Set(answers.values()).size).toBe(2)
    child.process.kill('SIGTERM')
    expect(await child.ended).toBe(0)
    await over(scheduler)
  })
})

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))

/** Waits until so many jobs run. */
async function running(scheduler: AxScheduler, count: number): Promise<void> {
  while ((await scheduler.snapshot()).states.running < count) await pause(5)
}
