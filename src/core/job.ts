// Owns the nouns of the scheduler: job, lease, move, fact, event. Types and tiny constants only.
// May never decide, and may never know how a store keeps any of this.

export const STATUSES = [
  'pending',
  'waiting',
  'ready',
  'running',
  'success',
  'failed',
  'cancelled',
] as const

/**
 * `pending`: its time has not come. `waiting`: for other jobs, or for its lane. `ready`: for a
 * slot. `running`: one worker holds its lease. The other three are ends.
 */
export type JobStatus = (typeof STATUSES)[number]

/** True for a status that only `retry`, or being forgotten, can change. */
export function hasEnded(status: JobStatus): boolean {
  return status === 'success' || status === 'failed' || status === 'cancelled'
}

/** `on: 'success'` wants a success; `on: 'end'` is content with any end. */
export interface Dep {
  readonly id: string
  readonly on: 'success' | 'end'
}

export type DepMode = 'all' | 'any' | number

/**
 * A value that is kept by reference, for a job that carries its own `execute`.
 * Only a store inside this process can keep one; every other value at rest is JSON text.
 */
export class Live {
  readonly value: unknown
  constructor(value: unknown) {
    this.value = value
  }
}

/** A value at rest: JSON text, a box by reference, or nothing. */
export type Stored = string | Live | undefined

/** An error as data. `code` is the error's own string code, if it had one. */
export interface ErrorData {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
}

/** How long to wait before the next attempt, as data. A function runs where the handler is. */
export interface BackoffTerms {
  readonly type: 'fixed' | 'exponential'
  readonly delayMs: number
  readonly maxMs: number
  readonly factor: number
  readonly jitter: boolean
  /** Somebody has asked for it: no function of the type goes over it. Absent: nobody has. */
  readonly described?: true
}

/**
 * What was agreed about running a job, fixed at submission. Opaque to stores: they keep it and
 * hand it back. Jobs of one type share one object where they ask for nothing of their own.
 */
export interface Terms {
  /** 0: none. Counted per attempt, from its start. */
  readonly timeoutMs: number
  readonly retries: number
  readonly backoff: BackoffTerms
  /** How many times a lost job runs again. */
  readonly maxLost: number
  /** False: after an unknown outcome there is no other start, unless `confirm` allows it. */
  readonly idempotent: boolean
  /** Its type can be asked whether an attempt whose outcome is unknown has taken effect. */
  readonly confirm: boolean
  /** 0: none. An attempt that shows no progress for so long is aborted. */
  readonly heartbeatMs: number
  /** An urgent job may take its slot. */
  readonly preemptible: boolean
}

/** One start of a job. `number` counts all starts from 1; `outcome` is absent while it runs. */
export interface Attempt {
  readonly attempt: number
  readonly startedAt: number
  readonly queuedMs: number
  readonly worker: string
  readonly callMs?: number
  readonly outcome?: Outcome
  readonly code?: string
}

export type Outcome =
  | 'success'
  | 'failure'
  | 'timeout'
  | 'lost'
  | 'returned'
  | 'preempted'
  | 'cancelled'

/**
 * The right to run a job, or, as a hold, the slot and the lane of a cancelled one whose body has
 * not settled yet. Numbers grow over the whole store and are never used twice.
 */
export interface Lease {
  readonly holder: string
  readonly number: number
  readonly hold: boolean
}

/** A job as it is handed to a store. Durations only: the store's clock makes instants of them. */
export interface NewJob {
  readonly id: string
  readonly type: string
  readonly pool: string
  readonly flow: string | undefined
  readonly payload: Stored
  /** The job's own handler, by reference; the store passes it through. */
  readonly body: unknown
  readonly terms: Terms
  readonly priority: number
  readonly delayMs: number
  readonly enqueueTimeoutMs: number
  readonly deps: readonly Dep[]
  readonly depMode: DepMode
  readonly key: string | undefined
  /** For how long a success goes on holding the key. */
  readonly keyForMs: number
  readonly exclusive: string | undefined
  /** True if ax made the id up: then a taken key answers with its owner instead of refusing. */
  readonly minted: boolean
}

/**
 * A job as a store knows it. Treat it as a view that may be older than the truth: whatever is
 * decided on it is written by compare-and-set. Instants are epoch milliseconds on the store's
 * clock; 0 stands for "none".
 */
