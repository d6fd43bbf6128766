// Owns the comparison on one Redis server with queues that keep their jobs in one, and with a floor:
// two scripts. May never hold one contender to a check that another is spared.

import { REMEDY, redisServer } from '../scripts/redis-server.mjs'
import { answer, assignment } from './lib/fresh.mjs'
import { versionsOf } from './lib/packages.mjs'
import { compare } from './lib/queue-script.mjs'
import { CELLS } from './lib/redis-cells.mjs'
import { CONTENDERS } from './lib/redis-contenders.mjs'
import { measureOne } from './lib/redis-measure.mjs'
import { startServer } from './lib/redis-server.mjs'
import { comparison } from './lib/redis-turns.mjs'
import { print } from './lib/report.mjs'

const task = /** @type {Parameters<typeof measureOne>[0] | undefined} */ (assignment())
if (task === undefined) await main()
else {
  answer(await measureOne(task))
  // Some peers leave connections and timers behind.
  process.stdout.write('', () => process.exit())
}

async function main() {
  const program = redisServer()
  if (program === undefined) {
    print(`There is no redis-server here, so nothing was measured: ${REMEDY}.`)
    process.exitCode = 1
    return
  }
  await compare({
    script: import.meta.url,
    jobs: 100_000,
    cells: CELLS,
    contenders: CONTENDERS,
    comparison,
    head: () => [
      'one Redis server on loopback that writes nothing to the disk',
      ...versionsOf(CONTENDERS),
    ],
    foot: [
      'Medians of fresh processes that took turns; ratios are those of the medians. Targets are',
      'judged by rate. The peers remove each job that has ended; ax keeps it, with its attempts, a',
      'log and counts. cpu is that of the client, redis that of the server; cmds are those that the',
      'server carried out, those within scripts too.',
    ],
    ready: async () => ({ url: await startServer(program) }),
  })
}
