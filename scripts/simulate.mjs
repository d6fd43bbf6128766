// Owns the way from the sources to the simulator's command. May never know what a simulation is.

import { join } from 'node:path'
import { prepare, root, run } from './prepare.mjs'

const simulator = join(root, 'dist', 'testing', 'cli.js')

await prepare()
process.exitCode = await run(process.execPath, [simulator, ...process.argv.slice(2)])
