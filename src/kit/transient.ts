// Owns the judgement of errors that come from outside: worth another attempt, a sign of overload,
// and by which code they are counted. May never throw, whatever it is given to look at.

import { clip } from '../core/options.ts'

/** What sockets and HTTP clients say when the same call may well succeed a moment later. */
const TRANSIENT_CODES: ReadonlySet<unknown> = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'ETIMEDOUT',
  'ESOCKETTIMEDOUT',
  'EPIPE',
  'EAI_AGAIN',
  'ENETDOWN',
  'ENETRESET',
  'ENETUNREACH',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_SOCKET',
])

const ABORT_CODES: ReadonlySet<unknown> = new Set(['ABORT_ERR', 'UND_ERR_ABORTED', 'ERR_CANCELED'])

/** Errors that say something about the program, and nothing about the moment. */
const BUGS: ReadonlySet<unknown> = new Set([
  'TypeError',
  'ReferenceError',
  'SyntaxError',
  'RangeError',
  'EvalError',
  'URIError',
])

const OVERLOAD_CODES: ReadonlySet<unknown> = new Set([
  'QUEUE_OVERFLOW',
  'ENQUEUE_TIMEOUT',
  'EXECUTION_TIMEOUT',
  'ETIMEDOUT',
  'ESOCKETTIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
])

/** How many causes are looked through; a chain can be a ring. */
const MAX_DEPTH = 8

const MAX_CODE = 255

/**
 * Whether a failure is worth another attempt: the default rule of `withRetry` and of runners.
 * The error and its causes are looked at from the outside in; the first that says anything
 * decides.
 *
 * - No: an abort, `QUEUE_OVERFLOW` (whoever is told that a queue is full must not add to it), and
 *   whatever has `retryable: false`.
 * - Yes: `retryable: true`, a network error (`ECONNRESET`, `UND_ERR_SOCKET` ...), an HTTP status of
 *   408, 425, 429 or 5xx in `status` or `statusCode`, of the error or of its `response`.
 * - A TypeError and its like are faults of the program, unless a cause says otherwise: the
 *   TypeError `fetch failed` carries the network error as its cause.
 * - Everything else is not retried: nobody knows that it would help.
 */
export function isRetryable(error: unknown): boolean {
  for (const link of chainOf(error)) {
    const code = read(link, 'code')
    const mark = read(link, 'retryable')
    if (isAbort(link, code) || code === 'QUEUE_OVERFLOW' || mark === false) return false
    if (TRANSIENT_CODES.has(code) || isTransientStatus(statusOf(link))) return true
    if (mark === true && !BUGS.has(read(link, 'name'))) return true
  }
  return false
}

/** Whether a failure speaks against the downstream and not against the call: for breakers. */
export function isTransient(error: unknown): boolean {
  return isRetryable(error) || read(error, 'name') === 'TimeoutError'
}

/** Whether a failure says that the downstream has too much to do. */
export function isOverload(error: unknown): boolean {
  for (const link of chainOf(error)) {
    if (OVERLOAD_CODES.has(read(link, 'code')) || read(link, 'name') === 'TimeoutError') return true
    const status = statusOf(link)
    if (status === 429 || status === 503 || status === 504) return true
  }
  return false
}

/** The code by which a failure is counted: its own, if that is a text, else `HANDLER_FAILED`. */
export function codeOf(error: unknown): string {
  const code = read(error, 'code')
  return typeof code === 'string' && code !== '' ? clip(code, MAX_CODE) : 'HANDLER_FAILED'
}

function* chainOf(error: unknown): Generator<object> {
  let link = error
  for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
    if (typeof link !== 'object' || link === null) return
    yield link
    link = read(link, 'cause')
  }
}

function isAbort(link: object, code: unknown): boolean {
  return read(link, 'name') === 'AbortError' || ABORT_CODES.has(code)
}

function isTransientStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || (status >= 500 && status <= 599)
}

function statusOf(link: object): number {
  const response = read(link, 'response')
  const places = [link, ...(typeof response === 'object' && response !== null ? [response] : [])]
  for (const place of places) {
    const status = read(place, 'status') ?? read(place, 'statusCode')
    if (typeof status === 'number') return status
  }
  return Number.NaN
}

/** A property of a foreign object, or undefined where reading it throws. */
function read(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  try {
    return (value as Readonly<Record<string, unknown>>)[name]
  } catch {
    return undefined
  }
}
