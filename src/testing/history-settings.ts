// Owns the part of a history that changes what is set for all workers.
// May never draw what nobody may set: every change would pass the border of pools.ts.

import { rateTerms } from '../core/gcra.ts'
import type { PoolTermsChange } from '../core/settings.ts'
import type { Change } from '../store/store.ts'
import type { Feature, Maker } from './history.ts'
import { TERMS } from './history-commands.ts'

const TYPES = ['alpha', 'beta', 'gamma'] as const
const POOLS = ['default', 'io', 'narrow'] as const

/** One setting more, another, or one less: of those that the seed has switched on. */
export function drawChange(maker: Maker): Change {
  const { pick, chance } = maker
  if (maker.has('type caps') && chance(0.15)) return typeChange(maker)
  const on = DRAWS.filter(([feature]) => feature === undefined || maker.has(feature))
  const urgent = on.filter(([feature]) => feature === 'elastic' || feature === 'preempt')
  if (maker.has('pressure') && urgent.length > 0 && chance(0.4)) {
    const [, name, draw] = pick(urgent)
    return { pool: 'default', by: 'operator', terms: { [name]: draw(maker) } }
  }
  const pool = pick(POOLS)
  const by = pick(['start', 'operator'] as const)
  const [, name, draw] = pick(on)
  const value = chance(0.15) ? pick([null, OFF[name]]) : draw(maker)
  return { pool, by, terms: { [name]: value ?? null } }
}

type Name = keyof PoolTermsChange
type Draw = (maker: Maker) => PoolTermsChange[Name]

/** What switches a thing off; of the others there is only null, which takes them back. */
const OFF: PoolTermsChange = {
  rate: false,
  elastic: false,
  preempt: false,
  breaker: false,
  paused: false,
}

const DRAWS: readonly (readonly [feature: Feature | undefined, name: Name, draw: Draw])[] = [
  [undefined, 'concurrency', ({ below, has }) => (has('pressure') ? 1 + below(3) : below(6))],
  ['pauses', 'paused', ({ chance }) => chance(0.3)],
  ['worker caps', 'perWorker', ({ below }) => below(5)],
  [
    'rates',
    'rate',
    ({ pick, chance }) => {
      const count = pick([1, 2, 5, 60])
      const burst = chance(0.4) ? pick([1, count]) : undefined
      return rateTerms(count, pick([100, 1_000, 30_000]), burst)
    },
  ],
  [
    'elastic',
    'elastic',
    ({ pick }) => ({ ratio: pick([0.4, 0.7, 1]), minPriority: pick([40, 51, 100]) }),
  ],
  [
    'preempt',
    'preempt',
    ({ pick }) => ({
      minPriority: pick([40, 50, 51]),
      minGap: pick([1, 1, 10]),
      minRunMs: pick([0, 0, 50, 2_000]),
    }),
  ],
  [
    'breakers',
    'breaker',
    ({ pick, below, chance }) => ({
      failures: below(4),
      failureRate: chance(0.5) ? pick([0.3, 0.5, 1]) : 0,
      window: pick([1, 3, 5]),
      resetMs: pick([100, 2_000, 20_000]),
    }),
  ],
]

function typeChange({ pick }: Maker): Change {
  const setting = { pool: 'default', priority: 50, terms: TERMS[0] as (typeof TERMS)[number] }
  const concurrency = pick([null, 0, 1, 2, 3])
  return { type: pick(TYPES), setting: { ...setting, concurrency, maxLost: null } }
}
