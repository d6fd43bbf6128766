// Owns the map of this package: which folder may import which, and which folders may touch the
// clock, timers and randomness. May never make an exception for a single file silently: every
// exception is a line of the tables below.

import { describe, expect, it } from 'vitest'
import { importsOf, readSources, type Sources, withoutComments } from './sources.ts'

/** The first line whose `files` a path starts with is the one that holds for it. */
interface Layer {
  readonly files: string
  readonly may: readonly string[]
  readonly not?: readonly string[]
}

/** Where the platform is let in: clock, timers, randomness; the async context; diagnostics; cron. */
const DOORS: readonly Layer[] = [
  { files: 'kit/runtime.ts', may: ['core/', 'kit/', 'node:'] },
  { files: 'kit/context.ts', may: ['core/', 'kit/', 'node:'] },
  { files: 'kit/channel.ts', may: ['core/', 'kit/', 'node:'] },
  { files: 'kit/machine.ts', may: ['core/', 'kit/', 'node:'] },
  { files: 'kit/cron.ts', may: ['core/', 'kit/', 'croner'] },
  { files: 'kit/resources.ts', may: ['core/', 'kit/', 'node:'] },
  // The store's clock is the machine's: its index hands in the runtime, and nothing else of kit.
  {
    files: 'stores/sqlite/index.ts',
    may: ['core/', 'store/', 'OWN FOLDER', 'kit/runtime.ts'],
    not: ['store/memory'],
  },
  // The machine's processes and files; the library that SQLite comes in.
  { files: 'stores/sqlite/host.ts', may: ['core/', 'kit/machine.ts', 'node:'] },
  { files: 'stores/sqlite/driver.ts', may: ['core/', 'node:', 'libsql'] },
  // A name for this process; scripts that lie beside the code; the library of the client.
  {
    files: 'stores/redis/index.ts',
    may: ['core/', 'store/', 'OWN FOLDER', 'kit/runtime.ts'],
    not: ['store/memory'],
  },
  { files: 'stores/redis/statements.ts', may: ['core/', 'store/', 'OWN FOLDER', 'node:'] },
  // The end of a turn is the process's.
  { files: 'stores/redis/calls.ts', may: ['OWN FOLDER', 'node:process'] },
  { files: 'stores/redis/driver.ts', may: ['core/', 'ioredis'] },
]

/** Nobody but testing itself imports testing, and nobody but the command imports the command. */
const LAYERS: readonly Layer[] = [
  ...DOORS,
  { files: 'core/', may: ['core/'] },
  { files: 'kit/', may: ['core/', 'kit/'] },
  { files: 'store/', may: ['core/', 'kit/', 'store/'] },
  { files: 'stores/', may: ['core/', 'store/', 'OWN FOLDER'], not: ['store/memory'] },
  { files: 'engine/', may: ['core/', 'kit/', 'store/', 'engine/'], not: ['store/memory'] },
  { files: 'index.ts', may: ['core/', 'kit/', 'store/', 'engine/'] },
  { files: 'cli/', may: ['ANY SOURCE', 'node:', 'yaml', 'commander'], not: ['testing/'] },
  { files: 'testing/', may: ['ANY SOURCE', 'node:'], not: ['cli/'] },
]

/** These folders get their time and chance handed in; `kit/runtime.ts` is the only door. */
const TIMELESS = ['core/', 'kit/', 'store/', 'stores/', 'engine/']
const DOOR = 'kit/runtime.ts'

const FORBIDDEN = [
  'Date.now',
  'new Date',
  'performance.',
  'Math.random',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'process.',
]

/** One sentence for each import that the table does not allow. */
function forbiddenImports(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) =>
    importsOf(path, text)
      .filter((target) => !isAllowed(path, target))
      .map((target) => `${path} may not import ${target}`),
  )
}

function isAllowed(path: string, target: string): boolean {
  const layer = LAYERS.find(({ files }) => path.startsWith(files))
  if (layer === undefined) return false
  if (layer.not?.some((start) => target.startsWith(start))) return false
  return layer.may.some((name) => covers(name, path, target))
}

function covers(name: string, path: string, target: string): boolean {
  if (name === 'OWN FOLDER') return target.startsWith(`${path.split('/', 2).join('/')}/`)
  if (name === 'ANY SOURCE') return /^[^:]+\.ts$/.test(target) && !target.startsWith('../')
  return /[/:]$/.test(name) ? target.startsWith(name) : target === name
}

/** One sentence for each file that stands in no line of the table. */
function unknownFiles(sources: Sources): string[] {
  return [...sources.keys()]
    .filter((path) => !LAYERS.some(({ files }) => path.startsWith(files)))
    .map((path) => `${path} is in no line of the table`)
}

/** One sentence for each word of time or chance in a file that must have it handed in. */
function forbiddenWords(sources: Sources): string[] {
  return [...sources]
    .filter(([path]) => path !== DOOR && TIMELESS.some((folder) => path.startsWith(folder)))
    .flatMap(([path, text]) => {
      const code = withoutComments(text)
      return FORBIDDEN.filter((word) => pattern(word).test(code)).map(
        (word) => `${path} may not mention ${word}`,
      )
    })
}

/** The word by itself or on globalThis; a method of the same name on anything else is fine. */
function pattern(word: string): RegExp {
  const text = word.replaceAll('.', '\\s*\\??\\.\\s*').replaceAll(' ', '\\s+')
  const end = word.endsWith('.') ? '' : '\\b'
  return new RegExp(`(?<![\\w$]|(?<!globalThis\\??|\\.\\.)\\.)${text}${end}`)
}

const sources = readSources()

