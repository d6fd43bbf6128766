// Owns the border: a submission comes in as people write it, and leaves as a NewJob or not at all.
// May never let anything through that would be ignored, and may never read a clock: `now` comes in.

import type { Duration } from './duration.ts'
import { AxError, isAxError } from './errors.ts'
import { checkName } from './id.ts'
import { type Dep, type DepMode, Live, type NewJob, type Stored, type Terms } from './job.ts'
import { callable, oneOf, plain, refuseUnknown, refuseValue, show } from './options.ts'
import { asIs, DEFAULT_TYPE, MAX_MS, msOf, priorityOf, type TypeTerms, termsOf } from './terms.ts'
import type { JobContext, JobInput } from './types.ts'
import { toJson } from './values.ts'

export { backoffFunctionOf, resolveType, type TypeTerms } from './terms.ts'

/** What a job carries with it by reference, where the store keeps references. */
export interface JobBody {
  readonly execute: (context: JobContext) => unknown
  readonly backoff?: (attempt: number, random: number) => number
}

export interface SubmitContext {
  typeOf(type: string): TypeTerms | undefined
  mint(): string
  /** The wall clock: an `availableAt` is a distance from it. */
  readonly now: number
  readonly maxPayloadBytes: number
  /** The store keeps references, so a job may bring its own `execute`. */
  readonly keepsLive: boolean
  readonly storeName: string
  /** Its place in its batch; messages begin with it. */
  readonly index?: number | undefined
  /** Its payload is not looked at: it is made afterwards, by the schema of its type. */
  readonly withoutPayload?: boolean | undefined
}

/** Dependencies of one job: what one atomic insertion can link. */
const MAX_DEPS = 100_000

const NO_DEPS: readonly Dep[] = Object.freeze([])

export const JOB_KEYS: readonly (keyof JobInput)[] = [
  'id',
  'type',
  'payload',
  'priority',
  'deps',
  'depMode',
  'timeout',
  'retries',
  'backoff',
  'heartbeat',
  'availableAt',
  'delay',
  'enqueueTimeout',
  'key',
  'dedupe',
  'exclusive',
  'pool',
  'flow',
  'idempotent',
  'execute',
]

const KNOWN_KEYS: ReadonlySet<string> = new Set(JOB_KEYS)

/**
 * A submission as a store takes it. Refuses with INVALID_JOB, TOO_LARGE, or CYCLE for a job that
 * depends on itself; the message names the key, the value and the remedy. A job that asks for
 * nothing of its own costs one object, and its JSON.
 */
export function toNewJob(input: JobInput, context: SubmitContext): NewJob {
  try {
    return build(input, context)
  } catch (error) {
    throw context.index === undefined ? error : placed(error, context.index)
  }
}

/** The same error, saying which job of the batch it is about. */
export function placed(error: unknown, index: number): unknown {
  if (!isAxError(error)) return error
  const cause = error.cause === undefined ? {} : { cause: error.cause }
  return new AxError(error.code, `jobs[${index}]: ${error.message}`, { ...error, ...cause, index })
}

function build(input: JobInput, context: SubmitContext): NewJob {
  checkKeys(input)
  const { execute } = input
  if (execute !== undefined) checkExecute(execute, context)
  const type = typeNameOf(input)
  const policy = context.typeOf(type) ?? DEFAULT_TYPE
  const id = input.id === undefined ? context.mint() : checkName('id', input.id)
  const priority =
    input.priority === undefined ? policy.priority : priorityOf(asIs, input.priority, 'INVALID_JOB')
  const deps = input.deps === undefined ? NO_DEPS : depsOf(input.deps, id)
  return {
    id,
    type,
    pool: optionalName('pool', input.pool) ?? policy.pool,
    flow: optionalName('flow', input.flow),
    payload: context.withoutPayload === true ? undefined : payloadOf(input, context),
    body: execute === undefined ? undefined : bodyOf(input, policy),
    terms: jobTermsOf(input, policy),
    priority,
    delayMs: delayOf(input, context.now),
    enqueueTimeoutMs: optionalMs('enqueueTimeout', input.enqueueTimeout),
    deps,
    depMode: input.depMode === undefined ? 'all' : depModeOf(input.depMode, deps.length),
    key: optionalName('key', input.key),
    keyForMs: input.dedupe === undefined ? 0 : windowOf(input.dedupe, input.key),
    exclusive: optionalName('exclusive', input.exclusive),
    minted: input.id === undefined,
  }
}

