// Owns the long run of the crash suite: `npm run crash -- --kills 2000 --seed 7`. The test
// itself is the one of every day, with other numbers.

import { parseArgs } from 'node:util'
import { fetchLaterNode } from './later-node.mjs'
import { fail, prepare, root, run } from './prepare.mjs'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '2000' },
    seed: { type: 'string', default: '1' },
  },
})
for (const [name, value] of Object.entries(values)) {
  if (!/^[1-9]\d{0,6}$/.test(value)) fail(`--${name} takes a number from 1 on, not ${value}.`)
}

await prepare()
await fetchLaterNode()
process.chdir(root)
process.env.AX_CRASH_KILLS = values.kills
process.env.AX_CRASH_SEED = values.seed
const vitest = 'node_modules/vitest/vitest.mjs'
process.exitCode = await run(process.execPath, [vitest, 'run', 'test/stores/sqlite-crash.test.ts'])
