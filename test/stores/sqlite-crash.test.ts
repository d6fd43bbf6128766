// Owns the promise that a file survives the death of any process at any moment.
// AX_CRASH_KILLS sets the number of kills, AX_CRASH_SEED what is drawn: see scripts/crash.mjs.

import { describe, expect, it } from 'vitest'
import { laterNode } from '../../scripts/later-node.mjs'
import { runCampaign, tableOf } from './crash/campaign.ts'
import { POINTS } from './crash/faults.ts'
import { children } from './processes.ts'

const kills = Number(process.env.AX_CRASH_KILLS ?? 200)
const seed = Number(process.env.AX_CRASH_SEED ?? 1)

const processes = children('crash', { child: 'test/stores/crash/child.ts' })

describe('a file whose processes are killed', () => {
  it(
    `loses nothing and repeats no success, after any of ${kills} kills`,
    async () => {
      const nodes = [...new Set([process.execPath, laterNode() ?? process.execPath])]
      const toll = await runCampaign(processes, { kills, seed, nodes, abreast: 2 })
      console.log(tableOf(toll))
      const counts = [...toll.kills.values()]
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(kills)
      const least = Math.floor(kills / 2 / POINTS.length)
      for (const point of POINTS) expect(toll.kills.get(point), point).toBeGreaterThanOrEqual(least)
    },
    60_000 + kills * 3_000,
  )
})
