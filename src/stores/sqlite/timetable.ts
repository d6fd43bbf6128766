// Owns the rows of schedules, and which of them has come to its instant.
// May never know what a cron expression means: whoever makes the jobs says what comes next.

import { isSameSchedule, stillStands } from '../../core/schedule.ts'
import type { Missed, Schedule } from '../../core/settings.ts'
import type { Tick } from '../../store/store.ts'
import type { Board } from './board.ts'
import type { Session } from './session.ts'

interface ScheduleColumns {
  readonly name: string
  readonly cron: string
  readonly time_zone: string | null
  readonly missed: Missed
  readonly template: string
  readonly next_at: number
}

function read({ name, cron, time_zone, missed, template, next_at }: ScheduleColumns): Schedule {
  return { name, cron, timeZone: time_zone, missed, template, nextAt: next_at }
}

/** All rows, in order of name. */
export function schedulesOf(session: Session): readonly Schedule[] {
  return session.all<ScheduleColumns>('schedules').map(read).sort(byName)
}

/** The rows whose instant has come, by (instant, name), and the next instant of all others. */
export function dueSchedules(
  session: Session,
  limit: number,
): { readonly rows: readonly Schedule[]; readonly nextAt: number } {
  const rows = session.all<ScheduleColumns>('dueSchedules', session.now).map(read)
  rows.sort((a, b) => a.nextAt - b.nextAt || byName(a, b))
  const later = session.number('nextSchedule', session.now) ?? Number.POSITIVE_INFINITY
  return { rows: rows.slice(0, limit), nextAt: rows[limit]?.nextAt ?? later }
}

/** A row, or null to take it away. What comes at the same instants keeps its own. */
export function setSchedule(board: Board, name: string, row: Schedule | null): void {
  const { session } = board
  session.facts.said = undefined
  if (row === null) session.run('removeSchedule', name)
  else {
    const known = scheduleBy(session, name)
    const nextAt = known !== undefined && isSameSchedule(known, row) ? known.nextAt : row.nextAt
    const { cron, timeZone, missed, template } = row
    session.run('setSchedule', name, cron, timeZone, missed, template, nextAt)
    board.scheduled(nextAt)
  }
}

/** Whether the row is there, says the same, and has not moved on from this instant. */
export function stands({ session }: Board, { of, at }: Tick): boolean {
  return stillStands(scheduleBy(session, of.name), of, at)
}

function scheduleBy(session: Session, name: string): Schedule | undefined {
  const found = session.first<ScheduleColumns>('schedule', name)
  return found === undefined ? undefined : read(found)
}

export function moveOn(board: Board, name: string, nextAt: number): void {
  board.session.facts.said = undefined
  board.session.run('moveSchedule', nextAt, name)
  board.scheduled(nextAt)
}

function byName(a: Schedule, b: Schedule): number {
  return a.name < b.name ? -1 : 1
}
