// Owns what users get: which files are in the published package, and what loading it pulls in.
// May never look at the sources' insides: it judges the package from outside.

import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { npm, prepare } from '../scripts/prepare.mjs'
import { root } from './sources.ts'

/** Paths beside `dist` that belong in the package. */
const DOCUMENTS = ['package.json', 'README.md', 'README.zh-CN.md', 'LICENSE', 'CHANGELOG.md']

/** Entry points by their place in `dist`; each exists once its source does. */
const ENTRIES = [
  'index',
  'testing/index',
  'stores/sqlite/index',
  'stores/redis/index',
  'cli/main',
].filter((entry) => existsSync(join(root, 'src', `${entry}.ts`)))

beforeAll(prepare, 120_000)

function isExpected(path: string): boolean {
  if (/^dist\/stores\/redis\/lua\/[a-z]+\.lua$/.test(path)) return true
  return DOCUMENTS.includes(path) || /^dist\/.+\.(js|d\.ts)(\.map)?$/.test(path)
}

describe('the package', () => {
  it('holds the build and the documents, and nothing else', () => {
    const [command, args] = npm('pack', '--dry-run', '--json', '--ignore-scripts')
    const output = execFileSync(command, args, { cwd: root, encoding: 'utf8' })
    const files: string[] = JSON.parse(output)[0].files.map((file: { path: string }) => file.path)
    expect(files.filter((path) => !isExpected(path))).toEqual([])
    expect(files).toEqual(expect.arrayContaining(['package.json', 'LICENSE']))
    for (const entry of ENTRIES) {
      expect(files).toEqual(expect.arrayContaining([`dist/${entry}.js`, `dist/${entry}.d.ts`]))
    }
  })

  it.each([
    'test/a.test.ts',
    'src/index.ts',
    'src/stores/redis/lua/a.lua',
    'dist/a.lua',
    'dist/a.test.ts',
    'dist-1/a.js',
    'tsconfig.json',
  ])('would not hold %s', (path) => {
    expect(isExpected(path)).toBe(false)
  })
})

describe('the build', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ax-package-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Loads a file of a copy that stands alone: whatever is outside of it cannot be found. */
  function load(path: string): string {
    const script = 'await import(process.argv[1]); console.log("loaded")'
    const args = ['--input-type=module', '-e', script, join(folder, 'dist', path)]
    return execFileSync(process.execPath, args, { encoding: 'utf8', stdio: 'pipe' })
  }

  beforeAll(() => {
    cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true })
    cpSync(join(root, 'package.json'), join(folder, 'package.json'))
  })

  const libraries = ENTRIES.filter((entry) => !entry.startsWith('cli/'))

  it('holds the scripts that run in the server of a store', () => {
    const lua = (folder: string) => readdirSync(join(root, folder, 'stores/redis/lua')).sort()
    expect(lua('dist')).toEqual(lua('src'))
  })

  it('can be loaded without any other package', () => {
    for (const entry of libraries) expect(load(`${entry}.js`)).toBe('loaded\n')
  })

  it.each(['yaml', 'commander', 'croner', 'libsql', 'ioredis', '../../outside.js'])(
    'would fail if it loaded %s',
    (specifier) => {
      writeFileSync(join(folder, 'dist', 'planted.js'), `import '${specifier}'\n`)
      expect(() => load('planted.js')).toThrow('ERR_MODULE_NOT_FOUND')
    },
  )
})
