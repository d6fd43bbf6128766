// Owns becoming the one process of a run: whoever holds the lease of its head is that.
// May never start a job of the flow.

import { randomBytes } from 'node:crypto'
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

/** A scheduler that keeps time and can hold a head, and that runs nothing of a flow. */
export interface Conductor {
  readonly scheduler: AxScheduler
  /** Resolves once this process owns the run; undefined if somebody else does. */
  own(run: RunRef): Promise<Ownership | undefined>
  close(): Promise<void>
}

export async function openConductor(store: Store): Promise<Conductor> {
  const name = `ax run ${process.pid}.${randomBytes(3).toString('hex')}`
  const logger = { info() {}, warn() {}, error() {} }
  const scheduler = new AxScheduler({ store, keep: KEEP, name, logger, autoStart: false })
  await scheduler.start()
  let hasEnded = false
  return {
    scheduler,
    own: (run) =>
      own(scheduler, store, run, name, () => {
        hasEnded = true
      }),
    // An end that was said is written first; else the head goes back as it was.
    close: () => scheduler.close(hasEnded ? {} : { drainMs: 0 }),
  }
}

async function own(
  scheduler: AxScheduler,
  store: Store,
  run: RunRef,
  name: string,
  onEnd: () => void,
): Promise<Ownership | undefined> {
  let owned: Ownership | undefined
  const isOwned = new Promise<void>((granted) => {
    scheduler.define(headType(run.flow), HEAD_POLICY, (context) => {
      if (context.job.id !== run.id) throw new Error(`This process is there for ${run.id}.`)
      return new Promise<null>((resolve, reject) => {
        context.signal.addEventListener('abort', () => reject(context.signal.reason))
        owned = {
          context,
          end(failure) {
            onEnd()
            if (failure === undefined) resolve(null)
            else reject(failure)
          },
        }
        granted()
      })
    })
  })
  await wake(scheduler, run)
  for (;;) {
    await Promise.race([isOwned, nap(LOOK_MS)])
    if (owned !== undefined) return owned
    const { status, lease } = await headOf(store, run)
    const isMine = lease?.holder.startsWith(`${name}:`) === true
    if (!isMine && status !== 'ready' && status !== 'pending') return undefined
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
