// Owns the promises about several processes at work on one prefix: caps over all of them at every
// commit, rates, lanes, keys, pauses, one success for each job. The verdict has its own tests.

import { join } from 'node:path'
import { it } from 'vitest'
import { startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { runFleet } from './fleets/fleet.ts'
import { children } from './processes.ts'
import { findingsOf } from './reading.ts'

describeOnRedis(
  'processes on one server keep all caps, lanes, keys and pauses between them',
  () => {
    const processes = children('fleet', { child: 'test/stores/fleets/child.ts' })

    it('a fleet', { timeout: 120_000 }, async () => {
      const { url } = await startRedis()
      await runFleet({
        processes,
        place: url,
        journal: join(processes.data, 'journal.txt'),
        nodes: [process.execPath],
        illsOf: findingsOf,
      })
    })
  },
)
