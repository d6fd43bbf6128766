// Owns what a flow is: which keys its file may have, and what they mean for the scheduler.
// May never read a file or start a job.

import { findCycle } from '../core/cycle.ts'
import { byteLength, checkName } from '../core/id.ts'
import type { DepMode } from '../core/job.ts'
import { boolean, callable, integer, nearest, oneOf, refuseValue, show } from '../core/options.ts'
import type { Backoff, JobInput, PoolOptions } from '../core/types.ts'
import { Checker, duration, type Reader, text } from './check.ts'
import type { Source } from './load.ts'
import { FlowFault, type Path, showPath } from './problems.ts'
import { checkWork, type Work, workKeys } from './work.ts'

export interface Flow {
  readonly name: string
  /** Its file, absolute. */
  readonly file: string
  /** Where its commands run. */
  readonly folder: string
  readonly pools: Readonly<Record<string, PoolOptions>>
  readonly jobs: readonly FlowJob[]
}

export interface FlowJob {
  readonly name: string
  readonly work: Work
  readonly deps: readonly FlowDep[]
  readonly depMode: DepMode | undefined
  readonly pool: string
  readonly settings: Settings
}

export interface FlowDep {
  readonly name: string
  readonly on: 'success' | 'end'
}

/** What the scheduler takes as it is. */
export type Settings = Pick<JobInput, (typeof SETTINGS)[number]>

/** The pool of a job that names none. */
export const DEFAULT_POOL = 'default'

/** Flow, run and job together are an id, which has 255 bytes. */
const MAX_NAME = 100

/** More than anybody means. */
const MAX_RETRIES = 1_000_000

const name: Reader<string> = (what, value) => {
  const given = checkName(what, value, 'INVALID_OPTION')
  const fits = byteLength(given) <= MAX_NAME && ![...given].some((each) => each < ' ')
  return fits ? given : refuseValue(what, given, `a text of at most ${MAX_NAME} bytes on one line`)
}

