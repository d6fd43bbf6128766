// Owns a process of the chaos suite: it submits, runs and finishes jobs through a network that
// fails, until it is told to stop. May never take an outage for an end: what was not answered is
// asked again, with the same ids.

import { Cluster } from 'ioredis'
import { AxError } from '../../../src/core/errors.ts'
import type { JobHandle, JobInput } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { Ledger } from '../crash/ledger.ts'
import { roundOf, workerOn } from '../crash/work.ts'
import { LEASE_MS, PREFIX, RETRIES } from './terms.ts'

/** As many jobs as a process waits for at once. */
const MOST = 40

/** Between two rounds, and between two tries. */
const ROUND_MS = 60
const AGAIN_MS = 20

const [url = '', ledgerPath = '', name = '', node = ''] = process.argv.slice(2)
const ledger = new Ledger(ledgerPath)
const client = node === '' ? url : clusterOf(node)
const store = redisStore(client, { prefix: PREFIX })
const scheduler = workerOn(store, name, ledger, { leaseMs: LEASE_MS, retries: RETRIES })

let isOver = false
let awaited = 0
process.on('SIGTERM', async () => {
  isOver = true
  await scheduler.close()
  await store.close()
  if (typeof client !== 'string') client.disconnect()
  process.exit(0)
})

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))

await again(() => scheduler.start())
console.log('up')

for (let round = 0; !isOver; round += 1) {
  await Promise.all(roundOf(name, round).map(submit))
  await pause(ROUND_MS)
  while (awaited > MOST && !isOver) await pause(AGAIN_MS)
}

async function submit(jobs: readonly JobInput[]): Promise<void> {
  ledger.note('ask', ...jobs.map(({ id = '' }) => id))
  const added = await again(() => scheduler.addJobs([...jobs]) as Promise<JobHandle[]>)
  for (const handle of added ?? []) {
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

/** Until it is answered, or this process is to stop; an error that is no outage is thrown. */
async function again<T>(act: () => Promise<T>): Promise<T | undefined> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (isOver) return undefined
      if (!(error instanceof AxError && error.code === 'STORE_UNAVAILABLE' && error.retryable)) {
        throw error
      }
      await pause(AGAIN_MS)
    }
  }
}

/** A client of the cluster whose one node is called so; what it says goes through our network. */
function clusterOf(called: string): Cluster {
  const { hostname: host, port } = new URL(url)
  const place = { host, port: Number(port) }
  const made = new Cluster([place], {
    natMap: { [called]: place },
    redisOptions: { maxRetriesPerRequest: 0 },
    retryDelayOnFailover: 0,
  })
  made.on('error', () => {})
  return made
}
