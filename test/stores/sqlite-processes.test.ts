// Owns the promises about several processes on one file: real processes, which end as they like.

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { linesOf, processes } from './processes.ts'
import { allEvents, illsOf } from './reading.ts'

const { data, start } = processes()

/** A file of its own, and a journal for what is worth noting. */
function placesOf(name: string): readonly [file: string, journal: string] {
  return [join(data, `${name}.db`), join(data, `${name}.txt`)]
}

const WORKER = `
  const scheduler = new AxScheduler({ store, concurrency: 8 })
  scheduler.define('work', async ({ payload }) => {
    note(payload.n + ' ' + process.pid)
    await new Promise((done) => setTimeout(done, payload.n % 5))
    return payload.n
  })
  await scheduler.start()
  process.on('SIGTERM', () => scheduler.close())
  console.log('started')
`

const JOBS = 300

describe('processes on one file', () => {
  it('run every job that is submitted, each of them once', async () => {
    const [file, journal] = placesOf('crowd')
    const workers = [1, 2, 3].map(() => start(WORKER, file, journal))
    await Promise.all(workers.map(({ said }) => said('started')))
    const submitter = start(
      `
        const scheduler = new AxScheduler({ store, autoStart: false })
        const numbers = Array.from({ length: ${JOBS} }, (_, n) => n)
        const jobs = await Promise.all(
          numbers.map((n) => scheduler.addJob({ id: 'j' + n, type: 'work', payload: { n } })),
        )
        const results = await Promise.all(jobs.map((job) => job.result()))
        console.log('sum ' + results.reduce((sum, n) => sum + n, 0))
        await scheduler.close()
      `,
      file,
      journal,
    )
    expect(await submitter.said('sum')).toBe(`sum ${(JOBS * (JOBS - 1)) / 2}`)
    expect(await submitter.ended).toBe(0)
    for (const worker of workers) worker.process.kill('SIGTERM')
    expect(await Promise.all(workers.map(({ ended }) => ended))).toEqual([0, 0, 0])
    const numbers = linesOf(journal).map((line) => Number(line.split(' ')[0]))
    expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: JOBS }, (_, n) => n))
    const store = sqliteStore(file)
    await store.open()
    expect((await store.count()).types.work).toMatchObject({ success: JOBS, ready: 0, running: 0 })
    expect(await store.inspect()).toMatchObject({ damage: [], cycles: [], orphanedKeys: [] })
    await store.close()
  }, 60_000)

  it('run the jobs of one that was killed at once, not when its leases run out', async () => {
    const [file, journal] = placesOf('killed')
    const script = (body: string) => `
      const scheduler = new AxScheduler({ store, leaseMs: '10m' })
      scheduler.define('work', async ({ payload }) => { ${body} })
      await scheduler.start()
      process.on('SIGTERM', () => scheduler.close())
      console.log('started')
    `
    const doomed = start(
      script(`console.log('working'); await new Promise((done) => setTimeout(done, 600_000))`),
      file,
      journal,
    )
    const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
    const job = await scheduler.addJob({ id: 'a', type: 'work', payload: { n: 1 } })
    await doomed.said('working')
    const heir = start(script(`note('1 ' + process.pid); return 'inherited'`), file, journal)
    await heir.said('started')
    doomed.process.kill('SIGKILL')
    expect(await job.result()).toBe('inherited')
    expect(await scheduler.job('a')).toMatchObject({ status: 'success', attempts: 1, lost: 1 })
    await scheduler.close()
    expect(linesOf(journal)).toEqual([`1 ${heir.process.pid}`])
  }, 60_000)

  it('take over from one that was stopped, and refuse what it says when it goes on', async () => {
    const [file, journal] = placesOf('stopped')
    const script = (name: string, body: string) => `
      const scheduler = new AxScheduler({ store, name: '${name}', leaseMs: 1_000 })
      let goOn
      const both = new Promise((done) => { goOn = done })
      let begun = 0
      scheduler.define('work', async ({ job, signal, submit }) => { ${body} })
      await scheduler.start()
      process.on('SIGTERM', () => scheduler.close())
      console.log('started')
    `
    const stopped = start(
      script(
        'stopped',
        `
          begun += 1
          console.log('begun ' + begun)
          if (begun === 2) {
            process.kill(process.pid, 'SIGSTOP')
            goOn()
          }
          await both
          if (job.id === 'heeds') {
            await new Promise((done) => signal.addEventListener('abort', done))
            console.log('aborted ' + signal.reason.code)
          } else {
            const add = submit({ id: 'late', type: 'work' })
            console.log('submit ' + (await add.then(() => 'stored', ({ code }) => code)))
          }
          note(job.id + ' late')
          return 'late'
        `,
      ),
      file,
      journal,
    )
    await stopped.said('started')
    const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
    const ids = ['heeds', 'does not']
    const jobs = await scheduler.addJobs(ids.map((id) => ({ id, type: 'work' })))
    await stopped.said('begun 2')
    const heir = start(script('heir', `note(job.id + ' heir'); return 'heir'`), file, journal)
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual(['heir', 'heir'])

    stopped.process.kill('SIGCONT')
    expect(await stopped.said('submit')).toBe('submit LEASE_LOST')
    expect(await stopped.said('aborted')).toBe('aborted LEASE_LOST')
    for (const { process } of [stopped, heir]) process.kill('SIGTERM')
    expect(await Promise.all([stopped.ended, heir.ended])).toEqual([0, 0])
    expect([...linesOf(journal)].sort()).toEqual([
      'does not heir',
      'does not late',
      'heeds heir',
      'heeds late',
    ])

    const store = sqliteStore(file)
    await store.open()
    const events = await allEvents(store)
    for (const id of ids) {
      const story = events.filter(({ job }) => job === id)
      expect(story.map(({ event }) => event)).toEqual([
        ...['job:added', 'job:running', 'job:lost', 'job:running', 'job:success'],
      ])
      expect(story.at(-1)?.worker ?? story.at(-2)?.worker).toMatch(/^heir:/)
      expect(await scheduler.job(id)).toMatchObject({ result: 'heir', attempts: 1, lost: 1 })
    }
    expect(await scheduler.job('late')).toBe(null)
    expect(await illsOf(store, file)).toEqual([])
    await store.close()
    await scheduler.close()
  }, 60_000)
})
