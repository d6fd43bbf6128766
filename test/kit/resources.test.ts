// Owns the promises about what a piece of work has open.

import { afterEach, describe, expect, it } from 'vitest'
import { Opened, Resources } from '../../src/kit/resources.ts'

const made: (() => void)[] = []
afterEach(() => {
  for (const undo of made.splice(0)) undo()
})

function watching(): Resources {
  const resources = new Resources()
  made.push(() => resources.close())
  return resources
}

function timer(): NodeJS.Timeout {
  const it = setTimeout(() => {}, 1e9)
  made.push(() => clearTimeout(it))
  return it
}

/** Ends of resources are told of in a later turn. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('what a piece of work has open', () => {
  it('is counted kind by kind, as long as it is open, across everything that is awaited', async () => {
    const resources = watching()
    const work = new Opened()
    const timers = await resources.watch(work, async () => {
      const first = timer()
      await null
      await turn()
      return [first, timer()]
    })
    await turn()
    expect(work.list()).toEqual(['Timeout x2'])
    clearTimeout(timers[0])
    await turn()
    expect(work.list()).toEqual(['Timeout x1'])
  })

  it('is nothing that other work, or nobody, has opened', () => {
    const resources = watching()
    const [one, two] = [new Opened(), new Opened()]
    timer()
    resources.watch(one, timer)
    expect([one.list(), two.list()]).toEqual([['Timeout x1'], []])
  })

  it('names neither promises nor ticks: they are how code waits, not what for', async () => {
    const resources = watching()
    const work = new Opened()
    await resources.watch(work, async () => {
      for (let n = 0; n < 10; n += 1) await Promise.resolve()
      process.nextTick(() => {})
      queueMicrotask(() => {})
    })
    expect(work.list()).toEqual([])
  })

  it('is forgotten with the work, and nothing is added after that', () => {
    const resources = watching()
    const work = new Opened()
    resources.watch(work, () => {
      timer()
      resources.forget(work)
      timer()
    })
    expect(work.list()).toEqual([])
  })

  it('is not followed any more once that is closed', () => {
    const resources = watching()
    const work = new Opened()
    resources.close()
    resources.watch(work, timer)
    expect(work.list()).toEqual([])
  })

  it('is bounded: a thousand resources, and ten kinds, the most frequent first', () => {
    const work = new Opened()
    for (let n = 0; n < 2_000; n += 1) work.opened(n, n < 10 ? 'Rare' : 'Many')
    expect(work.list()).toEqual(['Many x990', 'Rare x10'])
    const kinds = new Opened()
    for (let n = 0; n < 30; n += 1) kinds.opened(n, `Kind${String(n).padStart(2, '0')}`)
    expect(kinds.list()).toHaveLength(10)
    expect(kinds.list()[0]).toBe('Kind00 x1')
  })
})
