// Owns the small vocabulary: ids, durations, nearest names, option checks, the table of codes.
// May never depend on the order in which the tests run.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { showMs, toMs } from '../../src/core/duration.ts'
import { AxError, ERROR_CODES, isAxError } from '../../src/core/errors.ts'
import { byteLength, checkName, idMaker } from '../../src/core/id.ts'
import { integer, nearest, oneOf, plain, refuseUnknown, show } from '../../src/core/options.ts'
import { refusalOf } from './helpers.ts'

describe('ids', () => {
  it('sort in the order in which they were made, also when the clock steps back', () => {
    const steps = fc.array(fc.integer({ min: -5_000, max: 5_000 }), { maxLength: 200 })
    fc.assert(
      fc.property(steps, (moves) => {
        const mint = idMaker(() => 0.5)
        let now = 1_700_000_000_000
        const ids = moves.map((move) => {
          now += move
          return mint(now)
        })
        expect([...ids].sort()).toEqual(ids)
        expect(new Set(ids).size).toBe(ids.length)
      }),
    )
  })

  it('have 20 characters that need no quoting anywhere', () => {
    const times = fc.integer({ min: 0, max: 2 ** 45 - 1 })
    fc.assert(
      fc.property(
        times,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (at, by) => {
          expect(idMaker(() => by)(at)).toMatch(/^[0-9a-z]{20}$/)
        },
      ),
    )
  })

  it('differ within one millisecond and between makers', () => {
    const [one, two] = [idMaker(() => 0.1), idMaker(() => 0.2)]
    const ids = new Set<string>()
    for (let count = 0; count < 50_000; count += 1) ids.add(one(5)).add(two(5))
    expect(ids.size).toBe(100_000)
  })

  it('sort by time over makers', () => {
    const [early, late] = [idMaker(() => 0.9), idMaker(() => 0.1)]
    expect(early(1_000) < late(1_001)).toBe(true)
  })
})

describe('names', () => {
  it.each(['1', ' a', 'a:b', '__proto__', '\u{1f600}', 'x'.repeat(255), '\u00e9'.repeat(127)])(
    'may be %j',
    (name) => {
      expect(checkName('id', name)).toBe(name)
    },
  )

  it.each(['', 7, null, undefined, {}, 'a\0b', 'x'.repeat(256), '\u00e9'.repeat(128)])(
    'may not be %j',
    (name) => {
      const refusal = refusalOf(() => checkName('key', name))
      expect(refusal.code).toBe('INVALID_JOB')
      expect(refusal.message).toContain('key must be a text of 1 to 255 bytes')
    },
  )

  it('are measured in bytes of UTF-8', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(byteLength(text)).toBe(Buffer.byteLength(text))
      }),
    )
    expect(byteLength('\ud800')).toBe(3)
    expect(byteLength('\ud800a')).toBe(4)
  })
})

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

describe('durations', () => {
  it('are a whole number of any unit', () => {
    const units = fc.constantFrom(...(Object.keys(UNITS) as (keyof typeof UNITS)[]))
    fc.assert(
      fc.property(fc.nat(10_000), units, fc.constantFrom('', ' '), (count, unit, gap) => {
        expect(toMs(`${count}${gap}${unit}`, 'delay')).toBe(count * UNITS[unit])
      }),
    )
  })

  it.each([
    [0, 0],
    [250, 250],
    [0.2, 1],
    ['0s', 0],
    ['1.5s', 1_500],
    ['0.5h', 1_800_000],
    ['1.1h', 3_960_000],
    [' 10m ', 600_000],
  ])('%j are %i ms', (written, ms) => {
    expect(toMs(written, 'delay')).toBe(ms)
  })

  it.each([
    -1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    '',
    '5',
    '5 sec',
    '-5s',
    '1e3ms',
    's',
    null,
    {},
  ])('%j are refused, naming the option', (written) => {
    const refusal = refusalOf(() => toMs(written as number, 'timeout', 'INVALID_JOB'))
    expect(refusal).toMatchObject({ code: 'INVALID_JOB', option: 'timeout' })
    expect(refusal.message).toMatch(/^timeout must be a number of milliseconds or a text/)
  })

  it.each([
    [0, '0 ms'],
    [-5, '0 ms'],
    [850, '850 ms'],
    [4_200, '4.2 s'],
    [59_000, '59 s'],
    [60_000, '1 m'],
    [200_000, '3 m 20 s'],
    [7_500_000, '2 h 5 m'],
    [532_800_000, '6 d 4 h'],
  ])('%i ms are shown as %s', (ms, text) => {
    expect(showMs(ms)).toBe(text)
  })
})

const JOB = [
  'id',
  'type',
  'payload',
  'priority',
  'deps',
  'depMode',
  'timeout',
  'retries',
  'backoff',
]
const MORE = ['availableAt', 'delay', 'key', 'exclusive', 'pool', 'flow', 'execute']

