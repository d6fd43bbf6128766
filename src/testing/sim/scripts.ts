// Owns what bodies are told to do: a script per job, a list of steps per attempt.
// May never run a step.

import type { Feature } from './coverage.ts'
import type { Script, Spec, Step } from './plan.ts'
import type { Random } from './random.ts'

export interface ScriptWriter {
  readonly on: ReadonlySet<Feature>
  readonly random: Random
  /** Jobs for a body to submit, or none where bodies submit nothing. */
  children(op: number): readonly Spec[]
}

/** One behaviour, how often it is drawn, and the feature that it belongs to. */
interface Manner {
  readonly weight: number
  readonly feature: Feature | null
  readonly write: (writer: ScriptWriter, op: number) => readonly Step[]
}

const MANNERS: readonly Manner[] = [
  { weight: 30, feature: null, write: ({ random }) => [wait(random.int(0, 40))] },
  { weight: 14, feature: null, write: ({ random }) => [wait(random.int(50, 400))] },
  { weight: 5, feature: null, write: ({ random }) => [wait(random.int(500, 2_500))] },
  { weight: 2, feature: null, write: () => [{ do: 'return', what: 'object' }] },
  { weight: 12, feature: null, write: ({ random }) => [wait(random.int(0, 60)), { do: 'throw' }] },
  { weight: 3, feature: null, write: () => [{ do: 'throw', code: 'E_DOWNSTREAM' }] },
  { weight: 3, feature: null, write: () => [{ do: 'throw', retryable: false }] },
  {
    weight: 2,
    feature: 'retries',
    write: ({ random }) => [{ do: 'throw', retryAfter: random.int(1, 900) }],
  },
  {
    weight: 4,
    feature: 'deaf bodies',
    write: ({ random }) => [
      { do: 'deaf', ms: random.pick([10, 200, 4_000, FOREVER]) },
      wait(random.pick([100, 1_500, FOREVER])),
    ],
  },
  {
    weight: 5,
    feature: 'submit inside',
    write: ({ random, children }, op) => [
      wait(random.int(0, 200)),
      { do: 'submit', jobs: children(op) },
      wait(random.int(0, 200)),
    ],
  },
  {
    weight: 2,
    feature: 'killers',
    write: ({ random }) => [wait(random.int(0, 80)), { do: 'crash' }],
  },
  {
    weight: 2,
    feature: 'stall',
    write: ({ random }) => [
      wait(random.int(0, 50)),
      { do: 'stall', ms: random.int(20, 4_000) },
      wait(random.int(0, 100)),
    ],
  },
  { weight: 1, feature: null, write: () => [{ do: 'return', what: 'unstorable' }] },
  { weight: 0.02, feature: 'invalid', write: () => [{ do: 'return', what: 'large' }] },
]

/** As good as for ever, and still a number that JSON can carry. */
export const FOREVER = 1_000_000_000

export function writeScript(writer: ScriptWriter, op: number): Script {
  const count = writer.random.pick([1, 1, 2, 3])
  const attempts = Array.from({ length: count }, () => drawManner(writer).write(writer, op))
  return { op, attempts }
}

function drawManner(writer: ScriptWriter): Manner {
  const open = MANNERS.filter(({ feature }) => feature === null || writer.on.has(feature))
  const total = open.reduce((sum, { weight }) => sum + weight, 0)
  let left = writer.random.next() * total
  for (const manner of open) {
    left -= manner.weight
    if (left <= 0) return manner
  }
  return open[0] as Manner
}

function wait(ms: number): Step {
  return { do: 'wait', ms }
}
