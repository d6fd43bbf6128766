// Owns the promises of the heap.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Heap } from '../../src/kit/heap.ts'

interface Item {
  readonly id: number
  index: number
  key: number
  tie: number
}

function heap(): Heap<Item> {
  return new Heap<Item>((item, index) => {
    item.index = index
  })
}

/** What the heap must agree with: a plain array, sorted anew whenever it is asked. */
function sorted(model: readonly Item[]): Item[] {
  return [...model].sort((a, b) => a.key - b.key || a.tie - b.tie)
}

const key = fc.integer({ min: 0, max: 9 })
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ name: fc.constant('push' as const), key }) },
  { weight: 3, arbitrary: fc.record({ name: fc.constant('pop' as const), key }) },
  { weight: 2, arbitrary: fc.record({ name: fc.constant('remove' as const), key }) },
  { weight: 2, arbitrary: fc.record({ name: fc.constant('update' as const), key }) },
)

describe('a heap', () => {
  it('B14: is exactly the sort by key and tie, whatever is pushed, removed and changed', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300, size: 'max' }), fc.nat(), (steps, seed) => {
        const it = heap()
        const model: Item[] = []
        for (const [at, { name, key }] of steps.entries()) {
          const victim = model[(seed + at * 7) % Math.max(1, model.length)]
          if (name === 'push') {
            const item = { id: at, index: -1, key, tie: at }
            model.push(item)
            it.push(item, key, at)
          } else if (name === 'pop') {
            const first = sorted(model)[0]
            expect(it.pop()).toBe(first)
            if (first !== undefined) model.splice(model.indexOf(first), 1)
          } else if (victim !== undefined && name === 'remove') {
            it.remove(victim.index)
            expect(victim.index).toBe(-1)
            model.splice(model.indexOf(victim), 1)
          } else if (victim !== undefined) {
            Object.assign(victim, { key, tie: at })
            it.update(victim.index, key, at)
          }
          const first = sorted(model)[0]
          expect(it.size).toBe(model.length)
          expect(it.peek()).toBe(first)
          expect(it.peekKey()).toBe(first?.key ?? Number.POSITIVE_INFINITY)
          expect(it.peekTie()).toBe(first?.tie ?? Number.POSITIVE_INFINITY)
        }
        const order: (Item | undefined)[] = []
        while (it.size > 0) order.push(it.pop())
        expect(order).toEqual(sorted(model))
      }),
    )
  })

  it('counts what comes before a key, up to a limit', () => {
    const keys = fc.array(key, { maxLength: 200, size: 'max' })
    fc.assert(
      fc.property(keys, key, fc.nat(200), fc.nat(60), (all, key, tie, limit) => {
        const it = heap()
        const model = all.map((key, tie) => ({ id: tie, index: -1, key, tie }))
        for (const item of model) it.push(item, item.key, item.tie)
        const before = model.filter(
          (item) => item.key < key || (item.key === key && item.tie < tie),
        )
        expect(it.countBefore(key, tie, limit)).toBe(Math.min(before.length, limit))
      }),
    )
  })

  it('looks at no more than it has to when it counts', () => {
    const it = heap()
    for (let i = 0; i < 100_000; i += 1) it.push({ id: i, index: -1, key: i, tie: 0 }, i, 0)
    expect(it.countBefore(50_000, 0, 1000)).toBe(1000)
    expect(it.countBefore(7, 0, 1000)).toBe(7)
  })

  it('stays right as it grows to 20,000 and shrinks again, and after it was cleared', () => {
    const it = heap()
    const items = Array.from({ length: 20_000 }, (_, id) => {
      const key = (id * 7919) % 20_011
      return { id, index: -1, key, tie: id }
    })
    for (const item of items) it.push(item, item.key, item.tie)
    for (const item of items) if (item.id % 3 === 0) it.remove(item.index)
    const rest = sorted(items.filter((item) => item.id % 3 !== 0))
    for (const item of rest.slice(0, -10)) expect(it.pop()).toBe(item)
    it.clear()
    expect(it.size).toBe(0)
    expect(it.pop()).toBeUndefined()
    expect(items.every((item) => item.index === -1)).toBe(true)
    it.push(items[0] as Item, 1, 1)
    expect(it.pop()).toBe(items[0])
  })
})
