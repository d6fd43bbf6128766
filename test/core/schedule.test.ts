// Owns the promises about schedules as rules: what can be repeated, which jobs an instant brings.
// May never need a clock or a cron expression: instants are every ten seconds.

import { describe, expect, it } from 'vitest'
import {
  checkTemplate,
  type Instants,
  jobAt,
  LATE_MS,
  MAX_TICKS,
  resolveSchedule,
  templateOf,
  ticksOf,
} from '../../src/core/schedule.ts'
import type { Schedule } from '../../src/core/settings.ts'
import type { JobInput } from '../../src/core/types.ts'
import { refusalOf } from './helpers.ts'

const STEP = 10_000

const TENS: Instants = {
  after: (instant) => (Math.floor(instant / STEP) + 1) * STEP,
  latest: (_, now) => Math.floor(now / STEP) * STEP,
}

function due(missed: Schedule['missed'], nextAt: number, now: number) {
  return ticksOf({ missed, nextAt }, now, TENS)
}

describe('a schedule', () => {
  it.each(['skip', 'one', 'all'] as const)('brings nothing before its instant: %s', (missed) => {
    expect(due(missed, 20_000, 19_999)).toEqual([])
  })

  it.each(['skip', 'one', 'all'] as const)('brings one job at its instant: %s', (missed) => {
    const tick = { at: 20_000, nextAt: 30_000, instant: 20_000 }
    expect(due(missed, 20_000, 20_000)).toEqual([tick])
    expect(due(missed, 20_000, 29_999)).toEqual([tick])
  })

  it('brings one job for all that passed, that of the latest', () => {
    expect(due('one', 20_000, 1_005_000)).toEqual([
      { at: 20_000, nextAt: 1_010_000, instant: 1_000_000 },
    ])
  })

  it('brings each that passed, in order, a hundred at a time', () => {
    const few = due('all', 20_000, 40_000)
    expect(few.map(({ at, instant, nextAt }) => [at, instant, nextAt])).toEqual([
      [20_000, 20_000, 30_000],
      [30_000, 30_000, 40_000],
      [40_000, 40_000, 50_000],
    ])
    const many = due('all', 20_000, 20_000_000)
    expect(many).toHaveLength(MAX_TICKS)
    expect(many.at(-1)?.nextAt).toBe(20_000 + MAX_TICKS * STEP)
  })

  it('skips what passed over a minute ago, and moves on all the same', () => {
    const nightly = { ...TENS, latest: (first: number) => first, after: () => 9_000_000 }
    const skip = { missed: 'skip', nextAt: 20_000 } as const
    expect(ticksOf(skip, 20_000 + LATE_MS, nightly)[0]?.instant).toBe(20_000)
    expect(ticksOf(skip, 20_001 + LATE_MS, nightly)).toEqual([
      { at: 20_000, nextAt: 9_000_000, instant: null },
    ])
    expect(due('skip', 20_000, 1_005_000)[0]?.instant).toBe(1_000_000)
  })
})

describe('the options of a schedule', () => {
  it('are filled in', () => {
    expect(resolveSchedule('nightly', {})).toEqual({ timeZone: null, missed: 'one' })
    const options = { timeZone: 'UTC', missed: 'all' } as const
    expect(resolveSchedule('nightly', options)).toEqual(options)
  })

  it.each([
    ['', {}, 'name of a schedule'],
    ['x'.repeat(231), {}, 'at most 230 bytes'],
    ['a', { missed: 'none' }, "'skip' or 'one' or 'all'"],
    ['a', { timezone: 'UTC' }, "Did you mean 'timeZone'?"],
    ['a', null, 'must be an object'],
  ])('are refused by name: %j %j', (name, options, text) => {
    const refused = refusalOf(() => resolveSchedule(name, options as never))
    expect(refused.code).toBe('INVALID_OPTION')
    expect(refused.message).toContain(text)
  })
})

describe('the job of a schedule', () => {
  it.each([
    ['id', 'x', 'called by the name of the schedule'],
    ['execute', () => 1, 'define(type, handler)'],
    ['availableAt', 5, 'use delay'],
  ])('has no %s, and is told why', (key, value, text) => {
    const refused = refusalOf(() => checkTemplate({ type: 't', [key]: value }))
    expect(refused).toMatchObject({ code: 'INVALID_JOB', option: key })
    expect(refused.message).toContain(text)
  })

  it('is the same text for the same job, however it was written', () => {
    const one = templateOf({ type: 't', priority: 5, payload: { a: 1 } }, 1_000)
    const other = templateOf(
      { payload: { a: 1 }, priority: 5, type: 't', pool: undefined } as never,
      1_000,
    )
    expect(one).toBe(other)
    expect(templateOf({ type: 't', payload: { a: 2 } }, 1_000)).not.toBe(one)
  })

  it('reads back as it was given, with a name for its instant', () => {
    const job: JobInput = {
      type: 't',
      payload: { list: [1, null, 'x'] },
      deps: ['a', { id: 'b', on: 'end' }],
      timeout: '5s',
      key: 'k',
    }
    const row = { name: 'nightly', template: templateOf(job, 1_000) } as Schedule
    expect(jobAt(row, '2025-01-01T03:00:00.000Z')).toEqual({
      ...job,
      id: 'nightly@2025-01-01T03:00:00.000Z',
    })
    const bare = { name: 'n', template: templateOf({}, 1_000) } as Schedule
    expect(jobAt(bare, 'x')).toEqual({ id: 'n@x' })
    const alone = { name: 'n', template: templateOf({ payload: null }, 1_000) } as Schedule
    expect(jobAt(alone, 'x')).toEqual({ id: 'n@x', payload: null })
  })

  it('has a payload that is JSON, and not too large', () => {
    const wrong = refusalOf(() => templateOf({ type: 't', payload: { at: new Map() } }, 1_000))
    expect(wrong.code).toBe('INVALID_JOB')
    const large = refusalOf(() => templateOf({ type: 't', payload: 'x'.repeat(99) }, 50))
    expect(large.code).toBe('TOO_LARGE')
  })
})
