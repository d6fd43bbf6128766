// Owns the promise that values come back as they went, or do not go at all.
// May never compare with what toJson itself would say.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import { checkName } from '../../src/core/id.ts'
import {
  fromJson,
  isRetryableFailure,
  type JsonOptions,
  retryAfterOf,
  toError,
  toErrorData,
  toJson,
} from '../../src/core/values.ts'
import { refusalOf } from './helpers.ts'

const STRICT: JsonOptions = { maxBytes: 1_000_000, code: 'INVALID_JOB', lenient: false }
const LENIENT: JsonOptions = { ...STRICT, code: 'UNSTORABLE', lenient: true }

/** Whether two values hold the same, property by property; a zero has no sign in JSON. */
function same(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [left, right] = [a, b] as Record<string, unknown>[]
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  return keys.every((key) => Object.hasOwn(b, key) && same(left?.[key], right?.[key]))
}

class Money {
  readonly cents = 5
}

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level += 1) value = [value]
  return value
}

function ring(): object {
  const items: unknown[] = []
  const value = { name: 'ring', items }
  items.push({ back: value })
  return value
}

describe('values', () => {
  it('come back as they went, or are refused', () => {
    const all = fc.anything({
      withBigInt: true,
      withMap: true,
      withSet: true,
      withNullPrototype: true,
      withTypedArray: true,
      withSparseArray: true,
    })
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), all), (value) => {
        try {
          const text = toJson(value, 'payload', STRICT)
          expect(same(fromJson(text), value)).toBe(true)
        } catch (error) {
          expect(error).toMatchObject({ name: 'AxError', code: 'INVALID_JOB' })
        }
      }),
      { numRuns: 1_000 },
    )
  })

  it('are never refused if JSON can say them', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(toJson(value, 'payload', STRICT)).toBe(JSON.stringify(value))
      }),
      { numRuns: 500 },
    )
  })

  it('of nothing are nothing', () => {
    expect(toJson(undefined, 'payload', STRICT)).toBeUndefined()
    expect(fromJson(undefined)).toBeUndefined()
    expect(toJson(null, 'payload', STRICT)).toBe('null')
  })

  it('keep a key named __proto__, and texts with NUL', () => {
    const value = JSON.parse('{"__proto__": {"x": 1}, "text": "a\\u0000b"}')
    const back = fromJson(toJson(value, 'payload', STRICT)) as object
    expect(Object.keys(back)).toEqual(['__proto__', 'text'])
    expect('x' in back).toBe(false)
    expect(same(back, value)).toBe(true)
  })

  it('with a toJSON are what it answers', () => {
    const value = { at: new Date(0), none: [{ toJSON: (key: string) => `at ${key}` }] }
    expect(toJson(value, 'payload', STRICT)).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","none":["at 0"]}',
    )
  })

  it('may share parts, as long as nothing contains itself', () => {
    const part = { x: 1 }
    expect(toJson([part, { part }, part], 'payload', STRICT)).toBe(
      '[{"x":1},{"part":{"x":1}},{"x":1}]',
    )
  })

  it.each([
    ['payload.items[3].price', { items: [1, 2, 3, { price: Number.NaN }] }, 'is NaN'],
    ['payload', Number.POSITIVE_INFINITY, 'is Infinity'],
    ['payload', 1n, 'is 1n'],
    ['payload', () => 1, 'is a function'],
    ['payload[0]', [Symbol('x')], 'is a symbol'],
    ['payload["a b"].c', { 'a b': { c: 2n } }, 'is 2n'],
    ['payload.a', { a: undefined }, 'is undefined'],
    ['payload[1]', [1, undefined], 'is undefined'],
    ['payload.m', { m: new Map() }, 'is a Map object'],
    ['payload.m', { m: new Money() }, 'is a Money object'],
    ['payload.b', { b: new Uint8Array(1) }, 'is a Uint8Array object'],
    ['payload.e', { e: new Error('x') }, 'is a Error object'],
    ['payload.items[0].back', ring(), 'contains itself'],
    ['payload.at', { at: { toJSON: () => Number.NaN } }, 'is NaN'],
  ])('are refused at %s', (place, value, problem) => {
    const refusal = refusalOf(() => toJson(value, 'payload', STRICT))
    expect(refusal).toMatchObject({ code: 'INVALID_JOB', option: place })
    expect(refusal.message.startsWith(`${place} ${problem}`)).toBe(true)
  })

  it('may be 500 deep and no deeper', () => {
    expect(toJson(nested(500), 'payload', STRICT)).toHaveLength(1_001)
    expect(refusalOf(() => toJson(nested(501), 'payload', STRICT)).message).toContain('500 deep')
    expect(refusalOf(() => toJson(nested(100_000), 'x', STRICT)).code).toBe('INVALID_JOB')
  })

  it('that throw when they are looked at are refused where that happens', () => {
    const value = {
      inner: {
        get broken() {
          throw new Error('Not now.')
        },
      },
    }
    const refusal = refusalOf(() => toJson(value, 'result', LENIENT))
    expect(refusal.code).toBe('UNSTORABLE')
    expect(refusal.message).toBe('result.inner.broken cannot be written as JSON: Not now.')
  })

  it('leave out a property that is undefined where that is allowed, but no item', () => {
    expect(toJson({ a: undefined, b: [{ c: undefined }] }, 'result', LENIENT)).toBe('{"b":[{}]}')
    const refusal = refusalOf(() => toJson([undefined], 'result', LENIENT))
    expect(refusal).toMatchObject({ code: 'UNSTORABLE', option: 'result[0]' })
  })

  it('are measured in bytes of UTF-8', () => {
    const limit = (maxBytes: number) => ({ ...STRICT, maxBytes })
    expect(toJson('\u20ac'.repeat(10), 'payload', limit(32))).toHaveLength(12)
    const refusal = refusalOf(() => toJson('\u20ac'.repeat(10), 'payload', limit(31)))
    expect(refusal).toMatchObject({ code: 'TOO_LARGE', size: 32, limit: 31, option: 'payload' })
    expect(refusal.message).toContain('payload is 32 bytes of JSON; at most 31 are allowed')
    expect(toJson([1, 2, 3], 'payload', limit(7))).toBe('[1,2,3]')
    expect(refusalOf(() => toJson([1, 2, 3], 'payload', limit(6))).code).toBe('TOO_LARGE')
  })

  it('that would unfold into more than there is room for are refused without unfolding', () => {
    let value: unknown = 1
    for (let level = 0; level < 200; level += 1) value = [value, value]
    expect(refusalOf(() => toJson(value, 'payload', STRICT)).code).toBe('TOO_LARGE')
  })
})

