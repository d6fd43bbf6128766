// Owns the named cases about flows: what keeps their jobs, how they get other definitions, notes.
// May never know what a flow file is.

import type { NewJob, StoredJob } from '../core/job.ts'
import { LIMITS } from '../store/limits.ts'
import type { InsertAnswer, ReplaceGroup } from '../store/store.ts'
import {
  type Bench,
  CANCEL,
  type Case,
  FAILED,
  KEEP,
  LEASE_MS,
  OVERDUE,
  on,
  PATIENT,
  type Sketch,
  SUCCEEDED,
} from './cases-bench.ts'
import { newJob } from './history-commands.ts'

/** Replaces jobs, as they are now, by others. */
async function replace(
  { store, job }: Bench,
  gone: readonly string[],
  jobs: readonly Sketch[],
  more: Partial<ReplaceGroup> = {},
): Promise<InsertAnswer> {
  const old = await Promise.all(gone.map(job))
  const group: ReplaceGroup = {
    jobs: jobs.map((sketch): NewJob => newJob(sketch.id, sketch)),
    gone: old.map(({ id, seq, rev }) => ({ id, seq, rev })),
    unknownDeps: 'wait',
    ...more,
  }
  return (await store.replace(group, false)).answer
}

export const FLOW_CASES: readonly Case[] = [
  {
    name: 'keeps the jobs of a flow until the job that it is called after has succeeded',
    run: async ({ add, take, tell, tidy, clock, job, statuses, expect }) => {
      await add({ id: 'f' }, { id: 'a', flow: 'f' }, { id: 'b', flow: 'other' })
      await take(1)
      await take(9)
      await tell('a', SUCCEEDED)
      await tell('b', SUCCEEDED)
      await tell('f', FAILED, { ...KEEP, failedMs: 10 * KEEP.failedMs })
      clock.advance(KEEP.successMs)
      expect(await tell('a', OVERDUE)).toMatchObject({
        status: 'refused',
        why: { reason: 'named' },
      })
      expect((await job('a')).deadline).toBe(clock.now() + LIMITS.flowMs)
      await tidy()
      expect(await statuses('f', 'a', 'b')).toEqual(['failed', 'success', 'nobody'])
      await tell('f', { type: 'retry' })
      await take()
      await tell('f', SUCCEEDED)
      clock.advance(LIMITS.flowMs)
      await tidy()
      expect(await statuses('f', 'a')).toEqual(['nobody', 'nobody'])
    },
  },
  {
    name: 'keeps the jobs of a flow no longer than the failed or cancelled job it is called after',
    run: async ({ add, take, tell, tidy, clock, statuses, expect }) => {
      await add({ id: 'f' }, { id: 'a', flow: 'f' }, { id: 'g' }, { id: 'b', flow: 'g' })
      await take(9)
      for (const id of ['a', 'b']) await tell(id, SUCCEEDED)
      await tell('f', FAILED, { ...KEEP, failedMs: 2 * LIMITS.flowMs })
      await tell('g', CANCEL)
      await tell('g', { type: 'settled' })
      clock.advance(LIMITS.flowMs)
      await tidy()
      expect(await statuses('f', 'a', 'g', 'b')).toEqual(['failed', 'success', 'nobody', 'nobody'])
      clock.advance(LIMITS.flowMs)
      await tidy()
      expect(await statuses('f', 'a')).toEqual(['nobody', 'nobody'])
    },
  },
  {
    name: 'replaces jobs at once: another definition, some more, some less',
    run: async (bench) => {
      const { add, take, tell, job, statuses, expect } = bench
      await add({ id: 'a' }, { id: 'b', ...on('a') }, { id: 'c', ...on('b') }, { id: 'd' })
      await take(1)
      await tell('a', SUCCEEDED)
      await take(1)
      await tell('b', FAILED)
      const answer = await replace(
        bench,
        ['b', 'c', 'd'],
        [
          { id: 'b', type: 'beta', payload: '"new"', ...on('a') },
          { id: 'e', ...on('b') },
        ],
      )
      expect(answer).toMatchObject({ status: 'done', jobs: [{ added: true }, { added: true }] })
      expect(await statuses('a', 'b', 'c', 'd', 'e')).toEqual([
        'success',
        'ready',
        'nobody',
        'nobody',
        'waiting',
      ])
      expect(await job('b')).toMatchObject({ type: 'beta', payload: '"new"', starts: 0, log: [] })
    },
  },
  {
    name: 'lets those that are left wait for the new job under the old id',
    run: async (bench) => {
      const { store, add, take, tell, job, statuses, expect } = bench
      const all = { depMode: 'any' as const, ...on('a', 'other') }
      await add({ id: 'a' }, { id: 'x', ...on('a') }, { id: 'y', ...all })
      await take()
      await tell('a', FAILED)
      await tell('x', OVERDUE)
      expect(await job('y')).toMatchObject({ status: 'waiting', open: 1 })
      await replace(bench, ['a'], [{ id: 'a', payload: '"new"' }])
      expect(await job('y')).toMatchObject({ status: 'waiting', open: 2 })
      expect((await store.dependents('a', 0, 9)).map(({ id }) => id)).toEqual(['x', 'y'])
      await take()
      await tell('a', SUCCEEDED)
      expect(await statuses('x', 'y')).toEqual(['cancelled', 'ready'])
    },
  },
  {
    name: 'replaces nothing that runs, has succeeded, or is not as it was seen',
    run: async (bench) => {
      const { add, take, tell, job, statuses, expect } = bench
      await add({ id: 'a' }, { id: 'b' }, { id: 'c' })
      await take(2)
      await tell('a', SUCCEEDED)
      const seen = await job('c')
      for (const id of ['a', 'b']) {
        expect(await replace(bench, ['c', id], [{ id: 'n' }])).toEqual({ status: 'stale' })
      }
      await tell('b', CANCEL)
      expect(await replace(bench, ['b'], [])).toEqual({ status: 'stale' })
      const gone = [{ id: 'c', seq: seen.seq, rev: seen.rev - 1 }]
      expect(await replace(bench, [], [{ id: 'n' }], { gone })).toEqual({ status: 'stale' })
      expect(await statuses('a', 'b', 'c', 'n')).toEqual([
        'success',
        'cancelled',
        'ready',
        'nobody',
      ])
    },
  },
  {
    name: 'replaces all or nothing: what is refused leaves the old jobs as they were',
    run: async (bench) => {
      const { store, add, take, tell, job, statuses, expect } = bench
      await add({ id: 'a', key: 'k' }, { id: 'b', exclusive: 'l' }, { id: 'w', exclusive: 'l' })
      await add({ id: 'o', key: 'taken' })
      const before = await job('b')
      const loop = [
        { id: 'a', ...on('b') },
        { id: 'b', ...on('a') },
      ]
      expect(await replace(bench, ['a', 'b'], loop)).toMatchObject({
        status: 'refused',
        refusals: [{ reason: 'cycle' }],
      })
      const taken = await replace(bench, ['a', 'b'], [{ id: 'a', key: 'taken' }])
      expect(taken).toMatchObject({ status: 'refused', refusals: [{ reason: 'key' }] })
      expect(await job('b')).toEqual(before)
      expect(await statuses('a', 'b', 'w')).toEqual(['ready', 'ready', 'waiting'])
      expect((await store.inspect()).damage).toEqual([])
      await replace(bench, ['a', 'b'], [{ id: 'n', key: 'k' }])
      expect(await statuses('a', 'b', 'w', 'n')).toEqual(['nobody', 'nobody', 'ready', 'ready'])
      await take(9)
      expect(await tell('w', SUCCEEDED)).toMatchObject({ status: 'moved' })
    },
  },
  {
    name: 'replaces jobs on behalf of a running job only while that holds its lease',
    run: async (bench) => {
      const { add, take, tell, statuses, expect } = bench
      await add({ id: 'f', ...PATIENT, priority: 90 }, { id: 'a' })
      const [held] = await take(1)
      const fence = { id: 'f', lease: (held as StoredJob).lease?.number ?? 0 }
      expect((await replace(bench, ['a'], [{ id: 'b' }], { fence })).status).toBe('done')
      await tell('f', { type: 'returned' })
      expect((await replace(bench, ['b'], [{ id: 'c' }], { fence })).status).toBe('stale')
      expect(await statuses('a', 'b', 'c')).toEqual(['nobody', 'ready', 'nobody'])
    },
  },
  {
    name: 'asks no room of a bounded queue for what takes the place of others',
    run: async (bench) => {
      const { store, add, statuses, expect } = bench
      await store.configure({ pool: 'default', by: 'operator', terms: { maxQueue: 1 } })
      await add({ id: 'a' })
      expect((await add({ id: 'b' })).status).toBe('refused')
      await replace(bench, ['a'], [{ id: 'a', payload: '2' }, { id: 'b' }])
      expect(await statuses('a', 'b')).toEqual(['ready', 'ready'])
      await replace(bench, ['a', 'b'], [])
      expect((await add({ id: 'c' })).status).toBe('done')
    },
  },
  {
    name: 'keeps the note of a holder when its lease has gone, until a later one comes',
    run: async ({ store, add, take, tell, clock, job, expect }) => {
      await add({ id: 'a', ...PATIENT })
      const say = async (holder: string, lease: number, note?: string) => {
        const held = [{ id: 'a', lease, ...(note === undefined ? {} : { note }) }]
        await store.extend({ holder, held, leaseMs: LEASE_MS, upTo: 0 }, false)
      }
      await take(1, 'w1')
      await say('w1', 1, 'first')
      await say('w1', 1)
      expect((await job('a')).note).toBe('first')
      clock.advance(LEASE_MS)
      await tell('a', OVERDUE)
      expect((await job('a')).note).toBe('first')
      const [again] = await take(1, 'w2')
      expect(again?.note).toBe('first')
      await say('w1', 1, 'too late')
      expect((await job('a')).note).toBe('first')
      await say('w2', 2, 'second')
      await tell('a', SUCCEEDED)
      expect((await job('a')).note).toBe('second')
    },
  },
]
