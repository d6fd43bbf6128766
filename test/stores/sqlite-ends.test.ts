// Owns the known cases of processes that stop, are stopped, or die, on one file.

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type Child, linesOf, processes } from './processes.ts'

const { data, start } = processes()

let cases = 0

function places(): [file: string, journal: string] {
  cases += 1
  return [join(data, `${cases}.db`), join(data, `${cases}.txt`)]
}

/** Somebody who only looks and submits, in this process. */
function onlooker(file: string, options: object = {}): AxScheduler {
  return new AxScheduler({ store: sqliteStore(file), autoStart: false, ...options })
}

/** Ends in time, or fails. */
async function soon<T>(ms: number, what: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error(`not within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([what, late])
  } finally {
    clearTimeout(timer)
  }
}

describe('a process on a file', () => {
  it('C48: that is told to stop has nothing left, and ends', async () => {
    const [file, journal] = places()
    const child = start(
      `
        const scheduler = new AxScheduler({ store, concurrency: 5 })
        scheduler.define('t', async ({ payload }) => { if (payload % 2 === 0) throw new Error() })
        const policy = { timeout: '30s', retries: 5, backoff: { type: 'fixed', delay: 10 } }
        const jobs = Array.from({ length: 20 }, (_, n) => ({ type: 't', payload: n, ...policy }))
        await scheduler.addJobs(jobs)
        await scheduler.idle()
        const stay = setInterval(() => {}, 1_000)
        process.once('SIGTERM', async () => {
          await scheduler.close()
          await store.close()
          clearInterval(stay)
          const left = process.getActiveResourcesInfo().filter((kind) => /Timeout|TCP/.test(kind))
          console.log('left ' + JSON.stringify(left))
        })
        console.log('idle')
      `,
      file,
      journal,
    )
    await child.said('idle')
    child.process.kill('SIGTERM')
    expect(await child.said('left')).toBe('left []')
    expect(await soon(5_000, child.ended)).toBe(0)
    const scheduler = onlooker(file)
    const { states } = await scheduler.snapshot()
    expect(states).toMatchObject({ success: 10, failed: 10, running: 0, ready: 0, pending: 0 })
    await scheduler.close()
  }, 60_000)

  it('C50: hands its five jobs over as it stops, though its leases last for hours', async () => {
    const [file, journal] = places()
    const worker = (body: string) => `
      const scheduler = new AxScheduler({ store, leaseMs: '4h', concurrency: 5 })
      scheduler.define('t', async ({ payload, signal }) => { ${body} })
      process.on('SIGTERM', () => scheduler.close({ drainMs: 500 }))
      await scheduler.start()
      console.log('started')
    `
    const hang = `note('first ' + payload)
      await new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)))`
    const first = start(worker(hang), file, journal)
    const scheduler = onlooker(file)
    await first.said('started')
    const jobs = await scheduler.addJobs([1, 2, 3, 4, 5].map((n) => ({ type: 't', payload: n })))
    await running(scheduler, 5)
    const second = start(worker(`note('second ' + payload)`), file, journal)
    await second.said('started')
    first.process.kill('SIGTERM')
    expect(await first.ended).toBe(0)
    await soon(5_000, Promise.all(jobs.map((job) => job.result())))
    for (const job of jobs) {
      expect(await job.job()).toMatchObject({ status: 'success', attempts: 1, lost: 0 })
    }
    expect(linesOf(journal).filter((line) => line.startsWith('second'))).toHaveLength(5)
    await scheduler.close()
  }, 60_000)

  it('C57: that is killed between claim and start gives the job and its slot back', async () => {
    const [file, journal] = places()
    const worker = (die: string) => `
      const { lease } = store
      store.lease = async (...args) => {
        const told = await lease.apply(store, args)
        if (told.answer.jobs.length > 0) { ${die} }
        return told
      }
      const scheduler = new AxScheduler({ store, leaseMs: '1h', concurrency: 1 })
      scheduler.define('t', ({ payload }) => { note(payload) })
      await scheduler.start()
      process.on('SIGTERM', () => scheduler.close())
      console.log('started')
    `
    const scheduler = onlooker(file)
    const jobs = await scheduler.addJobs([1, 2, 3, 4].map((n) => ({ type: 't', payload: n })))
    const dying = start(worker(`process.kill(process.pid, 'SIGKILL')`), file, journal)
    expect(await dying.ended).toBe(null)
    expect((await scheduler.snapshot()).states).toMatchObject({ running: 1, ready: 3 })
    start(worker(''), file, journal)
    await soon(10_000, Promise.all(jobs.map((job) => job.result())))
    expect(linesOf(journal).map(Number).sort()).toEqual([1, 2, 3, 4])
    const [first] = jobs
    expect(await first?.job()).toMatchObject({ attempts: 1, lost: 1, status: 'success' })
    await scheduler.close()
  }, 60_000)

  it('C58: that was killed leaves its jobs their place, and the cap holds as they recover', async () => {
    const [file, journal] = places()
    const worker = (body: string) => `
      const scheduler = new AxScheduler({ store, leaseMs: '1h', concurrency: 2 })
      scheduler.define('t', async ({ job }) => { ${body} })
      await scheduler.start()
      console.log('started')
    `
    const scheduler = onlooker(file)
    const ids = Array.from({ length: 10 }, (_, n) => `j${n}`)
    const jobs = await scheduler.addJobs(ids.map((id, n) => ({ id, type: 't', priority: 90 - n })))
    const doomed = start(worker('await new Promise(() => {})'), file, journal)
    await running(scheduler, 2)
    doomed.process.kill('SIGKILL')
    await doomed.ended
    start(
      worker(`
        note('start ' + job.id)
        await new Promise((done) => setTimeout(done, 20))
        note('end ' + job.id)
      `),
      file,
      journal,
    )
    await soon(20_000, Promise.all(jobs.map((job) => job.result())))
    const lines = linesOf(journal).map((line) => line.split(' ') as [string, string])
    let most = 0
    let open = 0
    for (const [what] of lines) {
      open += what === 'start' ? 1 : -1
      most = Math.max(most, open)
    }
    expect(most).toBe(2)
    const started = lines.filter(([what]) => what === 'start').map(([, id]) => id)
    expect(started).toEqual(ids)
    for (const [n, job] of jobs.entries()) {
      expect(await job.job()).toMatchObject({ attempts: 1, lost: n < 2 ? 1 : 0 })
    }
    await scheduler.close()
  }, 60_000)

  it('DQ-19: dies three times of a poison job, then that fails, and its neighbours live', async () => {
    const [file, journal] = places()
    const script = `
      const scheduler = new AxScheduler({ store, leaseMs: '1h', concurrency: 1 })
      scheduler.define('poison', { maxLost: 2 }, () => { note('poison'); process.exit(1) })
      scheduler.define('good', ({ payload }) => { note('good ' + payload) })
      await scheduler.start()
      process.on('SIGTERM', () => scheduler.close())
      console.log('started')
    `
    const scheduler = onlooker(file, { types: { poison: { maxLost: 2 } } })
    const bad = await scheduler.addJob({ id: 'bad', type: 'poison', priority: 90 })
    const good = await scheduler.addJobs([1, 2, 3].map((n) => ({ type: 'good', payload: n })))
    let isOver = false
    const end = bad.result().catch((error: { readonly code?: string }) => {
      isOver = true
      return error.code
    })
    for (let n = 0; n < 10 && !isOver; n += 1) {
      const victim: Child = start(script, file, journal)
      await Promise.race([victim.ended, end])
    }
    expect(await soon(10_000, end)).toBe('LOST')
    expect(await bad.job()).toMatchObject({ status: 'failed', lost: 3, attempts: 0 })
    await soon(10_000, Promise.all(good.map((job) => job.result())))
    const lines = linesOf(journal)
    expect(lines.filter((line) => line === 'poison')).toHaveLength(3)
    // The first loss waits for nothing, the second for a second: by then others have had a turn.
    expect(lines.lastIndexOf('poison')).toBeGreaterThan(lines.indexOf('good 1'))
    await scheduler.close()
  }, 60_000)

  it('DQ-13: that held a lane and was killed is followed by the same job, then by the next', async () => {
    const [file, journal] = places()
    const worker = (body: string) => `
      const scheduler = new AxScheduler({ store, leaseMs: '1h', concurrency: 4 })
      scheduler.define('t', async ({ payload }) => { note('start ' + payload); ${body} })
      await scheduler.start()
      console.log('started')
    `
    const scheduler = onlooker(file)
    const numbers = [0, 1, 2, 3, 4, 5]
    const jobs = await scheduler.addJobs(
      numbers.map((n) => ({ id: `q${n}`, type: 't', payload: n, exclusive: 'q' })),
    )
    const doomed = start(worker('await new Promise(() => {})'), file, journal)
    await running(scheduler, 1)
    const body = `await new Promise((done) => setTimeout(done, 5)); note('end ' + payload)`
    const heir = start(worker(body), file, journal)
    await heir.said('started')
    expect((await scheduler.snapshot()).states).toMatchObject({ running: 1, waiting: 5 })
    doomed.process.kill('SIGKILL')
    await soon(20_000, Promise.all(jobs.map((job) => job.result())))
    const inTurn = numbers.flatMap((n) => [`start ${n}`, `end ${n}`])
    expect(linesOf(journal)).toEqual(['start 0', ...inTurn])
    await scheduler.close()
  }, 60_000)

  it('C25: cancels jobs of another one around their end, and the answer is true', async () => {
    const [file, journal] = places()
    const worker = start(
      `
        const scheduler = new AxScheduler({ store, concurrency: 20 })
        scheduler.define('t', () => new Promise((done) => setTimeout(done, Math.random() * 8)))
        await scheduler.start()
        process.on('SIGTERM', () => scheduler.close())
        console.log('started')
      `,
      file,
      journal,
    )
    await worker.said('started')
    const scheduler = onlooker(file)
    const ids = Array.from({ length: 1_000 }, (_, n) => `j${n}`)
    const answers = new Map<string, boolean>()
    for (let at = 0; at < ids.length; at += 20) {
      const some = ids.slice(at, at + 20)
      const jobs = await scheduler.addJobs(some.map((id) => ({ id, type: 't' })))
      const cancelled = jobs.map(async (job) => {
        await new Promise((done) => setTimeout(done, Math.random() * 20))
        answers.set(job.id, await job.cancel())
      })
      await Promise.all(cancelled)
    }
    await soon(20_000, scheduler.idle())
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
    const told = [...answers.values()]
    expect(told).toHaveLength(1_000)
    expect(new Set(told).size).toBe(2)
    worker.process.kill('SIGTERM')
    expect(await worker.ended).toBe(0)
    await scheduler.close()
  }, 60_000)
})

/** Waits until so many jobs run. */
async function running(scheduler: AxScheduler, count: number): Promise<void> {
  while ((await scheduler.snapshot()).states.running < count) {
    await new Promise((done) => setTimeout(done, 5))
  }
}
