// Owns what a seed switches on and off, and how hard: features, faults, sizes, times.
// May never decide when anything happens: that is the plan's.

import { FAULT_FEATURES, FEATURES, type Feature } from './coverage.ts'
import type { LinkSettings, NodePlan, Settings } from './plan.ts'
import { drawBrought, drawTypes, TYPE_NAMES } from './policies.ts'
import type { Random } from './random.ts'
import { EPOCH } from './world.ts'

/** The moments at which the clocks of Berlin go forward, and back. */
const CLOCK_CHANGES = [1_711_846_800_000, 1_729_990_800_000]

export interface Swarm {
  readonly on: ReadonlySet<Feature>
  readonly settings: Settings
  readonly nodes: readonly NodePlan[]
}

export function drawSwarm(random: Random): Swarm {
  const all: readonly Feature[] = [...FEATURES, ...FAULT_FEATURES]
  const on = new Set(all.filter(() => random.chance(0.5)))
  return { on, settings: drawSettings(on, random), nodes: drawNodes(on, random) }
}

function drawSettings(on: ReadonlySet<Feature>, random: Random): Settings {
  const latencyMs = random.pick([0, 1, 5, 20, 60])
  const leaseMs = on.has('short leases')
    ? random.pick([Math.max(60, latencyMs * 4), 150, 400])
    : random.pick([1_000, 3_000, 15_000])
  const short = on.has('short retention')
  const keep = () => (short ? random.pick([0, 20, 500, 3_000]) : 3_600_000)
  return {
    leaseMs,
    graceMs: random.pick([0, 30, 300, 2_000]),
    maxZombies: random.pick([1, 1, 3, 100]),
    keepMs: {
      success: keep(),
      failed: keep(),
      cancelled: keep(),
      outcomes: keep(),
      log: keep(),
    },
    unknownDeps: on.has('ghosts') || random.chance(0.5) ? 'wait' : 'reject',
    types: drawTypes(on, random),
    brought: drawBrought(on, random),
    startAt: drawStart(on, random),
    link: drawLink(on, random, latencyMs, leaseMs),
    // Short leases are prolonged all the time: there a shorter phase says as much.
    phaseMs: leaseMs < 300 ? 6_000 : random.pick([6_000, 12_000, 20_000]),
  }
}

/** A change of clocks, if there is one, comes in the middle of the phase. */
function drawStart(on: ReadonlySet<Feature>, random: Random): number {
  const change = random.pick(CLOCK_CHANGES)
  const before = random.int(1_000, 6_000)
  return on.has('schedules') && random.chance(0.5) ? change - before : EPOCH
}

function drawLink(
  on: ReadonlySet<Feature>,
  random: Random,
  latencyMs: number,
  leaseMs: number,
): LinkSettings {
  const rate = (feature: Feature, rates: readonly number[]) => {
    const drawn = random.pick(rates)
    return on.has(feature) ? drawn : 0
  }
  return {
    latencyMs,
    jitterMs: random.pick([0, latencyMs, latencyMs * 4]),
    reorder: on.has('reordering'),
    loseRequest: rate('lost requests', [0.005, 0.02, 0.1]),
    loseAnswer: rate('lost answers', [0.005, 0.02, 0.1]),
    duplicate: rate('duplicates', [0.02, 0.1, 0.4]),
    late: rate('late packets', [0.01, 0.05, 0.1]),
    lateMs: Math.min(leaseMs * 3, 6_000),
    busy: rate('busy', [0.01, 0.05, 0.2]),
    failBefore: rate('failures before', [0.01, 0.05]),
    failAfter: rate('failures after', [0.01, 0.05]),
    loseHint: rate('lost hints', [0.1, 0.5, 1]),
    duplicateHint: rate('duplicates', [0, 0.2]),
    crashOnSend: rate('crash steps', [0.001, 0.005]),
    crashOnAnswer: rate('crash steps', [0.001, 0.005]),
    clientTimeoutMs: random.pick([300, 1_000, 3_000]),
  }
}

function drawNodes(on: ReadonlySet<Feature>, random: Random): NodePlan[] {
  const workers = random.int(1, 3)
  const names: readonly string[] = TYPE_NAMES
  const served = on.has('unserved types') ? names.filter((name) => name !== 'rare') : names
  const nodes: NodePlan[] = []
  for (let index = 0; index < workers; index += 1) {
    const types = index === 0 ? served : served.filter(() => random.chance(0.7))
    nodes.push(drawNode(on, random, `worker${index}`, types))
  }
  const hasClient = random.chance(0.5) || on.has('stored types')
  if (hasClient) nodes.push(drawNode(on, random, 'client', []))
  return nodes
}

function drawNode(
  on: ReadonlySet<Feature>,
  random: Random,
  name: string,
  types: readonly string[],
): NodePlan {
  return {
    name,
    types,
    concurrency: random.pick([1, 3, 10, 100]),
    bare: types.length === 0 && on.has('stored types'),
    offsetMs: on.has('drift') ? random.int(-600_000, 600_000) : 0,
    drift: on.has('drift') ? (random.next() - 0.5) * 0.02 : 0,
  }
}
