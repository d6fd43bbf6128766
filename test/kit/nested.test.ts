// Owns the promises about calls inside bodies: a wait that could never end is ended, and no other.

import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import { build as bundle } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createInflight } from '../../src/kit/inflight.ts'
import { createLimiter, type Limiter } from '../../src/kit/limiter.ts'
import { withTimeout } from '../../src/kit/timeout.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'
import { body, outcome, turn } from './helpers.ts'

const DAY = 86_400_000

/** Lets more time pass than any look at a stalled limiter waits for. */
async function stall(runtime: VirtualRuntime): Promise<void> {
  await runtime.advance(DAY)
}

/** What a promise comes to, or 'waits' if it does not come to anything. */
async function within(runtime: VirtualRuntime, promise: Promise<unknown>): Promise<unknown> {
  let end: unknown = 'waits'
  outcome(promise).then((value) => {
    end = value
  })
  await stall(runtime)
  return end
}

const sleep = (runtime: VirtualRuntime, ms: number) =>
  new Promise<void>((resolve) => runtime.after(ms, resolve))

type Inner = () => Promise<unknown>

/** How a body may come to wait for a call. */
const ways: [string, (inner: Inner, runtime: VirtualRuntime) => unknown][] = [
  ['returns it', (inner) => inner()],
  ['awaits it at once', async (inner) => await inner()],
  [
    'awaits it later',
    async (inner, runtime) => {
      await sleep(runtime, 1)
      await inner()
    },
  ],
  [
    'makes it first and awaits it later',
    async (inner, runtime) => {
      const call = inner()
      await sleep(runtime, 1000)
      await call
    },
  ],
  ['returns it from an async function', async (inner) => inner()],
  ['chains it', (inner, runtime) => sleep(runtime, 1).then(() => inner())],
  [
    'chains on',
    (inner) =>
      inner()
        .then(() => 1)
        .finally(() => {}),
  ],
  ['awaits several', async (inner) => await Promise.all([inner(), 1, turn()])],
  ['settles several', async (inner) => await Promise.allSettled([inner()])],
  [
    'has a helper',
    async (inner) => {
      const helper = async () => {
        await turn()
        await inner()
      }
      await Promise.all([helper(), helper()])
    },
  ],
  ['resolves with it', (inner) => new Promise((resolve) => resolve(inner()))],
  [
    'iterates over it',
    async (inner) => {
      const source = (async function* () {
        yield await inner()
      })()
      for await (const _ of source) await turn()
    },
  ],
]

describe('a body that waits for a call of its own limiter', () => {
  it.each(ways)('B28: has that call refused when no slot is left (%s)', async (way, act) => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const inner = () => limit(() => 'inner')
    const outer = limit(() => act(inner, runtime))
    const end = await within(runtime, outer)
    if (way === 'settles several') {
      expect(end).toMatchObject([{ status: 'rejected', reason: { code: 'NESTED_LIMIT' } }])
    } else expect(end).toBe('NESTED_LIMIT')
    await limit.idle()
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 1 })
  })

  it('B28: is found behind calls of others, and among bodies that have waited themselves', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(2, { runtime })
    const first = [1, 2].map(() => limit(() => sleep(runtime, 5)))
    const nested = [1, 2].map(() =>
      outcome(
        limit(async () => {
          await sleep(runtime, 5)
          return await limit(() => 'inner')
        }),
      ),
    )
    await runtime.advance(7)
    const others = Array.from({ length: 3000 }, () => limit(() => 'other'))
    await stall(runtime)
    // One of the two has to give way; then the other one's call has its turn.
    expect((await Promise.all(nested)).sort()).toEqual(['NESTED_LIMIT', 'inner'])
    await Promise.all([...first, ...others])
  })

  it('is left alone while a slot can still come free', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(2, { runtime })
    const other = limit(() => sleep(runtime, DAY / 2))
    const outer = limit(async () => await limit(() => 'inner'))
    expect(await within(runtime, outer)).toBe('inner')
    await other
  })

  it('is left alone when the call gives up by itself', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const outer = limit(async () => await limit(() => 'inner', { enqueueTimeout: '1h' }))
    expect(await within(runtime, outer)).toBe('ENQUEUE_TIMEOUT')
  })

  it('is left alone when its time is limited', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    let inner: Promise<unknown> = Promise.resolve()
    const outer = limit(() =>
      withTimeout(
        () => {
          inner = limit(() => 'inner')
          return inner.then((value) => value)
        },
        '1h',
        { runtime },
      ),
    )
    expect(await within(runtime, outer)).toBe('EXECUTION_TIMEOUT')
    expect(await within(runtime, inner)).toBe('inner')
  })

  it('waits all the same where that was asked for', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime, nested: 'queue' })
    const outer = limit(async () => await limit(() => 'inner'))
    expect(await within(runtime, outer)).toBe('waits')
    limit.concurrency = 2
    expect(await within(runtime, outer)).toBe('inner')
  })

  it('goes on when the refusal is caught', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const outer = limit(async () => await limit(() => 'inner').catch(({ code }) => `after ${code}`))
    expect(await within(runtime, outer)).toBe('after NESTED_LIMIT')
  })
})

