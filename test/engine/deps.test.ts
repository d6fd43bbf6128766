// Owns the promises about dependencies: when a job starts, when it can no longer, and who is told.

import { describe, expect, it } from 'vitest'
import type { JobContext, JobInput } from '../../src/core/types.ts'
import { body, codeOf, logOf, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }
const fails = {
  execute: () => {
    throw new Error('broken')
  },
}

describe('a job that depends on others', () => {
  it('starts after all of them, in whatever order they were submitted', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const order: string[] = []
    const execute = ({ job }: JobContext) => {
      order.push(job.id)
    }
    await scheduler.addJobs([
      { id: 'd', deps: ['b', 'c'], execute },
      { id: 'c', deps: ['a'], execute },
      { id: 'b', deps: ['a'], execute },
      { id: 'a', execute },
    ])
    await pass(scheduler.idle())
    expect(order[0]).toBe('a')
    expect(order[3]).toBe('d')
    expect(order.slice(1, 3).sort()).toEqual(['b', 'c'])
  })

  it('is handed their results by id, with no prototype', async () => {
    const { open, pass } = world()
    const scheduler = open()
    let seen: object = {}
    await scheduler.addJobs([
      { id: 'a', execute: () => ({ n: 1 }) },
      { id: '__proto__', execute: () => 2 },
      { id: 'bad', ...fails },
      {
        id: 'last',
        deps: ['a', '__proto__', { id: 'bad', on: 'end' }],
        execute: ({ deps }) => {
          seen = deps
        },
      },
    ])
    await pass(scheduler.idle())
    expect(Object.getPrototypeOf(seen)).toBe(null)
    expect(Object.keys(seen).sort()).toEqual(['__proto__', 'a'])
    expect(Object.getOwnPropertyDescriptor(seen, '__proto__')?.value).toBe(2)
    expect(Object.getOwnPropertyDescriptor(seen, 'a')?.value).toEqual({ n: 1 })
  })

  it('is handed the results of 2,000 of them', async () => {
    const { open, pass } = world()
    const scheduler = open(100)
    const ids = Array.from({ length: 2_000 }, (_, n) => `${n}`)
    scheduler.define<number, number>('square', ({ payload }) => payload * payload)
    const shards = ids.map((id) => ({ id, type: 'square', payload: Number(id) }))
    const [join] = await scheduler.addJobs([
      {
        id: 'join',
        deps: ids,
        execute: ({ deps }) => ids.every((id) => deps[id] === Number(id) ** 2),
      },
      ...shards,
    ])
    expect(await pass(join?.result() as Promise<unknown>)).toBe(true)
  })

  it('resolves at once when they have ended before, and finds a forgotten one satisfied', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '1m', outcomes: '1h' } })
    await scheduler.addJob({ id: 'early', execute: () => 'result' })
    await pass(scheduler.idle())
    await runtime.advance(120_000)
    expect(await scheduler.job('early')).toBe(null)
    const late = await scheduler.addJob({ deps: ['early'], execute: ({ deps }) => ({ ...deps }) })
    expect(await pass(late.result())).toEqual({})
  })

  it('counts a forgotten one as never submitted once its outcome is gone', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '1m', outcomes: '1h' } })
    await scheduler.addJob({ id: 'early', ...noop })
    await pass(scheduler.idle())
    await runtime.advance(2 * 3_600_000)
    const late = await scheduler.addJob({ deps: ['early'], ...noop })
    expect((await scheduler.explain(late.id)).reason).toBe('unknown-dependency')
  })

  it('keeps them known as long as it lives, whatever their retention', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '1m' } })
    await scheduler.addJob({ id: 'a', execute: () => 'kept' })
    const late = await scheduler.addJob({
      deps: ['a'],
      delay: '1h',
      execute: ({ deps }) => deps.a,
    })
    await runtime.advance(30 * 60_000)
    expect(await pass(late.result())).toBe('kept')
    await runtime.advance(5 * 60_000)
    expect(await scheduler.job('a')).toBe(null)
  })

  it('C37: on nothing is ready at once', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const jobs = (['all', 'any'] as const).map((depMode) => ({ deps: [], depMode, ...noop }))
    for (const handle of await scheduler.addJobs(jobs)) await pass(handle.result())
    await pass(scheduler.idle())
  })

  it('C39: on the same one twice depends on it once', async () => {
    const { open, pass } = world()
    const scheduler = open()
    let starts = 0
    const x = await scheduler.addJob({
      id: 'x',
      deps: ['a', 'a', 'b', { id: 'a', on: 'end' }],
      execute: () => {
        starts += 1
      },
    })
    expect((await x.job()).deps).toEqual([
      { id: 'a', on: 'success' },
      { id: 'b', on: 'success' },
    ])
    await scheduler.addJobs(['a', 'b'].map((id) => ({ id, ...noop })))
    await pass(x.result())
    expect(starts).toBe(1)
  })

  it('waits for k of them where it says so, and is doomed exactly when k are out of reach', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const works = Object.fromEntries(['a', 'b', 'c'].map((id) => [id, body()]))
    const jobs = Object.entries(works).map(([id, { execute }]) => ({ id, execute }))
    const deps = ['a', 'b', 'c']
    await scheduler.addJobs([...jobs, { id: 'two', deps, depMode: 2, ...noop }] as JobInput[])
    await scheduler.addJob({ id: 'all', deps, ...noop })
    await scheduler.addJob({ id: 'any', deps, depMode: 'any', ...noop })
    await runtime.drain()
    works.a?.fail(new Error('a'))
    await runtime.advance(1)
    const statuses = async () => {
      const found = await Promise.all(['two', 'all', 'any'].map((id) => scheduler.job(id)))
      return found.map((job) => job?.status)
    }
    expect(await statuses()).toEqual(['waiting', 'cancelled', 'waiting'])
    works.b?.end(1)
    await runtime.advance(1)
    expect(await statuses()).toEqual(['waiting', 'cancelled', 'success'])
    works.c?.end(1)
    await pass(scheduler.idle())
    expect(await statuses()).toEqual(['success', 'cancelled', 'success'])
    for (const depMode of [4, 0, 1.5, 'some']) {
      const end = codeOf(scheduler.addJob({ deps, depMode: depMode as number, ...noop }))
      expect(await end).toBe('INVALID_JOB')
    }
  })
})