/** Inherited keys count: they are read as well. */
function checkKeys(input: JobInput): void {
  plain('A job', input, 'INVALID_JOB')
  for (const key in input) {
    if (!KNOWN_KEYS.has(key)) {
      refuseUnknown('A job', { [key]: true }, JOB_KEYS, 'INVALID_JOB')
    }
  }
}

function checkExecute(execute: unknown, context: SubmitContext): void {
  callable('execute', execute, 'INVALID_JOB')
  if (context.keepsLive) return
  throw new AxError(
    'INVALID_JOB',
    `execute is a function, and the store ${context.storeName} keeps data only. ` +
      'Define the type with scheduler.define(type, handler) and submit { type, payload }.',
    { option: 'execute' },
  )
}

function typeNameOf(input: JobInput): string {
  if (input.type !== undefined) return checkName('type', input.type)
  if (input.execute !== undefined) return 'task'
  throw new AxError(
    'INVALID_JOB',
    'A job needs a type, which says what handler runs it, or its own execute.',
    { option: 'type' },
  )
}

function optionalName(what: string, value: string | undefined): string | undefined {
  return value === undefined ? undefined : checkName(what, value)
}

function optionalMs(what: string, value: Duration | undefined): number {
  return value === undefined ? 0 : msOf(what, value, 'INVALID_JOB')
}

function payloadOf({ execute, payload }: JobInput, context: SubmitContext): Stored {
  return execute === undefined ? payloadAtRest(payload, context) : new Live(payload)
}

/** A payload as a store keeps it. Refuses with INVALID_JOB what is no JSON, TOO_LARGE if it is. */
export function payloadAtRest(payload: unknown, context: SubmitContext): Stored {
  return toJson(payload, 'payload', {
    maxBytes: context.maxPayloadBytes,
    code: 'INVALID_JOB',
    lenient: false,
  })
}

/** What of a submission depends on its type. */
export type Wishes = Pick<
  JobInput,
  'pool' | 'priority' | 'timeout' | 'retries' | 'backoff' | 'idempotent' | 'heartbeat' | 'execute'
>

/** A job whose type was not known yet when it was made, as one of that type. */
export function ofType(job: NewJob, wishes: Wishes, policy: TypeTerms): NewJob {
  return {
    ...job,
    pool: wishes.pool ?? policy.pool,
    priority: wishes.priority ?? policy.priority,
    terms: jobTermsOf(wishes, policy),
  }
}

/** Its back-off function is its own, or its type's if it brings no back-off at all. */
function bodyOf(input: JobInput, policy: TypeTerms): JobBody {
  const { execute } = input
  const backoff = input.backoff ?? policy.backoffFunction
  return {
    execute: execute as JobBody['execute'],
    ...(typeof backoff === 'function' ? { backoff } : {}),
  }
}

function jobTermsOf(input: Wishes, policy: TypeTerms): Terms {
  const { timeout, retries, backoff, idempotent, heartbeat } = input
  if (timeout === undefined && retries === undefined && backoff === undefined) {
    const same = idempotent === undefined || idempotent === policy.terms.idempotent
    if (same && heartbeat === undefined) return policy.terms
  }
  if (typeof backoff === 'function' && input.execute === undefined) {
    throw new AxError(
      'INVALID_JOB',
      'backoff is a function, which cannot be stored with a job. ' +
        "Give it in the type's policy, or describe it: { type: 'exponential', delay: '1s' }.",
      { option: 'backoff' },
    )
  }
  const terms = termsOf(input, policy, asIs, 'INVALID_JOB')
  if (terms.preemptible && !terms.idempotent && !terms.confirm) {
    throw new AxError(
      'INVALID_JOB',
      'idempotent is false, but the type is preemptible and has no confirm: once displaced, the ' +
        'job could never run again. Give the type confirm, or leave idempotent out.',
      { option: 'idempotent', value: false },
    )
  }
  return terms
}

