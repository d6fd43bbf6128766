// Owns the named cases about what time does under settings: ageing and the retry budget.
// May never test a store's insides.

import { type RateTerms, rateTerms } from '../core/gcra.ts'
import type { Ageing } from '../core/rank.ts'
import type { Hint, OverdueAnswer } from '../store/store.ts'
import {
  type Bench,
  CANCEL,
  type Case,
  FAILED,
  FAILED_ONCE,
  KEEP,
  LEASE_MS,
  OVERDUE,
  on,
  PATIENT,
  RETRY,
  type Sketch,
  SUCCEEDED,
  TYPES,
} from './cases-bench.ts'
import { START } from './history-commands.ts'

const EVERY_SECOND: Ageing = { everyMs: 1_000, ceiling: 90 }

/** What the keepers are told, without deciding about anything. */
async function sweep({ store }: Bench, limit = 1_000): Promise<OverdueAnswer> {
  return (await store.overdue({ limit, keepLogMs: KEEP.logMs }, false)).answer
}

async function taken(bench: Bench, max = 99): Promise<readonly string[]> {
  return (await bench.take(max)).map(({ id }) => id)
}

async function wakesIn({ store, clock }: Bench): Promise<number> {
  const ask = { holder: 'idle', leaseMs: LEASE_MS, max: 0, types: TYPES }
  return (await store.lease(ask, false)).answer.nextAt - clock.now()
}