export interface StoredJob {
  readonly id: string
  /** The order of insertion; ties of rank are broken by it. */
  readonly seq: number
  /** Grows with every decision about the job. */
  readonly rev: number
  readonly type: string
  readonly pool: string
  readonly flow: string | undefined
  readonly payload: Stored
  readonly body: unknown
  readonly terms: Terms
  readonly priority: number
  /** How much earlier than its time it ranks; see rank.ts. */
  readonly weight: number
  readonly rank: number
  readonly status: JobStatus
  readonly deps: readonly Dep[]
  readonly depMode: DepMode
  /** Successes still missing, and dependencies that can still deliver. `open < needs`: doomed. */
  readonly needs: number
  readonly open: number
  readonly key: string | undefined
  readonly keyForMs: number
  readonly exclusive: string | undefined
  readonly enqueueTimeoutMs: number
  /** All starts so far: the number of the latest attempt. */
  readonly starts: number
  /** Starts charged to the job; lost ones have a count of their own. */
  readonly attempts: number
  readonly lost: number
  readonly preempted: number
  /** What `attempts` and `lost` were when the job was last revived: allowances count from there. */
  readonly attemptsBefore: number
  readonly lostBefore: number
  readonly lease: Lease | undefined
  /** The outcome of its latest attempt is unknown: whoever can be asked is asked first. */
  readonly unknown: boolean
  /** The urgent job for which it has been told to give up its slot. */
  readonly evictor: string | undefined
  /** When somebody has to decide about it; 0 for never. */
  readonly deadline: number
  readonly createdAt: number
  /** When it became, or becomes, ready by the clock. */
  readonly availableAt: number
  readonly startedAt: number
  readonly finishedAt: number
  readonly result: Stored
  readonly error: ErrorData | undefined
  readonly code: string | undefined
  /** The job whose failure or cancellation cancelled this one. */
  readonly cause: string | undefined
  readonly log: readonly Attempt[]
  /** What its latest holder to say anything has written down about its attempt. */
  readonly note: string | undefined
}

/** Something that happened to a job. */
export type Fact =
  | { readonly type: 'succeeded'; readonly result: Stored }
  | {
      readonly type: 'failed'
      readonly error: ErrorData
      /** What the type's own rule, or the default one, says of the error. */
      readonly retryable: boolean
      /** From a back-off function; otherwise the terms decide. */
      readonly delayMs?: number
      /** A lower bound that the downstream asked for. */
      readonly retryAfterMs?: number
      /** It shows that the downstream is ill, not the job. */
      readonly transient?: boolean
      /** Not the body has failed, but the question whether an earlier one had taken effect. */
      readonly asked?: boolean
    }
  /** `silent`: not the timeout is over, but it has shown no progress for too long. */
  | { readonly type: 'timedOut'; readonly delayMs?: number; readonly silent?: boolean }
  /** An urgent job took its slot. `unbegun`: before its body had been called. */
  | { readonly type: 'preempted'; readonly unbegun?: boolean }
  /** A stop has aborted it; `unbegun`: before its body had been called. */
  | { readonly type: 'returned'; readonly unbegun?: boolean }
  /** The holder could not reach the store in time and has stopped the body by its own clock. */
  | { readonly type: 'abandoned' }
  /** The body of a cancelled job has ended, or its grace has. */
  | { readonly type: 'settled' }
  | { readonly type: 'overdue' }
  | { readonly type: 'cancel'; readonly reason?: string }
  | { readonly type: 'retry' }

export type FactType = Fact['type']

/**
 * What a move compares before it happens: the lease, or the revision. An id may come back once it
 * has been forgotten, so a revision counts only together with `seq`, which never does.
 */
export type Expect =
  | { readonly lease: number }
  | { readonly seq: number; readonly rev: number; readonly overdue: boolean }

/** How the open attempt is booked. */
export type Charge = 'attempt' | 'lost' | 'preempted' | 'free'

/** What an attempt shows of the downstream; only success and failure say anything. */
export type Verdict = 'success' | 'failure' | 'neutral'

/** A decision, as data: the only way to change a job that is not plain arithmetic. */
export interface Move {
  readonly id: string
  readonly expect: Expect
  readonly step: StepName
  /** Where it goes. A store may land `ready` in `pending` or `waiting` by its rules. */
  readonly to: JobStatus | 'gone'
  /** For a job that will run again: not before this long from now. */
  readonly delayMs: number
  /** True: it goes back to its old place in line. */
  readonly keepRank: boolean
  readonly charge: Charge
  readonly outcome: Outcome | undefined
  readonly code: string | undefined
  readonly result: Stored
  readonly error: ErrorData | undefined
  /** For an end: how long the record is kept. For `gone`: how long its outcome is. */
  readonly keepMs: number
  /** Whether it is unknown afterwards if it took effect; undefined: as it was. */
  readonly unknown: boolean | undefined
  /** For the breaker of its pool. */
  readonly verdict: Verdict
}

export type StepName =
  | 'add'
  | 'release'
  | 'due'
  | 'admit'
  | 'yield'
  | 'lease'
  | 'unheard'
  | 'succeed'
  | 'fail'
  | 'retry'
  | 'timeout'
  | 'lose'
  | 'return'
  | 'preempt'
  | 'cancel'
  | 'settle'
  | 'expire'
  | 'cascade'
  | 'revive'
  | 'forget'

/** One transition, as the store's log keeps it. */
export interface JobEvent {
  readonly seq: number
  readonly at: number
  readonly job: string
  readonly type: string
  readonly pool: string
  readonly from: JobStatus | null
  readonly to: JobStatus
  readonly attempt: number
  readonly event: string
  readonly code?: string
  readonly cause?: string
  readonly worker?: string
}
