// Owns the named cases about schedules, and about what a store says of itself.
// May never test a store's insides.

import type { Schedule } from '../core/settings.ts'
import type { Hint, OverdueAnswer } from '../store/store.ts'
import {
  type Bench,
  CANCEL,
  type Case,
  FAILED,
  KEEP,
  LEASE_MS,
  on,
  SUCCEEDED,
} from './cases-bench.ts'
import { START } from './history-commands.ts'

async function sweep({ store }: Bench, limit = 1_000): Promise<OverdueAnswer> {
  return (await store.overdue({ limit, keepLogMs: KEEP.logMs }, false)).answer
}

function row(name: string, over: Partial<Schedule> = {}): Schedule {
  const rest = { cron: '* * * * *', timeZone: 'UTC', missed: 'one', template: '{}' } as const
  return { name, ...rest, nextAt: START + 1_000, ...over }
}

const WORKER_CASES: readonly Case[] = [
  {
    name: 'knows a worker for as long as it said, and again from its next beat on',
    run: async ({ store, clock, expect }) => {
      const beat = { name: 'w', types: ['alpha'], full: false, zombies: 0, settings: '' }
      const holders = async () => (await store.workers()).map(({ holder }) => holder)
      await store.beat({ ...beat, holder: 'a', ttlMs: 1_000 })
      await store.beat({ ...beat, holder: 'b', ttlMs: 2_000 })
      clock.advance(999)
      expect(await holders()).toEqual(['a', 'b'])
      clock.advance(1)
      expect(await holders()).toEqual(['b'])
      await store.beat({ ...beat, holder: 'c', ttlMs: 5_000 })
      await store.beat({ ...beat, holder: 'a', ttlMs: 3_000 })
      expect(await holders()).toEqual(['a', 'b', 'c'])
      clock.advance(1_000)
      await store.beat({ ...beat, holder: 'c', ttlMs: 0 })
      expect(await holders()).toEqual(['a'])
    },
  },
]

const SETTING_CASES: readonly Case[] = [
  {
    name: 'sets all that one call gives, in order',
    run: async ({ store, expect }) => {
      await store.configure(
        { pool: 'p', by: 'start', terms: { concurrency: 1, perWorker: 7 } },
        { type: 't', setting: { concurrency: 4 } },
        { pool: 'p', by: 'start', terms: { concurrency: 2 } },
        { pool: 'q', by: 'operator', terms: { paused: true } },
        { ageing: { everyMs: 1_000, ceiling: 80 } },
        { schedule: 's', row: row('s') },
      )
      const { pools, types, ageing, schedules } = await store.settings()
      expect(pools).toMatchObject({
        p: { start: { concurrency: 2, perWorker: 7 }, operator: {} },
        q: { start: {}, operator: { paused: true } },
      })
      expect(types.t?.concurrency).toBe(4)
      expect(ageing).toEqual({ everyMs: 1_000, ceiling: 80 })
      expect(schedules.map(nameOf)).toEqual(['s'])
      await store.configure()
      expect((await store.settings()).schedules.map(nameOf)).toEqual(['s'])
    },
  },
]

