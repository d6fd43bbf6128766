// Owns the promise about what is not an option: every function of the toolkit says so, with a
// typed error that names the thing and the value, and has done nothing.

import { describe, expect, it } from 'vitest'
import { AxError, isAxError } from '../../src/core/errors.ts'
import { createInflight } from '../../src/kit/inflight.ts'
import { createLimiter } from '../../src/kit/limiter.ts'
import { withRetry } from '../../src/kit/retry.ts'
import { createRunner } from '../../src/kit/runner.ts'
import { withTimeout } from '../../src/kit/timeout.ts'
import { showsValue, WRONG } from '../wrong.ts'

/** How often anything ran that must not. */
let ran = 0
const task = () => {
  ran += 1
}
const { signal } = new AbortController()

interface Face {
  /** What the messages call it. */
  readonly name: string
  readonly call: (given: never) => unknown
  /** Whether it answers a promise: then that rejects. */
  readonly promises: boolean
  /** For each key: what is not one of its values. */
  readonly keys: Readonly<Record<string, readonly unknown[]>>
  /** What it needs beside the key in hand. */
  readonly base?: object
  /** Whether it can be called without options. */
  readonly optional?: boolean
  readonly wrong?: readonly unknown[]
}

const ms = [null, -1, Number.NaN, 'soon', {}, []]
const count = [null, -1, 1.5, '3', {}, Number.NaN]
const flag = [null, 0, 'true', {}]
const callable = [null, 5, 'x', {}]
const object = [null, 5, 'x', [], signal, { what: 1 }]
const signals = [null, 5, 'x', {}, new AbortController()]
const runtime = [null, 5, 'x', {}, { now: Date.now }]
const overflow = [null, 'drop', true]

const retry = {
  retries: count,
  baseDelay: ms,
  maxDelay: ms,
  factor: [null, 0.5, '2', Number.POSITIVE_INFINITY],
  jitter: [null, 1, 'full'],
  isRetryable: callable,
  signal: signals,
  onRetry: callable,
}

const limit = createLimiter(1)
const inflight = createInflight()
const runner = createRunner({ concurrency: 1 })

const faces: readonly Face[] = [
  {
    name: 'createLimiter',
    call: (given) => createLimiter(1, given),
    promises: false,
    optional: true,
    keys: {
      maxQueue: count,
      overflow,
      enqueueTimeout: ms,
      nested: [null, 'wait', true],
      runtime,
    },
  },
  {
    name: 'limit',
    call: (given) => limit(task, given),
    promises: true,
    optional: true,
    keys: { priority: [...count, 0, 101], signal: signals, enqueueTimeout: ms },
  },
  {
    name: 'map',
    call: (given) => limit.map([1], task, given),
    promises: false,
    optional: true,
    keys: { ordered: flag, buffer: count, signal: signals },
  },
  {
    name: 'withRetry',
    call: (given) => withRetry(task, given),
    promises: true,
    optional: true,
    keys: { ...retry, runtime },
  },
  {
    name: 'withTimeout',
    call: (given) => withTimeout(task, 5, given),
    promises: true,
    optional: true,
    keys: { signal: signals, runtime },
  },
  {
    name: 'inflight',
    call: (given) => inflight('key', task, given),
    promises: true,
    optional: true,
    keys: { signal: signals },
  },
  {
    name: 'createRunner',
    call: (given) => createRunner(given),
    promises: false,
    base: { concurrency: 1 },
    keys: {
      concurrency: [null, 0, '1', [], {}, signal, undefined],
      maxQueue: count,
      overflow,
      enqueueTimeout: ms,
      timeoutMs: ms,
      graceMs: ms,
      maxZombies: count,
      retry: object,
      idempotent: flag,
      confirm: callable,
      remember: [...object, {}, { ms: null }, { ms: 5, max: null }, { ms: 5, max: 0 }],
      breaker: object,
      onAttempt: callable,
      logger: [null, 5, 'x', [], {}, { info: task, warn: task }],
      runtime,
    },
  },
  {
    name: 'retry of createRunner',
    call: (given) => createRunner({ concurrency: 1, retry: given }),
    promises: false,
    optional: true,
    keys: { ...retry, inSlot: flag, inSlotConcurrency: [null, 0, '1'] },
  },
  {
    name: 'concurrency of createRunner',
    call: (given) => createRunner({ concurrency: given }),
    promises: false,
    base: { min: 1, max: 5 },
    wrong: WRONG.filter((given) => given !== 5),
    keys: { min: [...count, 0], max: [...count, 0], initial: [...count, 0, 6] },
  },
  {
    name: 'breaker of createRunner',
    call: (given) => createRunner({ concurrency: 1, breaker: given }),
    promises: false,
    optional: true,
    keys: {
      failures: [...count, 0],
      failureRate: [null, 0, 2, '0.5'],
      window: [5, null, '20'],
      resetMs: ms,
    },
  },
  {
    name: 'runner',
    call: (given) => runner('key', task, given),
    promises: true,
    optional: true,
    keys: {
      timeoutMs: ms,
      retry: [...object, { inSlotConcurrency: 1 }],
      signal: signals,
      priority: [...count, 0, 101],
      idempotent: flag,
    },
  },
  {
    name: 'retry of runner',
    call: (given) => runner('key', task, { retry: given }),
    promises: true,
    optional: true,
    keys: { ...retry, inSlot: flag },
  },
  {
    name: 'batch',
    call: (given) => runner.batch([1], task, given),
    promises: true,
    optional: true,
    keys: { key: callable, stopWhen: [...object, {}, { window: 5 }] },
  },
  {
    name: 'stopWhen of batch',
    call: (given) => runner.batch([1], task, { stopWhen: given }),
    promises: true,
    optional: true,
    base: { failureRate: 0.5 },
    keys: {
      consecutiveFailures: [...count, 0],
      failureRate: [null, 0, 2, '0.5'],
      window: [...count, 0],
    },
  },
  {
    name: 'remember of createRunner',
    call: (given) => createRunner({ concurrency: 1, remember: given }),
    promises: false,
    optional: true,
    base: { ms: 5 },
    keys: { ms: [...ms, undefined], max: [...count, 0] },
  },
]

