// Owns the promise about what is not an option of the scheduler: every one of its functions says
// so, with a typed error that names the thing and the value, and has done nothing.

import { afterAll, describe, expect, it } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import { AxScheduler, memoryStore, TaskGateway } from '../../src/index.ts'
import { showsValue, WRONG } from '../wrong.ts'

let ran = 0
const task = () => {
  ran += 1
}

/** Never started by what is refused: a store that is asked for anything says so. */
const calls: string[] = []
const inner = memoryStore()
const store = new Proxy(inner, {
  get(target, name) {
    const value = Reflect.get(target, name) as unknown
    if (typeof value !== 'function') return value
    return (...args: unknown[]) => {
      calls.push(String(name))
      return value.apply(target, args)
    }
  },
})
const scheduler = new AxScheduler({ store })
const typed = scheduler.define('typed', task)
const gateway = new TaskGateway(scheduler)
const working = new AxScheduler()
const handle = await working.addJob({ execute: task })
afterAll(async () => {
  await Promise.all([scheduler.close(), working.close()])
  await inner.close()
})

interface Face {
  readonly name: string
  readonly call: (given: never) => unknown
  readonly answers: 'now' | 'promise' | 'iterator'
  readonly keys: Readonly<Record<string, readonly unknown[]>>
  readonly base?: object
  /** Default `INVALID_OPTION`. */
  readonly code?: string
  readonly wrong?: readonly unknown[]
}

const text = [null, 5, {}, [], '', 'a\0b', 'x'.repeat(256)]
const ms = [null, -1, Number.NaN, 'soon', {}, []]
const count = [null, -1, 1.5, '3', {}, Number.NaN]
const flag = [null, 0, 'true', {}]
const callable = [null, 5, 'x', {}]
const object = [null, 5, 'x', [], new Map(), { what: 1 }]
const signals = [null, 5, 'x', {}]
const instant = [null, '5', Number.NaN, {}]
const priority = [...count, 0, 101]
const backoff = [
  ...object,
  { type: 'linear' },
  { type: 'fixed', factor: 2 },
  { type: 'exponential', delay: null },
  { type: 'exponential', delay: 5, max: 4 },
  { type: 'exponential', factor: '2' },
  { type: 'exponential', jitter: 1 },
]

const jobKeys = {
  id: text,
  priority,
  deps: [null, 5, 'a', {}, [null], [5], [{}], [{ id: 'a', on: 'start' }], [{ id: 'a', of: 1 }]],
  depMode: [null, 'some', 0, 1, 1.5, {}],
  timeout: ms,
  retries: count,
  backoff,
  availableAt: instant,
  delay: ms,
  enqueueTimeout: ms,
  key: text,
  dedupe: [...object, {}, { for: null }],
  exclusive: text,
  pool: text,
  flow: text,
  idempotent: flag,
  heartbeat: ms,
}

const policyKeys = {
  pool: text,
  concurrency: count,
  priority,
  heartbeat: ms,
  preemptible: flag,
  confirm: callable,
  schema: [null, 5, 'x', {}, { '~standard': { version: 1 } }],
  timeout: ms,
  retries: count,
  backoff,
  idempotent: flag,
  maxLost: count,
  retryable: callable,
}

const rate = [
  ...object.filter((given) => given !== null),
  {},
  { count: 0, per: 1_000 },
  { count: 5, per: 0 },
  { count: 5, per: '1s', burst: 6 },
]
const urgent = [[], 5, 'x', {}, { minPriority: 0 }, { minPriority: 101 }]

/** Without null, which takes back what was set: that is only for `configure`. */
/** A breaker that nothing would open. */
const NEVER = { failures: Number.POSITIVE_INFINITY }

const poolKeys = {
  concurrency: count.slice(1),
  perWorker: count.slice(1),
  maxQueue: count.slice(1),
  overflow: ['wait for me', true],
  rate,
  elastic: [...urgent, { minPriority: 95, ratio: 0 }, { minPriority: 95, ratio: 1.1 }],
  preempt: [...urgent, { minPriority: 95, minGap: 0 }, { minPriority: 95, minRun: 'soon' }],
  breaker: [[], 5, 'x', { failures: 0 }, NEVER, { window: 5 }, { resetMs: -1 }],
  paused: flag.slice(1),
}

