// Owns the options of the scheduler: what is allowed, and what holds where nothing is said.
// May never let an unknown key or a wrong value pass.

import { type Duration, toMs } from '../core/duration.ts'
import { AxError } from '../core/errors.ts'
import type { RateTerms } from '../core/gcra.ts'
import { checkName } from '../core/id.ts'
import type { Keep } from '../core/machine.ts'
import {
  able,
  boolean,
  checkOptions,
  integer,
  oneOf,
  plain,
  refuseUnknown,
  refuseValue,
  show,
} from '../core/options.ts'
import { checkUrgency, resolveAgeing, resolvePool, resolveRate } from '../core/pools.ts'
import type { Ageing } from '../core/rank.ts'
import type { PoolTerms } from '../core/settings.ts'
import { resolveType, type TypeSaid } from '../core/terms.ts'
import type { JobInput, PoolOptions, RateOptions, TypePolicy } from '../core/types.ts'
import { type Runtime, runtimeOf } from '../kit/runtime.ts'
import type { Store } from '../store/store.ts'
import { consoleLogger, type Logger } from './logger.ts'

export interface SchedulerOptions {
  /** Default: a memory store of its own. */
  readonly store?: Store
  /** Of the pool `default`, over all workers. Default 10. */
  readonly concurrency?: number
  readonly pools?: Readonly<Record<string, PoolOptions>>
  readonly types?: Readonly<Record<string, TypePolicy>>
  /** Waiting makes up for priority: a point per `every`, up to the ceiling (90). Default false. */
  readonly ageing?: false | { readonly every: Duration; readonly ceiling?: number }
  /** How many retries the whole store releases in a while. Default false: no bound. */
  readonly retryBudget?: false | RateOptions
  /** How long a worker may be silent before its jobs run elsewhere. Default 15 s. */
  readonly leaseMs?: Duration
  /** How long an aborted body may take to settle before it is a zombie. Default 5 s. */
  readonly graceMs?: Duration
  /**
   * With so many zombies this process starts nothing more, and a further body that does not stop
   * keeps its slot until one of them has settled. Default 100.
   */
  readonly maxZombies?: number
  /** How many jobs this process runs at once, over all pools. Default: as many as these allow. */
  readonly maxRunning?: number
  /** Follow what bodies wait for (async_hooks: it costs), to name it of those that hang. */
  readonly trackAsync?: boolean
  /** Defaults: success 1 h, failed 7 d, cancelled 7 d, outcomes 30 d, log 7 d. */
  readonly keep?: {
    readonly success?: Duration
    readonly failed?: Duration
    readonly cancelled?: Duration
    readonly outcomes?: Duration
    readonly log?: Duration
  }
  /** Bytes of JSON that a payload, or a result, may have. Default 1,000,000 each. */
  readonly limits?: { readonly payload?: number; readonly result?: number }
  /** What to do with a dependency that nobody has submitted. Default `wait`. */
  readonly unknownDeps?: 'wait' | 'reject'
  /** Default true: the first job starts the scheduler. */
  readonly autoStart?: boolean
  /** How this process is called in logs and listings. */
  readonly name?: string
  readonly logger?: Logger
  /** Clock, timers and randomness: for tests. */
  readonly runtime?: Runtime
}

/** The options with everything filled in. */
export interface Settings {
  readonly store: Store | undefined
  /** What to store about pools at start: only what was said. */
  readonly pools: ReadonlyMap<string, PoolTerms>
  readonly types: ReadonlyMap<string, TypePolicy>
  /** Undefined: nothing was said. */
  readonly ageing: Ageing | null | undefined
  readonly budget: RateTerms | null | undefined
  readonly trackAsync: boolean
  /** What was said about pools, ageing and budget, as plain JSON: workers should agree. */
  readonly said: object
  readonly leaseMs: number
  readonly graceMs: number
  readonly maxZombies: number
  /** Infinity where nothing was said. */
  readonly maxRunning: number
  readonly keep: Keep
  readonly limits: { readonly payload: number; readonly result: number }
  readonly unknownDeps: 'wait' | 'reject'
  readonly autoStart: boolean
  readonly name: string
  readonly logger: Logger
  readonly runtime: Runtime
}

const KEYS: readonly (keyof SchedulerOptions)[] = [
  'store',
  'concurrency',
  'pools',
  'types',
  'ageing',
  'retryBudget',
  'leaseMs',
  'graceMs',
  'maxZombies',
  'maxRunning',
  'trackAsync',
  'keep',
  'limits',
  'unknownDeps',
  'autoStart',
  'name',
  'logger',
  'runtime',
]

const DAY = 86_400_000
const WEEK = 7 * DAY
const KEEP = {
  success: 3_600_000,
  failed: WEEK,
  cancelled: WEEK,
  outcomes: 30 * DAY,
  log: WEEK,
}

