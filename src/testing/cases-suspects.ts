// Owns the named cases about suspects: jobs that may be what kills their workers.
// May never need a worker that dies: its lease runs out, and somebody finds that.

import {
  type Bench,
  CANCEL,
  type Case,
  FAILED_ONCE,
  KEEP,
  LEASE_MS,
  OVERDUE,
  PATIENT,
  RETRY,
  SETTLED,
  type Sketch,
  SUCCEEDED,
} from './cases-bench.ts'
import { ids, many, set, setType } from './cases-pools.ts'

/** As long as any delay after a loss. */
const LATER_MS = 60_000

/** A worker takes everything there is and dies, as often as that; then all delays are over. */
async function lose(bench: Bench, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await ids(bench, 99, 'dies')
    bench.clock.advance(LEASE_MS)
    await bench.tidy()
    bench.clock.advance(LATER_MS)
    await ids(bench, 0)
  }
}

/** So many jobs, each of which was lost twice. */
async function suspects(bench: Bench, ...sketches: readonly Sketch[]): Promise<void> {
  await bench.add(...sketches.map((sketch) => ({ ...PATIENT, ...sketch })))
  await lose(bench, 2)
}

/** What is said of a job, as long as two workers are there that serve it. */
async function barred(bench: Bench, id: string): Promise<boolean> {
  const { store } = bench
  const beat = { name: 'w', types: ['alpha'], zombies: 0, settings: '', ttlMs: 1_000 }
  for (const holder of ['w1', 'w2']) await store.beat({ ...beat, holder, full: false })
  await store.beat({ ...beat, holder: 'w3', full: true })
  return (await store.standing(id)).barred
}

