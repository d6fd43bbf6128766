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

type BackoffFunction = (attempt: number, random: number) => number

/** What one process says of a type, explicitly: no default is in it. */
export interface TypeSaid {
  /** What all processes are to go by; undefined: nothing that can be stored. */
  readonly setting: TypeChange | undefined
  /** Functions hold in the process that has them. */
  readonly backoffFunction?: BackoffFunction
  readonly retryable?: (error: unknown) => boolean
  readonly confirm?: TypePolicy['confirm'] & object
  readonly schema?: StandardSchemaV1
}

/** What a job gets from its type unless it asks for something else. */
export interface TypeTerms {
  readonly pool: string
  readonly priority: number
  /** Shared by every job that asks for nothing of its own. */
  readonly terms: Terms
  /** Given, not derived: then it holds for jobs with retries of their own, too. */
  readonly maxLost: number | null
  readonly backoffFunction?: BackoffFunction
}

/** What a job, or a policy, asks for about running, checked: what it does not say is absent. */
export type Asked = {
  readonly [K in 'timeoutMs' | 'retries' | 'backoff' | 'idempotent' | 'heartbeatMs']?: Terms[K]
}

const MAX_RETRIES = 1_000_000

const MAX_FACTOR = 1_000_000

/** Some 69 years: with this, ranks and sums with an instant stay exact. */
export const MAX_MS = 2 ** 41

const MIN_LOST = 3

