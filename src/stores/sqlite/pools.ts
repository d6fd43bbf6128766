// Owns what is set for pools and types, and what their rules remember: rate, breaker, room.
// May never decide who may start: that is pick.ts.

import {
  Breaker,
  type BreakerData,
  type BreakerTerms,
  isSameBreaker,
  renewBreaker,
} from '../../core/breaker.ts'
import { carried, freeAt } from '../../core/gcra.ts'
import { type JobStatus, STATUSES } from '../../core/job.ts'
import {
  changedTerms,
  type PoolRules,
  type PoolTerms,
  poolRules,
  type TypeChange,
  type TypeSetting,
} from '../../core/settings.ts'
import { changedType } from '../../core/terms.ts'
import type { PoolChange, PoolState, StatusCounts } from '../../store/store.ts'
import type { Line, PoolColumns } from './connection.ts'
import { pack, Texts, unpack } from './pack.ts'
import type { Session } from './session.ts'

export interface Pool {
  readonly name: string
  start: PoolTerms
  operator: PoolTerms
  rules: PoolRules
  /** The state of its rate; see core/gcra.ts. */
  tat: number
  breaker: Breaker | null
  /** The breaker that it had, if it has none: no pass of that one may count for the next. */
  oldBreaker: Breaker | null
  /** The fewest places with which somebody who waits would be let in; null: nobody waits. */
  wanted: number | null
  /** Counts how often those who wait for room were told. */
  told: number
}

interface KeptBreaker {
  readonly isOld: boolean
  readonly terms: BreakerTerms
  readonly data: BreakerData
}

const TERMS = new Texts<PoolTerms>()
const SETTINGS = new Texts<TypeSetting>()
const PLAIN = poolRules({}, {})

/** A row of counts by type, as the file has it. */
export type Tally = StatusCounts & Line & { readonly line: number }

export class Pools {
  readonly #session: Session
  readonly #pools = new Map<string, Pool>()
  readonly #known = new Set<string>()

  constructor(session: Session) {
    this.#session = session
  }

  get(name: string): Pool {
    const known = this.#pools.get(name)
    if (known !== undefined) return known
    const { pools } = this.#session.facts
    const found = pools.get(name) ?? this.#session.first<PoolColumns>('pool', name)
    if (found?.breaker === null) pools.set(name, found)
    return this.#adopt(found ?? { ...NOTHING, pool: name }, found !== undefined)
  }

  /** Every pool about which something was said. */
  all(): readonly Pool[] {
    return this.#session.all<PoolColumns>('pools').map((found) => this.#adopt(found, true))
  }

  /** Pools in which somebody waits for room. */
  wanting(): readonly Pool[] {
    if (this.#session.state.wanting === 0) return []
    return this.#session.all<PoolColumns>('wanting').map((found) => this.#adopt(found, true))
  }

  #adopt(found: PoolColumns, isKept: boolean): Pool {
    const known = this.#pools.get(found.pool)
    if (known !== undefined) return known
    const start = TERMS.read(found.start)
    const operator = TERMS.read(found.operator)
    const kept = found.breaker === null ? null : unpack<KeptBreaker>(found.breaker)
    const breaker = kept === null ? null : new Breaker(kept.terms, kept.data)
    const pool: Pool = {
      name: found.pool,
      start,
      operator,
      rules: isKept ? poolRules(start, operator) : PLAIN,
      tat: found.tat,
      breaker: kept?.isOld === true ? null : breaker,
      oldBreaker: kept?.isOld === true ? breaker : null,
      wanted: found.wanted,
      told: found.told,
    }
    this.#pools.set(found.pool, pool)
    if (isKept) this.#known.add(found.pool)
    return pool
  }

  /** Writes what is remembered of a pool. One of which nothing is set has nothing to remember. */
  save(pool: Pool): void {
    const { name, start, operator, tat, rules, wanted, told } = pool
    const breaker = pool.breaker ?? pool.oldBreaker
    const isOld = pool.breaker === null
    const terms = rules.breaker ?? NO_BREAKER
    const kept = breaker === null ? null : pack({ isOld, terms, data: breaker.toData() })
    this.#session.facts.pools.delete(name)
    this.#session.facts.said = undefined
    this.#session.run('setPool', name, pack(start), pack(operator), tat, kept, wanted, told)
  }

