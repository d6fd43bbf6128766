// Owns the promises about who stands in line for room: whoever needs none never does, whoever
// needs some always does, and no running job may.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { codeOf, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const FULL = { concurrency: 1, maxQueue: 2, overflow: 'wait' } as const

/** A pool without room, and somebody who waits for some. */
async function lined() {
  const base = world()
  const scheduler = base.open({ pools: { default: FULL }, autoStart: false })
  await scheduler.addJobs([
    { id: 'a', type: 't', key: 'k' },
    { id: 'b', type: 't' },
    { id: 'needs', type: 't', deps: ['ghost', 'other'] },
  ])
  const first = scheduler.addJob({ id: 'first', type: 't' })
  await base.runtime.drain()
  expect(await scheduler.job('first')).toBe(null)
  return { ...base, scheduler, first }
}

describe('whoever needs no room', () => {
  it('is answered at once where others wait: what is there, or waits, or is waited for', async () => {
    const { scheduler, pass, first } = await lined()
    const add = async (more: object) => {
      const { id, added } = await pass(scheduler.addJob({ type: 't', ...more }))
      return [id, added]
    }
    expect(await add({ key: 'k' })).toEqual(['a', false])
    expect(await add({ id: 'b' })).toEqual(['b', false])
    expect(await add({ id: 'later', deps: ['needs'] })).toEqual(['later', true])
    expect(await add({ id: 'ghost' })).toEqual(['ghost', true])
    const batch = await pass(
      scheduler.addJobs([
        { id: 'b', type: 't' },
        { id: 'other', type: 't' },
      ]),
    )
    expect(batch.map(({ added }) => added)).toEqual([false, true])
    expect(await pass(scheduler.addMany([{ type: 't', key: 'k' }]))).toBe(0)
    for (const id of ['a', 'b', 'ghost']) await scheduler.cancel(id)
    expect((await pass(first)).added).toBe(true)
  })

  it('hears at once what is wrong with it', async () => {
    const { scheduler, fails, pass, first } = await lined()
    const errors = [
      await fails(scheduler.addJob({ id: 'new', type: 't', key: 'k' })),
      await fails(scheduler.addJob({ id: 'b', type: 't', payload: 2 })),
      await fails(scheduler.addJobs([{ id: 'new', type: 't', key: 'k' }])),
      await fails(scheduler.addMany([{ id: 'new', type: 't', key: 'k' }])),
    ]
    const codes = ['KEY_TAKEN', 'DUPLICATE_ID', 'KEY_TAKEN', 'KEY_TAKEN']
    expect(errors.map((error) => 'code' in error && error.code)).toEqual(codes)
    await scheduler.cancel('a')
    await pass(first)
  })

  it('does not hold up a running job that submits it, and whose slot the line waits for', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: { default: FULL } })
    const execute = takes(runtime, 1_000)
    const outer = await scheduler.addJob({
      execute: async (context) => {
        await takes(runtime, 100)(context)
        const { id } = await scheduler.addJob({ key: 'k', execute })
        return [id, (await scheduler.addJob({ deps: ['a'], execute })).added]
      },
    })
    await runtime.drain()
    await scheduler.addJobs([
      { key: 'k', execute },
      { id: 'a', execute },
    ])
    const waits = scheduler.addJob({ execute })
    const owner = await scheduler.addJob({ key: 'k', execute })
    expect(await pass(outer.result())).toEqual([owner.id, true])
    await pass(waits)
    await pass(scheduler.idle())
  })

  it('leaves a place that comes free to those who wait, though a newcomer asks first', async () => {
    const { scheduler, pass, runtime, first } = await lined()
    const stored: string[] = []
    const note = (id: string) => () => stored.push(id)
    first.then(note('first'), fail)
    const pair = ['p', 'q'].map((id) => ({ id, type: 't' }))
    const two = scheduler.addJobs(pair).then(note('two'))
    await runtime.drain()
    await scheduler.cancel('a')
    await runtime.drain()
    // One place is free now, which is not enough for the two who are next.
    await scheduler.cancel('b')
    const one = scheduler.addJob({ id: 'one', type: 't' }).then(note('one'))
    await runtime.drain()
    expect(stored).toEqual(['first'])
    await scheduler.cancel('first')
    await pass(two)
    await scheduler.cancel('p')
    await pass(one)
    expect(stored).toEqual(['first', 'two', 'one'])
  })

  it('is let in when the line for whose sake it was kept out is gone meanwhile', async () => {
    const { open, pass, runtime, store } = world()
    const gates = { first: gate(), late: gate() }
    const shared = store()
    const slow = new Proxy(shared, {
      get(target, name) {
        const value = Reflect.get(target, name) as unknown
        if (typeof value !== 'function') return value
        if (name !== 'insert') return value.bind(target)
        return async (...args: Parameters<typeof target.insert>) => {
          const answer = await target.insert(...args)
          const id = args[0][0]?.jobs[0]?.id
          const isRefused = answer.answer[0]?.status === 'refused'
          if (id === 'first' && !isRefused) await gates.first.opened
          if (id === 'late' && isRefused) await gates.late.opened
          return answer
        }
      },
    })
    const scheduler = open({ store: slow, pools: { default: FULL }, autoStart: false })
    await scheduler.addJobs([
      { id: 'a', type: 't' },
      { id: 'b', type: 't' },
    ])
    const first = scheduler.addJobs([{ id: 'first', type: 't' }])
    await runtime.drain()
    await scheduler.cancel('a')
    await scheduler.cancel('b')
    const late = scheduler.addJob({ id: 'late', type: 't' })
    await runtime.drain()
    gates.first.open()
    await pass(first)
    gates.late.open()
    expect((await pass(late)).added).toBe(true)
  })
})

