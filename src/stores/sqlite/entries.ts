// Owns the log in the file: the entries of one transaction as few rows, and how they read again.
// May never lose an entry's number: a batch says its first, and the rest follow in order.

import type { JobEvent, JobStatus } from '../../core/job.ts'

/** Entries in a row at most: a page of the log reads no more than it shows, and this much. */
const MOST = 1_000

/** A row of `batch`. */
export interface Batch {
  readonly first: number
  readonly last: number
  readonly at: number
  readonly entries: string
}

/**
 * Entries that follow each other and differ in job and attempt only: a lease of a hundred jobs
 * writes its names once.
 */
interface Run {
  readonly first: number
  readonly type: string
  readonly pool: string
  readonly from: JobStatus | null
  readonly to: JobStatus
  readonly event: string
  readonly code?: string
  readonly cause?: string
  readonly worker?: string
  readonly jobs: string[]
  readonly attempts: number[]
}

/** The rows for the entries of one transaction: all of one instant, in order of their numbers. */
export function entriesOf(events: readonly JobEvent[]): readonly Batch[] {
  const batches: Batch[] = []
  for (let start = 0; start < events.length; start += MOST) {
    const some = start === 0 && events.length <= MOST ? events : events.slice(start, start + MOST)
    const first = some[0] as JobEvent
    const last = some.at(-1) as JobEvent
    const entries = JSON.stringify(runsOf(some))
    batches.push({ first: first.seq, last: last.seq, at: first.at, entries })
  }
  return batches
}

function runsOf(events: readonly JobEvent[]): readonly Run[] {
  const runs: Run[] = []
  let run: Run | undefined
  for (const event of events) {
    if (run === undefined || !continues(run, event)) {
      const { seq, at: _, job: __, attempt: ___, ...same } = event
      run = { first: seq, ...same, jobs: [], attempts: [] }
      runs.push(run)
    }
    run.jobs.push(event.job)
    run.attempts.push(event.attempt)
  }
  return runs
}

function continues(run: Run, event: JobEvent): boolean {
  return (
    run.event === event.event &&
    run.to === event.to &&
    run.from === event.from &&
    run.type === event.type &&
    run.pool === event.pool &&
    run.worker === event.worker &&
    run.code === event.code &&
    run.cause === event.cause
  )
}

/** The entries of a row after a number, in order. */
export function eventsOf({ at, entries }: Batch, after: number): JobEvent[] {
  const events: JobEvent[] = []
  for (const { first, jobs, attempts, ...same } of JSON.parse(entries) as Run[]) {
    for (let place = Math.max(0, after + 1 - first); place < jobs.length; place += 1) {
      const job = jobs[place] as string
      const attempt = attempts[place] as number
      events.push({ ...same, seq: first + place, at, job, attempt } as JobEvent)
    }
  }
  return events
}
