// Owns the named cases about bounded queues: who finds room, and who is told of it.
// May never test a store's insides.

import type { Hint, InsertAnswer } from '../store/store.ts'
import {
  type Bench,
  CANCEL,
  type Case,
  FAILED_ONCE,
  on,
  PATIENT,
  RETRY,
  type Sketch,
  SUCCEEDED,
} from './cases-bench.ts'
import { newJob } from './history-commands.ts'

async function bound({ store }: Bench, maxQueue: number | null, pool = 'default'): Promise<void> {
  await store.configure({ pool, by: 'start', terms: { maxQueue, overflow: 'wait' } })
}

/** The refusal of a group that finds no room in one pool. */
function full(index: number, maxQueue: number, never = false): InsertAnswer {
  const rest = { maxQueue, overflow: 'wait', never } as const
  return { status: 'refused', refusals: [{ index, reason: 'full', pool: 'default', ...rest }] }
}

export const ROOM_CASES: readonly Case[] = [
  {
    name: 'takes no group that would leave a pool with more queued jobs than it may have',
    run: async (bench) => {
      const { add, take, statuses, expect } = bench
      await bound(bench, 3)
      await add({ id: 'a' }, { id: 'b', delayMs: 5 })
      expect(await add({ id: 'c' }, { id: 'd' })).toEqual(full(1, 3))
      expect(await statuses('c', 'd')).toEqual(['nobody', 'nobody'])
      expect((await add({ id: 'c' })).status).toBe('done')
      expect(await add({ id: 'd', delayMs: 1 })).toEqual(full(0, 3))
      await take()
      expect((await add({ id: 'd' })).status).toBe('done')
    },
  },
  {
    name: 'says when a group would not even fit into an empty pool',
    run: async (bench) => {
      const { store, add, expect } = bench
      await bound(bench, 2)
      await add({ id: 'a' })
      expect(await add({ id: 'x' }, { id: 'y' }, { id: 'z' })).toEqual(full(1, 2, true))
      await bound(bench, 0)
      await store.configure({ pool: 'default', by: 'operator', terms: { overflow: 'reject' } })
      expect(await add({ id: 'x' })).toMatchObject({
        refusals: [{ index: 0, maxQueue: 0, overflow: 'reject', never: true }],
      })
      await bound(bench, null)
      expect((await add({ id: 'x' })).status).toBe('done')
    },
  },
  {
    name: 'counts no job that waits for others or for a lane, in the group or in the pool',
    run: async (bench) => {
      const { add, expect } = bench
      await bound(bench, 2)
      await add({ id: 'a', exclusive: 'l' }, { id: 'b', exclusive: 'l' }, { id: 'c', ...on('a') })
      const answer = await add({ id: 'd' }, { id: 'e', ...on('d') }, { id: 'f', exclusive: 'l' })
      expect(answer.status).toBe('done')
      expect(await add({ id: 'g' })).toEqual(full(0, 2))
      expect((await add({ id: 'h', ...on('a') }, { id: 'i', exclusive: 'l' })).status).toBe('done')
    },
  },
  {
    name: 'counts what a group would leave behind: whoever yields its lane to it takes no place',
    run: async (bench) => {
      const { add, statuses, expect } = bench
      await bound(bench, 1)
      await add({ id: 'a', exclusive: 'l' })
      expect((await add({ id: 'better', exclusive: 'l', priority: 60 })).status).toBe('done')
      expect(await statuses('a', 'better')).toEqual(['waiting', 'ready'])
      const best = { id: 'best', exclusive: 'l', priority: 70 }
      expect(await add(best, { id: 'plain' })).toEqual(full(1, 1, true))
      expect((await add({ id: 'c', exclusive: 'm' })).status).toBe('refused')
      const group = [best, { id: 'top', exclusive: 'l', priority: 80 }]
      expect((await add(...group)).status).toBe('done')
      expect(await statuses('better', 'best', 'top')).toEqual(['waiting', 'waiting', 'ready'])
    },
  },
  {
    name: 'lets in whoever fills a ghost that somebody alive waits for, and counts it then',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await bound(bench, 1)
      await add({ id: 'a' }, { id: 'waits', ...on('ghost') }, { id: 'gave up', ...on('other') })
      await tell('gave up', CANCEL)
      expect(await add({ id: 'other' })).toEqual(full(0, 1))
      expect(await add({ id: 'ghost' }, { id: 'more' })).toEqual(full(1, 1, true))
      expect((await add({ id: 'ghost' })).status).toBe('done')
      await tell('a', CANCEL)
      expect(await add({ id: 'b' })).toEqual(full(0, 1))
    },
  },
  {
    name: 'refuses no job that is there already, and none that becomes ready in another way',
    run: async (bench) => {
      const { store, add, take, tell, clock, statuses, expect } = bench
      await add({ id: 'a', ...PATIENT }, { id: 'b', key: 'k' }, { id: 'c', ...on('b') })
      await take(2)
      await bound(bench, 1)
      await add({ id: 'plain' })
      expect((await add({ id: 'plain' }, { id: 'm', key: 'k', minted: true })).status).toBe('done')
      await tell('a', FAILED_ONCE)
      await tell('b', SUCCEEDED)
      expect(await statuses('a', 'c', 'plain')).toEqual(['ready', 'ready', 'ready'])
      await tell('plain', CANCEL)
      await tell('plain', RETRY)
      expect((await store.count()).pools.default?.ready).toBe(3)
      clock.advance(1)
      expect(await add({ id: 'd' })).toEqual(full(0, 1))
    },
  },
  {
    name: 'judges the groups of one call one after the other',
    run: async (bench) => {
      const { store, expect } = bench
      await bound(bench, 2)
      const group = (...ids: string[]) => ({
        jobs: ids.map((id) => newJob(id)),
        unknownDeps: 'wait' as const,
      })
      const { answer } = await store.insert([group('a'), group('b', 'c'), group('d')], false)
      expect(answer.map(({ status }) => status)).toEqual(['done', 'refused', 'done'])
    },
  },
  {
    name: 'names every pool without room, and has other reasons to refuse first',
    run: async (bench) => {
      const { add, expect } = bench
      await bound(bench, 1)
      await bound(bench, 1, 'io')
      await add({ id: 'a', key: 'k' }, { id: 'b', pool: 'io' })
      expect(await add({ id: 'c', pool: 'io' }, { id: 'd' }, { id: 'e' })).toMatchObject({
        refusals: [
          { index: 0, pool: 'io', never: false },
          { index: 1, pool: 'default', never: true },
        ],
      })
      expect(await add({ id: 'c' }, { id: 'd', key: 'k' })).toMatchObject({
        refusals: [{ index: 1, reason: 'key' }],
      })
    },
  },
  {
    name: 'keeps the places of those who wait from whoever comes behind them, and nothing else',
    run: async (bench) => {
      const { store, add, addTo, statuses, expect } = bench
      await bound(bench, 3)
      await bound(bench, 1, 'io')
      await add({ id: 'a', key: 'k' }, { id: 'b', exclusive: 'l' }, { id: 'w', ...on('ghost') })
      const behind = (...jobs: Sketch[]) => addTo({ behind: ['default'] }, ...jobs)
      expect(await behind({ id: 'c' })).toEqual(full(0, 3))
      expect(await behind({ id: 'a' }, { id: 'd', ...on('a') }, { id: 'c' })).toEqual(full(2, 3))
      const many = ['c', 'd', 'e', 'f'].map((id) => ({ id }))
      expect(await behind(...many)).toEqual(full(0, 3, true))
      expect((await behind({ id: 'm', key: 'k', minted: true })).status).toBe('done')
      expect(await behind({ id: 'n', key: 'k' })).toMatchObject({ refusals: [{ reason: 'key' }] })
      const better = { id: 'better', exclusive: 'l', priority: 60 }
      const free = [{ id: 'a' }, { id: 'd', ...on('a') }, better, { id: 'i', pool: 'io' }]
      expect((await behind(...free)).status).toBe('done')
      expect((await behind({ id: 'ghost' })).status).toBe('done')
      expect(await statuses('better', 'b', 'ghost')).toEqual(['ready', 'waiting', 'ready'])
      await store.configure({ pool: 'default', by: 'operator', terms: { maxQueue: 4 } })
      expect(await behind({ id: 'c' })).toEqual(full(0, 4))
      const terms = { overflow: 'reject' } as const
      await store.configure({ pool: 'default', by: 'operator', terms })
      expect((await behind({ id: 'c' })).status).toBe('done')
    },
  },
  {
    name: 'owes no hint to whoever only comes behind others',
    hints: true,
    run: async (bench) => {
      const { store, add, addTo, tell, expect } = bench
      await bound(bench, 3)
      await add({ id: 'a' }, { id: 'b' })
      const hints: Hint[] = []
      await store.watch((hint) => hints.push(hint))
      const told = () => hints.splice(0).flatMap(({ room }) => room)
      const behind = (...jobs: Sketch[]) => addTo({ behind: ['default'] }, ...jobs)
      await behind({ id: 'c' })
      await tell('a', CANCEL)
      expect(told()).toEqual([])
      await behind({ id: 'c' }, { id: 'd' }, { id: 'e' })
      await tell('b', CANCEL)
      expect(told()).toEqual(['default'])
    },
  },
  {
    name: 'hints once at room for somebody who was refused, and at nothing else',
    hints: true,
    run: async (bench) => {
      const { store, add, take, tell, expect } = bench
      await bound(bench, 2)
      await add({ id: 'a' }, { id: 'b' })
      const hints: Hint[] = []
      await store.watch((hint) => hints.push(hint))
      const told = () => hints.splice(0).flatMap(({ room }) => room)
      await take()
      expect(told()).toEqual([])
      await add({ id: 'c' })
      await add({ id: 'd' }, { id: 'e' })
      await add({ id: 'd' }, { id: 'e' })
      expect(told()).toEqual([])
      await take()
      expect(told()).toEqual([])
      await tell('c', CANCEL)
      expect(told()).toEqual(['default'])
      await add({ id: 'f' })
      await take()
      expect(told()).toEqual([])
    },
  },
  {
    name: 'hints at a bound that has changed for whoever was refused, and never where none waits',
    hints: true,
    run: async (bench) => {
      const { store, add, expect } = bench
      await bound(bench, 1)
      await add({ id: 'a' })
      await add({ id: 'b' })
      const hints: Hint[] = []
      await store.watch((hint) => hints.push(hint))
      const told = () => hints.splice(0).flatMap(({ room }) => room)
      await bound(bench, null)
      expect(told()).toEqual(['default'])
      await store.configure({
        pool: 'default',
        by: 'operator',
        terms: { maxQueue: 1, overflow: 'reject' },
      })
      await add({ id: 'c' })
      await store.configure({ pool: 'default', by: 'operator', terms: { maxQueue: 9 } })
      expect(told()).toEqual([])
    },
  },
]
