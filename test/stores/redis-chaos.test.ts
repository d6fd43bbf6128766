// Owns the promise that a prefix survives whatever becomes of its processes, of its connections
// and of its server, where that writes every call to its disk.
// AX_REDIS_CHAOS sets the number of faults, AX_REDIS_CHAOS_SEED what is drawn.

import { expect, it } from 'vitest'
import { describeOnRedis } from '../servers/suites.ts'
import { KINDS, runChaos } from './chaos/campaign.ts'
import { children } from './processes.ts'

const faults = Number(process.env.AX_REDIS_CHAOS ?? 24)
const seed = Number(process.env.AX_REDIS_CHAOS_SEED ?? 1)

describeOnRedis('a server whose processes, connections and self are killed', () => {
  const processes = children('chaos', { child: 'test/stores/chaos/child.ts' })

  it(
    `loses nothing, repeats no success and exceeds no cap, after ${faults} faults`,
    async () => {
      const toll = await runChaos(processes, faults, seed)
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
    120_000 + faults * 10_000,
  )
})