/** The error a call ends with, and whether it was thrown. */
async function endOf(call: () => unknown): Promise<{ error: unknown; thrown: boolean }> {
  let answer: unknown
  try {
    answer = call()
  } catch (error) {
    return { error, thrown: true }
  }
  try {
    await answer
  } catch (error) {
    return { error, thrown: false }
  }
  return { error: 'none', thrown: false }
}

async function refusal(face: Face, given: unknown): Promise<AxError> {
  const { error, thrown } = await endOf(() => face.call(given as never))
  expect(error, `${face.name} with ${String(given)}`).toBeInstanceOf(AxError)
  expect([thrown, (error as AxError).code]).toEqual([!face.promises, 'INVALID_OPTION'])
  return error as AxError
}

describe.each(faces)('the options of $name', (face) => {
  it('are an object, or are refused with what they are', async () => {
    const wrong = face.wrong ?? WRONG
    for (const given of face.optional === true ? wrong : [...wrong, undefined]) {
      const { message } = await refusal(face, given)
      expect(message).toMatch(/must be (an object|a number, or|left out)|concurrency must be/)
      expect(showsValue(message, given)).toBe(true)
    }
  })

  it('have no key that is not theirs', async () => {
    const { message } = await refusal(face, { ...face.base, unheardOf: 1 })
    expect(message).toContain("'unheardOf'")
  })

  it.each(Object.entries(face.keys))('have a %s that is checked', async (key, values) => {
    for (const value of values) {
      const error = await refusal(face, { ...face.base, [key]: value })
      expect(error.message).toMatch(new RegExp(`${key}|what|inSlot`))
    }
  })

  it('are fine when they say nothing', async () => {
    const nothing = Object.fromEntries(Object.keys(face.keys).map((key) => [key, undefined]))
    const { error } = await endOf(() => face.call({ ...nothing, ...face.base } as never))
    expect(error).toBe('none')
    if (face.optional === true) {
      expect((await endOf(() => face.call(undefined as never))).error).toBe('none')
    }
  })
})

describe('what was refused', () => {
  it('has run nothing, and is counted nowhere', async () => {
    ran = 0
    const before = runner.stats()
    for (const face of faces) {
      await endOf(() => face.call(null as never))
      for (const key of Object.keys(face.keys)) {
        await endOf(() => face.call({ ...face.base, [key]: null } as never))
      }
    }
    expect(ran).toBe(0)
    expect(limit.stats()).toEqual({ active: 0, waiting: 0, concurrency: 1 })
    expect(runner.stats()).toEqual({ ...before, throughput: expect.any(Number) })
    expect(inflight.size).toBe(0)
  })

  it('is said with the remedy', async () => {
    const messages = await Promise.all(
      [
        () => runner.batch([1], task, { stopWhen: {} }),
        () => runner('key', task, { retry: { inSlotConcurrency: 1 } as object }),
        () => limit(task, signal as object),
        () => createLimiter(1, { overflow: 'waits' as never }),
        () => createLimiter(1, { overflow: 'wait' }),
      ].map(async (call) => ((await endOf(call)).error as AxError).message),
    )
    expect(messages).toEqual([
      'stopWhen must be left out, or say consecutiveFailures or failureRate, got {}.',
      'inSlotConcurrency must be left out of a call: it is for all calls, so give it to ' +
        'createRunner, got 1.',
      'The options of limit must be an object, got [object AbortSignal]. Valid keys: priority, ' +
        'signal, enqueueTimeout.',
      "overflow must be 'reject' or 'wait' (did you mean 'wait'?), got \"waits\".",
      'overflow must be left out, or given together with maxQueue: no queue is full without it, ' +
        'got "wait".',
    ])
  })

  it.each([
    ['a limiter', () => createLimiter(1)],
    ['a runner', () => createRunner({ concurrency: 1 })],
  ])('leaves the concurrency of %s as it was', (_, make) => {
    const made = make()
    for (const wrong of [null, '5', 0, -1, 1.5, {}, []]) {
      const set = () => {
        made.concurrency = wrong as number
      }
      expect(set).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    }
    expect(made.concurrency).toBe(1)
  })

  it.each([
    ['withRetry', () => withRetry(null as never)],
    ['withTimeout', () => withTimeout(null as never, 5)],
    ['withTimeout (its limit)', () => withTimeout(task, null as never)],
    ['limit', () => limit(null as never)],
    ['limit.map', () => limit.map([1], null as never)],
    ['limit.map (its source)', () => limit.map(null as never, task)],
    ['inflight', () => inflight('key', null as never)],
    ['inflight (its key)', () => inflight(null as never, task)],
    ['runner', () => runner('key', null as never)],
    ['runner (its key)', () => runner(null as never, task)],
    ['batch', () => runner.batch([1], null as never)],
    ['batch (its items)', () => runner.batch(null as never, task)],
  ])('was no task, no key, no source: %s', async (_, call) => {
    expect(isAxError((await endOf(call)).error, 'INVALID_OPTION')).toBe(true)
  })

  it('leaves an error an error, whatever its details are', () => {
    for (const details of [null, 5, 'x', undefined] as never[]) {
      const error = new AxError('LOST', 'gone', details)
      expect([error.code, error.retryable, error.message]).toEqual(['LOST', true, 'gone'])
    }
  })
})
