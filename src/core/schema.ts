// Owns what a schema has to say about a payload, put into words.
// May never call a schema: it may be async, and it is somebody else's code.

import { AxError } from './errors.ts'
import { clip, show } from './options.ts'
import type { StandardIssue } from './types.ts'

/**
 * The payload that a schema has made, from its answer. Refuses with INVALID_JOB: the first issue
 * speaks, `issues` has all of them.
 */
export function valueFrom(type: string, answer: unknown): unknown {
  if (typeof answer === 'object' && answer !== null) {
    const { issues } = answer as { readonly issues?: unknown }
    if (Array.isArray(issues) && issues.length > 0) throw refusal(type, issues as unknown as Issues)
    if (issues === undefined && 'value' in answer) return answer.value
  }
  throw new AxError(
    'INVALID_JOB',
    `The schema of type ${show(type)} answered ${show(answer)}, and not { value } or ` +
      '{ issues } with at least one. Is it a Standard Schema?',
    { type },
  )
}

/** The error for a schema that threw. */
export function schemaThrew(type: string, cause: unknown): AxError {
  const said = cause instanceof Error ? cause.message : show(cause)
  return new AxError(
    'INVALID_JOB',
    `The schema of type ${show(type)} threw instead of answering with issues: ${clip(said, 500)}`,
    { type, cause },
  )
}

type Issues = readonly [StandardIssue, ...StandardIssue[]]

function refusal(type: string, issues: Issues): AxError {
  const [first] = issues
  const path = pathOf(first)
  const where = path.reduce<string>((text, key) => text + step(key), 'payload')
  const more = issues.length - 1
  const rest = more === 0 ? '' : ` ${more} more issue${more === 1 ? '' : 's'}, see issues.`
  const said = clip(String(first.message), 500)
  return new AxError(
    'INVALID_JOB',
    `${where}: ${said} (the schema of type ${show(type)}).${rest}`,
    { type, option: where, path, issues },
  )
}

function pathOf({ path }: StandardIssue): readonly PropertyKey[] {
  if (!Array.isArray(path)) return []
  return path.map((each) => (typeof each === 'object' && each !== null ? each.key : each))
}

const WORD = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u

function step(key: PropertyKey): string {
  if (typeof key === 'number') return `[${key}]`
  if (typeof key === 'symbol') return `[${String(key)}]`
  return WORD.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}
