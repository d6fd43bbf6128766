// Owns the checks that every option object passes: unknown keys, wrong values, nearest names.
// May never fill in a default: what a missing option means is the business of its owner.

import { AxError, type AxErrorCode } from './errors.ts'

/**
 * Refuses keys that are not allowed, naming the key and the nearest valid one.
 * O(keys) when all is well.
 */
export function refuseUnknown(
  where: string,
  given: object,
  allowed: readonly string[],
  code: AxErrorCode = 'INVALID_OPTION',
): void {
  for (const key of Object.keys(given)) {
    if (allowed.includes(key)) continue
    const near = nearest(key, allowed)
    const hint =
      near === undefined ? `Valid keys: ${allowed.join(', ')}.` : `Did you mean '${near}'?`
    throw new AxError(code, `${where} has no option '${key}'. ${hint}`, {
      option: key,
      nearest: near,
    })
  }
}

/** Throws the error that a wrong value deserves: the name, the value, and what was expected. */
export function refuseValue(
  name: string,
  value: unknown,
  expected: string,
  code: AxErrorCode = 'INVALID_OPTION',
): never {
  throw new AxError(code, `${name} must be ${expected}, got ${showMade(value)}.`, {
    option: name,
    value,
  })
}

/** An integer from `min` to `max`, both included. */
export function integer(
  name: string,
  value: unknown,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
  code: AxErrorCode = 'INVALID_OPTION',
): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) {
    return value
  }
  const isOpen = max === Number.MAX_SAFE_INTEGER && !((value as number) > max)
  const range = isOpen ? `of at least ${min}` : `from ${min} to ${max}`
  return refuseValue(name, value, `an integer ${range}`, code)
}

/** An integer of at least `min`, or Infinity where there is to be no bound. */
export function countOf(name: string, value: unknown, min: number): number {
  if (value === Number.POSITIVE_INFINITY) return value
  if (Number.isSafeInteger(value) && (value as number) >= min) return value as number
  const isLarge = (value as number) > Number.MAX_SAFE_INTEGER
  const range = isLarge ? `from ${min} to ${Number.MAX_SAFE_INTEGER}` : `of at least ${min}`
  return refuseValue(name, value, `an integer ${range}, or Infinity`)
}

/** A share of something: above 0, and up to 1. */
export function share(name: string, value: unknown): number {
  if (typeof value === 'number' && value > 0 && value <= 1) return value
  return refuseValue(name, value, 'a share above 0 and up to 1')
}

export function boolean(name: string, value: unknown, code: AxErrorCode = 'INVALID_OPTION') {
  return typeof value === 'boolean' ? value : refuseValue(name, value, 'true or false', code)
}

export function oneOf<T extends string>(
  name: string,
  value: unknown,
  allowed: readonly T[],
  code: AxErrorCode = 'INVALID_OPTION',
): T {
  if (allowed.includes(value as T)) return value as T
  const near = typeof value === 'string' ? nearest(value, allowed) : undefined
  const hint = near === undefined ? '' : ` (did you mean '${near}'?)`
  const names = allowed.map((each) => `'${each}'`).join(' or ')
  return refuseValue(name, value, `${names}${hint}`, code)
}

/**
 * An object of keys and values: not null, a list, a function, and nothing with a meaning of its
 * own, such as the AbortSignal that was meant to be `{ signal }`, a Date, a Map, or whatever else
 * a class has made: it would pass as an object without options, and be ignored.
 */
export function plain(name: string, value: unknown, code: AxErrorCode = 'INVALID_OPTION'): object {
  return isPlain(value) ? value : refuseValue(name, value, 'an object', code)
}