const SCHEDULE_CASES: readonly Case[] = [
  {
    name: 'answers the schedules whose instant has come, and when the next one does',
    run: async (bench) => {
      const { store, clock, expect } = bench
      for (const name of ['c', 'a', 'b']) await store.configure({ schedule: name, row: row(name) })
      await store.configure({ schedule: 'd', row: row('d', { nextAt: START + 500 }) })
      expect(await sweep(bench)).toMatchObject({ schedules: [], nextAt: START + 500 })
      clock.advance(1_000)
      const names = async (limit: number) => (await sweep(bench, limit)).schedules.map(nameOf)
      expect(await names(99)).toEqual(['d', 'a', 'b', 'c'])
      expect(await names(2)).toEqual(['d', 'a'])
      await store.configure({ schedule: 'a', row: null })
      expect(await names(99)).toEqual(['d', 'b', 'c'])
      expect((await store.settings()).schedules.map(nameOf)).toEqual(['b', 'c', 'd'])
    },
  },
  {
    name: 'does not count the instants of schedules that it hands out as the next deadline',
    run: async (bench) => {
      const { store, add, clock, expect } = bench
      await store.configure({ schedule: 'stuck', row: row('stuck') })
      await store.configure({ schedule: 'too', row: row('too', { nextAt: START + 999 }) })
      await store.configure({ schedule: 'later', row: row('later', { nextAt: START + 9_000 }) })
      clock.advance(1_000)
      expect(await sweep(bench)).toMatchObject({ nextAt: START + 9_000 })
      expect(await sweep(bench, 1)).toMatchObject({ nextAt: START + 1_000, more: true })
      await add({ id: 'a', enqueueTimeoutMs: 70 })
      expect(await sweep(bench)).toMatchObject({ nextAt: START + 1_070, more: false })
    },
  },
  {
    name: 'hints at a schedule that is due or nearer than all others, beside a stuck one too',
    hints: true,
    run: async (bench) => {
      const { store, clock, expect } = bench
      await store.configure({ schedule: 'stuck', row: row('stuck') })
      clock.advance(1_000)
      await sweep(bench)
      const hints: boolean[] = []
      const stop = await store.watch(({ overdue }) => hints.push(overdue))
      await store.configure({ schedule: 'b', row: row('b', { nextAt: START + 9_000 }) })
      await sweep(bench)
      await store.configure({ schedule: 'c', row: row('c', { nextAt: START + 9_001 }) })
      await store.configure({ schedule: 'd', row: row('d', { nextAt: START + 500 }) })
      await stop()
      expect(hints).toEqual([true, false, false, true])
    },
  },
  {
    name: 'adds the job of an instant once, and moves the schedule on in the same step',
    run: async (bench) => {
      const { store, addTo, clock, statuses, expect } = bench
      await store.configure({ schedule: 's', row: row('s') })
      clock.advance(1_000)
      const tick = { of: row('s'), at: START + 1_000, nextAt: START + 61_000 }
      expect((await addTo({ tick }, { id: 'first' })).status).toBe('done')
      expect(await addTo({ tick }, { id: 'twin' })).toEqual({ status: 'stale' })
      expect(await addTo({ tick: { ...tick, of: row('x') } }, { id: 'x' })).toEqual({
        status: 'stale',
      })
      expect(await statuses('first', 'twin', 'x')).toEqual(['ready', 'nobody', 'nobody'])
      expect(await sweep(bench)).toMatchObject({ schedules: [], nextAt: START + 61_000 })
    },
  },
  {
    name: 'adds nothing of what a schedule said before, though it stands at the same instant',
    run: async (bench) => {
      const { store, addTo, clock, statuses, expect } = bench
      const said = row('s')
      const overs = [
        { cron: '5 * * * *' },
        { timeZone: null },
        { template: '[]' },
        { missed: 'all' },
      ]
      clock.advance(1_000)
      for (const [at, over] of (overs as Partial<Schedule>[]).entries()) {
        await store.configure({ schedule: 's', row: null }, { schedule: 's', row: row('s', over) })
        const tick = { of: said, at: START + 1_000, nextAt: START + 2_000 }
        expect(await addTo({ tick }, { id: `old ${at}` })).toEqual({ status: 'stale' })
        expect(await statuses(`old ${at}`)).toEqual(['nobody'])
        expect((await store.settings()).schedules[0]?.nextAt).toBe(START + 1_000)
        expect((await addTo({ tick: { ...tick, of: row('s', over) } })).status).toBe('done')
      }
    },
  },
  {
    name: 'leaves the schedule where it is when the group is refused; no jobs just move it on',
    run: async (bench) => {
      const { store, add, addTo, clock, expect } = bench
      await store.configure({ schedule: 's', row: row('s') })
      await add({ id: 'taken', key: 'k' })
      clock.advance(1_000)
      const tick = { of: row('s'), at: START + 1_000, nextAt: START + 2_000 }
      expect((await addTo({ tick }, { id: 'job', key: 'k' })).status).toBe('refused')
      expect((await sweep(bench)).schedules.length).toBe(1)
      expect(await addTo({ tick })).toEqual({ status: 'done', jobs: [] })
      expect((await sweep(bench)).schedules.length).toBe(0)
    },
  },
  {
    name: 'keeps the instant of a schedule that is set again, unless cron or zone differ',
    run: async ({ store, expect }) => {
      const set = async (over: Partial<Schedule>) => {
        await store.configure({ schedule: 's', row: row('s', over) })
        const { schedules } = await store.settings()
        return [schedules[0]?.nextAt, schedules[0]?.missed, schedules[0]?.template]
      }
      const { template } = row('s')
      expect(await set({ nextAt: 10 })).toEqual([10, 'one', template])
      expect(await set({ nextAt: 20, missed: 'all' })).toEqual([10, 'all', template])
      expect(await set({ nextAt: 30, template: '[]' })).toEqual([10, 'one', '[]'])
      const other = { cron: '5 * * * *', template }
      expect(await set({ nextAt: 40, ...other })).toEqual([40, 'one', template])
      expect(await set({ nextAt: 50, ...other, timeZone: null })).toEqual([50, 'one', template])
      await store.configure({ schedule: 's', row: null })
      expect(await set({ nextAt: 60, ...other, timeZone: null })).toEqual([60, 'one', template])
    },
  },
  {
    name: 'calls its keepers when a schedule comes nearer than anything they know of',
    hints: true,
    run: async (bench) => {
      const { store, addTo, expect } = bench
      await store.configure({ schedule: 'far', row: row('far') })
      await sweep(bench)
      const hints: Hint[] = []
      await store.watch((hint) => hints.push(hint))
      const called = () => hints.splice(0).some(({ overdue }) => overdue)
      await store.configure({ schedule: 'later', row: row('later', { nextAt: START + 2_000 }) })
      expect(called()).toBe(false)
      await store.configure({ schedule: 'near', row: row('near', { nextAt: START + 10 }) })
      expect(called()).toBe(true)
      await sweep(bench)
      await addTo({ tick: { of: row('near'), at: START + 10, nextAt: START + 5 } })
      expect(called()).toBe(true)
    },
  },
]

