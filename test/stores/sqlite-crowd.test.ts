// Owns the known case of a crowd on one file: who claims, who submits and who only looks.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import { AxScheduler } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { linesOf, processes } from './processes.ts'

const { data, start } = processes()

const WORKERS = 6
const FIRST = 5_000
const LATER = 2_000

/** Everything that a process has to complain about, and how long its claims took. */
const WATCHED = `
  const complaints = []
  const hear = (fields, text) => complaints.push(text + ' ' + String(fields?.error))
  const logger = { info() {}, warn: hear, error: hear }
  process.on('unhandledRejection', hear)
  const claims = []
  const { lease } = store
  store.lease = async (...args) => {
    const begin = performance.now()
    const answer = await lease.apply(store, args)
    claims.push(performance.now() - begin)
    return answer
  }
  const tell = () => console.log('told ' + JSON.stringify({ complaints, claims }))
`

const WORKER = `${WATCHED}
  const scheduler = new AxScheduler({ store, logger, pools: { default: { perWorker: 4 } } })
  scheduler.define('work', { concurrency: ${4 * WORKERS} }, async ({ payload }) => {
    note(payload)
    await new Promise((done) => setTimeout(done, 1))
  })
  await scheduler.start()
  process.on('SIGTERM', async () => {
    await scheduler.close()
    await store.close()
    tell()
  })
  console.log('started')
`

const SUBMITTER = `${WATCHED}
  const scheduler = new AxScheduler({ store, logger, autoStart: false })
  for (let n = ${FIRST}; n < ${FIRST + LATER}; n += 1) {
    await scheduler.addJob({ id: 'j' + n, type: 'work', payload: n })
  }
  await scheduler.close()
  await store.close()
  tell()
`

const ONLOOKER = `${WATCHED}
  await store.open()
  let looks = 0
  while (true) {
    await new Promise((done) => setTimeout(done, 10))
    await store.list({ after: 0, limit: 100 }).catch((error) => hear({ error }, 'list'))
    const { types } = await store.count()
    looks += 1
    const { work } = types
    if (work.success === ${FIRST + LATER}) break
    if (work.failed + work.cancelled > 0) break
  }
  await store.close()
  console.log('looked ' + looks)
  tell()
`

interface Tale {
  readonly complaints: readonly string[]
  readonly claims: readonly number[]
}

it('C64: six workers, a submitter and an onlooker start each job once, and nobody is refused', async () => {
  const [file, journal] = [join(data, 'crowd.db'), join(data, 'crowd.txt')]
  const scheduler = new AxScheduler({ store: sqliteStore(file), autoStart: false })
  const numbers = Array.from({ length: FIRST }, (_, n) => n)
  await scheduler.addJobs(numbers.map((n) => ({ id: `j${n}`, type: 'work', payload: n })))
  await scheduler.close()
  const workers = Array.from({ length: WORKERS }, () => start(WORKER, file, journal))
  await Promise.all(workers.map(({ said }) => said('started')))
  const submitter = start(SUBMITTER, file, journal)
  const onlooker = start(ONLOOKER, file, journal)
  expect(await onlooker.said('looked')).toMatch(/^looked \d+$/)
  for (const worker of workers) worker.process.kill('SIGTERM')
  const everybody = [...workers, submitter, onlooker]
  const told = await Promise.all(everybody.map(({ said }) => said('told')))
  const tales = told.map((line) => JSON.parse(line.slice('told '.length)) as Tale)
  expect(await Promise.all(everybody.map(({ ended }) => ended))).toEqual(everybody.map(() => 0))
  expect(tales.flatMap(({ complaints }) => complaints)).toEqual([])
  const started = linesOf(journal).map(Number)
  const all = Array.from({ length: FIRST + LATER }, (_, n) => n)
  expect(started.sort((a, b) => a - b)).toEqual(all)
  const claims = tales.flatMap((tale) => tale.claims).sort((a, b) => a - b)
  const p99 = claims[Math.floor(claims.length * 0.99)] ?? 0
  console.log(`C64: ${claims.length} claims, p99 ${p99.toFixed(1)} ms`)
  expect(p99).toBeLessThan(5_000)
  const store = sqliteStore(file)
  expect(await store.inspect()).toMatchObject({ damage: [], expired: [] })
  await store.close()
}, 120_000)
