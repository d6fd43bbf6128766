// Owns reading what the doctor wants to know: counts, single pages, a few samples.
// May never read all jobs, or change anything.

import { type DoctorFacts, diagnose, diagnoseDamage, LONG_MS, type Sample } from '../core/doctor.ts'
import { isAxError } from '../core/errors.ts'
import { hasEnded, type JobStatus, STATUSES, type Terms } from '../core/job.ts'
import type { StoredSettings } from '../core/settings.ts'
import type { Finding } from '../core/types.ts'
import { LIMITS } from '../store/limits.ts'
import type { Counted, StatusCounts, Store, WorkerInfo } from '../store/store.ts'

/** Types that are looked at more closely: more than anybody reads about. */
const MAX_TYPES = 100

/** Jobs of a type that are looked at; some may bring bodies, or timeouts, of their own. */
const SAMPLE = 100

const LIVE = STATUSES.filter((status) => !hasEnded(status))

/** What a process knows of itself: what it has told the store may be a while ago. */
export interface Self {
  readonly holder: string
  readonly zombies: number
}

/** Everything that is to be said of a store, gravest first. */
export async function examine(store: Store, self: Self): Promise<Finding[]> {
  const inspection = await store.inspect()
  try {
    return diagnose({ ...(await factsOf(store, self)), inspection })
  } catch (error) {
    // What is damaged may not answer anything else, and an outage passes.
    if (inspection.damage.length === 0 || (isAxError(error) && error.retryable)) throw error
    return diagnoseDamage(inspection)
  }
}

async function factsOf(store: Store, self: Self): Promise<Omit<DoctorFacts, 'inspection'>> {
  const [known, settings, counted, now] = await Promise.all([
    store.workers(),
    store.settings(),
    store.count(),
    store.time(),
  ])
  // In order of name: a count is in no order, and two stores should be told of alike.
  const types = Object.entries(counted.types).sort(([a], [b]) => (a < b ? -1 : 1))
  const workers = known.map((worker) => {
    return worker.holder === self.holder ? { ...worker, ...self } : worker
  })
  return {
    now,
    workers,
    settings,
    pools: counted.pools,
    waiting: await longIn(store, 'waiting', now),
    ready: await longIn(store, 'ready', now),
    unserved: await unservedOf(store, types, workers),
    closedTypes: types
      .filter(([type, { ready }]) => ready > 0 && capOf(settings, type) === 0)
      .map(([type, { ready }]) => ({ type, count: ready })),
    timeless: await timelessOf(store, counted, settings),
  }
}

function capOf({ types }: StoredSettings, type: string): number | null {
  return (Object.hasOwn(types, type) ? types[type]?.concurrency : null) ?? null
}

/** The oldest of those, by one page: jobs come in order of submission. */
async function longIn(store: Store, status: JobStatus, now: number): Promise<Sample> {
  const createdBefore = now - LONG_MS
  const ask = { statuses: [status], createdBefore, after: 0, limit: LIMITS.page }
  const { jobs, after } = await store.list(ask)
  const long = jobs.filter((job) => status !== 'ready' || job.availableAt <= createdBefore)
  return { jobs: long.map(({ id }) => id), more: after !== null }
}

async function unservedOf(
  store: Store,
  types: readonly (readonly [string, StatusCounts])[],
  workers: readonly WorkerInfo[],
): Promise<DoctorFacts['unserved']> {
  const served = new Set(workers.flatMap((worker) => worker.types))
  const open = types.filter(([type, { ready }]) => ready > 0 && !served.has(type))
  const found = open.slice(0, MAX_TYPES).map(async ([type, { ready }]) => {
    const page = await store.list({ statuses: ['ready'], type, after: 0, limit: SAMPLE })
    // A job that brings its own body can be run by any worker, if there is one.
    const stuck = page.jobs.filter(({ body }) => body === undefined || workers.length === 0)
    const count = stuck.length === page.jobs.length ? ready : stuck.length
    return { type, count, jobs: stuck.map(({ id }) => id), more: page.after !== null }
  })
  return (await Promise.all(found)).filter(({ jobs }) => jobs.length > 0)
}

/**
 * Types that are set up, or have jobs that have not ended, and nothing that stops a body that
 * hangs, neither of the type nor of each of its jobs.
 */
async function timelessOf(
  store: Store,
  { types }: Counted,
  settings: StoredSettings,
): Promise<DoctorFacts['timeless']> {
  const live = Object.entries(types).filter(([, counts]) => LIVE.some((status) => counts[status]))
  const names = new Set([...Object.keys(settings.types), ...live.map(([type]) => type)])
  const looks = [...names].slice(0, MAX_TYPES).map(async (type) => {
    const setting = Object.hasOwn(settings.types, type) ? settings.types[type] : undefined
    if (setting !== undefined && isLimited(setting)) return undefined
    const ask = { type, after: 0, limit: SAMPLE }
    const live = await store.list({ ...ask, statuses: LIVE })
    // What has ended shows what jobs of the type bring, where none are there.
    const { jobs } = live.jobs.length > 0 ? live : await store.list(ask)
    const job = jobs.find((each) => !isLimited(each))
    return job === undefined && jobs.length > 0 ? undefined : { type, job: job?.id }
  })
  return (await Promise.all(looks)).filter((look) => look !== undefined)
}

function isLimited({ terms }: { readonly terms: Terms }): boolean {
  return terms.timeoutMs > 0 || terms.heartbeatMs > 0
}
