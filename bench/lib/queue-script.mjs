// Owns a comparison of durable queues from its arguments to its exit code.
// May never know what is compared, nor on which store.

import { loadavg } from 'node:os'
import { Checks } from './checks.mjs'
import { readOptions } from './options.mjs'
import { print, printMachine } from './report.mjs'

/**
 * `head` stands above the cells, `foot` below them. `ready` is called with those who can be
 * measured, before the first cell; what it gives belongs to every trial.
 *
 * @template {object} More
 * @param {{
 *   script: string,
 *   jobs: number,
 *   cells: Record<string, {
 *     about: string,
 *     run: (trial: import('./queue-turns.mjs').Trial & More) => Promise<void>,
 *   }>,
 *   contenders: Record<string, unknown>,
 *   comparison: import('./queue-turns.mjs').Comparison,
 *   head: () => readonly string[],
 *   foot: readonly string[],
 *   ready: (present: readonly string[]) => Promise<More>,
 * }} about
 */
export async function compare({ script, jobs, cells, contenders, comparison, ...texts }) {
  const options = readOptions({
    jobs,
    starts: 300,
    repeats: 5,
    only: /** @type {readonly string[]} */ (Object.keys(contenders)),
    cells: /** @type {readonly string[]} */ (Object.keys(cells)),
  })
  const { only, cells: wanted, ...sizes } = options
  printMachine()
  print(texts.head().join(', '))
  const checks = new Checks()
  for (const name of only) {
    checks.expect(name in contenders, () => {
      return `There is no contender '${name}': ${Object.keys(contenders)}.`
    })
  }
  for (const name of wanted) {
    checks.expect(name in cells, () => `There is no cell '${name}': ${Object.keys(cells)}.`)
  }
  if (checks.faults.length === 0) {
    const absent = await comparison.findAbsent(only)
    const more = await texts.ready(only.filter((name) => !absent.has(name)))
    for (const name of wanted) {
      print(`\n${name}: ${cells[name]?.about}`)
      await cells[name]?.run({ ...sizes, ...more, only, script, absent, checks })
    }
    const load = loadavg().map((value) => value.toFixed(2))
    print('')
    for (const line of texts.foot) print(line)
    print(`Load at the end ${load.join(' ')}.`)
  }
  checks.conclude()
}
