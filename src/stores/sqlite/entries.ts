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

/** The entries of one transaction: all of one instant, in order of their numbers. */
export class Log {
  #runs: Run[] = []
  #count = 0
  #full: Batch[] = []

  add(event: JobEvent): void {
    let run = this.#runs.at(-1)
    if (run === undefined || !continues(run, event)) {
      const { seq, at: _, job: __, attempt: ___, ...same } = event
      run = { first: seq, ...same, jobs: [], attempts: [] }
      this.#runs.push(run)
    }
    run.jobs.push(event.job)
    run.attempts.push(event.attempt)
    this.#count += 1
    if (this.#count === MOST) this.#close(event.at)
  }

  /** The same of another job. */
  again(event: JobEvent, job: string, seq: number): void {
    const run = this.#runs.at(-1)
    if (run === undefined || !continues(run, event)) {
      this.add({ ...event, job, seq })
      return
    }
    run.jobs.push(job)
    run.attempts.push(event.attempt)
    this.#count += 1
    if (this.#count === MOST) this.#close(event.at)
  }

  /** The rows for them. Afterwards there are none. */
  take(at: number): readonly Batch[] {
    if (this.#count > 0) this.#close(at)
    const batches = this.#full
    this.#full = []
    return batches
  }

  #close(at: number): void {
    const { first } = this.#runs[0] as Run
    const entries = JSON.stringify(this.#runs)
    this.#full.push({ first, last: first + this.#count - 1, at, entries })
    this.#runs = []
    this.#count = 0
  }
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
