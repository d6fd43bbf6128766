// Owns the account of what simulations have gone through: which facts met which states, which
// faults happened, which features met, which codes were given, which invariants had work to do.
// May never judge a run: it only says where nothing has ever happened.

import type { FactType, JobStatus } from '../../core/job.ts'
import { INVARIANTS } from './invariants.ts'

/** What the swarm switches on and off, feature by feature. */
export const FEATURES = [
  ...['dependencies', 'quorum', 'on end', 'ghosts', 'cycles', 'fan-in', 'keys', 'windows'],
  ...['lanes', 'priorities', 'retries', 'timeouts', 'deaf bodies', 'not idempotent'],
  ...['enqueue timeout', 'cancel', 'retry again', 'pause', 'caps', 'submit inside', 'live bodies'],
  ...['short retention', 'delays', 'invalid', 'repeats', 'results', 'unserved types'],
  ...['ageing', 'elastic', 'preemption', 'retry budget', 'rates', 'heartbeats', 'breakers'],
  ...['schedules', 'confirm', 'bounded queues', 'type caps', 'shares', 'make-up runs'],
  ...['advice', 'schemas', 'stored types', 'urgent work'],
] as const

export const FAULT_FEATURES = [
  ...['crash', 'crash steps', 'killers', 'stall', 'jump', 'drift', 'partition', 'deploy', 'drain'],
  ...['store restart', 'lost requests', 'lost answers', 'duplicates', 'late packets', 'busy'],
  ...['failures before', 'failures after', 'lost hints', 'reordering', 'short leases'],
] as const

export type Feature = (typeof FEATURES)[number] | (typeof FAULT_FEATURES)[number]

/** What happens to packets, processes and the store, as it is counted where it happens. */
export const FAULTS = [
  ...['request lost', 'does it and loses the answer', 'delivered twice', 'late', 'reordered'],
  ...['busy', 'fails before doing it', 'does it and fails', 'hint lost', 'hint doubled'],
  ...['partition', 'store restart', 'crash', 'crash between two steps', 'crash inside a body'],
  ...['stall', 'stall inside a body', 'clock jump', 'deploy', 'drain', 'ignores the abort'],
  ...['restart with the same name', 'arrives after the lease expired', 'submits while stale'],
  'no room for a zombie',
] as const

/** What policies do where they are switched on, as it is counted where it shows. */
export const DEEDS = [
  ...['starts above the cap', 'waits for its victim', 'gives way', 'gives way late'],
  ...['succeeds in its grace', 'is asked to give way', 'starts after its victim'],
  ...['held by the rate', 'held by a breaker', 'a breaker opens', 'a probe starts'],
  ...['a probe closes', 'held by the budget', 'released by the budget', 'held by a type cap'],
  ...['held by a share', 'overtakes by age', 'ranked anew', 'holds through a change of ageing'],
  ...['refused for room', 'waits for room', 'let in after waiting', 'fills a ghost in a full pool'],
  ...['silent', 'beats', 'confirmed', 'not confirmed', 'confirm throws', 'confirm hangs'],
  ...['tick', 'tick came too late', 'tick without a job', 'missed instants made up for'],
  ...['an instant skipped by a clock', 'schedule waits for room', 'made up for', 'shaped'],
  ...['refused by its schema', 'a setting is taken back', 'a rate is carried on'],
  ...['held as a suspect', 'a suspect starts', 'kept out behind others', 'let in behind others'],
] as const

export type Deed = (typeof DEEDS)[number]

/** Codes that this version can give to a job or to a caller. */
export const CODES = [
  ...['HANDLER_FAILED', 'KEY_TAKEN', 'ENQUEUE_TIMEOUT', 'EXECUTION_TIMEOUT', 'CANCELLED'],
  ...['DEPENDENCY_FAILED', 'CYCLE', 'DUPLICATE_ID', 'UNKNOWN_JOB', 'UNKNOWN_DEPENDENCY'],
  ...['INVALID_JOB', 'LEASE_LOST', 'LOST', 'OUTCOME_UNKNOWN', 'STORE_UNAVAILABLE', 'CLOSED'],
  ...['GONE', 'UNSTORABLE', 'TOO_LARGE', 'QUEUE_OVERFLOW', 'HEARTBEAT_LOST', 'INVALID_OPTION'],
  'PREEMPTED',
] as const

/** Every reason that `explain` can give. */
export const REASONS = [
  ...['success', 'failed', 'cancelled', 'running', 'stopping', 'dependency', 'unknown-dependency'],
  ...['doomed', 'lane', 'delayed', 'backoff', 'lost', 'budget', 'no-handler', 'zombies', 'paused'],
  ...['breaker', 'rate', 'suspect', 'type-full', 'preempting', 'pool-full', 'worker-full', 'next'],
] as const

const STATES: readonly (JobStatus | 'gone')[] = [
  ...(['pending', 'waiting', 'ready', 'running', 'success', 'failed', 'cancelled'] as const),
  'gone',
]

/** What a write to the store says has happened, by the step of its move. */
const FACT_OF: Readonly<Record<string, FactType>> = {
  succeed: 'succeeded',
  fail: 'failed',
  retry: 'failed',
  timeout: 'timedOut',
  return: 'returned',
  preempt: 'preempted',
  settle: 'settled',
  lose: 'overdue',
  expire: 'overdue',
  cascade: 'overdue',
  forget: 'overdue',
  cancel: 'cancel',
  revive: 'retry',
}

function meets(fact: FactType, states: readonly (JobStatus | 'gone')[]): string[] {
  return states.map((state) => `${fact} x ${state}`)
}

