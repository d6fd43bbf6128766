// Owns the proof of what a handler can do to a flow beyond adding to it, and of notes.

import { describe, expect, it } from 'vitest'
import type { JobContext } from '../../src/core/types.ts'
import { watchForLeaks, world } from './helpers.ts'

watchForLeaks()

/** Runs `act` as the body of a job, and answers what it gave. */
function within<T>(act: (context: JobContext) => Promise<T>) {
  const { open, pass, fails, runtime } = world()
  const scheduler = open({ pools: { held: { paused: true } } })
  scheduler.define('held', () => null)
  return {
    scheduler,
    pass,
    fails,
    runtime,
    async go(): Promise<T> {
      const head = await pass(scheduler.addJob<unknown, T>({ id: 'head', execute: act }))
      return pass(head.result())
    },
  }
}

const held = (id: string, more: object = {}) => ({ id, type: 'held', pool: 'held', ...more })

describe('a submission in place of others', () => {
  it('gives jobs another definition, adds some and drops some, in one step', async () => {
    const { scheduler, pass, go } = within(async ({ submit }) => {
      const jobs = [held('a', { payload: 2, priority: 9 }), held('new', { deps: ['a'] })]
      return (await submit(jobs, { replaces: ['a', 'old', 'nobody'] })).map(({ added }) => added)
    })
    await pass(
      scheduler.addJobs([held('a', { payload: 1 }), held('old'), held('b', { deps: ['a'] })]),
    )
    expect(await go()).toEqual([true, true])
    expect(await pass(scheduler.job('a'))).toMatchObject({ payload: 2, priority: 9 })
    expect(await pass(scheduler.job('old'))).toBe(null)
    expect(await pass(scheduler.explain('b'))).toMatchObject({ blockedBy: [{ id: 'a' }] })
    await pass(scheduler.close())
  })

  it('drops jobs alone, too', async () => {
    const { scheduler, pass, go } = within(async ({ submit }) => submit([], { replaces: ['a'] }))
    await pass(scheduler.addJob(held('a')))
    expect(await go()).toEqual([])
    expect(await pass(scheduler.job('a'))).toBe(null)
    await pass(scheduler.close())
  })

  it('is refused, and changes nothing, if one of them runs or has succeeded', async () => {
    const { scheduler, pass, go } = within(async ({ submit }) => {
      const codes: unknown[] = []
      for (const id of ['head', 'done']) {
        const error = await submit([held('n')], { replaces: ['a', id] }).catch((each) => each)
        codes.push([
          error.code,
          error.jobId,
          error.message.match(/its body runs|has succeeded/)?.[0],
        ])
      }
      return codes
    })
    const done = await pass(scheduler.addJob({ id: 'done', execute: () => 1 }))
    await pass(done.result())
    await pass(scheduler.addJob(held('a')))
    expect(await go()).toEqual([
      ['DUPLICATE_ID', 'head', 'its body runs'],
      ['DUPLICATE_ID', 'done', 'has succeeded'],
    ])
    expect(await pass(scheduler.job('n'))).toBe(null)
    expect((await pass(scheduler.job('a')))?.status).toBe('ready')
    await pass(scheduler.close())
  })

  it.each([
    [{ replaces: 'a' }, /replaces must be a list of ids/],
    [{ replaces: [''] }, /replaces must be a text of 1 to 255 bytes/],
    [{ replace: ['a'] }, /submit/],
  ])('refuses the options %j', async (options, text) => {
    const { scheduler, pass, go } = within(async ({ submit }) =>
      submit([], options as object).then(
        () => 'taken',
        (error) => [error.code, error.message],
      ),
    )
    const [code, message] = (await go()) as string[]
    expect(code).toBe('INVALID_OPTION')
    expect(message).toMatch(text)
    await pass(scheduler.close())
  })
})

describe('a note', () => {
  it('is found by the next attempt', async () => {
    const { open, pass } = world()
    const scheduler = open()
    scheduler.define('t', { retries: 2, backoff: { type: 'fixed', delay: 1 } }, async (context) => {
      const { job, attempt, note } = context
      if (attempt < 3) {
        await Promise.all([note('early'), note(`of attempt ${attempt}`)])
        throw new Error('again')
      }
      return job.note
    })
    const job = await pass(scheduler.addJob({ id: 'a', type: 't' }))
    expect(await pass(job.result())).toBe('of attempt 2')
    expect((await pass(scheduler.job('a')))?.note).toBe('of attempt 2')
    await pass(scheduler.close())
  })

  it('is stored when it says so, and not for a job that was cancelled', async () => {
    const { scheduler, pass, runtime } = within(async () => null)
    const seen: unknown[] = []
    const job = await pass(
      scheduler.addJob({
        id: 'a',
        execute: async ({ note }) => {
          await note('first')
          seen.push((await scheduler.job('a'))?.note)
          await scheduler.cancel('a')
          seen.push(await note('second').catch((error) => error.code))
        },
      }),
    )
    await pass(job.result().catch(() => {}))
    await runtime.run(() => seen.length === 2)
    expect(seen).toEqual(['first', 'LEASE_LOST'])
    await pass(scheduler.close())
  })

  it.each([[''], ['x'.repeat(1_001)], ['a\0b'], [7]])('cannot be %j', async (text) => {
    const { scheduler, pass, go } = within(async ({ note }) =>
      note(text as string).then(
        () => 'taken',
        (error) => error.code,
      ),
    )
    expect(await go()).toBe('INVALID_OPTION')
    await pass(scheduler.close())
  })
})
