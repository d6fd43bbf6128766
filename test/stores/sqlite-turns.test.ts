// Owns the proof that calls which share a transaction answer as if they came one after the other:
// histories of turns beside the model, in which jobs start that were added in the same turn.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { rateTerms } from '../../src/core/gcra.ts'
import type { Fact, NewJob } from '../../src/core/job.ts'
import type { PoolTermsChange } from '../../src/core/settings.ts'
import type { Store } from '../../src/store/store.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type Command, newJob, numbersFrom, START } from '../../src/testing/history-commands.ts'
import { dumpOf, follow, manualClock, sideOf, tryTo } from '../../src/testing/history-side.ts'
import { modelStore, type Peeked } from '../../src/testing/model.ts'
import { hooks, unhook } from './driver-hooks.ts'
import { illsOf } from './reading.ts'

vi.mock('../../src/stores/sqlite/driver.ts', async (original) => {
  const { hooked } = await import('./driver-hooks.ts')
  return hooked(await original<typeof import('../../src/stores/sqlite/driver.ts')>())
})

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-turns-'))
/** Jobs that were written as running ones, and never as ready ones. */
let atOnce = 0

hooks.before = (sql) => {
  if (/^INSERT INTO live \([^)]*\blease\b/.test(sql)) atOnce += 1
}

afterAll(() => {
  unhook()
  rmSync(folder, { recursive: true, force: true })
})

const KEEP = { successMs: 400, failedMs: 900, cancelledMs: 900, outcomesMs: 300, logMs: 2_000 }
const TURNS = 200
const SEEDS = Number(process.env.AX_TURN_SEEDS ?? 16)
/** Workers that serve other types know nothing of each other's. */
const BOTH = ['alpha', 'beta']
const SERVED = [BOTH, BOTH, BOTH, BOTH, BOTH, BOTH, ['alpha'], ['beta']]

const POOLS = ['default', 'default', 'other']
const OPEN: PoolTermsChange = {
  concurrency: 60,
  perWorker: null,
  rate: null,
  preempt: null,
  breaker: null,
  paused: false,
  maxQueue: Number.POSITIVE_INFINITY,
}

type Draw = () => number

