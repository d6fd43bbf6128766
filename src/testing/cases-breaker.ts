// Owns the named cases about the breaker of a pool: when nothing starts, and who may probe.
// May never need a worker: what a body would do is told as a fact.

import type { BreakerTerms } from '../core/breaker.ts'
import type { Fact } from '../core/job.ts'
import type { Hint } from '../store/store.ts'
import {
  type Bench,
  CANCEL,
  type Case,
  ERROR,
  FAILED,
  LEASE_MS,
  OVERDUE,
  PATIENT,
  SUCCEEDED,
} from './cases-bench.ts'
import { ids, many, set, wakesIn } from './cases-pools.ts'

const NEVER = Number.POSITIVE_INFINITY
const BREAKER: BreakerTerms = { failures: 2, failureRate: 0, window: 20, resetMs: 1_000 }
const ILL: Fact = { type: 'failed', error: ERROR, retryable: true, transient: true }

/** Opens the breaker of a pool with four jobs, two of which have failed and are ready again. */
async function opened(bench: Bench): Promise<void> {
  await set(bench, { breaker: BREAKER })
  await bench.add(...many('j', 4, PATIENT))
  await bench.take(2)
  bench.clock.advance(1)
  await bench.tell('j0', ILL)
  await bench.tell('j1', ILL)
}

async function stateOf(bench: Bench): Promise<readonly unknown[]> {
  const pool = (await bench.store.count()).pools.default
  const until = pool?.breakerUntil ?? 0
  return [pool?.breakerState, until === 0 ? 0 : until - bench.clock.now()]
}

export const BREAKER_CASES: readonly Case[] = [
  {
    name: 'starts nothing while a breaker is open, and says when it lets a probe through',
    run: async (bench) => {
      const { add, clock, statuses, expect } = bench
      await opened(bench)
      await add({ id: 'other', pool: 'io' })
      expect(await stateOf(bench)).toEqual(['open', 1_000])
      expect(await ids(bench)).toEqual(['other'])
      expect(await wakesIn(bench)).toBe(1_000)
      expect(await statuses('j0', 'j2')).toEqual(['ready', 'ready'])
      clock.advance(1_000)
      expect(await stateOf(bench)).toEqual(['half-open', 0])
    },
  },
  {
    name: 'lets one probe start in the whole fleet, and goes on once it has succeeded',
    hints: true,
    run: async (bench) => {
      const { store, tell, clock, expect } = bench
      await opened(bench)
      clock.advance(1_000)
      expect(await ids(bench, 99, 'w1')).toEqual(['j2'])
      expect(await ids(bench, 99, 'w2')).toEqual([])
      expect(await wakesIn(bench)).toBe(NEVER)
      const hints: Hint[] = []
      await store.watch((hint) => hints.push(hint))
      await tell('j2', SUCCEEDED)
      expect(hints.some(({ ready }) => ready)).toBe(true)
      expect(await stateOf(bench)).toEqual(['closed', 0])
      expect((await ids(bench)).length).toBe(3)
    },
  },
  {
    name: 'opens anew when the probe fails, and only for what speaks against the downstream',
    run: async (bench) => {
      const { tell, clock, expect } = bench
      await opened(bench)
      clock.advance(1_000)
      await ids(bench)
      await tell('j2', { type: 'timedOut' })
      expect(await stateOf(bench)).toEqual(['open', 1_000])
      clock.advance(1_000)
      await ids(bench)
      await tell('j3', FAILED)
      expect(await stateOf(bench)).toEqual(['half-open', 0])
      expect((await ids(bench)).length).toBe(1)
    },
  },
  ...(
    [
      ['lost', OVERDUE],
      ['cancelled', CANCEL],
      ['handed back', { type: 'returned' }],
      ['cut off', { type: 'abandoned' }],
    ] as const
  ).map(
    ([how, fact]): Case => ({
      name: `gives the place of a probe that was ${how} to the next`,
      run: async (bench) => {
        const { tell, clock, expect } = bench
        await opened(bench)
        clock.advance(1_000)
        await ids(bench)
        clock.advance(LEASE_MS)
        await tell('j2', fact)
        expect(await stateOf(bench)).toEqual(['half-open', 0])
        expect((await ids(bench, 99, 'w2')).length).toBe(1)
      },
    }),
  ),
  {
    name: 'gives the place of a probe that its worker never heard of to the next',
    run: async (bench) => {
      const { store, clock, expect } = bench
      await opened(bench)
      clock.advance(1_000)
      await ids(bench)
      await store.extend({ holder: 'worker', held: [], leaseMs: 1, upTo: 99 }, false)
      expect(await ids(bench)).toEqual(['j2'])
      expect(await ids(bench)).toEqual([])
    },
  },
  {
    name: 'counts nothing that was started before the breaker changed its mind',
    run: async (bench) => {
      const { add, tell, clock, expect } = bench
      await set(bench, { breaker: BREAKER })
      await add(...many('j', 5, PATIENT))
      await ids(bench, 4)
      await tell('j0', ILL)
      await tell('j1', ILL)
      await tell('j2', SUCCEEDED)
      expect(await stateOf(bench)).toEqual(['open', 1_000])
      clock.advance(1_000)
      await ids(bench)
      await tell('j3', ILL)
      expect(await stateOf(bench)).toEqual(['half-open', 0])
    },
  },
  {
    name: 'begins anew with other terms, for which what runs counts nothing, and not with the same',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await opened(bench)
      await set(bench, { breaker: { ...BREAKER }, concurrency: 9 })
      expect((await stateOf(bench))[0]).toBe('open')
      await set(bench, { breaker: { ...BREAKER, failures: 1 } })
      expect(await stateOf(bench)).toEqual(['closed', 0])
      await ids(bench, 3)
      await set(bench, { breaker: false })
      await tell('j2', ILL)
      await add({ id: 'k', ...PATIENT })
      await ids(bench, 1)
      await set(bench, { breaker: { ...BREAKER, failures: 1 } })
      await tell('j3', ILL)
      await tell('k', ILL)
      expect(await stateOf(bench)).toEqual(['closed', 0])
    },
  },
  {
    name: 'opens at a share of failures, once the window is full',
    run: async (bench) => {
      const { add, tell, expect } = bench
      await set(bench, { breaker: { ...BREAKER, failures: 0, failureRate: 0.5, window: 4 } })
      await add(...many('j', 5, PATIENT))
      await ids(bench)
      for (const [id, fact] of [
        ['j0', ILL],
        ['j1', ILL],
        ['j2', SUCCEEDED],
        ['j3', SUCCEEDED],
      ] as const) {
        await tell(id, fact)
        expect((await stateOf(bench))[0]).toBe('closed')
      }
      await tell('j4', ILL)
      expect((await stateOf(bench))[0]).toBe('open')
    },
  },
]
