// Owns the options of a runner and of its calls: checked, and with their defaults filled in.
// May never be asked twice for the same thing: what was checked here is trusted elsewhere.

import { Breaker, breakerTerms } from '../../core/breaker.ts'
import { limitOf, spanOf, toMs } from '../../core/duration.ts'
import {
  able,
  boolean,
  callable,
  checkOptions,
  countOf,
  integer,
  isPlain,
  oneOf,
  plain,
  refuseUnknown,
  refuseValue,
} from '../../core/options.ts'
import { Adaptive } from '../adaptive.ts'
import { type RetryTerms, retryTerms } from '../retry.ts'
import type { CallOptions, Confirm, RunnerOptions, RunnerRetry } from '../runner.ts'
import { type Runtime, runtimeOf } from '../runtime.ts'
import { optionalSignal } from '../signals.ts'
import type { Watchers } from './meter.ts'

/** On what terms a call runs. Shared by all calls without options of their own. */
export interface CallTerms {
  readonly priority: number
  readonly timeoutMs: number
  readonly retry: RetryTerms
  readonly inSlot: boolean
  readonly idempotent: boolean
}

export interface Settings {
  readonly concurrency: number
  readonly adaptive: Adaptive | undefined
  readonly maxQueue: number
  readonly overflow: 'reject' | 'wait'
  readonly patienceMs: number
  readonly graceMs: number
  readonly maxZombies: number
  readonly inSlotConcurrency: number
  readonly confirm: Confirm | undefined
  readonly remember: { readonly ms: number; readonly max: number } | undefined
  readonly breaker: Breaker | undefined
  readonly watchers: Watchers
  readonly terms: CallTerms
  /** As given, for calls that lay options of their own over them. */
  readonly retry: RunnerRetry
  readonly runtime: Runtime
}

const KEYS: readonly (keyof RunnerOptions)[] = [
  'concurrency',
  'maxQueue',
  'overflow',
  'enqueueTimeout',
  'timeoutMs',
  'graceMs',
  'maxZombies',
  'retry',
  'idempotent',
  'confirm',
  'remember',
  'breaker',
  'onAttempt',
  'logger',
  'runtime',
]

const NO_RETRIES: RunnerRetry = Object.freeze({ retries: 0 })

/** Checks the options of a runner. Refuses with `INVALID_OPTION`. */
export function settingsOf(options: RunnerOptions): Settings {
  checkOptions('createRunner', options, KEYS)
  const { concurrency, confirm, breaker, retry = NO_RETRIES } = options
  const { maxQueue = 1_000, overflow = 'reject', enqueueTimeout = 10_000 } = options
  const { timeoutMs = 0, graceMs = 5_000, maxZombies = 100, idempotent = false } = options
  const adaptive = typeof concurrency === 'object' ? new Adaptive(concurrency) : undefined
  const retries = retryTermsOf('retry of the runner', retry)
  const { inSlot = false, inSlotConcurrency = Number.POSITIVE_INFINITY } = retry
  return {
    concurrency: adaptive?.limit ?? countOf('concurrency', concurrency, 1),
    adaptive,
    maxQueue: countOf('maxQueue', maxQueue, 0),
    overflow: oneOf('overflow', overflow, ['reject', 'wait']),
    patienceMs: limitOf(enqueueTimeout, 'enqueueTimeout'),
    graceMs: spanOf(graceMs, 'graceMs'),
    maxZombies: integer('maxZombies', maxZombies, 0),
    inSlotConcurrency: countOf('inSlotConcurrency', inSlotConcurrency, 1),
    confirm: confirm === undefined ? undefined : callable('confirm', confirm),
    remember: rememberOf(options.remember),
    breaker: breaker === undefined ? undefined : new Breaker(breakerTerms(breaker)),
    watchers: watchersOf(options),
    terms: {
      priority: 50,
      timeoutMs: limitOf(timeoutMs, 'timeoutMs'),
      retry: retries,
      inSlot: boolean('inSlot', inSlot),
      idempotent: boolean('idempotent', idempotent),
    },
    retry: options.retry === undefined ? {} : retry,
    runtime: runtimeOf(options.runtime),
  }
}

const CALL_KEYS: readonly (keyof CallOptions)[] = [
  'timeoutMs',
  'retry',
  'signal',
  'priority',
  'idempotent',
]

/** Checks the options of a call. Refuses with `INVALID_OPTION`. */
export function callTermsOf(options: CallOptions, settings: Settings, terms: CallTerms): CallTerms {
  if (!isPlain(options)) checkOptions('runner', options, CALL_KEYS)
  for (const name in options) {
    // Spelt out, because it runs for every call with options.
    if (name === 'signal' || name === 'priority' || name === 'timeoutMs') continue
    checkOptions('runner', options, CALL_KEYS)
  }
  const { priority, timeoutMs, retry, idempotent } = options
  optionalSignal(options.signal)
  if (priority === undefined && timeoutMs === undefined && retry === undefined) {
    if (idempotent === undefined) return terms
  }
  const laid = retry === undefined ? undefined : { ...settings.retry, ...given(retry) }
  return {
    priority: priority === undefined ? terms.priority : integer('priority', priority, 1, 100),
    timeoutMs: timeoutMs === undefined ? terms.timeoutMs : limitOf(timeoutMs, 'timeoutMs'),
    retry: laid === undefined ? terms.retry : retryTermsOf('retry of the call', laid),
    inSlot: laid?.inSlot === undefined ? terms.inSlot : boolean('inSlot', laid.inSlot),
    idempotent: idempotent === undefined ? terms.idempotent : boolean('idempotent', idempotent),
  }
}

/** What a call asks of retrying; where the runner has no retries, asking at all means three. */
function given(retry: RunnerRetry): RunnerRetry {
  plain('retry of the call', retry)
  const { inSlotConcurrency } = retry
  if (inSlotConcurrency !== undefined) {
    const expected = 'left out of a call: it is for all calls, so give it to createRunner'
    refuseValue('inSlotConcurrency', inSlotConcurrency, expected)
  }
  const said = Object.entries(retry).filter(([, value]) => value !== undefined)
  return Object.fromEntries(said) as RunnerRetry
}

function retryTermsOf(where: string, retry: RunnerRetry): RetryTerms {
  plain(where, retry)
  return retryTerms(where, retry, ['inSlot', 'inSlotConcurrency'])
}

function rememberOf(value: RunnerOptions['remember']): Settings['remember'] {
  if (value === undefined) return undefined
  plain('remember', value)
  refuseUnknown('remember', value, ['ms', 'max'])
  const { ms, max = 10_000 } = value
  return { ms: toMs(ms, 'ms of remember'), max: integer('max of remember', max, 1) }
}

function watchersOf({ onAttempt, logger }: RunnerOptions): Watchers {
  if (onAttempt !== undefined) callable('onAttempt', onAttempt)
  if (logger !== undefined) able('logger', logger, ['info', 'warn', 'error'])
  return { onAttempt, logger }
}
