// Owns what bodies are told to do: a script per job, a list of steps per attempt.
// May never run a step.

import type { Feature } from './coverage.ts'
import type { ConfirmAnswer, Script, Spec, Step } from './plan.ts'
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

/** Long enough to be told to give way: at once, late, never, or after all. */
const YIELDING: readonly Manner[] = [
  {
    weight: 8,
    feature: 'preemption',
    write: ({ random }) => {
      const soft = random.chance(0.4)
      const long = { do: 'wait', ms: random.int(200, 3_000), soft } as const
      return [long, { do: 'wait', ms: random.pick([0, 0, 20]), soft }]
    },
  },
  {
    weight: 3,
    feature: 'preemption',
    write: ({ random }) => [
      { do: 'deaf', ms: random.pick([60, 200, 400, FOREVER]) },
      wait(random.pick([400, 900, 2_500])),
    ],
  },
]

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
    weight: 7,
    feature: 'deaf bodies',
    write: ({ random }) => [
      { do: 'deaf', ms: random.pick([10, 200, 4_000, FOREVER, FOREVER]) },
      wait(random.pick([100, 1_500, FOREVER, FOREVER])),
    ],
  },
  { weight: 3, feature: null, write: () => [{ do: 'throw', code: 'ECONNRESET' }] },
  {
    weight: 6,
    feature: 'breakers',
    write: ({ random }) => [wait(random.int(0, 100)), { do: 'throw', status: 503 }],
  },
  {
    weight: 6,
    feature: 'heartbeats',
    write: ({ random }) => [
      { do: 'beat', ms: random.int(100, 1_200), every: random.pick([20, 55, 110]) },
      wait(random.pick([0, 30, 300, 2_000])),
    ],
  },
  ...YIELDING,
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

export function writeScript(writer: ScriptWriter, op: number, type: string): Script {
  const { on, random } = writer
  const count = random.pick([1, 1, 2, 3])
  const isLong = type === 'yielding' && on.has('preemption')
  const manners = isLong ? [...MANNERS, ...YIELDING, ...YIELDING, ...YIELDING] : MANNERS
  const attempts = Array.from({ length: count }, () => {
    return drawManner(writer, manners).write(writer, op)
  })
  const script = { op, attempts }
  if (type === 'asked' && on.has('confirm')) {
    const answers = Array.from({ length: random.int(1, 3) }, () => random.pick(ANSWERS))
    return { ...script, answers }
  }
  const isMisshapen = type === 'shaped' && on.has('schemas') && random.chance(0.2)
  return isMisshapen ? { ...script, misshapen: true } : script
}

const ANSWERS: readonly ConfirmAnswer[] = [
  ...(['done', 'done', 'not', 'not', 'not', 'throw', 'nonsense', 'hang', 'deaf'] as const),
]

function drawManner(writer: ScriptWriter, manners: readonly Manner[]): Manner {
  const open = manners.filter(({ feature }) => feature === null || writer.on.has(feature))
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