/**
 * The pairs that a thousand seeds have to show. The others are as good as impossible, because
 * whoever decides has read the job first: a job that ran keeps its lane and waits for nobody; a
 * hold is settled by its one holder, and `retry` waits for that; so it takes a packet that is
 * late by a whole revival to see them, and a few seeds in a thousand do.
 */
const EXPECTED_FACTS: readonly string[] = [
  ...meets('succeeded', ['pending', 'ready', 'running', 'success', 'failed', 'gone']),
  ...meets('failed', ['pending', 'ready', 'running', 'success', 'failed', 'gone']),
  ...meets('timedOut', ['pending', 'ready', 'running', 'failed']),
  ...meets('returned', ['running', 'ready']),
  ...meets('preempted', ['running', 'ready']),
  ...meets('settled', ['cancelled']),
  ...meets('overdue', STATES),
  ...meets('cancel', ['pending', 'waiting', 'ready', 'running', 'success', 'cancelled', 'gone']),
  ...meets('retry', ['waiting', 'ready', 'failed', 'cancelled']),
]

const MAX_INVARIANT = 42

const TITLES: Readonly<Record<string, string>> = {
  fault: 'Faults',
  deed: 'What policies did',
  code: 'Codes',
  reason: 'Explained',
}

export class Coverage {
  readonly #cells: Record<string, number> = {}
  /** By number: they are counted far more often than all the rest. */
  readonly #checks: number[] = new Array(MAX_INVARIANT + 1).fill(0)

  /** Every cell with its count, as data. */
  get counts(): Record<string, number> {
    const counts = { ...this.#cells }
    for (const [number, count] of this.#checks.entries()) {
      if (count > 0) counts[`invariant: ${number}`] = count
    }
    return counts
  }

  #add(kind: string, name: string, by = 1): void {
    const cell = `${kind}: ${name}`
    this.#cells[cell] = (this.#cells[cell] ?? 0) + by
  }

  /** A decision reaches the store while the job is in that state. */
  move(step: string, status: JobStatus | 'gone'): void {
    this.#add('fact', `${FACT_OF[step] ?? step} x ${status}`)
  }

  fault(name: string): void {
    this.#add('fault', name)
  }

  deed(name: Deed): void {
    this.#add('deed', name)
  }

  /** An explanation agreed with the simulator's own. */
  reason(name: string): void {
    this.#add('reason', name)
  }

  code(code: string | undefined): void {
    if (code !== undefined) this.#add('code', code)
  }

  /** An invariant was checked on something that could have broken it. */
  checked(invariant: number): void {
    this.#checks[invariant] = (this.#checks[invariant] ?? 0) + 1
  }

  features(names: readonly string[]): void {
    for (const [index, name] of names.entries()) {
      this.#add('feature', name)
      for (const other of names.slice(index + 1)) this.#add('pair', pairOf(name, other))
    }
  }

  merge(counts: Readonly<Record<string, number>>): void {
    for (const [cell, count] of Object.entries(counts)) {
      this.#cells[cell] = (this.#cells[cell] ?? 0) + count
    }
  }

  of(kind: string, name: string): number {
    const cell = `${kind}: ${name}`
    return this.#cells[cell] ?? this.counts[cell] ?? 0
  }

  /** Every cell that should have been reached and was not. */
  holes(): string[] {
    const { counts } = this
    return expectedCells().filter((cell) => counts[cell] === undefined)
  }

  /** The account for people. */
  report(): string {
    const lines = [
      `Invariants checked: ${INVARIANTS.map((each) => {
        return `${each} (${this.of('invariant', String(each))})`
      }).join(', ')}`,
      ...this.#table('fault', FAULTS),
      ...this.#table('deed', DEEDS),
      ...this.#table('code', CODES),
      ...this.#table('reason', REASONS),
      ...this.#facts(),
      `Pairs of features: ${this.#pairs()}`,
    ]
    const holes = this.holes()
    lines.push(holes.length === 0 ? 'No holes.' : `Holes: ${holes.join('; ')}`)
    return lines.join('\n')
  }

  #table(kind: string, names: readonly string[]): string[] {
    const cells = names.map((name) => `${name} ${this.of(kind, name)}`)
    return [`${TITLES[kind] ?? kind}: ${cells.join(', ')}`]
  }

  #facts(): string[] {
    const facts = [...new Set(Object.values(FACT_OF))]
    const width = 10
    const head = ''.padEnd(width) + STATES.map((state) => state.padStart(width)).join('')
    const rows = facts.map((fact) => {
      const cells = STATES.map((state) => String(this.of('fact', `${fact} x ${state}`)))
      return fact.padEnd(width) + cells.map((cell) => cell.padStart(width)).join('')
    })
    return ['Facts that reached the store, by the state they met:', head, ...rows]
  }

  #pairs(): string {
    const all = allPairs()
    const met = all.filter((pair) => this.of('pair', pair) > 0)
    return `${met.length} of ${all.length}`
  }
}

function pairOf(one: string, other: string): string {
  return [one, other].sort().join(' + ')
}

function allPairs(): string[] {
  const names: readonly string[] = [...FEATURES, ...FAULT_FEATURES]
  return names.flatMap((name, index) => names.slice(index + 1).map((other) => pairOf(name, other)))
}

function expectedCells(): string[] {
  return [
    ...INVARIANTS.map((each) => `invariant: ${each}`),
    ...FAULTS.map((name) => `fault: ${name}`),
    ...DEEDS.map((name) => `deed: ${name}`),
    ...CODES.map((name) => `code: ${name}`),
    ...REASONS.map((name) => `reason: ${name}`),
    ...EXPECTED_FACTS.map((cell) => `fact: ${cell}`),
    ...allPairs().map((pair) => `pair: ${pair}`),
  ]
}
