// Owns that docs/toolkit.md is true: its code compiles under strict types and prints what the
// page says, its commands print what it shows, and its table of codes is the one of the code.
// May never run the code of the page inside this process, or reach for the network.

import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../scripts/prepare.mjs'
import { ERROR_CODES } from '../src/core/errors.ts'
import {
  commandsOf,
  openWorkshop,
  PATIENCE_MS,
  type Program,
  programsOf,
  promisedBy,
  readPage,
  run,
} from './pages.ts'
import { readSources, root, withoutComments } from './sources.ts'

const page = readPage('toolkit.md')
const programs = programsOf(page)
const workshop = openWorkshop([join('api-calls', 'main.mjs')])

beforeAll(prepare, 120_000)
afterAll(() => workshop.remove())

describe('the code of docs/toolkit.md', { timeout: PATIENCE_MS }, () => {
  // First, while nothing good lies in the folder: what cannot compile is found.
  it('would not compile with a wrong option', async () => {
    const wrong = programs.map(({ title, code }) => ({
      title,
      code: code.replace('graceMs: 5', 'graceMS: 5'),
    }))
    expect(await workshop.compile(wrong)).toContain("'graceMS' does not exist")
  })

  it('compiles under strict types, like the example', async () => {
    expect(await workshop.compile(programs)).toBe('')
  })

  it.each(programs.map(({ title }, index) => [title, index] as const))(
    '%s: prints what it says',
    async (_, index) => {
      const program = programs[index] as Program
      const promised = promisedBy(program.code)
      expect(promised).not.toBe('')
      expect(await workshop.output(index)).toBe(promised)
    },
  )
})

describe('the example', { timeout: PATIENCE_MS }, () => {
  const commands = commandsOf(page)

  it('is shown on the page', () => {
    expect(commands).toHaveLength(4)
  })

  it.each(commands)('$command: prints what the page shows', async ({ command, shown }) => {
    const { stdout } = await run(process.execPath, command.split(' ').slice(2), { cwd: root })
    expect(`${command}\n${stdout}`).toBe(shown)
  })

  it('prints the figures in full, and names the settings if there is no such one', async () => {
    const main = join(root, 'examples', 'api-calls', 'main.mjs')
    const { stdout } = await run(process.execPath, [main, 'stopped', '--stats'])
    expect(stdout).toMatch(/codes: \{[^}]*BREAKER_OPEN: \d+/)
    const wrong = await run(process.execPath, [main, 'rihgt']).catch((failed) => failed)
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("'rihgt'")])
  })
})

describe('the table of codes', () => {
  const rows = new Map(
    [...page.matchAll(/^\| `([A-Z_]+)` \| (yes|no) \|/gm)].map((row) => [row[1], row[2] === 'yes']),
  )

  it('says of each whether to try again as ERROR_CODES does', () => {
    const codes = Object.entries(ERROR_CODES).filter(([code]) => rows.has(code))
    expect(new Map(codes)).toEqual(rows)
  })

  it('has every code that the toolkit gives', () => {
    const given = new Set<string>()
    for (const [path, text] of readSources()) {
      if (!path.startsWith('kit/')) continue
      for (const [, code] of withoutComments(text).matchAll(/AxError\(\s*'([A-Z_]+)'/g)) {
        given.add(code as string)
      }
    }
    expect(given.size).toBeGreaterThan(5)
    expect([...given].filter((code) => !rows.has(code))).toEqual([])
  })
})
