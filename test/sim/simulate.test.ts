// Owns the long run: a fixed range of seeds, the seeds that once found a fault, the coverage.
// May never be made to pass by leaving seeds out.

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { simulate } from '../../src/testing/simulate.ts'
import { buildSimulator, node } from './helpers.ts'

const SEEDS = 1_000

/** On two busy cores; a quiet machine needs a third of it. */
const MINUTES = 60_000

interface Regression {
  readonly seed: number
  readonly found: string
}

const regressions: readonly Regression[] = JSON.parse(
  readFileSync(new URL('./regressions.json', import.meta.url), 'utf8'),
)

describe('the simulator', () => {
  let simulator: Awaited<ReturnType<typeof buildSimulator>>

  beforeAll(async () => {
    simulator = await buildSimulator()
  }, MINUTES)

  afterAll(() => simulator.clean())

  it(
    `finds no broken invariant in ${SEEDS} seeds, and leaves no hole in its coverage`,
    async () => {
      const args = ['--seeds', String(SEEDS), '--coverage']
      const { code, output } = await node([simulator.cli, ...args])
      expect(output).toContain(`${SEEDS} seeds: `)
      expect(output).toContain('No holes.')
      expect(output).toContain('No invariant failed.')
      expect(code).toBe(0)
    },
    15 * MINUTES,
  )

  it(
    'is content with every seed that once found a fault',
    async () => {
      const seeds = regressions.map(({ seed }) => seed)
      expect(new Set(seeds).size).toBe(seeds.length)
      expect(regressions.every(({ found }) => found.endsWith('.'))).toBe(true)
      const { code, output } = await node([simulator.cli, '--list', seeds.join(',')])
      expect(output).toContain('No invariant failed.')
      expect(code).toBe(0)
    },
    5 * MINUTES,
  )
})

describe('a seed', () => {
  it.each([11, 27, 58])(
    'fixes everything: %i leaves the same trace twice',
    async (seed) => {
      const first = await simulate({ seed, trace: true })
      const second = await simulate({ seed })
      expect(first.violation).toBeUndefined()
      expect(first.trace.length).toBeGreaterThan(100)
      expect(second.hash).toBe(first.hash)
      expect(second.events).toBe(first.events)
    },
    MINUTES,
  )

  it(
    'differs from other seeds',
    async () => {
      const outcomes = [await simulate({ seed: 1 }), await simulate({ seed: 2 })]
      expect(outcomes[0]?.hash).not.toBe(outcomes[1]?.hash)
    },
    MINUTES,
  )

  it(
    'has at least 300 operations',
    async () => {
      const { operations, violation } = await simulate({ seed: 2 })
      expect(violation).toBeUndefined()
      expect(operations).toBeGreaterThanOrEqual(300)
    },
    MINUTES,
  )
})
