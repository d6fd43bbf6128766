// Owns the named cases about preemption: who gives way to whom, and until when.
// May never need a worker: what a body would do is told as a fact.

import { rateTerms } from '../core/gcra.ts'
import type { Fact } from '../core/job.ts'
import type { Preempt } from '../core/settings.ts'
import type { Extended, Hint } from '../store/store.ts'
import {
  type Bench,
  CANCEL,
  type Case,
  FAILED,
  LEASE_MS,
  OVERDUE,
  PATIENT,
  RETRY,
  SETTLED,
  type Sketch,
  SUCCEEDED,
} from './cases-bench.ts'
import { ids, many, set, wakesIn } from './cases-pools.ts'

const NEVER = Number.POSITIVE_INFINITY
const PREEMPTED: Fact = { type: 'preempted' }
const PREEMPT: Preempt = { minPriority: 90, minGap: 10, minRunMs: 0 }
const MEEK: Omit<Sketch, 'id'> = { terms: { ...PATIENT.terms, preemptible: true } }
const URGENT: Omit<Sketch, 'id'> = { priority: 95, ...PATIENT }

/** A full pool of two: `a` and, started later, `b`; both may be displaced. */
async function full(bench: Bench, preempt = PREEMPT): Promise<void> {
  await set(bench, { concurrency: 2, preempt })
  await bench.add({ id: 'a', ...MEEK })
  await bench.take()
  bench.clock.advance(5)
  await bench.add({ id: 'b', ...MEEK })
  await bench.take()
}

/** Who has to give way to whom, of those named. */
async function evictors(bench: Bench, ...names: string[]): Promise<(string | undefined)[]> {
  const jobs = await Promise.all(names.map((id) => bench.job(id)))
  return jobs.map(({ evictor }) => evictor)
}

/** What a worker hears about what it holds. */
async function heard(bench: Bench, ...names: string[]): Promise<readonly Extended[]> {
  const held = []
  for (const id of names) held.push({ id, lease: (await bench.job(id)).lease?.number ?? 0 })
  const ask = { holder: 'worker', held, leaseMs: LEASE_MS, upTo: 0 }
  return (await bench.store.extend(ask, false)).answer.leases
}

/** Its body does not stop, and there is no room for it among the zombies. */
async function stick(bench: Bench, id: string): Promise<void> {
  const held = [{ id, lease: (await bench.job(id)).lease?.number ?? 0, stuck: true }]
  await bench.store.extend({ holder: 'worker', held, leaseMs: LEASE_MS, upTo: 0 }, false)
}

