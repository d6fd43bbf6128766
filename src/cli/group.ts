// Owns the process groups of shell commands as other processes know them: what is written down of
// one, and how one whose ax has died is ended. May never end a group without a proof that it is the
// one that was written down: numbers of processes are used again.

import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { beginningOf, fieldsOf, hasEnded, machineParts, textOf } from '../kit/machine.ts'
import { systemRuntime } from '../kit/runtime.ts'

/** A group leader, and how to know it and its children again. */
export interface Group {
  readonly pid: number
  /** Stands in the environment of everything that was started in it. */
  readonly mark: string
}

/** Commands carry the mark of their attempt under this name. */
export const MARK = 'AX_GROUP'

/** From SIGTERM to SIGKILL, as for a command that is told to stop. */
const TERM_MS = 3_000

/** Between two looks whether it is gone; and how long SIGKILL may take to be seen. */
const LOOK_MS = 20
const KILL_MS = 2_000

const NOTE = /^process group (\d+) on (\S+), begun (.*), marked (\S+)$/

/** What a job writes down about its command, so that it can be ended when this process has died. */
export async function noteOf({ pid, mark }: Group): Promise<string> {
  return `process group ${pid} on ${machine()}, begun ${await beganAt(pid)}, marked ${mark}`
}

/**
 * Ends what is left of a command of an attempt that was lost: SIGTERM, and SIGKILL 3 seconds later.
 * Answers true if there was something. Nothing happens on another machine, or on Windows, where
 * commands have no groups.
 *
 * The leader has to have begun at the instant that was written down, or, on Linux, any member of
 * the group to carry the mark in its environment. Elsewhere, if the leader has ended, its children
 * are let be.
 */
export async function endGroup(note: string | undefined): Promise<boolean> {
  const [, pid, host, began, mark] = NOTE.exec(note ?? '') ?? []
  if (pid === undefined || host !== machine()) return false
  const group = { pid: Number(pid), mark: mark as string }
  if (!exists(group) || !(await isOurs(group, began as string))) return false
  send(group, 'SIGTERM')
  if (await isGone(group, TERM_MS)) return true
  send(group, 'SIGKILL')
  await isGone(group, KILL_MS)
  return true
}

async function isGone(group: Group, ms: number): Promise<boolean> {
  const until = systemRuntime.monotonic() + ms
  while (runs(group)) {
    if (systemRuntime.monotonic() > until) return false
    await new Promise<void>((resolve) => systemRuntime.after(LOOK_MS, resolve))
  }
  return true
}

async function isOurs({ pid, mark }: Group, began: string): Promise<boolean> {
  const hasBegunThen = began !== '' && (await beganAt(pid)) === began
  if (process.platform !== 'linux') return hasBegunThen
  const members = membersOf(pid)
  if (hasBegunThen && members.includes(pid)) return true
  return members.some((member) => textOf(`/proc/${member}/environ`).includes(mark))
}

/** Members that have ended, and that nobody has asked about yet, do not run. */
function runs(group: Group): boolean {
  return process.platform === 'linux' ? membersOf(group.pid).length > 0 : exists(group)
}

function exists({ pid }: Group): boolean {
  try {
    process.kill(-pid, 0)
    return true
  } catch {
    return false
  }
}

function send({ pid }: Group, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // Nobody of the group is left.
  }
}

function membersOf(group: number): readonly number[] {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  return pids.filter((pid) => {
    const [state, , pgrp] = fieldsOf(pid)
    return Number(pgrp) === group && !hasEnded(state)
  })
}

/** When a process began, as a text to compare; empty if nobody tells. */
async function beganAt(pid: number): Promise<string> {
  if (process.platform === 'linux') return beginningOf(pid)
  return new Promise((resolve) => {
    execFile('ps', ['-o', 'lstart=', '-p', String(pid)], { env: { LC_ALL: 'C' } }, (_, out) =>
      resolve(String(out ?? '').trim()),
    )
  })
}

function machine(): string {
  return machineParts().join('/').replace(/\s/g, '_')
}
