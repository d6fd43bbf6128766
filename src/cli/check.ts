// Owns how a flow file is checked: every problem is collected with its place, none is thrown.
// May never know what a flow is.

import type { Duration } from '../core/duration.ts'
import { isAxError } from '../core/errors.ts'
import { nearest, refuseValue, show } from '../core/options.ts'
import { msOf } from '../core/terms.ts'
import type { Source } from './load.ts'
import { type Path, type Problem, showPath } from './problems.ts'

/** How a value is read: it answers with the value, or throws the error that it deserves. */
export type Reader<T> = (name: string, value: unknown) => T

export class Checker {
  readonly problems: Problem[] = []
  readonly #source: Source

  constructor(source: Source) {
    this.#source = source
  }

  /** Whether functions may be part of the flow. */
  get allowsFunctions(): boolean {
    return this.#source.isModule
  }

  /** Notes a problem; `text` is a sentence that begins with the path. */
  report(path: Path, text: string, at: 'key' | 'value' = 'value'): undefined {
    this.problems.push({ text, place: this.#source.where(path, at) })
    return undefined
  }

  /** A value, or undefined after its problem has been noted. */
  read<T>(path: Path, value: unknown, reader: Reader<T>): T | undefined {
    try {
      return reader(showPath(path), value)
    } catch (error) {
      if (!isAxError(error)) throw error
      return this.report(path, error.message)
    }
  }

  /** The keys of an object, or undefined after noting that it is none. */
  object(path: Path, value: unknown, what: string): Record<string, unknown> | undefined {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>
    }
    return this.report(path, `${showPath(path)} must be ${what}, got ${show(value)}.`)
  }

  /** Notes every key that is not allowed, with the nearest one that is. */
  keys(path: Path, given: object, allowed: readonly string[], what: string): void {
    for (const key of Object.keys(given)) {
      if (allowed.includes(key)) continue
      const near = nearest(key, allowed)
      const hint =
        near === undefined ? `Its keys are: ${allowed.join(', ')}.` : `Did you mean '${near}'?`
      this.report(
        [...path, key],
        `${showPath([...path, key])} is no key of ${what}. ${hint}`,
        'key',
      )
    }
  }

  /** The readable ones of the given keys, each by its reader. */
  pick<T extends object>(
    path: Path,
    given: Readonly<Record<string, unknown>>,
    readers: { readonly [K in keyof T]: Reader<T[K]> },
  ): Partial<T> {
    const picked: Partial<T> = {}
    for (const key of Object.keys(readers) as (keyof T & string)[]) {
      if (given[key] === undefined) continue
      const value = this.read([...path, key], given[key], readers[key])
      if (value !== undefined) picked[key] = value
    }
    return picked
  }
}

/** A duration, in milliseconds. */
export const duration: Reader<number> = (name, value) =>
  msOf(name, value as Duration, 'INVALID_OPTION')

export const text: Reader<string> = (name, value) =>
  typeof value === 'string' && value.trim() !== ''
    ? value
    : refuseValue(name, value, 'a text that is not empty')