export const DEFAULT_TYPE: TypeSetting = Object.freeze({
  pool: 'default',
  priority: PRIORITY.default,
  concurrency: null,
  maxLost: null,
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

/** A type's policy, checked: what it says, and nothing else. Refuses with INVALID_OPTION. */
export function resolveType(type: string, policy: TypePolicy): TypeSaid {
  const code = 'INVALID_OPTION'
  checkName('A type', type, code)
  const where = `policy of type ${show(type)}`
  plain(`The ${where}`, policy, code)
  refuseUnknown(`The ${where}`, policy, POLICY_KEYS, code)
  const named = (key: string): string => `${key} in the ${where}`
  const { backoff, retries = 0, retryable, confirm, schema } = policy
  const setting = settingOf(policy, named, code)
  if (backoff !== undefined && retries === 0) refuseBackoff(named('backoff'), backoff, code)
  if (retryable !== undefined) callable(named('retryable'), retryable, code)
  if (schema !== undefined) schemaOf(schema, named('schema'), code)
  return Object.freeze({
    setting: Object.keys(setting).length === 0 ? undefined : Object.freeze(setting),
    ...(typeof backoff === 'function' ? { backoffFunction: backoff } : {}),
    ...(retryable === undefined ? {} : { retryable }),
    ...(confirm === undefined ? {} : { confirm }),
    ...(schema === undefined ? {} : { schema }),
  })
}

/** What of a policy can be stored: all processes go by it. */
function settingOf(
  policy: TypePolicy,
  named: (key: string) => string,
  code: AxErrorCode,
): TypeChange {
  const { pool, priority, concurrency, maxLost } = policy
  const terms = { ...askedOf(policy, named, code), ...ownTerms(policy, named, code) }
  return {
    ...(pool === undefined ? {} : { pool: checkName(named('pool'), pool, code) }),
    ...(priority === undefined ? {} : { priority: priorityOf(named, priority, code) }),
    ...(concurrency === undefined
      ? {}
      : { concurrency: capOf(named('concurrency'), concurrency, code) }),
    ...(maxLost === undefined
      ? {}
      : { maxLost: integer(named('maxLost'), maxLost, 0, MAX_RETRIES, code) }),
    ...(Object.keys(terms).length === 0 ? {} : { terms }),
  }
}

/** What is stored of a type once somebody has said something of it. */
export function changedType(before: TypeSetting | undefined, said: TypeChange): TypeSetting {
  const base = before ?? DEFAULT_TYPE
  const after = { ...base, ...said }
  const terms = { ...base.terms, ...said.terms }
  const derived = said.terms?.maxLost ?? Math.max(terms.retries, MIN_LOST)
  return { ...after, terms: { ...terms, maxLost: after.maxLost ?? derived } }
}

/** A type as one process submits to it: what it says itself, else what is stored, else defaults. */
export function typeTerms(
  stored: TypeSetting | undefined,
  { setting, backoffFunction }: Partial<TypeSaid> = {},
): TypeTerms {
  const { pool, priority, terms, maxLost } =
    setting === undefined ? (stored ?? DEFAULT_TYPE) : changedType(stored, setting)
  const own = backoffFunction === undefined ? {} : { backoffFunction }
  return Object.freeze({ pool, priority, terms, maxLost, ...own })
}

/** Infinity takes back what somebody else has said. */
function capOf(name: string, value: number, code: AxErrorCode): number | null {
  return value === Number.POSITIVE_INFINITY ? null : integer(name, value, 0, MAX_RETRIES, code)
}

/** What only a type can ask for. */
function ownTerms(
  { confirm, preemptible, idempotent }: TypePolicy,
  named: (key: string) => string,
  code: AxErrorCode,
): Partial<Terms> {
  if (confirm !== undefined) callable(named('confirm'), confirm, code)
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
    ...(confirm === undefined ? {} : { confirm: true }),
    ...(preemptible === undefined ? {} : { preemptible }),
  }
}

function schemaOf(value: unknown, name: string, code: AxErrorCode): StandardSchemaV1 {
  const standard = (value as Partial<StandardSchemaV1> | null)?.['~standard']
  if (typeof standard?.validate === 'function') return value as StandardSchemaV1
  return refuseValue(name, value, 'a Standard Schema (zod, valibot, arktype ...)', code)
}

/** What of a job and of a policy is about running. */
type Wishes = Pick<JobInput, 'timeout' | 'retries' | 'backoff' | 'idempotent' | 'heartbeat'>

/** For all who ask for nothing. */
const NOTHING: Asked = Object.freeze({})

/** What somebody asks for, each wish by itself: what they come to together, the type decides. */
export function askedOf(
  { timeout, retries, backoff, idempotent, heartbeat }: Wishes,
  named: (key: string) => string,
  code: AxErrorCode,
): Asked {
  if (timeout === undefined && retries === undefined && backoff === undefined) {
    if (idempotent === undefined && heartbeat === undefined) return NOTHING
  }
  // Key by key: one object, and not one for each wish.
  const asked: { -readonly [K in keyof Asked]: Asked[K] } = {}
  if (timeout !== undefined) asked.timeoutMs = msOf(named('timeout'), timeout, code)
  if (retries !== undefined) {
    asked.retries = integer(named('retries'), retries, 0, MAX_RETRIES, code)
  }
  if (backoff !== undefined) asked.backoff = backoffOf(backoff, named('backoff'), code)
  if (idempotent !== undefined) asked.idempotent = boolean(named('idempotent'), idempotent, code)
  if (heartbeat !== undefined) asked.heartbeatMs = msOf(named('heartbeat'), heartbeat, code)
  return asked
}

/** The terms of a job: what it asks for, the rest is as its type has it. Refuses INVALID_JOB. */
export function jobTerms(asked: Asked, type: TypeTerms): Terms {
  const terms = asked === NOTHING ? type.terms : laidOver(asked, type)
  if (asked.backoff !== undefined && terms.retries === 0) {
    refuseBackoff('backoff', asked.backoff, 'INVALID_JOB')
  }
  if (terms.preemptible && !terms.idempotent && !terms.confirm) refusePreemptible(asked)
  return terms
}

/** The object of the type itself where the job asks for what it would have had anyhow. */
function laidOver(asked: Asked, { terms: usual, maxLost }: TypeTerms): Terms {
  const { timeoutMs = usual.timeoutMs, retries = usual.retries, backoff = usual.backoff } = asked
  const { idempotent = usual.idempotent, heartbeatMs = usual.heartbeatMs } = asked
  const isLimited = timeoutMs === usual.timeoutMs && heartbeatMs === usual.heartbeatMs
  const isRetried = retries === usual.retries && backoff === usual.backoff
  if (isLimited && isRetried && idempotent === usual.idempotent) return usual
  return {
    timeoutMs,
    retries,
    backoff,
    maxLost: asked.retries === undefined ? usual.maxLost : (maxLost ?? Math.max(retries, MIN_LOST)),
    idempotent,
    confirm: usual.confirm,
    heartbeatMs,
    preemptible: usual.preemptible,
  }
}

export function refuseBackoff(name: string, value: unknown, code: AxErrorCode): never {
  throw new AxError(
    code,
    `${name} has no effect with retries 0. Give retries, or leave backoff out.`,
    { option: 'backoff', value },
  )
}

/** Both may have been said of the type, by two processes that know nothing of each other. */
function refusePreemptible({ idempotent }: Asked): never {
  const isOwn = idempotent === false
  const text = isOwn
    ? 'idempotent is false, but the type is preemptible and has no confirm: once displaced, the ' +
      'job could never run again. Give the type confirm, or leave idempotent out.'
    : 'The type of the job is preemptible, not idempotent, and has no confirm: once displaced, ' +
      'the job could never run again. Give the type confirm, or take one of the two back, in ' +
      'whichever process says it.'
  throw new AxError(
    'INVALID_JOB',
    text,
    isOwn ? { option: 'idempotent', value: false } : { option: 'preemptible', value: true },
  )
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
    described: true,
  })

  function maxOf(value: Duration, least: number): number {
    const ms = msOf(`max of ${name}`, value, code)
    return ms >= least ? ms : refuseValue(`max of ${name}`, value, 'at least the delay', code)
  }

  function factorOf(value: unknown): number {
    if (typeof value === 'number' && value >= 1 && value <= MAX_FACTOR) return value
    return refuseValue(`factor of ${name}`, value, `a number from 1 to ${MAX_FACTOR}`, code)
  }
}

/** What of the functions of its type says how long a job backs off: none, if it was described. */
export function backoffFunctionOf(
  { backoff }: Terms,
  { backoffFunction }: TypeSaid,
): BackoffFunction | undefined {
  return backoff.described === true ? undefined : backoffFunction
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
