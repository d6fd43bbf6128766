// Owns what a process says of a store that refuses, and that it ends without one that is silent.
// May never expect a word for each poll.

import { describe, expect, it } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import type { Runtime } from '../../src/kit/runtime.ts'
import type { Store } from '../../src/store/store.ts'
import {
  body,
  codeOf,
  type Faulty,
  faulty,
  processOn,
  takes,
  watchForLeaks,
  world,
} from './helpers.ts'

watchForLeaks()

/** A process with a link to its store that tells it nothing of its own accord. */
function remote(options: object = {}) {
  const base = world()
  const link: Faulty = faulty(base.store())
  const { store, runtime } = processOn(link.store, base.runtime, true)
  const scheduler = base.open({ store, runtime, name: 'w', leaseMs: '15s', ...options })
  return { ...base, link, store, scheduler }
}

/** A store of which some calls take so long, and are answered. */
function slowly(runtime: Runtime, store: Store, names: readonly (keyof Store)[], ms: number) {
  const slow = (call: (...given: never[]) => unknown) => {
    return async (...given: never[]) => {
      await new Promise<void>((resolve) => runtime.after(ms, resolve))
      return call.apply(store, given)
    }
  }
  return new Proxy(store, {
    get: (target, name) => {
      const found = Reflect.get(target, name)
      return names.includes(name as keyof Store) ? slow(found) : found
    },
  })
}

describe('a store that refuses', () => {
  it('is spoken of once, and once more when it answers again', async () => {
    const { link, runtime, scheduler, warnings } = remote()
    scheduler.define('t', { timeout: '1m' }, () => {})
    await scheduler.start()
    link.decide = () => 'refuse'
    await runtime.advance(120_000)
    expect(warnings()).toEqual([
      "The store refuses what 'w' asks of it, and is asked again: " +
        'The store does not answer. Is it running?',
    ])
    link.decide = () => 'ok'
    await runtime.advance(120_000)
    expect(warnings()).toHaveLength(2)
    expect(warnings()[1]).toMatch(/^The store answers 'w' again, after 1[12]\d{4} ms\.$/)
  })

  it('is spoken of where it refuses one kind of call for ever, and answers all others', async () => {
    const { link, runtime, scheduler, warnings } = remote()
    scheduler.define('t', { timeout: '1m' }, () => {})
    await scheduler.start()
    link.decide = (call) => (call === 'lease' ? 'refuse' : 'ok')
    await runtime.advance(60_000)
    expect(warnings()).toHaveLength(1)
  })

  it('is spoken of where ends cannot be written, by a process that polls nothing', async () => {
    const { open, pass, runtime, store, warnings } = world()
    const link = faulty(store())
    const scheduler = open({ store: link.store, name: 'w' })
    link.decide = (call) => (call === 'apply' ? 'refuse' : 'ok')
    const handle = await scheduler.addJob({ type: 't', timeout: '1h' }).catch(() => undefined)
    scheduler.define('t', () => 'done')
    await runtime.advance(10_000)
    expect(warnings()).toHaveLength(1)
    link.decide = () => 'ok'
    expect(await pass(handle?.result() ?? Promise.resolve())).toBe('done')
    expect(warnings()[1]).toContain("The store answers 'w' again")
  })

  it('is not spoken of for one call that was lost', async () => {
    const { link, runtime, scheduler, warnings } = remote()
    scheduler.define('t', { timeout: '1m' }, () => {})
    await scheduler.start()
    let left = 1
    link.decide = (call) => (call === 'lease' && left-- > 0 ? 'refuse' : 'ok')
    await runtime.advance(60_000)
    expect(left).toBeLessThan(0)
    expect(warnings()).toEqual([])
  })

  it('by a fault of its own is spoken of once as long as that is the same', async () => {
    const { link, runtime, scheduler, warnings } = remote()
    scheduler.define('t', { timeout: '1m' }, () => {})
    await scheduler.start()
    link.decide = (call) => {
      if (call === 'overdue') throw new Error('there are no terms 7')
      return 'ok'
    }
    await runtime.advance(60_000)
    expect(warnings()).toEqual(['housekeeping failed: Error: there are no terms 7'])
  })
})

