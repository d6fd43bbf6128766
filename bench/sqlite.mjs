// Owns the comparison on one SQLite file with queues that keep their jobs in one, and with a floor:
// bare rows. May never hold one contender to a check that another is spared.

import { answer, assignment } from './lib/fresh.mjs'
import { versionsOf } from './lib/packages.mjs'
import { compare } from './lib/queue-script.mjs'
import { CELLS } from './lib/sqlite-cells.mjs'
import { CONTENDERS } from './lib/sqlite-contenders.mjs'
import { driver } from './lib/sqlite-driver.mjs'
import { measureOne } from './lib/sqlite-measure.mjs'
import { comparison } from './lib/sqlite-turns.mjs'

const task = /** @type {Parameters<typeof measureOne>[0] | undefined} */ (assignment())
if (task === undefined) await main()
else {
  answer(await measureOne(task))
  // Some peers leave timers behind, one for each job.
  process.stdout.write('', () => process.exit())
}

async function main() {
  await compare({
    script: import.meta.url,
    jobs: 20_000,
    cells: CELLS,
    contenders: CONTENDERS,
    comparison,
    head: () => [`driver ${driver}`, ...versionsOf(CONTENDERS)],
    foot: [
      'Medians of fresh processes that took turns; ratios are those of the medians. Targets',
      'are judged by rate. ax keeps a log, counts and attempts beside each job.',
    ],
    ready: async () => ({}),
  })
}