const flowName: Reader<string> = (what, value) =>
  /[/#]/.test(name(what, value))
    ? refuseValue(what, value, "a text without '/' and '#'")
    : name(what, value)

const concurrency: Reader<number> = (what, value) => integer(what, value, 1)

/** Keys that a job has for itself and that `defaults` give to all. */
const SHARED = {
  priority: (what: string, value: unknown) => integer(what, value, 1, 100),
  timeout: duration,
  retries: (what: string, value: unknown) => integer(what, value, 0, MAX_RETRIES),
  enqueueTimeout: duration,
  idempotent: (what: string, value: unknown) => boolean(what, value),
}

const OWN = { delay: duration, key: text, exclusive: text }

const SETTINGS = [
  'priority',
  'timeout',
  'retries',
  'enqueueTimeout',
  'idempotent',
  'backoff',
  'delay',
  'key',
  'exclusive',
] as const

const FLOW_KEYS = ['name', 'pools', 'defaults', 'jobs']
const DEFAULT_KEYS = [...Object.keys(SHARED), 'backoff', 'pool']
const JOB_KEYS = [...DEFAULT_KEYS, ...Object.keys(OWN), 'deps', 'depMode']

/** The flow that a file describes; throws a FlowFault with everything that is wrong with it. */
export function toFlow(source: Source): Flow {
  const check = new Checker(source)
  const flow = checkFlow(check, source)
  if (flow === undefined || check.problems.length > 0) {
    throw new FlowFault(source.file, check.problems)
  }
  return flow
}

function checkFlow(check: Checker, source: Source): Flow | undefined {
  const given = check.object([], source.value, "an object with 'jobs'")
  if (given === undefined) return undefined
  check.keys([], given, FLOW_KEYS, 'a flow')
  const named = given.name ?? source.title
  const flow = check.read(['name'], named, flowName)
  const pools = checkPools(check, given.pools)
  const poolNames = [DEFAULT_POOL, ...Object.keys(pools)]
  const defaults = checkDefaults(check, given.defaults, poolNames)
  const jobs = checkJobs(check, given.jobs, poolNames, defaults)
  const { path: file, folder } = source
  return flow === undefined ? undefined : { name: flow, file, folder, pools, jobs }
}

function checkPools(check: Checker, value: unknown): Record<string, PoolOptions> {
  const pools: Record<string, PoolOptions> = Object.create(null)
  const given = value === undefined ? {} : check.object(['pools'], value, 'an object of pools')
  for (const [pool, options] of Object.entries(given ?? {})) {
    const path = ['pools', pool]
    check.read(path, pool, name)
    const settings = check.object(path, options, "an object such as '{ concurrency: 4 }'") ?? {}
    check.keys(path, settings, ['concurrency'], 'a pool')
    pools[pool] = check.pick<{ concurrency: number }>(path, settings, { concurrency })
  }
  return pools
}

interface Defaults {
  readonly pool: string
  readonly settings: Settings
}

function checkDefaults(check: Checker, value: unknown, pools: readonly string[]): Defaults {
  const path = ['defaults']
  const given = value === undefined ? {} : (check.object(path, value, 'an object') ?? {})
  check.keys(path, given, DEFAULT_KEYS, "'defaults'")
  const pool = checkPool(check, path, given.pool, pools) ?? DEFAULT_POOL
  return { pool, settings: checkSettings(check, path, given) }
}

function checkJobs(
  check: Checker,
  value: unknown,
  pools: readonly string[],
  defaults: Defaults,
): FlowJob[] {
  const given = check.object(['jobs'], value, 'an object of jobs, each under its name')
  if (given === undefined) return []
  const names = Object.keys(given)
  if (names.length === 0) check.report(['jobs'], 'jobs is empty: a flow needs a job.', 'key')
  const jobs = names.flatMap((job) => {
    const path = ['jobs', job] as const
    check.read(path, job, name)
    const keys = check.object(path, given[job], "an object such as '{ run: ... }'")
    return keys === undefined ? [] : checkJob(check, path, keys, names, pools, defaults)
  })
  refuseLoop(check, jobs)
  refuseTwins(check, jobs)
  return jobs
}

function checkJob(
  check: Checker,
  path: readonly [string, string],
  given: Record<string, unknown>,
  names: readonly string[],
  pools: readonly string[],
  defaults: Defaults,
): FlowJob {
  check.keys(path, given, [...workKeys(check.allowsFunctions), ...JOB_KEYS], 'a job')
  const deps = checkDeps(check, [...path, 'deps'], given.deps ?? [], names)
  const own = check.pick<Pick<Settings, keyof typeof OWN>>(path, given, OWN)
  return {
    name: path[1],
    // A job without work has been reported; nobody will see what it would have done.
    work: checkWork(check, path, given) ?? { kind: 'sleep', ms: 0 },
    deps,
    depMode: checkDepMode(check, [...path, 'depMode'], given.depMode, deps.length),
    pool: checkPool(check, path, given.pool, pools) ?? defaults.pool,
    settings: {
      ...withDefaults(check, path, checkSettings(check, path, given), defaults.settings),
      ...own,
    },
  }
}

/** A back-off that all jobs share is not meant for those that are not tried again. */
function withDefaults(check: Checker, path: Path, own: Settings, defaults: Settings): Settings {
  const { backoff, ...settings } = { ...defaults, ...own }
  if (backoff === undefined) return settings
  if ((settings.retries ?? 0) > 0) return { ...settings, backoff }
  if (own.backoff !== undefined) {
    const where = [...path, 'backoff']
    check.report(where, `${showPath(where)} has no effect without retries.`, 'key')
  }
  return settings
}

function checkSettings(check: Checker, path: Path, given: Record<string, unknown>): Settings {
  const settings = check.pick<Pick<Settings, keyof typeof SHARED>>(path, given, SHARED)
  if (given.backoff === undefined) return settings
  const backoff = checkBackoff(check, [...path, 'backoff'], given.backoff)
  return backoff === undefined ? settings : { ...settings, backoff }
}

function checkBackoff(check: Checker, path: Path, value: unknown): Backoff | undefined {
  if (check.allowsFunctions && typeof value === 'function') {
    return check.read(path, value as Extract<Backoff, () => number>, (what, given) =>
      callable(what, given as Extract<Backoff, () => number>),
    )
  }
  const given = check.object(path, value, "an object such as '{ type: fixed, delay: 2s }'")
  if (given === undefined) return undefined
  check.keys(path, given, Object.keys(BACKOFF), "'backoff'")
  if (given.type === undefined) {
    return check.report(path, `${showPath(path)} has no type: 'fixed' or 'exponential'.`, 'key')
  }
  const { type, ...rest } = check.pick<BackoffObject>(path, given, BACKOFF)
  if (type === 'fixed' && rest.factor !== undefined) {
    const where = [...path, 'factor']
    check.report(where, `${showPath(where)} has no effect on a fixed delay.`, 'key')
  }
  if (Number(rest.max ?? Infinity) < Number(rest.delay ?? 0)) {
    check.report([...path, 'max'], `${showPath([...path, 'max'])} must be at least the delay.`)
  }
  return type === undefined ? undefined : { type, ...rest }
}

type BackoffObject = Required<Exclude<Backoff, (...args: never[]) => number>>

const BACKOFF: { readonly [K in keyof BackoffObject]: Reader<BackoffObject[K]> } = {
  type: (what, value) => oneOf(what, value, ['fixed', 'exponential']),
  delay: duration,
  max: duration,
  factor: (what, value) =>
    typeof value === 'number' && value >= 1 && value <= 1_000_000
      ? value
      : refuseValue(what, value, 'a number from 1 to 1000000'),
  jitter: (what, value) => boolean(what, value),
}

function checkPool(check: Checker, path: Path, value: unknown, pools: readonly string[]) {
  if (value === undefined) return undefined
  return check.read([...path, 'pool'], value, (what, given) =>
    pools.includes(given as string)
      ? (given as string)
      : refuseValue(what, given, `one of the flow's pools${hint(given, pools)}`),
  )
}

function checkDeps(
  check: Checker,
  path: Path,
  value: unknown,
  names: readonly string[],
): FlowDep[] {
  if (!Array.isArray(value)) {
    check.report(path, `${showPath(path)} must be a list of jobs, got ${show(value)}.`)
    return []
  }
  return value.flatMap((dep: unknown, index) => checkDep(check, [...path, index], dep, names) ?? [])
}

function checkDep(
  check: Checker,
  path: Path,
  value: unknown,
  names: readonly string[],
): FlowDep | undefined {
  const isText = typeof value === 'string'
  const isUnquoted = !isText && names.includes(String(value))
  if (isUnquoted) {
    return check.report(path, `${showPath(path)} must be a text: put quotes around ${show(value)}.`)
  }
  const what = "a job's name, or an object such as '{ id: ..., on: end }'"
  const given = isText ? { id: value } : check.object(path, value, what)
  if (given === undefined) return undefined
  check.keys(path, given, ['id', 'on'], 'a dependency')
  const where = isText ? path : [...path, 'id']
  const id = check.read(where, given.id, (at, id) =>
    names.includes(id as string)
      ? (id as string)
      : refuseValue(at, id, `a job of this flow${hint(id, names)}`),
  )
  const on = check.read([...path, 'on'], given.on ?? 'success', (at, on) =>
    oneOf<FlowDep['on']>(at, on, ['success', 'end']),
  )
  return id === undefined || on === undefined ? undefined : { name: id, on }
}

function hint(value: unknown, names: readonly string[]): string {
  const near = typeof value === 'string' ? nearest(value, names) : undefined
  return near === undefined ? '' : ` (did you mean '${near}'?)`
}

function checkDepMode(check: Checker, path: Path, value: unknown, deps: number) {
  if (value === undefined) return undefined
  return check.read(path, value, (what, given): DepMode => {
    if (given === 'all' || given === 'any') return given
    const isCount = typeof given === 'number' && Number.isInteger(given) && given >= 1
    if (isCount && given <= deps) return given
    return refuseValue(what, given, `'all', 'any' or a number from 1 to its ${deps} dependencies`)
  })
}

/** The scheduler would refuse it too, but without the place in the file. */
function refuseLoop(check: Checker, jobs: readonly FlowJob[]): void {
  const deps = new Map(jobs.map((job) => [job.name, job.deps.map((dep) => dep.name)]))
  const loop = findCycle(deps.keys(), (job) => deps.get(job) ?? [])
  if (loop === null) return
  const path = ['jobs', loop[0] as string, 'deps']
  check.report(
    path,
    `${showPath(path)} closes a loop, which could never run: ${loop.join(' -> ')}.`,
  )
}

function refuseTwins(check: Checker, jobs: readonly FlowJob[]): void {
  const owners = new Map<string, string>()
  for (const { name: job, settings } of jobs) {
    if (settings.key === undefined) continue
    const owner = owners.get(settings.key)
    owners.set(settings.key, owner ?? job)
    if (owner === undefined) continue
    const path = ['jobs', job, 'key']
    check.report(path, `${showPath(path)} must be unique, and ${owner} has it too.`)
  }
}
