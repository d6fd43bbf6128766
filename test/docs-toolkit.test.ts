// Owns that docs/toolkit.md is true: its code compiles under strict types and prints what the
// page says, its commands print what it shows, and its table of codes is the one of the code.
// May never run the code of the page inside this process, or reach for the network.

import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../scripts/prepare.mjs'
import { ERROR_CODES } from '../src/core/errors.ts'
import { readSources, root, withoutComments } from './sources.ts'

/** What takes a second or two alone takes longer beside the other tests. */
const PATIENCE_MS = 60_000

/** Runs a program of ours; one that hangs is ended before the test is given up. */
const run = (file: string, args: readonly string[], options: { cwd?: string } = {}) =>
  promisify(execFile)(file, args, { timeout: PATIENCE_MS, ...options })

const page = readFileSync(join(root, 'docs', 'toolkit.md'), 'utf8')
const example = join('examples', 'api-calls')
const folder = mkdtempSync(join(tmpdir(), 'ax-toolkit-'))

interface Program {
  readonly title: string
  readonly code: string
}

/** One program for each section that shows code: its blocks, in order. */
function programsOf(text: string): Program[] {
  return text
    .split(/^(?=##+ )/m)
    .map((section) => ({
      title: /^#+ (.*)/.exec(section)?.[1] ?? '',
      code: blocksOf(section, 'ts').join('\n'),
    }))
    .filter(({ code }) => code !== '')
}

function blocksOf(text: string, language: string): string[] {
  const fence = new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs')
  return [...text.matchAll(fence)].map((match) => match[1] as string)
}

/** The lines that a program should print, by its own comments. */
function promisedBy(code: string): string {
  return [...code.matchAll(/\/\/ → (.*)/g)].map((match) => `${match[1]}\n`).join('')
}

/** A package `ax-scheduler` that is the build of this one, for programs in the folder. */
function installHere(): void {
  const home = join(folder, 'node_modules', 'ax-scheduler')
  mkdirSync(home, { recursive: true })
  const entries = { '.': 'index', './testing': 'testing/index' }
  const exports: Record<string, { types: string; default: string }> = {}
  for (const [name, path] of Object.entries(entries)) {
    const file = path.replace('/', '-')
    const built = JSON.stringify(join(root, 'dist', `${path}.js`).replaceAll('\\', '/'))
    writeFileSync(join(home, `${file}.d.ts`), `export * from ${built}\n`)
    const url = new URL(`../dist/${path}.js`, import.meta.url).href
    writeFileSync(join(home, `${file}.js`), `export * from '${url}'\n`)
    exports[name] = { types: `./${file}.d.ts`, default: `./${file}.js` }
  }
  const meta = { name: 'ax-scheduler', type: 'module', exports }
  writeFileSync(join(home, 'package.json'), JSON.stringify(meta))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
}

/** Compiles programs together with the example that they import; answers the complaints. */
async function compile(programs: readonly Program[]): Promise<string> {
  mkdirSync(join(folder, 'docs'), { recursive: true })
  cpSync(join(root, example), join(folder, example), { recursive: true })
  const files = programs.map(({ code }, index) => {
    const file = join('docs', `page-${index}.ts`)
    writeFileSync(join(folder, file), `${code}\nexport {}\n`)
    return file
  })
  const options = {
    target: 'ES2022',
    lib: ['ES2023', 'ESNext.Disposable'],
    module: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    allowJs: true,
    checkJs: true,
    skipLibCheck: true,
    typeRoots: [join(root, 'node_modules', '@types')],
    types: ['node'],
    rootDir: '.',
    outDir: 'out',
  }
  const config = { compilerOptions: options, files: [...files, join(example, 'main.mjs')] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch((failed) => failed)
  return stdout
}

const programs = programsOf(page)

beforeAll(async () => {
  await prepare()
  installHere()
}, 120_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the code of docs/toolkit.md', { timeout: PATIENCE_MS }, () => {
  // First, while nothing good lies in the folder: what cannot compile is found.
  it('would not compile with a wrong option', async () => {
    const wrong = programs.map(({ title, code }) => ({
      title,
      code: code.replace('graceMs: 5', 'graceMS: 5'),
    }))
    expect(await compile(wrong)).toContain("'graceMS' does not exist")
  })

  it('compiles under strict types, like the example', async () => {
    expect(await compile(programs)).toBe('')
  })

  it.each(programs.map(({ title }, index) => [title, index] as const))(
    '%s: prints what it says',
    async (_, index) => {
      const program = programs[index] as Program
      const promised = promisedBy(program.code)
      expect(promised).not.toBe('')
      const file = join(folder, 'out', 'docs', `page-${index}.js`)
      const { stdout } = await run(process.execPath, [file])
      expect(stdout).toBe(promised)
    },
  )
})

describe('the example', { timeout: PATIENCE_MS }, () => {
  const shown = blocksOf(page, 'text').filter((block) => block.startsWith('$ node '))

  it('is shown on the page', () => {
    expect(shown).toHaveLength(4)
  })

  it.each(shown.map((block) => block.split('\n', 1)[0] as string))(
    '%s: prints what the page shows',
    async (command) => {
      const block = shown.find((one) => one.startsWith(`${command}\n`)) as string
      const { stdout } = await run(process.execPath, command.split(' ').slice(2), { cwd: root })
      expect(`${command}\n${stdout}`).toBe(block)
    },
  )

  it('prints the figures in full, and names the settings if there is no such one', async () => {
    const main = join(root, example, 'main.mjs')
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
