// Owns what the tests of documentation pages share: the programs of a page, compiled under strict
// types against the build, and run. May never run the code of a page inside this process, or
// reach for the network.

import { execFile } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { root } from './sources.ts'

/** What takes a second or two alone takes longer beside the other tests. */
export const PATIENCE_MS = 60_000

/** Runs a program of ours; one that hangs is ended before the test is given up. */
export const run = (
  file: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
) => promisify(execFile)(file, args, { timeout: PATIENCE_MS, ...options })

export interface Program {
  readonly title: string
  readonly code: string
}

export function readPage(name: string): string {
  return readFileSync(join(root, 'docs', name), 'utf8')
}

/** One program for each section that shows code: its blocks, in order. */
export function programsOf(page: string): Program[] {
  return page
    .split(/^(?=##+ )/m)
    .map((section) => ({
      title: /^#+ (.*)/.exec(section)?.[1] ?? '',
      code: blocksOf(section, 'ts').join('\n'),
    }))
    .filter(({ code }) => code !== '')
}

/** The fenced blocks of a language, in order. */
export function blocksOf(text: string, language: string): string[] {
  const fence = new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs')
  return [...text.matchAll(fence)].map((match) => match[1] as string)
}

/** The lines that a program should print, by its own comments. */
export function promisedBy(code: string): string {
  return [...code.matchAll(/\/\/ → (.*)/g)].map((match) => `${match[1]}\n`).join('')
}

/** What a command line on a page prints, by that page: its block begins with `$ node ...`. */
export function commandsOf(page: string): { readonly command: string; readonly shown: string }[] {
  return blocksOf(page, 'text')
    .filter((block) => block.startsWith('$ node '))
    .map((shown) => ({ command: shown.split('\n', 1)[0] as string, shown }))
}

/** A folder in which programs find the build of this package, and copies of the examples. */
export interface Workshop {
  /** Compiles programs together with the examples; answers the complaints. */
  compile(programs: readonly Program[]): Promise<string>
  /** What the program of that index prints, as it was compiled last; with more in its environment. */
  output(index: number, env?: NodeJS.ProcessEnv): Promise<string>
  remove(): void
}

/** `examples`: files under `examples` to be checked as well; their folders come along. */
export function openWorkshop(examples: readonly string[]): Workshop {
  const folder = mkdtempSync(join(tmpdir(), 'ax-page-'))
  installIn(folder)
  const files = examples.map((file) => join('examples', file))
  return {
    compile: (programs) => compileIn(folder, programs, files),
    output: async (index, env = {}) => {
      const file = join(folder, 'out', 'docs', `page-${index}.js`)
      return (await run(process.execPath, [file], { env: { ...process.env, ...env } })).stdout
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** A package `ax-scheduler` that is the build of this one, for programs in the folder. */
function installIn(folder: string): void {
  const home = join(folder, 'node_modules', 'ax-scheduler')
  mkdirSync(home, { recursive: true })
  const entries = {
    '.': 'index',
    './testing': 'testing/index',
    './sqlite': 'stores/sqlite/index',
    './redis': 'stores/redis/index',
  }
  const exports: Record<string, { types: string; default: string }> = {}
  for (const [name, path] of Object.entries(entries)) {
    const file = path.replaceAll('/', '-')
    const built = JSON.stringify(join(root, 'dist', `${path}.js`).replaceAll('\\', '/'))
    writeFileSync(join(home, `${file}.d.ts`), `export * from ${built}\n`)
    const url = new URL(`../dist/${path}.js`, import.meta.url).href
    writeFileSync(join(home, `${file}.js`), `export * from '${url}'\n`)
    exports[name] = { types: `./${file}.d.ts`, default: `./${file}.js` }
  }
  const meta = { name: 'ax-scheduler', type: 'module', exports }
  writeFileSync(join(home, 'package.json'), JSON.stringify(meta))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  // What whoever uses the store on Redis installs beside ax.
  symlinkSync(join(root, 'node_modules', 'ioredis'), join(folder, 'node_modules', 'ioredis'), 'dir')
}

async function compileIn(
  folder: string,
  programs: readonly Program[],
  examples: readonly string[],
): Promise<string> {
  mkdirSync(join(folder, 'docs'), { recursive: true })
  for (const home of new Set(examples.map(dirname))) {
    cpSync(join(root, home), join(folder, home), { recursive: true })
  }
  const pages = programs.map(({ code }, index) => {
    const file = join('docs', `page-${index}.ts`)
    writeFileSync(join(folder, file), `${code}\nexport {}\n`)
    return file
  })
  const compilerOptions = {
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
  const config = { compilerOptions, files: [...pages, ...examples] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch((failed) => failed)
  return stdout
}