const CHOICE_CASES: readonly Case[] = [
  {
    name: 'tells the latest of the least urgent to give way, and books it uncharged',
    run: async (bench) => {
      const { store, add, tell, job, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT }, { id: 'j' })
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, 'u'])
      expect((await store.standing('u')).victim).toBe('b')
      expect(await heard(bench, 'a', 'b')).toEqual([
        { status: 'held' },
        { status: 'evicted', by: 'u' },
      ])
      const { rank } = await job('b')
      expect((await tell('b', PREEMPTED))?.status).toBe('moved')
      expect(await job('b')).toMatchObject({ status: 'ready', rank, attempts: 0, preempted: 1 })
      expect((await job('b')).evictor).toBe(undefined)
      expect((await store.standing('u')).victim).toBe(undefined)
      expect(await ids(bench)).toEqual(['u'])
      await tell('a', SUCCEEDED)
      expect(await ids(bench)).toEqual(['b'])
    },
  },
  {
    name: 'chooses by priority, then by the latest start, then by the highest seq',
    run: async (bench) => {
      const { add, tell, clock, expect } = bench
      await set(bench, { concurrency: 4, preempt: PREEMPT })
      await add({ id: 'hard', priority: 1 }, { id: 'late', ...MEEK, priority: 30 })
      await bench.take(1, 'w1')
      await add({ id: 'low', ...MEEK, priority: 20 }, { id: 'twin', ...MEEK, priority: 20 })
      await ids(bench, 1)
      clock.advance(5)
      await ids(bench)
      await add(...many('u', 3, URGENT))
      const victims: string[] = []
      for (let round = 0; round < 3; round += 1) {
        expect(await ids(bench)).toEqual([])
        for (const id of ['late', 'low', 'twin']) {
          if ((await bench.job(id)).evictor === undefined) continue
          victims.push(id)
          await tell(id, CANCEL)
          await tell(id, SETTLED)
        }
        await ids(bench)
      }
      expect(victims).toEqual(['twin', 'low', 'late'])
    },
  },
  {
    name: 'displaces nobody who is too urgent, not preemptible, or was displaced three times',
    run: async (bench) => {
      const { add, tell, job, expect } = bench
      await set(bench, { concurrency: 1, preempt: PREEMPT })
      await add({ id: 'a', ...MEEK, priority: 85 })
      for (let round = 1; round <= 3; round += 1) {
        expect(await ids(bench)).toEqual(['a'])
        await add({ id: `near${round}`, priority: 94 }, { id: `low${round}`, priority: 89 })
        expect(await ids(bench)).toEqual([])
        expect(await evictors(bench, 'a')).toEqual([undefined])
        await add({ id: `u${round}`, ...URGENT })
        expect(await ids(bench)).toEqual([])
        expect(await evictors(bench, 'a')).toEqual([`u${round}`])
        await tell('a', PREEMPTED)
        for (const id of ['near', 'low']) await tell(`${id}${round}`, CANCEL)
        expect(await ids(bench)).toEqual([`u${round}`])
        await tell(`u${round}`, SUCCEEDED)
      }
      expect(await ids(bench)).toEqual(['a'])
      await add({ id: 'u', ...URGENT })
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'a')).toEqual([undefined])
      expect(await job('a')).toMatchObject({ preempted: 3, attempts: 1, starts: 4 })
    },
  },
  {
    name: 'lets a job run its least time first, and says when that is over',
    run: async (bench) => {
      const { add, clock, expect } = bench
      await full(bench, { ...PREEMPT, minRunMs: 1_000 })
      await add({ id: 'u', ...URGENT })
      expect(await wakesIn(bench)).toBe(995)
      clock.advance(994)
      expect(await wakesIn(bench)).toBe(1)
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, undefined])
      clock.advance(1)
      expect(await wakesIn(bench)).toBe(NEVER)
      expect(await evictors(bench, 'a', 'b')).toEqual(['u', undefined])
    },
  },
  {
    name: 'displaces only for a job that the cap alone has stopped',
    run: async (bench) => {
      const { store, add, clock, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT })
      const nobody = async (why: string) =>
        expect([why, ...(await evictors(bench, 'a', 'b'))]).toEqual([why, undefined, undefined])
      await set(bench, { paused: true })
      await ids(bench)
      await nobody('paused')
      await set(bench, { paused: false, concurrency: 1 })
      await ids(bench)
      await nobody('one slot would not do')
      await set(bench, { concurrency: 2, rate: rateTerms(1, 1_000) })
      clock.advance(1_000)
      await set(bench, { concurrency: 3 })
      await add({ id: 'c' }, { id: 'd', pool: 'io' })
      await store.configure({ ageing: { everyMs: 1_000, ceiling: 95 } })
      await set(bench, { concurrency: 2 })
      expect(await ids(bench)).toEqual(['d'])
      await nobody('not above the ceiling')
      await store.configure({ ageing: null })
      expect(await ids(bench, 0)).toEqual([])
      await nobody('no room at the worker')
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, 'u'])
    },
  },
  {
    name: 'takes one of the worker’s own where its share is used up too',
    run: async (bench) => {
      const { add, expect } = bench
      await set(bench, { concurrency: 2, perWorker: 1, preempt: PREEMPT })
      await add(...many('j', 2, MEEK))
      await ids(bench, 1, 'w1')
      bench.clock.advance(1)
      await ids(bench, 1, 'w2')
      await add({ id: 'u', ...URGENT })
      expect(await ids(bench, 9, 'w1')).toEqual([])
      expect(await evictors(bench, 'j0', 'j1')).toEqual(['u', undefined])
    },
  },
  {
    name: 'comes after the raise of an elastic pool',
    run: async (bench) => {
      const { add, expect } = bench
      await full(bench)
      await set(bench, { elastic: { ratio: 0.5, minPriority: 90 } })
      await add(...many('u', 2, URGENT))
      expect(await ids(bench)).toEqual(['u0'])
      expect(await evictors(bench, 'a', 'b', 'u0')).toEqual([undefined, 'u1', undefined])
    },
  },
]

