// Owns the words in which a queue says why a call was not let in, or had to leave.
// May never leave out what the caller can do about it.

import { showMs } from '../core/duration.ts'
import { AxError } from '../core/errors.ts'

export function queueOverflow(at: {
  readonly maxQueue: number
  readonly active: number
  readonly waiting: number
  readonly concurrency: number
}): AxError {
  return new AxError(
    'QUEUE_OVERFLOW',
    `The queue is full: ${at.waiting} calls wait (maxQueue ${at.maxQueue}). Call again later, ` +
      "raise maxQueue, or let callers wait with overflow: 'wait'.",
    at,
  )
}

/** `waiting`: how many others wait. */
export function enqueueTimeout(waitedMs: number, waiting: number): AxError {
  const text =
    `The call waited ${showMs(waitedMs)} for a slot and was given up; ${waiting} others wait. ` +
    'Call again when there are fewer, or raise enqueueTimeout.'
  return new AxError('ENQUEUE_TIMEOUT', text, { waitedMs, waiting })
}

/** Of a limiter. */
export function nestedLimit(): AxError {
  return new AxError(
    'NESTED_LIMIT',
    'This call would have waited for ever: every slot is held by a body that itself waits for a ' +
      'call like this one. Raise the concurrency, give inner calls a limiter of their own, or ' +
      "make them when the outer body is done (nested: 'queue' waits all the same).",
  )
}

/** What bodies of a map are told whose results nobody waits for any more. */
export function mapEnded(cause: unknown): AxError {
  return new AxError('CANCELLED', 'Nobody waits for the results of this map any more.', { cause })
}
