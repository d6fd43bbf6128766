// Owns the promises of virtual time.

import { describe, expect, it } from 'vitest'
import { virtualRuntime } from '../../src/testing/virtual.ts'

describe('virtual time', () => {
  it('runs timers by time, then in the order in which they were set', async () => {
    const rt = virtualRuntime(1)
    const log: string[] = []
    const note = (name: string) => () => log.push(`${name} at ${rt.monotonic()}`)
    rt.after(20, note('c'))
    rt.after(10, note('a'))
    rt.after(10, note('b'))
    rt.after(30, note('d'))
    await rt.advance(20)
    expect(log).toEqual(['a at 10', 'b at 10', 'c at 20'])
    expect([rt.monotonic(), rt.pending()]).toEqual([20, 1])
  })

  it('lets promises settle after each event, and runs `soon` after the timers of a turn', async () => {
    const rt = virtualRuntime(1)
    const log: string[] = []
    rt.after(5, async () => {
      rt.soon(() => log.push('soon'))
      rt.after(0, () => log.push('zero'))
      await null
      await null
      log.push('promise of the first')
    })
    rt.after(5, () => log.push('second'))
    await rt.advance(5)
    expect(log).toEqual(['promise of the first', 'second', 'soon', 'zero'])
  })

  it('passes until nothing is left that would keep a process alive', async () => {
    const rt = virtualRuntime(1)
    let beats = 0
    const beat = () => {
      beats += 1
      rt.after(10, beat, { ref: false })
    }
    beat()
    rt.after(100, () => {})
    await rt.run()
    expect(rt.monotonic()).toBe(100)
    expect(beats).toBe(11)
  })

  it('passes until a condition holds, or for as long as it may', async () => {
    const rt = virtualRuntime(1)
    let beats = 0
    const beat = () => {
      beats += 1
      rt.after(10, beat)
    }
    beat()
    await rt.run(() => beats === 4)
    expect(rt.monotonic()).toBe(30)
    await rt.run(undefined, 1000)
    expect(rt.monotonic()).toBe(1030)
  })

  it('draws the same numbers from the same seed, and others from another', () => {
    const draw = (seed: number) => {
      const rt = virtualRuntime(seed)
      return Array.from({ length: 1000 }, () => rt.random())
    }
    const numbers = draw(7)
    expect(draw(7)).toEqual(numbers)
    expect(draw(8)).not.toEqual(numbers)
    expect(numbers.every((n) => n >= 0 && n < 1)).toBe(true)
    const mean = numbers.reduce((sum, n) => sum + n, 0) / numbers.length
    expect(Math.abs(mean - 0.5)).toBeLessThan(0.05)
  })

  it('B07: has a wall clock that jumps, and another that does not', async () => {
    const rt = virtualRuntime(1)
    const start = rt.now()
    let fired = -1
    rt.after(1000, () => {
      fired = rt.monotonic()
    })
    rt.jump(-3_600_000)
    expect(rt.now()).toBe(start - 3_600_000)
    await rt.advance(1000)
    expect(fired).toBe(1000)
    expect(rt.now()).toBe(start - 3_599_000)
  })

  it('forgets cancelled timers, and never fires after Infinity', async () => {
    const rt = virtualRuntime(1)
    const log: string[] = []
    const timer = rt.after(10, () => log.push('cancelled'))
    rt.after(5, () => timer.cancel())
    const same = rt.after(7, () => other.cancel())
    const other = rt.after(7, () => log.push('cancelled in its own turn'))
    rt.after(Number.POSITIVE_INFINITY, () => log.push('never'))
    await rt.run()
    same.cancel()
    expect([log, rt.pending(), rt.monotonic()]).toEqual([[], 0, 7])
  })

  it('passes on what a callback throws, and refuses to be driven twice at once', async () => {
    const rt = virtualRuntime(1)
    rt.after(1, () => {
      throw new Error('from a timer')
    })
    const first = rt.advance(1)
    await expect(rt.advance(1)).rejects.toThrow('passing already')
    await expect(first).rejects.toThrow('from a timer')
    await rt.advance(1)
  })
})