function nameOf({ name }: Schedule): string {
  return name
}

const SELF_CASES: readonly Case[] = [
  {
    name: 'names the jobs that wait for ids which nobody has submitted, and those ids',
    run: async ({ store, add, take, tell, expect }) => {
      await add({ id: 'a', ...on('x', 'y') }, { id: 'b', ...on('a') })
      await add({ id: 'any', ...on('x', 'p'), depMode: 'any' }, { id: 'p' })
      await add({ id: 'gone', ...on('z') })
      const ghosts = async () => (await store.inspect()).ghosts
      const ofA = [
        { id: 'a', dep: 'x' },
        { id: 'a', dep: 'y' },
      ]
      expect(await ghosts()).toEqual([...ofA, { id: 'any', dep: 'x' }, { id: 'gone', dep: 'z' }])
      await take()
      await tell('p', SUCCEEDED)
      await tell('gone', CANCEL)
      await add({ id: 'y' })
      expect(await ghosts()).toEqual(ofA.slice(0, 1))
    },
  },
  {
    name: 'names leases and holds that are over, and finds no loop, no lost key, no damage',
    run: async ({ store, add, take, tell, clock, expect }) => {
      await add({ id: 'a', key: 'k', keyForMs: 5 }, { id: 'b', key: 'l' }, { id: 'c', key: 'm' })
      await add({ id: 'd', key: 'm2', ...on('ghost') })
      await take(2)
      clock.advance(1)
      await take(1)
      await tell('b', CANCEL)
      await tell('c', FAILED)
      const clean = { cycles: [], orphanedKeys: [], damage: [] }
      expect(await store.inspect()).toMatchObject({ ...clean, expired: [] })
      await tell('a', SUCCEEDED)
      clock.advance(LEASE_MS)
      const { expired, ...rest } = await store.inspect()
      expect(expired.map(({ id, lease }) => [id, lease?.hold])).toEqual([['b', true]])
      expect(rest).toMatchObject(clean)
    },
  },
  {
    name: 'says who is alive, what it holds, and how many of its bodies are zombies',
    run: async ({ store, add, take, tell, clock, expect }) => {
      const beat = { name: 'host', types: ['alpha'], full: false, settings: '{}', ttlMs: 100 }
      await store.beat({ ...beat, holder: 'w2', zombies: 2 })
      await store.beat({ ...beat, holder: 'w1', zombies: 0, full: true })
      await add({ id: 'a' }, { id: 'b' }, { id: 'c' })
      await take(2, 'w1')
      await tell('a', CANCEL)
      const until = clock.now() + 100
      const { ttlMs: _, ...rest } = { ...beat, until }
      const [w1, w2] = [
        { ...rest, holder: 'w1', full: true, zombies: 0, running: 2 },
        { ...rest, holder: 'w2', zombies: 2, running: 0 },
      ]
      expect(await store.workers()).toEqual([w1, w2])
      clock.advance(50)
      await store.beat({ ...beat, holder: 'w2', zombies: 3 })
      clock.advance(50)
      expect(await store.workers()).toEqual([{ ...w2, zombies: 3, until: until + 50 }])
      await store.beat({ ...beat, holder: 'w2', zombies: 3, ttlMs: 0 })
      expect(await store.workers()).toEqual([])
    },
  },
]

export const SELF_AND_SCHEDULE_CASES: readonly Case[] = [
  ...WORKER_CASES,
  ...SETTING_CASES,
  ...SCHEDULE_CASES,
  ...SELF_CASES,
]
