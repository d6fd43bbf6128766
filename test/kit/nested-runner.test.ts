// Owns the promises about calls inside the bodies of runners: a wait that could never end is ended.

import { describe, expect, it } from 'vitest'
import { createLimiter } from '../../src/kit/limiter.ts'
import { createRunner, type Runner, type RunnerOptions } from '../../src/kit/runner.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'
import { body, outcome, turn } from './helpers.ts'
import { sleep } from './runner-helpers.ts'

const DAY = 86_400_000

function world(options: Partial<RunnerOptions> = {}) {
  const runtime = virtualRuntime(1)
  const make = (more: Partial<RunnerOptions> = {}) =>
    createRunner({ concurrency: 1, enqueueTimeout: 0, ...options, ...more, runtime })
  return { runtime, make, runner: make() }
}

/** What a promise comes to, or 'waits' if it does not come to anything in a day. */
async function within(runtime: VirtualRuntime, promise: Promise<unknown>): Promise<unknown> {
  let end: unknown = 'waits'
  outcome(promise).then((value) => {
    end = value
  })
  await runtime.advance(DAY)
  return end
}

/** The result of a call; a refusal as its code. */
const run = (runner: Runner, key: string, task: () => unknown, options = {}) =>
  outcome(runner(key, task, options).then(({ result }) => result))

/** A body that waits for a call. */
const nest = (outer: Runner, key: string, inner: Runner, other: string) =>
  run(outer, key, async () => {
    await turn()
    const { result } = await inner(other, () => 'inner')
    return result
  })

/** `calls = waiting + active - stopping + ended ones`: the promise of the statistics. */
function balance(runner: Runner): number {
  const { calls, waiting, active, stopping, ...ended } = runner.stats()
  const { succeeded, failed, cancelled, deduplicated } = ended
  return calls - (waiting + active - stopping + succeeded + failed + cancelled + deduplicated)
}

describe('a body that waits for another key of its own runner', () => {
  it('B28: has that call refused when every slot is held by such a body', async () => {
    const { runtime, runner } = world()
    expect(await within(runtime, nest(runner, 'outer', runner, 'inner'))).toBe('NESTED_LIMIT')
    const again = runner('o', () => runner('i', () => 1)).catch((refusal) => refusal)
    const error = await within(runtime, again)
    expect(error).toMatchObject({ code: 'NESTED_LIMIT', key: 'i' })
    expect([balance(runner), runner.stats().codes]).toEqual([0, { NESTED_LIMIT: 4 }])
  })

  it('B28: is one of several, of which one gives way', async () => {
    const { runtime, runner } = world({ concurrency: 2 })
    const calls = [nest(runner, 'a', runner, 'inner a'), nest(runner, 'b', runner, 'inner b')]
    const ends = (await within(runtime, Promise.all(calls))) as string[]
    expect(ends.sort()).toEqual(['NESTED_LIMIT', 'inner'])
    expect(balance(runner)).toBe(0)
  })

  it('is left alone while a slot can come free', async () => {
    const { runtime, runner } = world({ concurrency: 2 })
    const other = run(runner, 'other', () => sleep(runtime, DAY / 2))
    const outer = nest(runner, 'outer', runner, 'inner')
    expect(await within(runtime, outer)).toBe('inner')
    await other
  })

  it('is left alone where the call gives up, or its own time is limited', async () => {
    for (const [options, given, end] of [
      [{ enqueueTimeout: 60_000 }, {}, 'ENQUEUE_TIMEOUT'],
      [{}, { timeoutMs: 60_000 }, 'EXECUTION_TIMEOUT'],
    ] as const) {
      const { runtime, runner } = world(options)
      const task = () => runner('inner', () => 'inner')
      expect(await within(runtime, run(runner, 'outer', task, given))).toBe(end)
      expect(runner.stats().codes).not.toHaveProperty('NESTED_LIMIT')
    }
  })

  it('is left alone where a signal can end the wait', async () => {
    const { runtime, runner } = world()
    const controller = new AbortController()
    const { signal } = controller
    const outer = run(runner, 'outer', () => runner('inner', () => 1, { signal }))
    expect(await within(runtime, outer)).toBe('waits')
    controller.abort('enough')
    expect(await outer).toBe('enough')
  })

  it('is left alone while it does not wait', async () => {
    const { runtime, runner } = world()
    const ran: string[] = []
    const outer = run(runner, 'outer', async () => {
      runner('inner', () => ran.push('inner'))
      await sleep(runtime, DAY / 2)
      ran.push('outer')
    })
    await within(runtime, outer)
    expect(ran).toEqual(['outer', 'inner'])
  })

  it('B28: leaves a call of somebody outside, which it has joined, alone', async () => {
    const { runtime, runner } = world()
    const gate = body<void>()
    const outer = run(runner, 'outer', async () => {
      await gate.run()
      return await runner('inner', () => 'never asked').catch(({ code }) => `after ${code}`)
    })
    const outside = run(runner, 'inner', () => 'outside')
    gate.end()
    expect(await within(runtime, Promise.all([outer, outside]))).toEqual([
      'after NESTED_LIMIT',
      'outside',
    ])
    expect(balance(runner)).toBe(0)
  })

  it('B28: has made the call that somebody outside has joined: only its own wait ends', async () => {
    const { runtime, runner } = world()
    const outer = run(runner, 'outer', async () => {
      await turn()
      return await runner('inner', () => 'inner').catch(({ code }) => `after ${code}`)
    })
    await turn()
    await turn()
    const outside = run(runner, 'inner', () => 'never asked')
    expect(await within(runtime, Promise.all([outer, outside]))).toEqual([
      'after NESTED_LIMIT',
      'inner',
    ])
    expect(balance(runner)).toBe(0)
  })
})

