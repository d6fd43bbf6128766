// Owns the promises about types: what goes in comes out, and a slip does not compile. The checks
// are the compiler's: `tsc` reads this file.

import { describe, expect, expectTypeOf, it } from 'vitest'
import type { JobHandle, TypeHandle } from '../../src/index.ts'
import { createLimiter } from '../../src/kit/limiter.ts'
import { withTimeout } from '../../src/kit/timeout.ts'
import { watchForLeaks, world } from './helpers.ts'

watchForLeaks()

describe('types', () => {
  it('C74: of the toolkit are the types of the task, sync or not, with a time limit or without', async () => {
    const limit = createLimiter(1)
    const plain = limit(() => 1)
    const promised = limit(async () => 'x')
    const limited = withTimeout(() => 1, 1_000)
    const both = limit(() => withTimeout(async () => [1, 'x'] as [number, string], 1_000))
    expectTypeOf(plain).toEqualTypeOf<Promise<number>>()
    expectTypeOf(promised).toEqualTypeOf<Promise<string>>()
    expectTypeOf(limited).toEqualTypeOf<Promise<number>>()
    expectTypeOf(both).toEqualTypeOf<Promise<[number, string]>>()
    // @ts-expect-error A number is no text.
    const wrong: Promise<string> = plain
    expect(await Promise.all([plain, promised, limited, both, wrong])).toEqual([
      1,
      'x',
      1,
      [1, 'x'],
      1,
    ])
  })

  it('C74: of handles are those of the body, and of a type those of its handler', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({
      payload: { n: 1 },
      execute: async ({ payload }) => {
        expectTypeOf(payload).toEqualTypeOf<{ n: number }>()
        return `${payload.n}`
      },
    })
    expectTypeOf(handle).toEqualTypeOf<JobHandle<string>>()
    expect(await pass(handle.result())).toBe('1')
    const double = scheduler.define<number, number>('double', ({ payload }) => payload * 2)
    expectTypeOf(double).toEqualTypeOf<TypeHandle<number, number>>()
    const doubled = await double.submit(21)
    expectTypeOf(doubled.result()).toEqualTypeOf<Promise<number>>()
    expect(await pass(doubled.result())).toBe(42)
  })

  it('C74: know every option, and no other', () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    // @ts-expect-error It is called `concurrency`.
    expect(() => open({ concurency: 1 })).toThrowError(/concurrency/)
    // @ts-expect-error There is no such event.
    expect(() => scheduler.on('job:done', () => {})).toThrowError(/job:/)
    scheduler.on('job:success', (event) => {
      expectTypeOf(event.job).toEqualTypeOf<string>()
    })
  })
})
