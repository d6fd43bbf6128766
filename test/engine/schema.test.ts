// Owns the promises about schemas: payloads are checked as they are submitted, and stored as made.

import { describe, expect, it } from 'vitest'
import type { JobInput, StandardSchemaV1 } from '../../src/core/types.ts'
import { codeOf, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

type Answer = Awaited<ReturnType<StandardSchemaV1['~standard']['validate']>>

function schemaOf(validate: (value: unknown) => unknown): StandardSchemaV1 {
  return {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value) => validate(value) as Answer,
    },
  }
}

/** A user with a name, trimmed, and an age that may be a text. */
function check(value: unknown): Answer {
  const { name, age = 0 } = value as { readonly name?: unknown; readonly age?: unknown }
  const issues: { message: string; path: PropertyKey[] }[] = []
  if (typeof name !== 'string') issues.push({ message: 'Expected a text', path: ['name'] })
  if (Number.isNaN(Number(age))) issues.push({ message: 'Expected a number', path: ['age'] })
  return issues.length > 0 ? { issues } : { value: { name: String(name).trim(), age: Number(age) } }
}

const both = [
  ['sync', schemaOf(check)],
  ['async', schemaOf(async (value) => check(value))],
] as const

describe.each(both)('a schema that is %s', (_, schema) => {
  it('has what it returns stored, and handed to the handler', async () => {
    const { open, pass } = world()
    const scheduler = open()
    scheduler.define('user', { schema }, ({ payload }) => payload)
    const handle = await pass(
      scheduler.addJob({ type: 'user', payload: { name: ' Ada ', age: '36', more: 1 } }),
    )
    expect(await pass(handle.result())).toEqual({ name: 'Ada', age: 36 })
    expect((await handle.job()).payload).toEqual({ name: 'Ada', age: 36 })
  })

  it('refuses with the path and the message of its first issue, and has all of them', async () => {
    const { open, fails } = world()
    const scheduler = open({ types: { user: { schema } } })
    const error = await fails(scheduler.addJob({ type: 'user', payload: { age: 'old' } }))
    expect(error.code).toBe('INVALID_JOB')
    expect(error.message).toContain('payload.name: Expected a text')
    expect(error.message).toContain('1 more issue')
    expect(error).toMatchObject({
      type: 'user',
      path: ['name'],
      issues: [{ message: 'Expected a text' }, { message: 'Expected a number' }],
    })
    expect((await scheduler.snapshot()).total).toBe(0)
  })

  it('names the job of a batch, the first that is wrong, and nothing of it is stored', async () => {
    const { open, fails, pass } = world()
    const scheduler = open({ types: { user: { schema } } })
    const good = { type: 'user', payload: { name: 'Ada' } }
    const jobs = [good, { type: 'plain' }, { type: 'user', payload: {} }, { type: 'user' }]
    const error = await fails(scheduler.addJobs(jobs))
    expect(error).toMatchObject({ code: 'INVALID_JOB', index: 2 })
    expect(error.message).toMatch(/^jobs\[2\]: payload\.name: /)
    expect((await scheduler.snapshot()).total).toBe(0)
    const handles = await pass(scheduler.addJobs([good, { type: 'plain' }, good]))
    expect(handles.map(({ added }) => added)).toEqual([true, true, true])
  })

  it('names the place in a stream', async () => {
    const { open, fails } = world()
    const scheduler = open({ types: { user: { schema } } })
    function* jobs(): Generator<JobInput> {
      for (let n = 0; n < 1_500; n += 1) {
        yield { type: 'user', payload: n === 1_200 ? {} : { name: 'Ada' } }
      }
    }
    const error = await fails(scheduler.addMany(jobs()))
    expect(error).toMatchObject({ code: 'INVALID_JOB', index: 1_200 })
    expect((await scheduler.snapshot()).total).toBe(1_000)
  })

  it('checks what a handler submits, and the payload of a job with a body of its own', async () => {
    const { open, pass } = world()
    const scheduler = open({ types: { user: { schema } } })
    const bad = await scheduler.addJob({
      execute: async ({ submit }) => submit({ type: 'user', payload: {} }).catch((error) => error),
    })
    expect(await pass(bad.result())).toMatchObject({ code: 'INVALID_JOB', index: 0 })
    const own = await pass(
      scheduler.addJob({
        type: 'user',
        payload: { name: ' Bo ' },
        execute: ({ payload }: { payload: unknown }) => payload,
      }),
    )
    expect(await pass(own.result())).toEqual({ name: 'Bo', age: 0 })
  })
})

