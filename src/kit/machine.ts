// Owns how this machine and its processes are told from others: numbers of processes are used
// again. May never end a process, or know what it is asked for.

import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/**
 * Host, start of the machine, and container: numbers of processes mean something within that. What
 * the system does not tell is left out.
 */
export function machineParts(): readonly string[] {
  const boot = textOf('/proc/sys/kernel/random/boot_id').trim()
  return [hostname(), boot, namespace()].filter((part) => part !== '')
}

/** The place of the process's beginning, in ticks since the machine's, among `fieldsOf`. */
const BEGINNING = 19

/**
 * What Linux tells of a process, from its state on: state, parent, group ... An empty list for one
 * that is gone, and on other systems.
 */
export function fieldsOf(pid: number): readonly string[] {
  const text = textOf(`/proc/${pid}/stat`)
  // Its name comes before, in brackets, and may have spaces and brackets.
  return text === '' ? [] : text.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** When a process began, as a text to compare; empty where Linux does not tell. */
export function beginningOf(pid: number): string {
  return fieldsOf(pid)[BEGINNING] ?? ''
}

/** One that has ended and has not been asked for yet runs nothing any more. */
export function hasEnded(state: string | undefined): boolean {
  return state === 'Z' || state === 'X'
}

function namespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

/** What the system tells in a file; an empty text where it does not. */
export function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
