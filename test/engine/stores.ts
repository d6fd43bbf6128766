// Owns which store the tests of the engine run on: memory, or SQLite or Redis where test/stores says
// so.
// May never change what a test says: one text, the same promises.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, vi } from 'vitest'
import { Live, type Move, type NewJob, type Stored, type StoredJob } from '../../src/core/job.ts'
import type { Runtime } from '../../src/kit/runtime.ts'
import { memoryStore } from '../../src/store/memory.ts'
import type { InsertGroup, LeaseAsk, Moved, Store, WorkerBeat } from '../../src/store/store.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import type { VirtualRuntime } from '../../src/testing/virtual.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { ask } from '../servers/resp.ts'
import { describeOnRedis } from '../servers/suites.ts'

/** The tests of the engine that run on every store, in as many files for each as there are lines. */
export const ON_EVERY_STORE: readonly (readonly string[])[] = [
  ['admission', 'breaker', 'budget', 'cancel', 'confirm', 'confirm-late', 'deps', 'events'],
  ['flows', 'heartbeats', 'idle', 'keys', 'leases', 'make-up', 'nested', 'operator', 'outage'],
  ['pools', 'preempt', 'reasons', 'revive', 'room', 'schedules', 'settings', 'views'],
  ['away', 'retries', 'run', 'stalls', 'stop', 'submit', 'timeouts', 'zombies'],
]

/** Time is virtual here, and so may the disk be: five hundred files take as long as a test. */
const scratch = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

/** Where the stores of these tests are, if not in memory. */
type Place = (runtime: Runtime, number: number) => Store

let place: Place | undefined
let stores = 0
const opened: Store[] = []

/** Calls of a server that have not been answered: real time passes until they are. */
const underWay = new Set<Promise<unknown>>()

/** Whether these tests run in memory, where jobs may be what no file and no server keeps. */
export function inMemory(): boolean {
  return place === undefined
}

/** Runs tests of the engine on files of SQLite, which are gone when they are over. */
export function runOnSqlite(names: readonly string[] = []): void {
  const folder = mkdtempSync(join(scratch, 'ax-engine-'))
  place = (runtime, number) => {
    return sqliteStore(join(folder, `${number}.db`), { runtime: seldom(runtime) })
  }
  // While a library is loaded, real time passes: virtual time would be over before.
  beforeAll(async () => {
    await loadLibrary()
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  run(names)
}

/** Runs tests of the engine on a server of Redis, each store under a prefix of its own. */
export function runOnRedis(names: readonly string[] = []): void {
  let server: RedisServer | undefined
  place = (runtime, number) => {
    const options = { prefix: `engine ${number}`, runtime, now: () => runtime.now() }
    return counted(redisStore(server?.url ?? '', options))
  }
  describeOnRedis('the engine on Redis', () => {
    beforeAll(async () => {
      server = await startRedis()
    })
    run(names)
    afterEach(async () => {
      if (server !== undefined) await ask(server.url, 'FLUSHALL')
    })
  })
}

function run(names: readonly string[]): void {
  // A few of them take three seconds on a quiet machine.
  vi.setConfig({ testTimeout: 120_000 })
  afterEach(async () => {
    // A call that one test left without an answer is not waited for in all that follow.
    underWay.clear()
    for (const store of opened.splice(0)) await store.close()
  })
  for (const name of names) {
    describe(name, async () => {
      await import(`./${name}.test.ts`)
    })
  }
}

/** A new store of the kind that is tested, on this time. */
export function storeOn(runtime: Runtime): Store {
  if (place === undefined) return memoryStore({ runtime })
  stores += 1
  const store = place(runtime, stores)
  opened.push(store)
  return withBodies(store)
}

/** Virtual time that stands still while a server has not answered: its answers take no time. */
export function awaitingServers(runtime: VirtualRuntime): VirtualRuntime {
  const settle = runtime.drain.bind(runtime)
  runtime.drain = async () => {
    await settle()
    while (underWay.size > 0) {
      await Promise.all(underWay)
      await settle()
    }
  }
  return runtime
}

/** Its calls are known as long as they are under way. */
function counted(inner: Store): Store {
  return new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const answer: Promise<unknown> = value.apply(target, args)
        const over: Promise<unknown> = answer.catch(() => {}).finally(() => underWay.delete(over))
        underWay.add(over)
        return answer
      }
    },
  })
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
