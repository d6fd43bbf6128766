// Owns what may be submitted, and what every refusal says. May never store anything.

import { describe, expect, it } from 'vitest'
import { Live, type NewJob } from '../../src/core/job.ts'
import { countOf, integer } from '../../src/core/options.ts'
import { agreed, draftOf, placed, type SubmitContext } from '../../src/core/submit.ts'
import {
  backoffFunctionOf,
  changedType,
  DEFAULT_TYPE,
  resolveType,
  type TypeTerms,
  typeTerms,
} from '../../src/core/terms.ts'
import type { JobInput, TypePolicy } from '../../src/core/types.ts'
import { contextOf, type Refused, refusalOf } from './helpers.ts'

const DATA = contextOf()
const LIVE = contextOf({ keepsLive: true, storeName: 'memory' })

/** What a submission meets: a store, and what is known of its type. */
type Meets = SubmitContext & { readonly type?: TypeTerms }

function submit(input: object, { type = DEFAULT_TYPE, ...context }: Meets = DATA): NewJob {
  return agreed(draftOf(input as JobInput, context, 1_000_000), type)
}

function refused(input: object, context: Meets = DATA): Refused {
  return refusalOf(() => submit(input, context))
}

function mail(fields: object): object {
  return { type: 'mail', ...fields }
}

function withType(policy: TypePolicy, more: Partial<SubmitContext> = {}): Meets {
  return { ...contextOf(more), type: typeTerms(undefined, resolveType('mail', policy)) }
}

describe('a submission', () => {
  it('of a type alone has the documented defaults', () => {
    expect(submit({ type: 'mail' }, contextOf())).toEqual({
      id: 'minted-1',
      type: 'mail',
      pool: 'default',
      flow: undefined,
      payload: undefined,
      body: undefined,
      terms: {
        timeoutMs: 0,
        retries: 0,
        backoff: { type: 'exponential', delayMs: 1_000, maxMs: 30_000, factor: 2, jitter: true },
        maxLost: 3,
        idempotent: true,
        confirm: false,
        heartbeatMs: 0,
        preemptible: false,
      },
      priority: 50,
      delayMs: 0,
      enqueueTimeoutMs: 0,
      deps: [],
      depMode: 'all',
      key: undefined,
      keyForMs: 0,
      exclusive: undefined,
      minted: true,
    })
  })

  it('may say everything there is to say', () => {
    const input: JobInput = {
      id: 'j1',
      type: 'mail',
      payload: { to: ['a'] },
      priority: 70,
      deps: ['a', { id: 'b', on: 'end' }],
      depMode: 1,
      timeout: '5s',
      retries: 4,
      backoff: { type: 'fixed', delay: '2s', max: '1m', jitter: false },
      delay: '10m',
      enqueueTimeout: 500,
      key: 'k',
      dedupe: { for: '1h' },
      exclusive: 'account:42',
      pool: 'p',
      flow: 'f',
      idempotent: false,
    }
    expect(submit(input)).toEqual({
      id: 'j1',
      type: 'mail',
      pool: 'p',
      flow: 'f',
      payload: '{"to":["a"]}',
      body: undefined,
      terms: {
        timeoutMs: 5_000,
        retries: 4,
        backoff: {
          type: 'fixed',
          delayMs: 2_000,
          maxMs: 60_000,
          factor: 2,
          jitter: false,
          described: true,
        },
        maxLost: 4,
        idempotent: false,
        confirm: false,
        heartbeatMs: 0,
        preemptible: false,
      },
      priority: 70,
      delayMs: 600_000,
      enqueueTimeoutMs: 500,
      deps: [
        { id: 'a', on: 'success' },
        { id: 'b', on: 'end' },
      ],
      depMode: 1,
      key: 'k',
      keyForMs: 3_600_000,
      exclusive: 'account:42',
      minted: false,
    })
  })

  it('may leave a key undefined: that is no wish', () => {
    const input = { type: 'mail', id: undefined, key: undefined, retries: undefined }
    expect(submit(input)).toMatchObject({ minted: true, key: undefined })
  })

  it('begins at a moment, counted from now; the past is now', () => {
    expect(submit(mail({ availableAt: 1_000_250 })).delayMs).toBe(250)
    expect(submit(mail({ availableAt: 1_000_000.5 })).delayMs).toBe(1)
    expect(submit(mail({ availableAt: 5 })).delayMs).toBe(0)
    expect(submit(mail({ delay: '30d' })).delayMs).toBe(2_592_000_000)
  })

  it('takes a fixed delay longer than the default cap for what it says', () => {
    const { terms } = submit(mail({ retries: 1, backoff: { type: 'fixed', delay: '10m' } }))
    expect(terms.backoff).toMatchObject({ delayMs: 600_000, maxMs: 600_000 })
  })
})

