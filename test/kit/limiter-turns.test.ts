// Owns the promises of the limiter about time and number: long queues of quick tasks leave the
// event loop its turns, and slots and calls are conserved at every turn.

import { AsyncLocalStorage } from 'node:async_hooks'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter, type Limiter } from '../../src/kit/limiter.ts'
import { type Runtime, systemRuntime } from '../../src/kit/runtime.ts'
import { type Body, body, outcome, turn } from './helpers.ts'

/** Counts turns of the event loop until `stop` is called. */
function countTurns(): { stop: () => number } {
  let [turns, stopped] = [0, false]
  const tick = () => {
    turns += 1
    if (!stopped) setImmediate(tick)
  }
  setImmediate(tick)
  return {
    stop: () => {
      stopped = true
      return turns
    },
  }
}

/** Real turns, and a clock that says at every look that another five milliseconds have gone by. */
function hurried(): Runtime {
  let now = 0
  return {
    ...systemRuntime,
    monotonic: () => {
      now += 5
      return now
    },
  }
}

/** Longer than any row of hand-overs without a turn. */
const MANY = 5000

describe('200,000 calls that wait', () => {
  it('C70: are drained in order, and timers fire meanwhile', async () => {
    const limit = createLimiter(10, { runtime: hurried() })
    const started: number[] = []
    let timers = 0
    const timer = setInterval(() => {
      timers += 1
    }, 0)
    const turns = countTurns()
    const calls = Array.from({ length: 200_000 }, (_, at) => limit(async () => started.push(at)))
    await Promise.all(calls)
    clearInterval(timer)
    expect(turns.stop()).toBeGreaterThan(500)
    expect(timers).toBeGreaterThan(5)
    expect(started.every((at, index) => at === index)).toBe(true)
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 10 })
  })

  it('C70: are drained by priority, whatever order they came in', async () => {
    const limit = createLimiter(10, { runtime: hurried() })
    limit.pause()
    const started: number[] = []
    const turns = countTurns()
    const calls = Array.from({ length: 200_000 }, (_, at) => {
      const priority = 1 + ((at * 7919) % 100)
      return limit(async () => started.push(priority * 1_000_000 - at), { priority })
    })
    limit.resume()
    await Promise.all(calls)
    expect(turns.stop()).toBeGreaterThan(500)
    expect(
      started.every((rank, index) => index === 0 || rank < (started[index - 1] as number)),
    ).toBe(true)
  })

  it('C70: keep their place before newcomers, in the turns between as well', async () => {
    const limit = createLimiter(2, { runtime: hurried() })
    const order: string[] = []
    let newcomers = 0
    const calls = Array.from({ length: MANY }, () => limit(async () => order.push('queued')))
    const late: Promise<unknown>[] = []
    const arrive = () => {
      if (limit.stats().waiting === 0) return
      newcomers += 1
      late.push(limit(() => order.push('newcomer')))
      setImmediate(arrive)
    }
    setImmediate(arrive)
    await Promise.all(calls)
    await Promise.all(late)
    expect(newcomers).toBeGreaterThan(5)
    expect(order.lastIndexOf('queued')).toBeLessThan(order.indexOf('newcomer'))
  })
})

describe('between two turns of a long drain', () => {
  /** Starts a drain and runs `act` in the first turn that it leaves. */
  async function during(limit: Limiter, act: () => void): Promise<{ ran: () => number }> {
    let ran = 0
    for (let i = 0; i < MANY; i += 1) {
      limit(async () => {
        ran += 1
      }).catch(() => {})
    }
    await turn()
    expect([ran > 0, ran < MANY]).toEqual([true, true])
    act()
    return { ran: () => ran }
  }

  it('the cap can be raised and lowered', async () => {
    const limit = createLimiter(2, { runtime: hurried() })
    const { ran } = await during(limit, () => {
      limit.concurrency = 5
      limit.concurrency = 1
    })
    await limit.idle()
    expect([ran(), limit.stats()]).toEqual([MANY, { active: 0, waiting: 0, concurrency: 1 }])
  })

  it('the limiter can be paused and resumed', async () => {
    const limit = createLimiter(2, { runtime: hurried() })
    const { ran } = await during(limit, () => limit.pause())
    const before = ran()
    for (let i = 0; i < 3; i += 1) await turn()
    expect([ran(), limit.stats().active]).toEqual([before, 0])
    limit.resume()
    await limit.idle()
    expect(ran()).toBe(MANY)
  })

  it('the queue can be cleared', async () => {
    const limit = createLimiter(2, { runtime: hurried() })
    const { ran } = await during(limit, () => limit.clear())
    const before = ran()
    await limit.idle()
    expect([ran(), limit.stats()]).toEqual([before, { active: 0, waiting: 0, concurrency: 2 }])
  })

  it('B12: nobody sees the async context of somebody else', async () => {
    const limit = createLimiter(2, { runtime: hurried() })
    const storage = new AsyncLocalStorage<string>()
    const seen = new Set<string | undefined>()
    const before = Array.from({ length: MANY }, () =>
      limit(async () => seen.add(storage.getStore())),
    )
    // These were queued before anybody used async context; those who start them use it.
    const calls = storage.run('request', () => {
      limit.concurrency = 3
      return Array.from({ length: MANY }, () => limit(async () => storage.getStore()))
    })
    await Promise.all(before)
    expect([...seen]).toEqual([undefined])
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['request']))
  })
})