/** Looks like an error, and throws at every question. */
const HOSTILE: object = new Proxy(
  {},
  {
    get: () => {
      throw new Error('Do not ask.')
    },
    getPrototypeOf: () => {
      throw new Error('Do not ask.')
    },
    ownKeys: () => {
      throw new Error('Do not ask.')
    },
  },
)

describe('errors as data', () => {
  it.each([
    [undefined, 'undefined was thrown, which is not an error.'],
    [null, 'null was thrown, which is not an error.'],
    ['', '"" was thrown, which is not an error.'],
    ['Out of paper.', 'Out of paper.'],
    [42, '42 was thrown, which is not an error.'],
    [Symbol('x'), 'a symbol was thrown, which is not an error.'],
    [{ a: 1 }, '{"a":1} was thrown, which is not an error.'],
    [Object.freeze({ message: 'Frozen.' }), 'Frozen.'],
    [HOSTILE, 'an object was thrown, which is not an error.'],
  ])('C53: whatever was thrown has a message (%#)', (reason, message) => {
    expect(toErrorData(reason)).toMatchObject({ name: 'Error', message })
  })

  it('never throw and always print', () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withNullPrototype: true }), (reason) => {
        const { name, message } = toErrorData(reason)
        expect(typeof name === 'string' && typeof message === 'string').toBe(true)
      }),
    )
  })

  it('keep name, message, stack and a code that is a text', () => {
    const error = Object.assign(new TypeError('No.'), { code: 'E_NO' })
    expect(toErrorData(error)).toEqual({
      name: 'TypeError',
      message: 'No.',
      code: 'E_NO',
      stack: error.stack,
    })
    expect(toErrorData(Object.assign(new Error('x'), { code: 7 }))).not.toHaveProperty('code')
    expect(toErrorData(Object.assign(new Error('x'), { code: '' }))).not.toHaveProperty('code')
    expect(toErrorData({ code: 'E_NO' })).toMatchObject({ code: 'E_NO' })
  })

  it('make a code fit to be counted and asked for', () => {
    const codes: readonly (readonly [string, string])[] = [
      ['E\0NO', 'E\ufffdNO'],
      ['\ud800 and \udfff', '\ufffd and \ufffd'],
      ['\u{1f600}', '\u{1f600}'],
      ['x'.repeat(255), 'x'.repeat(255)],
      ['x'.repeat(256), `${'x'.repeat(252)}...`],
      ['\u{1f600}'.repeat(64), `${'\u{1f600}'.repeat(63)}...`],
      [`${'\0'.repeat(100)}`, `${'\ufffd'.repeat(84)}...`],
    ]
    for (const [given, kept] of codes) {
      const { code } = toErrorData({ code: given })
      expect(code).toBe(kept)
      expect(checkName('code', code)).toBe(kept)
    }
  })

  it('are clipped', () => {
    const error = new Error('x'.repeat(100_000))
    const data = toErrorData(error)
    expect(data.message).toHaveLength(8_192)
    expect(data.stack).toHaveLength(8_192)
    expect(data.message.endsWith('...')).toBe(true)
  })

  it('become an error again, with what the handler threw as its cause', () => {
    const data = {
      name: 'TypeError',
      message: 'No.',
      code: 'E_NO',
      stack: 'TypeError: No.\n  here',
    }
    const error = toError(data, 'job-1')
    expect(error).toBeInstanceOf(AxError)
    expect(error).toMatchObject({ code: 'E_NO', message: 'No.', jobId: 'job-1' })
    expect(error.cause).toBeInstanceOf(Error)
    expect(toErrorData(error.cause)).toEqual(data)
    expect(Object.keys(error.cause as object)).toEqual(['code'])
    const plain = toError({ name: 'Error', message: 'No.' }, 'job-1')
    expect(plain).toMatchObject({ code: 'HANDLER_FAILED', cause: { stack: 'Error: No.' } })
  })
})

