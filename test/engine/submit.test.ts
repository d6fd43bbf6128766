// Owns the promises about submitting: what is stored, what is refused, what a handle answers.

import { describe, expect, it } from 'vitest'
import type { JobInput } from '../../src/core/types.ts'
import { TaskGateway } from '../../src/index.ts'
import { all, body, codeOf, faulty, listeners, logOf, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const noop = { execute: () => undefined }

describe('a submitted job', () => {
  it('is stored when the call resolves, runs by itself, and its handle answers', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const work = body<number>()
    const handle = await scheduler.addJob({ execute: work.execute })
    expect(handle.added).toBe(true)
    expect(handle.id).toMatch(/^[0-9a-zA-Z]{20}$/)
    expect(await scheduler.job(handle.id)).toMatchObject({ type: 'task', pool: 'default' })
    await runtime.drain()
    expect((await handle.job()).status).toBe('running')
    work.end(42)
    expect(await pass(handle.result())).toBe(42)
    const job = await handle.job()
    expect(job).toMatchObject({ status: 'success', result: 42, attempts: 1, lost: 0, preempted: 0 })
    expect(job.attemptLog).toEqual([
      {
        attempt: 1,
        startedAt: runtime.now(),
        queuedMs: 0,
        callMs: 0,
        outcome: 'success',
        worker: expect.stringMatching(/^ax:/),
      },
    ])
  })

  it('of a defined type gets its payload, a fresh copy of what was submitted', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const seen: unknown[] = []
    const mail = scheduler.define<{ to: string[] }, string>('mail', ({ payload, attempt, job }) => {
      seen.push(payload, attempt, job.id)
      payload.to.push('changed by the handler')
      return `sent to ${payload.to[0]}`
    })
    const payload = { to: ['a'] }
    const handle = await mail.submit(payload, { id: 'm1' })
    payload.to.push('changed after the submission')
    expect(await pass(handle.result())).toBe('sent to a')
    expect(seen).toEqual([{ to: ['a', 'changed by the handler'] }, 1, 'm1'])
    expect((await handle.job()).payload).toEqual({ to: ['a'] })
  })

  it('that changes right after the call has not changed', async () => {
    const { open, pass } = world()
    const scheduler = open()
    scheduler.define<{ n: number }, number>('double', ({ payload }) => payload.n * 2)
    const payload = { n: 21 }
    await scheduler.start()
    const promise = scheduler.addJob({ type: 'double', payload })
    payload.n = 1000
    expect(await pass((await promise).result())).toBe(42)
  })

  it('with its own execute gets its payload by reference', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const payload = new Map([['a', 1]])
    const handle = await scheduler.addJob({ payload, execute: (context) => context.payload })
    expect(await pass(handle.result())).toBe(payload)
  })

  it('of a type that has no handler is kept, and runs once it has one', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({ type: 'later' })
    expect((await handle.job()).status).toBe('ready')
    scheduler.define('later', () => 'now')
    expect(await pass(handle.result())).toBe('now')
  })
})

