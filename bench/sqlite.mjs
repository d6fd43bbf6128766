// Owns the comparison on one SQLite file with queues that keep their jobs in one, and with a floor:
// bare rows. May never hold one contender to a check that another is spared.

import { loadavg } from 'node:os'
import { Checks } from './lib/checks.mjs'
import { answer, assignment } from './lib/fresh.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine } from './lib/report.mjs'
import { CELLS } from './lib/sqlite-cells.mjs'
import { CONTENDERS, versions } from './lib/sqlite-contenders.mjs'
import { driver } from './lib/sqlite-driver.mjs'
import { measureOne } from './lib/sqlite-measure.mjs'
import { findAbsent } from './lib/sqlite-turns.mjs'

const task = /** @type {Parameters<typeof measureOne>[0] | undefined} */ (assignment())
if (task === undefined) await main()
else {
  answer(await measureOne(task))
  // Some peers leave timers behind, one for each job.
  process.stdout.write('', () => process.exit())
}

async function main() {
  const { cells, only, ...sizes } = readOptions({
    jobs: 20_000,
    starts: 300,
    repeats: 5,
    only: /** @type {readonly string[]} */ (Object.keys(CONTENDERS)),
    cells: /** @type {readonly string[]} */ (Object.keys(CELLS)),
  })
  printMachine()
  print([`driver ${driver}`, ...versions()].join(', '))
  const checks = new Checks()
  for (const name of only) {
    checks.expect(name in CONTENDERS, () => {
      return `There is no contender '${name}': ${Object.keys(CONTENDERS)}.`
    })
  }
  for (const name of cells) {
    checks.expect(name in CELLS, () => `There is no cell '${name}': ${Object.keys(CELLS)}.`)
  }
  if (checks.faults.length === 0) {
    const trial = {
      ...sizes,
      only,
      script: import.meta.url,
      absent: await findAbsent(only),
      checks,
    }
    for (const name of cells) {
      print(`\n${name}: ${CELLS[name]?.about}`)
      await CELLS[name]?.run(trial)
    }
    const load = loadavg().map((value) => value.toFixed(2))
    print('\nMedians of fresh processes that took turns; ratios are those of the medians. Targets')
    print('are judged by rate. ax keeps a log, counts and attempts beside each job.')
    print(`Load at the end ${load.join(' ')}.`)
  }
  checks.conclude()
}
