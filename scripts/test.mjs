// Owns the whole check of this package: formatting and lint, types, tests, and one honest line
// at the end. May never hide a failure: whatever went wrong is counted and is in the exit code.
// Arguments are passed on to vitest.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fetchLaterNode } from './later-node.mjs'
import { collect, prepare, root, run, say } from './prepare.mjs'
import { installRedisServer } from './redis-server.mjs'

const bin = (/** @type {string[]} */ ...path) => join(root, 'node_modules', ...path)
const biome = bin('@biomejs', 'biome', 'bin', 'biome')
const tsc = bin('typescript', 'bin', 'tsc')
const vitest = bin('vitest', 'vitest.mjs')

await prepare()
await fetchLaterNode()
await installRedisServer()
const checks = [
  await check('Formatting and lint', [biome, 'check', '--error-on-warnings', '.']),
  await check('Types', [tsc, '--noEmit', '-p', root]),
]
const tests = await test(process.argv.slice(2))
process.exitCode = report(checks.filter((passed) => !passed).length, tests)

/**
 * @param {string} name
 * @param {string[]} args
 * @returns {Promise<boolean>} whether it passed; its output is worth reading only if not
 */
async function check(name, args) {
  const { code, output } = await collect(process.execPath, args)
  say(code === 0 ? `${name}: fine` : `${output}\n${name}: failed`)
  return code === 0
}

/**
 * @typedef {{ code: number, passed: number, failed: number, skipped: number }} Counts
 *
 * @param {string[]} args
 * @returns {Promise<Counts>}
 */
async function test(args) {
  const folder = mkdtempSync(join(tmpdir(), 'ax-test-'))
  const file = join(folder, 'results.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
  try {
    const code = await run(process.execPath, [vitest, 'run', ...reporters, ...args])
    return { code, ...count(file) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Counts single tests, and as one failure each file that failed without running any of its tests.
 *
 * @param {string} file
 */
function count(file) {
  const results = readResults(file)
  if (results === undefined) return { passed: 0, failed: 0, skipped: 0 }
  const broken = results.testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && assertionResults.every((one) => one.status !== 'failed'),
  )
  return {
    passed: results.numPassedTests,
    failed: results.numFailedTests + broken.length,
    skipped: results.numPendingTests + results.numTodoTests,
  }
}

/**
 * @typedef {{ status: string, assertionResults: { status: string }[] }} FileResult
 * @typedef {{
 *   numPassedTests: number, numFailedTests: number, numPendingTests: number,
 *   numTodoTests: number, testResults: FileResult[],
 * }} Results
 *
 * @param {string} file
 * @returns {Results | undefined} undefined when vitest ended before it wrote any
 */
function readResults(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * Prints the closing line and gives the exit code. A failed check counts as one failure; so does
 * an error that vitest saw outside any test. On a CI machine nothing may be skipped.
 *
 * @param {number} failedChecks
 * @param {Counts} tests
 */
function report(failedChecks, tests) {
  const outsideTests = tests.code !== 0 && tests.failed === 0 ? 1 : 0
  const failed = failedChecks + tests.failed + outsideTests
  const forbidden = process.env.CI ? tests.skipped : 0
  if (forbidden > 0) say('A skipped test is a failure here, because CI is set.')
  const skipped = tests.skipped > forbidden ? `, ${tests.skipped} skipped` : ''
  process.stdout.write(`${tests.passed} passed, ${failed + forbidden} failed${skipped}\n`)
  return failed + forbidden === 0 ? 0 : tests.code || 1
}