describe('a handle', () => {
  it('answers again and again, before the end and after it', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const work = body<string>()
    const handle = await scheduler.addJob({ execute: work.execute })
    const early = [handle.result(), handle.result()]
    await runtime.advance(1)
    work.end('done')
    expect(await pass(Promise.all(early))).toEqual(['done', 'done'])
    expect(await pass(handle.result())).toBe('done')
  })

  it('stops waiting when its signal says so, and leaves no listener', async () => {
    const { open, fails, pass, runtime } = world()
    const scheduler = open()
    const work = body<string>()
    const handle = await scheduler.addJob({ execute: work.execute })
    const control = new AbortController()
    const waiting = codeOf(handle.result({ signal: control.signal }))
    await runtime.drain()
    const reason = new Error('enough')
    control.abort(reason)
    expect(await pass(waiting)).toBe(reason)
    expect(await codeOf(handle.result({ signal: control.signal }))).toBe(reason)
    work.fail(new Error('late'))
    expect((await fails(handle.result())).code).toBe('HANDLER_FAILED')
  })

  it('C77: of a job that ended long ago, or was forgotten, or is cancelled, does not hang', async () => {
    const { open, fails, pass, runtime } = world()
    const scheduler = open({ keep: { success: '1m', cancelled: '1m' } })
    const quick = await scheduler.addJob({ execute: () => 'quick' })
    const blocked = await scheduler.addJob({ deps: ['nobody'], ...noop })
    const waiting = codeOf(blocked.result())
    await pass(quick.result())
    await blocked.cancel('no longer wanted')
    expect(await pass(waiting)).toBe('CANCELLED')
    expect(await pass(quick.result())).toBe('quick')
    await runtime.advance(120_000)
    expect((await fails(quick.result())).code).toBe('GONE')
    expect((await fails(quick.job())).code).toBe('GONE')
    expect((await fails(blocked.result())).message).toContain('keep.success')
    expect((await fails(scheduler.cancel(quick.id))).code).toBe('UNKNOWN_JOB')
  })

  it('C77: of each of 2,000 instant jobs settles', async () => {
    const { open, pass } = world()
    const scheduler = open(50)
    const jobs = Array.from({ length: 2_000 }, (_, n) => ({ execute: () => n }))
    const handles = await scheduler.addJobs(jobs)
    const results = await pass(Promise.all(handles.map((handle) => handle.result())))
    expect(results).toEqual(jobs.map((_, n) => n))
  })

  it('C45: leaves no listener on a signal that outlives it, however many share it', async () => {
    const { open, pass } = world()
    const scheduler = open(100)
    const { signal } = new AbortController()
    for (let n = 0; n < 500; n += 1) {
      const handle = await scheduler.addJob({ execute: () => n })
      expect(await pass(handle.result({ signal }))).toBe(n)
      expect(listeners(signal)).toBe(0)
    }
    const handles = await scheduler.addJobs(Array.from({ length: 100 }, () => noop))
    const results = handles.map((handle) => handle.result({ signal }))
    expect(listeners(signal)).toBeLessThanOrEqual(100)
    await pass(Promise.all(results))
    expect(listeners(signal)).toBe(0)
  })

  it('rejects with the code, the message and the rebuilt error of the handler', async () => {
    const { open, fails } = world()
    const scheduler = open()
    const failure = Object.assign(new TypeError('no such account'), { code: 'E_ACCOUNT' })
    const handle = await scheduler.addJob({
      execute: () => {
        throw failure
      },
    })
    const error = await fails(handle.result())
    expect(error).toMatchObject({ code: 'E_ACCOUNT', message: 'no such account' })
    expect(error.cause).toMatchObject({ name: 'TypeError', code: 'E_ACCOUNT' })
    expect((await handle.job()).error).toMatchObject({ name: 'TypeError', code: 'E_ACCOUNT' })
  })
})