const faces: readonly Face[] = [
  {
    name: 'AxScheduler',
    call: (given) => new AxScheduler(given),
    answers: 'now',
    wrong: WRONG.filter((given) => given !== 5),
    keys: {
      store: [null, 5, 'x', [], {}],
      concurrency: count,
      pools: [null, 5, 'x', [], { a: null }, { a: 5 }, { a: [] }, { a: { what: 1 } }, { '': {} }],
      types: [null, 5, 'x', [], { a: null }, { a: 5 }, { a: [] }, { a: { what: 1 } }, { '': {} }],
      leaseMs: [...ms, 0],
      graceMs: ms,
      maxZombies: [...count, 0],
      maxRunning: [...count, 0],
      trackAsync: flag,
      ageing: [
        ...object,
        true,
        {},
        { every: 0 },
        { every: '1s', ceiling: 0 },
        { every: '1s', ceiling: null },
      ],
      retryBudget: [null, true, ...rate],
      keep: [...object, { success: null }, { failed: -1 }, { outcomes: 'x' }, { log: {} }],
      limits: [...object, { payload: null }, { payload: 0 }, { result: '5' }],
      unknownDeps: [null, 'refuse', true],
      autoStart: flag,
      name: text,
      logger: [null, 5, 'x', [], {}, { info: task }],
      runtime: [null, 5, 'x', [], {}, { now: Date.now }],
    },
  },
  {
    name: 'the policy in define',
    call: (given) => new AxScheduler().define('type', given, task),
    answers: 'now',
    keys: policyKeys,
  },
  {
    name: 'pools in AxScheduler',
    call: (given) => new AxScheduler({ pools: { own: given } }),
    answers: 'now',
    keys: Object.fromEntries(
      Object.entries(poolKeys).map(([key, values]) => [key, [null, ...values]]),
    ),
  },
  {
    name: 'configure',
    call: (given) => scheduler.pool('own').configure(given),
    answers: 'promise',
    keys: poolKeys,
  },
  {
    name: 'addJob',
    call: (given) => scheduler.addJob(given),
    answers: 'promise',
    code: 'INVALID_JOB',
    base: { type: 'typed' },
    keys: { ...jobKeys, type: text, execute: callable },
  },
  {
    name: 'addJobs',
    call: (given) => scheduler.addJobs([given]),
    answers: 'promise',
    code: 'INVALID_JOB',
    base: { type: 'typed' },
    keys: { ...jobKeys, type: text, execute: callable },
  },
  {
    name: 'submit of a type',
    call: (given) => typed.submit({}, given),
    answers: 'promise',
    code: 'INVALID_JOB',
    keys: { ...jobKeys, type: ['other'], payload: [1], execute: [task] },
  },
  {
    name: 'submit of a gateway',
    call: (given) => gateway.submit(given),
    answers: 'promise',
    code: 'INVALID_JOB',
    base: { type: 'typed' },
    keys: { ...jobKeys, type: text },
  },
  {
    name: 'TaskGateway',
    call: (given) => new TaskGateway(given),
    answers: 'now',
    keys: {},
  },
  {
    name: 'jobs',
    call: (given) => scheduler.jobs(given),
    answers: 'iterator',
    keys: {
      status: [null, 5, 'done', ['ready', 'done']],
      type: text,
      pool: text,
      flow: text,
      code: text,
      key: text,
      createdAfter: instant,
      createdBefore: instant,
      limit: count,
      after: text,
    },
  },
  {
    name: 'events',
    call: (given) => scheduler.events(given),
    answers: 'iterator',
    keys: { after: count, follow: flag, signal: signals },
  },
  {
    name: 'retry',
    call: (given) => scheduler.retry('id', given),
    answers: 'promise',
    keys: { downstream: flag },
  },
  {
    name: 'close',
    call: (given) => scheduler.close(given),
    answers: 'promise',
    keys: { drainMs: ms },
  },
  {
    name: 'result of a handle',
    call: (given) => handle.result(given),
    answers: 'promise',
    keys: { signal: signals },
  },
]

async function endOf(face: Face, given: unknown): Promise<{ error: unknown; thrown: boolean }> {
  let answer: unknown
  try {
    answer = face.call(given as never)
  } catch (error) {
    return { error, thrown: true }
  }
  try {
    if (face.answers === 'iterator') await (answer as AsyncGenerator<unknown>).next()
    else await answer
  } catch (error) {
    return { error, thrown: false }
  }
  return { error: 'none', thrown: false }
}

async function refusal(face: Face, given: unknown): Promise<AxError> {
  const { error, thrown } = await endOf(face, given)
  expect(error, `${face.name} with ${String(given)}`).toBeInstanceOf(AxError)
  const { code, message } = error as AxError
  const where = `${face.name}: ${message}`
  expect([thrown, code], where).toEqual([face.answers === 'now', face.code ?? 'INVALID_OPTION'])
  return error as AxError
}