describe('a running job', () => {
  /** What happens to a job that submits another to its own pool, which is full. */
  async function submitting(add: (context: JobContext) => Promise<unknown>) {
    const { open, pass, runtime } = world()
    const scheduler = open({ pools: { default: FULL } })
    const execute = takes(runtime, 10)
    const outer = await scheduler.addJob({
      execute: async (context) => {
        await takes(runtime, 100)(context)
        return add(context)
      },
    })
    await runtime.drain()
    await scheduler.addJobs([{ execute }, { execute }])
    return { scheduler, outer, pass, runtime, execute }
  }

  it('is refused at once where it would wait for room, by whichever way it submits', async () => {
    const ways = ['addJob', 'addJobs', 'addMany'] as const
    for (const way of ways) {
      const made = await submitting(async () => {
        const { scheduler, execute } = made
        const job = { execute }
        const told = way === 'addJob' ? scheduler.addJob(job) : scheduler[way]([job])
        return told.catch((error) => ({ message: error.message, code: error.code }))
      })
      const { outer, pass, runtime, scheduler } = made
      const answer = (await pass(outer.result())) as { code: string; message: string }
      expect(answer).toMatchObject({ code: 'QUEUE_OVERFLOW' })
      expect(answer.message).toContain('a running job does not wait for room')
      expect(answer.message.startsWith('jobs[0]: ')).toBe(way !== 'addJob')
      expect(runtime.monotonic()).toBeLessThan(200)
      await pass(scheduler.idle())
    }
  })

  it('is refused, too, when it comes to wait for what it has submitted before', async () => {
    const made = await submitting(async (context) => {
      const told = made.scheduler.addJob({ execute: made.execute })
      await takes(made.runtime, 50)(context)
      return codeOf(told)
    })
    await made.runtime.advance(2_000)
    expect(await made.pass(made.outer.result())).toBe('QUEUE_OVERFLOW')
  })

  it('may go on without waiting: then its submission gets in when there is room', async () => {
    let told: Promise<unknown> = Promise.resolve()
    const made = await submitting(async (context) => {
      told = made.scheduler.addJob({ id: 'later', execute: made.execute })
      await takes(made.runtime, 3_000)(context)
    })
    await made.runtime.advance(2_000)
    expect(await made.scheduler.job('later')).toBe(null)
    await made.pass(made.outer.result())
    await made.pass(told)
    await made.pass(made.scheduler.idle())
    expect(await made.scheduler.job('later')).toMatchObject({ status: 'success' })
  })

  it('does not stop others from waiting who only wait while it runs', async () => {
    const made = await submitting(async (context) => takes(made.runtime, 3_000)(context))
    const waits = made.scheduler.addJob({ id: 'outside', execute: made.execute })
    await made.runtime.advance(2_000)
    expect((await made.pass(waits)).added).toBe(true)
    await made.pass(made.scheduler.idle())
  })
})

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open: () => void = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

function fail(error: unknown): never {
  throw error
}