describe('a batch', () => {
  it('answers in order, and may be empty', async () => {
    const { open, pass } = world()
    const scheduler = open()
    expect(await pass(scheduler.addJobs([]))).toEqual([])
    const handles = await scheduler.addJobs(['c', 'a', 'b'].map((id) => ({ id, ...noop })))
    expect(handles.map(({ id, added }) => [id, added])).toEqual([
      ['c', true],
      ['a', true],
      ['b', true],
    ])
  })

  it('C67: is all or nothing, and names the one that is wrong', async () => {
    const { open, fails } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJob({ id: 'there', type: 't', payload: 1 })
    const good = (id: string): JobInput => ({ id, type: 't' })
    const bad: [string, JobInput][] = [
      ['INVALID_JOB', { id: 'x', type: 't', priority: 101 }],
      ['DUPLICATE_ID', { id: 'there', type: 't', payload: 2 }],
      ['DUPLICATE_ID', good('one')],
    ]
    for (const [code, job] of bad) {
      const batch = [good('one'), good('two'), good('three'), job, good('five')]
      const error = await fails(scheduler.addJobs(batch))
      expect(error).toMatchObject({ code, index: 3 })
      expect(error.message).toContain('jobs[3]')
    }
    expect((await all(scheduler.jobs())).map(({ id }) => id)).toEqual(['there'])
  })

  it('C67: that meets a store that fails is stored once, however often it is sent again', async () => {
    const { fails, open, pass, store } = world()
    const link = faulty(store())
    const scheduler = open({ store: link.store, autoStart: false })
    await scheduler.snapshot()
    const jobs = Array.from({ length: 1_000 }, (_, n) => ({ id: `job-${n}`, type: 't' }))
    for (const fate of ['refuse', 'lose-answer'] as const) {
      link.decide = (call) => (call === 'insert' ? fate : 'ok')
      expect((await fails(scheduler.addJobs(jobs))).code).toBe('STORE_UNAVAILABLE')
    }
    link.decide = () => 'ok'
    const handles = await pass(scheduler.addJobs(jobs))
    expect(handles.every(({ added }) => !added)).toBe(true)
    expect((await scheduler.snapshot()).total).toBe(1_000)
  })

  it('takes up to 10,000 jobs and 100,000 dependencies, and says so above', async () => {
    const { open, fails } = world()
    const scheduler = open({ autoStart: false })
    const jobs = Array.from({ length: 10_001 }, () => ({ type: 't' }))
    const large = await fails(scheduler.addJobs(jobs))
    expect(large).toMatchObject({ code: 'TOO_LARGE', size: 10_001, limit: 10_000 })
    const deps = Array.from({ length: 50_001 }, (_, n) => `d${n}`)
    const edges = await fails(
      scheduler.addJobs([
        { type: 't', deps },
        { type: 't', deps },
      ]),
    )
    expect(edges).toMatchObject({ code: 'TOO_LARGE', size: 100_002, limit: 100_000 })
    expect((await fails(scheduler.addJobs({} as never))).code).toBe('INVALID_JOB')
    expect(await scheduler.addJobs(jobs.slice(1))).toHaveLength(10_000)
    expect((await scheduler.snapshot()).total).toBe(10_000)
  })

  it('C84: refuses what would be ignored, by name, and stores nothing', async () => {
    const { open, fails } = world()
    const scheduler = open({ autoStart: false })
    const wrong: [unknown, RegExp][] = [
      [{ type: 't', backof: {} }, /backof.*backoff/],
      [{ type: 't', retries: 1, backoff: { type: 'exponential', base: 100 } }, /base.*delay/],
      [{ type: 't', retries: 3, backoff: { type: 'exp' } }, /exp.*exponential/],
      [{ type: 't', backoff: { type: 'fixed' } }, /backoff.*retries/],
      [{ type: 't', dependsOn: ['a'] }, /dependsOn.*deps/],
    ]
    for (const [job, text] of wrong) {
      const error = await fails(scheduler.addJob(job as JobInput))
      expect(error.code).toBe('INVALID_JOB')
      expect(error.message).toMatch(text)
    }
    expect((await scheduler.snapshot()).total).toBe(0)
    for (const options of [
      { concurency: 3 },
      { pools: { a: { concurrent: 1 } } },
      { keep: { x: 1 } },
    ]) {
      expect(() => open(options as never)).toThrowError(/concurrency|keep/)
    }
  })
})

