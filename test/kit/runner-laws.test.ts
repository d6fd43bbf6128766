// Owns the conservation laws of the runner, at every turn of random histories.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createRunner, type Runner, type RunnerContext } from '../../src/kit/runner.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'
import { transient } from './runner-helpers.ts'

interface Step {
  readonly kind: string
  readonly pick: number
  readonly ms: number
}

interface Shape {
  readonly concurrency: number
  readonly maxQueue: number
  readonly overflow: 'reject' | 'wait'
  readonly timeoutMs: number
  readonly retries: number
  readonly idempotent: boolean
  readonly confirms: boolean
  readonly inSlot: boolean
  readonly sessions: boolean
  readonly maxZombies: number
  readonly breaker: boolean
  readonly remember: boolean
  /** The retries have a signal, which may be aborted. */
  readonly ends: boolean
  /** Whoever is told of an attempt calls others off, in the middle of whatever ends there. */
  readonly meddles: boolean
}

const KINDS = ['call', 'call', 'call', 'call', 'end', 'end', 'fail', 'bug', 'abort', 'time']

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom(...KINDS, 'time', 'limit', 'batch'),
  pick: fc.nat(1_000),
  ms: fc.nat(120),
})

const shape: fc.Arbitrary<Shape> = fc.record({
  concurrency: fc.integer({ min: 1, max: 3 }),
  maxQueue: fc.constantFrom(0, 1, 5, Number.POSITIVE_INFINITY),
  overflow: fc.constantFrom('reject', 'wait'),
  timeoutMs: fc.constantFrom(0, 50),
  retries: fc.constantFrom(0, 2),
  idempotent: fc.boolean(),
  confirms: fc.boolean(),
  inSlot: fc.boolean(),
  sessions: fc.boolean(),
  maxZombies: fc.constantFrom(0, 1, 3),
  breaker: fc.boolean(),
  remember: fc.boolean(),
  ends: fc.boolean(),
  meddles: fc.boolean(),
})

interface Body {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** Plays a history, and holds the runner's figures against what it has seen itself. */
class World {
  readonly runtime: VirtualRuntime = virtualRuntime(1)
  readonly runner: Runner
  readonly #bodies = new Set<Body>()
  readonly #running = new Map<string, number>()
  readonly #controllers: AbortController[] = []
  readonly #shape: Shape
  /** The highest cap there was: lowering it ends nothing. */
  #most: number
  #calls = 0
  /** Records of calls that another one answered. */
  #shared = 0
  #pending = 0
  #settled = 0
  readonly #told = { fulfilled: 0, rejected: 0 }

  constructor(shape: Shape) {
    this.#shape = shape
    this.#most = shape.concurrency
    const { retries, inSlot, sessions, confirms, breaker, remember, ends, meddles, ...rest } = shape
    const controller = new AbortController()
    if (ends) this.#controllers.push(controller)
    this.runner = createRunner({
      ...rest,
      graceMs: 40,
      enqueueTimeout: 300,
      runtime: this.runtime,
      retry: {
        retries,
        inSlot,
        baseDelay: 30,
        ...(sessions ? { inSlotConcurrency: 1 } : {}),
        ...(ends ? { signal: controller.signal } : {}),
      },
      confirm: confirms ? () => this.#body('confirm') : undefined,
      breaker: breaker ? { failures: 3, resetMs: 100 } : undefined,
      remember: remember ? { ms: 200, max: 3 } : undefined,
      onAttempt: ({ attempt }) => {
        if (attempt === 0) this.#shared += 1
        this.check()
        if (!meddles) return
        this.#controllers[this.#settled % Math.max(1, this.#controllers.length)]?.abort('told')
        this.check()
      },
    })
  }

  async play(steps: readonly Step[]): Promise<void> {
    await this.begin(steps)
    await this.#finish()
  }