describe('several runners and limiters', () => {
  it('B28: in a ring are seen through', async () => {
    const { runtime, make } = world()
    const [a, b] = [make(), make()]
    const limit = createLimiter(1, { runtime })
    const limited = outcome(
      limit(async () => {
        await turn()
        const { result } = await a('from the limiter', () => 'inner')
        return result
      }),
    )
    const last = run(b, 'b', async () => {
      await turn()
      return await limit(() => 'inner')
    })
    const ends = (await within(
      runtime,
      Promise.all([nest(a, 'a', b, 'from a'), last, limited]),
    )) as string[]
    expect(ends.sort()).toEqual(['NESTED_LIMIT', 'inner', 'inner'])
  })

  it('B28: nested through one another come back to the first', async () => {
    const { runtime, make } = world()
    const [a, b] = [make(), make({ concurrency: 5, enqueueTimeout: 10_000 })]
    const outer = run(a, 'outer', () => b('middle', () => a('inner', () => 'inner')))
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
  })
})

describe('keys that wait for each other', () => {
  const cross = (runner: Runner, keys: readonly string[], options: () => object = () => ({})) =>
    keys.map((key, at) => {
      const next = keys[(at + 1) % keys.length] as string
      const task = async () => {
        await turn()
        const { result } = await runner(next, () => 'never asked', options())
        return result
      }
      return run(runner, key, task, options())
    })

  it('B28: are found, whatever the limit of the wait for a slot, and under signals', async () => {
    for (const enqueueTimeout of [0, 10_000]) {
      const { runtime, runner } = world({ concurrency: 10, enqueueTimeout })
      const ends = await within(runtime, Promise.all(cross(runner, ['a', 'b'])))
      expect(ends).toEqual(['NESTED_LIMIT', 'NESTED_LIMIT'])
      const { signal } = new AbortController()
      const keys = ['a', 'b', 'c', 'd']
      const longer = await within(runtime, Promise.all(cross(runner, keys, () => ({ signal }))))
      expect(longer).toEqual(keys.map(() => 'NESTED_LIMIT'))
      expect([balance(runner), runner.stats().active]).toEqual([0, 0])
    }
  })

  it('B28: are found while other keys come and go', async () => {
    const { runtime, runner } = world({ concurrency: 10 })
    let busy = true
    const traffic = (async () => {
      for (let key = 0; busy; key += 1) await runner(`${key}`, () => sleep(runtime, 5))
    })()
    const ends = Promise.all(cross(runner, ['a', 'b']))
    await runtime.advance(60_000)
    busy = false
    await runtime.advance(10)
    await traffic
    expect(await ends).toEqual(['NESTED_LIMIT', 'NESTED_LIMIT'])
  })

  it('are left alone where a body has its time', async () => {
    const { runtime, runner } = world({ concurrency: 10, timeoutMs: 60_000 })
    const ends = (await within(runtime, Promise.all(cross(runner, ['a', 'b'])))) as string[]
    expect(ends).not.toContain('NESTED_LIMIT')
    expect(ends).toContain('EXECUTION_TIMEOUT')
  })

  it('are left alone where a body starts one that joins it, and does not wait', async () => {
    const { runtime, runner } = world({ concurrency: 10 })
    let joins: Promise<unknown> = Promise.resolve()
    const a = run(runner, 'a', () => {
      joins = run(runner, 'b', async () => (await runner('a', () => 'none')).result)
      return 'a'
    })
    expect(await within(runtime, a)).toBe('a')
    expect(await within(runtime, joins)).toBe('a')
  })

  it('are left alone while one is between two attempts', async () => {
    const { runtime, runner } = world({ concurrency: 10 })
    let attempts = 0
    const retry = { retries: 1, baseDelay: 60_000, jitter: false }
    const flaky = run(
      runner,
      'flaky',
      () => {
        attempts += 1
        if (attempts === 1) throw Object.assign(new Error('again'), { retryable: true })
        return 'second'
      },
      { retry },
    )
    const waits = run(runner, 'waits', () => runner('flaky', () => 'never asked'))
    await within(runtime, flaky)
    expect(await waits).toMatchObject({ result: 'second', deduplicated: true })
  })

  it('B28: are found where a body waits for its own key after its call has ended', async () => {
    const { runtime, runner } = world({ graceMs: 100, timeoutMs: 50, concurrency: 5 })
    let late: unknown
    const first = run(runner, 'k', async () => {
      await sleep(runtime, 500)
      late = await outcome(runner('k', () => 'again', { timeoutMs: 0 }))
    })
    expect(await within(runtime, first)).toBe('EXECUTION_TIMEOUT')
    expect(late).toBe('NESTED_LIMIT')
    expect([runner.stats().zombies, balance(runner)]).toEqual([0, 0])
  })
})

