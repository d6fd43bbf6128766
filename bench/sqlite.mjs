// Owns the comparison on one SQLite file with plainjob, on the same driver, and with a floor: bare
// rows. May never compare two kinds of durability: all write with synchronous NORMAL.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AxScheduler, sqliteStoreOf } from './lib/ax.mjs'
import { Checks } from './lib/checks.mjs'
import { answer, assignment, takeTurns } from './lib/fresh.mjs'
import { median, spread } from './lib/numbers.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine, printTable, printTarget, show } from './lib/report.mjs'

/** @typedef {{ contender: string, jobs: number, single: number }} Task */
/** @typedef {{ bulk: number, single: number, drain: number, ran: number }} Figures */

const BATCH = 1_000
const CONCURRENCY = 100
const PEER = 'plainjob'
const PAYLOAD = { text: 'x'.repeat(180) }

/** @type {Record<string, (file: string, task: Task) => Promise<Figures>>} */
const CONTENDERS = { [PEER]: plainjob, ax, rows }

const task = /** @type {Task | undefined} */ (assignment())
if (task === undefined) await main()
else answer(await measureOne(task))

async function main() {
  const options = readOptions({
    jobs: 20_000,
    single: 2_000,
    repeats: 5,
    only: /** @type {readonly string[]} */ (Object.keys(CONTENDERS)),
  })
  printMachine()
  const checks = new Checks()
  for (const name of options.only) {
    checks.expect(name in CONTENDERS, () => `There is no contender '${name}'.`)
  }
  if (checks.faults.length === 0) await compare(options, checks)
  checks.conclude()
}

/**
 * @param {{ jobs: number, single: number, repeats: number, only: readonly string[] }} options
 * @param {Checks} checks
 */
async function compare({ jobs, single, repeats, only }, checks) {
  const tasks = only.map((contender) => ({ contender, jobs, single }))
  const measured = await takeTurns(import.meta.url, tasks, repeats)
  const results = tasks.map((each) => {
    const figures = measured.get(each) ?? []
    for (const { ran } of figures) {
      checks.expect(ran === jobs, () => `${each.contender}: ${ran} of ${jobs} jobs ran.`)
    }
    const all = (/** @type {string} */ name) => figures.map((one) => one[name] ?? Number.NaN)
    const [bulk, one, drain] = [median(all('bulk')), median(all('single')), median(all('drain'))]
    return { contender: each.contender, bulk, one, drain, off: spread(all('drain')) }
  })
  const lines = results.map(({ contender, bulk, one, drain, off }) => {
    return [contender, show(bulk), show(one), show(drain), `${show(100 * off)} %`]
  })
  printTable(['contender', 'bulk/s', 'one by one/s', 'drain/s', 'spread'], lines)
  const own = results.find(({ contender }) => contender === 'ax')
  const peer = results.find(({ contender }) => contender === PEER)
  if (own !== undefined && peer !== undefined) {
    const ratio = own.drain / peer.drain
    printTarget('ax, drain', `${show(ratio, 2)} x ${PEER}`, '>= 1 x', ratio >= 1)
  }
  print('Medians of fresh processes that took turns; ax keeps a log, counts and attempts as well.')
}

// In a process of its own

