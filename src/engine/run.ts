// Owns one attempt in this process: its lease, its signal, and what was done to it by force.
// May never write to the store: it says what happened, the worker writes.

import { AxError } from '../core/errors.ts'
import type { Fact, Lease, StoredJob } from '../core/job.ts'
import type { Holder } from '../kit/nested/graph.ts'
import { awaiter, nameHolder } from '../kit/nested/trace.ts'
import type { Opened } from '../kit/resources.ts'
import type { Timer } from '../kit/runtime.ts'

/**
 * Why a body was told to stop. A mark decides what the attempt counts as, unless the body still
 * succeeds in time. `fenced`: the store has been out of reach for as long as the lease is safe,
 * so whether it is lost is unknown. `lost`: the store has said so.
 */
export type Mark = 'timeout' | 'silent' | 'preempted' | 'stop' | 'fenced' | 'cancelled' | 'lost'

/** A body is told to stop, or not started, this share of a lease before that can be lost. */
export const MARGIN = 1 / 10

export class Run {
  readonly job: StoredJob
  readonly lease: Lease
  /** The number of this start. */
  readonly attempt: number
  /** On this process's monotonic clock. */
  readonly startedAt: number
  /** Until then, on the same clock, nobody can have taken the lease away. */
  safeUntil: number
  /** Once the job is cancelled: what its lease has become. */
  hold: Lease | undefined = undefined
  mark: Mark | undefined = undefined
  /** Whether an earlier attempt has taken effect is being asked; the body has not been called. */
  asking = false
  /** The body has been called. */
  begun = false
  /** The body has returned or thrown. */
  settled = false
  /** Its grace is over, and the body has not settled. */
  outlived = false
  /** And it has given up its lease: whatever the body does, nobody listens. */
  left = false
  progress: unknown = undefined
  /** What its body has written down: each heartbeat says it. */
  note: string | undefined = undefined
  /** The urgent job that takes its slot. */
  evictor: string | undefined = undefined
  /** When it last showed that it is alive; kept only where it has to. */
  aliveAt = 0
  /** What its body has open, if that is followed. */
  opened: Opened | undefined = undefined
  timeout: Timer | undefined = undefined
  pulse: Timer | undefined = undefined
  grace: Timer | undefined = undefined
  /** In the list of what this process holds. */
  place = -1
  /** The promise in which its body ends: nobody else waits for it. */
  end: Promise<unknown> | undefined = undefined
  #body: Body | undefined = undefined
  #controller: AbortController | undefined = undefined
  #reason: AxError | undefined = undefined

  constructor(job: StoredJob, lease: Lease, now: number, safeUntil: number) {
    this.job = job
    this.lease = lease
    this.attempt = job.starts
    this.startedAt = now
    this.safeUntil = safeUntil
  }

  /** Its body, for whoever looks for loops. Made when somebody does: few ever do. */
  get body(): Body {
    this.#body ??= new Body(this)
    return this.#body
  }

  /** Whether its body runs, and holds what the job holds. */
  get isBusy(): boolean {
    return this.begun && !this.settled && !this.left
  }

  /** Whether its body keeps the slot although its grace is over. */
  get isStuck(): boolean {
    return this.outlived && !this.left && !this.settled
  }

  /** Whether that is the signal that its body was given. */
  gave(signal: AbortSignal): boolean {
    return this.#controller?.signal === signal
  }

  /** Made when the body first asks for it: a signal is the dearest part of an attempt. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** Marks the attempt and aborts its body. The first mark stays, but the store's word wins. */
  abort(mark: Mark): void {
    if (this.mark === undefined || mark === 'lost' || mark === 'cancelled') this.mark = mark
    if (this.#reason !== undefined) return
    this.#reason = reasonOf(mark, this)
    this.#controller?.abort(this.#reason)
  }

  /** Whether the store still says that this attempt is the one. */
  get isCurrent(): boolean {
    const { lease } = this.job
    return lease?.number === this.lease.number && !lease.hold
  }

  /** Whether what the body says still matters: not after its end, a cancel, a loss or its grace. */
  get counts(): boolean {
    return !this.settled && !this.left && this.mark !== 'cancelled' && this.mark !== 'lost'
  }

  /** What an attempt that did not succeed counts as; null where nothing is to be written. */
  forced(): Fact | null {
    const unbegun = !this.begun
    switch (this.mark) {
      case 'timeout':
        return { type: 'timedOut' }
      case 'silent':
        return { type: 'timedOut', silent: true }
      case 'preempted':
        return { type: 'preempted', unbegun }
      case 'stop':
        return { type: 'returned', unbegun }
      case 'fenced':
        return unbegun ? { type: 'returned', unbegun } : { type: 'abandoned' }
      case 'cancelled':
        return { type: 'settled' }
      default:
        return null
    }
  }

  clear(): void {
    this.timeout?.cancel()
    this.pulse?.cancel()
    this.grace?.cancel()
  }
}

/** The body of an attempt, as something that can be waited for. */
export class Body implements Holder {
  readonly name = nameHolder()
  /** An attempt has one body. */
  readonly turn = 0
  readonly #run: Run
  #marked = false

  constructor(run: Run) {
    this.#run = run
  }

  get busy(): boolean {
    return this.#run.isBusy
  }

  mark(): void {
    const { end } = this.#run
    if (end === undefined || this.#marked) return
    this.#marked = true
    awaiter(this.name, async () => {
      await end
    })()
  }
}

function reasonOf(mark: Mark, { job, evictor }: Run): AxError {
  const details = { jobId: job.id }
  switch (mark) {
    case 'timeout':
      return new AxError(
        'EXECUTION_TIMEOUT',
        `Job ${job.id} ran longer than its timeout of ${job.terms.timeoutMs} ms.`,
        details,
      )
    case 'silent':
      return new AxError(
        'HEARTBEAT_LOST',
        `Job ${job.id} showed no progress for its heartbeat of ${job.terms.heartbeatMs} ms.`,
        details,
      )
    case 'preempted':
      return new AxError(
        'PREEMPTED',
        `Job ${job.id} goes back: the urgent job ${evictor ?? 'of another'} takes its slot.`,
        { ...details, evictor },
      )
    case 'stop':
      return new AxError('CLOSED', `Job ${job.id} goes back: its worker is stopping.`, details)
    case 'cancelled':
      return new AxError('CANCELLED', `Job ${job.id} was cancelled.`, details)
    case 'fenced':
    case 'lost':
      return new AxError(
        'LEASE_LOST',
        `Job ${job.id} no longer belongs to this worker: its lease ran out, or is about to.`,
        details,
      )
  }
}