describe('terms', () => {
  it('are one object for all jobs that ask for nothing of their own', () => {
    const context = withType({ retries: 2, timeout: '1s' })
    const first = submit(mail({ payload: 1 }), context).terms
    expect(submit(mail({ payload: 2, priority: 9, key: 'k', delay: 5 }), context).terms).toBe(first)
    expect(submit(mail({ idempotent: true }), context).terms).toBe(first)
    expect(submit({ type: 'a' }).terms).toBe(submit({ type: 'b' }, contextOf()).terms)
  })

  it('take from the type what the job does not say', () => {
    const backoff = { type: 'fixed', delay: 7 } as const
    const context = withType({ pool: 'p', priority: 80, retries: 2, timeout: '1s', backoff })
    const job = submit(mail({ retries: 5 }), context)
    expect(job).toMatchObject({ pool: 'p', priority: 80 })
    expect(job.terms).toMatchObject({ timeoutMs: 1_000, retries: 5, maxLost: 5 })
    expect(job.terms.backoff).toBe(submit(mail({}), context).terms.backoff)
    expect(submit(mail({ timeout: 0 }), context).terms.timeoutMs).toBe(0)
  })

  it('let a lost job run as often as it is retried, or three times, or as the type says', () => {
    expect(submit(mail({ retries: 9 })).terms.maxLost).toBe(9)
    expect(submit(mail({ retries: 1 })).terms.maxLost).toBe(3)
    const context = withType({ maxLost: 1 })
    expect(submit(mail({}), context).terms.maxLost).toBe(1)
    expect(submit(mail({ retries: 9 }), context).terms.maxLost).toBe(1)
  })

  it('leave the back-off to the function of the type, unless the job describes its own', () => {
    const own = (attempt: number) => attempt * 10
    const policy = { retries: 3, backoff: own }
    const functionFor = (fields: object) => {
      const { terms } = submit(mail(fields), withType(policy))
      return backoffFunctionOf(terms, resolveType('mail', policy))
    }
    expect(functionFor({ timeout: 5 })).toBe(own)
    expect(functionFor({ backoff: { type: 'fixed' } })).toBeUndefined()
    // It says what would be the default, and it says it.
    expect(functionFor({ backoff: { type: 'exponential' } })).toBeUndefined()
    expect(functionFor({ backoff: { type: 'exponential', delay: '1s' } })).toBeUndefined()
  })
})

describe('a job with its own execute', () => {
  const execute = () => 1

  it('carries it, its payload and its back-off by reference', () => {
    const payload = new Map()
    const backoff = () => 5
    const job = submit({ execute, payload, retries: 1, backoff }, LIVE)
    expect(job.type).toBe('task')
    expect(job.payload).toBeInstanceOf(Live)
    expect((job.payload as Live).value).toBe(payload)
    expect(job.body).toEqual({ execute, backoff })
  })

  it('may have a type as well, whose terms hold and whose handler does not', () => {
    const backoff = () => 5
    const context = withType({ retries: 2, pool: 'p', backoff }, { keepsLive: true })
    const job = submit(mail({ execute }), context)
    expect(job).toMatchObject({ type: 'mail', pool: 'p', body: { execute, backoff } })
    const own = submit(mail({ execute, backoff: { type: 'fixed' } }), context)
    expect(own.body).not.toHaveProperty('backoff')
  })

  it('is refused by a store that keeps data only, which says what to do instead', () => {
    const refusal = refused({ execute })
    expect(refusal).toMatchObject({ code: 'INVALID_JOB', option: 'execute' })
    expect(refusal.message).toContain('the store sqlite keeps data only')
    expect(refusal.message).toContain('scheduler.define')
  })
})