describe('a store that was closed first', () => {
  it('ends the wait for results with its error, and is spoken of once', async () => {
    const { link, runtime, scheduler, warnings } = remote()
    scheduler.define('t', { timeout: '1m' }, takes(runtime, 600_000))
    const handle = await scheduler.addJob({ type: 't' })
    const result = handle.result().catch((error: unknown) => error)
    await runtime.advance(1_000)
    link.decide = () => {
      throw new AxError('CLOSED', 'The store on the moon is closed. Call open() to go on.')
    }
    await runtime.advance(60_000)
    expect(await result).toMatchObject({ code: 'CLOSED', message: expect.stringMatching('moon') })
    expect(await codeOf(handle.result())).toBe('CLOSED')
    expect(warnings()).toHaveLength(1)
    expect(warnings()[0]).toContain('The store on the moon is closed.')
  })
})

describe('close', () => {
  it('of a worker that holds nothing gives up a store that is away after 5 s', async () => {
    const { link, pass, runtime, scheduler, warnings } = remote()
    scheduler.define('t', { timeout: '1m' }, () => {})
    await scheduler.start()
    await runtime.advance(2_000)
    const begun = runtime.monotonic()
    link.decide = () => 'refuse'
    await pass(scheduler.close())
    expect(runtime.monotonic() - begun).toBeLessThanOrEqual(6_000)
    expect(warnings().at(-1)).toMatch(/answered 'w' nothing for 5 s, which closes without it/)
    await runtime.advance(2_000)
    expect(runtime.pending()).toBe(0)
  })

  it('gives up a store that never answers, and says how many jobs are left behind', async () => {
    const { link, pass, runtime, scheduler, store, warnings } = remote()
    const work = body()
    scheduler.define('t', { timeout: '1h' }, work.execute)
    await scheduler.addJobs([
      { id: 'a', type: 't' },
      { id: 'b', type: 't' },
    ])
    await runtime.advance(2_000)
    const calls = ['apply', 'extend', 'lease', 'beat']
    link.decide = (call) => (calls.includes(call) ? 'silent' : 'ok')
    const begun = runtime.monotonic()
    const closing = scheduler.close({ drainMs: '1h' })
    await runtime.advance(8_000)
    work.end(1, 0)
    work.end(2, 1)
    await pass(closing)
    const ms = runtime.monotonic() - begun
    expect([ms >= 13_000, ms <= 14_000]).toEqual([true, true])
    expect(warnings().at(-1)).toContain('2 jobs that it held are not given back')
    await store.close()
  })

  it('waits on as long as the store answers, however slowly', async () => {
    const { open, pass, runtime, store: storeOf, warnings } = world()
    const { store } = processOn(storeOf(), runtime, true)
    const scheduler = open({ store: slowly(runtime, store, ['apply'], 4_000), leaseMs: '10m' })
    scheduler.define('t', { timeout: '1h' }, () => {})
    await scheduler.addJobs(Array.from({ length: 10 }, (_, n) => ({ id: `${n}`, type: 't' })))
    await runtime.advance(100)
    await pass(scheduler.close())
    expect(warnings()).toEqual([])
  })

  it('waits on as long as what it writes in several calls is answered', async () => {
    const { open, pass, runtime, store: storeOf, warnings } = world()
    const shared = storeOf()
    const { store } = processOn(shared, runtime, true)
    const slow = slowly(runtime, store, ['apply'], 4_000)
    const scheduler = open({ store: slow, leaseMs: '10m', pools: { default: { concurrency: 50 } } })
    let release = () => {}
    const end = new Promise<void>((resolve) => {
      release = resolve
    })
    // Three calls, as one takes 16 MB.
    const large = 'x'.repeat(900_000)
    scheduler.define('t', { timeout: '1h' }, () => end.then(() => large))
    await scheduler.addJobs(Array.from({ length: 50 }, (_, n) => ({ id: `${n}`, type: 't' })))
    await runtime.advance(2_000)
    release()
    await pass(scheduler.close())
    expect(warnings()).toEqual([])
    const other = open({ store: shared, autoStart: false })
    expect((await other.snapshot()).states.success).toBe(50)
  })

  it('waits on as long as a store that is being opened answers', async () => {
    const { open, pass, runtime, store: storeOf, warnings } = world()
    const { store } = processOn(storeOf(), runtime, true)
    const calls = ['open', 'settings', 'configure', 'watch', 'beat', 'extend'] as const
    const scheduler = open({ store: slowly(runtime, store, calls, 3_000), concurrency: 2 })
    scheduler.define('t', { timeout: '1h' }, () => {})
    const starting = scheduler.start()
    const closing = scheduler.close()
    await pass(Promise.all([starting.catch(() => {}), closing]))
    expect(warnings()).toEqual([])
  })
})