describe('a body that does not wait for the calls it makes', () => {
  const forgetful: [string, (inner: Inner) => void][] = [
    ['forgets it', (inner) => void inner()],
    ['handles its failure', (inner) => void inner().catch(() => {})],
    ['leaves it to a function', (inner) => void (async () => await inner())()],
    [
      'leaves it to a slow function',
      (inner) =>
        void (async () => {
          await turn()
          await inner()
        })(),
    ],
  ]

  it.each(forgetful)('is left alone, however long it takes (%s)', async (_, act) => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const ran: string[] = []
    const outer = limit(async () => {
      act(() => limit(() => ran.push('inner')))
      await sleep(runtime, DAY / 2)
      ran.push('outer')
    })
    await within(runtime, outer)
    await limit.idle()
    expect(ran).toEqual(['outer', 'inner'])
  })

  it('may hand them to somebody outside who waits', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const pages: Promise<unknown>[] = []
    const crawl = (depth: number) => {
      pages.push(
        limit(async () => {
          if (depth > 0) for (let link = 0; link < 3; link += 1) crawl(depth - 1)
          await sleep(runtime, 10_000)
        }),
      )
    }
    crawl(3)
    const all = (async () => {
      for (const page of pages) await page
      return pages.length
    })()
    expect(await within(runtime, all)).toBe(40)
  })
})

describe('several limiters', () => {
  it('B28: in a ring are seen through', async () => {
    const runtime = virtualRuntime(1)
    const [a, b, c] = [1, 2, 3].map(() => createLimiter(1, { runtime })) as [
      Limiter,
      Limiter,
      Limiter,
    ]
    const chain = (outer: Limiter, inner: Limiter) =>
      outcome(
        outer(async () => {
          await sleep(runtime, 1)
          return await inner(() => 'inner')
        }),
      )
    const ends = Promise.all([chain(a, b), chain(b, c), chain(c, a)])
    const all = (await within(runtime, ends)) as string[]
    expect([...all].sort()).toEqual(['NESTED_LIMIT', 'inner', 'inner'])
  })

  it('B28: nested through one another come back to the first', async () => {
    const runtime = virtualRuntime(1)
    const [a, b] = [createLimiter(1, { runtime }), createLimiter(1, { runtime })]
    const outer = a(async () => await b(async () => await a(() => 'inner')))
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
    // The middle one has waited for its slot before: it serves a call, and is not part of it.
    const blocker = body<void>()
    b(blocker.run)
    const late = a(async () => await b(async () => await a(() => 'inner')))
    await turn()
    blocker.end()
    expect(await within(runtime, late)).toBe('NESTED_LIMIT')
  })

  it('are left alone when one of them opts out', async () => {
    const runtime = virtualRuntime(1)
    const a = createLimiter(1, { runtime })
    const b = createLimiter(1, { runtime, nested: 'queue' })
    const outer = a(async () => await b(async () => await a(() => 'inner')))
    // The wait is that for a, and every slot of a is held by a body that waits for it.
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
    const other = b(async () => await a(async () => await b(() => 'inner')))
    expect(await within(runtime, other)).toBe('waits')
  })
})