export const SUSPECT_CASES: readonly Case[] = [
  {
    name: 'gives a worker one suspect at a time, and others the jobs behind them',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await suspects(bench, { id: 's0' }, { id: 's1' }, { id: 's2' })
      await add(...many('j', 2))
      expect(await ids(bench, 99, 'w1')).toEqual(['s0', 'j0', 'j1'])
      expect(await ids(bench, 99, 'w1')).toEqual([])
      expect(await ids(bench, 99, 'w2')).toEqual(['s1'])
      await tell('j0', SUCCEEDED)
      expect(await ids(bench, 99, 'w1')).toEqual([])
      await tell('s0', SUCCEEDED)
      expect(await ids(bench, 99, 'w1')).toEqual(['s2'])
    },
  },
  {
    name: 'suspects nobody after one loss',
    run: async (bench) => {
      await bench.add(...many('j', 3, PATIENT))
      await lose(bench, 1)
      bench.expect(await ids(bench, 99, 'w1')).toEqual(['j0', 'j1', 'j2'])
    },
  },
  {
    name: 'counts the suspects of a worker over all pools and types, and hides nobody there',
    run: async (bench) => {
      const { add, expect } = bench
      await setType(bench, 'beta', 2)
      await suspects(bench, { id: 'b', type: 'beta', pool: 'b' }, { id: 'a', pool: 'c' })
      await add({ id: 'late', type: 'beta', pool: 'b' }, { id: 'c', pool: 'c' })
      expect(await ids(bench, 99, 'w1')).toEqual(['b', 'late', 'c'])
      expect(await ids(bench, 99, 'w2')).toEqual(['a'])
    },
  },
  {
    name: 'passes suspects over in a pool with rules, too',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await set(bench, { perWorker: 3, concurrency: 9 })
      await suspects(bench, { id: 's0', priority: 90 }, { id: 's1', priority: 80 })
      await add(...many('j', 3))
      expect(await ids(bench, 99, 'w1')).toEqual(['s0', 'j0', 'j1'])
      await tell('j0', SUCCEEDED)
      expect(await ids(bench, 99, 'w1')).toEqual(['j2'])
      expect(await ids(bench, 99, 'w2')).toEqual(['s1'])
    },
  },
  {
    name: 'has nobody give way to a suspect whose worker has one',
    run: async (bench) => {
      const { add, job, expect } = bench
      const meek = { terms: { ...PATIENT.terms, preemptible: true } }
      await suspects(bench, { id: 's0', priority: 95 }, { id: 's1', priority: 95 })
      await set(bench, {
        concurrency: 2,
        preempt: { minPriority: 90, minGap: 10, minRunMs: 0 },
      })
      await add({ id: 'j', ...meek })
      expect(await ids(bench, 99, 'w1')).toEqual(['s0', 'j'])
      expect(await ids(bench, 99, 'w1')).toEqual([])
      expect((await job('j')).evictor).toBe(undefined)
      expect(await ids(bench, 99, 'w2')).toEqual([])
      expect((await job('j')).evictor).toBe('s1')
    },
  },
  {
    name: 'counts the hold of a suspect until its body has settled',
    run: async (bench) => {
      const { tell, expect } = bench
      await suspects(bench, { id: 's0' }, { id: 's1' })
      expect(await ids(bench, 99, 'w1')).toEqual(['s0'])
      await tell('s0', CANCEL)
      expect(await ids(bench, 99, 'w1')).toEqual([])
      await tell('s0', SETTLED)
      expect(await ids(bench, 99, 'w1')).toEqual(['s1'])
    },
  },
  {
    name: 'keeps a suspect one after a failure, and clears it with a revival',
    run: async (bench) => {
      const { tell, job, expect } = bench
      await suspects(bench, { id: 's0' }, { id: 's1' })
      await ids(bench, 99, 'w1')
      await tell('s0', FAILED_ONCE)
      expect(await ids(bench, 99, 'w1')).toEqual(['s1'])
      expect(await ids(bench, 99, 'w1')).toEqual([])
      await tell('s0', CANCEL)
      await tell('s0', RETRY)
      expect(await job('s0')).toMatchObject({ lost: 2, lostBefore: 2, status: 'ready' })
      expect(await ids(bench, 99, 'w1')).toEqual(['s0'])
    },
  },
  {
    name: 'ranks suspects with all others, and counts them among those ahead',
    run: async (bench) => {
      const { store, add, expect } = bench
      await suspects(bench, { id: 's0' }, { id: 's1', priority: 80 })
      await add({ id: 'j', priority: 70 })
      await barred(bench, 's0')
      const places = async (...names: string[]) =>
        Promise.all(names.map(async (id) => (await store.standing(id)).ahead))
      expect(await places('s1', 'j', 's0')).toEqual([0, 1, 2])
      await store.configure({ ageing: { everyMs: 1, ceiling: 89 } })
      await store.overdue({ limit: 1, keepLogMs: KEEP.logMs }, false)
      expect(await places('s1', 's0', 'j')).toEqual([0, 1, 2])
      expect(await ids(bench, 99, 'w1')).toEqual(['s1', 'j'])
    },
  },
  {
    name: 'says whether every worker that could take a suspect has one',
    run: async (bench) => {
      const { store, expect } = bench
      await suspects(bench, { id: 's0' }, { id: 's1' }, { id: 's2' })
      await set(bench, { perWorker: 1 })
      expect(await barred(bench, 's2')).toBe(false)
      await ids(bench, 99, 'w1')
      expect(await barred(bench, 's2')).toBe(false)
      await bench.add({ id: 'j' })
      expect(await ids(bench, 1, 'w2')).toEqual(['s1'])
      expect(await barred(bench, 's2')).toBe(true)
      expect(await barred(bench, 'j')).toBe(false)
      await bench.tell('s1', SUCCEEDED)
      expect(await ids(bench, 1, 'w4')).toEqual(['s2'])
      await bench.tell('s2', OVERDUE)
      expect((await store.standing('j')).spent).toBe(false)
    },
  },
  {
    name: 'says that a share is used up, too, where the other workers have suspects',
    run: async (bench) => {
      const { store, add, expect } = bench
      await suspects(bench, { id: 's0' }, { id: 's1' })
      await set(bench, { perWorker: 1, concurrency: 5 })
      expect(await ids(bench, 1, 'w1')).toEqual(['s0'])
      await add({ id: 'j', priority: 99 })
      expect(await ids(bench, 1, 'w2')).toEqual(['j'])
      expect(await barred(bench, 's1')).toBe(false)
      expect((await store.standing('s1')).spent).toBe(true)
    },
  },
]
