// Owns starting real processes on one file, for tests: the sources are bundled once, as a child
// of Node 20 cannot read TypeScript.
// May never leave a process behind.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'vite'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { root } from '../sources.ts'

export interface Child {
  readonly process: ChildProcess
  /** Resolves with the line that begins so; rejects if the process ends before. */
  said(start: string): Promise<string>
  /** Everything it has said so far. */
  output(): string
  readonly ended: Promise<number | null>
}

export interface Processes {
  /** Where files and journals may lie. */
  readonly data: string
  /**
   * Runs a script in a process of its own. It has `store`, on the file, `note`, which writes a
   * line to the journal, and `AxScheduler`.
   */
  start(script: string, file: string, journal: string): Child
}

/**
 * Children for the tests of this file, which end with each test. A script may import the entries,
 * each a source file by name, as `NAME.mjs` beside it.
 */
export function processes(entries: Readonly<Record<string, string>> = {}): Processes {
  // Within the repository, so that the bundle finds the packages that it loads when it runs.
  const folder = mkdtempSync(join(root, 'node_modules', '.ax-sqlite-'))
  const data = mkdtempSync(join(tmpdir(), 'ax-sqlite-processes-'))
  const children: ChildProcess[] = []
  let scripts = 0
  beforeAll(() => bundle(folder, entries))
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
  })
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true })
    rmSync(data, { recursive: true, force: true })
  })
  const start = (script: string, file: string, journal: string): Child => {
    scripts += 1
    const path = join(folder, `script-${scripts}.mjs`)
    writeFileSync(path, headOf(folder, file, journal) + script)
    const child = spawn(process.execPath, [path])
    children.push(child)
    return childOf(child)
  }
  return { data, start }
}

async function bundle(folder: string, entries: Readonly<Record<string, string>>): Promise<void> {
  await build({
    configFile: false,
    logLevel: 'silent',
    build: {
      ssr: true,
      outDir: folder,
      minify: false,
      rollupOptions: {
        input: {
          ax: resolve(root, 'src/index.ts'),
          sqlite: resolve(root, 'src/stores/sqlite/index.ts'),
          ...entries,
        },
        output: { entryFileNames: '[name].mjs' },
      },
    },
  })
}

function headOf(folder: string, file: string, journal: string): string {
  const from = (name: string) => JSON.stringify(pathToFileURL(join(folder, name)).href)
  return `
    import { appendFileSync } from 'node:fs'
    import { AxScheduler } from ${from('ax.mjs')}
    import { sqliteStore } from ${from('sqlite.mjs')}
    const store = sqliteStore(${JSON.stringify(file)})
    const note = (text) => appendFileSync(${JSON.stringify(journal)}, text + '\\n')
  `
}

function childOf(child: ChildProcess): Child {
  let out = ''
  let isOver = false
  const waiting = new Set<() => void>()
  const hear = (chunk: Buffer) => {
    out += chunk.toString()
    for (const look of waiting) look()
  }
  child.stdout?.on('data', hear)
  child.stderr?.on('data', hear)
  const ended = new Promise<number | null>((done) => {
    child.on('close', (code) => {
      isOver = true
      done(code)
      for (const look of waiting) look()
    })
  })
  const said = (text: string) =>
    new Promise<string>((done, fail) => {
      const look = () => {
        const lines = out.slice(0, out.lastIndexOf('\n') + 1).split('\n')
        const line = lines.find((each) => each.startsWith(text))
        if (line === undefined && !isOver) return
        waiting.delete(look)
        if (line === undefined) fail(new Error(`it ended without a word of ${text}:\n${out}`))
        else done(line)
      }
      waiting.add(look)
      look()
    })
  return { process: child, said, output: () => out, ended }
}

export function linesOf(journal: string): string[] {
  return readFileSync(journal, 'utf8').trim().split('\n')
}
