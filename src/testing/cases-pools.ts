// Owns the named cases about what pools let start: shares, caps of types, rates, elastic caps.
// May never need more of a store than that `lease` says no.

import { rateTerms } from '../core/gcra.ts'
import type { PoolTermsChange } from '../core/settings.ts'
import {
  type Bench,
  CANCEL,
  type Case,
  FAILED_ONCE,
  LEASE_MS,
  PATIENT,
  type Sketch,
  SUCCEEDED,
  TYPES,
} from './cases-bench.ts'

/** What an operator sets of a pool. */
export function set(bench: Bench, terms: PoolTermsChange, pool = 'default'): Promise<void> {
  return bench.store.configure({ pool, by: 'operator', terms })
}

export function setType(bench: Bench, type: string, concurrency: number | null): Promise<void> {
  const { terms } = PATIENT
  const setting = { pool: 'default', priority: 50, terms, concurrency, maxLost: null }
  return bench.store.configure({ type, setting })
}

/** Jobs `name0`, `name1` and so on. */
export function many(name: string, count: number, over: Omit<Sketch, 'id'> = {}): Sketch[] {
  return Array.from({ length: count }, (_, index) => ({ ...over, id: `${name}${index}` }))
}

/** Ids, in the order granted. */
export async function ids(bench: Bench, max = 99, holder = 'worker'): Promise<string[]> {
  return (await bench.take(max, holder)).map(({ id }) => id)
}

/** When time alone lets a job start, in milliseconds from now; Infinity for never. */
export async function wakesIn(bench: Bench, holder = 'worker'): Promise<number> {
  const ask = { holder, leaseMs: LEASE_MS, max: 99, types: TYPES }
  const { answer } = await bench.store.lease(ask, false)
  bench.expect(answer.jobs.length).toBe(0)
  return answer.nextAt - bench.clock.now()
}

const SHARE_CASES: readonly Case[] = [
  {
    name: 'gives one worker no more of a pool than its share, holds included',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await set(bench, { concurrency: 5, perWorker: 2 })
      await add(...many('j', 9), { id: 'other', pool: 'io' })
      expect(await ids(bench, 99, 'w1')).toEqual(['j0', 'j1', 'other'])
      expect(await ids(bench, 99, 'w2')).toEqual(['j2', 'j3'])
      expect(await ids(bench, 99, 'w3')).toEqual(['j4'])
      await tell('j0', CANCEL)
      await tell('j4', SUCCEEDED)
      expect(await ids(bench, 99, 'w1')).toEqual([])
      await tell('j1', SUCCEEDED)
      expect(await ids(bench, 99, 'w1')).toEqual(['j5'])
    },
  },
  {
    name: 'counts a share from what is held, also what was taken before there was a share',
    run: async (bench) => {
      const { add, expect } = bench
      await add(...many('j', 9))
      await ids(bench, 3)
      await set(bench, { perWorker: 4 })
      expect(await ids(bench)).toEqual(['j3'])
      await set(bench, { perWorker: null })
      expect((await ids(bench)).length).toBe(5)
    },
  },
  {
    name: 'says whether everybody who could take a job has as many of its pool as one may',
    run: async (bench) => {
      const { store, add, take, expect } = bench
      await set(bench, { concurrency: 5, perWorker: 1 })
      const beat = { name: 'w', types: ['alpha'], zombies: 0, settings: '', ttlMs: 1_000 }
      for (const holder of ['w1', 'w2']) await store.beat({ ...beat, holder, full: false })
      await store.beat({ ...beat, holder: 'w3', full: true })
      await add(...many('j', 3))
      const spent = async () => (await store.standing('j2')).spent
      await take(9, 'w1')
      expect(await spent()).toBe(false)
      await take(9, 'w2')
      expect(await spent()).toBe(true)
      await set(bench, { perWorker: 5 })
      expect(await spent()).toBe(false)
    },
  },
]

