// Owns what tests of the command have in common: folders of flow files, and `ax` as a child.
// May never sleep: waiting is for something that the child prints.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach } from 'vitest'
import { root } from '../sources.ts'

/** A new folder with the given files; gone once `remove` is called. */
export function folderOf(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'ax-cli-'))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Folders for the tests of a file, each gone when its test is over, with what else is to be. */
export function ownFolders() {
  const cleanUps: (() => void)[] = []
  afterEach(() => {
    for (const cleanUp of cleanUps.splice(0)) cleanUp()
  })
  const inFolder = (files: Readonly<Record<string, string>>): string => {
    const { folder, remove } = folderOf(files)
    cleanUps.push(remove)
    return folder
  }
  return { cleanUps, inFolder }
}

export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** A running `ax`, built into dist, with what it has printed so far. */
export class Ax {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  out = ''
  err = ''
  #isOver = false
  #waiters: (() => void)[] = []

  constructor(args: readonly string[], cwd: string = root, env: NodeJS.ProcessEnv = {}) {
    const main = join(root, 'dist', 'cli', 'main.js')
    this.child = spawn(process.execPath, [main, ...args], {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.out += text
      this.#wake()
    })
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.err += text
      this.#wake()
    })
    this.ended = new Promise((resolve) => {
      this.child.on('close', (code) => {
        this.#isOver = true
        resolve({ code, out: this.out, err: this.err })
        this.#wake()
      })
    })
  }

  /** Settles once standard output matches; rejects if the child ends without. */
  async seen(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.out)
      if (found !== null) return found
      if (this.#isOver) {
        throw new Error(`ax ended without printing ${pattern}:\n${this.out}\n${this.err}`)
      }
      await new Promise<void>((resolve) => this.#waiters.push(resolve))
    }
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake()
  }
}

export function ax(args: readonly string[], cwd?: string, env?: NodeJS.ProcessEnv): Promise<Ended> {
  return new Ax(args, cwd, env).ended
}

/** Settles once a process has ended: a signal that was sent takes a moment to arrive. */
export async function gone(pid: string): Promise<void> {
  while (isAlive(Number(pid.trim()))) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** One that has ended, and that nobody has asked about yet, does not run any more. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  const stat = join('/proc', String(pid), 'stat')
  return !existsSync(stat) || !/\) [ZX] /.test(readFileSync(stat, 'utf8'))
}

/** Settles once a file has something in it: a shell has begun, and said so. */
export async function written(file: string): Promise<void> {
  while (!existsSync(file) || readFileSync(file, 'utf8') === '') {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
