// Owns the promise that random nestings of calls never hang, and are refused only where they must.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter } from '../../src/kit/limiter.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'

const DAY = 86_400_000

/** Lets more time pass than any look at a stalled limiter waits for. */
async function stall(runtime: VirtualRuntime): Promise<void> {
  await runtime.advance(DAY)
}

const sleep = (runtime: VirtualRuntime, ms: number) =>
  new Promise<void>((resolve) => runtime.after(ms, resolve))

/** A body: the calls it makes one after another, and what it does between them. */
interface Plan {
  readonly limiter: number
  readonly calls: readonly Plan[]
  readonly together: boolean
  readonly waits: boolean
}

interface Node extends Omit<Plan, 'calls'> {
  readonly calls: readonly number[]
}

/** Where everybody is: -1 not made, then queued, then the step he is at, then done. */
interface State {
  readonly at: readonly number[]
  readonly queues: readonly (readonly number[])[]
}

const [ABSENT, QUEUED, RUNNING] = [-1, 0, 1]

/**
 * The model: no promise, no time, every order in which things could happen. A body makes its
 * calls one by one, waits as planned, and is done; a slot that is free may go to the head of its
 * queue. Answers how it can end: with all done, with some who wait for ever, or both; undefined
 * when there are too many states to look at all of them.
 */
function endsInModel(
  sizes: readonly number[],
  plans: readonly Plan[],
): { well: boolean; badly: boolean } | undefined {
  const nodes: Node[] = []
  const flatten = ({ calls, ...plan }: Plan): number => {
    const at = nodes.length
    nodes.push({ ...plan, calls: [] })
    nodes[at] = { ...plan, calls: calls.map(flatten) }
    return at
  }
  // Whoever makes the outermost calls is one more body, in a slot of its own.
  flatten({ limiter: sizes.length, calls: plans, together: false, waits: false })
  const none: State = { at: nodes.map(() => ABSENT), queues: [...sizes, 1].map(() => []) }
  const seen = new Set<string>()
  const open = [submit(nodes, none, 0)]
  const ends = { well: false, badly: false }
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    const key = JSON.stringify(state)
    if (seen.has(key)) continue
    seen.add(key)
    if (seen.size > 20_000) return undefined
    const next = successors(nodes, [...sizes, 1], state)
    open.push(...next)
    if (next.length > 0) continue
    const left = state.at.some((at, node) => at !== ABSENT && !isDone(nodes, state, node))
    ends[left ? 'badly' : 'well'] = true
  }
  return ends
}

function isDone(nodes: readonly Node[], { at }: State, node: number): boolean {
  return (at[node] as number) > RUNNING + (nodes[node] as Node).calls.length
}

function submit(nodes: readonly Node[], { at, queues }: State, node: number): State {
  const { limiter } = nodes[node] as Node
  return {
    at: at.with(node, QUEUED),
    queues: queues.with(limiter, [...(queues[limiter] as readonly number[]), node]),
  }
}

function successors(nodes: readonly Node[], sizes: readonly number[], state: State): State[] {
  const { at, queues } = state
  const next: State[] = []
  const isRunning = (node: number) => (at[node] as number) >= RUNNING && !isDone(nodes, state, node)
  for (const [limiter, [head, ...rest]] of queues.entries()) {
    const active = nodes.filter((node, id) => node.limiter === limiter && isRunning(id)).length
    if (head === undefined || active >= (sizes[limiter] as number)) continue
    next.push({ at: at.with(head, RUNNING), queues: queues.with(limiter, rest) })
  }
  for (const [id, { calls, waits, together }] of nodes.entries()) {
    if (!isRunning(id)) continue
    const step = (at[id] as number) - RUNNING
    const made = calls.slice(0, step)
    const mustWait = waits && (!together || step === calls.length)
    if (mustWait && !made.every((call) => isDone(nodes, state, call))) continue
    const moved = { at: at.with(id, RUNNING + step + 1), queues }
    next.push(step < calls.length ? submit(nodes, moved, calls[step] as number) : moved)
  }
  return next
}

/** Runs a plan for real. Answers how many calls were refused. */
async function play(
  sizes: readonly number[],
  plans: readonly Plan[],
): Promise<{ ran: number; refused: number; left: number; size: number }> {
  const runtime = virtualRuntime(1)
  const limiters = sizes.map((size) => createLimiter(size, { runtime }))
  const tally = { ran: 0, refused: 0, left: 0, size: 0 }
  const run = async (plan: Plan): Promise<void> => {
    tally.size += 1
    tally.left += 1
    try {
      await limiters[plan.limiter]?.(async () => {
        const calls: Promise<void>[] = []
        for (const call of plan.calls) {
          if (call.calls.length % 2 === 1) await sleep(runtime, 1)
          const promise = run(call)
          calls.push(promise)
          if (plan.waits && !plan.together) await promise
        }
        if (plan.waits && plan.together) await Promise.all(calls)
        tally.ran += 1
      })
    } catch (error) {
      if ((error as { code?: string }).code !== 'NESTED_LIMIT') throw error
      tally.refused += 1
    }
    tally.left -= 1
  }
  for (const plan of plans) run(plan)
  await stall(runtime)
  return tally
}

const plan = (limiters: number, depth: number, most: number): fc.Arbitrary<Plan> =>
  fc.record({
    limiter: fc.nat(limiters - 1),
    calls:
      depth === 0
        ? fc.constant([])
        : fc.array(plan(limiters, depth - 1, most), { maxLength: most, size: 'max' }),
    together: fc.boolean(),
    waits: fc.boolean(),
  })

const worlds = (most: { plans: number; calls: number; size: number }) =>
  fc.integer({ min: 1, max: 3 }).chain((limiters) =>
    fc.record({
      sizes: fc.array(fc.integer({ min: 1, max: most.size }), {
        minLength: limiters,
        maxLength: limiters,
      }),
      plans: fc.array(plan(limiters, 2, most.calls), {
        minLength: 1,
        maxLength: most.plans,
        size: 'max',
      }),
    }),
  )

const world = worlds({ plans: 5, calls: 3, size: 3 })
const smallWorld = worlds({ plans: 3, calls: 2, size: 2 })

describe('random nestings over one to three limiters', () => {
  it('B28: never hang', async () => {
    await fc.assert(
      fc.asyncProperty(world, async ({ sizes, plans }) => {
        const { left, ran, refused, size } = await play(sizes, plans)
        expect([left, ran + refused]).toEqual([0, size])
      }),
      { numRuns: 150 },
    )
  }, 60_000)

  it('B28: have no call refused unless the model can get stuck, and one if it must', async () => {
    let [fine, stuck] = [0, 0]
    await fc.assert(
      fc.asyncProperty(smallWorld, async ({ sizes, plans }) => {
        const ends = endsInModel(sizes, plans)
        if (ends === undefined) return
        const { refused } = await play(sizes, plans)
        if (!ends.badly) {
          fine += 1
          expect(refused).toBe(0)
        } else if (!ends.well) {
          stuck += 1
          expect(refused).toBeGreaterThan(0)
        }
      }),
      { numRuns: 300 },
    )
    // The generator must know both worlds, or the test shows nothing.
    expect([fine > 30, stuck > 10]).toEqual([true, true])
  }, 60_000)
})
