// Owns the ledger that processes of the crash suite keep beside the file: what they were told, and
// what their bodies did. One line each, appended at once, so that it outlives whoever wrote it.

import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs'

/**
 * - `ask`: a process is about to submit; the ids of one call, which is all or nothing
 * - `ack`: it was told that a job is stored
 * - `start`, `effect`: a body began, and did what it is for: id, attempt, idempotency key
 * - `end`: that body is over, however it went
 * - `result`: somebody was told that the job has succeeded
 * - `death`: the point at which a process has ended itself
 */
export type Kind = 'ask' | 'ack' | 'start' | 'effect' | 'end' | 'result' | 'death'

export type Entry = readonly [kind: Kind, ...words: string[]]

export class Ledger {
  readonly #file: number

  constructor(path: string) {
    this.#file = openSync(path, 'a')
  }

  note(...entry: Entry): void {
    writeSync(this.#file, `${entry.join('\t')}\n`)
  }

  close(): void {
    closeSync(this.#file)
  }
}

/** Whole lines only: one may be on its way. */
export function readLedger(path: string): readonly Entry[] {
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => entryOf(line))
}

function entryOf(line: string): Entry {
  const [kind = '', ...words] = line.split('\t')
  return [kind as Kind, ...words]
}
