// Owns the check that the simulator bites. May never count a fault as found that was not.

import { describe, expect, it } from 'vitest'
import { MUTATIONS, tryMutations } from '../../scripts/mutations.mjs'

const MINUTES = 60_000

describe('the simulator', () => {
  it(
    'finds every planted fault',
    async () => {
      const verdicts = await tryMutations(MUTATIONS)
      const survivors = verdicts.filter(({ found }) => found === undefined)
      expect(survivors.map(({ mutation }) => mutation.name)).toEqual([])
      expect(verdicts).toHaveLength(MUTATIONS.length)
    },
    20 * MINUTES,
  )

  it('is given many faults, each with a name of its own', () => {
    expect(MUTATIONS.length).toBeGreaterThanOrEqual(40)
    expect(new Set(MUTATIONS.map(({ name }) => name)).size).toBe(MUTATIONS.length)
  })

  it('refuses a fault that fits nowhere', async () => {
    const nowhere = { name: 'x', file: 'core/rank.ts', find: 'no such line', replace: '' }
    await expect(tryMutations([nowhere])).rejects.toThrow('no longer fits')
  })
})
