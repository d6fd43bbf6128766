// Owns a process of the crash suite: it submits, runs and finishes jobs until it is killed. Told
// `hurry`, it does so fast for a while; told `arm`, until it ends itself at a named point.

import { sqliteStore } from '../../../src/stores/sqlite/index.ts'
import { Faults } from './faults.ts'
import { Ledger } from './ledger.ts'
import { spyOn } from './spy.ts'
import { roundOf, workerOn } from './work.ts'

/** As many jobs as a process waits for at once: the file should not grow without end. */
const MOST = 40

/** Rounds that it makes fast, and the pauses between two rounds, milliseconds. */
const HURRY = 8
const FAST = 4
const SLOW = 250

const [file = '', ledgerPath = '', name = ''] = process.argv.slice(2)
const ledger = new Ledger(ledgerPath)
const faults = new Faults((point) => {
  ledger.note('death', point)
  process.kill(process.pid, 'SIGKILL')
  for (;;);
})
const library = await spyOn(faults)
const scheduler = workerOn(faults.around(sqliteStore(file)), name, ledger, { faults })

let isOver = false
let hurry = HURRY
process.stdin.on('data', (chunk) => {
  const [word, countdown, point = ''] = chunk.toString().trim().split('\t')
  hurry = word === 'arm' ? Number.POSITIVE_INFINITY : HURRY
  if (word === 'arm') faults.arm(point, Number(countdown))
})
process.on('SIGTERM', async () => {
  isOver = true
  await scheduler.close()
  process.exit(0)
})

await scheduler.start()
console.log(`up with ${library}`)

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))
let awaited = 0

for (let round = 0; !isOver; round += 1, hurry -= 1) {
  await Promise.all(roundOf(name, round).map(submit))
  for (let waited = 0; waited < (hurry > 0 ? FAST : SLOW); waited += FAST) await pause(FAST)
  while (awaited > MOST && !isOver) await pause(2)
}

async function submit(jobs: ReturnType<typeof roundOf>[number]): Promise<void> {
  ledger.note('ask', ...jobs.map(({ id = '' }) => id))
  const [first] = jobs
  const added =
    jobs.length === 1 && first !== undefined
      ? [await scheduler.addJob(first)]
      : await scheduler.addJobs(jobs)
  for (const handle of added) {
    ledger.note('ack', handle.id)
    awaited += 1
    const over = () => {
      awaited -= 1
    }
    handle.result().then(() => {
      ledger.note('result', handle.id)
      over()
    }, over)
  }
}