/** Draws turns: commands for one transaction, in the order in which the store serves them. */
function turnsFrom(random: Draw): (jobs: readonly Peeked[]) => readonly Command[] {
  const below = (most: number) => Math.floor(random() * most)
  const one = <T>(list: readonly T[]): T => list[below(list.length)] as T
  const may = (share: number) => random() < share
  let made = 0
  let opened = 0
  const oddOf = (jobs: readonly Peeked[]): Partial<NewJob> =>
    one<() => Partial<NewJob>>([
      () => ({ priority: one([40, 60]) }),
      () => ({ priority: one([40, 60]) }),
      () => ({ key: `k${below(3)}`, minted: may(0.5) }),
      () => ({ exclusive: `lane${below(2)}` }),
      () => ({ delayMs: one([0, 0, 5, 40]) }),
      () => ({ enqueueTimeoutMs: 60 }),
      () => ({ pool: 'other' }),
      () =>
        jobs.length === 0 ? {} : { deps: [{ id: one(jobs).id, on: one(['success', 'end']) }] },
    ])()
  const insert = (jobs: readonly Peeked[]): Command => {
    const groups = Array.from({ length: one([1, 1, 2, 2, 5]) }, () => {
      made += 1
      const id = jobs.length > 0 && may(0.02) ? one(jobs).id : `j${made}`
      const over = { type: one(['alpha', 'alpha', 'beta']), ...(may(0.3) ? oddOf(jobs) : {}) }
      return { jobs: [newJob(id, over)], unknownDeps: 'wait' as const }
    })
    return { do: 'insert', groups }
  }
  const lease = (): Command => {
    const [max, leaseMs] = [one([1, 100, 100, 100, 100]), one([50, 500])]
    return { do: 'lease', holder: one(['a', 'a', 'b']), leaseMs, max, types: one(SERVED) }
  }
  const apply = (jobs: readonly Peeked[]): Command => {
    const running = jobs.filter(({ status }) => status === 'running' && may(0.7))
    // So few are decided before the transaction of the turn begins.
    const moves = running.slice(0, 3).map(({ id }) => {
      const fact = one<Fact>([
        { type: 'succeeded', result: undefined },
        { type: 'succeeded', result: '"r"' },
        { type: 'failed', error: { name: 'E', message: 'm', code: 'C' }, retryable: may(0.8) },
        { type: 'cancel' },
      ])
      return { id, fact, view: 'last lease' as const }
    })
    return { do: 'apply', moves, keep: KEEP }
  }
  const alone = (jobs: readonly Peeked[]): Command => {
    const draw = random()
    if (draw < 0.5) return { do: 'clock', ms: one([1, 7, 7, 60, 300]) }
    if (draw < 0.6) return { do: 'overdue', limit: 50, keepLogMs: KEEP.logMs }
    if (draw < 0.7) return { do: 'keep', keep: KEEP }
    if (draw < 0.8 && jobs.length > 0) {
      const fact = { type: one(['retry', 'cancel'] as const) }
      const move = { id: one(jobs).id, fact, view: 'fresh' }
      return { do: 'apply', moves: [move as never], keep: KEEP }
    }
    if (draw < 0.9) {
      const closed = one<PoolTermsChange>([
        { concurrency: one([1, 3]) },
        { perWorker: 1 },
        { rate: rateTerms(5, 100) },
        { preempt: { minPriority: 60, minGap: 5, minRunMs: 0 } },
        { breaker: { failures: 2, failureRate: 1, window: 9, resetMs: 50 } },
        { paused: true },
        { maxQueue: 3 },
      ])
      const change = { pool: one(POOLS), by: 'operator', terms: may(0.85) ? OPEN : closed } as const
      return { do: 'configure', change }
    }
    const setting = { concurrency: one([1, null, null, null]) }
    if (draw < 0.95) return { do: 'configure', change: { type: 'beta', setting } as never }
    return { do: 'settings' }
  }
  return (jobs) => {
    const pool = POOLS[opened]
    opened += 1
    if (pool !== undefined) return [{ do: 'configure', change: { pool, by: 'start', terms: OPEN } }]
    if (may(0.35)) return [alone(jobs)]
    const turn = [insert(jobs), apply(jobs), lease(), lease()]
    return turn.filter(() => may(0.7))
  }
}

/** What a history leaves behind as it breaks off. */
const EXPECTED = /^doctor finds (?!damage)/

async function faultIn(seed: number, processes: number): Promise<unknown> {
  const random = numbersFrom(seed)
  const clock = manualClock(START)
  const model = modelStore({ now: clock.now })
  const file = join(folder, `${processes}-${seed}.db`)
  const stores = Array.from({ length: processes }, () => {
    return sqliteStore(file, { now: () => clock.now() })
  })
  for (const store of stores) await store.open()
  const next = turnsFrom(random)
  const right = sideOf(model)
  // One memory of what was leased, whichever process it was.
  const left = { ...sideOf(stores[0] as Store) }
  try {
    for (let number = 0; number < TURNS; number += 1) {
      const turn = next(model.peek())
      left.store = stores[Math.floor(random() * processes)] as Store
      const expected: unknown[] = []
      for (const command of turn) {
        if (command.do === 'clock') clock.advance(command.ms)
        expected.push(await follow(right, command, clock))
      }
      const actual = await Promise.all(turn.map((command) => tryTo(left, command, clock)))
      if (!isDeepStrictEqual(expected, actual)) return { seed, number, turn, expected, actual }
      if (number % 10 !== 9) continue
      const [all, found] = [await dumpOf(right), await dumpOf(left)]
      if (!isDeepStrictEqual(all, found)) return { seed, number, all, found }
    }
    return (await illsOf(stores[0] as Store, file)).filter((ill) => !EXPECTED.test(ill))
  } finally {
    for (const store of stores) await store.close()
  }
}

describe('calls that share a transaction', () => {
  it.each(Array.from({ length: SEEDS }, (_, at) => at + 1))(
    'answer as if they came one by one in history %i',
    async (seed) => {
      const fault = await faultIn(seed, seed % 3 === 0 ? 2 : 1)
      expect(fault).toEqual([])
    },
    60_000,
  )

  it('have written who starts as it is added once, and as it runs', () => {
    expect(atOnce).toBeGreaterThan(30)
  })
})
