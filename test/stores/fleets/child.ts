// Owns a process of a fleet: a worker, a submitter or an operator, as it is told when started.

import { appendFileSync } from 'node:fs'
import { AxScheduler, type JobInput } from '../../../src/index.ts'
import { numbersFrom } from '../../../src/testing/history-commands.ts'
import { storeAt } from './place.ts'
import { type Pause, type Payload, POOLS, TYPES } from './terms.ts'

const [role = '', name = '', place = '', journal = '', jobs = '0', seed = '0'] =
  process.argv.slice(2)
const random = numbersFrom(Number(seed))
const store = storeAt(place)
const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))
const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T

let isOver = false
const scheduler = new AxScheduler(
  role === 'worker' ? { store, name, pools: POOLS } : { store, name, autoStart: false },
)
process.on('SIGTERM', async () => {
  isOver = true
  // An operator who is amid a pause resumes the pool first, and needs the store for that.
  if (role !== 'operator') await end()
})

if (role === 'worker') await work()
else if (role === 'submitter') await submit()
else await operate()

async function end(): Promise<void> {
  await scheduler.close()
  await store.close()
  process.exit(0)
}

async function work(): Promise<void> {
  for (const [type, policy] of Object.entries(TYPES)) {
    scheduler.define<Payload, string>(type, policy as object, async ({ payload, job, attempt }) => {
      appendFileSync(journal, `${job.id}\t${attempt}\t${name}\n`)
      await pause(payload.lasts)
      if (attempt <= payload.fails) throw new Error('not yet')
      return job.id
    })
  }
  await scheduler.start()
  console.log(`up on ${process.version}`)
}

async function submit(): Promise<void> {
  for (const type of Object.keys(TYPES)) scheduler.define(type, TYPES[type] ?? {}, () => {})
  const handles = []
  for (let number = 0; number < Number(jobs); ) {
    const batch = Array.from({ length: 1 + Math.floor(random() * 4) }, () => {
      number += 1
      return jobOf(number)
    })
    handles.push(...(await Promise.all(batch.map((job) => scheduler.addJob(job)))))
    if (random() < 0.3) await pause(random() * 10)
  }
  await Promise.all(handles.map((handle) => handle.result()))
  console.log(`submitted ${handles.filter(({ added }) => added).length}`)
  await scheduler.close()
  await store.close()
}

/** Half of them stand in a lane, or have a key, which is refused a second life meanwhile. */
function jobOf(number: number): JobInput {
  const named = random()
  const id = `${name}-${number}`
  return {
    type: pick(['common', 'common', 'scarce']),
    pool: pick(['wide', 'wide', 'narrow', 'rated']),
    priority: 30 + Math.floor(random() * 40),
    payload: { lasts: Math.floor(random() * 8), fails: random() < 0.15 ? 1 : 0 },
    // A key answers with its owner only to those that bring no id of their own.
    ...(named < 0.25 && number > 1 ? { key: `key ${pick([1, 2, 3, 4])}` } : { id }),
    ...(named > 0.65 ? { exclusive: `lane ${pick([1, 2, 3])}` } : {}),
    ...(named > 0.9 && number > 1 ? { deps: [`${name}-1`] } : {}),
  }
}

async function operate(): Promise<void> {
  const last = async () => (await store.events(0, 1)).last
  while (!isOver) {
    const pool = pick(['wide', 'narrow'])
    await scheduler.pool(pool).pause()
    const after = await last()
    await pause(20 + random() * 60)
    const until = await last()
    await scheduler.pool(pool).resume()
    console.log(`paused ${JSON.stringify({ pool, after, until } satisfies Pause)}`)
    await pause(20 + random() * 60)
  }
  await end()
}
