// Owns the promises about failures: which are worth another attempt, when, and how often.

import { describe, expect, it } from 'vitest'
import type { JobContext, JobInput } from '../../src/core/types.ts'
import { AxError } from '../../src/index.ts'
import { body, codeOf, logOf, takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

/** When a job that always fails was started, as distances from one start to the next. */
async function gapsOf(job: JobInput, seed = 1): Promise<number[]> {
  const { open, pass, runtime } = world(seed)
  const scheduler = open()
  const starts: number[] = []
  const execute = () => {
    starts.push(runtime.now())
    throw new Error('again')
  }
  const handle = await scheduler.addJob({ id: 'job', execute, ...job })
  await pass(codeOf(handle.result()))
  await scheduler.close()
  return starts.slice(1).map((at, n) => at - (starts[n] as number))
}

describe('a failure', () => {
  it('is tried again as often as the job says, and then it is final', async () => {
    const { open, fails } = world()
    const scheduler = open()
    let starts = 0
    const handle = await scheduler.addJob({
      retries: 2,
      execute: () => {
        starts += 1
        throw new Error(`failure ${starts}`)
      },
    })
    expect((await fails(handle.result())).message).toBe('failure 3')
    const job = await handle.job()
    expect(job).toMatchObject({ status: 'failed', attempts: 3 })
    expect(job.attemptLog.map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'failure'],
      [2, 'failure'],
      [3, 'failure'],
    ])
    expect(await logOf(scheduler, handle.id)).toEqual([
      'job:added new>ready',
      'job:running ready>running',
      'job:retry running>pending',
      'job:ready pending>ready',
      'job:running ready>running',
      'job:retry running>pending',
      'job:ready pending>ready',
      'job:running ready>running',
      'job:failed running>failed',
    ])
  })

  it('is kept in the log of attempts, of which a job carries the latest hundred', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const backoff = { type: 'fixed', delay: 0 } as const
    const execute = () => Promise.reject(new Error('again'))
    const handle = await scheduler.addJob({ retries: 149, backoff, execute })
    await pass(codeOf(handle.result()))
    const { attempts, attemptLog } = await handle.job()
    expect([attempts, attemptLog.length]).toEqual([150, 100])
    expect([attemptLog[0]?.attempt, attemptLog.at(-1)?.attempt]).toEqual([51, 150])
  })

  it('is final where the job has no retries, which is the default', async () => {
    expect(await gapsOf({})).toEqual([])
  })

  it('that says that it is lasting is not tried again', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const errors = [
      Object.assign(new Error('no'), { retryable: false }),
      new AxError('INVALID_JOB', 'no'),
      new AxError('CANCELLED', 'no'),
    ]
    for (const error of errors) {
      let starts = 0
      const execute = () => {
        starts += 1
        throw error
      }
      const handle = await scheduler.addJob({ retries: 5, execute })
      await pass(codeOf(handle.result()))
      expect(starts).toBe(1)
    }
  })

  it('that is an AbortError of somebody else is one like any other', async () => {
    const abort = new DOMException('somebody aborted', 'AbortError')
    const { open, pass } = world()
    const scheduler = open()
    let starts = 0
    const execute = () => {
      starts += 1
      if (starts === 1) throw abort
      return 'fine'
    }
    const handle = await scheduler.addJob({ retries: 1, execute })
    expect(await pass(handle.result())).toBe('fine')
  })

  it('is judged by the rule of its type, and by the default where the rule throws', async () => {
    const { logs, open, pass } = world()
    const scheduler = open()
    const starts: Record<string, number> = {}
    const handler = ({ payload }: JobContext<string>) => {
      starts[payload] = (starts[payload] ?? 0) + 1
      throw new Error(payload)
    }
    const retryable = (error: unknown) => {
      const { message } = error as Error
      if (message === 'broken') throw new Error('the rule is broken')
      return message === 'busy'
    }
    scheduler.define('t', { retries: 2, retryable }, handler)
    await scheduler.addJobs(['busy', 'wrong', 'broken'].map((payload) => ({ type: 't', payload })))
    await pass(scheduler.idle())
    expect(starts).toEqual({ busy: 3, wrong: 1, broken: 3 })
    expect(logs.filter(({ level }) => level === 'error').length).toBeGreaterThan(0)
  })
})

