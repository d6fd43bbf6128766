// Owns the words that all explanations share: how a job, its error and its blockers are named.
// May never say why a job does not run.

import type { Dep, JobStatus, StoredJob } from './job.ts'
import { clip, show } from './options.ts'
import type { Explanation } from './types.ts'

/** A dependency that is not satisfied, as it is now. */
export type Blocker = Dep & { readonly status: JobStatus | 'unknown' }

/** Named in a sentence; the rest is counted. */
const NAMED = 3

/** Named in `blockedBy`: what a program can show. */
const BLOCKERS = 100

export function named(job: StoredJob): string {
  return `Job ${show(job.id)}`
}

export function inText(job: StoredJob): string {
  return `job ${show(job.id)}`
}

/** ` with CODE: message`, as far as it is known. */
export function whyOf(job: StoredJob): string {
  const message = job.error?.message.replace(/\s+/g, ' ').replace(/[.\s]+$/, '')
  const parts = [job.code, message === undefined ? undefined : clip(message, 200)]
  const text = parts.filter((part) => part !== undefined && part !== '').join(': ')
  return text === '' ? '' : ` with ${text}`
}

/** `once`, `2 times`. */
export function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}

/** What is to be said of an attempt whose outcome nobody knows, before the next one starts. */
export function doubtOf(job: StoredJob): string {
  if (!job.unknown || !job.terms.confirm) return ''
  return ' Its latest attempt may have taken effect, so its type is asked first (confirm).'
}

/** How long a body that was told to stop keeps its slot: past its grace, if its worker is full. */
export const UNTIL_GONE = 'until it has stopped, or its worker lets it go on as a zombie'

export function blockersOf(deps: readonly Blocker[]): Pick<Explanation, 'blockedBy'> {
  if (deps.length === 0) return {}
  return { blockedBy: deps.slice(0, BLOCKERS).map(({ id, status }) => ({ id, status })) }
}

/** `job "a"`, `jobs "a" and "b"`, `jobs "a", "b", "c" and 4 more`. */
export function namesOf(names: readonly string[]): string {
  if (names.length === 1) return `job ${names[0]}`
  const last = names.length > NAMED ? `${names.length - NAMED} more` : (names.at(-1) ?? 'none')
  const first = names.length > NAMED ? names.slice(0, NAMED) : names.slice(0, -1)
  return `jobs ${first.join(', ')} and ${last}`
}
