// Owns the doors to this machine: its clock and timers as handed in, its processes, its files.
// May never be asked by anything but this store.

import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { kill, pid } from 'node:process'
import { AxError } from '../../core/errors.ts'
import { beginningOf, fieldsOf, hasEnded, machineParts } from '../../kit/machine.ts'

/** What the store needs of the machine that it is on. */
export interface Host {
  /** The machine's wall clock, epoch milliseconds. */
  now(): number
  monotonic(): number
  random(): number
  sleep(ms: number): Promise<void>
  /** Calls again and again until it is told to stop. Keeps no process alive. */
  every(ms: number, run: () => void): () => void
  /** Refuses, with a typed error, what can never be a file of this store. */
  checkPath(file: string): void
  readonly process: ProcessId
  isAlive(process: ProcessId): boolean
}

/** A process of this machine: its number, and when it began, since numbers are used again. */
export interface ProcessId {
  readonly host: string
  readonly pid: number
  readonly began: string
}

/** The part that a runtime gives. */
export type Clockwork = Omit<Host, 'checkPath' | 'process' | 'isAlive'>

export function hostOf(clockwork: Clockwork): Host {
  const host = machineParts().join(' ')
  return {
    ...clockwork,
    checkPath,
    process: { host, pid, began: beginningOf(pid) },
    isAlive: (id) => id.host !== host || isAlive(id),
  }
}

/** One that has ended and has not been asked for yet, a zombie, runs no job any more. */
function isAlive({ pid: other, began }: ProcessId): boolean {
  try {
    kill(other, 0)
  } catch (error) {
    return (error as { readonly code?: string }).code === 'EPERM'
  }
  const [state] = fieldsOf(other)
  return state === undefined || (!hasEnded(state) && beginningOf(other) === began)
}

function checkPath(file: string): void {
  const path = resolve(file)
  const folder = dirname(path)
  if (!existsSync(folder)) refuse(file, `the folder of ${file} does not exist. Make it first.`)
  if (!isFolder(file, folder)) refuse(file, `${folder} is a file, and no folder to have one in.`)
  if (existsSync(path) && isFolder(file, path)) {
    refuse(file, `${file} is a folder. Name a file in it, such as ${file}/ax.db.`)
  }
  for (const each of existsSync(path) ? [folder, path] : [folder]) {
    if (mayWrite(each)) continue
    throw new AxError(
      'STORE_UNAVAILABLE',
      `${each} cannot be written by this user. SQLite writes the file and its folder, where it ` +
        'keeps a -wal and a -shm file. Grant write access, or name a file elsewhere.',
      { retryable: false, file },
    )
  }
}

function isFolder(file: string, path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch (error) {
    return refuse(file, `${path} cannot be looked at: ${(error as Error).message}.`)
  }
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function refuse(value: string, message: string): never {
  throw new AxError('INVALID_OPTION', message, { option: 'file', value })
}
