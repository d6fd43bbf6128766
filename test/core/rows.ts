// Owns what the tests of the machine share: a job for every state, and every fact.
// May never say what is to become of them: that is written in the tests.

import type { Fact, Move, StoredJob } from '../../src/core/job.ts'
import { decide, type Keep } from '../../src/core/machine.ts'
import { HOLD, jobOf, LEASE, TERMS } from './helpers.ts'

export const KEEP: Keep = {
  successMs: 1_000,
  failedMs: 2_000,
  cancelledMs: 3_000,
  outcomesMs: 4_000,
  logMs: 5_000,
}

export const ERROR = { name: 'Error', message: 'No.', code: 'BOOM' }

/**
 * `left`: an attempt is left. `last`: none is. `once`: not idempotent. `asks`: neither, but its
 * type can be asked (`confirm`). `revived`: just allowed.
 */
export const ROWS: Readonly<Record<string, StoredJob>> = {
  pending: jobOf({ availableAt: 9_000 }),
  waiting: jobOf({ status: 'waiting', needs: 1, open: 1, deps: [{ id: 'b', on: 'success' }] }),
  'waiting, doomed': jobOf({ status: 'waiting', needs: 1, open: 0, cause: 'b', deadline: 2_000 }),
  ready: jobOf({ status: 'ready', enqueueTimeoutMs: 50, deadline: 1_050 }),
  'running, left': running({ retries: 2 }),
  'running, last': running({ retries: 0 }),
  'running, once, left': running({ retries: 2, idempotent: false }),
  'running, once, last': running({ retries: 0, idempotent: false }),
  'running, asks, left': running({ retries: 2, idempotent: false, confirm: true }),
  'running, asks, last': running({ retries: 0, idempotent: false, confirm: true }),
  'running, lost 3x': running({ retries: 0 }, { starts: 4, lost: 3 }),
  'running, revived': running(
    { retries: 1 },
    { starts: 7, attempts: 2, attemptsBefore: 1, lost: 5, lostBefore: 3 },
  ),
  success: ended('success'),
  failed: ended('failed'),
  cancelled: ended('cancelled'),
  'cancelled, held': { ...ended('cancelled'), lease: HOLD },
}

export const FACTS: Readonly<Record<string, Fact>> = {
  succeeded: { type: 'succeeded', result: '1' },
  'failed, retryable': { type: 'failed', error: ERROR, retryable: true },
  'failed, lasting': { type: 'failed', error: ERROR, retryable: false },
  'failed, transient': { type: 'failed', error: ERROR, retryable: true, transient: true },
  'failed, asked': { type: 'failed', error: ERROR, retryable: true, asked: true },
  timedOut: { type: 'timedOut' },
  'timedOut, silent': { type: 'timedOut', silent: true },
  preempted: { type: 'preempted' },
  'preempted, unbegun': { type: 'preempted', unbegun: true },
  returned: { type: 'returned' },
  'returned, unbegun': { type: 'returned', unbegun: true },
  abandoned: { type: 'abandoned' },
  settled: { type: 'settled' },
  overdue: { type: 'overdue' },
  cancel: { type: 'cancel' },
  retry: { type: 'retry' },
}

export function running(
  terms: Partial<StoredJob['terms']>,
  fields: Partial<StoredJob> = {},
): StoredJob {
  return jobOf({
    status: 'running',
    terms: { ...TERMS, timeoutMs: 500, ...terms },
    lease: LEASE,
    starts: 1,
    attempts: 1,
    startedAt: 1_500,
    deadline: 2_000,
    ...fields,
  })
}

function ended(status: 'success' | 'failed' | 'cancelled'): StoredJob {
  return jobOf({ status, starts: 1, attempts: 1, finishedAt: 2_000, deadline: 3_000 })
}

export function moveOf(row: string, fact: string, keep = KEEP): Move | null {
  return decide(ROWS[row] as StoredJob, FACTS[fact] as Fact, keep)
}
