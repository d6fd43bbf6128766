// Owns the tools with which the named cases are told: an empty store, a clock, a few short words.
// May never decide by itself what is right: each case says what it expects.

import type { Fact, NewJob, StoredJob } from '../core/job.ts'
import { decide, type Keep } from '../core/machine.ts'
import type { InsertAnswer, InsertGroup, Moved, Store } from '../store/store.ts'
import { newJob, START } from './history-commands.ts'
import { type ManualClock, manualClock } from './history-side.ts'
import { copyJob } from './sim/copy.ts'

/** What is needed of a test runner. */
export interface Runner {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: () => Promise<void>, timeoutMs?: number) => unknown
  readonly expect: (value: unknown) => {
    toBe(expected: unknown): void
    toEqual(expected: unknown): void
    toMatchObject(expected: object): void
  }
}

/** A promise of the port in one sentence, and the proof. */
export interface Case {
  readonly name: string
  /** Only for stores that keep references. */
  readonly live?: boolean
  /** Only for stores that lose no hint. */
  readonly hints?: boolean
  run(bench: Bench): Promise<void>
}

export const KEEP: Keep = {
  successMs: 60_000,
  failedMs: 60_000,
  cancelledMs: 60_000,
  outcomesMs: 60_000,
  logMs: 600_000,
}

export const LEASE_MS = 10_000

export const ERROR = { name: 'Error', message: 'no', code: 'E_NO' }
export const SUCCEEDED: Fact = { type: 'succeeded', result: '"done"' }
export const FAILED: Fact = { type: 'failed', error: ERROR, retryable: false }
export const FAILED_ONCE: Fact = { type: 'failed', error: ERROR, retryable: true }
export const CANCEL: Fact = { type: 'cancel' }
export const RETRY: Fact = { type: 'retry' }
export const OVERDUE: Fact = { type: 'overdue' }
export const SETTLED: Fact = { type: 'settled' }

/** Runs again at once after a failure, up to nine times, and after any number of losses. */
export const PATIENT: Pick<NewJob, 'terms'> = {
  terms: {
    timeoutMs: 0,
    retries: 9,
    backoff: { type: 'fixed', delayMs: 0, maxMs: 0, factor: 1, jitter: false },
    maxLost: 9,
    idempotent: true,
    confirm: false,
    heartbeatMs: 0,
    preemptible: false,
  },
}

export type Sketch = Partial<NewJob> & { readonly id: string }

export interface Bench {
  readonly store: Store
  readonly clock: ManualClock
  readonly expect: Runner['expect']
  /** Adds one group. */
  add(...jobs: readonly Sketch[]): Promise<InsertAnswer>
  addTo(group: Omit<InsertGroup, 'jobs' | 'unknownDeps'>, ...jobs: Sketch[]): Promise<InsertAnswer>
  /** Leases jobs of any type of the cases; answers copies, which stay as they are. */
  take(max?: number, holder?: string): Promise<readonly StoredJob[]>
  /** What a fact means for a job as it is known, written. Null: it means nothing. */
  say(job: StoredJob, fact: Fact, keep?: Keep): Promise<Moved | null>
  /** The same, for the job as it is now. */
  tell(id: string, fact: Fact, keep?: Keep): Promise<Moved | null>
  /** Several at once, each for the job as it is now. */
  tellAll(facts: readonly (readonly [id: string, fact: Fact])[]): Promise<readonly Moved[]>
  job(id: string): Promise<StoredJob>
  statuses(...ids: readonly string[]): Promise<readonly string[]>
  /** Decides about everything that is overdue, until nothing is. */
  tidy(keep?: Keep): Promise<void>
}

export const TYPES = ['alpha', 'beta', 'gamma']

export function on(...ids: readonly string[]): Pick<NewJob, 'deps'> {
  return { deps: ids.map((id) => ({ id, on: 'success' })) }
}

export function edge(id: string, end: 'success' | 'end'): NewJob['deps'][number] {
  return { id, on: end }
}

/** Runs a case on an empty store. */
export async function runCase(
  each: Case,
  open: (clock: ManualClock) => Promise<Store>,
  expect: Runner['expect'],
): Promise<void> {
  const clock = manualClock(START)
  const store = await open(clock)
  await store.open()
  try {
    const { keepsLive, lossyHints } = store.traits
    if (each.live === true && !keepsLive) return
    if (each.hints === true && lossyHints) return
    await each.run(benchOf(store, clock, expect))
  } finally {
    await store.close()
  }
}

function benchOf(store: Store, clock: ManualClock, expect: Runner['expect']): Bench {
  const bench: Bench = {
    store,
    clock,
    expect,
    add: (...jobs) => bench.addTo({}, ...jobs),
    addTo: async (group, ...sketches) => {
      const jobs = sketches.map((sketch) => newJob(sketch.id, sketch))
      const told = await store.insert([{ ...group, jobs, unknownDeps: 'wait' }], false)
      return told.answer[0] as InsertAnswer
    },
    take: async (max = 1, holder = 'worker') => {
      const ask = { holder, leaseMs: LEASE_MS, max, types: TYPES }
      return (await store.lease(ask, false)).answer.jobs.map(copyJob)
    },
    say: async (job, fact, keep = KEEP) => {
      const move = decide(job, fact, keep)
      if (move === null) return null
      return (await store.apply([move], false)).answer[0] as Moved
    },
    tell: async (id, fact, keep = KEEP) => bench.say(await bench.job(id), fact, keep),
    tellAll: async (facts) => {
      const moves = []
      for (const [id, fact] of facts) moves.push(decide(await bench.job(id), fact, KEEP))
      return (
        await store.apply(
          moves.filter((move) => move !== null),
          false,
        )
      ).answer
    },
    job: async (id) => {
      const [job] = await store.get([id])
      if (job === null || job === undefined) throw new Error(`There is no job ${id}.`)
      return copyJob(job)
    },
    statuses: async (...ids) => (await store.get(ids)).map((job) => job?.status ?? 'nobody'),
    tidy: async (keep = KEEP) => tidy(bench, keep),
  }
  return bench
}

/** More rounds than any case has generations. */
const ROUNDS = 100

async function tidy({ store }: Bench, keep: Keep): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) {
    const { answer } = await store.overdue({ limit: 1_000, keepLogMs: keep.logMs }, false)
    const moves = answer.jobs.map((job) => decide(job, OVERDUE, keep))
    const moved = await store.apply(
      moves.filter((move) => move !== null),
      false,
    )
    if (moved.answer.length === 0 && !answer.more) return
  }
  throw new Error('There is no end of what is overdue.')
}