/** @param {Task} given */
async function measureOne(given) {
  const run = CONTENDERS[given.contender]
  if (run === undefined) throw new Error(`There is no contender '${given.contender}'.`)
  const folder = mkdtempSync(join(tmpdir(), 'ax-bench-sqlite-'))
  try {
    return await run(join(folder, 'bench.db'), given)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * How many a second.
 *
 * @param {number} count
 * @param {() => unknown} act
 */
async function rate(count, act) {
  const startedAt = performance.now()
  await act()
  return (1000 * count) / (performance.now() - startedAt)
}

/**
 * Ends when so many bodies have run.
 *
 * @param {number} jobs
 */
function counter(jobs) {
  let ran = 0
  /** @type {() => void} */
  let end = () => {}
  const all = new Promise((resolve) => {
    end = () => resolve(undefined)
  })
  const body = async () => {
    ran += 1
    if (ran === jobs) end()
  }
  return { all, body, ran: () => ran }
}

/**
 * @param {string} file
 * @param {Task} task
 */
async function ax(file, { jobs, single }) {
  const sqliteStore = await sqliteStoreOf()
  const store = sqliteStore(file)
  const scheduler = new AxScheduler({ store, concurrency: CONCURRENCY, autoStart: false })
  const { all, body, ran } = counter(jobs)
  scheduler.define('work', body)
  await scheduler.snapshot()
  const bulk = await rate(jobs, async () => {
    for (let at = 0; at < jobs; at += BATCH) {
      const length = Math.min(BATCH, jobs - at)
      await scheduler.addJobs(Array.from({ length }, () => ({ type: 'work', payload: PAYLOAD })))
    }
  })
  const drain = await rate(jobs, async () => {
    await scheduler.start()
    await all
    await scheduler.idle()
  })
  const one = await rate(single, async () => {
    for (let at = 0; at < single; at += 1) {
      await scheduler.addJob({ type: 'other', payload: PAYLOAD })
    }
  })
  await scheduler.close()
  await store.close()
  return { bulk, single: one, drain, ran: ran() }
}

/** The library that ax uses on Node 20, so that both have the same driver there. */
async function connect(/** @type {string} */ file) {
  const { default: Connection } = await import('libsql')
  const connection = new Connection(file)
  connection.exec('PRAGMA journal_mode = WAL')
  connection.exec('PRAGMA synchronous = NORMAL')
  return connection
}

/**
 * @param {string} file
 * @param {Task} task
 */
async function plainjob(file, { jobs, single }) {
  const { better, defineQueue, defineWorker } = await import('plainjob')
  const silent = () => {}
  const logger = { error: silent, warn: silent, info: silent, debug: silent }
  const connection = better(/** @type {any} */ (await connect(file)))
  const queue = defineQueue({ connection, logger })
  const { all, body, ran } = counter(jobs)
  const bulk = await rate(jobs, () => {
    for (let at = 0; at < jobs; at += BATCH) {
      const length = Math.min(BATCH, jobs - at)
      queue.addMany(
        'work',
        Array.from({ length }, () => PAYLOAD),
      )
    }
  })
  const worker = defineWorker('work', body, { queue, logger })
  const drain = await rate(jobs, async () => {
    void worker.start()
    await all
  })
  await worker.stop()
  const one = await rate(single, () => {
    for (let at = 0; at < single; at += 1) queue.add('other', PAYLOAD)
  })
  queue.close()
  return { bulk, single: one, drain, ran: ran() }
}

/**
 * Rows without any rule: put in, claimed a hundred at a time, taken out.
 *
 * @param {string} file
 * @param {Task} task
 */
async function rows(file, { jobs, single }) {
  const connection = await connect(file)
  connection.exec('PRAGMA temp_store = MEMORY')
  connection.exec('CREATE TABLE job (id INTEGER PRIMARY KEY, payload TEXT, taken INTEGER)')
  connection.exec('CREATE INDEX job_ready ON job (id) WHERE taken = 0')
  const add = connection.prepare('INSERT INTO job (payload, taken) VALUES (?, 0)')
  const claim = connection.prepare(`UPDATE job SET taken = 1 WHERE id IN
    (SELECT id FROM job WHERE taken = 0 ORDER BY id LIMIT ${CONCURRENCY}) RETURNING id, payload`)
  const remove = connection.prepare('DELETE FROM job WHERE id IN (SELECT value FROM json_each(?))')
  const text = JSON.stringify(PAYLOAD)
  let ran = 0
  const bulk = await rate(jobs, () => {
    for (let at = 0; at < jobs; at += BATCH) {
      connection.exec('BEGIN IMMEDIATE')
      for (let each = at; each < Math.min(jobs, at + BATCH); each += 1) add.run(text)
      connection.exec('COMMIT')
    }
  })
  const drain = await rate(jobs, () => {
    for (;;) {
      const taken = /** @type {{ id: number, payload: string }[]} */ (claim.all())
      if (taken.length === 0) return
      for (const { payload } of taken) JSON.parse(payload)
      remove.run(JSON.stringify(taken.map(({ id }) => id)))
      ran += taken.length
    }
  })
  const one = await rate(single, () => {
    for (let at = 0; at < single; at += 1) add.run(text)
  })
  connection.close()
  return { bulk, single: one, drain, ran }
}
