// Owns what a worker prints: a line for each thing that happens, for people or for programs.
// May never let what comes from outside break a line.

import type { JobEvent } from '../core/job.ts'
import type { Logger } from '../engine/logger.ts'
import { clockTime, firstLine } from './render.ts'
import { oneLine, padEnd } from './text.ts'

export interface Teller {
  /** Something about the worker itself: as an object for programs, as a sentence for people. */
  say(fact: { readonly event: string } & Readonly<Record<string, unknown>>, text: string): void
  /** A job has begun here, or is over here; `why` is its latest error, if that is the reason. */
  transition(event: JobEvent, why: string | undefined): void
  /** Warnings go to standard error, so that they are seen wherever the lines go. */
  readonly logger: Logger
}

/** Ids of a usual length stand in a column. */
const ID_WIDTH = 24

export function openTeller(json: boolean): Teller {
  const print = (line: string) => void process.stdout.write(`${line}\n`)
  const warn = (_: object, message = '') => void process.stderr.write(`${oneLine(message)}\n`)
  return {
    say(fact, text) {
      if (json) print(JSON.stringify({ at: Date.now(), ...fact }))
      else print(`${clockTime(Date.now())}  ${oneLine(text)}`)
    },
    transition(event, why) {
      if (!json) print(lineOf(event, why))
      else print(JSON.stringify(why === undefined ? event : { ...event, message: why }))
    },
    logger: { info() {}, warn, error: warn },
  }
}

/** When, which job, what has become of it, of which type it is, which attempt it was, and why. */
function lineOf({ at, job, event, type, attempt, code }: JobEvent, why: string | undefined) {
  const parts = [
    clockTime(at),
    padEnd(oneLine(job), ID_WIDTH),
    padEnd(event.replace('job:', ''), 'preempted'.length),
    type,
    `attempt ${attempt}`,
    ...(code === undefined ? [] : [why === undefined ? code : `${code}: ${firstLine(why)}`]),
  ]
  return parts.map(oneLine).join('  ')
}
