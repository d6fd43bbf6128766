// Owns durations: what people write ('5s', 250) and the milliseconds that it means.
// May never read a clock.

import { AxError, type AxErrorCode } from './errors.ts'
import { show } from './options.ts'

/** A number of milliseconds, or a number with a unit: `'250ms' '5s' '10m' '1h' '7d'`. */
export type Duration = number | string

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

const WRITTEN = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/

/**
 * The milliseconds of a duration, rounded up to whole ones. Zero is a duration; negative,
 * infinite and not-a-number are refused, naming the option.
 */
export function toMs(value: Duration, name: string, code: AxErrorCode = 'INVALID_OPTION'): number {
  const ms = typeof value === 'number' ? value : fromText(value)
  if (ms >= 0 && ms <= Number.MAX_SAFE_INTEGER) return Math.ceil(ms)
  const expected = "a number of milliseconds or a text such as '250ms', '5s', '10m', '1h', '7d'"
  throw new AxError(code, `${name} must be ${expected}, got ${show(value)}.`, {
    option: name,
    value,
  })
}

/** The same, where Infinity says that there is no end. */
export function spanOf(value: Duration, name: string): number {
  return value === Number.POSITIVE_INFINITY ? value : toMs(value, name)
}

/** The same, where 0 says so too. */
export function limitOf(value: Duration, name: string): number {
  return spanOf(value, name) || Number.POSITIVE_INFINITY
}

function fromText(text: unknown): number {
  const match = typeof text === 'string' ? WRITTEN.exec(text.trim()) : null
  if (match === null) return Number.NaN
  const ms = Number(match[1]) * (UNITS[match[2] as string] as number)
  // 1.1 hours is not a whole number of milliseconds only because of binary fractions.
  return Math.round(ms * 1_000) / 1_000
}

/** A duration as people read it: `850 ms`, `4.2 s`, `3 m 20 s`, `2 h 5 m`, `6 d 4 h`. */
export function showMs(ms: number): string {
  const whole = Math.max(0, Math.round(ms))
  if (whole < 1_000) return `${whole} ms`
  if (whole < 60_000) return `${Number((whole / 1_000).toFixed(whole < 10_000 ? 1 : 0))} s`
  if (whole < 3_600_000) return pair(whole, 60_000, 'm', 1_000, 's')
  if (whole < 86_400_000) return pair(whole, 3_600_000, 'h', 60_000, 'm')
  return pair(whole, 86_400_000, 'd', 3_600_000, 'h')
}

function pair(ms: number, big: number, bigName: string, small: number, smallName: string): string {
  const bigs = Math.floor(ms / big)
  const smalls = Math.floor((ms % big) / small)
  return smalls === 0 ? `${bigs} ${bigName}` : `${bigs} ${bigName} ${smalls} ${smallName}`
}