describe('C84: what would be ignored is refused', () => {
  it.each([
    [{ backof: {} }, 'backof', "'backoff'"],
    [{ dependsOn: ['a'] }, 'dependsOn', "'deps'"],
    [{ retries: 3, backoff: { type: 'exponential', base: 100 } }, 'base', 'delay'],
    [{ retries: 3, backoff: { type: 'exp' } }, '"exp"', "'exponential'"],
    [{ backoff: { type: 'fixed' } }, 'backoff', 'no effect with retries 0'],
    [{ retries: 0, backoff: { type: 'fixed' } }, 'backoff', 'no effect with retries 0'],
    [{ retries: 1, backoff: { type: 'fixed', factor: 2 } }, 'factor', "type 'fixed'"],
    [{ retries: 1, backoff: { delay: 5 } }, 'type of backoff', "'fixed' or 'exponential'"],
    [{ dedupe: { for: 5 } }, 'dedupe', 'without key'],
    [{ key: 'k', dedupe: { form: 5 } }, 'form', "'for'"],
    [{ deps: [{ id: 'a', when: 'end' }] }, 'deps[0]', 'id, on'],
    [{ wildcard: 5 }, 'wildcard', 'Valid keys'],
  ])('%j', (fields, named, remedy) => {
    const refusal = refused(mail(fields))
    expect(refusal.code).toBe('INVALID_JOB')
    expect(refusal.message).toContain(named)
    expect(refusal.message).toContain(remedy)
  })

  it('says so of a function where a stored job can carry none', () => {
    const refusal = refused(mail({ retries: 1, backoff: () => 5 }))
    expect(refusal).toMatchObject({ code: 'INVALID_JOB', option: 'backoff' })
    expect(refusal.message).toContain("type's policy")
  })

  it('looks at inherited keys, which would be read', () => {
    expect(refused(Object.create({ type: 'mail', prioritty: 5 })).message).toContain('prioritty')
  })
})