  async begin(steps: readonly Step[]): Promise<void> {
    for (const each of steps) {
      await this.#do(each)
      this.check()
      expect(this.runner.stats().deduplicated).toBe(this.#shared)
    }
  }

  check(): void {
    const stats = this.runner.stats()
    const { succeeded, failed, cancelled, deduplicated, active, stopping, waiting } = stats
    const ended = succeeded + failed + cancelled + deduplicated
    expect(stats.calls).toBe(waiting + active - stopping + ended)
    for (const count of Object.values(stats)) {
      if (typeof count === 'number') expect(count).toBeGreaterThanOrEqual(0)
    }
    expect(stats.zombies).toBeLessThanOrEqual(this.#shape.maxZombies)
    expect(stats.zombies).toBe(this.runner.zombies().length)
    // Bodies of the runner that live have a slot or are zombies.
    expect(this.#bodies.size).toBeLessThanOrEqual(active + stats.zombies)
    expect(active).toBeLessThanOrEqual(this.#most)
    expect(stats.effectiveSuccessRate).toBeLessThanOrEqual(1)
  }

  async #do({ kind, pick, ms }: Step): Promise<void> {
    if (kind === 'call') this.#call(pick)
    else if (kind === 'batch') this.#batch(pick)
    else if (kind === 'time') await this.runtime.advance(ms)
    else if (kind === 'limit') {
      const limit = 1 + (pick % 3)
      this.#most = Math.max(this.#most, limit)
      this.runner.concurrency = limit
    } else if (kind === 'abort') {
      this.#controllers[pick % Math.max(1, this.#controllers.length)]?.abort('off')
    } else this.#end(kind, pick)
    if (pick % 3 === 0) await this.runtime.drain()
  }

  #call(pick: number): void {
    const key = `k${pick % 5}`
    const controller = new AbortController()
    const { signal } = controller
    if (pick % 2 === 0) this.#controllers.push(controller)
    const options = pick % 2 === 0 ? { signal, priority: 1 + (pick % 100) } : undefined
    this.#watch(this.runner(key, (context) => this.#task(key, context), options))
  }

  #batch(pick: number): void {
    const items = Array.from({ length: pick % 4 }, (_, i) => i)
    const stopWhen = { consecutiveFailures: 2 }
    const batch = this.runner.batch(
      items,
      (_, { key, ...rest }) => this.#task(key, rest as never),
      {
        stopWhen,
      },
    )
    this.#pending += 1
    batch.then(({ fulfilled, rejected, skipped }) => {
      this.#pending -= 1
      expect(fulfilled.length + rejected.length + skipped.length).toBe(items.length)
    })
  }

  #watch(call: Promise<unknown>): void {
    this.#calls += 1
    this.#pending += 1
    const settle = (how: 'fulfilled' | 'rejected') => () => {
      this.#pending -= 1
      this.#settled += 1
      this.#told[how] += 1
    }
    call.then(settle('fulfilled'), settle('rejected'))
  }

  #task(key: string, _context: RunnerContext): Promise<unknown> {
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1)
    const free = this.runner.zombies().filter((zombie) => zombie.key === key).length
    const stuck = this.#shape.maxZombies < 3 ? 99 : 0
    // One body of a key at a time, beside those whose grace is over.
    expect(this.#running.get(key)).toBeLessThanOrEqual(1 + free + stuck)
    return this.#body(key)
  }

  #body(key: string): Promise<never> {
    return new Promise<unknown>((resolve, reject) => {
      const over = (): void => {
        this.#bodies.delete(body)
        if (key !== 'confirm') this.#running.set(key, (this.#running.get(key) ?? 0) - 1)
      }
      const body: Body = {
        resolve: (value) => {
          over()
          resolve(key === 'confirm' ? { done: value === 1, result: value } : value)
        },
        reject: (error) => {
          over()
          reject(error)
        },
      }
      this.#bodies.add(body)
    }) as Promise<never>
  }

  #end(kind: string, pick: number): void {
    const body = [...this.#bodies][pick % Math.max(1, this.#bodies.size)]
    if (kind === 'end') body?.resolve(pick % 2)
    else body?.reject(kind === 'fail' ? transient() : new TypeError('bug'))
  }

  /** Ends every body until there is none; then everybody has been told, and all is empty. */
  async #finish(): Promise<void> {
    for (let round = 0; round < 500 && this.#pending > 0; round += 1) {
      for (const body of [...this.#bodies]) body.resolve(1)
      await this.runtime.advance(40)
      this.check()
    }
    for (const body of [...this.#bodies]) body.resolve(1)
    await this.runtime.advance(400)
    expect(this.#settled).toBe(this.#calls)
    const { active, waiting, stopping, zombies } = this.runner.stats()
    expect([this.#pending, active, waiting, stopping, zombies]).toEqual([0, 0, 0, 0, 0])
    let idle = false
    this.runner.idle().then(() => {
      idle = true
    })
    await this.runtime.advance(1)
    expect([idle, this.runtime.pending()]).toEqual([true, 0])
  }
}

describe('the laws of a runner', () => {
  it('B18, B21: nothing is lost or counted twice, whatever is done to it', async () => {
    await fc.assert(
      fc.asyncProperty(shape, fc.array(step, { maxLength: 70, size: 'max' }), async (s, steps) => {
        await new World(s).play(steps)
      }),
      { numRuns: 150 },
    )
  })

  it('hold when it is closed in the middle of anything', async () => {
    await fc.assert(
      fc.asyncProperty(shape, fc.array(step, { maxLength: 40, size: 'max' }), async (s, steps) => {
        const world = new World(s)
        await world.begin(steps)
        const closing = world.runner.close()
        world.check()
        await world.runtime.advance(1_000)
        if (world.runner.stats().active === 0) await closing
        await world.play([])
      }),
      { numRuns: 80 },
    )
  })
})