describe('an id', () => {
  const ids = ['123', '00123', '1e3', 'a:b', 'a/b', '@s/p', '__proto__', 'constructor', '🚀', ' x']

  it('C82: is any text, and no two texts are one', async () => {
    const { open, pass, fails } = world()
    const scheduler = open()
    const jobs: JobInput[] = ids.map((id) => ({ id, execute: () => id }))
    const minted = Array.from({ length: 1_000 }, () => ({ execute: () => 0 }))
    const all = { id: 'all', deps: ids, execute: ({ deps }: { deps: object }) => ({ ...deps }) }
    const handles = await scheduler.addJobs([...jobs, ...minted, all as JobInput])
    expect(new Set(handles.map(({ id }) => id)).size).toBe(1_011)
    const result = (await pass(handles.at(-1)?.result() as Promise<unknown>)) as object
    expect(Object.entries(result)).toHaveLength(ids.length)
    for (const id of ids) expect(Object.getOwnPropertyDescriptor(result, id)?.value).toBe(id)
    for (const id of ['', 7, 'x'.repeat(256), 'nul\0'] as string[]) {
      expect((await fails(scheduler.addJob({ id, ...noop }))).code).toBe('INVALID_JOB')
    }
  })

  it('that is there already answers with the job, if it is the same', async () => {
    const { open, fails } = world()
    const scheduler = open({ autoStart: false })
    await scheduler.addJob({ id: 'a', type: 't', payload: { n: 1 } })
    const again = await scheduler.addJob({ id: 'a', type: 't', payload: { n: 1 }, priority: 90 })
    expect(again.added).toBe(false)
    expect((await again.job()).priority).toBe(50)
    for (const other of [
      { type: 'u', payload: { n: 1 } },
      { type: 't', payload: { n: 2 } },
    ]) {
      const error = await fails(scheduler.addJob({ id: 'a', ...other }))
      expect(error).toMatchObject({ code: 'DUPLICATE_ID', jobId: 'a' })
      expect(error.message).not.toContain('jobs[')
    }
  })

  it('DQ-11: is free again once the record has been forgotten, though nothing else happens', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ keep: { success: '1h' } })
    scheduler.define<number, number>('t', ({ payload }) => payload)
    const first = await scheduler.addJob({ id: 'obj-7', type: 't', payload: 1 })
    expect(await pass(first.result())).toBe(1)
    await runtime.advance(30 * 60_000)
    const within = await scheduler.addJob({ id: 'obj-7', type: 't', payload: 1 })
    expect(within.added).toBe(false)
    expect((await within.job()).status).toBe('success')
    await runtime.advance(90 * 60_000)
    const after = await scheduler.addJob({ id: 'obj-7', type: 't', payload: 2 })
    expect(after.added).toBe(true)
    expect(await pass(after.result())).toBe(2)
  })
})

describe('odd values', () => {
  it('ES-16: in a payload are refused where they stand, and nothing is stored', async () => {
    const { open, fails } = world()
    const scheduler = open({ autoStart: false })
    const loop: { self?: object } = {}
    loop.self = loop
    const odd = [{ a: { b: undefined } }, { f: () => 1 }, loop, [Number.NaN], { n: 1n }, new Map()]
    for (const payload of odd) {
      const error = await fails(scheduler.addJob({ type: 't', payload }))
      expect(error.code).toBe('INVALID_JOB')
      expect(error.message).toContain('payload')
    }
    const large = await fails(scheduler.addJob({ type: 't', payload: 'x'.repeat(1_000_001) }))
    expect(large.code).toBe('TOO_LARGE')
    expect((await scheduler.snapshot()).total).toBe(0)
    await scheduler.addJob({ id: 'nul', type: 't', payload: { text: 'a\0b', list: [] } })
    expect((await scheduler.job('nul'))?.payload).toEqual({ text: 'a\0b', list: [] })
  })

  it('ES-16: as a result fail the job once, whatever its retries', async () => {
    const { open, fails, pass } = world()
    const scheduler = open()
    let starts = 0
    scheduler.define<string, unknown>('odd', { retries: 3 }, ({ payload }) => {
      starts += 1
      return payload === 'large' ? 'x'.repeat(1_000_001) : { at: 1n }
    })
    const odd = await scheduler.addJob({ type: 'odd', payload: 'odd' })
    const large = await scheduler.addJob({ type: 'odd', payload: 'large' })
    const error = await fails(odd.result())
    expect(error.code).toBe('UNSTORABLE')
    expect(error.message).toContain('result.at')
    expect((await fails(large.result())).code).toBe('TOO_LARGE')
    await pass(scheduler.idle())
    expect(starts).toBe(2)
    expect(await logOf(scheduler, odd.id)).toEqual([
      'job:added new>ready',
      'job:running ready>running',
      'job:failed running>failed',
    ])
  })

  it('undefined as a result is a success without a result', async () => {
    const { open, pass } = world()
    const scheduler = open()
    scheduler.define('nothing', () => undefined)
    const handle = await scheduler.addJob({ type: 'nothing' })
    expect(await pass(handle.result())).toBe(undefined)
    expect('result' in (await handle.job())).toBe(false)
  })
})

