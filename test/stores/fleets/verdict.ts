// Owns the verdict on a fleet: every cap is worked out anew after every record of the log.
// May never ask the store what it has counted.

import { hasEnded, type JobEvent, type JobStatus, type StoredJob } from '../../../src/core/job.ts'
import { type Pause, POOLS, type PoolName, SCARCE } from './terms.ts'

interface Life {
  status: JobStatus
  starts: number
  worker: string
}

/** One sentence for each promise that is broken. */
export function judge(
  events: readonly JobEvent[],
  jobs: ReadonlyMap<string, StoredJob>,
  pauses: readonly Pause[],
): readonly string[] {
  const faults = new Set<string>()
  const lives = new Map<string, Life>()
  const lanes = new Map<string, string>()
  for (const { job: id, seq, from, to, attempt, worker = '', pool } of events) {
    const job = jobs.get(id)
    if (job === undefined) {
      faults.add(`${id} is in the log, and not stored`)
      continue
    }
    const life = lives.get(id) ?? { status: to, starts: 0, worker: '' }
    if ((lives.get(id)?.status ?? null) !== from)
      faults.add(`${id} leaves ${from}, where it is not`)
    if (lives.has(id) && hasEnded(life.status)) faults.add(`${id} had ended, and goes to ${to}`)
    lives.set(id, life)
    life.status = to
    const lane = job.exclusive
    if (to === 'running') {
      life.starts += 1
      life.worker = worker
      if (worker === '') faults.add(`${id} runs, and nobody runs it`)
      const holder = lane === undefined ? id : (lanes.get(lane) ?? id)
      if (holder !== id) faults.add(`${id} runs in the ${lane} of ${holder}`)
      if (lane !== undefined) lanes.set(lane, id)
      if (pauses.some((one) => one.pool === pool && seq > one.after && seq <= one.until)) {
        faults.add(`${id} starts in ${pool} while that is paused`)
      }
      for (const fault of overCaps(lives, jobs)) faults.add(fault)
    } else if (lane !== undefined && hasEnded(to) && lanes.get(lane) === id) lanes.delete(lane)
    if (attempt !== life.starts) faults.add(`${id} skips a number of its starts`)
    for (const fault of sharedKeys(lives, jobs)) faults.add(fault)
  }
  for (const fault of tooFast(events)) faults.add(fault)
  for (const [id, { status, starts }] of jobs) {
    const life = lives.get(id)
    if (status !== 'success') faults.add(`${id} is ${status}`)
    if (life?.status !== status || life.starts !== starts) {
      faults.add(`the log leads ${id} to ${life?.status} after ${life?.starts} starts, not here`)
    }
  }
  return [...faults]
}

function overCaps(
  lives: ReadonlyMap<string, Life>,
  jobs: ReadonlyMap<string, StoredJob>,
): readonly string[] {
  const counts = new Map<string, number>()
  const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1)
  for (const [id, { status, worker }] of lives) {
    const job = jobs.get(id)
    if (status !== 'running' || job === undefined) continue
    count(job.pool)
    count(`${job.pool} of ${worker}`)
    count(job.type)
  }
  const over: string[] = []
  for (const [what, number] of counts) {
    const [pool = '', worker] = what.split(' of ')
    const terms: { concurrency: number; perWorker?: number } | undefined = POOLS[pool as PoolName]
    const cap = worker === undefined ? terms?.concurrency : terms?.perWorker
    if (number > (cap ?? Number.POSITIVE_INFINITY))
      over.push(`${number} run in ${what}: ${cap} may`)
  }
  const scarce = counts.get('scarce') ?? 0
  if (scarce > SCARCE) over.push(`${scarce} of the scarce type run: ${SCARCE} may`)
  return over
}

function sharedKeys(
  lives: ReadonlyMap<string, Life>,
  jobs: ReadonlyMap<string, StoredJob>,
): readonly string[] {
  const owners = new Map<string, string>()
  const shared: string[] = []
  for (const [id, { status }] of lives) {
    const key = jobs.get(id)?.key
    if (key === undefined || hasEnded(status)) continue
    const owner = owners.get(key)
    if (owner !== undefined) shared.push(`${owner} and ${id} share ${key}`)
    owners.set(key, id)
  }
  return shared
}

/** Of a rate, no window that is open at its end holds more starts than it says. */
function tooFast(events: readonly JobEvent[]): readonly string[] {
  const { count, per } = POOLS.rated.rate
  const starts = events.filter(({ to, pool }) => to === 'running' && pool === 'rated')
  return starts.flatMap(({ at }, index) => {
    const first = starts[index - count]
    if (first === undefined || at - first.at >= per) return []
    return [`${count + 1} jobs start in rated within ${at - first.at} ms: ${count} may in ${per}`]
  })
}
