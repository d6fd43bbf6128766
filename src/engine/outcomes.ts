// Owns what an attempt has come to, as a fact: from what its body did and why it was told to stop.
// May never write anything, or decide what a fact means.

import { seededRandom } from '../core/backoff.ts'
import { type Fact, Live, type Stored, type StoredJob } from '../core/job.ts'
import type { JobBody } from '../core/submit.ts'
import { backoffFunctionOf } from '../core/terms.ts'
import { isRetryableFailure, retryAfterOf, toErrorData, toJson } from '../core/values.ts'
import { isTransient } from '../kit/transient.ts'
import { complain } from './logger.ts'
import type { Settings } from './options.ts'
import type { Registry } from './registry.ts'
import type { Run } from './run.ts'

/** What a body came to. */
export type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | {
      readonly ok: false
      readonly error: unknown
      /** Not the body has failed, but the question whether an earlier one has taken effect. */
      readonly asked?: boolean
      /** No rule of its type may have it tried again. */
      readonly final?: boolean
    }

export class Outcomes {
  readonly #settings: Settings
  readonly #registry: Registry

  constructor(settings: Settings, registry: Registry) {
    this.#settings = settings
    this.#registry = registry
  }

  /** What the body came to, as a fact: a success in time counts, else the mark, else the error. */
  factOf(run: Run, outcome: Outcome): Fact | null {
    if (run.mark === 'cancelled' || run.mark === 'lost') return run.forced()
    if (outcome.ok) return this.#success(run, outcome.value)
    return this.forced(run) ?? this.#failure(run, outcome)
  }

  /** What it counts as when the body is not heard any more; null where nothing is to be written. */
  forced(run: Run): Fact | null {
    const fact = run.forced()
    return fact?.type === 'timedOut' ? { ...fact, ...this.#ownDelay(run) } : fact
  }

  #success(run: Run, value: unknown): Fact {
    try {
      return { type: 'succeeded', result: encode(run.job, value, this.#settings.limits.result) }
    } catch (error) {
      return { type: 'failed', error: toErrorData(error), retryable: false }
    }
  }

  #failure(run: Run, { error, asked = false, final = false }: Outcome & { ok: false }): Fact {
    const retryAfterMs = retryAfterOf(error)
    return {
      type: 'failed',
      error: toErrorData(error),
      retryable: !final && this.#isRetryable(run, error),
      ...this.#ownDelay(run),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      transient: isTransient(error),
      asked,
    }
  }

  #isRetryable(run: Run, error: unknown): boolean {
    const rule = this.#registry.ofType(run.job.type)?.retryable
    if (rule === undefined) return isRetryableFailure(error)
    try {
      const answer: unknown = rule(error)
      if (typeof answer === 'boolean') return answer
      this.#complain(`the retryable rule of type ${run.job.type} did not say true or false`, answer)
      return false
    } catch (thrown) {
      this.#complain(`the retryable rule of type ${run.job.type} threw`, thrown)
      return isRetryableFailure(error)
    }
  }

  /** The delay that a back-off function gives, if the job or its type has one. */
  #ownDelay({ job }: Run): { readonly delayMs?: number } {
    const type = this.#registry.ofType(job.type)
    const own = (job.body as JobBody | undefined)?.backoff
    const backoff = own ?? (type === undefined ? undefined : backoffFunctionOf(job.terms, type))
    if (backoff === undefined) return {}
    try {
      const failure = job.attempts - job.attemptsBefore
      const ms = Math.ceil(backoff(failure, seededRandom(job.id, job.starts)))
      if (ms >= 0 && ms <= 2 ** 41) return { delayMs: ms }
      this.#complain(`the back-off function of type ${job.type} answered ${ms}`)
    } catch (thrown) {
      this.#complain(`the back-off function of type ${job.type} threw`, thrown)
    }
    return {}
  }

  #complain(what: string, error?: unknown): void {
    complain(this.#settings.logger, what, error)
  }
}

/** A result at rest: by reference for a job with its own `execute`, JSON for every other. */
function encode(job: StoredJob, value: unknown, maxBytes: number): Stored {
  if (job.body !== undefined) return value === undefined ? undefined : new Live(value)
  return toJson(value, 'result', { maxBytes, code: 'UNSTORABLE', lenient: true })
}
