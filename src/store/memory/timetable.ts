// Owns the rows of schedules, and which of them has come to its instant.
// May never know what a cron expression means: whoever makes the jobs says what comes next.

import type { Schedule } from '../../core/settings.ts'
import { Heap } from '../../kit/heap.ts'

/** A row and its place in the heap of instants. */
interface Entry {
  row: Schedule
  at: number
}

export class Timetable {
  readonly #entries = new Map<string, Entry>()
  readonly #instants = new Heap<Entry>((entry, index) => {
    entry.at = index
  })

  /** The nearest instant, which may have passed; Infinity without schedules. */
  get nextAt(): number {
    return this.#instants.peekKey()
  }

  /** All rows, in order of name. */
  get rows(): readonly Schedule[] {
    return [...this.#entries.values()].map(({ row }) => row).sort(byName)
  }

  /** A row, or null to take it away. What says the same of the same job keeps its instant. */
  set(name: string, row: Schedule | null): void {
    const entry = this.#entries.get(name)
    if (row === null) {
      if (entry !== undefined) this.#instants.remove(entry.at)
      this.#entries.delete(name)
    } else if (entry === undefined) {
      const fresh = { row, at: -1 }
      this.#entries.set(name, fresh)
      this.#instants.push(fresh, row.nextAt, 0)
    } else this.#move(entry, isSame(entry.row, row) ? entry.row.nextAt : row.nextAt, row)
  }

  /** Whether the row is there and has not moved on from this instant. */
  stands(name: string, at: number): boolean {
    return this.#entries.get(name)?.row.nextAt === at
  }

  moveOn(name: string, nextAt: number): void {
    const entry = this.#entries.get(name)
    if (entry !== undefined) this.#move(entry, nextAt, entry.row)
  }

  /** The rows whose instant has come, by (instant, name). O(1) if there is none. */
  due(now: number, limit: number): readonly Schedule[] {
    if (this.#instants.peekKey() > now) return NO_ROWS
    const due: Entry[] = []
    while (this.#instants.peekKey() <= now) due.push(this.#instants.pop() as Entry)
    for (const entry of due) this.#instants.push(entry, entry.row.nextAt, 0)
    const rows = due.map(({ row }) => row)
    return rows.sort((a, b) => a.nextAt - b.nextAt || byName(a, b)).slice(0, limit)
  }

  #move(entry: Entry, nextAt: number, row: Schedule): void {
    entry.row = { ...row, nextAt }
    this.#instants.update(entry.at, nextAt, 0)
  }
}

const NO_ROWS: readonly Schedule[] = Object.freeze([])

function isSame(a: Schedule, b: Schedule): boolean {
  return a.cron === b.cron && a.timeZone === b.timeZone && a.template === b.template
}

function byName(a: Schedule, b: Schedule): number {
  return a.name < b.name ? -1 : 1
}
