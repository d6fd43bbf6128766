// Owns what the tests of the core share: jobs and contexts with every field filled in.
// May never decide what is right: that is written in the tests.

import { isAxError } from '../../src/core/errors.ts'
import type { Lease, StoredJob, Terms } from '../../src/core/job.ts'
import type { SubmitContext } from '../../src/core/submit.ts'

export const TERMS: Terms = {
  timeoutMs: 0,
  retries: 0,
  backoff: { type: 'exponential', delayMs: 1_000, maxMs: 30_000, factor: 2, jitter: true },
  maxLost: 3,
  idempotent: true,
  confirm: false,
  heartbeatMs: 0,
  preemptible: false,
}

export const LEASE: Lease = { holder: 'w1', number: 7, hold: false }
export const HOLD: Lease = { holder: 'w1', number: 8, hold: true }

/** A pending job that nothing has happened to, but for what is given. */
export function jobOf(fields: Partial<StoredJob> = {}): StoredJob {
  return {
    id: 'a',
    seq: 1,
    rev: 5,
    type: 'mail',
    pool: 'default',
    flow: undefined,
    payload: undefined,
    body: undefined,
    terms: TERMS,
    priority: 50,
    weight: 0,
    rank: 0,
    status: 'pending',
    deps: [],
    depMode: 'all',
    needs: 0,
    open: 0,
    key: undefined,
    keyForMs: 0,
    exclusive: undefined,
    enqueueTimeoutMs: 0,
    starts: 0,
    attempts: 0,
    lost: 0,
    preempted: 0,
    attemptsBefore: 0,
    lostBefore: 0,
    lease: undefined,
    unknown: false,
    evictor: undefined,
    deadline: 0,
    createdAt: 1_000,
    availableAt: 1_000,
    startedAt: 0,
    finishedAt: 0,
    result: undefined,
    error: undefined,
    code: undefined,
    cause: undefined,
    log: [],
    note: undefined,
    ...fields,
  }
}

/** What a submission meets in a store that keeps data only. */
export function contextOf(fields: Partial<SubmitContext> = {}): SubmitContext {
  let minted = 0
  return {
    isMade: () => false,
    mint: () => {
      minted += 1
      return `minted-${minted}`
    },
    maxPayloadBytes: 1_000_000,
    keepsLive: false,
    storeName: 'sqlite',
    ...fields,
  }
}

export interface Refused {
  readonly code: string
  readonly message: string
  readonly [detail: string]: unknown
}

/** The refusal that a call ends in, as plain data; fails if it is not an error of ax. */
export function refusalOf(call: () => unknown): Refused {
  let answer: unknown
  try {
    answer = call()
  } catch (error) {
    if (!isAxError(error)) throw error
    return { ...error, code: error.code, message: error.message }
  }
  throw new Error(`It was not refused but answered ${JSON.stringify(answer)}.`)
}
