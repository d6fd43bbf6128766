// Owns how records of the log are read: batches of runs, as session.lua has written them.
// May never lose a record's number: a run says its first, and the rest follow in order.

import type { JobEvent, JobStatus } from '../../core/job.ts'
import type { EventPage } from '../../store/store.ts'
import { Reader } from './pack.ts'

const NO_EVENTS: readonly JobEvent[] = Object.freeze([])

/** The records of one batch, all of one instant. */
export function readBatch(packed: Buffer, at: number, after = 0): JobEvent[] {
  const reader = new Reader(packed)
  const events: JobEvent[] = []
  reader.list()
  reader.number()
  for (let runs = reader.list(); runs > 0; runs -= 1) readRun(reader, at, after, events)
  return events
}

function readRun(reader: Reader, at: number, after: number, events: JobEvent[]): void {
  reader.list()
  const first = reader.number()
  const type = reader.text()
  const pool = reader.text()
  const from = reader.textOr(null) as JobStatus | null
  const to = reader.text() as JobStatus
  const event = reader.text()
  const code = reader.textOr(undefined)
  const cause = reader.textOr(undefined)
  const worker = reader.textOr(undefined)
  const attempt = reader.number()
  const jobs = Array.from({ length: reader.list() }, () => reader.text())
  for (const [place, job] of jobs.entries()) {
    const seq = first + place
    if (seq <= after) continue
    events.push({
      seq,
      at,
      job,
      type,
      pool,
      from,
      to,
      attempt,
      event,
      ...(code === undefined ? {} : { code }),
      ...(cause === undefined ? {} : { cause }),
      ...(worker === undefined ? {} : { worker }),
    })
  }
}

/** What a call has logged, if it was asked to tell; then the instant of all that. */
export function readTold(reader: Reader): { events: readonly JobEvent[]; now: number } {
  const count = reader.skipFalse() ? 0 : reader.list()
  const batches = Array.from({ length: count }, () => reader.bytes())
  const now = reader.number()
  const events = count === 0 ? NO_EVENTS : batches.flatMap((batch) => readBatch(batch, now))
  return { events, now }
}

/** A page of the log: batches, the first record that retention has left, the last of all. */
export function readPage(reader: Reader, after: number, limit: number): EventPage {
  reader.list()
  const events: JobEvent[] = []
  for (let left = reader.list(); left > 0; left -= 1) {
    reader.list()
    reader.number()
    const at = reader.number()
    const batch = reader.bytes()
    if (events.length < limit) events.push(...readBatch(batch, at, after))
  }
  return { events: events.slice(0, limit), oldest: reader.number(), last: reader.number() }
}