describe('calls that keep their slot while they back off', () => {
  it('B28: wait for each other’s places, and are found', async () => {
    const retry = { retries: 1, inSlot: true, inSlotConcurrency: 1 }
    const { runtime, runner } = world({ concurrency: 10, retry })
    const outer = run(runner, 'outer', () => runner('inner', () => 'inner'))
    expect(await within(runtime, outer)).toBe('NESTED_LIMIT')
    expect([balance(runner), runner.stats().waiting]).toEqual([0, 0])
    expect(
      await within(
        runtime,
        run(runner, 'next', () => 'next'),
      ),
    ).toBe('next')
  })
})

describe('a batch inside a body', () => {
  it('B28: reports items for which no slot could come free', async () => {
    for (const enqueueTimeout of [0, 10_000]) {
      const { runtime, runner } = world({ enqueueTimeout })
      const outer = run(runner, 'outer', () => runner.batch([1, 2, 3], (item) => item))
      expect(await within(runtime, outer)).toMatchObject({
        fulfilled: [],
        codes: { NESTED_LIMIT: 3 },
        rejected: [{ item: 1 }, { item: 2 }, { item: 3 }],
      })
      expect(balance(runner)).toBe(0)
    }
  })

  it('B28: reports an item that waits behind others of which none could start', async () => {
    const { runtime, runner } = world()
    const outside: Promise<unknown>[] = []
    const outer = run(runner, 'outer', async () => {
      const batch = runner.batch([1], (item) => item)
      outside.push(run(runner, 'outside', () => 'outside'))
      // Something has changed: the item may stand in the queue.
      runner.concurrency = 1
      const { codes, fulfilled } = await batch
      return [codes, fulfilled.length]
    })
    expect(await within(runtime, outer)).toEqual([{ NESTED_LIMIT: 1 }, 0])
    expect(await Promise.all(outside)).toEqual(['outside'])
  })

  it('goes on where slots come free, and its items may wait for other keys', async () => {
    const { runtime, runner } = world({ concurrency: 2 })
    const outer = run(runner, 'outer', async () => {
      const visit = async (item: number) => {
        await sleep(runtime, 10_000)
        return item
      }
      const { fulfilled } = await runner.batch([1, 2, 3], visit)
      return fulfilled.map(({ value }) => value)
    })
    expect(await within(runtime, outer)).toEqual([1, 2, 3])
  })

  it('B28: whose items wait for the body that has made it are found', async () => {
    const { runtime, runner } = world({ concurrency: 5 })
    const limit = createLimiter(1, { runtime })
    const outer = outcome(
      limit(async () => {
        const { codes } = await runner.batch([1, 2], () => limit(() => 'inner'))
        return codes
      }),
    )
    expect(await within(runtime, outer)).toEqual({ NESTED_LIMIT: 2 })
  })
})

describe('too many zombies', () => {
  it('B28: that wait for a start are found', async () => {
    const { runtime, runner } = world({ concurrency: 5, graceMs: 10, maxZombies: 1 })
    const first = run(
      runner,
      'zombie',
      async () => {
        await sleep(runtime, 1000)
        return await outcome(runner('inner', () => 'inner'))
      },
      { timeoutMs: 10 },
    )
    expect(await within(runtime, first)).toBe('EXECUTION_TIMEOUT')
    expect(runner.stats()).toMatchObject({ zombies: 0, waiting: 0, codes: { NESTED_LIMIT: 1 } })
    expect(await within(runtime, run(runner, 'next', obedientOf(runtime)))).toBe('next')
  })

  const obedientOf = (runtime: VirtualRuntime) => () => sleep(runtime, 1).then(() => 'next')
})
