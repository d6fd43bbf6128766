// Owns the drawing of policies: of pools, of types, and of what holds for the whole store.
// May never draw what the swarm has switched off, or an urgency that ageing could overtake.

import type { PoolOptions, PoolOptionsChange, RateOptions } from '../../core/types.ts'
import type { Feature } from './coverage.ts'
import type { AgeingSpec, Brought, PolicySpec } from './plan.ts'
import type { Random } from './random.ts'

export const POOLS = ['default', 'narrow', 'wide'] as const

/** Every type; a worker serves some of them. No worker serves the last one in some runs. */
export const TYPE_NAMES = [
  ...['plain', 'patient', 'hasty', 'once', 'narrow', 'fragile', 'urgent', 'yielding', 'beating'],
  ...['asked', 'capped', 'shaped', 'rare'],
] as const

/** Work of this priority and above is urgent: no ageing that is drawn reaches it. */
const URGENT = 91

type On = ReadonlySet<Feature>

/** What each type says, before caps. */
export function drawTypes(on: On, random: Random): Record<string, PolicySpec> {
  const heartbeat = random.pick([60, 150, 400])
  const preemptible = on.has('preemption')
  const gives = preemptible ? { preemptible } : {}
  const asks = on.has('confirm')
  return {
    plain: gives,
    patient: { ...gives, retries: 2, backoff: { type: 'fixed', delay: 100 } },
    hasty: { timeout: 400, retries: 1, backoff: { type: 'exponential', delay: 50, max: 400 } },
    once: { idempotent: false, timeout: 600, retries: 1 },
    narrow: { pool: 'narrow' },
    fragile: { ...gives, maxLost: 1, priority: 60 },
    urgent: { priority: 96 },
    yielding: { ...gives, priority: 15 },
    beating: {
      retries: 2,
      backoff: { type: 'fixed', delay: 20 },
      ...(on.has('heartbeats') ? { heartbeat } : {}),
    },
    asked: {
      priority: 30,
      timeout: 300,
      retries: 2,
      backoff: { type: 'fixed', delay: 0 },
      ...(asks ? { asks, idempotent: random.chance(0.3) } : {}),
      ...(asks ? gives : {}),
    },
    capped: {},
    shaped: on.has('schemas') ? { shaped: true } : {},
    rare: { priority: 40 },
  }
}

/** What processes bring along: mostly the same, sometimes another setting with each life. */
export function drawBrought(on: On, random: Random): Brought[] {
  const lives = random.pick([1, 1, 2, 3])
  return Array.from({ length: lives }, (): Brought => {
    const pools = {
      default: drawPool(on, random, random.pick(on.has('preemption') ? [1, 2, 3] : [1, 2, 5, 20])),
      narrow: drawPool(on, random, random.pick([0, 1, 1, 2])),
      wide: drawPool(on, random, random.pick([3, 50])),
    }
    const ageing = on.has('ageing') ? drawAgeing(random) : undefined
    const retryBudget = on.has('retry budget') ? drawRate(random) : undefined
    const caps = on.has('type caps') ? { capped: random.int(1, 2), plain: random.int(1, 6) } : {}
    return {
      pools,
      caps,
      ...(ageing === undefined ? {} : { ageing: ageing ?? false }),
      ...(retryBudget === undefined ? {} : { retryBudget: random.chance(0.8) && retryBudget }),
    }
  })
}

function drawPool(on: On, random: Random, concurrency: number): PoolOptions {
  const pool: Record<string, unknown> = { concurrency }
  for (const [name, feature, draw] of RULES) {
    const value = draw(on, random)
    const isDrawn = random.chance(name === 'preempt' ? 0.8 : 0.5)
    if (isDrawn && on.has(feature)) Object.assign(pool, name === '' ? value : { [name]: value })
  }
  return pool as PoolOptions
}

type Rule = readonly [keyof PoolOptions | '', Feature, (on: On, random: Random) => unknown]

const RULES: readonly Rule[] = [
  ['perWorker', 'shares', (_, random) => random.pick([1, 1, 2, 4])],
  ['rate', 'rates', (_, random) => drawRate(random)],
  [
    'elastic',
    'elastic',
    (on, random) => {
      const minPriority = urgency(on, random)
      return random.chance(0.5)
        ? { minPriority }
        : { minPriority, ratio: random.pick([0.1, 0.6, 1]) }
    },
  ],
  [
    'preempt',
    'preemption',
    (on, random) => {
      const minPriority = urgency(on, random)
      const minGap = random.pick([1, 10, 60])
      const terms = { minPriority, minGap, minRun: random.pick([0, 0, 150, 1_000]) }
      return random.chance(0.4) ? { minPriority } : terms
    },
  ],
  ['breaker', 'breakers', (_, random) => drawBreaker(random)],
  [
    '',
    'bounded queues',
    (_, random) => {
      const maxQueue = random.pick([0, 1, 3, 8, 30])
      return { maxQueue, overflow: random.pick(['reject', 'wait', 'wait']) }
    },
  ],
]

function urgency(on: On, random: Random): number {
  return random.pick(on.has('ageing') ? [URGENT, 95] : [60, 80, URGENT, 95])
}

/** Fast enough for a run to see it hold and let go. */
export function drawRate(random: Random): RateOptions {
  const count = random.pick([1, 1, 2, 5, 20, 120])
  const per = random.pick([50, 200, 1_000, 2_500])
  const burst = count === 1 || random.chance(0.5) ? undefined : random.int(2, Math.min(count, 8))
  const isOwn = burst !== undefined && burst !== Math.floor(count / 50)
  return isOwn ? { count, per, burst } : { count, per }
}

function drawBreaker(random: Random): PoolOptions['breaker'] & object {
  const resetMs = random.pick([80, 300, 1_500])
  const failures = random.pick([1, 2, 3])
  if (random.chance(0.5)) return { failures, resetMs }
  const failureRate = random.pick([0.3, 0.6, 1])
  const window = random.pick([2, 4, 10])
  return random.chance(0.5)
    ? { failureRate, window, resetMs }
    : { failures: failures + 2, failureRate, window, resetMs }
}

export function drawAgeing(random: Random): AgeingSpec | null {
  if (random.chance(0.2)) return null
  const every = random.pick([1, 10, 100, 1_000, 600_000])
  return { every, ceiling: random.pick([50, 70, 90, URGENT - 1]) }
}

/** What an operator changes of a pool: one thing or two, sometimes back. */
export function drawChange(on: On, random: Random): PoolOptionsChange {
  const drawn = drawPool(on, random, random.pick([0, 1, 2, 3, 10, 60])) as Record<string, unknown>
  if (!on.has('caps')) delete drawn.concurrency
  const keys = random.shuffle(Object.keys(drawn)).slice(0, random.int(1, 2))
  const change: Record<string, unknown> = {}
  for (const key of keys) {
    const isOff = random.chance(0.15) && SWITCHES.includes(key)
    change[key] = random.chance(0.2) ? null : isOff ? false : drawn[key]
  }
  if (on.has('pause') && random.chance(0.1)) change.paused = random.pick([true, false, null])
  return change as PoolOptionsChange
}

const SWITCHES: readonly string[] = ['rate', 'elastic', 'preempt', 'breaker']