describe('the wait before the next attempt', () => {
  it('is exponential, 1 s and twice that and so on, up to 30 s, jittered downwards', async () => {
    const gaps = await gapsOf({ retries: 8 })
    const caps = [1, 2, 4, 8, 16, 30, 30, 30].map((s) => s * 1_000)
    expect(gaps).toHaveLength(8)
    for (const [n, gap] of gaps.entries()) {
      expect(gap).toBeGreaterThanOrEqual((caps[n] as number) / 2)
      expect(gap).toBeLessThanOrEqual(caps[n] as number)
    }
  })

  it('is always the same for one job, and another for another', async () => {
    expect(await gapsOf({ retries: 5 }, 1)).toEqual(await gapsOf({ retries: 5 }, 2))
    expect(await gapsOf({ retries: 5 })).not.toEqual(await gapsOf({ id: 'other', retries: 5 }))
  })

  it('is counted from the end of the failed attempt', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const starts: number[] = []
    const execute = async (context: JobContext) => {
      starts.push(runtime.monotonic())
      await takes(runtime, 700)(context)
      throw new Error('again')
    }
    const backoff = { type: 'fixed', delay: 100, jitter: false } as const
    const handle = await scheduler.addJob({ retries: 2, backoff, execute })
    await pass(codeOf(handle.result()))
    expect(starts).toEqual([0, 800, 1_600])
  })

  it('holds no slot', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const failing = await scheduler.addJob({
      retries: 1,
      execute: ({ attempt }) => {
        if (attempt === 1) throw new Error('once')
      },
    })
    const other = await scheduler.addJob({ execute: () => runtime.monotonic() })
    expect(await pass(other.result())).toBe(0)
    await pass(failing.result())
  })

  it('B25: is never shorter than what the downstream asked for', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    const starts: number[] = []
    const backoff = { type: 'fixed', delay: 100 } as const
    const execute = () => {
      starts.push(runtime.monotonic())
      throw Object.assign(new Error('slow down'), { retryAfter: starts.length === 1 ? 60_000 : 5 })
    }
    const handle = await scheduler.addJob({ retries: 2, backoff, execute })
    await pass(codeOf(handle.result()))
    const [first, second] = [starts[1] as number, (starts[2] as number) - (starts[1] as number)]
    expect(first).toBe(60_000)
    expect(second).toBeGreaterThanOrEqual(50)
    expect(second).toBeLessThanOrEqual(100)
  })

  it('may be a function of the job or of its type, of the failure and a number', async () => {
    const asked: [number, boolean][] = []
    const backoff = (failure: number, random: number) => {
      asked.push([failure, random >= 0 && random < 1])
      return failure * 1_000.5
    }
    expect(await gapsOf({ retries: 3, backoff })).toEqual([1_001, 2_001, 3_002])
    expect(asked.slice(0, 3)).toEqual([
      [1, true],
      [2, true],
      [3, true],
    ])
    const { open, pass, runtime } = world()
    const scheduler = open()
    const starts: number[] = []
    scheduler.define('t', { retries: 1, backoff: () => 77 }, () => {
      starts.push(runtime.monotonic())
      throw new Error('again')
    })
    const handle = await scheduler.addJob({ type: 't' })
    await pass(codeOf(handle.result()))
    expect(starts).toEqual([0, 77])
  })

  it('is what the job describes, although that is the default and its type has a function', async () => {
    for (const more of [{}, { delay: '1s' }]) {
      const { open, pass, runtime } = world()
      const scheduler = open()
      const starts: number[] = []
      scheduler.define('t', { retries: 1, backoff: () => 60_000 }, () => {
        starts.push(runtime.monotonic())
        throw new Error('again')
      })
      const backoff = { type: 'exponential', ...more } as const
      const handle = await scheduler.addJob({ type: 't', backoff })
      await pass(codeOf(handle.result()))
      expect(starts).toHaveLength(2)
      expect(starts[1]).toBeLessThanOrEqual(1_000)
    }
  })

  it('is that of the terms where a function throws or answers nonsense', async () => {
    for (const backoff of [
      () => {
        throw new Error('broken')
      },
      () => Number.NaN,
      () => -1,
      () => Number.POSITIVE_INFINITY,
    ]) {
      const [gap] = await gapsOf({ retries: 1, backoff })
      expect(gap).toBeGreaterThanOrEqual(500)
      expect(gap).toBeLessThanOrEqual(1_000)
    }
  })

  it('C14: grows to its cap and stays there, for 1,100 retries', async () => {
    const backoff = {
      type: 'exponential',
      delay: 300_000,
      factor: 2,
      max: 3_600_000,
      jitter: false,
    } as const
    const gaps = await gapsOf({ retries: 1_100, backoff })
    expect(gaps.slice(0, 4)).toEqual([300_000, 600_000, 1_200_000, 2_400_000])
    expect(gaps).toHaveLength(1_100)
    expect(new Set(gaps.slice(4))).toEqual(new Set([3_600_000]))
  })

  it('C15: spreads jobs that failed together, within the band, in proportion to the delay', async () => {
    const dueOf = async (delay: number) => {
      const { open, runtime } = world()
      const scheduler = open(500)
      const due: number[] = []
      const execute = ({ attempt }: JobContext) => {
        if (attempt === 1) throw new Error('together')
        due.push(runtime.monotonic())
      }
      const backoff = { type: 'exponential', delay } as const
      const jobs = Array.from({ length: 500 }, (_, n) => ({
        id: `j${n}`,
        retries: 1,
        backoff,
        execute,
      }))
      await scheduler.addJobs(jobs)
      await runtime.run()
      return due
    }
    const due = await dueOf(10_000)
    expect(due).toHaveLength(500)
    expect(Math.min(...due)).toBeGreaterThanOrEqual(5_000)
    expect(Math.max(...due)).toBeLessThanOrEqual(10_000)
    expect(new Set(due).size).toBeGreaterThan(400)
    const buckets = new Map<number, number>()
    for (const at of due) {
      const bucket = Math.floor(at / 100)
      buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1)
    }
    expect(Math.max(...buckets.values())).toBeLessThanOrEqual(25)
    expect(await dueOf(10_000)).toEqual(due)
    const quick = await dueOf(1_000)
    expect(Math.min(...quick)).toBeGreaterThanOrEqual(500)
    expect(Math.max(...quick)).toBeLessThanOrEqual(1_000)
  })

  it('C16: ends at once when the job is cancelled', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open()
    let starts = 0
    const execute = () => {
      starts += 1
      throw new Error('again')
    }
    const handle = await scheduler.addJob({
      retries: 1,
      backoff: { type: 'fixed', delay: '10s' },
      execute,
    })
    const end = handle.result().catch((error: unknown) => [runtime.monotonic(), error])
    await runtime.advance(100)
    expect((await handle.job()).status).toBe('pending')
    expect(await handle.cancel('reason R')).toBe(true)
    expect(await pass(end)).toEqual([
      100,
      expect.objectContaining({ code: 'CANCELLED', message: 'reason R' }),
    ])
    await runtime.run()
    expect(starts).toBe(1)
    expect(runtime.pending()).toBe(0)
  })

  it('B24: is not followed by an attempt that was cancelled while it queued', async () => {
    const { open, pass, runtime } = world()
    const scheduler = open(1)
    const first = body()
    const handle = await scheduler.addJob({
      retries: 1,
      backoff: { type: 'fixed', delay: 10 },
      execute: first.execute,
    })
    await runtime.drain()
    first.fail(new Error('once'))
    await runtime.drain()
    const blocker = body()
    await scheduler.addJob({ execute: blocker.execute })
    await runtime.advance(20)
    expect((await handle.job()).status).toBe('ready')
    expect(await handle.cancel()).toBe(true)
    blocker.end(undefined)
    await pass(scheduler.idle())
    expect(first.starts).toHaveLength(1)
    const job = await handle.job()
    expect(job.attemptLog.map(({ outcome }) => outcome)).toEqual(['failure'])
  })
})