const TYPE_CASES: readonly Case[] = [
  {
    name: 'keeps a type within its cap over all pools and workers, and lets it hide nobody',
    run: async (bench) => {
      const { store, add, tell, expect } = bench
      await setType(bench, 'beta', 2)
      await add(
        ...many('b', 3, { type: 'beta', priority: 90 }),
        ...many('a', 2),
        ...many('io', 2, { type: 'beta', pool: 'io' }),
      )
      expect(await ids(bench, 99, 'w1')).toEqual(['b0', 'b1', 'a0', 'a1'])
      expect(await ids(bench, 99, 'w2')).toEqual([])
      expect((await store.standing('b2')).type).toEqual({ concurrency: 2, running: 2 })
      await tell('b0', CANCEL)
      expect(await ids(bench)).toEqual([])
      await tell('b1', SUCCEEDED)
      expect(await ids(bench)).toEqual(['b2'])
    },
  },
  {
    name: 'takes a cap of a type up, down and away again',
    run: async (bench) => {
      const { store, add, expect } = bench
      await add(...many('j', 8))
      await ids(bench, 2)
      await setType(bench, 'alpha', 3)
      expect(await ids(bench)).toEqual(['j2'])
      await setType(bench, 'alpha', 1)
      expect(await ids(bench)).toEqual([])
      await setType(bench, 'alpha', null)
      expect((await ids(bench)).length).toBe(5)
      expect((await store.standing('j7')).type).toEqual({ concurrency: null, running: 8 })
    },
  },
]

const RATE_CASES: readonly Case[] = [
  {
    name: 'starts no more than a rate allows, and says when it allows another',
    run: async (bench) => {
      const { store, add, clock, expect } = bench
      await set(bench, { rate: rateTerms(4, 1_000) })
      await add(...many('j', 9), { id: 'later', delayMs: 5_000 })
      expect(await ids(bench)).toEqual(['j0'])
      expect(await wakesIn(bench)).toBe(250)
      expect((await store.count()).pools.default?.rateAt).toBe(clock.now() + 250)
      clock.advance(249)
      expect(await ids(bench)).toEqual([])
      clock.advance(1)
      expect((await store.count()).pools.default?.rateAt).toBe(0)
      expect(await ids(bench)).toEqual(['j1'])
    },
  },
  {
    name: 'lets a burst start at once after a pause, and charges it afterwards',
    run: async (bench) => {
      const { add, clock, expect } = bench
      await set(bench, { rate: rateTerms(2, 1_000, 2) })
      await add(...many('j', 9))
      expect(await ids(bench)).toEqual(['j0', 'j1'])
      expect(await wakesIn(bench)).toBe(500)
      clock.advance(60_000)
      expect((await ids(bench)).length).toBe(2)
    },
  },
  {
    name: 'wakes nobody for a rate that has stopped nobody',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await set(bench, { rate: rateTerms(1, 1_000), concurrency: 1 })
      await add({ id: 'a' })
      await ids(bench)
      expect(await wakesIn(bench)).toBe(Number.POSITIVE_INFINITY)
      await add({ id: 'b' })
      expect(await wakesIn(bench)).toBe(Number.POSITIVE_INFINITY)
      await tell('a', SUCCEEDED)
      expect(await wakesIn(bench)).toBe(1_000)
    },
  },
  {
    name: 'keeps no start back for one that was handed back, failed or never heard of',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await set(bench, { rate: rateTerms(1, 1_000) })
      await add({ id: 'a', ...PATIENT })
      await ids(bench)
      await tell('a', FAILED_ONCE)
      expect(await wakesIn(bench)).toBe(1_000)
    },
  },
  {
    name: 'holds to a stricter rate from the change on, and waits no longer than one interval',
    run: async (bench) => {
      const { add, clock, expect } = bench
      await set(bench, { rate: rateTerms(5, 1_000, 5) })
      await add(...many('j', 20))
      expect((await ids(bench)).length).toBe(5)
      await set(bench, { rate: rateTerms(1, 2_000) })
      expect(await wakesIn(bench)).toBe(2_000)
      clock.advance(2_000)
      expect((await ids(bench)).length).toBe(1)
      expect(await wakesIn(bench)).toBe(2_000)
      await set(bench, { rate: rateTerms(4, 1_000) })
      expect(await wakesIn(bench)).toBe(250)
    },
  },
  {
    name: 'does not start a rate anew because the same is said once more',
    run: async (bench) => {
      const { store, add, clock, expect } = bench
      const rate = rateTerms(1, 1_000)
      await set(bench, { rate })
      await add(...many('j', 3))
      await ids(bench)
      clock.advance(400)
      await set(bench, { rate: { ...rate }, concurrency: 7 })
      expect(await wakesIn(bench)).toBe(600)
      await set(bench, { rate: false })
      expect((await store.count()).pools.default).toMatchObject({ rate: null, rateAt: 0 })
      expect((await ids(bench)).length).toBe(2)
    },
  },
]