export function resolveOptions(given: number | SchedulerOptions = {}): Settings {
  const options = typeof given === 'number' ? { concurrency: given } : given
  checkOptions('AxScheduler', options, KEYS)
  const { store, leaseMs = 15_000, graceMs = 5_000, maxZombies = 100 } = options
  const { unknownDeps = 'wait', autoStart = true, name = 'ax', trackAsync = false } = options
  if (store !== undefined) able('store', store, STORE_METHODS)
  const { types = {}, keep = {}, limits = {} } = options
  const lease = toMs(leaseMs, 'leaseMs')
  integer('leaseMs', lease, 1)
  const { ageing, retryBudget } = options
  const ages = ageing === undefined ? undefined : resolveAgeing(ageing)
  const budget = retryBudget === undefined ? undefined : budgetOf(retryBudget)
  const pools = poolsOf(options)
  for (const [pool, terms] of pools) checkUrgency(pool, terms, ages ?? null)
  return {
    store,
    pools,
    types: typesOf(types),
    ageing: ages,
    budget,
    trackAsync: boolean('trackAsync', trackAsync),
    said: { pools: Object.fromEntries(pools), ageing: ages, budget },
    leaseMs: lease,
    graceMs: toMs(graceMs, 'graceMs'),
    maxZombies: integer('maxZombies', maxZombies, 1),
    maxRunning: maxRunningOf(options.maxRunning),
    keep: keepOf(keep),
    limits: limitsOf(limits),
    unknownDeps: oneOf('unknownDeps', unknownDeps, ['wait', 'reject']),
    autoStart: boolean('autoStart', autoStart),
    name: checkName('name', name, 'INVALID_OPTION'),
    logger: loggerOf(options.logger),
    runtime: runtimeOf(options.runtime),
  }
}

function maxRunningOf(given: number | undefined): number {
  return given === undefined ? Number.POSITIVE_INFINITY : integer('maxRunning', given, 1)
}

function budgetOf(value: false | RateOptions): RateTerms | null {
  return value === false ? null : resolveRate('retryBudget', value)
}

/** The id by which somebody asks for a job: one that no job can have is simply not found. */
export function checkId(id: unknown): void {
  if (typeof id !== 'string') refuseValue('id', id, 'a text, the id of a job')
}

/** What is submitted to a type beside its payload: everything that is not said already. */
export function checkExtras(type: string, options: Partial<JobInput>): void {
  plain(`The options of submit to type ${show(type)}`, options, 'INVALID_JOB')
  for (const key of ['type', 'payload', 'execute'] as const) {
    if (options[key] === undefined) continue
    const text = `submit to type ${show(type)} has no option '${key}': the type has it already`
    throw new AxError('INVALID_JOB', `${text}. Leave it out, or use addJob.`, { option: key })
  }
}

/** A type's policy, checked. */
export function checkType(type: string, policy: TypePolicy): TypeSaid {
  return resolveType(checkName('The name of a type', type, 'INVALID_OPTION'), policy)
}

const STORE_METHODS = ['insert', 'lease', 'overdue', 'apply', 'extend', 'get', 'watch'] as const

function poolsOf(options: SchedulerOptions): ReadonlyMap<string, PoolTerms> {
  const { pools: asked = {} } = options
  const given = plain('pools', asked) as Record<string, PoolOptions>
  const pools = new Map(
    Object.entries(given).map(([name, pool]) => [name, resolvePool(name, pool)]),
  )
  if (options.concurrency === undefined) return pools
  const concurrency = integer('concurrency', options.concurrency, 0)
  const own = pools.get('default')
  if (own?.concurrency !== undefined && own.concurrency !== concurrency) {
    throw new AxError(
      'INVALID_OPTION',
      `concurrency is ${concurrency} and pools.default.concurrency is ${own.concurrency}: ` +
        'both mean the pool default. Give one of them.',
      { option: 'concurrency', value: concurrency },
    )
  }
  return pools.set('default', { ...own, concurrency })
}

function typesOf(given: Readonly<Record<string, TypePolicy>>): ReadonlyMap<string, TypePolicy> {
  plain('types', given)
  for (const [type, policy] of Object.entries(given)) checkType(type, policy)
  return new Map(Object.entries(given))
}

const MAX_BYTES = 1_000_000

function limitsOf(given: NonNullable<SchedulerOptions['limits']>): Settings['limits'] {
  plain('limits', given)
  refuseUnknown('limits', given, ['payload', 'result'])
  const { payload = MAX_BYTES, result = MAX_BYTES } = given
  return {
    payload: integer('limits.payload', payload, 1),
    result: integer('limits.result', result, 1),
  }
}

function keepOf(given: NonNullable<SchedulerOptions['keep']>): Keep {
  plain('keep', given)
  refuseUnknown('keep', given, Object.keys(KEEP))
  const msOf = (name: keyof typeof KEEP): number => {
    const { [name]: value = KEEP[name] } = given
    return toMs(value, `keep.${name}`)
  }
  return {
    successMs: msOf('success'),
    failedMs: msOf('failed'),
    cancelledMs: msOf('cancelled'),
    outcomesMs: msOf('outcomes'),
    logMs: msOf('log'),
  }
}

function loggerOf(logger: Logger | undefined): Logger {
  if (logger === undefined) return consoleLogger
  return able('logger', logger, ['info', 'warn', 'error'])
}
