// Owns what is agreed about running: the policy of a type, and what a job asks for on top of it.
// May never ignore a wish: what would have no effect is refused.

import { DEFAULT_BACKOFF } from './backoff.ts'
import { type Duration, toMs } from './duration.ts'
import { AxError, type AxErrorCode } from './errors.ts'
import { checkName } from './id.ts'
import type { BackoffTerms, Terms } from './job.ts'
import {
  boolean,
  callable,
  integer,
  oneOf,
  plain,
  refuseUnknown,
  refuseValue,
  show,
} from './options.ts'
import { PRIORITY } from './rank.ts'
import type { TypeChange, TypeSetting } from './settings.ts'
import type { Backoff, JobInput, StandardSchemaV1, TypePolicy } from './types.ts'

/** What a job gets from its type unless it asks for something else. */
export interface TypeTerms {
  readonly pool: string
  readonly priority: number
  /** Shared by every job that asks for nothing of its own. */
  readonly terms: Terms
  readonly backoffFunction?: (attempt: number, random: number) => number
  readonly retryable?: (error: unknown) => boolean
  readonly confirm?: TypePolicy['confirm'] & object
  readonly schema?: StandardSchemaV1
  /** Over all workers and pools; null: no cap. */
  readonly concurrency: number | null
  /** Given, not derived: then it holds for jobs with retries of their own, too. */
  readonly maxLost?: number
}

const MAX_RETRIES = 1_000_000

/** Some 69 years: with this, ranks and sums with an instant stay exact. */
export const MAX_MS = 2 ** 41

const MIN_LOST = 3

export const DEFAULT_TYPE: TypeTerms = Object.freeze({
  pool: 'default',
  priority: PRIORITY.default,
  terms: Object.freeze({
    timeoutMs: 0,
    retries: 0,
    backoff: Object.freeze({ ...DEFAULT_BACKOFF }),
    maxLost: MIN_LOST,
    idempotent: true,
    confirm: false,
    heartbeatMs: 0,
    preemptible: false,
  }),
  concurrency: null,
})

const POLICY_KEYS: readonly (keyof TypePolicy)[] = [
  'pool',
  'concurrency',
  'priority',
  'timeout',
  'retries',
  'backoff',
  'heartbeat',
  'preemptible',
  'idempotent',
  'maxLost',
  'retryable',
  'confirm',
  'schema',
]

/** A type's policy, checked and frozen. Refuses with INVALID_OPTION. */
export function resolveType(type: string, policy: TypePolicy): TypeTerms {
  const code = 'INVALID_OPTION'
  checkName('A type', type, code)
  const where = `policy of type ${show(type)}`
  plain(`The ${where}`, policy, code)
  refuseUnknown(`The ${where}`, policy, POLICY_KEYS, code)
  const named = (key: string): string => `${key} in the ${where}`
  const { pool, priority, retryable, maxLost, concurrency, confirm, schema } = policy
  if (maxLost !== undefined) integer(named('maxLost'), maxLost, 0, MAX_RETRIES, code)
  if (confirm !== undefined) callable(named('confirm'), confirm, code)
  const terms = { ...termsOf(policy, DEFAULT_TYPE, named, code), ...ownTerms(policy, named, code) }
  return Object.freeze({
    pool: pool === undefined ? DEFAULT_TYPE.pool : checkName(named('pool'), pool, code),
    priority: priority === undefined ? PRIORITY.default : priorityOf(named, priority, code),
    terms: Object.freeze(terms),
    concurrency: concurrency === undefined ? null : capOf(named('concurrency'), concurrency, code),
    ...(confirm === undefined ? {} : { confirm }),
    ...(schema === undefined ? {} : { schema: schemaOf(schema, named('schema'), code) }),
    ...(typeof policy.backoff === 'function' ? { backoffFunction: policy.backoff } : {}),
    ...(retryable === undefined
      ? {}
      : { retryable: callable(named('retryable'), retryable, code) }),
    ...(maxLost === undefined ? {} : { maxLost }),
  })
}