describe.each(faces)('what $name is given', (face) => {
  it('is an object, or is refused with what it is', async () => {
    for (const given of face.wrong ?? WRONG) {
      const { message } = await refusal(face, given)
      expect(showsValue(message, given) || /must be a function/.test(message), message).toBe(true)
    }
  })

  it('has no key that nobody knows', async () => {
    if (face.name === 'TaskGateway') return
    const { message } = await refusal(face, { ...face.base, unheardOf: 1 })
    expect(message).toContain("'unheardOf'")
  })

  it.each(Object.entries(face.keys))('has a %s that is checked', async (key, values) => {
    for (const value of values) {
      const { message } = await refusal(face, { ...face.base, [key]: value })
      expect(message).toMatch(new RegExp(`${key}|what|type|The name of a|backoff|store|A pool`))
    }
  })
})

describe('a pool whose callers wait', () => {
  it('has a bound, or they would never wait; an operator may give the one without the other', async () => {
    const given = { own: { concurrency: 1, overflow: 'wait' as const } }
    expect(() => new AxScheduler({ pools: given })).toThrow(
      'pools.own.overflow must be left out, or given together with pools.own.maxQueue: no queue ' +
        'is full without it, got "wait".',
    )
    const scheduler = new AxScheduler({ pools: { own: { maxQueue: 5 } }, autoStart: false })
    await scheduler.pool('own').configure({ overflow: 'wait' })
    expect((await scheduler.snapshot()).pools.own).toMatchObject({ maxQueue: 5, overflow: 'wait' })
    await scheduler.close()
  })

  it('has a bound after each change by an operator, or the change is refused', async () => {
    const scheduler = new AxScheduler({ autoStart: false })
    const pool = scheduler.pool('own')
    const refused = (change: object) => {
      return expect(pool.configure(change)).rejects.toThrow(
        'pools.own.overflow must be left out, or given together with pools.own.maxQueue',
      )
    }
    await refused({ overflow: 'wait' })
    await pool.configure({ overflow: 'wait', maxQueue: 5 })
    await refused({ maxQueue: null })
    await pool.configure({ paused: true })
    await pool.configure({ maxQueue: null, overflow: null })
    expect((await scheduler.snapshot()).pools.own).toMatchObject({ overflow: 'reject' })
    await scheduler.close()
  })
})

describe('what is no name of anything', () => {
  const asked: readonly [string, (given: never) => unknown, string, 'now' | 'promise'][] = [
    ['job', (id) => scheduler.job(id), 'INVALID_OPTION', 'promise'],
    ['explain', (id) => scheduler.explain(id), 'INVALID_OPTION', 'promise'],
    ['cancel', (id) => scheduler.cancel(id), 'INVALID_OPTION', 'promise'],
    ['retry', (id) => scheduler.retry(id), 'INVALID_OPTION', 'promise'],
    ['cancel of a gateway', (id) => gateway.cancel(id), 'INVALID_OPTION', 'promise'],
    ['getStatus', (id) => gateway.getStatus(id), 'INVALID_OPTION', 'promise'],
    ['addMany', (jobs) => scheduler.addMany(jobs), 'INVALID_JOB', 'promise'],
    ['addJobs', (jobs) => scheduler.addJobs(jobs), 'INVALID_JOB', 'promise'],
    ['pool', (name) => scheduler.pool(name), 'INVALID_OPTION', 'now'],
    ['on', (event) => scheduler.on(event, task), 'INVALID_OPTION', 'now'],
    ['on (a listener)', (listener) => scheduler.on('idle', listener), 'INVALID_OPTION', 'now'],
    ['define', (type) => scheduler.define(type, task), 'INVALID_OPTION', 'now'],
    ['define (a handler)', (it) => scheduler.define('t', {}, it), 'INVALID_OPTION', 'now'],
  ]

  it.each(asked)('is refused by %s', async (name, call, code, answers) => {
    const strange = [null, undefined, 5, {}, { length: 1 }]
    for (const given of strange) {
      const face: Face = { name, call, answers, code, keys: {} }
      await refusal(face, given)
    }
  })

  it('is refused as the reason of a cancel, too', async () => {
    for (const reason of [null, 5, {}] as never[]) {
      await expect(scheduler.cancel('id', reason)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
      await expect(handle.cancel(reason)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    }
  })
})

describe('what was refused', () => {
  it('has opened, stored and run nothing', () => {
    expect([calls, ran]).toEqual([[], 1])
  })
})