describe('wrong values', () => {
  it.each([
    [{ priority: 0 }, 'priority'],
    [{ priority: 101 }, 'priority'],
    [{ priority: 1.5 }, 'priority'],
    [{ priority: '50' }, 'priority'],
    [{ retries: -1 }, 'retries'],
    [{ retries: 1_000_001 }, 'retries'],
    [{ retries: Number.POSITIVE_INFINITY }, 'retries'],
    [{ timeout: -1 }, 'timeout'],
    [{ timeout: '5 seconds' }, 'timeout'],
    [{ timeout: '40000d' }, 'timeout'],
    [{ delay: Number.NaN }, 'delay'],
    [{ delay: 5, availableAt: 5 }, 'availableAt'],
    [{ availableAt: '2030-01-01' }, 'availableAt'],
    [{ availableAt: Number.NaN }, 'availableAt'],
    [{ availableAt: Number.MAX_SAFE_INTEGER }, 'availableAt'],
    [{ enqueueTimeout: null }, 'enqueueTimeout'],
    [{ idempotent: 'no' }, 'idempotent'],
    [{ key: '' }, 'key'],
    [{ key: 'k', dedupe: 5 }, 'dedupe'],
    [{ key: 'k', dedupe: {} }, 'dedupe.for'],
    [{ type: '' }, 'type'],
    [{ pool: 7 }, 'pool'],
    [{ flow: null }, 'flow'],
    [{ exclusive: 'x'.repeat(256) }, 'exclusive'],
    [{ deps: 'a' }, 'deps'],
    [{ deps: [''] }, 'deps[0]'],
    [{ deps: ['a', 7] }, 'deps[1]'],
    [{ deps: [{ id: 'a', on: 'failure' }] }, 'deps[0].on'],
    [{ execute: 'x' }, 'execute'],
    [{ retries: 1, backoff: 100 }, 'backoff'],
    [{ retries: 1, backoff: { type: 'exponential', factor: 0.5 } }, 'factor of backoff'],
    [{ retries: 1, backoff: { type: 'fixed', delay: 9, max: 8 } }, 'max of backoff'],
    [{ retries: 1, backoff: { type: 'fixed', jitter: 1 } }, 'jitter of backoff'],
    [{ payload: { a: Number.NaN } }, 'payload.a'],
    [{ payload: { a: undefined } }, 'payload.a'],
  ])('are refused, by name: %j', (fields, option) => {
    expect(refused(mail(fields))).toMatchObject({ code: 'INVALID_JOB', option })
  })

  it('are told the bound that they break, the upper one too', () => {
    const factor = (value: number) => {
      const backoff = { type: 'exponential', factor: value }
      return refused(mail({ retries: 1, backoff })).message
    }
    for (const value of [0.5, 2_000_000]) {
      expect(factor(value)).toBe(
        `factor of backoff must be a number from 1 to 1000000, got ${value}.`,
      )
    }
    const large = 2 ** 60
    expect(refusalOf(() => integer('n', large, 1)).message).toBe(
      `n must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}, got ${large}.`,
    )
    expect(refusalOf(() => countOf('n', large, 1)).message).toBe(
      `n must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}, or Infinity, got ${large}.`,
    )
    expect(refusalOf(() => integer('n', 0, 1)).message).toBe(
      'n must be an integer of at least 1, got 0.',
    )
  })

  it('C37: a count of dependencies needs dependencies', () => {
    expect(submit(mail({ deps: [], depMode: 'all' })).deps).toEqual([])
    expect(submit(mail({ deps: [], depMode: 'any' })).depMode).toBe('any')
    expect(refused(mail({ deps: [], depMode: 1 })).code).toBe('INVALID_JOB')
  })

  it.each([0, 3, 1.5, -1, Number.NaN, 'some', null])('depMode %j of two is refused', (depMode) => {
    const refusal = refused(mail({ deps: ['a', 'b', 'a'], depMode }))
    expect(refusal).toMatchObject({ code: 'INVALID_JOB', option: 'depMode' })
  })

  it.each([undefined, null, 5, 'mail', [], () => 1])('%j is no job', (input) => {
    expect(refused(input as object).code).toBe('INVALID_JOB')
  })

  it('is a job without a type and without execute', () => {
    expect(refused({ payload: 1 })).toMatchObject({ code: 'INVALID_JOB', option: 'type' })
  })

  it('is a payload that is too large, with its size', () => {
    const refusal = refused(mail({ payload: 'x'.repeat(99) }), contextOf({ maxPayloadBytes: 100 }))
    expect(refusal).toMatchObject({ code: 'TOO_LARGE', size: 101, limit: 100 })
  })
})

describe('dependencies', () => {
  it('C39: count once, however often they are named', () => {
    const { deps } = submit(mail({ deps: ['a', 'a', 'b'] }))
    expect(deps.map(({ id }) => id)).toEqual(['a', 'b'])
    expect(submit(mail({ deps: ['a', 'a'], depMode: 1 })).depMode).toBe(1)
    expect(refused(mail({ deps: ['a', 'a'], depMode: 2 })).code).toBe('INVALID_JOB')
  })

  it.each([
    [['a', { id: 'a', on: 'end' }]],
    [[{ id: 'a', on: 'end' }, 'a']],
    [[{ id: 'a' }, { id: 'a', on: 'end' }]],
  ])('want a success if they want both kinds of end: %j', (deps) => {
    expect(submit(mail({ deps })).deps).toEqual([{ id: 'a', on: 'success' }])
  })

  it('C42: a job may not depend on itself', () => {
    const refusal = refused(mail({ id: 'S', deps: ['a', 'S'] }))
    expect(refusal).toMatchObject({ code: 'CYCLE', path: ['S', 'S'], jobId: 'S' })
    expect(refusal.message).toContain('"S"')
  })

  it('are at most a hundred thousand', () => {
    const deps = Array.from({ length: 100_000 }, (_, index) => `d${index}`)
    expect(submit(mail({ deps })).deps).toHaveLength(100_000)
    expect(refused(mail({ deps: [...deps, 'one more'] })).code).toBe('TOO_LARGE')
  })
})