describe('a schema', () => {
  it('may take what is no JSON, as long as it makes JSON of it', async () => {
    const { open, fails } = world()
    const at = schemaOf((value) => ({ value: { at: (value as Date).toISOString() } }))
    const none = schemaOf((value) => ({ value }))
    const scheduler = open({
      autoStart: false,
      types: { at: { schema: at }, as: { schema: none } },
    })
    const handle = await scheduler.addJob({ type: 'at', payload: new Date(0) })
    expect((await handle.job()).payload).toEqual({ at: '1970-01-01T00:00:00.000Z' })
    const error = await fails(scheduler.addJobs([{ type: 'as', payload: { n: 1n } }]))
    expect(error).toMatchObject({ code: 'INVALID_JOB', index: 0 })
    expect(error.message).toMatch(/^jobs\[0\]: payload\.n /)
  })

  it('that throws, or answers what no schema answers, refuses', async () => {
    const { open, fails } = world()
    const broken = {
      throws: () => {
        throw new Error('Out of order.')
      },
      rejects: async () => {
        throw new Error('Out of order.')
      },
      nothing: () => undefined,
      empty: () => ({ issues: [] }),
      neither: async () => ({}),
    }
    const types = Object.fromEntries(
      Object.entries(broken).map(([type, validate]) => [type, { schema: schemaOf(validate) }]),
    )
    const scheduler = open({ types })
    for (const type of ['throws', 'rejects']) {
      const error = await fails(scheduler.addJob({ type, payload: 1 }))
      expect(error).toMatchObject({ code: 'INVALID_JOB', type })
      expect(error.message).toContain('Out of order.')
      expect((error.cause as Error).message).toBe('Out of order.')
    }
    for (const type of ['nothing', 'empty', 'neither']) {
      const error = await fails(scheduler.addJob({ type, payload: 1 }))
      expect(error).toMatchObject({ code: 'INVALID_JOB', type })
      expect(error.message).toContain('Standard Schema')
    }
  })

  it('has paths with every kind of key put into words', async () => {
    const { open, fails } = world()
    const path = ['list', 0, { key: 'first name' }, Symbol('s'), { key: 2 }]
    const schema = schemaOf(() => ({ issues: [{ message: 'No.', path }] }))
    const scheduler = open({ types: { t: { schema } } })
    const error = await fails(scheduler.addJob({ type: 't' }))
    expect(error.message).toContain('payload.list[0]["first name"][Symbol(s)][2]: No.')
  })

  it('without a path speaks of the payload as a whole', async () => {
    const { open, fails } = world()
    const schema = schemaOf(() => ({ issues: [{ message: 'Expected a user' }] }))
    const scheduler = open({ types: { t: { schema } } })
    const error = await fails(scheduler.addJob({ type: 't' }))
    expect(error.message).toMatch(/^payload: Expected a user/)
    expect(error).toMatchObject({ path: [] })
  })

  it('that takes its time adds nothing to a scheduler that has closed meanwhile', async () => {
    const { open, pass, runtime, store } = world()
    const slow = schemaOf(async (value) => {
      await takes(runtime, 1_000)({ signal: new AbortController().signal } as never)
      return { value }
    })
    const shared = store()
    const scheduler = open({ store: shared, types: { t: { schema: slow } } })
    const ends = [
      codeOf(scheduler.addJob({ type: 't' })),
      codeOf(scheduler.addJobs([{ type: 't' }])),
    ]
    await pass(scheduler.close())
    expect(await pass(Promise.all(ends))).toEqual(['CLOSED', 'CLOSED'])
    expect((await shared.count()).types).toEqual({})
  })

  it('checks nothing in a process that does not know the type', async () => {
    const { open, store } = world()
    const shared = store()
    const schema = schemaOf(() => ({ issues: [{ message: 'No.' }] }))
    await open({ store: shared, types: { t: { schema, pool: 'out' } } }).start()
    const web = open({ store: shared, autoStart: false })
    expect(await (await web.addJob({ type: 't', payload: 5 })).job()).toMatchObject({
      payload: 5,
      pool: 'out',
    })
  })
})
