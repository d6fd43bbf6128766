// Owns what crosses from the caller's memory to a store and back: values as JSON text, errors as
// data. May never keep what JSON cannot say: it is refused where it stands. Two slips are let pass,
// as looking for them costs more than they do: -0 reads back as 0, and a list loses what else it
// has beside its items.

import { AxError, type AxErrorCode, isAxError } from './errors.ts'
import { asName, byteLength } from './id.ts'
import type { ErrorData } from './job.ts'
import { clip, show } from './options.ts'

/** Deeper than any honest value, and shallow enough for the stack of every JSON parser. */
const MAX_DEPTH = 500

/** Longest message and stack that are kept, in characters. */
const MAX_TEXT = 8_192

/** Longest name of a class of errors. */
const MAX_CLASS = 255

export interface JsonOptions {
  /** Of the JSON text, in UTF-8. */
  readonly maxBytes: number
  /** What an unfit value is refused with. */
  readonly code: 'INVALID_JOB' | 'UNSTORABLE'
  /** True: a property that is undefined is left out; it reads back the same. */
  readonly lenient: boolean
}

/**
 * The JSON text of a value, or undefined for undefined. What would not read back as it was is
 * refused, naming its place (`payload.items[3].price`); too much of it is TOO_LARGE.
 * O(size); never looks at more than `maxBytes` values.
 */
export function toJson(value: unknown, what: string, options: JsonOptions): string | undefined {
  if (value === undefined) return undefined
  const text = isPlainlyFit(value) ? JSON.stringify(value) : checkedText(value, what, options)
  if (text === undefined) return text
  // V8 makes longer texts as ropes, which cost 95 bytes more for as long as the job lives. Reading
  // a character makes one piece of it.
  text.charCodeAt(0)
  if (text.length * 3 <= options.maxBytes) return text
  const size = byteLength(text)
  return size <= options.maxBytes ? text : refuseSize(what, `${size}`, options.maxBytes)
}

/** The value of a JSON text. `__proto__` is an ordinary key. */
export function fromJson(text: string | undefined): unknown {
  return text === undefined ? undefined : JSON.parse(text)
}

function isPlainlyFit(value: unknown): boolean {
  const type = typeof value
  if (type === 'number') return Number.isFinite(value)
  return type === 'string' || type === 'boolean' || value === null
}

function checkedText(value: unknown, what: string, options: JsonOptions): string | undefined {
  const walk: Walk = { what, options, keys: [], parents: [], seen: 0 }
  try {
    visit(value, '', walk)
    return JSON.stringify(value)
  } catch (error) {
    if (isAxError(error)) throw error
    if (error instanceof RangeError && /string length/.test(error.message)) {
      return refuseSize(what, 'more than a string can hold, in', options.maxBytes)
    }
    const why = toErrorData(error).message
    throw new AxError(options.code, `${placeOf(walk)} cannot be written as JSON: ${why}`, {
      option: placeOf(walk),
      cause: error,
    })
  }
}

/** A walk through a value: where it stands, and how much it has seen. */
interface Walk {
  readonly what: string
  readonly options: JsonOptions
  readonly keys: (string | number)[]
  readonly parents: object[]
  seen: number
}

function visit(given: unknown, key: string, walk: Walk): void {
  walk.seen += 1
  if (walk.seen > walk.options.maxBytes) {
    refuseSize(walk.what, `more than ${walk.options.maxBytes}`, walk.options.maxBytes)
  }
  const value = plainOf(given, key)
  if (isPlainlyFit(value)) return
  if (typeof value === 'object' && value !== null) visitObject(value, walk)
  else visitOdd(value, walk)
}

function visitObject(value: object, walk: Walk): void {
  if (walk.parents.includes(value)) refuse(walk, 'contains itself', value)
  if (walk.parents.length >= MAX_DEPTH) refuse(walk, `is nested over ${MAX_DEPTH} deep`, value)
  walk.parents.push(value)
  if (Array.isArray(value)) visitItems(value, walk)
  else visitProperties(value, walk)
  walk.parents.pop()
}

/** What JSON sees of a value: what its toJSON answers, if it has one. */
function plainOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return value
  const own = (value as { readonly toJSON?: unknown }).toJSON
  return typeof own === 'function' ? own.call(value, key) : value
}

function visitItems(items: readonly unknown[], walk: Walk): void {
  for (let index = 0; index < items.length; index += 1) {
    walk.keys.push(index)
    visit(items[index], String(index), walk)
    walk.keys.pop()
  }
}