describe('the gateway', () => {
  it('submits, cancels and asks, and knows what it does not know', async () => {
    const { open, fails, pass } = world()
    const scheduler = open()
    const gateway = new TaskGateway(scheduler)
    const id = await gateway.submit({ execute: () => 1 })
    await pass(scheduler.idle())
    expect(await gateway.getStatus(id)).toBe('success')
    const other = await gateway.submit({ delay: '1h', ...noop })
    expect(await gateway.getStatus(other)).toBe('pending')
    expect(await gateway.cancel(other)).toBe(undefined)
    expect(await gateway.cancel(other)).toBe(undefined)
    expect(await gateway.getStatus(other)).toBe('cancelled')
    expect((await fails(gateway.getStatus('nobody'))).code).toBe('UNKNOWN_JOB')
    expect((await fails(gateway.cancel('nobody'))).code).toBe('UNKNOWN_JOB')
  })

  it('with a key answers the id of the owner', async () => {
    const { open } = world()
    const gateway = new TaskGateway(open({ autoStart: false }))
    const first = await gateway.submit({ type: 't', key: 'k' })
    expect(await gateway.submit({ type: 't', key: 'k' })).toBe(first)
  })
})

describe('addMany', () => {
  it('pulls from a source only as its jobs are stored, a thousand at a time', async () => {
    const { open, pass } = world()
    const scheduler = open()
    scheduler.define('t', () => {})
    let pulled = 0
    let ahead = 0
    const source = async function* () {
      for (; pulled < 2_500; pulled += 1) {
        const { total } = await scheduler.snapshot()
        ahead = Math.max(ahead, pulled - total)
        yield { type: 't', id: pulled === 2_499 ? 'j0' : `j${pulled}` }
      }
    }
    expect(await pass(scheduler.addMany(source()))).toBe(2_499)
    expect(ahead).toBeLessThanOrEqual(1_000)
    await pass(scheduler.idle())
    expect((await scheduler.snapshot()).states.success).toBe(2_499)
  })

  it('refuses what is no source of jobs', async () => {
    const scheduler = world().open()
    expect(await codeOf(scheduler.addMany(null as never))).toBe('INVALID_JOB')
    expect(await codeOf(scheduler.addJobs([undefined as never]))).toBe('INVALID_JOB')
  })
})

describe('a payload', () => {
  it('is what it was at the call, for the first job as for every other', async () => {
    const { open, pass } = world()
    const scheduler = open()
    scheduler.define('t', ({ payload }) => payload)
    const payload = { n: 1 }
    const first = scheduler.addJob({ type: 't', payload })
    const batch = scheduler.addJobs([{ type: 't', payload }])
    payload.n = 2
    const handles = [await pass(first), ...(await pass(batch))]
    const results = await pass(Promise.all(handles.map((handle) => handle.result())))
    expect(results).toEqual([{ n: 1 }, { n: 1 }])
  })
})

describe('limits', () => {
  it('are options, of a payload and of a result', async () => {
    const { open, pass } = world()
    const scheduler = open({ limits: { payload: 20, result: 10 } })
    scheduler.define('t', ({ payload }) => payload)
    expect(await codeOf(scheduler.addJob({ type: 't', payload: 'x'.repeat(19) }))).toBe('TOO_LARGE')
    const handle = await pass(scheduler.addJob({ type: 't', payload: 'x'.repeat(10) }))
    expect(await codeOf(pass(handle.result()))).toBe('TOO_LARGE')
  })
})
