// Owns the checks of simulated time, chance and links. May never use a real timer.

import { describe, expect, it } from 'vitest'
import { isAxError } from '../../src/core/errors.ts'
import { Coverage } from '../../src/testing/sim/coverage.ts'
import { type Call, type Far, Link } from '../../src/testing/sim/link.ts'
import type { LinkSettings } from '../../src/testing/sim/plan.ts'
import { Random } from '../../src/testing/sim/random.ts'
import { EPOCH, SimNode, World } from '../../src/testing/sim/world.ts'

const CALM: LinkSettings = {
  latencyMs: 5,
  jitterMs: 0,
  reorder: false,
  loseRequest: 0,
  loseAnswer: 0,
  duplicate: 0,
  late: 0,
  lateMs: 0,
  busy: 0,
  failBefore: 0,
  failAfter: 0,
  loseHint: 0,
  duplicateHint: 0,
  crashOnSend: 0,
  crashOnAnswer: 0,
  clientTimeoutMs: 100,
}

function setUp(settings: Partial<LinkSettings> = {}) {
  const world = new World(1)
  const node = new SimNode(world, 'a', 1, { offsetMs: 0, drift: 0 })
  const calls: { readonly at: number; readonly call: Call }[] = []
  const far: Far & { restarts: number } = {
    restarts: 0,
    deafUntil: 0,
    act: async (call) => {
      calls.push({ at: world.time - EPOCH, call })
      return calls.length
    },
    watch: async () => async () => {},
  }
  const coverage = new Coverage()
  const link = new Link(node, far, { ...CALM, ...settings }, coverage, 10_000)
  const seen: string[] = []
  const ask = () =>
    link.store.time().then(
      (answer) => seen.push(`${answer} at ${world.time - EPOCH}`),
      (error) => seen.push(`${isAxError(error) ? error.code : error} at ${world.time - EPOCH}`),
    )
  return { world, node, link, far, calls, seen, ask, coverage }
}

describe('a stream of chance', () => {
  it('is fixed by seed and name, and stays in its bounds', () => {
    const draw = (seed: number, name: string) => {
      const random = new Random(seed, name)
      return Array.from({ length: 100 }, () => random.int(3, 9))
    }
    expect(draw(1, 'a')).toEqual(draw(1, 'a'))
    expect(draw(1, 'a')).not.toEqual(draw(1, 'b'))
    expect(draw(1, 'a')).not.toEqual(draw(2, 'a'))
    expect([...new Set(draw(1, 'a'))].sort()).toEqual([3, 4, 5, 6, 7, 8, 9])
  })
})

describe('the world', () => {
  it('runs events in order of time, then of their setting', async () => {
    const world = new World(1)
    const seen: string[] = []
    for (const [ms, name] of [
      [5, 'b'],
      [1, 'a'],
      [5, 'c'],
      [9, 'never'],
    ] as const) {
      world.after(ms, () => {
        seen.push(`${name} ${world.time - EPOCH}`)
      })
    }
    await world.runUntil(EPOCH + 6)
    expect(seen).toEqual(['a 1', 'b 5', 'c 5'])
    expect(world.time).toBe(EPOCH + 6)
  })

  it('lets promises settle between two events', async () => {
    const world = new World(1)
    const seen: number[] = []
    world.after(1, async () => {
      for (let turn = 0; turn < 10; turn += 1) await null
      seen.push(1)
    })
    world.after(1, () => {
      seen.push(2)
    })
    await world.runUntil(EPOCH + 1)
    expect(seen).toEqual([1, 2])
  })

  it('rejects with what an event throws, and for what spins', async () => {
    const world = new World(1)
    world.after(1, async () => {
      await null
      throw new Error('from inside')
    })
    await expect(world.runUntil(EPOCH + 1)).rejects.toThrow('from inside')
  })

  it('runs nothing of a process that is dead', async () => {
    const { world, node } = setUp()
    let ran = false
    node.after(5, () => {
      ran = true
    })
    world.after(3, () => node.crash())
    await world.runUntil(EPOCH + 10)
    expect(ran).toBe(false)
  })

  it('keeps what a stalled process had to do, in the old order', async () => {
    const { world, node } = setUp()
    const seen: string[] = []
    for (const name of ['one', 'two']) {
      node.after(name === 'one' ? 4 : 5, () => {
        seen.push(`${name} at ${world.time - EPOCH}`)
      })
    }
    world.after(1, () => node.stall(20))
    await world.runUntil(EPOCH + 30)
    expect(seen).toEqual(['one at 21', 'two at 21'])
  })

  it('gives each process a wall clock that drifts and jumps, and a steady one', async () => {
    const world = new World(1)
    const node = new SimNode(world, 'a', 1, { offsetMs: 50, drift: 0.1 })
    const steady = node.runtime.monotonic()
    await world.runUntil(EPOCH + 1_000)
    expect(node.runtime.now()).toBe(EPOCH + 1_150)
    node.jumpMs -= 5_000
    expect(node.runtime.now()).toBe(EPOCH - 3_850)
    expect(node.runtime.monotonic() - steady).toBe(1_000)
  })
})