function delayOf(input: JobInput, now: number): number {
  const { availableAt, delay } = input
  if (availableAt === undefined) return optionalMs('delay', delay)
  if (delay !== undefined) {
    throw new AxError('INVALID_JOB', 'Give delay or availableAt, not both.', {
      option: 'availableAt',
      value: availableAt,
    })
  }
  if (typeof availableAt !== 'number' || !Number.isFinite(availableAt)) {
    refuseValue('availableAt', availableAt, 'a number of epoch milliseconds', 'INVALID_JOB')
  }
  const ms = Math.max(0, Math.ceil(availableAt - now))
  if (ms < MAX_MS) return ms
  return refuseValue('availableAt', availableAt, 'less than 69 years away', 'INVALID_JOB')
}

function windowOf(dedupe: unknown, key: string | undefined): number {
  const { for: window } = plain('dedupe', dedupe, 'INVALID_JOB') as { readonly for?: Duration }
  refuseUnknown('dedupe', dedupe as object, ['for'], 'INVALID_JOB')
  if (key === undefined) {
    throw new AxError(
      'INVALID_JOB',
      'dedupe has no effect without key: it says for how long a success goes on holding the key.',
      { option: 'dedupe', value: dedupe },
    )
  }
  return msOf('dedupe.for', window as Duration, 'INVALID_JOB')
}

/** Distinct dependencies in order; one that is named for both kinds of end wants a success. */
function depsOf(given: JobInput['deps'] & object, self: string): readonly Dep[] {
  if (!Array.isArray(given)) {
    return refuseValue('deps', given, "a list of ids, such as ['a', 'b']", 'INVALID_JOB')
  }
  if (given.length > MAX_DEPS) {
    throw new AxError(
      'TOO_LARGE',
      `deps has ${given.length} entries; at most ${MAX_DEPS} are allowed. Join them in stages.`,
      { option: 'deps', size: given.length, limit: MAX_DEPS },
    )
  }
  const distinct = new Map<string, Dep>()
  for (let index = 0; index < given.length; index += 1) {
    const dep = depOf(given[index], `deps[${index}]`)
    if (dep.id === self) refuseSelf(self)
    const known = distinct.get(dep.id)
    if (known === undefined || dep.on === 'success') distinct.set(dep.id, dep)
  }
  return distinct.size === 0 ? NO_DEPS : [...distinct.values()]
}

function depOf(given: unknown, name: string): Dep {
  if (typeof given !== 'object' || given === null) {
    return { id: checkName(name, given), on: 'success' }
  }
  refuseUnknown(name, given, ['id', 'on'], 'INVALID_JOB')
  const { id, on = 'success' } = given as { readonly id?: unknown; readonly on?: unknown }
  return {
    id: checkName(`${name}.id`, id),
    on: oneOf(`${name}.on`, on, ['success', 'end'], 'INVALID_JOB'),
  }
}

function refuseSelf(id: string): never {
  throw new AxError('CYCLE', `Job ${show(id)} depends on itself. Take it out of its own deps.`, {
    jobId: id,
    path: [id, id],
  })
}

function depModeOf(depMode: unknown, count: number): DepMode {
  if (depMode === 'all' || depMode === 'any') return depMode
  if (typeof depMode === 'string') oneOf('depMode', depMode, ['all', 'any'], 'INVALID_JOB')
  const isCount = typeof depMode === 'number' && Number.isInteger(depMode) && depMode >= 1
  if (isCount && depMode <= count) return depMode
  const many = count === 1 ? '1 distinct dependency' : `${count} distinct dependencies`
  const range = count === 0 ? "'all' or 'any'" : `'all', 'any' or an integer from 1 to ${count}`
  return refuseValue('depMode', depMode, `${range} (the job has ${many})`, 'INVALID_JOB')
}
