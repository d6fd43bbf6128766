// Owns the named cases about texts: whatever may be a name, or stands in an error, comes back as it
// was, and no two names are one.
// May never test a store's insides.

import type { ErrorData, NewJob } from '../core/job.ts'
import type { ListQuery } from '../store/store.ts'
import { type Bench, type Case, edge, FAILED, LEASE_MS, SUCCEEDED } from './cases-bench.ts'
import { START } from './history-commands.ts'

/** Names as users have them, and as databases, JSON and objects of JavaScript stumble over them. */
const NAMES: readonly string[] = [
  '__proto__',
  'constructor',
  'null',
  '0',
  '00',
  '1e3',
  ' leading',
  'trailing ',
  'a/b:c#d@e',
  '%_*?[a-z]{x}\\',
  `'"; DROP TABLE job; --`,
  'tab\tline\nend\u0001\u007f',
  '\u2028\ufeff\uffff',
  '\u00e9',
  'e\u0301',
  '\u05d0\u202e\u0645',
  'I\u0130\u0131',
  'x'.repeat(255),
  '\u{1f600}'.repeat(63),
]

/** What may stand in a message, though in no name: a NUL, halves of a pair, and a lot of it. */
const HARD = `a\0b\ud800c\udfff\u{1f600}"'\\\n${'long '.repeat(1_600)}`

const PAYLOAD = JSON.stringify({ [HARD]: HARD, '': null })

/** A job that has the name everywhere. */
function named(name: string): NewJob & { readonly id: string } {
  return {
    id: name,
    type: name,
    pool: name,
    flow: name,
    key: name,
    exclusive: name,
    payload: PAYLOAD,
  } as NewJob
}

function errorOf(code: string): ErrorData {
  return { name: HARD, message: HARD, code, stack: HARD }
}

async function fillWith({ add, store }: Bench): Promise<void> {
  await add(...NAMES.map(named))
  await add(...NAMES.map((name, at) => ({ id: `after ${at}`, deps: [edge(name, 'success')] })))
  for (const name of NAMES) {
    await store.beat({
      holder: name,
      name,
      types: [name],
      full: false,
      zombies: 0,
      settings: JSON.stringify({ [name]: HARD }),
      ttlMs: LEASE_MS,
    })
  }
}

