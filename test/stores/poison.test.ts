// Owns the promise that one job that kills its workers does not take its neighbours along.
// May never tell the store which job that is.

import { describe, expect, it } from 'vitest'
import type { Fact, StoredJob } from '../../src/core/job.ts'
import type { Keep } from '../../src/core/machine.ts'
import { memoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import {
  type Bench,
  type Case,
  KEEP,
  PATIENT,
  runCase,
  type Sketch,
  SUCCEEDED,
} from '../../src/testing/cases-bench.ts'
import { numbersFrom } from '../../src/testing/history-commands.ts'
import { modelStore } from '../../src/testing/model.ts'

const NEIGHBOURS = 12
const STEP_MS = 4_000
const RETURNED: Fact = { type: 'returned' }

/** Given up with the third loss: the smallest allowance for which it is promised. */
const HEALTHY: Omit<Sketch, 'id'> = { terms: { ...PATIENT.terms, maxLost: 2 } }

interface Left {
  /** Everything but the poison. */
  readonly neighbours: readonly StoredJob[]
  readonly poison: StoredJob
}

/** Workers come, take what they get, and die if the poison is in it; until all has ended. */
function story(seed: number, onEnd: (left: Left) => void): Case {
  const random = numbersFrom(seed)
  const below = (count: number) => Math.floor(random() * count)
  return {
    name: `story ${seed}`,
    run: async (bench) => {
      const ids = Array.from({ length: NEIGHBOURS }, (_, index) => `n${index}`)
      const jobs = ids.map((id) => ({ id, ...HEALTHY, priority: 49 + below(3) }))
      jobs.splice(below(NEIGHBOURS), 0, { id: 'poison', ...PATIENT, priority: 50 })
      await bench.add(...jobs)
      for (let step = 0; step < 2_000 && (await areLeft(bench, ids)); step += 1) {
        const holder = `w${below(3)}-${await deaths(bench)}`
        await bench.take(1 + below(8), holder)
        for (const id of ids) {
          const job = await bench.job(id)
          if (job.status !== 'running' || (await isDead(bench, job))) continue
          if (random() < 0.2) await bench.tell(id, random() < 0.8 ? SUCCEEDED : RETURNED, KEPT)
          else await prolong(bench.store, job)
        }
        bench.clock.advance(STEP_MS)
        await bench.tidy(KEPT)
      }
      const neighbours = await Promise.all(ids.map((id) => bench.job(id)))
      onEnd({ neighbours, poison: await bench.job('poison') })
    },
  }
}

/** Longer than any story. */
const LONG_MS = 1e12

const KEPT: Keep = { ...KEEP, successMs: LONG_MS, failedMs: LONG_MS, logMs: LONG_MS }

async function areLeft({ statuses }: Bench, ids: readonly string[]): Promise<boolean> {
  const all = await statuses('poison', ...ids)
  return all.some((status) => status !== 'success' && status !== 'failed')
}

/** A worker is called after the number of deaths that it has seen: none comes back from one. */
async function deaths({ job }: Bench): Promise<number> {
  return (await job('poison')).starts
}

/** A body of the poison has begun in the worker that has this job, since that took it. */
async function isDead({ job }: Bench, { lease }: StoredJob): Promise<boolean> {
  return (await job('poison')).log.some(({ worker }) => worker === lease?.holder)
}

async function prolong(store: Store, { id, lease }: StoredJob): Promise<void> {
  const held = [{ id, lease: lease?.number ?? 0 }]
  await store.extend({ holder: lease?.holder ?? '', held, leaseMs: 10_000, upTo: 0 }, false)
}

async function told(seed: number, open: (now: () => number) => Store): Promise<Left> {
  let left: Left | undefined
  const each = story(seed, (found) => {
    left = found
  })
  await runCase(each, async (clock) => open(() => clock.now()), expect)
  return left as Left
}

describe('a job that kills every worker that takes it', () => {
  it('costs no neighbour more than two losses, and none its life', async () => {
    let most = 0
    for (let seed = 1; seed <= 60; seed += 1) {
      const { neighbours, poison } = await told(seed, (now) => memoryStore({ now }))
      const lost = neighbours.map((job) => job.lost)
      expect(poison).toMatchObject({ status: 'failed', code: 'LOST', lost: 10 })
      expect(new Set(neighbours.map(({ status }) => status))).toEqual(new Set(['success']))
      most = Math.max(most, ...lost)
    }
    expect(most).toBe(2)
  })

  it('would take some along if workers took suspects together', async () => {
    const rules = { isSuspect: () => false }
    let dead = 0
    for (let seed = 1; seed <= 10; seed += 1) {
      const { neighbours } = await told(seed, (now) => modelStore({ now, rules }))
      dead += neighbours.filter(({ code }) => code === 'LOST').length
    }
    expect(dead).toBeGreaterThan(0)
  })
})
