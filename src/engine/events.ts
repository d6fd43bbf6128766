// Owns what is emitted: from the log records that this process's own calls wrote.
// May never be the source of truth: listeners hear of changes, the store's log has them.

import type { JobEvent } from '../core/job.ts'
import { Emitter } from '../kit/emitter.ts'
import type { Logger } from './logger.ts'

/** A transition, as listeners get it. */
export type TransitionEvent = JobEvent

/** What has no transition: progress of a body, a body left behind, a duplicate, a quiet store. */
export interface SchedulerEvents {
  'job:added': JobEvent
  'job:ready': JobEvent
  'job:pending': JobEvent
  'job:waiting': JobEvent
  'job:running': JobEvent
  'job:retry': JobEvent
  'job:timeout': JobEvent
  'job:lost': JobEvent
  'job:returned': JobEvent
  'job:preempted': JobEvent
  'job:revived': JobEvent
  'job:success': JobEvent
  'job:failed': JobEvent
  'job:cancelled': JobEvent
  'job:progress': { readonly job: string; readonly attempt: number; readonly value: unknown }
  'job:zombie': {
    readonly job: string
    readonly attempt: number
    readonly worker: string
    /** Where its job was submitted, or its type was defined, if that is known. */
    readonly startedFrom?: string
    /** With `trackAsync`: the kinds of what it has open. */
    readonly asyncResources?: readonly string[]
  }
  'job:duplicate': { readonly job: string; readonly key: string | undefined }
  idle: { readonly at: number }
}

export type EventName = keyof SchedulerEvents

/** The names under which transitions are emitted. */
export const TRANSITIONS = [
  'job:added',
  'job:ready',
  'job:pending',
  'job:waiting',
  'job:running',
  'job:retry',
  'job:timeout',
  'job:lost',
  'job:returned',
  'job:preempted',
  'job:revived',
  'job:success',
  'job:failed',
  'job:cancelled',
] as const satisfies readonly EventName[]

export const EVENT_NAMES: readonly EventName[] = [
  ...TRANSITIONS,
  'job:progress',
  'job:zombie',
  'job:duplicate',
  'idle',
]

export function createEmitter(logger: Logger): Emitter<SchedulerEvents> {
  return new Emitter<SchedulerEvents>((error, event) => {
    logger.error({ error, event }, `a listener of ${String(event)} threw: ${String(error)}`)
  })
}

/** Emits log records, each under its own name and under that of the state it led to. */
export function publish(emitter: Emitter<SchedulerEvents>, records: readonly JobEvent[]): void {
  for (const record of records) {
    for (const name of namesOf(record)) emitter.emit(name, record)
  }
}

function namesOf(record: JobEvent): readonly EventName[] {
  const own = record.event as EventName
  const state = `job:${record.to}` as EventName
  if (own === state) return [own]
  if (own === 'job:timeout' && record.to !== 'failed') {
    return record.to === 'ready' ? [own, 'job:retry', state] : [own, 'job:retry']
  }
  return record.to === 'pending' || record.to === 'waiting' ? [own] : [own, state]
}
