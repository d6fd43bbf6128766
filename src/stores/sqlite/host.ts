// Owns the doors to this machine: its clock and timers as handed in, its processes, its files.
// May never be asked by anything but this store.

import { accessSync, constants, existsSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname, resolve } from 'node:path'
import { kill, pid } from 'node:process'
import { AxError } from '../../core/errors.ts'

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
  const host = machineName()
  return {
    ...clockwork,
    checkPath,
    process: { host, pid, began: beginningOf(pid) },
    isAlive: (id) => id.host !== host || isAlive(id),
  }
}

/** Numbers of processes mean something within one machine, and one container of it. */
function machineName(): string {
  return [hostname(), textOf('/proc/sys/kernel/random/boot_id'), namespace()].join(' ').trim()
}

function namespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return ''
  }
}

/** When a process began, in ticks since the machine did; empty where the system does not tell. */
function beginningOf(process: number): string {
  const text = textOf(`/proc/${process}/stat`)
  // Its name is in brackets, and may have spaces; the start is field 22 of all, 20 after that.
  return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? ''
}

/** One that has ended and has not been asked for yet, a zombie, runs no job any more. */
function isAlive({ pid: other, began }: ProcessId): boolean {
  try {
    kill(other, 0)
  } catch (error) {
    return (error as { readonly code?: string }).code === 'EPERM'
  }
  const text = textOf(`/proc/${other}/stat`)
  if (text === '') return true
  const [state] = text.slice(text.lastIndexOf(')') + 2)
  return state !== 'Z' && state !== 'X' && beginningOf(other) === began
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