describe('dependencies that nobody has submitted', () => {
  it('C42: are waited for, or refused where the options say so; nothing is stored then', async () => {
    const { open, pass } = world()
    const scheduler = open()
    await scheduler.addJobs([
      { id: 'done', ...noop },
      { id: 'broken', ...fails },
    ])
    await pass(scheduler.idle())
    const [x, y, z] = await scheduler.addJobs([
      { id: 'x', deps: ['done'], ...noop },
      { id: 'y', deps: ['broken'], ...noop },
      { id: 'z', deps: ['no-such-id'], ...noop },
    ])
    await pass(x?.result() as Promise<unknown>)
    expect(await pass(codeOf(y?.result() as Promise<unknown>))).toBe('DEPENDENCY_FAILED')
    expect((await y?.job())?.cause).toBe('broken')
    expect((await z?.job())?.status).toBe('waiting')
    const why = await scheduler.explain('z')
    expect(why).toMatchObject({
      reason: 'unknown-dependency',
      blockedBy: [{ id: 'no-such-id', status: 'unknown' }],
    })
    await scheduler.addJob({ id: 'no-such-id', ...noop })
    await pass(z?.result() as Promise<unknown>)
    expect(await codeOf(scheduler.addJob({ id: 's', deps: ['s'], ...noop }))).toBe('CYCLE')
    expect(await scheduler.job('s')).toBe(null)
  })

  it("C42: unknownDeps 'reject' names the id, and stores nothing", async () => {
    const world1 = world()
    const scheduler = world1.open({ unknownDeps: 'reject' })
    const error = await world1.fails(
      scheduler.addJobs([
        { id: 'child', deps: ['parent'], ...noop },
        { id: 'parent', ...noop },
        { id: 'z', deps: ['no-such-id'], ...noop },
      ]),
    )
    expect(error).toMatchObject({
      code: 'UNKNOWN_DEPENDENCY',
      jobId: 'z',
      dependency: 'no-such-id',
      index: 2,
    })
    expect((await scheduler.snapshot()).total).toBe(0)
    await scheduler.addJobs([
      { id: 'child', deps: ['parent'], ...noop },
      { id: 'parent', ...noop },
    ])
    await world1.pass(scheduler.idle())
    expect((await scheduler.snapshot()).states.success).toBe(2)
  })
})