describe('a link', () => {
  it('takes its time in both directions', async () => {
    const { world, calls, seen, ask } = setUp()
    void ask()
    await world.runUntil(EPOCH + 200)
    expect(calls.map(({ at }) => at)).toEqual([5])
    expect(seen).toEqual(['1 at 10'])
  })

  it('does the call and loses the answer: unknown after the timeout', async () => {
    const { world, calls, seen, ask } = setUp({ loseAnswer: 1 })
    void ask()
    await world.runUntil(EPOCH + 200)
    expect(calls).toHaveLength(1)
    expect(seen).toEqual(['STORE_UNAVAILABLE at 100'])
  })

  it('loses the request: nothing is done', async () => {
    const { world, calls, seen, ask } = setUp({ loseRequest: 1 })
    void ask()
    await world.runUntil(EPOCH + 200)
    expect(calls).toHaveLength(0)
    expect(seen).toEqual(['STORE_UNAVAILABLE at 100'])
  })

  it.each([
    ['busy', { busy: 1 }, 0],
    ['a failure before', { failBefore: 1 }, 0],
    ['a failure after', { failAfter: 1 }, 1],
  ] as const)('tells of %s at once', async (_, settings, done) => {
    const { world, calls, seen, ask } = setUp(settings)
    void ask()
    await world.runUntil(EPOCH + 50)
    expect(calls).toHaveLength(done)
    expect(seen[0]).toMatch(/^STORE_UNAVAILABLE/)
  })

  it('delivers twice and answers once', async () => {
    const { world, calls, seen, ask } = setUp({ duplicate: 1 })
    void ask()
    await world.runUntil(EPOCH + 200)
    expect(calls).toHaveLength(2)
    expect(seen).toHaveLength(1)
  })

  it('keeps the order, unless packets may overtake each other', async () => {
    for (const reorder of [false, true]) {
      const { world, calls, ask } = setUp({ jitterMs: 90, reorder })
      for (let count = 0; count < 20; count += 1) void ask()
      await world.runUntil(EPOCH + 300)
      const sent = calls.map(({ call }) => call)
      expect(calls.length).toBe(20)
      expect(new Set(sent).size).toBe(20)
    }
  })

  it('is cut in one direction or in both', async () => {
    const { world, link, calls, seen, ask } = setUp()
    link.cut.until = EPOCH + 50
    link.cut.way = 'from'
    void ask()
    await world.runUntil(EPOCH + 60)
    expect(calls).toHaveLength(1)
    expect(seen).toEqual([])
    void ask()
    await world.runUntil(EPOCH + 99)
    expect(seen).toEqual(['2 at 70'])
  })

  it('forgets what was on its way when the store restarts', async () => {
    const { world, far, calls, seen, ask } = setUp()
    void ask()
    world.after(2, () => {
      far.restarts += 1
    })
    await world.runUntil(EPOCH + 200)
    expect(calls).toHaveLength(0)
    expect(seen).toEqual(['STORE_UNAVAILABLE at 100'])
  })

  it('brings nothing to a process that has died, though its request arrives', async () => {
    const { world, node, calls, seen, ask } = setUp()
    void ask()
    world.after(1, () => node.crash())
    await world.runUntil(EPOCH + 200)
    expect(calls).toHaveLength(1)
    expect(seen).toEqual([])
  })

  it('does no harm any more once the world is healed', async () => {
    const { world, seen, ask } = setUp({ loseAnswer: 1, duplicate: 1, busy: 1 })
    world.healed = true
    void ask()
    await world.runUntil(EPOCH + 200)
    expect(seen).toEqual(['1 at 10'])
  })
})