describe('whether a failure is worth another attempt', () => {
  it.each([
    [new Error('x'), true],
    [new TypeError('x'), true],
    [undefined, true],
    ['text', true],
    [HOSTILE, true],
    [Object.assign(new Error('x'), { retryable: true }), true],
    [Object.assign(new Error('x'), { retryable: false }), false],
    [Object.assign(new Error('x'), { retryable: 0 }), true],
    [Object.assign(new Error('x'), { code: 'INVALID_JOB' }), true],
    [new DOMException('x', 'AbortError'), true],
    [new AxError('LOST', 'x'), true],
    [new AxError('QUEUE_OVERFLOW', 'x'), true],
    ...(['INVALID_JOB', 'INVALID_OPTION', 'UNSTORABLE', 'TOO_LARGE', 'CANCELLED'] as const).flatMap(
      (code): [unknown, boolean][] => [
        [new AxError(code, 'x'), false],
        [new AxError(code, 'x', { retryable: true }), false],
      ],
    ),
  ])('follows the default rule (%#)', (error, expected) => {
    expect(isRetryableFailure(error)).toBe(expected)
  })

  it.each([
    [{ retryAfter: 5_000 }, 5_000],
    [{ retryAfter: 0 }, 0],
    [{ retryAfter: -1 }, undefined],
    [{ retryAfter: '5' }, undefined],
    [{ retryAfter: Number.POSITIVE_INFINITY }, undefined],
    [{ retryAfter: Number.NaN }, undefined],
    [undefined, undefined],
    [HOSTILE, undefined],
  ])('reads how long to wait (%#)', (error, ms) => {
    expect(retryAfterOf(error)).toBe(ms)
  })
})

it('refuses a symbol for a key, which JSON would leave out', () => {
  const refused = refusalOf(() => toJson({ a: { [Symbol('s')]: 1 } }, 'payload', STRICT))
  expect(refused.message).toContain('payload.a has a symbol for a key')
})
