// Owns the options of a runner and of its calls: checked, and with their defaults filled in.
// May never be asked twice for the same thing: what was checked here is trusted elsewhere.

import { Breaker, breakerTerms } from '../../core/breaker.ts'
import { limitOf, spanOf, toMs } from '../../core/duration.ts'
import {
  boolean,
  callable,
  countOf,
  integer,
  oneOf,
  plain,
  refuseUnknown,
} from '../../core/options.ts'
import { Adaptive } from '../adaptive.ts'
import { type RetryTerms, retryTerms } from '../retry.ts'
import type { CallOptions, Confirm, RunnerOptions, RunnerRetry } from '../runner.ts'
import { type Runtime, systemRuntime } from '../runtime.ts'
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
  plain('The options of createRunner', options)
  refuseUnknown('createRunner', options, KEYS)
  const { concurrency, confirm, breaker, retry = NO_RETRIES } = options
  const adaptive = typeof concurrency === 'object' ? new Adaptive(concurrency) : undefined
  const retries = retryTermsOf('retry of the runner', retry)
  const { inSlotConcurrency = Number.POSITIVE_INFINITY } = retry
  return {
    concurrency: adaptive?.limit ?? countOf('concurrency', concurrency, 1),
    adaptive,
    maxQueue: countOf('maxQueue', options.maxQueue ?? 1_000, 0),
    overflow: oneOf('overflow', options.overflow ?? 'reject', ['reject', 'wait']),
    patienceMs: limitOf(options.enqueueTimeout ?? 10_000, 'enqueueTimeout'),
    graceMs: spanOf(options.graceMs ?? 5_000, 'graceMs'),
    maxZombies: integer('maxZombies', options.maxZombies ?? 100, 0),
    inSlotConcurrency: countOf('inSlotConcurrency', inSlotConcurrency, 1),
    confirm: confirm === undefined ? undefined : callable('confirm', confirm),
    remember: rememberOf(options.remember),
    breaker: breaker === undefined ? undefined : new Breaker(breakerTerms(breaker)),
    watchers: watchersOf(options),
    terms: {
      priority: 50,
      timeoutMs: limitOf(options.timeoutMs ?? 0, 'timeoutMs'),
      retry: retries,
      inSlot: boolean('inSlot', retry.inSlot ?? false),
      idempotent: boolean('idempotent', options.idempotent ?? false),
    },
    retry: options.retry ?? {},
    runtime: options.runtime ?? systemRuntime,
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
  for (const name in options) {
    // Spelt out, because it runs for every call with options.
    if (name === 'signal' || name === 'priority' || name === 'timeoutMs') continue
    refuseUnknown('runner', options, CALL_KEYS)
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
    inSlot: laid === undefined ? terms.inSlot : boolean('inSlot', laid.inSlot ?? false),
    idempotent: idempotent === undefined ? terms.idempotent : boolean('idempotent', idempotent),
  }
}

/** What a call asks of retrying; where the runner has no retries, asking at all means three. */
function given(retry: RunnerRetry): RunnerRetry {
  plain('retry of the call', retry)
  const said = Object.entries(retry).filter(([, value]) => value !== undefined)
  return Object.fromEntries(said) as RunnerRetry
}

function retryTermsOf(where: string, retry: RunnerRetry): RetryTerms {
  return retryTerms(where, retry, ['inSlot', 'inSlotConcurrency'])
}

function rememberOf(value: RunnerOptions['remember']): Settings['remember'] {
  if (value === undefined) return undefined
  plain('remember', value)
  refuseUnknown('remember', value, ['ms', 'max'])
  return {
    ms: toMs(value.ms, 'ms of remember'),
    max: integer('max of remember', value.max ?? 10_000, 1),
  }
}

function watchersOf({ onAttempt, logger }: RunnerOptions): Watchers {
  if (onAttempt !== undefined) callable('onAttempt', onAttempt)
  if (logger !== undefined) {
    for (const level of ['info', 'warn', 'error'] as const) {
      callable(`${level} of logger`, logger?.[level])
    }
  }
  return { onAttempt, logger }
}