describe('a loop', () => {
  it('C43: is refused with the loop in the message, and nothing of the batch is stored', async () => {
    const { open, fails: failing } = world()
    const scheduler = open({ autoStart: false })
    const error = await failing(
      scheduler.addJobs([
        { id: 'A', type: 't' },
        { id: 'B', type: 't', deps: ['A', 'D'] },
        { id: 'C', type: 't', deps: ['B'] },
        { id: 'D', type: 't', deps: ['C'] },
        ...['x', 'y', 'z'].map((id) => ({ id, type: 't' })),
      ]),
    )
    expect(error.code).toBe('CYCLE')
    const path = (error as unknown as { path: string[] }).path
    expect(path[0]).toBe(path.at(-1))
    expect([...new Set(path)].sort()).toEqual(['B', 'C', 'D'])
    expect(error.message).toContain(path.join(' > '))
    expect((await scheduler.snapshot()).total).toBe(0)
  })

  it('C43: is refused across batches, and two batches at once cannot close one', async () => {
    const { open, fails: failing } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't', deps: ['b'] })
    expect((await failing(scheduler.addJob({ id: 'b', type: 't', deps: ['a'] }))).code).toBe(
      'CYCLE',
    )
    expect((await scheduler.addJob({ id: 'b', type: 't' })).added).toBe(true)
    const both = await Promise.all([
      codeOf(scheduler.addJob({ id: 'c', type: 't', deps: ['d'] })),
      codeOf(scheduler.addJob({ id: 'd', type: 't', deps: ['c'] })),
    ])
    expect(both.filter((end) => end === 'CYCLE')).toHaveLength(1)
  })
})

