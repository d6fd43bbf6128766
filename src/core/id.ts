// Owns ids: what may be one, and how a new one is made so that ids sort by time.
// May never read a clock or a source of randomness: both come in as numbers.

import { AxError, type AxErrorCode } from './errors.ts'
import { show } from './options.ts'

/** Longest id, key, type, pool, flow or lane, in bytes of UTF-8. Redis and B-trees like it so. */
export const MAX_NAME_BYTES = 255

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz'

/**
 * An id, key or name: any text of 1 to 255 bytes without a NUL, and without half a surrogate
 * pair, since two such texts would be one in UTF-8.
 */
export function checkName(what: string, value: unknown, code: AxErrorCode = 'INVALID_JOB'): string {
  if (typeof value === 'string' && value !== '' && fits(value) && !UNFIT.test(value)) return value
  throw new AxError(
    code,
    `${what} must be a text of 1 to ${MAX_NAME_BYTES} bytes without NUL, got ${show(value)}.`,
    { option: what, value },
  )
}

const UNFIT = /\0|\p{Surrogate}/u

/**
 * The name that a text from outside comes nearest to: itself, mostly. What no name may have is
 * replaced by the sign for that, and what is too long is cut.
 */
export function asName(text: string): string {
  if (fits(text) && !UNFIT.test(text)) return text
  const whole = text.replace(UNFITS, '\ufffd')
  if (fits(whole)) return whole
  let name = ''
  let bytes = CUT.length
  for (const sign of whole) {
    bytes += byteLength(sign)
    if (bytes > MAX_NAME_BYTES) break
    name += sign
  }
  return name + CUT
}

const UNFITS = new RegExp(UNFIT, 'gu')
const CUT = '...'

function fits(text: string): boolean {
  if (text.length * 3 <= MAX_NAME_BYTES) return true
  return text.length <= MAX_NAME_BYTES && byteLength(text) <= MAX_NAME_BYTES
}

/** Bytes of a text in UTF-8. O(length). */
export function byteLength(text: string): number {
  let bytes = text.length
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index)
    const paired =
      unit >= 0xd800 && unit <= 0xdbff && /^[\udc00-\udfff]/.test(text[index + 1] ?? '')
    if (paired) index += 1
    if (unit > 0x7ff) bytes += 2
    else if (unit > 0x7f) bytes += 1
  }
  return bytes
}

/**
 * A maker of ids of 20 characters: 9 of time (milliseconds), 5 of a counter that starts afresh
 * each millisecond, 6 that tell makers apart (30 bits of randomness, drawn once). Ids of one
 * maker sort in the order in which they were made, even when the clock steps back.
 */
export function idMaker(random: () => number): (now: number) => string {
  const maker = digits(Math.floor(random() * 2 ** 30), 6)
  let last = 0
  let time = ''
  let count = 0
  return (now) => {
    if (now > last || time === '' || count === 32 ** 5 - 1) {
      last = now > last || time === '' ? now : last + 1
      time = digits(Math.floor(last), 9)
      count = 0
    }
    count += 1
    return time + digits(count, 5) + maker
  }
}

function digits(value: number, length: number): string {
  let text = ''
  let rest = value
  for (let index = 0; index < length; index += 1) {
    text = (DIGITS[rest % 32] as string) + text
    rest = Math.floor(rest / 32)
  }
  return text
}
