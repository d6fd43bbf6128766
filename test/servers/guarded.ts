// Owns programs that must not outlive this process, however it ends: a guard beside each of them
// waits for the end of a pipe that only this process holds.
// May never import the test runner: a test starts it in a process of its own, to kill that.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Reads the id of the program of the moment, an empty line for none. At the end of its input it
 * kills that, one that was stopped too, and removes the folder. A key that is pressed at the
 * terminal is meant for others.
 */
const GUARD = `
  trap '' INT TERM HUP
  while read -r line; do pid=$line; done
  [ -z "$pid" ] || kill -9 "$pid"
  rm -rf "$1"
`

/** A folder, and in it at most one program at a time. */
export class Guarded {
  readonly folder: string
  readonly #guard: ChildProcess
  #child: ChildProcess | undefined
  #ended: Promise<void> = Promise.resolve()

  constructor(name: string) {
    this.folder = mkdtempSync(join(tmpdir(), `ax-${name}-`))
    this.#guard = spawn('sh', ['-c', GUARD, 'guard', this.folder], {
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#guard.stdin?.on('error', () => {})
    // Nobody has to wait for it.
    this.#guard.unref()
  }

  /** Of the program; 0 while none runs. */
  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Settles when the program of the moment has ended; at once if none runs. */
  get ended(): Promise<void> {
    return this.#ended
  }

  start(command: string, args: readonly string[]): void {
    if (this.#child !== undefined) throw new Error(`${command} is running already`)
    const child = spawn(command, args, { cwd: this.folder, stdio: 'ignore' })
    this.#child = child
    this.#guard.stdin?.write(`${child.pid ?? ''}\n`)
    this.#ended = new Promise((resolve) => {
      const end = () => {
        if (this.#child === child) {
          this.#child = undefined
          this.#guard.stdin?.write('\n')
        }
        resolve()
      }
      child.on('error', end)
      child.on('exit', end)
    })
  }

  /** Does nothing where no program runs. */
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** Kills what runs, and removes the folder. Idempotent. */
  async dispose(): Promise<void> {
    this.signal('SIGKILL')
    await this.#ended
    if (this.#guard.exitCode !== null) return
    const isOver = new Promise((resolve) => this.#guard.once('exit', resolve))
    this.#guard.stdin?.end()
    await isOver
  }
}
