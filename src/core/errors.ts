// Owns the one error class of ax and the table of its codes.
// May never decide anything: it only names what happened and whether asking again is sensible.

/**
 * Every code that ax itself gives, and whether the caller may sensibly try again.
 * `true` means that the same call can succeed later without being changed.
 */
export const ERROR_CODES = {
  HANDLER_FAILED: false,
  KEY_TAKEN: false,
  QUEUE_OVERFLOW: true,
  ENQUEUE_TIMEOUT: true,
  EXECUTION_TIMEOUT: true,
  HEARTBEAT_LOST: true,
  CANCELLED: false,
  PREEMPTED: true,
  DEPENDENCY_FAILED: false,
  CYCLE: false,
  DUPLICATE_ID: false,
  UNKNOWN_JOB: false,
  UNKNOWN_DEPENDENCY: false,
  NO_HANDLER: false,
  INVALID_JOB: false,
  INVALID_OPTION: false,
  LEASE_LOST: false,
  LOST: true,
  OUTCOME_UNKNOWN: false,
  BREAKER_OPEN: true,
  STORE_UNAVAILABLE: true,
  CLOSED: false,
  NESTED_LIMIT: false,
  GONE: false,
  UNSTORABLE: false,
  TOO_LARGE: false,
} as const

export type AxErrorCode = keyof typeof ERROR_CODES

/** What a code needs beside the message: `jobId`, `pool`, `path` of a cycle, `retryAfter` ... */
export interface AxErrorDetails {
  readonly cause?: unknown
  readonly retryable?: boolean
  readonly [name: string]: unknown
}

const BRAND = Symbol.for('ax-scheduler.error')

/**
 * The error of ax. `code` is stable; the message names the thing, the value and the remedy.
 * Details become properties of the error.
 */
export class AxError extends Error {
  readonly code: AxErrorCode | (string & {})
  readonly retryable: boolean

  constructor(
    code: AxErrorCode | (string & {}),
    message: string,
    given: AxErrorDetails = NO_DETAILS,
  ) {
    // Whoever makes an error has trouble enough: details that are none are not another one.
    const details = typeof given === 'object' && given !== null ? given : NO_DETAILS
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.name = 'AxError'
    this.code = code
    this.retryable =
      details.retryable ?? (Object.hasOwn(ERROR_CODES, code) && ERROR_CODES[code as AxErrorCode])
    for (const [name, value] of Object.entries(details)) {
      if (name !== 'cause' && name !== 'retryable' && name !== 'message' && name !== 'stack') {
        Object.defineProperty(this, name, { value, enumerable: true, configurable: true })
      }
    }
    Object.defineProperty(this, BRAND, { value: true })
  }
}

const NO_DETAILS: AxErrorDetails = Object.freeze({})

/** True for an error of ax (with that code, if one is given), across duplicate copies of it. */
export function isAxError(error: unknown, code?: AxErrorCode): error is AxError {
  if (typeof error !== 'object' || error === null) return false
  if ((error as Record<symbol, unknown>)[BRAND] !== true) return false
  return code === undefined || (error as AxError).code === code
}