describe('a failure upstream', () => {
  it('C29: cancels the whole branch that can no longer run, and nothing else', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const [a, x] = [body(), body()]
    await scheduler.addJobs([
      { id: 'U', ...noop },
      { id: 'A', deps: ['U'], execute: a.execute },
      { id: 'B', deps: ['A'], ...noop },
      { id: 'C', deps: ['A'], ...noop },
      { id: 'D', deps: ['B', 'C'], ...noop },
      { id: 'X', execute: x.execute },
      { id: 'E', deps: ['C', 'X'], depMode: 'any', ...noop },
      { id: 'F', deps: ['B', 'C'], depMode: 'any', ...noop },
    ])
    await runtime.advance(1)
    expect(await scheduler.cancel('A')).toBe(true)
    await runtime.advance(1)
    for (const id of ['B', 'C', 'D', 'F']) {
      const job = await scheduler.job(id)
      expect(job).toMatchObject({ id, status: 'cancelled', cause: 'A' })
      expect(await pass(codeOf((await scheduler.addJob({ id, ...noop })).result()))).toBe(
        'DEPENDENCY_FAILED',
      )
    }
    expect((await scheduler.job('A'))?.status).toBe('cancelled')
    expect((await scheduler.job('E'))?.status).toBe('waiting')
    x.end('x')
    a.end('ignored')
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states).toMatchObject({ success: 3, cancelled: 5 })
    const ends = (await logOf(scheduler)).filter((line) => line.endsWith('>cancelled'))
    expect(ends.map((line) => line[0]).sort()).toEqual(['A', 'B', 'C', 'D', 'F'])
  })

  it('C35: cancels a fan-in only when it is final, and names it', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const backoff = { type: 'fixed', delay: '10s', jitter: false } as const
    await scheduler.addJobs([
      { id: 'A', ...noop },
      { id: 'B', retries: 2, backoff, ...fails },
      { id: 'C', ...noop },
      { id: 'D', deps: ['A', 'B', 'C'], ...noop },
    ])
    await runtime.advance(19_999)
    expect((await scheduler.job('D'))?.status).toBe('waiting')
    await runtime.advance(1)
    expect(await scheduler.job('B')).toMatchObject({ status: 'failed', attempts: 3 })
    expect(await scheduler.job('D')).toMatchObject({ status: 'cancelled', cause: 'B' })
    await pass(scheduler.idle())
  })

  it('C35: in a fan-in of 9,999 leaves the others their own end', async () => {
    const { open, pass } = world()
    const scheduler = open(1_000)
    const ids = Array.from({ length: 9_999 }, (_, n) => `c${n}`)
    await scheduler.addJobs([
      ...ids.map((id) => ({ id, ...(id === 'c777' ? fails : noop) })),
      { id: 'join', deps: ids, ...noop },
    ])
    await pass(scheduler.idle())
    expect(await scheduler.job('join')).toMatchObject({ status: 'cancelled', cause: 'c777' })
    const { states } = await scheduler.snapshot()
    expect(states).toMatchObject({ success: 9_998, failed: 1, cancelled: 1 })
  })

  it('DQ-14: leaves nobody in limbo, however a dependency ended', async () => {
    const { open, pass } = world()
    const scheduler = open({ keep: { cancelled: 0 } })
    const lasting = () => {
      throw Object.assign(new Error('hopeless'), { retryable: false })
    }
    await scheduler.addJobs([
      { id: 'c1', ...noop },
      { id: 'c2', retries: 5, execute: lasting },
      { id: 'c3', delay: '1h', ...noop },
      { id: 'c4', delay: '1h', ...noop },
      { id: 'P', deps: ['c1', 'c2', 'c3', 'c4'], ...noop },
      { id: 'Q', deps: ['P'], ...noop },
      { id: 'any', deps: ['c1', 'c2', 'c3', 'c4'], depMode: 'any', ...noop },
      { id: 'ends', deps: ['c1', 'c2', 'c3', 'c4'].map((id) => ({ id, on: 'end' })), ...noop },
    ] as JobInput[])
    for (const id of ['c3', 'c4']) await scheduler.cancel(id)
    await pass(scheduler.idle())
    expect(await scheduler.job('any')).toMatchObject({ status: 'success' })
    expect(await scheduler.job('ends')).toMatchObject({ status: 'success' })
    const ended = (await logOf(scheduler)).filter((line) => /^[PQ] .*>cancelled$/.test(line))
    expect(ended).toHaveLength(2)
    const late = await scheduler.addJob({ id: 'late', deps: ['c1', 'c2'], ...noop })
    expect(await pass(codeOf(late.result()))).toBe('DEPENDENCY_FAILED')
  })

  it('DQ-14: reaches 5,000 dependents, and theirs, in bounded steps', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const dependents = Array.from({ length: 5_000 }, (_, n) => ({ id: `d${n}`, deps: ['root'] }))
    const second = dependents.slice(0, 4_000).map(({ id }) => ({ id: `${id}'`, deps: [id] }))
    await scheduler.addJobs([...dependents, ...second].map((job) => ({ ...job, ...noop })))
    await scheduler.addJob({ id: 'root', ...fails })
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states).toMatchObject({ failed: 1, cancelled: 9_000 })
    expect((await scheduler.job("d3999'"))?.cause).toBe('root')
  })

  it('DQ-15: costs a job that nobody names nothing', async () => {
    const { open, pass } = world()
    const scheduler = open(10)
    const chains = Array.from({ length: 1_000 }, (_, n) => ({
      id: `w${n}`,
      deps: ['ghost'],
      ...noop,
    }))
    await scheduler.addJobs(chains)
    await scheduler.addJobs(Array.from({ length: 1_000 }, () => noop))
    await pass(scheduler.idle())
    let records = 0
    for await (const { job } of scheduler.events()) if (job.startsWith('w')) records += 1
    expect(records).toBe(1_000)
  })
})
