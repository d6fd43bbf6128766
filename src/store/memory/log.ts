// Owns the event log in memory: fixed-width rows in typed arrays, about 32 bytes an entry.
// May never keep more than its bound, or an entry older than it was told to.

import { type JobEvent, type JobStatus, STATUSES, type StepName } from '../../core/job.ts'
import { eventOf, STEPS } from '../../core/steps.ts'
import { LIMITS } from '../limits.ts'
import type { EventPage } from '../store.ts'
import type { JobRecord } from './record.ts'

const ROWS = 4096
const STEP_NAMES = Object.keys(STEPS) as StepName[]
const STEP_CODES = Object.fromEntries(STEP_NAMES.map((name, code) => [name, code])) as Record<
  StepName,
  number
>
const STATUS_CODES = Object.fromEntries(STATUSES.map((name, code) => [name, code])) as Record<
  JobStatus,
  number
>
/** Stands for "did not exist before". */
const NEW = 7

/** What only some entries have. */
interface Detail {
  readonly code: string | undefined
  readonly cause: string | undefined
}

class Chunk {
  readonly at = new Float64Array(ROWS)
  readonly jobs = new Array<string>(ROWS)
  /** Bits 0-2: from; 3-5: to; from 6 on: the step. */
  readonly steps = new Uint16Array(ROWS)
  readonly attempts = new Uint32Array(ROWS)
  readonly kinds = new Uint32Array(ROWS)
  readonly workers = new Uint32Array(ROWS)
  readonly details = new Map<number, Detail>()
}

export class Log {
  readonly #max: number
  readonly #chunks = new Map<number, Chunk>()
  readonly #kindNumbers = new Map<string, number>()
  readonly #kinds: { readonly type: string; readonly pool: string }[] = []
  readonly #workers = new Map<string, number>()
  readonly #workerNames: string[] = ['']
  #chunk = new Chunk()
  #chunkAt = -1
  #oldest = 1
  #last = 0

  constructor(max: number = LIMITS.memoryLog) {
    this.#max = max
  }

  get last(): number {
    return this.#last
  }

  /** A number for a pool and type, so that entries need not repeat their names. */
  readonly kindOf = (type: string, pool: string): number => {
    const name = JSON.stringify([type, pool])
    const known = this.#kindNumbers.get(name)
    if (known !== undefined) return known
    this.#kindNumbers.set(name, this.#kinds.length)
    return this.#kinds.push({ type, pool }) - 1
  }

  append(
    record: JobRecord,
    step: StepName,
    from: JobStatus | null,
    at: number,
    worker: string | undefined,
    code: string | undefined,
    cause: string | undefined,
  ): void {
    this.#last += 1
    const chunk = this.#chunkOf(this.#last)
    const row = this.#last % ROWS
    const before = from === null ? NEW : STATUS_CODES[from]
    chunk.at[row] = at
    chunk.jobs[row] = record.id
    chunk.steps[row] = before | (STATUS_CODES[record.status] << 3) | (STEP_CODES[step] << 6)
    chunk.attempts[row] = record.starts
    chunk.kinds[row] = record.queue.kind
    chunk.workers[row] = worker === undefined ? 0 : this.#workerOf(worker)
    if (code !== undefined || cause !== undefined) chunk.details.set(row, { code, cause })
    if (this.#last - this.#oldest >= this.#max) this.#drop()
  }

  /** The entries after `after`, at most `limit`. */
  page(after: number, limit: number): EventPage {
    const events: JobEvent[] = []
    const first = Math.max(after + 1, this.#oldest)
    const end = Math.min(this.#last, first + limit - 1)
    for (let seq = first; seq <= end; seq += 1) events.push(this.#read(seq))
    return { events, oldest: this.#oldest, last: this.#last }
  }

  /** When the oldest entry was written; Infinity if there is none. */
  get oldestAt(): number {
    if (this.#oldest > this.#last) return Number.POSITIVE_INFINITY
    const chunk = this.#chunks.get(Math.floor(this.#oldest / ROWS)) as Chunk
    return chunk.at[this.#oldest % ROWS] as number
  }

  /** Drops entries from before `time`, at most `limit` of them. */
  prune(time: number, limit: number): void {
    for (let count = 0; count < limit && this.oldestAt < time; count += 1) this.#drop()
  }

  #drop(): void {
    this.#oldest += 1
    if (this.#oldest % ROWS === 0) this.#chunks.delete(this.#oldest / ROWS - 1)
  }

  #chunkOf(seq: number): Chunk {
    const index = Math.floor(seq / ROWS)
    if (index === this.#chunkAt) return this.#chunk
    this.#chunk = new Chunk()
    this.#chunkAt = index
    this.#chunks.set(index, this.#chunk)
    return this.#chunk
  }

  #workerOf(name: string): number {
    const known = this.#workers.get(name)
    if (known !== undefined) return known
    const number = this.#workerNames.push(name) - 1
    this.#workers.set(name, number)
    return number
  }

  #read(seq: number): JobEvent {
    const chunk = this.#chunks.get(Math.floor(seq / ROWS)) as Chunk
    const row = seq % ROWS
    const packed = chunk.steps[row] as number
    const kind = this.#kinds[chunk.kinds[row] as number]
    const to = STATUSES[(packed >> 3) & 7] as JobStatus
    const step = STEP_NAMES[packed >> 6] as StepName
    const detail = chunk.details.get(row)
    const worker = this.#workerNames[chunk.workers[row] as number]
    return {
      seq,
      at: chunk.at[row] as number,
      job: chunk.jobs[row] as string,
      type: kind?.type ?? '',
      pool: kind?.pool ?? '',
      from: (packed & 7) === NEW ? null : (STATUSES[packed & 7] as JobStatus),
      to,
      attempt: chunk.attempts[row] as number,
      event: eventOf(step, to),
      ...(detail?.code === undefined ? {} : { code: detail.code }),
      ...(detail?.cause === undefined ? {} : { cause: detail.cause }),
      ...(worker === '' || worker === undefined ? {} : { worker }),
    }
  }
}