  /** What is counted or remembered for a rule begins and ends with the rule. */
  configure({ pool: name, by, terms }: PoolChange): void {
    const { state, now } = this.#session
    const pool = this.get(name)
    const before = pool.rules
    pool[by] = changedTerms(pool[by], terms)
    pool.rules = poolRules(pool.start, pool.operator)
    const { rate, breaker, maxQueue } = pool.rules
    pool.tat = carried(before.rate, rate, pool.tat, now)
    if (!isSameBreaker(before.breaker, breaker)) renewBreaker(pool, breaker)
    state.bounds += Number(isBound(maxQueue)) - Number(isBound(before.maxQueue))
    // Whoever waits learns the new rule: by getting in, or by being refused under it.
    if (pool.wanted !== null) pool.wanted = 0
    this.save(pool)
  }

  /** A group was refused that would be let in with so many places. */
  want(pool: Pool, places: number): void {
    if (pool.wanted === null) this.#session.state.wanting += 1
    pool.wanted = Math.min(pool.wanted ?? places, places)
    this.save(pool)
  }

  /** The pools that have room for somebody who waits: each is told once, then asked for anew. */
  takeRoom(): readonly string[] {
    const told: string[] = []
    for (const pool of this.wanting()) {
      const { maxQueue } = pool.rules
      const places = isBound(maxQueue) ? Math.max(0, maxQueue - this.queuedOf(pool.name)) : maxQueue
      if ((pool.wanted ?? 0) > places) continue
      pool.wanted = null
      pool.told += 1
      this.#session.state.wanting -= 1
      this.save(pool)
      told.push(pool.name)
    }
    return told
  }

  /** Its jobs that are pending or ready. */
  queuedOf(name: string): number {
    return this.#session.number('queued', name) ?? 0
  }

  typeOf(type: string): TypeSetting | undefined {
    const found = this.#session.first<{ setting: string }>('type', type)
    return found === undefined ? undefined : SETTINGS.read(found.setting)
  }

  types(): Record<string, TypeSetting> {
    const types: Record<string, TypeSetting> = Object.create(null)
    for (const { type, setting } of this.#session.all<Record<'type' | 'setting', string>>(
      'types',
    )) {
      types[type] = SETTINGS.read(setting)
    }
    return types
  }

  setType(type: string, said: TypeChange): void {
    const setting = changedType(this.typeOf(type), said)
    this.#session.facts.caps = undefined
    this.#session.facts.said = undefined
    this.#session.run('setType', type, pack(setting), setting.concurrency)
  }

  /** A pool for people: `running` counts leases and holds. */
  stateOf(name: string, tallies: readonly Tally[], running: number): PoolState {
    const { now } = this.#session
    const { rules, tat, breaker } = this.get(name)
    const states = zeros()
    for (const tally of tallies) addTo(states, tally)
    const rateAt = rules.rate === null ? 0 : freeAt(rules.rate, tat)
    const breakerState = breaker?.state(now) ?? 'closed'
    return {
      ...rules,
      rateAt: rateAt > now ? rateAt : 0,
      breakerState,
      breakerUntil: breakerState === 'open' ? (breaker?.freeAt(now) ?? 0) : 0,
      running,
      ready: states.ready,
      states,
    }
  }
}

const NOTHING: PoolColumns = {
  pool: '',
  start: '{}',
  operator: '{}',
  tat: 0,
  breaker: null,
  wanted: null,
  told: 0,
}

const NO_BREAKER: BreakerTerms = { failures: 0, failureRate: 0, window: 1, resetMs: 0 }

function isBound(maxQueue: number): boolean {
  return maxQueue !== Number.POSITIVE_INFINITY
}

export function zeros(): Record<JobStatus, number> {
  return { pending: 0, waiting: 0, ready: 0, running: 0, success: 0, failed: 0, cancelled: 0 }
}

export function addTo(sum: Record<JobStatus, number>, more: StatusCounts): void {
  for (const status of STATUSES) sum[status] += more[status]
}
