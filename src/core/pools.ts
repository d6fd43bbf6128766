// Owns the border for pools, rates and ageing: options come in as people write them.
// May never let anything through that would have no effect.

import { breakerTerms } from './breaker.ts'
import type { Duration } from './duration.ts'
import { AxError } from './errors.ts'
import { type RateTerms, rateTerms } from './gcra.ts'
import { checkName } from './id.ts'
import { boolean, integer, oneOf, plain, refuseUnknown, refuseValue } from './options.ts'
import { type Ageing, PRIORITY } from './rank.ts'
import type { Elastic, PoolTerms, PoolTermsChange, Preempt } from './settings.ts'
import { MAX_MS, msOf } from './terms.ts'
import type { PoolOptionsChange, RateOptions } from './types.ts'

const POOL_KEYS: readonly (keyof PoolOptionsChange)[] = [
  'concurrency',
  'perWorker',
  'maxQueue',
  'overflow',
  'rate',
  'elastic',
  'preempt',
  'breaker',
  'paused',
]

/** A rate counts up to this: more starts than a store can grant in any while. */
const MAX_COUNT = 1_000_000_000

/** Of a pool at start: nothing can be taken back yet. */
export function resolvePool(name: string, options: PoolOptionsChange): PoolTerms {
  const cleared = Object.entries(options ?? {}).find(([, value]) => value === null)
  if (cleared !== undefined) {
    refuseValue(`pools.${name}.${cleared[0]}`, null, 'left out: null is for pool().configure()')
  }
  const terms = resolvePoolChange(name, options) as PoolTerms
  checkOverflow(name, terms)
  return terms
}

/** What holds for callers that may wait: a queue that can be full. */
export function checkOverflow(name: string, pool: PoolTerms): void {
  if (pool.overflow !== 'wait' || pool.maxQueue !== undefined) return
  const expected = `left out, or given together with pools.${name}.maxQueue: no queue is full`
  refuseValue(`pools.${name}.overflow`, 'wait', `${expected} without it`)
}

/** Checks a change of a pool. Concurrency 0 lets nothing start. Refuses with INVALID_OPTION. */
export function resolvePoolChange(name: string, options: PoolOptionsChange): PoolTermsChange {
  checkName('The name of a pool', name, 'INVALID_OPTION')
  plain(`pools.${name}`, options)
  refuseUnknown(`Pool '${name}'`, options, POOL_KEYS)
  const change: Record<string, unknown> = {}
  for (const key of POOL_KEYS) {
    const value = options[key]
    if (value === undefined) continue
    change[key] = value === null ? null : CHECKS[key](`pools.${name}.${key}`, value)
  }
  return change as PoolTermsChange
}

const CHECKS: Readonly<Record<keyof PoolTerms, (name: string, value: unknown) => unknown>> = {
  concurrency: (name, value) => integer(name, value, 0),
  perWorker: (name, value) => integer(name, value, 0),
  maxQueue: (name, value) => integer(name, value, 0),
  overflow: (name, value) => oneOf(name, value, ['reject', 'wait']),
  rate: (name, value) => (value === false ? false : resolveRate(name, value)),
  elastic: (name, value) => (value === false ? false : elasticOf(name, value)),
  preempt: (name, value) => (value === false ? false : preemptOf(name, value)),
  breaker: (name, value) => (value === false ? false : breakerTerms(plain(name, value))),
  paused: (name, value) => boolean(name, value),
}

/** A rate as people give it. Refuses with INVALID_OPTION. */
export function resolveRate(name: string, value: unknown): RateTerms {
  const given = plain(name, value) as RateOptions
  refuseUnknown(name, given, ['count', 'per', 'burst'])
  const count = integer(`count of ${name}`, given.count, 1, MAX_COUNT)
  const perMs = msOf(`per of ${name}`, given.per as Duration, 'INVALID_OPTION')
  if (perMs === 0) refuseValue(`per of ${name}`, given.per, 'a time of at least 1 ms')
  if (given.burst === undefined) return rateTerms(count, perMs)
  return rateTerms(count, perMs, integer(`burst of ${name}`, given.burst, 1, count))
}

function elasticOf(name: string, value: unknown): Elastic {
  const given = plain(name, value) as { ratio?: unknown; minPriority?: unknown }
  refuseUnknown(name, given, ['ratio', 'minPriority'])
  const { ratio = 0.3 } = given
  if (typeof ratio !== 'number' || !(ratio > 0 && ratio <= 1)) {
    refuseValue(`ratio of ${name}`, ratio, 'a share above 0 and up to 1')
  }
  return { ratio, minPriority: priority(`minPriority of ${name}`, given.minPriority) }
}

function preemptOf(name: string, value: unknown): Preempt {
  const given = plain(name, value) as { minPriority?: unknown; minGap?: unknown; minRun?: Duration }
  refuseUnknown(name, given, ['minPriority', 'minGap', 'minRun'])
  const { minGap = 10, minRun = 0 } = given
  return {
    minPriority: priority(`minPriority of ${name}`, given.minPriority),
    minGap: integer(`minGap of ${name}`, minGap, 1, PRIORITY.max),
    minRunMs: msOf(`minRun of ${name}`, minRun, 'INVALID_OPTION'),
  }
}

function priority(name: string, value: unknown): number {
  return integer(name, value, PRIORITY.min, PRIORITY.max)
}

/** Above this a point of priority would be worth less than a wait that no one has. */
const MAX_EVERY = MAX_MS / PRIORITY.max

/** Ageing as people give it; false switches it off. Refuses with INVALID_OPTION. */
export function resolveAgeing(value: unknown): Ageing | null {
  if (value === false) return null
  const given = plain('ageing', value) as { every?: Duration; ceiling?: unknown }
  refuseUnknown('ageing', given, ['every', 'ceiling'])
  const everyMs = msOf('every of ageing', given.every as Duration, 'INVALID_OPTION')
  if (everyMs === 0 || everyMs > MAX_EVERY) {
    refuseValue('every of ageing', given.every, 'a time from 1 ms to eight months')
  }
  const { ceiling = 90 } = given
  return { everyMs, ceiling: integer('ceiling of ageing', ceiling, 1, PRIORITY.max) }
}

/** Urgency above the cap is for jobs that no waiting job can age past. */
export function checkUrgency(name: string, pool: PoolTerms, ageing: Ageing | null): void {
  for (const key of ['elastic', 'preempt'] as const) {
    const rule = pool[key]
    if (ageing === null || rule === undefined || rule === false) continue
    if (rule.minPriority > ageing.ceiling) continue
    const above = ageing.ceiling + 1
    const remedy = above > PRIORITY.max ? 'Give' : `Give at least ${above}, or`
    throw new AxError(
      'INVALID_OPTION',
      `minPriority of pools.${name}.${key} is ${rule.minPriority}, but jobs up to priority ` +
        `${ageing.ceiling} age. ${remedy} a lower ageing.ceiling.`,
      { option: key, value: rule.minPriority },
    )
  }
}
