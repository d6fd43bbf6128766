// Owns what of a flow's job is stored with it, and what has changed when the file has.
// May never read the store.

import type { FlowJob } from './flow.ts'
import { marked } from './mark.ts'
import type { Work } from './work.ts'

/** A job as its file described it when it was stored: plain JSON, equal for equal descriptions. */
export interface Definition {
  /** What it does: of a function only the mark by which a change of its text is seen. */
  readonly does: Readonly<Record<string, unknown>>
  readonly deps: readonly (readonly [name: string, on: string])[]
  readonly depMode: unknown
  readonly rest: Readonly<Record<string, unknown>>
}

export function definitionOf(job: FlowJob): Definition {
  const { backoff, ...settings } = job.settings
  return {
    does: doing(job.work),
    deps: job.deps.map(({ name, on }) => [name, on]),
    depMode: job.depMode ?? 'all',
    rest: inOrder({
      pool: job.pool,
      ...settings,
      ...(backoff === undefined ? {} : { backoff: marked(backoff) }),
    }),
  }
}

/** Whether a setting is a job's own or that of all makes no difference. */
function inOrder(settings: Definition['rest']): Definition['rest'] {
  return Object.fromEntries(Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1)))
}

function doing(work: Work): Definition['does'] {
  switch (work.kind) {
    case 'run':
      return { run: work.command }
    case 'http':
      // A body may hold secrets, which nobody has to keep for a comparison. Headers and what is
      // expected are no part of what it did: a token may be a new one.
      return {
        http: `${work.request.method} ${work.request.url}`,
        ...(work.request.body === undefined ? {} : { body: marked(work.request.body) }),
      }
    case 'sleep':
      return { sleep: work.ms }
    case 'call':
      return { function: marked(work.call) }
  }
}

/** True for a payload that `definitionOf` has made. */
export function isDefinition(value: unknown): value is Definition {
  return typeof value === 'object' && value !== null && 'does' in value && 'rest' in value
}

export function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

/** What of a job that has succeeded may not change, each change in a line. */
export function changesOf(was: Definition, is: Definition): string[] {
  const changes: string[] = []
  if (!isSame(was.does, is.does)) changes.push(changeOf(was.does, is.does))
  const depsChanged = !isSame(was.deps, is.deps) || !isSame(was.depMode, is.depMode)
  if (depsChanged) changes.push(`deps ${showDeps(was)} -> ${showDeps(is)}`)
  return changes
}

/** Both sides of a change, or in words what cannot be shown. */
function changeOf(was: Definition['does'], is: Definition['does']): string {
  const [kind, value] = firstOf(was)
  const [nextKind, next] = firstOf(is)
  if (kind !== nextKind) return `${shown(kind, value)} -> ${shown(nextKind, next)}`
  if (kind === 'function') return 'the text of its function has changed'
  if (value === next) {
    return `${shown(kind, value)}: its ${kind === 'http' ? 'body' : 'white space'} has changed`
  }
  const [before, after] = apart(value, next)
  return `${shown(kind, before)} -> ${shown(nextKind, after)}`
}

function firstOf(does: Definition['does']): readonly [kind: string, value: string] {
  const [[kind = '', value] = []] = Object.entries(does)
  return [kind, flat(typeof value === 'string' ? value : JSON.stringify(value))]
}

function shown(kind: string, value: string): string {
  return kind === 'function' ? 'a function' : `${kind} ${short(value)}`
}

/** Two long texts from a little before the place at which they part. */
function apart(a: string, b: string): readonly [string, string] {
  let at = 0
  while (at < a.length && a[at] === b[at]) at += 1
  const from = at - 20
  return at < 80 ? [a, b] : [`...${a.slice(from)}`, `...${b.slice(from)}`]
}

function showDeps({ deps, depMode }: Definition): string {
  const names = deps.map(([name, on]) => (on === 'end' ? `${name} (any end)` : name))
  return `[${names.join(', ')}]${depMode === 'all' ? '' : ` (${depMode})`}`
}

function flat(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}

function short(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 97)}...` : text)
}
