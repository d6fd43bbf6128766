// Owns the promises about keys that wait for each other in single flight.

import { describe, expect, it } from 'vitest'
import { createInflight, type Inflight } from '../../src/kit/inflight.ts'
import { createLimiter } from '../../src/kit/limiter.ts'
import { createRunner } from '../../src/kit/runner.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'
import { body, listeners, outcome, turn } from './helpers.ts'

const DAY = 86_400_000

/** What a promise comes to, or 'waits' if it does not come to anything in a day. */
async function within(runtime: VirtualRuntime, promise: Promise<unknown>): Promise<unknown> {
  let end: unknown = 'waits'
  outcome(promise).then((value) => {
    end = value
  })
  await runtime.advance(DAY)
  return end
}

type Given = { signal?: AbortSignal }

/** Bodies of which each waits for the key of the next, and the last one for that of the first. */
function ring(inflight: Inflight, keys: readonly string[], options: () => Given = () => ({})) {
  const calls = keys.map((key, at) => {
    const next = keys[(at + 1) % keys.length] as string
    const task = async () => {
      await turn()
      return `${key} ${await inflight(next, () => 'none', options())}`
    }
    return outcome(inflight(key, task, options()))
  })
  return Promise.all(calls)
}

describe('bodies that wait for the keys of each other', () => {
  it('B23: are found, and one call in the ring is refused', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const ends = (await within(runtime, ring(inflight, ['a', 'b']))) as string[]
    expect(ends).toEqual(['NESTED_LIMIT', 'NESTED_LIMIT'])
    expect(inflight.size).toBe(0)
  })

  it('B23: are found when the refusal is caught, by those who go on', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const call = (own: string, other: string) =>
      inflight(own, async () => {
        await turn()
        return await inflight(other, () => 'none').catch(({ code, key }) => [own, code, key])
      })
    const ends = (await within(runtime, Promise.all([call('a', 'b'), call('b', 'a')]))) as unknown[]
    // Whichever was refused, the other one gets what that body has made of it.
    expect([
      ['a', 'NESTED_LIMIT', 'b'],
      ['b', 'NESTED_LIMIT', 'a'],
    ]).toContainEqual(ends[0])
    expect(ends[1]).toEqual(ends[0])
  })

  it('B23: are found in longer rings, and under signals, which are left without listeners', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const controller = new AbortController()
    const given = () => ({ signal: controller.signal })
    const keys = ['a', 'b', 'c', 'd', 'e']
    const ends = await within(runtime, ring(inflight, keys, given))
    expect(ends).toEqual(keys.map(() => 'NESTED_LIMIT'))
    expect([inflight.size, listeners(controller.signal)]).toEqual([0, 0])
  })

  it('B23: are found behind bodies that they have started themselves', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const first = inflight('a', async () => {
      await turn()
      return await inflight('b', async () => {
        await turn()
        return await inflight('c', () => 'none')
      })
    })
    const second = inflight('c', async () => {
      await turn()
      await turn()
      return await inflight('a', () => 'none').catch(({ code }) => `after ${code}`)
    })
    const bystanders = [inflight('a', () => 'none'), inflight('c', () => 'none')]
    const all = await within(runtime, Promise.all([first, second, ...bystanders].map(outcome)))
    const results = all as string[]
    expect(new Set(results).size).toBe(1)
    expect(['NESTED_LIMIT', 'after NESTED_LIMIT']).toContain(results[0])
    expect(inflight.size).toBe(0)
  })

  it('B23: are found while bodies of other keys come and go', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    let busy = true
    const pause = () => new Promise<void>((done) => runtime.after(5, done))
    const traffic = (async () => {
      while (busy) await inflight('other', pause)
    })()
    let ends: unknown
    ring(inflight, ['a', 'b']).then((value) => {
      ends = value
    })
    await runtime.advance(60_000)
    expect(ends).toEqual(['NESTED_LIMIT', 'NESTED_LIMIT'])
    busy = false
    await runtime.advance(10)
    await traffic
  })

  it('B28: count in rings with limiters and runners', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const limit = createLimiter(1, { runtime })
    const runner = createRunner({ concurrency: 1, enqueueTimeout: 0, runtime })
    const calls = [
      limit(async () => {
        await turn()
        return await inflight('k', () => 'none')
      }),
      inflight('k', async () => {
        await turn()
        const { result } = await runner('r2', () => 'r2')
        return result
      }),
      runner('r1', async () => {
        await turn()
        return await limit(() => 'limited')
      }).then(({ result }) => result),
    ]
    const ends = (await within(runtime, Promise.all(calls.map(outcome)))) as string[]
    expect(ends).toContain('NESTED_LIMIT')
    expect(ends.filter((end) => end !== 'NESTED_LIMIT').length).toBeGreaterThan(0)
    await Promise.all([limit.idle(), runner.idle()])
  })
})

describe('bodies that only look like it', () => {
  it('B23: are left alone: one waits for the other, and that one for nobody', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const work = body<string>()
    const slow = inflight('slow', work.run)
    const waits = inflight('waits', async () => await inflight('slow', () => 'none'))
    const late = outcome(Promise.all([slow, waits]))
    await runtime.advance(DAY)
    work.end('done')
    expect(await late).toEqual(['done', 'done'])
  })

  it('B23: are left alone: they have called each other, and do not wait', async () => {
    const runtime = virtualRuntime(1)
    const inflight = createInflight({ runtime })
    const heard: unknown[] = []
    const call = (own: string, other: string) =>
      inflight(own, async () => {
        await turn()
        inflight(other, () => 'none').then((value) => heard.push(value))
        await new Promise<void>((done) => runtime.after(DAY / 2, done))
        return own
      })
    const ends = Promise.all([call('a', 'b'), call('b', 'a')])
    expect(await within(runtime, ends)).toEqual(['a', 'b'])
    expect(heard.sort()).toEqual(['a', 'b'])
  })
  it.each([
    ['at once', () => undefined],
    ['after a turn', turn],
  ])(
    'B23: are left alone: a body starts one that joins it, and does not wait (%s)',
    async (_, pause) => {
      const runtime = virtualRuntime(1)
      const inflight = createInflight({ runtime })
      let joins: Promise<unknown> = Promise.resolve()
      const a = inflight('a', async () => {
        await pause()
        joins = inflight('b', () => inflight('a', () => 'none'))
        return 'a'
      })
      expect(await within(runtime, a)).toBe('a')
      expect(await within(runtime, joins)).toBe('a')
      // One that does wait is found all the same, a little later.
      const waits = inflight('a', () => inflight('b', () => inflight('a', () => 'none')))
      expect(await within(runtime, waits)).toBe('NESTED_LIMIT')
    },
  )
})
