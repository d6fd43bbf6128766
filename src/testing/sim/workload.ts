// Owns the drawing of a plan: what users do and when, and what goes wrong and when.
// May never run anything, and may never draw from another stream than its own.

import type { Feature } from './coverage.ts'
import { Graphs } from './graphs.ts'
import { Levers } from './levers.ts'
import type { Fault, FaultAction, Invalid, Op, OpAction, Plan, Spec } from './plan.ts'
import { drawChange, POOLS } from './policies.ts'
import { Random } from './random.ts'
import { drawSwarm, type Swarm } from './swarm.ts'

/** Operations a seed, at least. */
const MIN_OPS = 300

export function drawPlan(seed: number): Plan {
  const swarm = drawSwarm(new Random(seed, 'swarm'))
  const { settings, nodes, on } = swarm
  const ops = new Workload(seed, swarm).draw()
  const faults = drawFaults(seed, swarm)
  return { seed, features: [...on], settings, nodes, ops, faults }
}

/** A kind of operation: how often, under which feature, and what it is. */
interface Kind {
  readonly weight: number
  readonly feature: Feature | null
  readonly draw: (index: number) => readonly OpAction[]
}

const POLICIES = [
  ...(['shares', 'rates', 'elastic', 'preemption', 'breakers', 'bounded queues'] as const),
]

class Workload {
  readonly #swarm: Swarm
  readonly #random: Random
  readonly #times: Random
  readonly #graphs: Graphs
  readonly #kinds: readonly Kind[]
  readonly #submitted: Spec[] = []

