// Owns the promises about what opens the breaker of a pool: what speaks against the downstream,
// and nothing that only speaks against the job.

import { describe, expect, it } from 'vitest'
import type { JobContext, TypePolicy } from '../../src/core/types.ts'
import { takes, type World, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const BREAKER = { default: { concurrency: 1, breaker: { failures: 2, resetMs: '10s' } } } as const

type Handler = (context: JobContext) => unknown

/** When a third job starts, after two that were run by this handler: 0 if nothing holds it back. */
async function delayAfter(make: (it: World) => Handler, policy: TypePolicy = {}): Promise<number> {
  const it = world()
  const scheduler = it.open({ pools: BREAKER })
  scheduler.define('t', policy, make(it))
  await scheduler.addJobs([{ type: 't' }, { type: 't' }])
  await it.runtime.advance(3_000)
  const before = it.runtime.monotonic()
  const third = await scheduler.addJob({ execute: () => it.runtime.monotonic() - before })
  return (await it.pass(third.result())) as number
}

const failing = (error: unknown) => () => () => {
  throw error
}

describe('the breaker of a pool is opened', () => {
  it('by errors that speak against the downstream', async () => {
    const codes = ['ECONNRESET', 'ETIMEDOUT', 'EAI_AGAIN']
    for (const code of codes) {
      expect(await delayAfter(failing(Object.assign(new Error('x'), { code })))).toBeGreaterThan(0)
    }
    expect(await delayAfter(failing(Object.assign(new Error('x'), { status: 503 })))).toBe(7_000)
  })

  it('by timeouts, and by bodies that have fallen silent', async () => {
    const hangs = ({ runtime }: World) => takes(runtime, 60_000)
    // The second of them ends after 2 s, and the third is submitted after 3 s.
    expect(await delayAfter(hangs, { timeout: '1s' })).toBe(9_000)
    expect(await delayAfter(hangs, { heartbeat: '1s' })).toBe(9_000)
  })

  it('not by errors that speak against the job', async () => {
    expect(await delayAfter(failing(new Error('No such user.')))).toBe(0)
    expect(await delayAfter(failing(new TypeError('undefined is not a function')))).toBe(0)
    expect(await delayAfter(failing(Object.assign(new Error('x'), { status: 404 })))).toBe(0)
    expect(await delayAfter(() => () => 1n)).toBe(0)
  })

  it('not by a success, of course', async () => {
    expect(await delayAfter(() => () => 'ok')).toBe(0)
  })
})
