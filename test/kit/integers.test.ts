// Owns the promises of the ordered set of integers.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Integers } from '../../src/kit/integers.ts'

/** Members near each other, near the edges of nodes, and anywhere. */
const member = fc.oneof(
  fc.nat(70),
  fc.integer({ min: 1000, max: 1060 }),
  fc.integer({ min: 2 ** 20 - 40, max: 2 ** 20 + 40 }),
  fc.integer({ min: 2 ** 30 - 40, max: 2 ** 30 + 40 }),
  fc.integer({ min: 2 ** 40 - 40, max: 2 ** 40 - 1 }),
  fc.integer({ min: 0, max: 2 ** 40 - 1 }),
)
const step = fc.record({
  name: fc.constantFrom('add' as const, 'add' as const, 'delete' as const),
  n: member,
  from: member,
})

describe('a set of integers', () => {
  it('does what a sorted list does, whatever is asked of it', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
        const set = new Integers()
        const model = new Set<number>()
        for (const { name, n, from } of steps) {
          if (name === 'add') {
            expect(set.add(n)).toBe(!model.has(n))
            model.add(n)
          } else expect(set.delete(n)).toBe(model.delete(n))
          expect(set.size).toBe(model.size)
          expect(set.has(n)).toBe(model.has(n))
          expect(set.has(from)).toBe(model.has(from))
          const later = [...model].filter((each) => each >= from)
          expect(set.next(from)).toBe(later.length === 0 ? -1 : Math.min(...later))
        }
        expect(walk(set)).toEqual([...model].sort((a, b) => a - b))
      }),
    )
  })

  it('holds a million, dense, in order, and gives them all back', () => {
    const set = new Integers()
    for (let i = 0; i < 1_000_000; i += 1) set.add((i * 7919) % 1_000_003)
    expect(set.size).toBe(1_000_000)
    let last = -1
    for (let n = set.next(0); n >= 0; n = set.next(n + 1)) {
      if (n <= last) throw new Error(`${n} comes after ${last}`)
      last = n
      set.delete(n)
    }
    expect(set.size).toBe(0)
    expect(set.next(0)).toBe(-1)
  })

  it('refuses what is not an integer from 0 below 2^40', () => {
    const set = new Integers()
    for (const wrong of [-1, 0.5, Number.NaN, 2 ** 40, Number.POSITIVE_INFINITY]) {
      expect(() => set.add(wrong)).toThrow(RangeError)
      expect(set.has(wrong)).toBe(false)
      expect(set.delete(wrong)).toBe(false)
    }
    expect(set.add(2 ** 40 - 1)).toBe(true)
    expect(set.next(-5)).toBe(2 ** 40 - 1)
    expect(set.next(2 ** 40)).toBe(-1)
  })

  it('is as good as new after it was cleared', () => {
    const set = new Integers()
    for (let i = 0; i < 100_000; i += 1) set.add(i * 1000)
    set.clear()
    expect(set.size).toBe(0)
    expect(set.next(0)).toBe(-1)
    expect(set.add(5)).toBe(true)
    expect(walk(set)).toEqual([5])
  })
})

function walk(set: Integers): number[] {
  const all: number[] = []
  for (let n = set.next(0); n >= 0; n = set.next(n + 1)) all.push(n)
  return all
}