describe('layers', () => {
  it('are kept by every import', () => {
    expect(forbiddenImports(sources)).toEqual([])
  })

  it('have a line in the table for every file', () => {
    expect(unknownFiles(sources)).toEqual([])
  })

  it('keep time and chance behind one door', () => {
    expect(forbiddenWords(sources)).toEqual([])
  })
})

describe('the test of layers', () => {
  const violations: readonly [path: string, specifier: string][] = [
    ['core/a.ts', 'node:fs'],
    ['core/a.ts', '../kit/heap.ts'],
    ['core/a.ts', '../store/store.ts'],
    ['core/a.ts', 'yaml'],
    ['kit/heap.ts', 'node:timers'],
    ['kit/heap.ts', 'croner'],
    ['engine/schedules.ts', 'croner'],
    ['kit/runtime.ts', '../engine/worker.ts'],
    ['kit/context.ts', '../store/store.ts'],
    ['kit/machine.ts', '../engine/worker.ts'],
    ['stores/sqlite/host.ts', '../../kit/heap.ts'],
    ['store/memory.ts', 'node:fs'],
    ['store/memory.ts', '../engine/worker.ts'],
    ['stores/sqlite/port.ts', '../../store/memory.ts'],
    ['stores/sqlite/port.ts', '../../kit/heap.ts'],
    ['stores/sqlite/port.ts', '../../engine/keeper.ts'],
    ['stores/sqlite/port.ts', '../redis/port.ts'],
    ['engine/worker.ts', '../store/memory.ts'],
    ['engine/worker.ts', '../store/memory-rows.ts'],
    ['engine/worker.ts', '../stores/sqlite/port.ts'],
    ['engine/worker.ts', '../testing/faults.ts'],
    ['engine/worker.ts', '../cli/main.ts'],
    ['engine/worker.ts', 'node:fs'],
    ['index.ts', './cli/main.ts'],
    ['index.ts', './testing/index.ts'],
    ['index.ts', 'commander'],
    ['cli/main.ts', 'lodash'],
    ['cli/main.ts', 'yaml/other'],
    ['cli/main.ts', '../testing/index.ts'],
    ['cli/main.ts', '../../scripts/prepare.ts'],
    ['testing/index.ts', '../cli/main.ts'],
    ['testing/index.ts', 'vitest'],
  ]

  it.each(violations)('sees that %s imports %s', (path, specifier) => {
    const planted = new Map([[path, `import { x } from '${specifier}'\n`]])
    expect(forbiddenImports(planted)).toHaveLength(1)
  })

  const allowed: readonly [path: string, specifier: string][] = [
    ['core/a.ts', './errors.ts'],
    ['kit/context.ts', 'node:async_hooks'],
    ['kit/resources.ts', 'node:async_hooks'],
    ['kit/heap.ts', '../core/errors.ts'],
    ['store/memory.ts', '../kit/heap.ts'],
    ['stores/sqlite/port.ts', './schema.ts'],
    ['stores/sqlite/port.ts', '../../store/store.ts'],
    ['engine/worker.ts', '../store/store.ts'],
    ['index.ts', './store/memory.ts'],
    ['cli/main.ts', '../index.ts'],
    ['cli/main.ts', 'yaml'],
    ['testing/index.ts', '../engine/worker.ts'],
  ]

  it.each(allowed)('lets %s import %s', (path, specifier) => {
    expect(forbiddenImports(new Map([[path, `import '${specifier}'`]]))).toEqual([])
  })

  it.each([
    "import fs from 'node:fs'",
    "import {\n  readFile,\n} from 'node:fs'",
    "import type { Stats } from 'node:fs'",
    "import 'node:fs'",
    "export * from 'node:fs'",
    "export { readFile } from 'node:fs'",
    "const fs = await import('node:fs')",
    "type Stats = import('node:fs').Stats",
    'import fs from "node:fs"',
    "const a = '/*'\nimport fs from 'node:fs'\nconst b = '*/'",
    "const a = /[/'*]/\nimport fs from 'node:fs'",
  ])('reads the import in %j', (text) => {
    expect(forbiddenImports(new Map([['core/a.ts', text]]))).toEqual([
      'core/a.ts may not import node:fs',
    ])
  })

  it.each([
    "// import fs from 'node:fs'",
    "/**\n * import fs from 'node:fs'\n */",
    "const a = 1 // see import('node:fs')",
  ])('does not read the comment %j', (text) => {
    expect(forbiddenImports(new Map([['core/a.ts', text]]))).toEqual([])
  })

  it('sees a file outside the table', () => {
    expect(unknownFiles(new Map([['misc/a.ts', '']]))).toHaveLength(1)
    expect(forbiddenImports(new Map([['misc/a.ts', "import './b.ts'"]]))).toHaveLength(1)
  })

  it.each(FORBIDDEN)('sees %s in every folder that must not have it', (word) => {
    const code = word.endsWith('.') ? `const a = [...${word}x]\n` : `const a = [${word}]\n`
    for (const path of TIMELESS.map((folder) => `${folder}a.ts`)) {
      expect(forbiddenWords(new Map([[path, code]]))).toEqual([`${path} may not mention ${word}`])
    }
    expect(forbiddenWords(new Map([[DOOR, code]]))).toEqual([])
    expect(forbiddenWords(new Map([['core/a.ts', `// ${code}`]]))).toEqual([])
  })

  it('sees timers on globalThis and not on a runtime that was handed in', () => {
    const words = (code: string) => forbiddenWords(new Map([['kit/a.ts', code]]))
    expect(words('globalThis.setTimeout(f, 1)')).toHaveLength(1)
    expect(words('globalThis.Math.random()')).toHaveLength(1)
    expect(words('runtime.setTimeout(f, 1)')).toEqual([])
    expect(words('this.process.kill()')).toEqual([])
    expect(words('const processed = reprocess.x')).toEqual([])
  })
})