describe('nearest names', () => {
  it.each([
    ['backof', 'backoff'],
    ['retrys', 'retries'],
    ['Priority', 'priority'],
    ['prio', 'priority'],
    ['time', 'timeout'],
    ['dependsOn', 'deps'],
    ['dependencies', 'deps'],
    ['needs', 'deps'],
    ['attempts', 'retries'],
    ['data', 'payload'],
    ['queue', 'pool'],
    ['runAt', 'availableAt'],
    ['jobId', 'id'],
    ['fn', 'execute'],
    ['colour', undefined],
  ])('C84: %s means %s', (typed, meant) => {
    expect(nearest(typed, [...JOB, ...MORE])).toBe(meant)
  })

  it('C84: base of a backoff means its delay', () => {
    expect(nearest('base', ['type', 'delay', 'max', 'factor', 'jitter'])).toBe('delay')
  })

  it('find the original of any one slip in a long name', () => {
    const names = fc.constantFrom('enqueueTimeout', 'availableAt', 'concurrency', 'idempotent')
    fc.assert(
      fc.property(names, fc.nat(20), fc.constantFrom('', 'x', 'xy'), (name, place, slip) => {
        const at = place % name.length
        const typed = name.slice(0, at) + slip + name.slice(at + 1)
        expect(nearest(typed, [...JOB, name])).toBe(name)
      }),
    )
  })
})

describe('checks of options', () => {
  it('C84: name the key and the nearest valid one, or all valid ones', () => {
    const near = refusalOf(() => refuseUnknown('A pool', { concurency: 1 }, ['concurrency']))
    expect(near).toMatchObject({ code: 'INVALID_OPTION', option: 'concurency' })
    expect(near.message).toBe("A pool has no option 'concurency'. Did you mean 'concurrency'?")
    const far = refusalOf(() => refuseUnknown('A pool', { colour: 1 }, ['rate', 'paused']))
    expect(far.message).toBe("A pool has no option 'colour'. Valid keys: rate, paused.")
  })

  it('say what was expected and what came', () => {
    expect(refusalOf(() => integer('max', 1.5, 1, 9)).message).toBe(
      'max must be an integer from 1 to 9, got 1.5.',
    )
    expect(refusalOf(() => oneOf('type', 'exp', ['fixed', 'exponential'])).message).toBe(
      "type must be 'fixed' or 'exponential' (did you mean 'exponential'?), got \"exp\".",
    )
    expect(refusalOf(() => plain('pools', [1])).message).toBe('pools must be an object, got [1].')
  })

  it('print every value there is', () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true }), (value) => {
        expect(show(value).length).toBeLessThanOrEqual(500)
      }),
    )
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    expect([1n, Symbol('x'), () => 1, proxy].map(show)).toEqual([
      '1n',
      'a symbol',
      'a function',
      'an object',
    ])
  })
})

/** What the public table of codes says of asking again. */
const AGAIN = `
  HANDLER_FAILED no, KEY_TAKEN no, QUEUE_OVERFLOW yes, ENQUEUE_TIMEOUT yes,
  EXECUTION_TIMEOUT yes, HEARTBEAT_LOST yes, CANCELLED no, PREEMPTED yes, DEPENDENCY_FAILED no,
  CYCLE no, DUPLICATE_ID no, UNKNOWN_JOB no, UNKNOWN_DEPENDENCY no, NO_HANDLER no,
  INVALID_JOB no, INVALID_OPTION no, LEASE_LOST no, LOST yes, OUTCOME_UNKNOWN no,
  BREAKER_OPEN yes, STORE_UNAVAILABLE yes, CLOSED no, NESTED_LIMIT no, GONE no, UNSTORABLE no,
  TOO_LARGE no`

describe('errors', () => {
  it('have the codes that were promised, and say whether to ask again', () => {
    const codes = AGAIN.split(',').map((entry) => entry.trim().split(' '))
    const table = Object.fromEntries(codes.map(([code, again]) => [code, again === 'yes']))
    expect(ERROR_CODES).toEqual(table)
    for (const [code, again] of Object.entries(table)) {
      expect(new AxError(code, 'x').retryable).toBe(again)
    }
    expect(new AxError('SOMETHING_ELSE', 'x').retryable).toBe(false)
    expect(new AxError('toString', 'x').retryable).toBe(false)
    expect(new AxError('GONE', 'x', { retryable: true }).retryable).toBe(true)
  })

  it('carry their details, and keep what they are', () => {
    const cause = new Error('deeper')
    const error = new AxError('CYCLE', 'Round.', { cause, path: ['a', 'a'], message: 'no' })
    expect(error).toMatchObject({ name: 'AxError', code: 'CYCLE', message: 'Round.', cause })
    expect({ ...error }).toMatchObject({ path: ['a', 'a'] })
    expect('cause' in new AxError('GONE', 'x')).toBe(false)
  })

  it('are known for what they are across copies of the package', () => {
    const foreign = Object.assign(new Error('x'), { code: 'GONE' })
    Object.defineProperty(foreign, Symbol.for('ax-scheduler.error'), { value: true })
    expect(isAxError(foreign)).toBe(true)
    expect(isAxError(foreign, 'GONE')).toBe(true)
    expect(isAxError(foreign, 'CLOSED')).toBe(false)
    expect([null, undefined, 'GONE', new Error('x')].some((each) => isAxError(each))).toBe(false)
  })
})
