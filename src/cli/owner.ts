// Owns becoming the one process of a run: whoever holds the lease of its head is that.
// May never start a job of the flow.

import type { JobContext } from '../core/types.ts'
import { AxScheduler, type Store } from '../index.ts'
import { systemRuntime } from '../kit/runtime.ts'
import { HEAD_POLICY, headOf, headType, KEEP_MS, type RunRef, wake } from './runs.ts'

/** Between two looks at who has the head. */
const LOOK_MS = 50

/** How long a head may look held by a process that has died: the store finds out in a moment. */
const DOUBT_MS = 500

export const KEEP = { success: KEEP_MS, failed: KEEP_MS, cancelled: KEEP_MS }

export interface Ownership {
  /** Of the head's attempt: what it submits is stored only while this process owns the run. */
  readonly context: JobContext
  /** How the run has ended. Without a word it is handed back, and can be resumed. */
  end(failure?: Error): void
}

/** A scheduler that only reads. */
export function openReader(store: Store): AxScheduler {
  const logger = { info() {}, warn() {}, error() {} }
  return new AxScheduler({ store, keep: KEEP, name: 'ax run', logger, autoStart: false })
}

/** A scheduler that keeps time, and runs nothing: leases of processes that have died run out. */
export async function openLookout(store: Store): Promise<AxScheduler> {
  const scheduler = openReader(store)
  await scheduler.start()
  return scheduler
}

/**
 * Resolves once this process owns the run; undefined if another one does, or this one is to stop.
 * `name` is that of the scheduler, which no other has.
 */
export async function own(
  scheduler: AxScheduler,
  name: string,
  store: Store,
  run: RunRef,
  stop: AbortSignal,
): Promise<Ownership | undefined> {
  let owned: Ownership | undefined
  const isOwned = new Promise<void>((granted) => {
    scheduler.define(headType(run.flow), HEAD_POLICY, (context) => {
      if (context.job.id !== run.id) throw new Error(`This process is there for ${run.id}.`)
      return new Promise<null>((resolve, reject) => {
        const { signal } = context
        signal.addEventListener('abort', () => reject(signal.reason))
        const end = (failure?: Error) => (failure === undefined ? resolve(null) : reject(failure))
        owned = { context, end }
        granted()
      })
    })
  })
  await scheduler.start()
  await wake(scheduler, run)
  for (;;) {
    await Promise.race([isOwned, nap(LOOK_MS)])
    if (owned !== undefined) return owned
    const { status, lease } = await headOf(store, run)
    const isMine = lease?.holder.startsWith(`${name}:`) === true
    if (isMine) continue
    if (stop.aborted || (status !== 'ready' && status !== 'pending')) return undefined
  }
}

/** Whether another process runs it: one that has died is not waited for. */
export async function runsElsewhere(store: Store, run: RunRef): Promise<boolean> {
  const until = systemRuntime.monotonic() + DOUBT_MS
  while ((await headOf(store, run)).status === 'running') {
    if (systemRuntime.monotonic() > until) return true
    await nap(LOOK_MS)
  }
  return false
}

export function nap(ms: number): Promise<void> {
  return new Promise((resolve) => {
    systemRuntime.after(ms, resolve)
  })
}
