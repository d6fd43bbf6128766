// Owns the promises about outcomes that nobody knows: who is asked, when, and what follows.

import { describe, expect, it } from 'vitest'
import type { Confirmed, JobContext, TypePolicy } from '../../src/core/types.ts'
import { body, cluster, codeOf, ignores, logOf, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const FIXED = { type: 'fixed', delay: '1s', jitter: false } as const

/** Answers what it is given, in order, and remembers how it was asked. */
function asking(...answers: (Confirmed | Error | (() => unknown))[]) {
  const asked: { readonly id: string; readonly attempts: number; readonly signal: AbortSignal }[] =
    []
  const confirm: TypePolicy['confirm'] = async ({ job, signal }) => {
    asked.push({ id: job.id, attempts: job.attempts, signal })
    const answer = answers.shift() ?? new Error('asked too often')
    if (answer instanceof Error) throw answer
    return (typeof answer === 'function' ? await answer() : answer) as Confirmed
  }
  return { asked, confirm }
}

/** A body that hangs in its first attempt, and ends at once in those that follow. */
function hangsFirst(runtime: Parameters<typeof takes>[0]) {
  const starts: number[] = []
  const handler = (context: JobContext) => {
    starts.push(context.attempt)
    return starts.length === 1 ? takes(runtime, 60_000)(context) : 'from the body'
  }
  return { starts, handler }
}

describe('after a timeout, the type is asked whether the attempt took effect', () => {
  it('and if it did, that is the result: the body is not called again', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { asked, confirm } = asking({ done: true, result: { paid: 5 } })
    const { starts, handler } = hangsFirst(runtime)
    const policy = {
      confirm,
      idempotent: false,
      retries: 1,
      backoff: FIXED,
      timeout: '1s',
    } as const
    scheduler.define('pay', policy, handler)
    const handle = await scheduler.addJob({ id: 'j', type: 'pay', payload: 7 })
    expect(await pass(handle.result())).toEqual({ paid: 5 })
    expect(starts).toEqual([1])
    expect(asked).toMatchObject([{ id: 'j', attempts: 2 }])
    expect(await handle.job()).toMatchObject({
      status: 'success',
      result: { paid: 5 },
      attempts: 2,
      attemptLog: [{ outcome: 'timeout' }, { outcome: 'success' }],
    })
  })

  it('and if it did not, the body runs', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { asked, confirm } = asking({ done: false })
    const { starts, handler } = hangsFirst(runtime)
    const policy = {
      confirm,
      idempotent: false,
      retries: 1,
      backoff: FIXED,
      timeout: '1s',
    } as const
    scheduler.define('pay', policy, handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    expect(await pass(handle.result())).toBe('from the body')
    expect([starts, asked.length]).toEqual([[1, 2], 1])
  })

  it('in the slot of the next attempt, and not before that', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const times: number[] = []
    const { confirm } = asking(() => {
      times.push(runtime.monotonic())
      return { done: true, result: runtime.monotonic() }
    })
    const policy = { confirm, retries: 1, backoff: FIXED, timeout: '1s' } as const
    scheduler.define('pay', policy, hangsFirst(runtime).handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    await runtime.advance(500)
    await scheduler.addJob({ execute: takes(runtime, 10_000) })
    expect(await pass(handle.result())).toBe(11_000)
    expect(times).toEqual([11_000])
  })

  it('holding its slot meanwhile', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const { confirm } = asking(() => takes(runtime, 800, { done: false })({ signal } as JobContext))
    const { signal } = new AbortController()
    const policy = { confirm, retries: 1, backoff: FIXED, timeout: '1s' } as const
    scheduler.define('pay', policy, hangsFirst(runtime).handler)
    const handle = await scheduler.addJob({ type: 'pay', priority: 90 })
    await runtime.advance(2_000)
    const other = await scheduler.addJob({ execute: () => runtime.monotonic() })
    expect(await pass(other.result())).toBe(2_800)
    expect((await handle.job()).status).toBe('success')
  })

  it('under the timeout of the job, which counts for the question and the body together', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    const { asked, confirm } = asking(
      () => takes(runtime, 600, { done: false })({ signal: asked[0]?.signal } as JobContext),
      () => takes(runtime, 5_000)({ signal: asked[1]?.signal } as JobContext),
    )
    const starts: number[] = []
    const policy = {
      confirm,
      idempotent: false,
      retries: 2,
      backoff: FIXED,
      timeout: '1s',
    } as const
    scheduler.define('pay', policy, (context) => {
      starts.push(runtime.monotonic())
      return takes(runtime, starts.length === 1 ? 60_000 : 600)(context)
    })
    const handle = await scheduler.addJob({ type: 'pay' })
    expect((await fails(handle.result())).code).toBe('EXECUTION_TIMEOUT')
    // Attempts at 0, 2 and 4 s: a body; a question and a body that was aborted; a question.
    expect(starts).toEqual([0, 2_600])
    expect(runtime.monotonic()).toBe(5_000)
    expect(asked[1]?.signal.reason).toMatchObject({ code: 'EXECUTION_TIMEOUT' })
    expect((await handle.job()).attemptLog.map(({ callMs }) => callMs)).toEqual([1e3, 1e3, 1e3])
  })

  it('also of a job that is idempotent: asking is cheaper than doing it again', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { confirm } = asking({ done: true, result: 'found' })
    const policy = { confirm, retries: 1, backoff: FIXED, timeout: '1s' } as const
    scheduler.define('pay', policy, hangsFirst(runtime).handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    expect(await pass(handle.result())).toBe('found')
  })

  it('not where no attempt follows: then the job has failed, as it would have', async () => {
    const { open, fails, pass, runtime } = world()
    const scheduler = open()
    const { asked, confirm } = asking({ done: true, result: 'found' })
    scheduler.define('pay', { confirm, idempotent: false, timeout: '1s' }, takes(runtime, 60_000))
    const handle = await scheduler.addJob({ type: 'pay' })
    expect((await fails(handle.result())).code).toBe('EXECUTION_TIMEOUT')
    expect(asked).toEqual([])
    // But when somebody asks for another try, that one follows an unknown outcome.
    expect(await scheduler.retry(handle.id)).toBe(true)
    expect(await pass(handle.result())).toBe('found')
    expect(asked).toHaveLength(1)
  })
})