/** Which of the terms of a job a policy speaks of. */
const TERM_OF = {
  timeout: 'timeoutMs',
  retries: 'retries',
  backoff: 'backoff',
  heartbeat: 'heartbeatMs',
  preemptible: 'preemptible',
  idempotent: 'idempotent',
  confirm: 'confirm',
} as const satisfies Partial<Record<keyof TypePolicy, keyof Terms>>

/**
 * What a policy says to all processes: what it was given, and no default. Undefined where it says
 * nothing that can be stored (functions hold where they are).
 */
export function settingOf(policy: TypePolicy, type: TypeTerms): TypeChange | undefined {
  const keys = Object.keys(TERM_OF) as (keyof typeof TERM_OF)[]
  const said = keys.filter((key) => policy[key] !== undefined)
  const terms = Object.fromEntries(said.map((key) => [TERM_OF[key], type.terms[TERM_OF[key]]]))
  const change: TypeChange = {
    ...(policy.pool === undefined ? {} : { pool: type.pool }),
    ...(policy.priority === undefined ? {} : { priority: type.priority }),
    ...(policy.concurrency === undefined ? {} : { concurrency: type.concurrency }),
    ...(type.maxLost === undefined ? {} : { maxLost: type.maxLost }),
    ...(said.length === 0 ? {} : { terms }),
  }
  return Object.keys(change).length === 0 ? undefined : change
}

/** What is stored of a type once somebody has said something of it. */
export function changedType(before: TypeSetting | undefined, said: TypeChange): TypeSetting {
  const { pool, priority, terms: usual, concurrency } = DEFAULT_TYPE
  const base = before ?? { pool, priority, concurrency, maxLost: null, terms: usual }
  const after = { ...base, ...said }
  const terms = { ...base.terms, ...said.terms }
  const derived = said.terms?.maxLost ?? Math.max(terms.retries, MIN_LOST)
  return { ...after, terms: { ...terms, maxLost: after.maxLost ?? derived } }
}

/** The terms of a type that only other processes know more of. */
export function typeOfSetting({ maxLost, ...setting }: TypeSetting): TypeTerms {
  return Object.freeze(maxLost === null ? setting : { ...setting, maxLost })
}

/** Infinity takes back what somebody else has said. */
function capOf(name: string, value: number, code: AxErrorCode): number | null {
  return value === Number.POSITIVE_INFINITY ? null : integer(name, value, 0, MAX_RETRIES, code)
}

/** What only a type can ask for. */
function ownTerms(
  { maxLost, confirm, preemptible, idempotent }: TypePolicy,
  named: (key: string) => string,
  code: AxErrorCode,
): Partial<Terms> {
  if (preemptible !== undefined) boolean(named('preemptible'), preemptible, code)
  if (preemptible === true && idempotent === false && confirm === undefined) {
    throw new AxError(
      code,
      `${named('preemptible')} is true, but the type is not idempotent and has no confirm: once ` +
        'displaced, its jobs could never run again. Give confirm, or leave preemptible out.',
      { option: 'preemptible', value: preemptible },
    )
  }
  return {
    confirm: confirm !== undefined,
    preemptible: preemptible === true,
    ...(maxLost === undefined ? {} : { maxLost }),
  }
}

function schemaOf(value: unknown, name: string, code: AxErrorCode): StandardSchemaV1 {
  const standard = (value as Partial<StandardSchemaV1> | null)?.['~standard']
  if (typeof standard?.validate === 'function') return value as StandardSchemaV1
  return refuseValue(name, value, 'a Standard Schema (zod, valibot, arktype ...)', code)
}

/** What of a job and of a policy is about running. */
type Wishes = Pick<JobInput, 'timeout' | 'retries' | 'backoff' | 'idempotent' | 'heartbeat'>

