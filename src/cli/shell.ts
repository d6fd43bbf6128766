// Owns one run of a shell command: its process group, its output, its end.
// May never leave a process of its group behind when it is told to stop, or when ax exits while it
// runs. What a command that ends by itself leaves in the background is its own business.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { AxError } from '../core/errors.ts'
import type { Job, JobContext } from '../core/types.ts'
import { endGroup, MARK, noteOf } from './group.ts'

/** Where commands run, and where files are kept for as long as one of them runs. */
export interface Place {
  readonly folder: string
  readonly scratch: string
}

/** More output than this is no result but a file: it belongs on a disk. */
export const MAX_OUTPUT = 1_000_000

/** How much of the error output is kept: what fits on a screen or two. */
const MAX_ERROR_OUTPUT = 8_000
const MAX_ERROR_LINES = 40

/** From SIGTERM to SIGKILL; shorter than the scheduler's grace, so that no zombie is left. */
const TERM_MS = 3_000

/** From SIGKILL to giving up on output that a process outside the group holds open. */
const KILL_MS = 500

const onWindows = process.platform === 'win32'

/**
 * Runs a command and gives its standard output: parsed if it is JSON, else as text without its
 * last line end. The command has ended when the shell has, and nobody holds its output open any
 * more, as in `$(...)`.
 *
 * Rejects with code EXIT for any exit status but 0, TOO_LARGE for too much output, and with the
 * signal's reason once that is aborted, whatever the command then says: a polite exit after
 * SIGTERM does not tell that the work was done.
 */
export async function shell(command: string, context: JobContext, place: Place): Promise<unknown> {
  const mark = randomUUID()
  const deps = join(place.scratch, `${mark}.json`)
  await endLeftOver(context.job)
  await writeFile(deps, JSON.stringify(context.deps), { mode: 0o600 })
  try {
    context.signal.throwIfAborted()
    const child = start(command, context, place.folder, { deps, mark })
    const end = watch(child, context.signal)
    end.catch(() => {})
    if (!onWindows && child.pid !== undefined) await letBegin(child, child.pid, mark, context)
    return await end
  } finally {
    await rm(deps, { force: true })
  }
}

/** If the attempt before was lost with its ax, its command may still run, and would run twice. */
export async function endLeftOver({ attemptLog, note }: Job): Promise<boolean> {
  const before = attemptLog.findLast(({ outcome }) => outcome !== undefined)
  return before?.outcome === 'lost' && (await endGroup(note))
}

/**
 * The shell waits at its standard input before it runs the command, until it is written down which
 * process group it is. If ax dies first, there is nothing to be written there, and it runs nothing.
 */
const GATE = `IFS= read -r go && [ "$go" = go ] && exec /bin/sh -c "$1" </dev/null`

async function letBegin(
  child: ChildProcess,
  pid: number,
  mark: string,
  { note }: JobContext,
): Promise<void> {
  try {
    await note(await noteOf({ pid, mark }))
    child.stdin?.end('go\n')
  } catch (error) {
    signalGroup(child, 'SIGKILL')
    throw error
  }
}

function start(
  command: string,
  context: JobContext,
  cwd: string,
  { deps, mark }: { readonly deps: string; readonly mark: string },
): ChildProcess {
  const env = {
    ...process.env,
    [MARK]: mark,
    AX_DEPS: deps,
    AX_JOB_ID: context.job.id,
    AX_ATTEMPT: String(context.attempt),
    AX_IDEMPOTENCY_KEY: context.idempotencyKey,
  }
  // A group of its own: it can be ended as a whole, and Ctrl-C on the terminal does not reach it.
  const options = { cwd, env, windowsHide: true } as const
  if (onWindows) {
    return spawn(command, { ...options, shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
  }
  const child = spawn('/bin/sh', ['-c', GATE, '/bin/sh', command], {
    ...options,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  // It may have been ended before it was told to begin.
  child.stdin.on('error', () => {})
  return child
}

function watch(child: ChildProcess, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const output: Buffer[] = []
    let size = 0
    let errors = ''
    let stopped: { readonly reason: unknown } | undefined
    let timer: NodeJS.Timeout | undefined

    const stop = (reason: unknown): void => {
      if (stopped !== undefined) return
      stopped = { reason }
      signalGroup(child, 'SIGTERM')
      timer = setTimeout(() => {
        signalGroup(child, 'SIGKILL')
        timer = setTimeout(() => letGo(child), KILL_MS)
      }, TERM_MS)
    }
    const abort = (): void => stop(signal.reason)
    const settle = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
      groups.delete(child)
    }

    groups.add(child)
    signal.addEventListener('abort', abort, { once: true })
    child.stdout?.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= MAX_OUTPUT) output.push(chunk)
      else stop(tooLarge())
    })
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      errors = (errors + chunk).slice(-MAX_ERROR_OUTPUT)
    })
    child.on('error', (error) => {
      settle()
      reject(new AxError('EXIT', `The command could not be started: ${error.message}.`))
    })
    child.on('close', (code, by) => {
      settle()
      // Told to stop, the shell may be gone while a member of its group goes on without output.
      if (stopped !== undefined) signalGroup(child, 'SIGKILL')
      if (stopped !== undefined) reject(stopped.reason)
      else if (code === 0) resolve(parse(Buffer.concat(output).toString('utf8')))
      else reject(exited(code, by, errors))
    })
  })
}

/**
 * The result that a text stands for: JSON if it is, else the text without its last line end. A
 * number that would not be printed like that again (a hash such as 12e4567, 1.10, twenty digits)
 * is no number but a text.
 */
export function parse(text: string): unknown {
  const plain = text.replace(/\r?\n$/, '')
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'number' && String(value) !== plain.trim() ? plain : value
  } catch {
    return plain
  }
}

function exited(code: number | null, by: NodeJS.Signals | null, errors: string): AxError {
  const how = code === null ? `was ended by ${by}` : `ended with exit status ${code}`
  const text = stripVTControlCharacters(errors).trim()
  const tail = text === '' ? [] : text.split(/\r?\n/).slice(-MAX_ERROR_LINES)
  const said = tellingLine(tail)
  const first = said === undefined ? `The command ${how}.` : `The command ${how}: ${said}`
  const message = tail.length > 1 ? [first, ...tail].join('\n') : first
  return withoutStack(new AxError('EXIT', message, { retryable: true, exitStatus: code }))
}

/** The line of an error output that names the error: some programs print more after it. */
function tellingLine(lines: readonly string[]): string | undefined {
  return (lines.findLast((line) => /^\w*(error|exception)\b/i.test(line)) ?? lines.at(-1))?.trim()
}

function tooLarge(): AxError {
  const text = `The command wrote more than ${MAX_OUTPUT / 1_000_000} MB to its standard output.`
  return withoutStack(new AxError('TOO_LARGE', `${text} Write to a file and print its name.`))
}

/** Where ax was when a command failed is no news to anybody. */
function withoutStack(error: AxError): AxError {
  error.stack = `${error.name}: ${error.message}`
  return error
}

/** Every group that runs now. */
const groups = new Set<ChildProcess>()

process.on('exit', () => {
  for (const child of groups) signalGroup(child, 'SIGKILL')
})

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    if (onWindows) child.kill(signal)
    else process.kill(-child.pid, signal)
  } catch {
    // Nobody of the group is left.
  }
}

function letGo(child: ChildProcess): void {
  child.stdout?.destroy()
  child.stderr?.destroy()
}