describe('after an ordinary failure', () => {
  it('nobody is asked: it is known that nothing took effect', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const { asked, confirm } = asking()
    const policy = { confirm, idempotent: false, retries: 1, backoff: FIXED } as const
    scheduler.define('pay', policy, ({ attempt }) => {
      if (attempt === 1) throw new Error('refused')
      return 'done'
    })
    const handle = await scheduler.addJob({ type: 'pay' })
    expect([await pass(handle.result()), asked]).toEqual(['done', []])
  })

  it('that followed an unknown outcome, nobody is asked any more', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { asked, confirm } = asking({ done: false })
    const policy = {
      confirm,
      idempotent: false,
      retries: 2,
      backoff: FIXED,
      timeout: '1s',
    } as const
    scheduler.define('pay', policy, (context) => {
      if (context.attempt === 1) return takes(runtime, 60_000)(context)
      if (context.attempt === 2) throw new Error('refused')
      return 'done'
    })
    const handle = await scheduler.addJob({ type: 'pay' })
    expect([await pass(handle.result()), asked.length]).toEqual(['done', 1])
  })
})

describe('a question that fails', () => {
  it('is a failed attempt, and is asked again: the outcome is as unknown as before', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { asked, confirm } = asking(new Error('away'), { done: true, result: 'found' })
    const { starts, handler } = hangsFirst(runtime)
    const policy = {
      confirm,
      idempotent: false,
      retries: 2,
      backoff: FIXED,
      timeout: '1s',
    } as const
    scheduler.define('pay', policy, handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    expect(await pass(handle.result())).toBe('found')
    expect([starts, asked.length]).toEqual([[1], 2])
    expect((await handle.job()).attemptLog.map(({ outcome }) => outcome)).toEqual([
      'timeout',
      'failure',
      'success',
    ])
  })

  it('ends the job where no attempt is left, and then it is still unknown', async () => {
    const { open, fails, pass, runtime } = world()
    const scheduler = open()
    const away = Object.assign(new Error('away'), { code: 'AWAY' })
    const { asked, confirm } = asking(away, { done: true, result: 'found' })
    const { starts, handler } = hangsFirst(runtime)
    const policy = {
      confirm,
      idempotent: false,
      retries: 1,
      backoff: FIXED,
      timeout: '1s',
    } as const
    scheduler.define('pay', policy, handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    expect(await fails(handle.result())).toMatchObject({ code: 'AWAY', message: 'away' })
    expect(await scheduler.retry(handle.id)).toBe(true)
    expect(await pass(handle.result())).toBe('found')
    expect([starts, asked.length]).toEqual([[1], 2])
  })

  it('is one that is answered with nonsense: no body runs on a guess', async () => {
    for (const answer of [undefined, true, {}, { done: 'yes' }, null]) {
      const { open, fails, runtime } = world()
      const scheduler = open()
      const { confirm } = asking(() => answer)
      const { starts, handler } = hangsFirst(runtime)
      const policy = {
        confirm,
        idempotent: false,
        retries: 3,
        backoff: FIXED,
        timeout: '1s',
      } as const
      scheduler.define('pay', policy, handler)
      const error = await fails((await scheduler.addJob({ type: 'pay' })).result())
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(error.message).toContain('{ done: true, result }')
      expect(starts).toEqual([1])
    }
  })

  it('may throw at once, and is left to the rule of its type', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open()
    const policy = {
      confirm: () => {
        throw new Error('at once')
      },
      retryable: () => false,
      retries: 3,
      backoff: FIXED,
      timeout: '1s',
    } as const
    scheduler.define('pay', policy, takes(runtime, 60_000))
    const handle = await scheduler.addJob({ type: 'pay' })
    expect((await fails(handle.result())).message).toBe('at once')
    expect((await handle.job()).attempts).toBe(2)
  })

  it('that does not stop is a zombie like any body, and its late answer changes nothing', async () => {
    const { open, fails, runtime } = world()
    const scheduler = open({ concurrency: 1, graceMs: '5s' })
    const { confirm } = asking(() => ignores(runtime, 60_000, { done: true, result: 'late' })())
    const { starts, handler } = hangsFirst(runtime)
    const policy = { confirm, retries: 1, backoff: FIXED, timeout: '1s' } as const
    scheduler.define('pay', policy, handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    expect((await fails(handle.result())).code).toBe('EXECUTION_TIMEOUT')
    expect(runtime.monotonic()).toBe(8_000)
    expect(scheduler.zombies()).toMatchObject([{ id: handle.id, attempt: 2 }])
    await runtime.advance(60_000)
    expect(scheduler.zombies()).toEqual([])
    expect([(await handle.job()).status, starts]).toEqual(['failed', [1]])
  })
})

describe('the type is asked as well', () => {
  it('after a heartbeat that was lost', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const { confirm } = asking({ done: true, result: 'found' })
    const policy = {
      confirm,
      idempotent: false,
      retries: 1,
      backoff: FIXED,
      heartbeat: '1s',
    } as const
    scheduler.define('pay', policy, hangsFirst(runtime).handler)
    expect(await pass((await scheduler.addJob({ type: 'pay' })).result())).toBe('found')
  })

  it('after a worker that was lost, by whoever runs the job next', async () => {
    const { nodes, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    const { asked, confirm } = asking({ done: true, result: 'found' })
    const policy = { confirm, idempotent: false } as const
    w1.scheduler.define('pay', policy, ignores(runtime, 1e9))
    w2.scheduler.define('pay', policy, () => 'never')
    await w1.scheduler.start()
    const { id } = await w1.scheduler.addJob({ type: 'pay' })
    await runtime.advance(1)
    await w2.scheduler.start()
    w1.stall()
    await runtime.advance(20_000)
    expect(await w2.scheduler.job(id)).toMatchObject({
      status: 'success',
      result: 'found',
      lost: 1,
    })
    expect(asked).toHaveLength(1)
  })

  it('after a stop that aborted the body', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    const { asked, confirm } = asking({ done: false })
    const policy = { confirm, idempotent: false } as const
    w1.scheduler.define('pay', policy, takes(runtime, 1e6))
    w2.scheduler.define('pay', policy, () => 'from the body')
    await w1.scheduler.start()
    const { id } = await w1.scheduler.addJob({ type: 'pay' })
    await runtime.advance(1)
    await pass(w1.scheduler.close({ drainMs: 0 }))
    await w2.scheduler.start()
    await pass(w2.scheduler.idle())
    expect(await w2.scheduler.job(id)).toMatchObject({ result: 'from the body', attempts: 1 })
    expect(asked).toMatchObject([{ id, attempts: 1 }])
  })

  it('again, if a stop came while it was being asked: nothing had begun', async () => {
    const { nodes, pass, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    const { asked, confirm } = asking(
      () => takes(runtime, 60_000)({ signal: asked[0]?.signal } as JobContext),
      { done: true, result: 'found' },
    )
    const policy = {
      confirm,
      idempotent: false,
      retries: 1,
      backoff: FIXED,
      timeout: '1s',
    } as const
    w1.scheduler.define('pay', policy, takes(runtime, 1e6))
    w2.scheduler.define('pay', policy, () => 'never')
    await w1.scheduler.start()
    const { id } = await w1.scheduler.addJob({ type: 'pay' })
    await runtime.advance(2_500)
    expect(asked).toHaveLength(1)
    await pass(w1.scheduler.close({ drainMs: 0 }))
    await w2.scheduler.start()
    await pass(w2.scheduler.idle())
    expect(await w2.scheduler.job(id)).toMatchObject({ result: 'found', attempts: 2 })
    expect(asked).toHaveLength(2)
    expect(await logOf(w2.scheduler, id)).toContain('job:returned running>ready')
  })
})

describe('a worker that cannot ask', () => {
  it('does not run a job that may not be repeated: OUTCOME_UNKNOWN, with what to do', async () => {
    const { nodes, fails, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    const { confirm } = asking()
    const policy = { confirm, idempotent: false, retryable: () => true } as const
    w1.scheduler.define('pay', policy, ignores(runtime, 1e9))
    let starts = 0
    w2.scheduler.define('pay', { retries: 5, retryable: () => true }, () => {
      starts += 1
    })
    await w1.scheduler.start()
    const handle = await w1.scheduler.addJob({ type: 'pay', retries: 5 })
    await runtime.advance(1)
    await w2.scheduler.start()
    w1.stall()
    await runtime.advance(20_000)
    const error = await fails(
      w2.scheduler.addJob({ id: handle.id, type: 'pay' }).then((same) => same.result()),
    )
    expect(error.code).toBe('OUTCOME_UNKNOWN')
    expect(error.message).toContain('has no confirm in this process')
    expect([starts, (await w2.scheduler.job(handle.id))?.attempts]).toEqual([0, 1])
  })

  it('runs one that is idempotent all the same', async () => {
    const { nodes, runtime } = cluster(['w1', 'w2'])
    const [w1, w2] = nodes
    const { asked, confirm } = asking()
    w1.scheduler.define('pay', { confirm }, ignores(runtime, 1e9))
    w2.scheduler.define('pay', () => 'again')
    await w1.scheduler.start()
    const { id } = await w1.scheduler.addJob({ type: 'pay' })
    await runtime.advance(1)
    await w2.scheduler.start()
    w1.stall()
    await runtime.advance(20_000)
    expect(await w2.scheduler.job(id)).toMatchObject({ result: 'again' })
    expect(asked).toEqual([])
  })
})

describe('a question in the middle of other things', () => {
  it('is aborted by a cancel, and the job stays cancelled whatever the answer', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const answer = body<Confirmed>()
    const { asked, confirm } = asking(() => answer.execute({} as JobContext))
    const policy = { confirm, retries: 1, backoff: FIXED, timeout: '10s' } as const
    const { starts, handler } = hangsFirst(runtime)
    scheduler.define('pay', policy, handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    await runtime.advance(11_500)
    expect(asked).toHaveLength(1)
    expect(await handle.cancel()).toBe(true)
    await runtime.drain()
    expect(asked[0]?.signal.reason).toMatchObject({ code: 'CANCELLED' })
    answer.end({ done: true, result: 'late' })
    expect(await pass(codeOf(handle.result()))).toBe('CANCELLED')
    expect(starts).toEqual([1])
    expect((await scheduler.snapshot()).pools.default?.running).toBe(0)
  })

  it('that was told to stop, but finds in its grace that it took effect, has the truth', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ graceMs: '5s' })
    const { confirm } = asking(() => ignores(runtime, 3_000, { done: true, result: 'found' })())
    const policy = { confirm, retries: 1, backoff: FIXED, timeout: '1s' } as const
    scheduler.define('pay', policy, hangsFirst(runtime).handler)
    expect(await pass((await scheduler.addJob({ type: 'pay' })).result())).toBe('found')
  })

  it('that was told to stop, and finds in its grace that nothing did, calls no body', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open({ graceMs: '5s' })
    const { confirm } = asking(() => ignores(runtime, 3_000, { done: false })())
    const policy = { confirm, retries: 1, backoff: FIXED, timeout: '1s' } as const
    const { starts, handler } = hangsFirst(runtime)
    scheduler.define('pay', policy, handler)
    const handle = await scheduler.addJob({ type: 'pay' })
    expect(await pass(codeOf(handle.result()))).toBe('EXECUTION_TIMEOUT')
    expect(starts).toEqual([1])
  })
})