describe('retry', () => {
  it('runs a failed job again: numbering goes on, the allowance is fresh', async () => {
    const { open, pass, fails } = world()
    const scheduler = open()
    const attempts: number[] = []
    let broken = true
    const handle = await scheduler.addJob({
      retries: 1,
      execute: ({ attempt }) => {
        attempts.push(attempt)
        if (broken || attempt === 3) throw new Error('broken')
        return 'mended'
      },
    })
    await fails(handle.result())
    broken = false
    expect(await scheduler.retry(handle.id)).toBe(true)
    expect(await pass(handle.result())).toBe('mended')
    expect(attempts).toEqual([1, 2, 3, 4])
    const job = await handle.job()
    expect(job).toMatchObject({ status: 'success', attempts: 4 })
    expect('error' in job).toBe(false)
    expect(await scheduler.retry(handle.id)).toBe(false)
    expect((await fails(scheduler.retry('nobody'))).code).toBe('UNKNOWN_JOB')
  })

  it('runs a cancelled job again', async () => {
    const { open, pass } = world()
    const scheduler = open()
    const handle = await scheduler.addJob({ delay: '1h', execute: () => 'ran' })
    await handle.cancel()
    expect(await scheduler.retry(handle.id)).toBe(true)
    expect(await pass(handle.result())).toBe('ran')
  })

  it('changes nothing about a job that has not ended', async () => {
    const { open } = world()
    const scheduler = open({ autoStart: false })
    const ready = await scheduler.addJob({ type: 't' })
    const pending = await scheduler.addJob({ type: 't', delay: '1h' })
    for (const { id } of [ready, pending]) expect(await scheduler.retry(id)).toBe(false)
  })

  it('refuses a wrong option by name', async () => {
    const { open, fails } = world()
    const error = await fails(open().retry('x', { downstrem: true } as never))
    expect(error.message).toContain('downstream')
  })
})