function visitProperties(value: object, walk: Walk): void {
  const kind = Object.getPrototypeOf(value)
  if (kind !== null && Object.getPrototypeOf(kind) !== null) refuse(walk, notPlain(value), value)
  if (Object.getOwnPropertySymbols(value).length > 0) {
    refuse(walk, 'has a symbol for a key, which JSON leaves out', value)
  }
  for (const key of Object.keys(value)) {
    walk.keys.push(key)
    visit((value as Readonly<Record<string, unknown>>)[key], key, walk)
    walk.keys.pop()
  }
}

function notPlain(value: object): string {
  const name = attempt(() => (value as { constructor: { name?: unknown } }).constructor.name)
  const kind = typeof name === 'string' && name !== '' ? name : 'class'
  return `is a ${kind} object without toJSON, which would not come back as it was`
}

function visitOdd(value: unknown, walk: Walk): void {
  if (value !== undefined) {
    refuse(walk, `is ${show(value)}, which JSON cannot say`, value)
  }
  const isProperty = typeof walk.keys.at(-1) !== 'number'
  if (walk.options.lenient && isProperty) return
  if (walk.keys.length > 0) {
    refuse(walk, 'is undefined: leave it out, or use null', value)
  }
}

function refuse(walk: Walk, problem: string, value: unknown): never {
  const place = placeOf(walk)
  throw new AxError(walk.options.code, `${place} ${problem}.`, { option: place, value })
}

function refuseSize(what: string, size: string, limit: number): never {
  const text = `${what} is ${size} bytes of JSON; at most ${limit} are allowed.`
  throw new AxError('TOO_LARGE', `${text} Store it elsewhere and pass a reference.`, {
    option: what,
    size: Number.isNaN(Number(size)) ? undefined : Number(size),
    limit,
  })
}

function placeOf(walk: Walk): string {
  const steps = walk.keys.map((key) => {
    if (typeof key === 'number') return `[${key}]`
    return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${show(key)}]`
  })
  return clip(walk.what + steps.join(''), 500)
}

/**
 * Whatever was thrown, as data. A code that could be no name becomes the nearest that can: jobs are
 * counted and found by it. Never throws: undefined, strings, frozen objects and objects with
 * hostile getters all give a message that can be printed.
 */
export function toErrorData(error: unknown): ErrorData {
  const message = textOf(error, 'message') ?? messageOf(error)
  const code = textOf(error, 'code')
  const stack = textOf(error, 'stack')
  return {
    name: clip(textOf(error, 'name') || 'Error', MAX_CLASS),
    message: clip(message, MAX_TEXT),
    ...(code ? { code: asName(code) } : {}),
    ...(stack === undefined ? {} : { stack: clip(stack, MAX_TEXT) }),
  }
}

function messageOf(reason: unknown): string {
  if (typeof reason === 'string' && reason !== '') return reason
  return `${attempt(() => show(reason)) ?? 'Something'} was thrown, which is not an error.`
}

/**
 * The error that `result()` rejects with: the job's code, the handler's message, and what the
 * handler threw, rebuilt, as its cause.
 */
export function toError(data: ErrorData, jobId: string): AxError {
  const cause = new Error(data.message)
  const parts = { name: data.name, stack: data.stack ?? `${data.name}: ${data.message}` }
  for (const [name, value] of Object.entries(parts)) {
    Object.defineProperty(cause, name, { value, writable: true, configurable: true })
  }
  if (data.code !== undefined) Object.assign(cause, { code: data.code })
  return new AxError(data.code ?? 'HANDLER_FAILED', data.message, { jobId, cause })
}

/** Asking again with the same input, or for something that was called off, changes nothing. */
const LASTING: readonly AxErrorCode[] = [
  'INVALID_JOB',
  'INVALID_OPTION',
  'UNSTORABLE',
  'TOO_LARGE',
  'CANCELLED',
]

/** The scheduler's own rule, for types without one: whether a failure is worth another attempt. */
export function isRetryableFailure(error: unknown): boolean {
  if (propertyOf(error, 'retryable') === false) return false
  return !LASTING.some((code) => attempt(() => isAxError(error, code)) === true)
}

/** The milliseconds for which the downstream asked to be left alone, if it did. */
export function retryAfterOf(error: unknown): number | undefined {
  const ms = propertyOf(error, 'retryAfter')
  return typeof ms === 'number' && Number.isFinite(ms) && ms >= 0 ? ms : undefined
}

function textOf(value: unknown, name: string): string | undefined {
  const text = propertyOf(value, name)
  return typeof text === 'string' ? text : undefined
}

function propertyOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  return attempt(() => (value as Readonly<Record<string, unknown>>)[name])
}

/** What a piece of foreign code answers, or undefined if it throws. */
function attempt<T>(ask: () => T): T | undefined {
  try {
    return ask()
  } catch {
    return undefined
  }
}