/** The terms of whoever asks for something of its own; the rest is as in `base`. */
export function termsOf(
  wishes: Wishes,
  base: TypeTerms,
  named: (key: string) => string,
  code: AxErrorCode,
): Terms {
  const { timeout, backoff, idempotent, heartbeat } = wishes
  const { terms } = base
  const retries =
    wishes.retries === undefined
      ? terms.retries
      : integer(named('retries'), wishes.retries, 0, MAX_RETRIES, code)
  if (backoff !== undefined && retries === 0) {
    throw new AxError(
      code,
      `${named('backoff')} has no effect with retries 0. Give retries, or leave backoff out.`,
      { option: 'backoff', value: backoff },
    )
  }
  return {
    ...terms,
    timeoutMs: timeout === undefined ? terms.timeoutMs : msOf(named('timeout'), timeout, code),
    retries,
    backoff: backoff === undefined ? terms.backoff : backoffOf(backoff, named('backoff'), code),
    maxLost: base.maxLost ?? Math.max(retries, MIN_LOST),
    idempotent:
      idempotent === undefined ? terms.idempotent : boolean(named('idempotent'), idempotent, code),
    heartbeatMs:
      heartbeat === undefined ? terms.heartbeatMs : msOf(named('heartbeat'), heartbeat, code),
  }
}

const BACKOFF_KEYS = ['type', 'delay', 'max', 'factor', 'jitter'] as const

/** A back-off as data. Of a function, the default stands in: the function answers where it is. */
function backoffOf(given: Backoff, name: string, code: AxErrorCode): BackoffTerms {
  if (typeof given === 'function') return DEFAULT_TYPE.terms.backoff
  plain(name, given, code)
  refuseUnknown(name, given, BACKOFF_KEYS, code)
  const { delay, max, factor, jitter } = given
  const type = oneOf(`type of ${name}`, given.type, ['fixed', 'exponential'], code)
  const delayMs =
    delay === undefined ? DEFAULT_BACKOFF.delayMs : msOf(`delay of ${name}`, delay, code)
  if (type === 'fixed' && factor !== undefined) {
    refuseValue(`factor of ${name}`, factor, "left out with type 'fixed'", code)
  }
  return Object.freeze({
    type,
    delayMs,
    maxMs: max === undefined ? Math.max(delayMs, DEFAULT_BACKOFF.maxMs) : maxOf(max, delayMs),
    factor: factor === undefined ? DEFAULT_BACKOFF.factor : factorOf(factor),
    jitter:
      jitter === undefined ? DEFAULT_BACKOFF.jitter : boolean(`jitter of ${name}`, jitter, code),
  })

  function maxOf(value: Duration, least: number): number {
    const ms = msOf(`max of ${name}`, value, code)
    return ms >= least ? ms : refuseValue(`max of ${name}`, value, 'at least the delay', code)
  }

  function factorOf(value: unknown): number {
    if (typeof value === 'number' && value >= 1 && value <= MAX_RETRIES) return value
    return refuseValue(`factor of ${name}`, value, 'a number of at least 1', code)
  }
}

/** Whether jobs under these terms leave their back-off to the function of their type. */
export function backoffFunctionOf(
  terms: Terms,
  type: TypeTerms,
): TypeTerms['backoffFunction'] | undefined {
  const a = terms.backoff
  const b = type.terms.backoff
  const same =
    a.type === b.type &&
    a.delayMs === b.delayMs &&
    a.maxMs === b.maxMs &&
    a.factor === b.factor &&
    a.jitter === b.jitter
  return same ? type.backoffFunction : undefined
}

export function asIs(key: string): string {
  return key
}

export function priorityOf(
  named: (key: string) => string,
  value: number,
  code: AxErrorCode,
): number {
  return integer(named('priority'), value, PRIORITY.min, PRIORITY.max, code)
}

export function msOf(what: string, value: Duration, code: AxErrorCode): number {
  const ms = toMs(value, what, code)
  return ms < MAX_MS ? ms : refuseValue(what, value, 'less than 69 years', code)
}
