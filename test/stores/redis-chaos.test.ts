// Owns the promise that a prefix survives whatever becomes of its processes, of its connections
// and of its server, where that writes every call to its disk.
// AX_REDIS_CHAOS sets the number of faults, AX_REDIS_CHAOS_SEED what is drawn.

import { describe, expect, it } from 'vitest'
import type { JobEvent } from '../../src/core/job.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { KINDS, runChaos } from './chaos/campaign.ts'
import { overlapsIn } from './chaos/overlaps.ts'
import type { Entry } from './crash/ledger.ts'
import { children } from './processes.ts'

const faults = Number(process.env.AX_REDIS_CHAOS ?? 18)
const seed = Number(process.env.AX_REDIS_CHAOS_SEED ?? 1)

describeOnRedis('a server whose processes, connections and self are killed', () => {
  const processes = children('chaos', { child: 'test/stores/chaos/child.ts' })

  it.each([
    ['by its address', false],
    ['as the node of a cluster', true],
  ])(
    `loses nothing, repeats no success and exceeds no cap, reached %s, after ${faults} faults`,
    { timeout: 120_000 + faults * 10_000 },
    async (_, isCluster) => {
      const toll = await runChaos(processes, { faults, seed, isCluster })
      const { jobs, bodies, lost, late } = toll
      const struck = [...toll.faults].map(([kind, count]) => `${count} ${kind}`).join(', ')
      console.log(
        `seed ${seed}: ${struck}; ${jobs} jobs, ${bodies} bodies, ${lost} lost, ${late} too late`,
      )
      const counts = [...toll.faults.values()]
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(faults)
      for (const kind of KINDS) expect(toll.faults.get(kind), kind).toBeGreaterThan(0)
      expect(lost).toBeGreaterThan(0)
    },
  )
})

describe('the account of attempts', () => {
  const lost = [{ job: 'a', event: 'job:lost', attempt: 1 } as JobEvent]
  const one: Entry = ['start', 'a', '1', 'key']
  const two: Entry = ['start', 'a', '2', 'key']
  const over: Entry = ['end', 'a', '1']

  it('finds attempts that run at a time, where none was lost', () => {
    const faults = ['attempts 1 and 2 of a run at a time, and none was lost']
    expect(overlapsIn([one, two, over], [])).toEqual({ faults, late: 0 })
    expect(overlapsIn([one, over, two], [])).toEqual({ faults: [], late: 0 })
    expect(overlapsIn([one, ['start', 'b', '2', 'key']], []).faults).toEqual([])
  })

  it('counts the bodies that ended after they had been lost', () => {
    expect(overlapsIn([one, two, over], lost)).toEqual({ faults: [], late: 1 })
    expect(overlapsIn([one, two], lost)).toEqual({ faults: [], late: 0 })
  })
})
