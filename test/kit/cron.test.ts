// Owns the promises about instants: which come, in which zone, when its clock changes.
// May never depend on the zone of the machine.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import { CronTimes } from '../../src/kit/cron.ts'

const HOUR = 3_600_000

function instants(cron: string, timeZone: string, from: string, count: number): string[] {
  const times = new CronTimes(cron, timeZone)
  const list: string[] = []
  for (let at = Date.parse(from); list.length < count; ) {
    at = times.after(at)
    list.push(new Date(at).toISOString().slice(5, 16))
  }
  return list
}

function refusalOf(cron: unknown, timeZone: unknown = null): AxError {
  try {
    new CronTimes(cron as string, timeZone as string)
  } catch (error) {
    if (error instanceof AxError) return error
  }
  throw new Error(`${String(cron)} in ${String(timeZone)} was not refused`)
}

describe('a cron expression', () => {
  it('names the instants after a moment, that one not among them', () => {
    const times = new CronTimes('*/15 * * * *', 'UTC')
    const quarter = Date.parse('2025-06-01T10:15:00Z')
    expect(times.after(quarter - 1)).toBe(quarter)
    expect(times.after(quarter)).toBe(quarter + HOUR / 4)
  })

  it('may have seconds, or be a nickname', () => {
    expect(new CronTimes('*/5 * * * * *', 'UTC').after(2_000)).toBe(5_000)
    expect(new CronTimes('@daily', 'UTC').after(0)).toBe(24 * HOUR)
  })

  it('goes by the clock of its zone', () => {
    expect(instants('0 9 * * 1-5', 'Asia/Tokyo', '2025-06-06T12:00:00Z', 2)).toEqual([
      '06-09T00:00',
      '06-10T00:00',
    ])
  })

  it('comes once on a day on which its time is skipped, at the moment of the change', () => {
    expect(instants('30 2 * * *', 'Europe/Berlin', '2025-03-29T00:00:00Z', 3)).toEqual([
      '03-29T01:30',
      '03-30T01:00',
      '03-31T00:30',
    ])
    expect(instants('30 2,14 * * *', 'Europe/Berlin', '2025-03-29T23:00:00Z', 2)).toEqual([
      '03-30T01:00',
      '03-30T12:30',
    ])
  })

  it('comes once on a day on which its time is repeated, the first time', () => {
    expect(instants('30 2 * * *', 'Europe/Berlin', '2025-10-25T00:00:00Z', 3)).toEqual([
      '10-25T00:30',
      '10-26T00:30',
      '10-27T01:30',
    ])
  })

  it('with a step comes whenever the clock shows such a time: never, or twice', () => {
    expect(instants('*/30 2 * * *', 'Europe/Berlin', '2025-03-29T12:00:00Z', 1)).toEqual([
      '03-31T00:00',
    ])
    expect(instants('*/30 2 * * *', 'Europe/Berlin', '2025-10-25T12:00:00Z', 5)).toEqual([
      '10-26T00:00',
      '10-26T00:30',
      '10-26T01:00',
      '10-26T01:30',
      '10-27T01:00',
    ])
    expect(instants('0 */2 * * *', 'Europe/Berlin', '2025-03-29T22:30:00Z', 2)).toEqual([
      '03-29T23:00',
      '03-30T02:00',
    ])
    expect(instants('0 */2 * * *', 'Europe/Berlin', '2025-10-25T23:30:00Z', 3)).toEqual([
      '10-26T00:00',
      '10-26T01:00',
      '10-26T03:00',
    ])
    expect(instants('0,30 2 * * *', 'Europe/Berlin', '2025-03-29T12:00:00Z', 2)).toEqual([
      '03-30T01:00',
      '03-31T00:00',
    ])
  })

  it('with an open hour goes by the time that passes', () => {
    expect(instants('0 * * * *', 'Europe/Berlin', '2025-10-25T23:30:00Z', 3)).toEqual([
      '10-26T00:00',
      '10-26T01:00',
      '10-26T02:00',
    ])
    expect(instants('0 * * * *', 'Europe/Berlin', '2025-03-30T00:30:00Z', 2)).toEqual([
      '03-30T01:00',
      '03-30T02:00',
    ])
  })

  const crons = fc.constantFrom(
    '30 2 * * *',
    '0 2,3 * * *',
    '*/30 * * * *',
    '15,45 1-3 * * *',
    '*/20 2 * * *',
    '*/40 30 2 * * *',
    '0 0 * * *',
  )
  const zones = fc.constantFrom(
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'Africa/Cairo',
    'UTC',
  )
  const starts = fc.constantFrom(
    ...['2025-03-08', '2025-03-29', '2025-04-05', '2025-04-24', '2025-10-04', '2025-10-25'],
    ...['2025-10-30', '2025-11-01'],
  )

  it('has the same instants whoever asks from wherever, around every change of clocks', () => {
    fc.assert(
      fc.property(crons, zones, starts, fc.nat(48 * 3_600), (cron, zone, day, second) => {
        const times = new CronTimes(cron, zone)
        const start = Date.parse(`${day}T00:00:00Z`)
        const moment = start + second * 1_000
        let before = start
        for (let at = times.after(start); at <= moment; at = times.after(at)) {
          expect(at).toBeGreaterThan(before)
          before = at
        }
        expect(times.after(before)).toBe(times.after(moment))
        if (before > start) expect(times.latest(times.after(start), moment)).toBe(before)
      }),
      { numRuns: 150 },
    )
  })

  it('finds the latest of many that have passed without going through them', () => {
    const times = new CronTimes('* * 9 * * *', 'UTC')
    const first = Date.parse('2025-06-01T09:00:00Z')
    const last = Date.parse('2025-06-08T09:59:59Z')
    expect(times.latest(first, last + 12 * HOUR)).toBe(last)
    expect(times.latest(first, first)).toBe(first)
  })

  it('lets an instant stand that another zone has made', () => {
    const times = new CronTimes('0 3 * * *', 'UTC')
    const foreign = Date.parse('2025-06-01T01:00:00Z')
    expect(times.latest(foreign, foreign + HOUR)).toBe(foreign)
    expect(times.latest(foreign, foreign + 3 * HOUR)).toBe(foreign + 2 * HOUR)
  })
})

describe('what is no cron expression', () => {
  it.each([
    ['* * *'],
    ['61 * * * *'],
    ['nightly'],
    [''],
    ['@reboot'],
    ['@never'],
    ['* * * * * * 2025'],
    ['2025-01-01T00:00:00'],
    ['5 */0 * * *'],
    [5],
    [null],
    [undefined],
  ])('is refused by name: %j', (cron) => {
    const error = refusalOf(cron)
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toContain('cron must be an expression such as')
    expect(error).toMatchObject({ option: 'cron', value: cron })
  })

  it('is refused if it never comes', () => {
    expect(refusalOf('0 0 31 2 *').message).toContain('that comes at some time')
  })

  it.each([['Mars/Olympus'], [''], [5], ['+01:00:99']])('nor is %j a time zone', (zone) => {
    const error = refusalOf('* * * * *', zone)
    expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'timeZone', value: zone })
    expect(error.message).toContain("such as 'Europe/Berlin'")
  })
})
