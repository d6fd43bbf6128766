// Owns the words in which a runner says what has happened to a call.
// May never leave out what the caller can do about it.

import { showMs } from '../../core/duration.ts'
import { AxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'

export function closedError(): AxError {
  return new AxError('CLOSED', 'The runner was closed.')
}

export function joinsItself(key: string): AxError {
  const text =
    `The body of ${show(key)} waits for a call of its own key, which would never end. Give the ` +
    'inner call a key of its own.'
  return new AxError('NESTED_LIMIT', text, { key })
}

/** It would have waited, over whatever stands between, for the body that has made it. */
export function nestedCall(key: string): AxError {
  const text =
    `The call of ${show(key)} would have waited for ever: what it waits for waits for the body ` +
    'that has made the call. Give inner calls a runner of their own, raise the concurrency, or ' +
    'make them when the outer body is done; two keys must not wait for each other.'
  return new AxError('NESTED_LIMIT', text, { key })
}

export function timedOut(key: string, attempt: number, timeoutMs: number): AxError {
  return new AxError(
    'EXECUTION_TIMEOUT',
    `Attempt ${attempt} of ${show(key)} was not done within ${showMs(timeoutMs)}.`,
    { key, attempt, timeoutMs },
  )
}

export function outcomeUnknown(key: string, cause: unknown): AxError {
  return new AxError(
    'OUTCOME_UNKNOWN',
    `Nobody knows whether ${show(key)} has taken effect: an attempt ran out of time. Look before ` +
      'you call again; or give the runner `confirm`, which can look, or say `idempotent: true` ' +
      'if running twice does no harm.',
    { key, cause },
  )
}

export function breakerOpen(retryAfter: number): AxError {
  const when = showMs(retryAfter)
  const text = `The breaker is open: too many calls have failed. Try again in ${when}.`
  return new AxError('BREAKER_OPEN', text, { retryAfter })
}

/** What a confirm function has answered, if it makes no sense. */
export function badAnswer(answer: unknown): AxError {
  return new AxError(
    'INVALID_OPTION',
    `confirm must answer { done: true, result } or { done: false }, got ${show(answer)}.`,
    { option: 'confirm', value: answer },
  )
}