describe('C82: ids', () => {
  const good = ['123', '00123', '1e3', 'a:b', 'a/b', '@s/p', '__proto__', 'constructor', ' a', '😀']

  it('may be any text of 1 to 255 bytes, also as dependencies', () => {
    const ids = good.map((id) => submit(mail({ id })).id)
    expect(ids).toEqual(good)
    expect(new Set(ids).size).toBe(good.length)
    expect(submit(mail({ deps: good })).deps.map(({ id }) => id)).toEqual(good)
  })

  it.each(['', 7, 'x'.repeat(300)])('may not be %j', (id) => {
    expect(refused(mail({ id }))).toMatchObject({ code: 'INVALID_JOB', option: 'id' })
    expect(refused(mail({ deps: [id] }))).toMatchObject({ code: 'INVALID_JOB' })
  })
})

describe('C67: a refusal in a batch', () => {
  it('names the place of the job, and is otherwise the same', () => {
    const alone = refused(mail({ priority: 0 }))
    const at = (index: number, fields: object) => {
      return refusalOf(() => {
        try {
          return submit(mail(fields))
        } catch (error) {
          throw placed(error, index)
        }
      })
    }
    const third = at(3, { priority: 0 })
    expect(third).toMatchObject({ index: 3, code: alone.code, option: 'priority', value: 0 })
    expect(third.message).toBe(`jobs[3]: ${alone.message}`)
    expect(at(0, { id: 'S', deps: ['S'] })).toMatchObject({
      code: 'CYCLE',
      path: ['S', 'S'],
      index: 0,
    })
  })
})

describe('a policy', () => {
  it('comes to what it says, frozen, and to no default', () => {
    const retryable = () => true
    const said = resolveType('mail', { pool: 'p', retries: 2, idempotent: false, retryable })
    const setting = { pool: 'p', terms: { retries: 2, idempotent: false } }
    expect(said).toEqual({ setting, retryable })
    expect(Object.isFrozen(said) && Object.isFrozen(said.setting)).toBe(true)
    expect(resolveType('mail', { retryable }).setting).toBeUndefined()
  })

  it('goes over what is stored, which goes over the defaults, whether it says a default or not', () => {
    const stored = changedType(undefined, {
      ...{ pool: 'db', priority: 70, maxLost: 1 },
      terms: { retries: 3, timeoutMs: 8_000, heartbeatMs: 5_000, idempotent: false },
    })
    const of = (policy: TypePolicy) => typeTerms(stored, resolveType('mail', policy))
    expect(of({})).toMatchObject({ pool: 'db', priority: 70, maxLost: 1, terms: stored.terms })
    const own = of({ pool: 'default', priority: 50, timeout: 0, retries: 0, idempotent: true })
    expect(own).toMatchObject({ pool: 'default', priority: 50 })
    expect(own.terms).toMatchObject({ retries: 0, timeoutMs: 0, idempotent: true })
    expect(own.terms).toMatchObject({ heartbeatMs: 5_000, maxLost: 1 })
  })

  it.each([
    [{ timeot: 5 }, "'timeout'"],
    [{ priority: 101 }, 'priority in the policy of type "mail"'],
    [{ retries: -1 }, 'retries in the policy'],
    [{ maxLost: -1 }, 'maxLost in the policy'],
    [{ retryable: true }, 'a function'],
    [{ backoff: { type: 'fixed' } }, 'no effect with retries 0'],
    [{ retries: 1, backoff: { type: 'exp' } }, "'exponential'"],
    [{ pool: '' }, 'pool in the policy'],
    [[], 'must be an object'],
  ])('C84: is refused where it is wrong: %j', (policy, text) => {
    const refusal = refusalOf(() => resolveType('mail', policy as TypePolicy))
    expect(refusal.code).toBe('INVALID_OPTION')
    expect(refusal.message).toContain(text)
  })
})