  constructor(seed: number, swarm: Swarm) {
    this.#swarm = swarm
    this.#random = new Random(seed, 'operations')
    this.#times = new Random(seed, 'times')
    this.#graphs = new Graphs(swarm.on, new Random(seed, 'graphs'), new Random(seed, 'scripts'))
    this.#kinds = this.#allKinds().filter(
      ({ feature }) => feature === null || swarm.on.has(feature),
    )
  }

  /** In order of time, so that what is aimed at was most likely submitted a moment before. */
  draw(): Op[] {
    const { settings, nodes } = this.#swarm
    const count = MIN_OPS + this.#random.int(0, 60)
    const bursts = Array.from({ length: 6 }, () => this.#times.int(0, settings.phaseMs))
    const times = Array.from({ length: count }, () => this.#drawTime(bursts))
    const ops: Op[] = []
    for (const at of times.sort((one, other) => one - other)) {
      if (ops.length >= count) break
      const index = ops.length
      for (const [offset, action] of this.#drawActions(index).entries()) {
        const node = this.#random.pick(nodes).name
        ops.push({ ...action, index: index + offset, at: at + offset * 3, node })
      }
    }
    return ops
  }

  #drawTime(bursts: readonly number[]): number {
    const { phaseMs } = this.#swarm.settings
    if (this.#times.chance(0.5)) return this.#times.int(0, phaseMs - 1)
    return Math.min(phaseMs - 1, this.#times.pick(bursts) + this.#times.int(0, 100))
  }

  #drawActions(index: number): readonly OpAction[] {
    const total = this.#kinds.reduce((sum, { weight }) => sum + weight, 0)
    let left = this.#random.next() * total
    for (const kind of this.#kinds) {
      left -= kind.weight
      if (left <= 0) return kind.draw(index)
    }
    return []
  }

  #allKinds(): readonly Kind[] {
    const random = this.#random
    const graphs = this.#graphs
    const target = (kind: 'cancel' | 'explain' | 'job' | 'result') => () => [
      { kind, id: graphs.anyId(random) } as const,
    ]
    const pool = () => random.pick(POOLS)
    return [
      { weight: 40, feature: null, draw: (op) => [this.#add([graphs.single(op)])] },
      { weight: 10, feature: 'dependencies', draw: (op) => [this.#add(graphs.batch(op))] },
      {
        weight: 3,
        feature: 'cycles',
        draw: (op) => graphs.loop(op).map((jobs) => this.#add(jobs)),
      },
      { weight: 4, feature: 'repeats', draw: (op) => [this.#repeat(op)] },
      { weight: 3, feature: 'invalid', draw: () => [this.#invalid()] },
      { weight: 8, feature: 'cancel', draw: target('cancel') },
      {
        weight: 4,
        feature: 'cancel',
        draw: () => [{ kind: 'cancel', id: `*${random.int(0, 9)}` }],
      },
      {
        weight: 9,
        feature: 'retry again',
        draw: () => [{ kind: 'retry', id: graphs.anyId(random), downstream: random.chance(0.5) }],
      },
      { weight: 5, feature: 'cancel', draw: () => this.#storm() },
      { weight: 5, feature: 'results', draw: target('result') },
      { weight: 3, feature: null, draw: target('explain') },
      { weight: 2, feature: null, draw: target('job') },
      {
        weight: 3,
        feature: 'pause',
        draw: () => [{ kind: random.pick(['pause', 'resume', 'resume']), pool: pool() }],
      },
      ...this.#adminKinds(),
      {
        weight: 4,
        feature: null,
        draw: () => [{ kind: random.pick(['snapshot', 'zombies', 'events', 'jobs']) }],
      },
    ]
  }

  /** What administrators do, storms of changes among it. */
  #adminKinds(): readonly Kind[] {
    const random = this.#random
    const { on } = this.#swarm
    const change = () => {
      const kind = 'configure' as const
      return [{ kind, pool: random.pick(POOLS), change: drawChange(on, random) }]
    }
    const levers = new Levers(this.#swarm, random, this.#graphs)
    return [
      { weight: 3, feature: 'caps', draw: change },
      ...POLICIES.map((feature) => ({ weight: 1, feature, draw: change })),
      { weight: 3, feature: 'ageing', draw: () => [levers.ageing()] },
      { weight: 2, feature: 'retry budget', draw: () => [levers.budget()] },
      { weight: 2, feature: 'type caps', draw: () => [levers.typeCap()] },
      { weight: 5, feature: 'schedules', draw: (op) => [levers.schedule(op)] },
      { weight: 2, feature: 'make-up runs', draw: () => [levers.makeUp()] },
      {
        weight: 2,
        feature: 'advice',
        draw: () => [{ kind: random.pick(['doctor', 'advise']) }],
      },
    ]
  }

  /** Several people want different things of one job at the same moment. */
  #storm(): readonly OpAction[] {
    const id = this.#graphs.anyId(this.#random)
    const again = this.#swarm.on.has('retry again')
    const wishes: readonly OpAction[] = again
      ? [
          { kind: 'cancel', id },
          { kind: 'retry', id, downstream: this.#random.chance(0.5) },
        ]
      : [{ kind: 'cancel', id }]
    return Array.from({ length: this.#random.int(2, 5) }, () => this.#random.pick(wishes))
  }

  #add(jobs: readonly Spec[]): OpAction {
    this.#submitted.push(...jobs.filter(({ id }) => id !== undefined))
    return { kind: 'add', jobs }
  }

  /** An earlier submission once more: just like it, or with another payload, or twice at once. */
  #repeat(op: number): OpAction {
    const random = this.#random
    const earlier = this.#submitted.length === 0 ? undefined : random.pick(this.#submitted)
    if (earlier === undefined) return this.#add([this.#graphs.single(op)])
    if (random.chance(0.6)) return { kind: 'add', jobs: [earlier] }
    if (random.chance(0.5)) return { kind: 'add', jobs: [earlier, earlier] }
    return { kind: 'add', jobs: [{ ...earlier, script: this.#graphs.single(op).script }] }
  }

  #invalid(): OpAction {
    const variants: readonly Invalid[] = [
      ...(['no such type of value', 'quorum', 'dedupe without key', 'unknown option'] as const),
      ...(['unstorable payload', 'pool option', 'quorum'] as const),
      ...(this.#random.chance(0.1) ? (['too large', 'too many'] as const) : []),
    ]
    return { kind: 'invalid', variant: this.#random.pick(variants) }
  }
}

function drawFaults(seed: number, { on, settings, nodes }: Swarm): Fault[] {
  const random = new Random(seed, 'faults')
  const { leaseMs, phaseMs } = settings
  const spans = [leaseMs / 2, leaseMs, leaseMs * 2, 300]
  const span = () => Math.ceil(Math.min(random.pick(spans) * (0.5 + random.next()), 6_000))
  const kinds: readonly (readonly [Feature, number, () => FaultAction])[] = [
    ['crash', 4, () => ({ kind: 'crash', downMs: random.int(0, 3_000) })],
    ['stall', 4, () => ({ kind: 'stall', ms: span() })],
    ['jump', 4, () => ({ kind: 'jump', ms: random.int(-3_600_000, 3_600_000) })],
    [
      'partition',
      3,
      () => ({ kind: 'partition', ms: span(), way: random.pick(['both', 'to', 'from']) }),
    ],
    [
      'deploy',
      2,
      () => ({ kind: 'deploy', drainMs: random.int(0, 2_000), overlapMs: random.int(0, 1_000) }),
    ],
    [
      'drain',
      2,
      () => ({ kind: 'drain', drainMs: random.int(0, 2_000), downMs: random.int(0, 1_500) }),
    ],
    ['store restart', 3, () => ({ kind: 'store restart', ms: random.int(0, 3_000) })],
  ]
  return kinds
    .filter(([feature]) => on.has(feature))
    .flatMap(([, most, draw]) =>
      Array.from({ length: random.int(1, most) }, () => {
        return { ...draw(), at: random.int(0, phaseMs - 1), node: random.pick(nodes).name }
      }),
    )
    .sort((one, other) => one.at - other.at)
}