const AGEING_CASES: readonly Case[] = [
  {
    name: 'ranks what is queued anew when the ageing changes, with the instant it asked at',
    run: async (bench) => {
      const { store, add, clock, expect } = bench
      await add({ id: 'low', priority: 10 })
      clock.advance(50_000)
      await add({ id: 'high', priority: 60 })
      clock.advance(1)
      await store.configure({ ageing: EVERY_SECOND })
      expect((await store.count()).unranked).toBe(2)
      expect((await sweep(bench)).more).toBe(false)
      expect((await store.count()).unranked).toBe(0)
      expect(await taken(bench, 1)).toEqual(['low'])
      expect((await store.get(['low', 'high'])).map((job) => job?.rank)).toEqual([
        START - 10_000,
        START + 50_000 - 60_000,
      ])
    },
  },
  {
    name: 'never lets an aged job overtake one above the ceiling, before a change or after it',
    run: async (bench) => {
      const { store, add, clock, expect } = bench
      await store.configure({ ageing: { everyMs: 1, ceiling: 100 } })
      await add({ id: 'old', priority: 90 })
      clock.advance(1_000_000)
      await add({ id: 'above', priority: 91 }, { id: 'below', priority: 90 })
      await store.configure({ ageing: { everyMs: 1, ceiling: 90 } })
      await sweep(bench)
      expect(await taken(bench)).toEqual(['above', 'old', 'below'])
    },
  },
  {
    name: 'ranks new jobs by the new ageing at once, and says how many are not ranked by it yet',
    run: async (bench) => {
      const { store, add, expect } = bench
      await add({ id: 'a' }, { id: 'b', priority: 95 }, { id: 'c', ...on('a') })
      await store.configure({ ageing: EVERY_SECOND })
      await add({ id: 'new' })
      expect((await store.get(['new']))[0]?.weight).toBe(50_000)
      expect((await store.count()).unranked).toBe(2)
      await store.configure({ ageing: { ...EVERY_SECOND } })
      expect((await store.count()).unranked).toBe(2)
      await store.configure({ ageing: null })
      expect((await store.count()).unranked).toBe(1)
      await sweep(bench)
      expect((await store.count()).unranked).toBe(0)
      expect(await taken(bench)).toEqual(['b', 'a', 'new'])
    },
  },
  {
    name: 'ranks a chunk anew with each sweep, and goes on after another change in the middle',
    run: async (bench) => {
      const { store, add, expect, clock } = bench
      const jobs = (from: number): readonly Sketch[] =>
        Array.from({ length: 700 }, (_, at) => ({ id: `${from + at}`, priority: 1 + (at % 90) }))
      await add(...jobs(0))
      clock.advance(10_000)
      await add(...jobs(700))
      await store.configure({ ageing: { everyMs: 7, ceiling: 90 } })
      expect((await sweep(bench)).more).toBe(true)
      const { unranked } = await store.count()
      expect(unranked > 0 && unranked < 1_400).toBe(true)
      await store.configure({ ageing: EVERY_SECOND })
      expect((await store.count()).unranked).toBe(1_400)
      for (let more = true; more; ) more = (await sweep(bench)).more
      expect((await store.count()).unranked).toBe(0)
      const { jobs: page } = await store.list({ after: 0, limit: 500 })
      const wrong = page.filter(({ rank, createdAt, priority }) => {
        return rank !== createdAt - priority * 1_000
      })
      expect(wrong.length).toBe(0)
    },
  },
  {
    name: 'ranks running jobs and waiters of a lane anew, and leaves the lane where it is',
    run: async (bench) => {
      const { store, add, take, tell, clock, job, statuses, expect } = bench
      await add({ id: 'holder', exclusive: 'l' }, { id: 'slow', exclusive: 'l', priority: 40 })
      clock.advance(20_000)
      await add({ id: 'fast', exclusive: 'l', priority: 50 })
      await take(1)
      await store.configure({ ageing: EVERY_SECOND })
      await sweep(bench)
      const { rev } = await job('fast')
      await store.configure({ ageing: { everyMs: 10_000, ceiling: 90 } })
      await sweep(bench)
      expect((await job('fast')).rev).toBe(rev)
      await store.configure({ ageing: EVERY_SECOND })
      await sweep(bench)
      expect(await statuses('holder', 'slow', 'fast')).toEqual(['running', 'waiting', 'waiting'])
      expect((await job('holder')).rank).toBe(START - 50_000)
      await tell('holder', SUCCEEDED)
      expect(await statuses('slow', 'fast')).toEqual(['ready', 'waiting'])
      expect((await job('fast')).rank).toBe(START + 20_000 - 50_000)
    },
  },
  {
    name: 'keeps the instant of a job that will be back in its old place, and of one that is',
    run: async (bench) => {
      const { store, add, take, tell, tidy, clock, job, expect } = bench
      await add({ id: 'a', priority: 10, ...PATIENT })
      await take()
      for (const _ of [1, 2]) {
        clock.advance(LEASE_MS)
        await tell('a', OVERDUE)
        await take()
      }
      clock.advance(LEASE_MS)
      await tell('a', OVERDUE)
      expect((await job('a')).status).toBe('pending')
      await store.configure({ ageing: EVERY_SECOND })
      await tidy()
      clock.advance(60_000)
      expect(await taken(bench)).toEqual(['a'])
      expect((await job('a')).rank).toBe(START - 10_000)
    },
  },
  {
    name: 'weighs a revived job by the ageing that is set',
    run: async (bench) => {
      const { store, add, take, tell, job, clock, expect } = bench
      await add({ id: 'a' }, { id: 'b', ...on('a') })
      await take()
      await tell('a', FAILED)
      await tell('b', CANCEL)
      await store.configure({ ageing: EVERY_SECOND })
      expect((await store.count()).unranked).toBe(1)
      await sweep(bench)
      clock.advance(5)
      await tell('a', RETRY)
      expect(await job('a')).toMatchObject({ weight: 50_000, rank: START + 5 - 50_000 })
      expect((await store.count()).unranked).toBe(0)
    },
  },
  {
    name: 'calls its keepers when jobs are to be ranked anew, and not when nothing changes',
    hints: true,
    run: async ({ store, add, expect }) => {
      await add({ id: 'a' })
      const hints: Hint[] = []
      await store.watch((hint) => hints.push(hint))
      await store.configure({ ageing: null })
      expect(hints.some(({ overdue }) => overdue)).toBe(false)
      await store.configure({ ageing: EVERY_SECOND })
      expect(hints.some(({ overdue }) => overdue)).toBe(true)
    },
  },
]