/** Whether no class has made it, nor anything that it inherits from; or a module exports it. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  for (let parent = parentOf(value); parent !== null; ) {
    const next = parentOf(parent)
    if (next !== null && Object.hasOwn(parent, 'constructor')) return false
    parent = next
  }
  const tag = (value as { readonly [Symbol.toStringTag]?: unknown })[Symbol.toStringTag]
  return tag === undefined || tag === 'Module'
}

function parentOf(value: object): object | null {
  return Object.getPrototypeOf(value)
}

/** As `show`, but what a class has made is called after it: its text may read as if it fitted. */
function showMade(value: unknown): string {
  const text = show(value)
  try {
    if (!text.startsWith('{') || isPlain(value)) return text
    const { name } = (value as { readonly constructor: { readonly name: unknown } }).constructor
    return typeof name === 'string' && name !== '' ? `an instance of ${clip(name, 80)}` : text
  } catch {
    return text
  }
}

/** The options of a function: a plain object with no keys but these. */
export function checkOptions(
  where: string,
  options: unknown,
  allowed: readonly string[],
  code: AxErrorCode = 'INVALID_OPTION',
): void {
  if (isPlain(options)) {
    refuseUnknown(where, options, allowed, code)
    return
  }
  const text = `The options of ${where} must be an object, got ${showMade(options)}.`
  throw new AxError(code, `${text} Valid keys: ${allowed.join(', ')}.`, {
    option: 'options',
    value: options,
  })
}

/** An object that others have made: the methods that will be called are there. */
export function able<T extends object>(
  name: string,
  value: T,
  methods: readonly (keyof T & string)[],
): T {
  const kind: unknown = typeof value
  const isNone = value === null || value === undefined
  if (isNone || (kind !== 'object' && kind !== 'function')) {
    refuseValue(name, value, `an object with the methods ${methods.join(', ')}`)
  }
  for (const method of methods) callable(`${name}.${method}`, value[method])
  return value
}

export function callable<F>(name: string, value: F, code: AxErrorCode = 'INVALID_OPTION'): F {
  return typeof value === 'function' ? value : refuseValue(name, value, 'a function', code)
}

/** A value as people read it in a message: short, quoted where it is text, never throwing. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(clip(value, 80))
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'symbol') return 'a symbol'
  if (typeof value !== 'object' || value === null) return String(value)
  try {
    const text = JSON.stringify(value) ?? 'an object'
    const kind = text === '{}' ? Object.prototype.toString.call(value) : '[object Object]'
    return kind === '[object Object]' ? clip(text, 80) : kind
  } catch {
    return 'an object'
  }
}

export function clip(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 3)}...`
}

/**
 * The closest name: what other libraries' word for it means here, or one that is close enough to
 * be a slip: at most a third of the letters differ (at least two), or one name begins with the
 * other. Letters are compared without case.
 */
export function nearest(word: string, names: readonly string[]): string | undefined {
  const typed = word.toLowerCase()
  const meant = SYNONYMS.find(([from, to]) => from === typed && names.includes(to))
  if (meant !== undefined) return meant[1]
  let best: string | undefined
  let bestDistance = Math.min(Math.max(2, Math.floor(word.length / 3)), word.length - 1) + 1
  for (const name of names) {
    const known = name.toLowerCase()
    const begins = known.startsWith(typed) || typed.startsWith(known)
    const short = Math.min(typed.length, known.length) < 3
    const away = begins && !short ? 1 : distance(typed, known)
    if (away < bestDistance) {
      best = name
      bestDistance = away
    }
  }
  return best
}

/** Names that other libraries use for the same thing. */
const SYNONYMS: readonly (readonly [string, string])[] = [
  ['dependson', 'deps'],
  ['dependencies', 'deps'],
  ['needs', 'deps'],
  ['attempts', 'retries'],
  ['maxattempts', 'retries'],
  ['data', 'payload'],
  ['input', 'payload'],
  ['name', 'type'],
  ['queue', 'pool'],
  ['runat', 'availableAt'],
  ['scheduledfor', 'availableAt'],
  ['jobid', 'id'],
  ['handler', 'execute'],
  ['fn', 'execute'],
  ['group', 'exclusive'],
  ['limit', 'concurrency'],
  ['base', 'delay'],
  ['basedelay', 'delay'],
  ['maxdelay', 'max'],
]

/** Levenshtein's edit distance, one row at a time. O(a * b). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(change, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[b.length] as number
}
