// Owns the first minute of a newcomer: from a fresh clone to a flow that runs. May never hold
// anything the command itself should do.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { prepare, root, run } from './prepare.mjs'

const command = join(root, 'dist', 'cli', 'main.js')
const flow = 'examples/weekly-report/flow.yaml'

await prepare()
// A store of its own: each time the whole flow is shown, and nothing is left behind.
const folder = mkdtempSync(join(tmpdir(), 'ax-start-'))
const store = process.argv.includes('--store') ? [] : ['--store', join(folder, 'ax.db')]
try {
  const args = [command, 'run', flow, ...store, ...process.argv.slice(2)]
  process.exitCode = await run(process.execPath, args)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
