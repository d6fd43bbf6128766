// Owns the promise that the SQLite store keeps the promises of the port on node:sqlite too: the
// same suite, with the same histories, under the later Node.js.

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { laterNode, REMEDY } from '../../scripts/later-node.mjs'
import { root } from '../sources.ts'

const SUITES = ['sqlite', 'sqlite-files'].map((name) => `test/stores/${name}.test.ts`)

const folder = mkdtempSync(join(tmpdir(), 'ax-later-node-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Outcome {
  readonly code: number | null
  readonly output: string
}

function run(node: string, args: readonly string[]): Promise<Outcome> {
  // What vitest tells its own children would confuse the one that is started here.
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(VITEST|TEST$|DEV$|PROD$|MODE$)/.test(name),
  )
  const child = spawn(node, args, { cwd: root, env: Object.fromEntries(kept) })
  let output = ''
  const hear = (chunk: Buffer) => {
    output += chunk
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  return new Promise((done, fail) => {
    child.on('error', fail)
    child.on('close', (code) => done({ code, output }))
  })
}

describe('the SQLite store on Node 24', () => {
  it('passes the whole suite', { timeout: 300_000 }, async ({ skip }) => {
    const node = laterNode()
    if (node === undefined) return skip(`It needs Node 24: ${REMEDY}.`)
    const has = await run(node, ['-e', "require('node:sqlite')"])
    expect(has.code, has.output).toBe(0)
    const file = join(folder, 'results.json')
    const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
    const { code, output } = await run(node, [vitest, 'run', ...reporters, ...SUITES])
    expect(code, output).toBe(0)
    const results = JSON.parse(readFileSync(file, 'utf8'))
    expect(results).toMatchObject({ numFailedTests: 0, numPendingTests: 0 })
    expect(results.numPassedTests).toBeGreaterThan(150)
    console.log(`${results.numPassedTests} tests passed on ${node}`)
  })
})