const URGENT = { priority: 95 }
const elastic = { ratio: 0.3, minPriority: 90 }

const ELASTIC_CASES: readonly Case[] = [
  {
    name: 'raises a full cap for urgent jobs, by the floor of the share and one at least',
    run: async (bench) => {
      const { add, expect } = bench
      const pools = [
        ['p1', 1, 1],
        ['p9', 9, 2],
        ['p10', 10, 3],
        ['zero', 0, 0],
      ] as const
      for (const [pool, concurrency, raise] of pools) {
        await set(bench, { concurrency, elastic }, pool)
        await add(...many(`${pool}-`, 12, { pool }))
        expect((await ids(bench)).length).toBe(concurrency)
        await add(...many(`${pool}-u`, 5, { pool, ...URGENT }))
        expect((await ids(bench)).length).toBe(raise)
      }
    },
  },
  {
    name: 'uses the base cap first, and keeps ordinary jobs waiting until the total is below it',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await set(bench, { concurrency: 4, elastic: { ratio: 0.5, minPriority: 90 } })
      await add(...many('u', 3, URGENT), ...many('j', 5))
      expect(await ids(bench)).toEqual(['u0', 'u1', 'u2', 'j0'])
      await add(...many('v', 3, URGENT))
      expect(await ids(bench)).toEqual(['v0', 'v1'])
      await tell('u0', SUCCEEDED)
      await tell('u1', SUCCEEDED)
      await tell('v0', CANCEL)
      expect(await ids(bench)).toEqual(['v2'])
      await tell('u2', SUCCEEDED)
      expect(await ids(bench)).toEqual([])
      await tell('v1', SUCCEEDED)
      expect(await ids(bench)).toEqual(['j1'])
    },
  },
  {
    name: 'raises the share of a worker alike, and no cap of a type',
    run: async (bench) => {
      const { add, expect } = bench
      await set(bench, { concurrency: 8, perWorker: 4, elastic: { ratio: 0.5, minPriority: 90 } })
      await setType(bench, 'beta', 1)
      await add(...many('j', 4))
      await ids(bench)
      await add(...many('b', 3, { ...URGENT, type: 'beta' }), ...many('u', 3, URGENT))
      expect(await ids(bench)).toEqual(['b0', 'u0'])
      expect(await ids(bench, 99, 'w2')).toEqual(['u1', 'u2'])
    },
  },
  {
    name: 'counts as urgent nobody whom ageing could overtake',
    run: async (bench) => {
      const { store, add, expect } = bench
      await set(bench, { concurrency: 1, elastic: { ratio: 1, minPriority: 90 } })
      await store.configure({ ageing: { everyMs: 1_000, ceiling: 95 } })
      await add({ id: 'j' })
      await ids(bench)
      await add({ id: 'u', priority: 95 })
      expect(await ids(bench)).toEqual([])
      await add({ id: 'v', priority: 96 })
      expect(await ids(bench)).toEqual(['v'])
    },
  },
  {
    name: 'keeps to the rate and to a pause above the cap, too',
    run: async (bench) => {
      const { add, clock, expect } = bench
      await set(bench, { concurrency: 1, elastic, rate: rateTerms(1, 1_000) })
      await add({ id: 'j' })
      await ids(bench)
      await add({ id: 'u', ...URGENT })
      expect(await wakesIn(bench)).toBe(1_000)
      clock.advance(1_000)
      await set(bench, { paused: true })
      expect(await wakesIn(bench)).toBe(Number.POSITIVE_INFINITY)
      await set(bench, { paused: false })
      expect(await ids(bench)).toEqual(['u'])
    },
  },
]

export const POOL_CASES: readonly Case[] = [
  ...SHARE_CASES,
  ...TYPE_CASES,
  ...RATE_CASES,
  ...ELASTIC_CASES,
]
