// Owns what becomes of the tests of Redis where no server is installed: who installs one, and that
// none of them passes without. May never install anything.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { REMEDY, whatToDo } from '../../scripts/redis-server.mjs'
import { root } from '../sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-suites-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const server = '/usr/bin/redis-server'
const aptGet = '/usr/bin/apt-get'

describe('a Redis server', () => {
  it.each([
    ['a server', { server, userId: 0, aptGet }],
    ['a server, for whoever may not install', { server, userId: 1000, aptGet: undefined }],
  ])('is left alone where there is %s', (_, machine) => {
    expect(whatToDo(machine)).toBe('present')
  })

  it('is installed by root where there is apt-get', () => {
    expect(whatToDo({ server: undefined, userId: 0, aptGet })).toBe('install')
  })

  it.each([
    ['who runs this is not root', { userId: 1000, aptGet }],
    ['there is no apt-get', { userId: 0, aptGet: undefined }],
    ['nobody has a number', { userId: undefined, aptGet }],
  ])('is asked for where %s', (_, machine) => {
    expect(whatToDo({ server: undefined, ...machine })).toBe('tell')
  })
})

/** Files all of whose tests need one. */
const FILES = [
  ...['servers/redis', 'servers/cluster', 'stores/redis-cluster', 'stores/redis-ends'],
  ...['stores/redis-outage', 'stores/redis-engine-4'],
].map((file) => `test/${file}.test.ts`)

describe('tests that need one', () => {
  it('are skipped where there is none, and say what to do', { timeout: 60_000 }, () => {
    const file = join(folder, 'results.json')
    const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
    const args = [vitest, 'run', '--reporter=json', `--outputFile=${file}`]
    const kept = Object.entries(process.env).filter(
      ([name]) => !/^(VITEST|TEST$|DEV$|PROD$|MODE$|PATH$|AX_REDIS_SERVER$)/.test(name),
    )
    const { status, stderr } = spawnSync(process.execPath, [...args, ...FILES], {
      cwd: root,
      env: { ...Object.fromEntries(kept), PATH: folder },
      encoding: 'utf8',
    })
    expect(status, stderr).toBe(0)
    const results = JSON.parse(readFileSync(file, 'utf8'))
    expect(results).toMatchObject({ numFailedTests: 0, numPassedTests: 0 })
    expect(results.numPendingTests).toBeGreaterThan(10)
    const names = results.testResults.flatMap(
      (each: { assertionResults: { ancestorTitles: string[] }[] }) =>
        each.assertionResults.map(({ ancestorTitles }) => ancestorTitles.join(' ')),
    )
    for (const name of names) expect(name).toContain(`(needs redis-server: ${REMEDY})`)
  })
})
