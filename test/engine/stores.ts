// Owns which store the tests of the engine run on: memory, or SQLite where test/stores says so.
// May never change what a test says: one text, the same promises.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, vi } from 'vitest'
import { Live, type Move, type NewJob, type Stored, type StoredJob } from '../../src/core/job.ts'
import type { Runtime } from '../../src/kit/runtime.ts'
import { memoryStore } from '../../src/store/memory.ts'
import type { InsertGroup, LeaseAsk, Moved, Store, WorkerBeat } from '../../src/store/store.ts'
import { loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'

/** The tests of the engine that run on SQLite as well, in as many files as there are lines. */
export const ON_SQLITE: readonly (readonly string[])[] = [
  ['admission', 'breaker', 'budget', 'cancel', 'confirm', 'confirm-late', 'deps', 'events'],
  ['flows', 'heartbeats', 'idle', 'keys', 'leases', 'make-up', 'nested', 'operator', 'outage'],
  ['pools', 'preempt', 'reasons', 'revive', 'room', 'schedules', 'settings', 'views'],
  ['retries', 'run', 'stalls', 'stop', 'submit', 'timeouts', 'zombies'],
]

/** Time is virtual here, and so may the disk be: five hundred files take as long as a test. */
const scratch = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

let folder: string | undefined
let files = 0
const opened: Store[] = []

/** Whether these tests run on SQLite. */
export function onSqlite(): boolean {
  return folder !== undefined
}

/** Runs tests of the engine on files of SQLite, which are gone when they are over. */
export function runOnSqlite(names: readonly string[] = []): void {
  const made = mkdtempSync(join(scratch, 'ax-engine-'))
  folder = made
  // A few of them take three seconds on a quiet machine.
  vi.setConfig({ testTimeout: 120_000 })
  // While a library is loaded, real time passes: virtual time would be over before.
  beforeAll(async () => {
    await loadLibrary()
  })
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close()
  })
  afterAll(() => rmSync(made, { recursive: true, force: true }))
  for (const name of names) {
    describe(name, async () => {
      await import(`./${name}.test.ts`)
    })
  }
}

/** A new store of the kind that is tested, on this time. */
export function storeOn(runtime: Runtime): Store {
  if (folder === undefined) return memoryStore({ runtime })
  files += 1
  const store = sqliteStore(join(folder, `${files}.db`), { runtime: seldom(runtime) })
  opened.push(store)
  return withBodies(store)
}

/**
 * A store looks every 20 ms whether another process has written. Here there is none, and days of
 * virtual time go by: it looks once an hour.
 */
function seldom(runtime: Runtime): Runtime {
  return {
    now: () => runtime.now(),
    monotonic: () => runtime.monotonic(),
    random: () => runtime.random(),
    soon: (run) => runtime.soon(run),
    after: (ms, run, options) => {
      return runtime.after(options?.ref === false ? Math.max(ms, 3_600_000) : ms, run, options)
    },
  }
}

/**
 * The tests hand their bodies in with the jobs, which a file cannot keep. This keeps them beside
 * it: what is not data stays here under a number, and the store has the number.
 */
function withBodies(inner: Store): Store {
  const bodies = new Map<string, unknown>()
  const types = new Set<string>()
  const boxes: Live[] = []
  const places = new Map<unknown, number>()
  const beats = new Map<string, { readonly worker: WorkerBeat; readonly until: number }>()
  const rest = (stored: Stored): Stored => {
    if (!(stored instanceof Live)) return stored
    const at = places.get(stored.value) ?? boxes.push(stored) - 1
    places.set(stored.value, at)
    return `{"boxed":${at}}`
  }
  const unrest = (stored: Stored): Stored => {
    const [, at] = typeof stored === 'string' ? (/^\{"boxed":(\d+)\}$/.exec(stored) ?? []) : []
    return at === undefined ? stored : boxes[Number(at)]
  }
  const seen = <J extends StoredJob | null>(job: J): J => {
    if (job === null) return job
    const { id, payload, result } = job
    return { ...job, body: bodies.get(id), payload: unrest(payload), result: unrest(result) }
  }
  const pageOf = <P extends { readonly jobs: readonly StoredJob[] }>(page: P): P => {
    return { ...page, jobs: page.jobs.map(seen) }
  }
  const keep = ({ id, type, body }: Pick<NewJob, 'id' | 'type' | 'body'>) => {
    if (body === undefined) return
    bodies.set(id, body)
    types.add(type)
  }
  const own: Partial<Store> = {
    traits: { ...inner.traits, keepsLive: true, lossyHints: false },
    insert: async (groups, tell) => {
      const jobs = groups.flatMap((group) => group.jobs)
      for (const job of jobs) if (!bodies.has(job.id)) keep(job)
      const bare = groups.map((group): InsertGroup => {
        const plain = ({ payload, ...job }: NewJob) => ({
          ...job,
          payload: rest(payload),
          body: undefined,
        })
        return { ...group, jobs: group.jobs.map(plain) }
      })
      const { answer, events } = await inner.insert(bare, tell)
      const answers = answer.map((each, at) => {
        if (each.status !== 'done') return each
        for (const [index, { added }] of each.jobs.entries()) {
          const given = groups[at]?.jobs[index]
          if (added && given !== undefined) keep(given)
        }
        return { ...each, jobs: each.jobs.map(({ added, job }) => ({ added, job: seen(job) })) }
      })
      return { answer: answers, events }
    },
    lease: async (ask: LeaseAsk, tell) => {
      const served = [...new Set([...ask.types, ...types])]
      const { answer, events } = await inner.lease({ ...ask, types: served }, tell)
      return { answer: pageOf(answer), events }
    },
    overdue: async (ask, tell) => {
      const { answer, events } = await inner.overdue(ask, tell)
      return { answer: pageOf(answer), events }
    },
    apply: async (moves, tell) => {
      const bare = moves.map((move): Move => ({ ...move, result: rest(move.result) }))
      const { answer, events } = await inner.apply(bare, tell)
      const shown = (moved: Moved): Moved => {
        return moved.job === null ? moved : { ...moved, job: seen(moved.job) }
      }
      return { answer: answer.map(shown), events }
    },
    get: async (ids) => (await inner.get(ids)).map(seen),
    list: async (query) => pageOf(await inner.list(query)),
    dependents: async (id, after, limit) => (await inner.dependents(id, after, limit)).map(seen),
    count: async () => {
      const counted = await inner.count()
      return { ...counted, held: counted.held.map(seen) }
    },
    beat: async (worker) => {
      beats.set(worker.holder, { worker, until: worker.ttlMs + (await inner.time()) })
      await inner.beat(worker)
    },
    workers: async () => {
      const workers = await inner.workers()
      return workers.map((each) => ({ ...each, ...typesOf(beats.get(each.holder)?.worker) }))
    },
    standing: async (id) => {
      const now = await inner.time()
      for (const { worker, until } of beats.values()) {
        const served = [...new Set([...worker.types, ...types])]
        if (until > now) await inner.beat({ ...worker, types: served, ttlMs: until - now })
      }
      return inner.standing(id)
    },
    inspect: async () => {
      const found = await inner.inspect()
      return { ...found, expired: found.expired.map(seen) }
    },
  }
  return new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(own, name) ?? Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function typesOf(worker: WorkerBeat | undefined): Partial<Pick<WorkerBeat, 'types'>> {
  return worker === undefined ? {} : { types: worker.types }
}
