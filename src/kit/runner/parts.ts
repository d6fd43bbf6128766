// Owns the words for what an operation consists of: its terms, its states, its ends.
// May never do anything.

import type { Context } from '../context.ts'
import type { Timer } from '../runtime.ts'
import { codeOf } from '../transient.ts'
import type { Core } from './core.ts'
import { badAnswer } from './errors.ts'
import type { Outcome } from './meter.ts'
import type { Run } from './run.ts'
import type { CallTerms } from './settings.ts'

/** The terms of calls that differ in nothing, not even in where they were made. */
export interface FlightTerms extends CallTerms {
  readonly core: Core
  /** The async context of the caller. */
  readonly context: Context
}

/**
 * `queued`: it waits for a slot. `backing`: for its next attempt. `running` and `holding` have a
 * slot; `holding` backs off in it. `between`: none of these, within one call.
 */
export type State = 'between' | 'queued' | 'backing' | 'running' | 'holding' | 'ended'

/** `refused`: it failed without having been let in. */
export type End = 'succeeded' | 'failed' | 'refused' | 'cancelled' | 'deduplicated'

/** Why there is no next attempt. */
export class Final {
  readonly error: unknown
  readonly end: End
  constructor(error: unknown, end: End = 'failed') {
    this.error = error
    this.end = end
  }
}

/** What few operations need. */
export class More {
  /** Nobody knows whether it has taken effect. */
  isUnknown = false
  /** It has ended, and its body is still counted among those that stop. */
  isLeftover = false
  /** Whether another attempt follows a timeout, decided at the deadline. */
  goesOn = false
  timer: Timer | undefined = undefined
  /** When its present wait began, if that is not when it was called. */
  waitsSince: number | undefined = undefined
  /** Ends its wait for a place among those who keep their slot while they back off. */
  session: AbortController | undefined = undefined
  leaveSession: (() => void) | undefined = undefined
}

export function isWaiting(state: State): boolean {
  return state === 'queued' || state === 'backing'
}

export function outcomeOf({ mark }: Run): Outcome {
  if (mark === undefined) return 'failure'
  return mark === 'timeout' ? 'timeout' : 'cancelled'
}

export function codeFor(outcome: Outcome, error: unknown): string {
  return outcome === 'cancelled' ? cancelCode(error) : codeOf(error)
}

/** An abort that brings no code of its own counts as what it is. */
export function cancelCode(reason: unknown): string {
  const code = codeOf(reason)
  return code === 'HANDLER_FAILED' ? 'CANCELLED' : code
}

/** What confirm says: it has taken effect (`value`: the result), it has not, or nonsense. */
export function answerOf(given: unknown): { readonly done?: boolean; readonly value?: unknown } {
  try {
    const answer = Object(given) as { readonly done?: unknown; readonly result?: unknown }
    const { done } = answer
    if (done === true) return { done, value: answer.result }
    return done === false ? { done } : { value: badAnswer(given) }
  } catch (problem) {
    return { value: problem }
  }
}
