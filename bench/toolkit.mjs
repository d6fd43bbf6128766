// Owns the comparison of the toolkit with the libraries that limit concurrency in one process.
// May never hold one contender to a check that another is spared.

import { loadavg } from 'node:os'
import { Checks } from './lib/checks.mjs'
import { answer, assignment } from './lib/fresh.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine } from './lib/report.mjs'
import { CELLS } from './lib/toolkit-cells.mjs'
import { versions } from './lib/toolkit-contenders.mjs'
import { measureOne } from './lib/toolkit-measure.mjs'

const task = /** @type {import('./lib/toolkit-measure.mjs').Task | undefined} */ (assignment())
if (task === undefined) await main()
else answer(await measureOne(task))

async function main() {
  const { only, repeats, divide, quick } = readOptions({
    only: /** @type {readonly string[]} */ (Object.keys(CELLS)),
    repeats: 5,
    divide: 1,
    quick: false,
  })
  printMachine()
  print(versions().join(', '))
  const checks = new Checks()
  for (const name of only) {
    checks.expect(name in CELLS, () => `There is no cell '${name}': ${Object.keys(CELLS)}.`)
  }
  if (checks.faults.length === 0) {
    const script = import.meta.url
    const trial = { script, repeats: quick ? 1 : repeats, divide: quick ? 10 * divide : divide }
    for (const name of only) {
      print(`\n${name}: ${CELLS[name]?.about}`)
      await CELLS[name]?.run({ ...trial, checks })
    }
    print('\nMedians of fresh processes that took turns; ratios are those of the medians. Targets')
    print('are judged by processor time, since others may use the machine as well.')
    print(
      `Load at the end ${loadavg()
        .map((value) => value.toFixed(2))
        .join(' ')}.`,
    )
  }
  checks.conclude()
}