/** A random life, in which every number is known from outside at every turn. */
class Ledger {
  readonly #limit: Limiter
  readonly #running: Body<unknown>[] = []
  readonly #controllers: AbortController[] = []
  #cap: number
  #paused = false
  #called = 0
  #started = 0
  #dropped = 0
  #ended = 0

  constructor(cap: number, options: Parameters<typeof createLimiter>[1]) {
    this.#limit = createLimiter(cap, options)
    this.#cap = cap
  }

  do(kind: string, pick: number): void {
    const limit = this.#limit
    if (kind === 'call') this.#call(pick)
    else if (kind === 'end') this.#running.splice(pick % (this.#running.length || 1), 1)[0]?.end(1)
    else if (kind === 'fail')
      this.#running.splice(pick % (this.#running.length || 1), 1)[0]?.fail('planned')
    else if (kind === 'abort') this.#controllers[pick % (this.#controllers.length || 1)]?.abort('a')
    else if (kind === 'cap') limit.concurrency = this.#cap = 1 + (pick % 5)
    else if (kind === 'clear') limit.clear()
    else if (kind === 'pause') {
      this.#paused = true
      limit.pause()
    } else {
      this.#paused = false
      limit.resume()
    }
  }

  /** Slots in use and free make up the cap; calls are somewhere, each once. */
  check(): void {
    const { active, waiting, concurrency } = this.#limit.stats()
    expect(concurrency).toBe(this.#cap)
    expect(active).toBe(this.#started - this.#ended)
    expect(waiting).toBe(this.#called - this.#started - this.#dropped)
    // A slot is free only if nobody waits for it (or nobody may have it).
    if (waiting > 0 && !this.#paused) expect(active).toBeGreaterThanOrEqual(this.#cap)
  }

  async end(): Promise<void> {
    this.do('resume', 0)
    await turn()
    while (this.#running.length > 0) {
      this.do('end', 0)
      await turn()
      this.check()
    }
    await this.#limit.idle()
    expect(this.#limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: this.#cap })
    // All of the slots are there: they can be filled again.
    for (let i = 0; i < this.#cap; i += 1) this.#call(0)
    expect(this.#limit.stats()).toMatchObject({ active: this.#cap, waiting: 0 })
  }

  #call(pick: number): void {
    const controller = new AbortController()
    this.#controllers.push(controller)
    const work = body<unknown>()
    let started = false
    const task = () => {
      started = true
      this.#started += 1
      if (pick % 7 === 0) throw 'at once'
      if (pick % 7 === 1) return 'at once'
      this.#running.push(work)
      return work.run()
    }
    this.#called += 1
    const signal = pick % 2 === 0 ? { signal: controller.signal } : {}
    const call = this.#limit(task, { priority: 1 + (pick % 100), ...signal })
    outcome(call).then(() => {
      if (started) this.#ended += 1
      else this.#dropped += 1
    })
  }
}

describe('whatever is done to a limiter', () => {
  it('B16, B18, B21: slots and calls are conserved at every turn', async () => {
    const kinds = 'call call call call end end fail abort cap pause resume clear'.split(' ')
    const step = fc.record({ kind: fc.constantFrom(...kinds), pick: fc.nat(1000) })
    const world = fc.record({
      cap: fc.integer({ min: 1, max: 4 }),
      maxQueue: fc.constantFrom(0, 1, 5, Number.POSITIVE_INFINITY),
      overflow: fc.constantFrom('reject' as const, 'wait' as const),
      turns: fc.array(fc.array(step, { maxLength: 6 }), { maxLength: 25, size: 'max' }),
    })
    await fc.assert(
      fc.asyncProperty(world, async ({ cap, maxQueue, overflow, turns }) => {
        const ledger = new Ledger(cap, { maxQueue, overflow })
        for (const steps of turns) {
          for (const { kind, pick } of steps) ledger.do(kind, pick)
          await turn()
          ledger.check()
        }
        await ledger.end()
      }),
      { numRuns: 200 },
    )
  })
})
