// Owns the promises of the ring queue.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Fifo } from '../../src/kit/fifo.ts'

describe('a fifo', () => {
  it('gives values back in the order in which they came', () => {
    const fifo = new Fifo<number>()
    for (let i = 0; i < 1000; i += 1) fifo.push(i)
    expect(fifo.size).toBe(1000)
    expect(fifo.peek()).toBe(0)
    expect([...fifo]).toEqual(Array.from({ length: 1000 }, (_, i) => i))
    for (let i = 0; i < 1000; i += 1) expect(fifo.shift()).toBe(i)
    expect(fifo.shift()).toBeUndefined()
    expect(fifo.peek()).toBeUndefined()
  })

  it('does what an array does, whatever is asked of it', () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.constant('push') },
      { weight: 5, arbitrary: fc.constant('shift') },
      { weight: 1, arbitrary: fc.constant('clear') },
    )
    const steps = fc.array(step, { maxLength: 400, size: 'max' })
    fc.assert(
      fc.property(steps, (names) => {
        const fifo = new Fifo<number>()
        const model: number[] = []
        for (const [at, name] of names.entries()) {
          if (name === 'push') fifo.push(model[model.push(at) - 1] as number)
          else if (name === 'shift') expect(fifo.shift()).toBe(model.shift())
          else {
            fifo.clear()
            model.length = 0
          }
          expect(fifo.size).toBe(model.length)
          expect(fifo.peek()).toBe(model[0])
        }
        expect([...fifo]).toEqual(model)
      }),
    )
  })
})