export const TEXT_CASES: readonly Case[] = [
  {
    name: 'hands out long payloads among short ones, in order, and whole',
    run: async ({ add, take, expect }) => {
      const payloads = [9, 30_000, 9_990, 10_001, 9, 1_000_000].map((size) => {
        return JSON.stringify('\u00e9'.repeat(size))
      })
      await add(...payloads.map((payload, at) => ({ id: `job ${at}`, payload })))
      const taken = [...(await take(2)), ...(await take(10))]
      expect(taken.map(({ id }) => id)).toEqual(payloads.map((_, at) => `job ${at}`))
      expect(taken.map(({ payload }) => payload)).toEqual(payloads)
    },
  },
  {
    name: 'keeps every name that may be one, and no two of them are one',
    run: async (bench) => {
      const { store, job, expect } = bench
      await fillWith(bench)
      for (const name of NAMES) {
        const { id, type, pool, flow, key, exclusive, payload } = await job(name)
        expect([id, type, pool, flow, key, exclusive]).toEqual(Array(6).fill(name))
        expect(payload).toBe(PAYLOAD)
        for (const filter of ['type', 'pool', 'flow', 'key'] as const) {
          const query: ListQuery = { [filter]: name, after: 0, limit: 9 }
          expect((await store.list(query)).jobs.map((found) => found.id)).toEqual([name])
        }
      }
      const { types, pools } = await store.count()
      const sorted = [...NAMES].sort()
      expect(Object.keys(types).sort()).toEqual(['alpha', ...sorted].sort())
      expect(Object.keys(pools).sort()).toEqual(['default', ...sorted].sort())
      const workers = await store.workers()
      expect(workers.map(({ holder }) => holder).sort()).toEqual(sorted)
      for (const { holder, name, types: served, settings } of workers) {
        expect([name, served, settings]).toEqual([
          holder,
          [holder],
          JSON.stringify({ [holder]: HARD }),
        ])
      }
    },
  },
  {
    name: 'keeps codes and errors as they were, of jobs, attempts, counts and the log',
    run: async (bench) => {
      const { store, job, say, tidy, expect } = bench
      await fillWith(bench)
      for (const name of NAMES) {
        const ask = { holder: name, leaseMs: LEASE_MS, max: 1, types: [name] }
        const [mine] = (await store.lease(ask, false)).answer.jobs
        if (mine === undefined) throw new Error(`nothing was leased for ${name}`)
        expect([mine.id, mine.lease?.holder]).toEqual([name, name])
        await say(mine, { ...FAILED, error: errorOf(name) } as typeof FAILED)
      }
      await tidy()
      for (const [at, name] of NAMES.entries()) {
        const { status, code, error, log } = await job(name)
        expect([status, code, log[0]?.code, log[0]?.worker]).toEqual(['failed', name, name, name])
        expect(error).toEqual(errorOf(name))
        expect(await job(`after ${at}`)).toMatchObject({ status: 'cancelled', cause: name })
        const { jobs } = await store.list({ code: name, after: 0, limit: 9 })
        expect(jobs.map(({ id }) => id)).toEqual([name])
        const named = await store.dependents(name, 0, 9)
        expect(named.map(({ id }) => id)).toEqual([`after ${at}`])
      }
      const { failures } = await store.count()
      expect(Object.entries(failures).sort()).toEqual([...NAMES].sort().map((name) => [name, 1]))
      const { events } = await store.events(0, 1_000)
      const ends = events.filter(({ event }) => event === 'job:failed')
      const said = ends.map(({ job: id, type, pool, code, worker }) => [
        id,
        type,
        pool,
        code,
        worker,
      ])
      expect(said).toEqual(NAMES.map((name) => Array(5).fill(name)))
      const causes = events.filter(({ to }) => to === 'cancelled').map(({ cause }) => cause)
      expect(causes.sort()).toEqual([...NAMES].sort())
    },
  },
  {
    name: 'keeps results, and what is set under every name',
    run: async (bench) => {
      const { store, add, take, say, job, expect } = bench
      await add(...NAMES.map((id) => ({ id, payload: PAYLOAD })))
      for (const id of NAMES) {
        const [mine] = await take()
        if (mine?.id !== id) throw new Error(`not ${id} was leased, but ${mine?.id}`)
        const moved = await say(mine, { ...SUCCEEDED, result: PAYLOAD } as typeof SUCCEEDED)
        const ended = { id: mine.id, payload: PAYLOAD, result: PAYLOAD }
        expect(moved).toMatchObject({ status: 'moved', job: ended })
        expect((await job(mine.id)).result).toBe(PAYLOAD)
      }
      for (const name of NAMES) {
        const terms = { concurrency: 3 }
        await store.configure({ pool: name, by: 'operator', terms })
        await store.configure({ type: name, setting: { concurrency: 2 } })
        const rest = { cron: '* * * * *', timeZone: 'UTC', missed: 'one' } as const
        const row = { name, ...rest, template: PAYLOAD, nextAt: START + 1_000 }
        await store.configure({ schedule: name, row })
      }
      const { pools, types, schedules } = await store.settings()
      const sorted = [...NAMES].sort()
      expect(Object.keys(pools).sort()).toEqual(sorted)
      expect(Object.keys(types).sort()).toEqual(sorted)
      expect(schedules.map(({ name }) => name).sort()).toEqual(sorted)
      expect(schedules.every(({ template }) => template === PAYLOAD)).toBe(true)
    },
  },
]
