// Owns real processes for tests: sources bundled once, since a child of Node 20 cannot read
// TypeScript; children that are heard.
// May never leave a process behind.

import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'vite'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { root } from '../sources.ts'

export interface Child {
  readonly process: ChildProcess
  readonly pid: number
  /** Resolves with the first line that begins so; rejects if the process ends before. */
  said(start: string): Promise<string>
  /** Sends it a line. */
  tell(line: string): void
  /** Everything it has said so far. */
  output(): string
  /** Its exit code; null when a signal has ended it. */
  readonly ended: Promise<number | null>
}

export interface StartOptions {
  readonly args?: readonly string[]
  /** The program that runs it. Default: the Node.js that runs this test. */
  readonly node?: string
  /** What comes before that program: a shell that sets a limit, for instance. */
  readonly within?: readonly string[]
}

/** Source files by the name of their bundle, as paths from the root of the repository. */
export type Entries = Readonly<Record<string, string>>

/** Children for the tests of the file that calls this: they end with each test. */
export function children(name: string, entries: Entries): Children {
  const made = new Children(name)
  beforeAll(() => made.bundle(entries))
  afterEach(() => made.kill())
  afterAll(() => made.dispose())
  return made
}

export class Children {
  /** Where files and journals may lie. */
  readonly data: string
  /** Within the repository, so that a bundle finds the packages that it loads when it runs. */
  readonly #folder: string
  readonly #children = new Set<ChildProcess>()
  #scripts = 0

  constructor(name: string) {
    this.#folder = mkdtempSync(join(root, 'node_modules', `.ax-${name}-`))
    this.data = mkdtempSync(join(tmpdir(), `ax-${name}-`))
  }

  async bundle(entries: Entries): Promise<void> {
    const paths = Object.entries(entries).map(([name, path]) => [name, resolve(root, path)])
    await build({
      configFile: false,
      logLevel: 'silent',
      build: {
        ssr: true,
        outDir: this.#folder,
        minify: false,
        rollupOptions: {
          input: Object.fromEntries(paths),
          output: { entryFileNames: '[name].mjs' },
        },
      },
    })
    // The scripts of the Redis store lie beside its code, wherever a bundle has that.
    const scripts = resolve(root, 'src/stores/redis/lua')
    for (const place of ['lua', 'assets/lua']) {
      cpSync(scripts, join(this.#folder, place), { recursive: true })
    }
  }

  /** The place of a bundle. */
  path(name: string): string {
    return join(this.#folder, `${name}.mjs`)
  }

  /** The address of a bundle, quoted for an import. */
  from(name: string): string {
    return JSON.stringify(pathToFileURL(this.path(name)).href)
  }

  /** Writes a script down, beside the bundles that it may import. */
  script(text: string): string {
    this.#scripts += 1
    const path = join(this.#folder, `script-${this.#scripts}.mjs`)
    writeFileSync(path, text)
    return path
  }

  start(path: string, options: StartOptions = {}): Child {
    const { args = [], node = process.execPath, within = [] } = options
    const [command, ...rest] = [...within, node, '--no-warnings', path, ...args]
    const child = spawn(command as string, rest)
    this.#children.add(child)
    return heard(child, () => this.#children.delete(child))
  }

  /** Ends whatever is left of them. */
  kill(): void {
    for (const child of this.#children) child.kill('SIGKILL')
    this.#children.clear()
  }

  dispose(): void {
    this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
    rmSync(this.data, { recursive: true, force: true })
  }
}

export interface Processes {
  readonly data: string
  /**
   * Runs a script in a process of its own. It has `store`, on the file or on the address of a
   * server, `note`, which writes a line to the journal, and `AxScheduler`.
   */
  start(script: string, place: string, journal: string): Child
}

/** Children that are scripts; one may import the entries as `NAME.mjs` beside it. */
export function processes(entries: Entries = {}): Processes {
  const source = 'src/stores/sqlite/index.ts'
  return scripts({ source, open: (file) => `sqliteStore(${JSON.stringify(file)})` }, entries)
}

/** The same on a server: what stands after the # of an address is the prefix. */
export function processesOnRedis(): Processes {
  const open = (place: string) => {
    const [url, prefix] = place.split('#')
    return `redisStore(${JSON.stringify(url)}, ${JSON.stringify({ prefix })})`
  }
  return scripts({ source: 'src/stores/redis/index.ts', open })
}

interface Kind {
  readonly source: string
  /** The call that makes a store. */
  readonly open: (place: string) => string
}

function scripts({ source, open }: Kind, entries: Entries = {}): Processes {
  const made = children('processes', { ax: 'src/index.ts', stores: source, ...entries })
  const start = (script: string, place: string, journal: string) => {
    const head = `
      import { appendFileSync } from 'node:fs'
      import { AxScheduler } from ${made.from('ax')}
      import * as stores from ${made.from('stores')}
      const store = stores.${open(place)}
      const note = (text) => appendFileSync(${JSON.stringify(journal)}, text + '\\n')
    `
    return made.start(made.script(head + script))
  }
  return { data: made.data, start }
}

export function linesOf(journal: string): string[] {
  return readFileSync(journal, 'utf8').trim().split('\n')
}

function heard(child: ChildProcess, onEnd: () => void): Child {
  let out = ''
  let isOver = false
  const waiting = new Set<() => void>()
  const hear = (chunk: Buffer) => {
    out += chunk.toString()
    for (const look of waiting) look()
  }
  child.stdout?.on('data', hear)
  child.stderr?.on('data', hear)
  // One that was killed reads no more.
  child.stdin?.on('error', () => {})
  const ended = new Promise<number | null>((done, fail) => {
    child.on('error', fail)
    child.on('close', (code) => {
      isOver = true
      onEnd()
      done(code)
      for (const look of waiting) look()
    })
  })
  ended.catch(() => {})
  const said = (start: string) =>
    new Promise<string>((done, fail) => {
      const look = () => {
        const line = out
          .split('\n')
          .slice(0, -1)
          .find((each) => each.startsWith(start))
        if (line === undefined && !isOver) return
        waiting.delete(look)
        if (line === undefined) fail(new Error(`it ended without a word of ${start}:\n${out}`))
        else done(line)
      }
      waiting.add(look)
      look()
    })
  return {
    process: child,
    pid: child.pid ?? 0,
    said,
    tell: (line) => void child.stdin?.write(`${line}\n`),
    output: () => out,
    ended,
  }
}