describe('limit.map', () => {
  it('B28: whose function calls the limiter is seen through', async () => {
    const runtime = virtualRuntime(1)
    const limit = createLimiter(1, { runtime })
    const results = limit.map([1, 2], async (item) => {
      await turn()
      return await limit(() => item)
    })
    expect(await within(runtime, results.next())).toBe('NESTED_LIMIT')
    await limit.idle()
  })

  it('B28: inside a body needs a slot', async () => {
    const runtime = virtualRuntime(1)
    const [limit, other] = [createLimiter(1, { runtime }), createLimiter(1, { runtime })]
    const collect = async (results: AsyncIterable<number>) => {
      const all: number[] = []
      for await (const result of results) all.push(result)
      return all
    }
    const inside = limit(() => collect(limit.map([1, 2], (item) => item)))
    expect(await within(runtime, inside)).toBe('NESTED_LIMIT')
    const ring = limit(() => collect(other.map([1, 2], (item) => limit(() => item))))
    expect(await within(runtime, ring)).toBe('NESTED_LIMIT')
    const fine = limit(() => collect(other.map([1, 2], (item) => item)))
    expect(await within(runtime, fine)).toEqual([1, 2])
  })
})

describe('single flight', () => {
  it('B23: is refused to a body that calls for its own key', async () => {
    const inflight = createInflight()
    const self: (() => Promise<unknown>)[] = [
      () => inflight('k', () => inflight('k', () => 1)),
      () => inflight('k', async () => await inflight('k', () => 1)),
      () =>
        inflight('k', async () => {
          await turn()
          return await inflight('k', () => 1)
        }),
      () => inflight('k', () => turn().then(() => inflight('other', () => inflight('k', () => 1)))),
    ]
    for (const call of self) expect(await outcome(call())).toBe('NESTED_LIMIT')
    expect(inflight.size).toBe(0)
    const message = await inflight('k', () => inflight('k', () => 1)).catch(
      (error) => error.message,
    )
    expect(message).toBe('The body of "k" has called for "k": it would wait for itself.')
  })

  it('B23: is not refused to others, or for another key', async () => {
    const inflight = createInflight()
    const work = body<number>()
    const first = inflight('k', work.run)
    const joined = [inflight('k', work.run), inflight('other', () => inflight('k', work.run))]
    work.end(1)
    expect(await Promise.all([first, ...joined])).toEqual([1, 1, 1])
    expect(await inflight('a', () => inflight('b', () => inflight('c', () => 2)))).toBe(2)
  })
})

describe('a process that would end in silence', () => {
  let folder = ''

  // A child of Node 20 cannot read TypeScript.
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ax-nested-'))
    const input = resolve(import.meta.dirname, '../../src/kit/limiter.ts')
    const rollupOptions = { input, output: { entryFileNames: 'limiter.mjs' } }
    const build = { ssr: true, outDir: folder, minify: false, rollupOptions }
    await bundle({ configFile: false, logLevel: 'silent', build })
  }, 60_000)

  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function run(lines: string): Promise<{ code: number; out: string }> {
    const url = pathToFileURL(join(folder, 'limiter.mjs')).href
    const head = `import { createLimiter } from '${url}'\nconst limit = createLimiter(1)\n`
    const args = ['--input-type=module', '-e', head + lines]
    return new Promise((done) => {
      execFile(process.execPath, args, (error, out) => {
        done({ code: Number(error?.code ?? 0), out: out.trim() })
      })
    })
  }

  it('B28: hears that it has waited in vain', async () => {
    const script = `
      const end = limit(async () => { await null; return await limit(() => 'inner') })
      console.log(await end.catch((error) => error.code))`
    expect(await run(script)).toEqual({ code: 0, out: 'NESTED_LIMIT' })
  })

  it('ends as it would have, if nobody waits in a ring', async () => {
    const script = `
      limit(() => new Promise(() => {}))
      console.log('waiting')
      await limit(() => 1)`
    // 13: Node's code for a top-level await that nothing will settle.
    expect(await run(script)).toEqual({ code: 13, out: 'waiting' })
  })
})

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