/** Two at once, then one each ten seconds. */
const TWO: RateTerms = rateTerms(2, 20_000, 2)

/** So many jobs that have failed, each of them once. */
async function failAll({ add, take, tellAll, expect }: Bench, ...jobs: Sketch[]): Promise<void> {
  await add(...jobs.map((job) => ({ ...PATIENT, ...job })))
  expect((await take(99)).length).toBe(jobs.length)
  await tellAll(jobs.map(({ id }) => [id, FAILED_ONCE]))
}

const BUDGET_CASES: readonly Case[] = [
  {
    name: 'lets retries go only as the budget has them, the best rank first; drops none',
    run: async (bench) => {
      const { store, clock, statuses, expect } = bench
      await store.configure({ budget: TWO })
      await failAll(bench, { id: 'a' }, { id: 'b', priority: 40 }, { id: 'c' }, { id: 'd' })
      expect(await statuses('a', 'b', 'c', 'd')).toEqual(Array(4).fill('pending'))
      expect(await taken(bench)).toEqual(['a', 'c'])
      expect(await wakesIn(bench)).toBe(10_000)
      clock.advance(9_999)
      expect(await taken(bench)).toEqual([])
      clock.advance(1)
      expect(await taken(bench)).toEqual(['d'])
      clock.advance(100_000)
      expect(await taken(bench)).toEqual(['b'])
      expect(await wakesIn(bench)).toBe(Number.POSITIVE_INFINITY)
    },
  },
  {
    name: 'ranks a retry from the instant at which it was due, not from that of its release',
    run: async (bench) => {
      const { store, clock, job, add, take, tell, expect } = bench
      await store.configure({ budget: rateTerms(1, 10_000) })
      await failAll(bench, { id: 'a' }, { id: 'b' })
      await take(1)
      clock.advance(4_000)
      await add({ id: 'later' })
      clock.advance(6_000)
      expect(await taken(bench)).toEqual(['b', 'later'])
      const { rank, weight } = await job('b')
      expect(rank + weight).toBe(START)
      await tell('b', SUCCEEDED)
    },
  },
  {
    name: 'charges failures and timeouts, and nothing else',
    run: async (bench) => {
      const { store, add, take, tell, clock, statuses, expect } = bench
      await store.configure({ budget: rateTerms(1, 1_000_000) })
      const ids = ['spent', 'late', 'gone', 'back', 'dead']
      await failAll(bench, { id: 'first' })
      expect(await taken(bench)).toEqual(['first'])
      await add(...ids.map((id) => ({ id, ...PATIENT })))
      await take(99)
      await tell('spent', FAILED_ONCE)
      await tell('late', { type: 'timedOut' })
      await tell('back', { type: 'returned' })
      await tell('dead', FAILED)
      await tell('dead', RETRY)
      clock.advance(LEASE_MS)
      await tell('gone', OVERDUE)
      expect(await taken(bench)).toEqual(['gone', 'back', 'dead'])
      expect(await statuses('spent', 'late')).toEqual(['pending', 'pending'])
    },
  },
  {
    name: 'takes nothing for a retry that is cancelled while it is held',
    run: async (bench) => {
      const { store, clock, tell, statuses, expect } = bench
      await store.configure({ budget: rateTerms(1, 10_000) })
      await failAll(bench, { id: 'a' }, { id: 'b' }, { id: 'c' })
      expect(await taken(bench)).toEqual(['a'])
      await tell('b', CANCEL)
      clock.advance(10_000)
      expect(await taken(bench)).toEqual(['c'])
      expect(await statuses('b')).toEqual(['cancelled'])
      expect((await store.count()).pools.default?.states.pending).toBe(0)
    },
  },
  {
    name: 'waits for the delay of a retry first, and refills while things are quiet',
    run: async (bench) => {
      const { store, clock, expect } = bench
      await store.configure({ budget: TWO })
      const { terms } = PATIENT
      const slow = { terms: { ...terms, backoff: { ...terms.backoff, delayMs: 500, maxMs: 500 } } }
      await failAll(bench, { id: 'a', ...slow }, { id: 'b', ...slow }, { id: 'c', ...slow })
      expect(await wakesIn(bench)).toBe(500)
      clock.advance(499)
      expect(await taken(bench)).toEqual([])
      clock.advance(1)
      expect(await taken(bench)).toEqual(['a', 'b'])
      expect(await wakesIn(bench)).toBe(10_000)
      clock.advance(100_000)
      expect(await taken(bench)).toEqual(['c'])
      clock.advance(100_000)
      await failAll(bench, { id: 'd' }, { id: 'e' }, { id: 'f' })
      expect(await taken(bench)).toEqual(['d', 'e'])
    },
  },
  {
    name: 'lets everything go once there is no budget; then a retry without delay goes on at once',
    run: async (bench) => {
      const { store, tell, statuses, expect } = bench
      await store.configure({ budget: rateTerms(1, 1_000_000) })
      await failAll(bench, { id: 'a' }, { id: 'b' }, { id: 'c' })
      expect(await taken(bench)).toEqual(['a'])
      await store.configure({ budget: null })
      expect(await taken(bench)).toEqual(['b', 'c'])
      await tell('b', FAILED_ONCE)
      expect(await statuses('b')).toEqual(['ready'])
    },
  },
  {
    name: 'carries over what was taken lately when the budget changes, counted as retries',
    run: async (bench) => {
      const { store, clock, expect } = bench
      await store.configure({ budget: rateTerms(1, 1_000_000) })
      await failAll(bench, { id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'd' })
      expect(await taken(bench)).toEqual(['a'])
      await store.configure({ budget: rateTerms(1, 1_000_000) })
      expect(await taken(bench)).toEqual([])
      await store.configure({ budget: TWO })
      expect(await taken(bench)).toEqual(['b'])
      await store.configure({ budget: rateTerms(1, 30_000) })
      expect(await wakesIn(bench)).toBe(30_000)
      clock.advance(30_000)
      expect(await taken(bench)).toEqual(['c'])
      expect(await wakesIn(bench)).toBe(30_000)
    },
  },
  {
    name: 'ranks held retries anew as well',
    run: async (bench) => {
      const { store, clock, expect, take, tell } = bench
      await store.configure({ budget: rateTerms(1, 100_000) })
      await failAll(bench, { id: 'a' })
      expect(await taken(bench)).toEqual(['a'])
      await failAll(bench, { id: 'low', priority: 10 })
      expect(await taken(bench)).toEqual([])
      clock.advance(60_000)
      await failAll(bench, { id: 'high', priority: 60 })
      expect(await take()).toEqual([])
      await store.configure({ ageing: EVERY_SECOND })
      await sweep(bench)
      clock.advance(40_000)
      expect(await taken(bench)).toEqual(['low'])
      await tell('low', SUCCEEDED)
    },
  },
  {
    name: 'says when the budget lets a job go at the earliest, with those before it',
    run: async (bench) => {
      const { store, clock, expect } = bench
      await store.configure({ budget: rateTerms(1, 10_000) })
      await failAll(bench, { id: 'a' }, { id: 'b' }, { id: 'c' })
      const waits = async (id: string) => {
        const { budgetAt } = await store.standing(id)
        return budgetAt === 0 ? 0 : budgetAt - clock.now()
      }
      expect([await waits('a'), await waits('b')]).toEqual([0, 10_000])
      await taken(bench)
      expect([await waits('a'), await waits('b'), await waits('c')]).toEqual([0, 10_000, 20_000])
      clock.advance(4_000)
      expect([await waits('b'), await waits('c')]).toEqual([6_000, 16_000])
    },
  },
]

export const TIME_CASES: readonly Case[] = [...AGEING_CASES, ...BUDGET_CASES]
