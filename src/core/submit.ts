// Owns the border: a submission comes in as people write it, and leaves as a NewJob or not at all.
// May never let anything through that would be ignored, and may never read a clock: `now` comes in.

import type { Duration } from './duration.ts'
import { AxError, isAxError } from './errors.ts'
import { checkName } from './id.ts'
import { type Dep, type DepMode, Live, type NewJob, type Stored } from './job.ts'
import { callable, oneOf, plain, refuseUnknown, refuseValue, show } from './options.ts'
import {
  type Asked,
  asIs,
  askedOf,
  jobTerms,
  MAX_MS,
  msOf,
  priorityOf,
  refuseBackoff,
  type TypeTerms,
} from './terms.ts'
import type { JobContext, JobInput } from './types.ts'
import { toJson } from './values.ts'

/** What a job carries with it by reference, where the store keeps references. */
export interface JobBody {
  readonly execute: (context: JobContext) => unknown
  readonly backoff?: (attempt: number, random: number) => number
}

/** What submissions to a store are checked against, whatever their types. */
export interface SubmitContext {
  mint(now: number): string
  /** Whether payloads of a type are made by its schema, from what was given: see `filled`. */
  isMade(type: string): boolean
  readonly maxPayloadBytes: number
  /** The store keeps references, so a job may bring its own `execute`. */
  readonly keepsLive: boolean
  readonly storeName: string
}

/** A submission that is right by itself. What is open yet is what its type says: see `agreed`. */
export interface Draft {
  readonly job: Omit<NewJob, 'pool' | 'priority' | 'terms'>
  readonly pool: string | undefined
  readonly priority: number | undefined
  readonly asked: Asked
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

/** The same error, saying which job of the batch it is about. */
export function placed(error: unknown, index: number): unknown {
  if (!isAxError(error)) return error
  const cause = error.cause === undefined ? {} : { cause: error.cause }
  return new AxError(error.code, `jobs[${index}]: ${error.message}`, { ...error, ...cause, index })
}

/**
 * What a submission says, checked and taken down; `now` is the wall clock, from which an
 * `availableAt` is a distance. Refuses what is wrong whatever its type, with INVALID_JOB,
 * TOO_LARGE, or CYCLE for a job that depends on itself; the message names the key, the value and
 * the remedy.
 */
export function draftOf(input: JobInput, context: SubmitContext, now: number): Draft {
  checkKeys(input)
  const { execute } = input
  if (execute !== undefined) checkExecute(execute, context)
  const type = typeNameOf(input)
  const id = input.id === undefined ? context.mint(now) : checkName('id', input.id)
  const deps = input.deps === undefined ? NO_DEPS : depsOf(input.deps, id)
  const job: Draft['job'] = {
    id,
    type,
    flow: optionalName('flow', input.flow),
    payload: context.isMade(type) ? undefined : payloadOf(input, context),
    body: execute === undefined ? undefined : bodyOf(input),
    delayMs: delayOf(input, now),
    enqueueTimeoutMs: optionalMs('enqueueTimeout', input.enqueueTimeout),
    deps,
    depMode: input.depMode === undefined ? 'all' : depModeOf(input.depMode, deps.length),
    key: optionalName('key', input.key),
    keyForMs: input.dedupe === undefined ? 0 : windowOf(input.dedupe, input.key),
    exclusive: optionalName('exclusive', input.exclusive),
    minted: input.id === undefined,
  }
  return {
    job,
    pool: optionalName('pool', input.pool),
    priority:
      input.priority === undefined ? undefined : priorityOf(asIs, input.priority, 'INVALID_JOB'),
    asked: askedBy(input),
  }
}

/** With the payload that the schema of its type has made. */
export function filled(draft: Draft, value: unknown, context: SubmitContext): Draft {
  const { job } = draft
  const payload = job.body === undefined ? payloadAtRest(value, context) : new Live(value)
  return { ...draft, job: { ...job, payload } }
}

/**
 * A submission as a store takes it: what it says, and what it does not say as its type has it.
 * Refuses with INVALID_JOB what would have no effect, or could never work, with that type.
 */
export function agreed({ job, pool, priority, asked }: Draft, type: TypeTerms): NewJob {
  const { backoffFunction: backoff } = type
  const body = job.body as JobBody | undefined
  const isBare = body !== undefined && asked.backoff === undefined && backoff !== undefined
  // Field by field: a copy by `...` costs more than all the rest.
  return {
    id: job.id,
    type: job.type,
    pool: pool ?? type.pool,
    flow: job.flow,
    payload: job.payload,
    body: isBare ? { ...body, backoff } : body,
    terms: jobTerms(asked, type),
    priority: priority ?? type.priority,
    delayMs: job.delayMs,
    enqueueTimeoutMs: job.enqueueTimeoutMs,
    deps: job.deps,
    depMode: job.depMode,
    key: job.key,
    keyForMs: job.keyForMs,
    exclusive: job.exclusive,
    minted: job.minted,
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
function payloadAtRest(payload: unknown, context: SubmitContext): Stored {
  return toJson(payload, 'payload', {
    maxBytes: context.maxPayloadBytes,
    code: 'INVALID_JOB',
    lenient: false,
  })
}

function bodyOf({ execute, backoff }: JobInput): JobBody {
  return {
    execute: execute as JobBody['execute'],
    ...(typeof backoff === 'function' ? { backoff } : {}),
  }
}

function askedBy(input: JobInput): Asked {
  const { backoff, retries, execute } = input
  if (typeof backoff === 'function' && execute === undefined) {
    throw new AxError(
      'INVALID_JOB',
      'backoff is a function, which cannot be stored with a job. ' +
        "Give it in the type's policy, or describe it: { type: 'exponential', delay: '1s' }.",
      { option: 'backoff' },
    )
  }
  const asked = askedOf(input, asIs, 'INVALID_JOB')
  if (backoff !== undefined && retries === 0) refuseBackoff('backoff', backoff, 'INVALID_JOB')
  return asked
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
