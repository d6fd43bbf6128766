// Owns the drawing of what operators set for the whole store: ageing, budget, caps of types,
// schedules, make-up runs. May never draw an expression that the simulator cannot work out itself.

import type { RateTerms } from '../../core/gcra.ts'
import type { Graphs } from './graphs.ts'
import type { OpAction, ScheduleSpec, Spec } from './plan.ts'
import { drawAgeing, drawRate, POOLS, TYPE_NAMES } from './policies.ts'
import type { Random } from './random.ts'
import type { Swarm } from './swarm.ts'

/** Names of schedules that are set and taken away again and again. */
const NAMES = ['s1', 's2', 's3']

/** By the seconds: they come all the time. */
const LIVELY = ['*/2 * * * * *', '*/5 * * * * *', '1,4,30,59 * * * * *', '7 * * * * *']

/** Berlin's clocks go forward from two to three, and back from three to two. */
const BY_CLOCK = ['30 30 2 * * *', '2,4,9 0 3 * * *', '1,3,6,58 59,0 1,2 * * *', '0 0 2 * * *']

/** For schedules at which nobody has looked for a while. */
const SLOW = ['0 * * * * *', '0 0 * * * *', '30 */10 * * * *']

export class Levers {
  readonly #swarm: Swarm
  readonly #random: Random
  readonly #graphs: Graphs
  #stale = 0

  constructor(swarm: Swarm, random: Random, graphs: Graphs) {
    this.#swarm = swarm
    this.#random = random
    this.#graphs = graphs
  }

  ageing(): OpAction {
    return { kind: 'set', what: { ageing: drawAgeing(this.#random) } }
  }

  budget(): OpAction {
    const budget = this.#random.chance(0.2) ? null : termsOf(this.#random)
    return { kind: 'set', what: { budget } }
  }

  typeCap(): OpAction {
    const type = this.#random.pick(['capped', 'capped', 'plain', 'yielding'])
    const concurrency = this.#random.pick([0, 1, 2, 5, null])
    return { kind: 'set', what: { type, concurrency } }
  }

  schedule(op: number): OpAction {
    const random = this.#random
    if (random.chance(0.2)) return { kind: 'unschedule', name: random.pick(NAMES) }
    const {
      id: _,
      deps: __,
      depMode: ___,
      live: ____,
      idempotent: _____,
      ...drawn
    } = this.#graphs.single(op)
    // What is refused, by its schema or its type, could never be added: it would wait for ever.
    const job = { ...drawn, script: { ...drawn.script, misshapen: false } }
    const missed = random.pick(['skip', 'one', 'all'] as const)
    if (random.chance(0.25)) {
      this.#stale += 1
      const staleMs = random.pick([90_000, 400_000, 4_000_000])
      const cron = random.pick(staleMs > 1_000_000 ? SLOW.slice(1) : SLOW)
      return {
        kind: 'schedule',
        schedule: { name: `old${this.#stale}`, cron, missed, staleMs, job },
      }
    }
    return { kind: 'schedule', schedule: this.#lively(job, missed) }
  }

  #lively(job: Spec, missed: ScheduleSpec['missed']): ScheduleSpec {
    const random = this.#random
    const inBerlin = random.chance(
      this.#swarm.settings.startAt % 3_600_000 > 3_590_000 ? 0.85 : 0.2,
    )
    const cron = inBerlin && random.chance(0.6) ? random.pick(BY_CLOCK) : random.pick(LIVELY)
    const timeZone = inBerlin ? 'Europe/Berlin' : 'UTC'
    return { name: random.pick(NAMES), cron, timeZone, missed, job }
  }

  makeUp(): OpAction {
    const random = this.#random
    const filters = [
      {},
      { status: random.pick(['failed', 'cancelled'] as const) },
      { type: random.pick(TYPE_NAMES) },
      { pool: random.pick(POOLS) },
    ]
    const makeUp = {
      ...random.pick(filters),
      ...(random.chance(0.5) ? { per: { count: random.int(1, 10), per: 500 } } : {}),
      ...(random.chance(0.3) ? { untilMs: random.int(0, 3_000) } : {}),
    }
    return { kind: 'retryWhere', makeUp }
  }
}

/** A rate in the form in which it is stored, worked out from what the words promise. */
function termsOf(random: Random): RateTerms {
  const { count, per, burst } = drawRate(random)
  const perMs = Number(per)
  const size = burst ?? Math.max(1, Math.floor(count / 50))
  const spaced = burst === undefined ? count - size + 1 : count
  const intervalUs = Math.max(1, Math.ceil((perMs * 1_000) / spaced))
  return { count, perMs, burst: size, intervalUs, toleranceUs: (size - 1) * intervalUs }
}
