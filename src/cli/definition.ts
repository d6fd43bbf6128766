// Owns what of a flow's job is stored with it, and what has changed when the file has.
// May never read the store.

import { createHash } from 'node:crypto'
import type { FlowJob } from './flow.ts'
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
      // Its headers and its body may hold secrets, which nobody has to keep for a comparison.
      return { http: `${work.request.method} ${work.request.url}`, mark: marked(work.request) }
    case 'sleep':
      return { sleep: work.ms }
    case 'call':
      return { function: marked(work.call) }
  }
}

/** What tells whether it is still the same. Of a function its text: all that can be seen of it. */
function marked(value: unknown): string {
  const text = typeof value === 'function' ? String(value) : JSON.stringify(value)
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
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
  if (!isSame(was.does, is.does)) changes.push(`${whatItDoes(was)} -> ${whatItDoes(is)}`)
  const depsChanged = !isSame(was.deps, is.deps) || !isSame(was.depMode, is.depMode)
  if (depsChanged) changes.push(`deps ${showDeps(was)} -> ${showDeps(is)}`)
  return changes
}

function whatItDoes({ does }: Definition): string {
  const [[kind = '', value] = []] = Object.entries(does)
  if (kind === 'function') return 'a function'
  return `${kind} ${short(typeof value === 'string' ? value : JSON.stringify(value))}`
}

function showDeps({ deps, depMode }: Definition): string {
  const names = deps.map(([name, on]) => (on === 'end' ? `${name} (any end)` : name))
  return `[${names.join(', ')}]${depMode === 'all' ? '' : ` (${depMode})`}`
}

function short(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return JSON.stringify(line.length > 100 ? `${line.slice(0, 97)}...` : line)
}