const LINK_CASES: readonly Case[] = [
  {
    name: 'passes the urgent job over while its victim stops, and lets that hide nobody',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT }, { id: 'v', ...URGENT }, { id: 'j' })
      await ids(bench)
      await tell('a', SUCCEEDED)
      expect(await ids(bench)).toEqual(['v'])
      expect(await evictors(bench, 'b', 'v')).toEqual(['u', undefined])
      await tell('b', SUCCEEDED)
      expect(await ids(bench)).toEqual(['u'])
    },
  },
  {
    name: 'displaces one at a time in a pool, and one only for each urgent job that waits',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await full(bench)
      await add(...many('u', 2, URGENT))
      await ids(bench)
      await ids(bench)
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, 'u0'])
      await tell('b', PREEMPTED)
      await add({ id: 'best', priority: 99 })
      expect(await ids(bench)).toEqual(['best'])
      expect(await evictors(bench, 'a')).toEqual([undefined])
      await tell('best', SUCCEEDED)
      expect(await ids(bench)).toEqual(['u0'])
      expect(await evictors(bench, 'a')).toEqual(['u1'])
    },
  },
  {
    name: 'waits for the hold of a victim that was cancelled, and displaces nobody else',
    run: async (bench) => {
      const { add, tell, job, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT }, { id: 'v', ...URGENT })
      await ids(bench)
      await tell('b', CANCEL)
      expect(await job('b')).toMatchObject({ status: 'cancelled', evictor: 'u' })
      expect((await heard(bench, 'b'))[0]?.status).toBe('cancelled')
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'a')).toEqual([undefined])
      await tell('b', SETTLED)
      expect((await job('b')).evictor).toBe(undefined)
      expect(await ids(bench)).toEqual(['u'])
    },
  },
  {
    name: 'displaces nobody while a hold is about to be free',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await full(bench)
      await tell('a', CANCEL)
      await add({ id: 'u', ...URGENT })
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'b')).toEqual([undefined])
      await tell('a', SETTLED)
      expect(await ids(bench)).toEqual(['u'])
    },
  },
  {
    name: 'lets an urgent job take any slot once its victim is stuck, and calls that one no more',
    run: async (bench) => {
      const { store, add, tell, job, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT }, { id: 'low', priority: 1 })
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, 'u'])
      await stick(bench, 'b')
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, undefined])
      expect((await store.standing('u')).victim).toBe(undefined)
      expect(await ids(bench)).toEqual([])
      await tell('a', SUCCEEDED)
      expect(await ids(bench)).toEqual(['u'])
      await add({ id: 'v', ...URGENT })
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'b', 'u')).toEqual([undefined, undefined])
      await tell('b', PREEMPTED)
      expect(await job('b')).toMatchObject({ status: 'ready', preempted: 1, attempts: 0 })
      expect(await ids(bench)).toEqual(['v'])
    },
  },
  {
    name: 'has others displaced although a body is stuck, before and after it is cancelled',
    run: async (bench) => {
      const { add, tell, expect } = bench
      for (const isCancelled of [false, true]) {
        const [a, b, u] = [`a${isCancelled}`, `b${isCancelled}`, `u${isCancelled}`] as const
        await set(bench, { concurrency: 2, preempt: PREEMPT })
        await add({ id: a, ...MEEK }, { id: b, ...MEEK })
        await ids(bench)
        await stick(bench, a)
        if (isCancelled) await tell(a, CANCEL)
        await add({ id: u, ...URGENT })
        expect(await ids(bench)).toEqual([])
        expect(await evictors(bench, a, b)).toEqual([undefined, u])
        await tell(b, SUCCEEDED)
        await tell(a, isCancelled ? SETTLED : SUCCEEDED)
        expect(await ids(bench)).toEqual([u])
        await tell(u, SUCCEEDED)
      }
    },
  },
  {
    name: 'lets a victim stay whose urgent job was cancelled, and spares it until the next',
    run: async (bench) => {
      const { add, tell, job, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT })
      await ids(bench)
      await tell('u', CANCEL)
      expect(await heard(bench, 'b')).toEqual([{ status: 'held' }])
      await add({ id: 'v', ...URGENT })
      expect(await ids(bench)).toEqual([])
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, 'v'])
      await tell('v', CANCEL)
      await tell('b', PREEMPTED)
      expect(await job('b')).toMatchObject({ status: 'ready', preempted: 1, attempts: 0 })
      expect(await ids(bench)).toEqual(['b'])
    },
  },
  {
    name: 'frees the urgent job when its victim is lost, and counts that as a loss',
    run: async (bench) => {
      const { add, tell, clock, job, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT })
      await ids(bench)
      clock.advance(LEASE_MS)
      await tell('b', OVERDUE)
      expect(await job('b')).toMatchObject({ status: 'ready', lost: 1, preempted: 0 })
      expect((await job('b')).evictor).toBe(undefined)
      expect(await ids(bench)).toEqual(['u'])
    },
  },
  {
    name: 'frees the urgent job when its victim was never heard of',
    run: async (bench) => {
      const { store, add, job, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT })
      await ids(bench)
      await store.extend({ holder: 'worker', held: [], leaseMs: LEASE_MS, upTo: 99 }, false)
      expect(await job('b')).toMatchObject({ status: 'ready', attempts: 0, preempted: 0 })
      expect(await evictors(bench, 'a', 'b')).toEqual([undefined, undefined])
      expect(await ids(bench)).toEqual(['u', 'a'])
    },
  },
  {
    name: 'lets an urgent job that has run displace once more',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await set(bench, { concurrency: 1, preempt: PREEMPT })
      await add({ id: 'a', ...MEEK })
      await ids(bench)
      await add({ id: 'u', ...URGENT })
      for (let round = 0; round < 2; round += 1) {
        expect(await ids(bench)).toEqual([])
        expect(await evictors(bench, 'a')).toEqual(['u'])
        await tell('a', PREEMPTED)
        expect(await ids(bench)).toEqual(['u'])
        await tell('u', FAILED)
        expect(await ids(bench)).toEqual(['a'])
        await tell('u', RETRY)
      }
    },
  },
  {
    name: 'lets a victim stay whose urgent job has lost its lane to a better one',
    run: async (bench) => {
      const { store, add, expect } = bench
      await full(bench)
      await add({ id: 'u', ...URGENT, exclusive: 'lane' })
      await ids(bench)
      await set(bench, { preempt: false })
      await add({ id: 'v', priority: 96, exclusive: 'lane', pool: 'io' })
      expect(await evictors(bench, 'b')).toEqual([undefined])
      expect((await store.standing('u')).victim).toBe(undefined)
    },
  },
  {
    name: 'hints at the holder of a job that has to give way',
    hints: true,
    run: async (bench) => {
      const { store, add, expect } = bench
      await full(bench)
      const hints: Hint[] = []
      await store.watch((hint) => hints.push(hint))
      await add({ id: 'u', ...URGENT })
      await ids(bench, 9, 'w2')
      expect(hints.flatMap(({ holders }) => holders)).toEqual(['worker'])
    },
  },
]

export const PREEMPT_CASES: readonly Case[] = [...CHOICE_CASES, ...LINK_CASES]
