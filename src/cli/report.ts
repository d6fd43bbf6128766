// Owns what a run came to, as data: it is what `--json` prints, and what the tables show.
// May never format anything.

import { fileURLToPath } from 'node:url'
import { type ErrorData, hasEnded, type JobStatus } from '../core/job.ts'
import type { Job } from '../core/types.ts'
import { nameOf, type View } from './view.ts'

export interface RunReport {
  readonly flow: string
  readonly run: number
  /** Some of it had been done by an earlier process. */
  readonly resumed: boolean
  /** Another process runs it, and this one has only watched. */
  readonly followed: boolean
  /** True if every job succeeded. */
  readonly ok: boolean
  readonly interrupted: boolean
  /** The same command goes on with what is left. */
  readonly resumable: boolean
  /** Why the run is no longer run by the process that reports. */
  readonly takenAway?: string
  readonly ms: number
  readonly jobs: readonly JobReport[]
}

export interface JobReport {
  readonly name: string
  readonly id: string
  readonly state: JobStatus
  readonly attempts: number
  /** How many starts it might have had. */
  readonly allowed: number
  /** Waiting for a slot, and running, in milliseconds over all attempts. */
  readonly queuedMs: number
  readonly ranMs: number
  /** Codes of the attempts that did not succeed, oldest first. */
  readonly failures: readonly string[]
  readonly deps: readonly string[]
  readonly result?: unknown
  readonly error?: { readonly code: string; readonly message: string; readonly stack?: string }
  /** The job whose end cancelled this one. */
  readonly cause?: string
  /** Why a job that has not ended did not. */
  readonly reason?: string
}

/** One job; `reason` is asked for only if the job has not ended. */
export function reportJob(job: Job, view: View, reason: string | undefined): JobReport {
  const log = job.attemptLog
  const failures = log.flatMap(({ outcome, code }) =>
    outcome === undefined || outcome === 'success' ? [] : [code ?? outcome],
  )
  return {
    name: nameOf(view, job.id),
    id: job.id,
    state: job.status,
    attempts: job.attempts,
    // A run that was resumed has given it more.
    allowed: Math.max(job.retries + 1, job.attempts),
    queuedMs: log.reduce((sum, each) => sum + each.queuedMs, 0),
    ranMs: log.reduce((sum, each) => sum + (each.callMs ?? 0), 0),
    failures,
    deps: job.deps.map(({ id }) => nameOf(view, id)),
    ...(job.status === 'success' ? { result: job.result ?? null } : {}),
    ...(job.error === undefined || job.status === 'success' ? {} : { error: told(job.error) }),
    ...(job.cause === undefined ? {} : { cause: nameOf(view, job.cause) }),
    ...(hasEnded(job.status) || reason === undefined ? {} : { reason }),
  }
}

const OWN_FILES = new URL('..', import.meta.url)

/** A stack up to the last frame that is not of ax or of Node.js: from there on all are alike. */
function ofUser(stack: string): string {
  const own = [OWN_FILES.href, fileURLToPath(OWN_FILES), 'node:', '(<anonymous>)']
  const isFrame = (line: string) => /^\s+at /.test(line)
  const lines = stack.split('\n')
  const last = lines.findLastIndex((line) => !isFrame(line) || !own.some((it) => line.includes(it)))
  return lines.slice(0, last + 1).join('\n')
}

/** A stack is worth reading only where somebody else's code threw. */
function told({ name, message, code, stack }: ErrorData): NonNullable<JobReport['error']> {
  const told = { code: code ?? 'HANDLER_FAILED', message }
  return name === 'AxError' || stack === undefined ? told : { ...told, stack: ofUser(stack) }
}
