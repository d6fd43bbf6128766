// Owns a process that works on a file whose lock somebody else holds again and again, and measures
// meanwhile how long its event loop stands still, and how long SQLite itself keeps it waiting.

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { AxScheduler } from '../../../src/index.ts'
import { CODES, codeOf } from '../../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'
import { spyOn } from '../crash/spy.ts'

const [file = ''] = process.argv.slice(2)

/** How long SQLite waited each time until it gave up on the lock. */
const waits: number[] = []
const timeouts: number[] = []

const library = await spyOn({
  after: (sql) => {
    const [, ms] = /busy_timeout\s*=\s*(\d+)/i.exec(sql) ?? []
    if (ms !== undefined) timeouts.push(Number(ms))
  },
  failed: (_sql, error, ms) => {
    if (codeOf(error) !== CODES.busy) return
    waits.push(ms)
  },
})

const scheduler = new AxScheduler({ store: sqliteStore(file), name: 'w' })
scheduler.define('work', { timeout: '50s' }, async () => 'done')
await scheduler.start()

const loop = monitorEventLoopDelay({ resolution: 1 })
let isOver = false
process.stdin.once('data', () => {
  isOver = true
})
let jobs = 0
let ticks = 0
const ticker = setInterval(() => {
  ticks += 1
}, 5)
console.log('up')
loop.enable()
const results: Promise<unknown>[] = []
while (!isOver) {
  jobs += 1
  results.push(scheduler.addJob({ id: `j${jobs}`, type: 'work' }).then((job) => job.result()))
  await new Promise((done) => setTimeout(done, 10))
}
await Promise.all(results)
loop.disable()
clearInterval(ticker)
const gapMs = loop.max / 1e6
console.log(`report ${JSON.stringify({ library, jobs, ticks, waits, gapMs, timeouts })}`)
await scheduler.close()
process.exit(0)
