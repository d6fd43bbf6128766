// Owns the first minute of a newcomer: from a fresh clone to a flow that runs. May never hold
// anything the command itself should do.

import { join } from 'node:path'
import { prepare, root, run } from './prepare.mjs'

const command = join(root, 'dist', 'cli', 'main.js')
const flow = 'examples/weekly-report/flow.yaml'

await prepare()
process.exitCode = await run(process.execPath, [command, 'run', flow, ...process.argv.slice(2)])
