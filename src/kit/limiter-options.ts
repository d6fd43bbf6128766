// Owns what can be asked of a limiter, and of one of its calls.
// May never fill in a default: what a missing option means is the limiter's business.

import { type Duration, limitOf } from '../core/duration.ts'
import { checkOptions, integer, isPlain, refuseValue } from '../core/options.ts'
import type { Runtime } from './runtime.ts'
import { optionalSignal } from './signals.ts'

export interface LimiterOptions {
  /** How many calls may wait, beside those that run; default Infinity. */
  readonly maxQueue?: number | undefined
  /** With `maxQueue`: `QUEUE_OVERFLOW` at once (default), or wait for room as well. */
  readonly overflow?: 'reject' | 'wait' | undefined
  /** How long a call may wait for its start; default 0: for ever. */
  readonly enqueueTimeout?: Duration | undefined
  /**
   * A call made inside a body, for which that body waits, needs a slot while it holds one. When
   * every slot is held by such a body the wait could never end: `NESTED_LIMIT` (default), for
   * one of them; or wait all the same.
   */
  readonly nested?: 'reject' | 'queue' | undefined
  /** Clock and timers, for tests. */
  readonly runtime?: Runtime | undefined
}

export interface LimitOptions {
  /** An integer from 1 to 100, larger first; default 50. */
  readonly priority?: number | undefined
  /** Ends the wait, not the body: a body that has started looks at the signal itself. */
  readonly signal?: AbortSignal | undefined
  /** Instead of the limiter's own. */
  readonly enqueueTimeout?: Duration | undefined
}

const LIMITER_OPTIONS = ['maxQueue', 'overflow', 'enqueueTimeout', 'nested', 'runtime']
const LIMIT_OPTIONS = ['priority', 'signal', 'enqueueTimeout']

export function checkLimiterKeys(options: LimiterOptions): void {
  checkOptions('createLimiter', options, LIMITER_OPTIONS)
  if (options.overflow === 'wait' && options.maxQueue === undefined) {
    refuseValue(
      'overflow',
      'wait',
      'left out, or given together with maxQueue: no queue is full without it',
    )
  }
}

/** Spelt out, because it runs for every call that has options. */
export function checkLimit(options: LimitOptions): void {
  if (!isPlain(options)) checkOptions('limit', options, LIMIT_OPTIONS)
  for (const name in options) {
    if (name === 'priority' || name === 'signal' || name === 'enqueueTimeout') continue
    checkOptions('limit', options, LIMIT_OPTIONS)
  }
  if (options.priority !== undefined) integer('priority', options.priority, 1, 100)
  if (options.signal !== undefined) optionalSignal(options.signal)
  if (options.enqueueTimeout !== undefined) limitOf(options.enqueueTimeout, 'enqueueTimeout')
}
