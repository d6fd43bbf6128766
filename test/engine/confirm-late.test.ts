// Owns the promise about an answer of confirm that comes when the lease may be another's.

import { describe, expect, it } from 'vitest'
import type { Confirmed, JobContext } from '../../src/core/types.ts'
import { processOn, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

describe('an answer that comes after a stall', () => {
  it('starts no body under a lease that may be over: the next attempt asks again', async () => {
    const { open, store, runtime, pass } = world()
    const node = processOn(store(), runtime, true)
    const scheduler = open({ store: node.store, runtime: node.runtime, leaseMs: '3s' })
    const answers: ((answer: Confirmed) => void)[] = []
    const confirm = () => new Promise<Confirmed>((resolve) => answers.push(resolve))
    const starts: number[] = []
    const handler = (context: JobContext) => {
      starts.push(context.attempt)
      return starts.length === 1 ? takes(node.runtime, 60_000)(context) : 'from the body'
    }
    const backoff = { type: 'fixed', delay: '1s', jitter: false } as const
    scheduler.define('pay', { confirm, retries: 1, backoff, timeout: '30s' }, handler)
    const handle = await scheduler.addJob({ id: 'j', type: 'pay' })
    await runtime.advance(34_000)
    expect(starts).toEqual([1])
    expect(answers).toHaveLength(1)
    node.stall()
    await runtime.advance(10_000)
    answers[0]?.({ done: false })
    await runtime.advance(0)
    expect(starts).toEqual([1])
    node.wake()
    await runtime.advance(2_000)
    expect(answers).toHaveLength(2)
    answers[1]?.({ done: false })
    expect(await pass(handle.result())).toBe('from the body')
    expect(starts).toEqual([1, 3])
    expect(await handle.job()).toMatchObject({ attempts: 2, lost: 0 })
  })
})
