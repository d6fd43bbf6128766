// Owns the rows of schedules, and which of them has come to its instant.
// May never know what a cron expression means: whoever makes the jobs says what comes next.

import { isSameSchedule, stillStands } from '../../core/schedule.ts'
import type { Schedule } from '../../core/settings.ts'
import { Heap } from '../../kit/heap.ts'
import type { Tick } from '../store.ts'

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

  /** All rows, in order of name. */
  get rows(): readonly Schedule[] {
    return [...this.#entries.values()].map(({ row }) => row).sort(byName)
  }

  /**
   * A row, or null to take it away. What comes at the same instants keeps its own, whatever its
   * job. Answers the instant; Infinity without a row.
   */
  set(name: string, row: Schedule | null): number {
    const entry = this.#entries.get(name)
    if (row === null) {
      if (entry !== undefined) this.#instants.remove(entry.at)
      this.#entries.delete(name)
      return NEVER
    }
    const nextAt =
      entry !== undefined && isSameSchedule(entry.row, row) ? entry.row.nextAt : row.nextAt
    if (entry !== undefined) this.#move(entry, nextAt, row)
    else {
      const fresh = { row, at: -1 }
      this.#entries.set(name, fresh)
      this.#instants.push(fresh, nextAt, 0)
    }
    return nextAt
  }

  /** Whether the row is there, says the same, and has not moved on from this instant. */
  stands({ of, at }: Tick): boolean {
    return stillStands(this.#entries.get(of.name)?.row, of, at)
  }

  moveOn(name: string, nextAt: number): void {
    const entry = this.#entries.get(name)
    if (entry !== undefined) this.#move(entry, nextAt, entry.row)
  }

  /**
   * The rows whose instant has come, by (instant, name), and the next instant of all others. O(1)
   * if there is none.
   */
  due(now: number, limit: number): { readonly rows: readonly Schedule[]; readonly nextAt: number } {
    const due: Entry[] = []
    while (this.#instants.peekKey() <= now) due.push(this.#instants.pop() as Entry)
    const later = this.#instants.peekKey()
    for (const entry of due) this.#instants.push(entry, entry.row.nextAt, 0)
    const rows = due.map(({ row }) => row)
    rows.sort((a, b) => a.nextAt - b.nextAt || byName(a, b))
    return { rows: rows.slice(0, limit), nextAt: rows[limit]?.nextAt ?? later }
  }

  #move(entry: Entry, nextAt: number, row: Schedule): void {
    entry.row = { ...row, nextAt }
    this.#instants.update(entry.at, nextAt, 0)
  }
}

const NEVER = Number.POSITIVE_INFINITY

function byName(a: Schedule, b: Schedule): number {
  return a.name < b.name ? -1 : 1
}
