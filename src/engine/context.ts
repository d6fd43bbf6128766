// Owns what a handler is given.
// May never do work before the handler asks for it: most handlers use two of these nine.

import type { StoredJob } from '../core/job.ts'
import type { Job, JobContext, JobHandle, JobInput, SubmitOptions } from '../core/types.ts'
import { storedValue, viewOf } from '../core/view.ts'
import type { Run } from './run.ts'

export interface ContextPowers {
  progress(run: Run, value: unknown): void
  submit(
    run: Run,
    jobs: JobInput | readonly JobInput[],
    options: SubmitOptions | undefined,
  ): Promise<JobHandle[]>
  note(run: Run, text: string): Promise<void>
}

export const NO_DEPS: Readonly<Record<string, unknown>> = Object.freeze(Object.create(null))

/** Getters, so that destructuring makes only what is named; functions need no `this`. */
export class RunContext implements JobContext {
  readonly deps: Readonly<Record<string, unknown>>
  readonly #run: Run
  readonly #powers: ContextPowers
  #job: Job | undefined = undefined
  #parsed = false
  #payload: unknown = undefined

  constructor(run: Run, deps: Readonly<Record<string, unknown>>, powers: ContextPowers) {
    this.#run = run
    this.deps = deps
    this.#powers = powers
  }

  get job(): Job {
    this.#job ??= viewOf(this.#run.job)
    return this.#job
  }

  /** Parsed once: what a handler changes in it stays changed for this attempt. */
  get payload(): unknown {
    if (!this.#parsed) {
      this.#parsed = true
      this.#payload = storedValue(this.#run.job.payload)
    }
    return this.#payload
  }

  get attempt(): number {
    return this.#run.attempt
  }

  get signal(): AbortSignal {
    return this.#run.signal
  }

  get idempotencyKey(): string {
    return this.#run.job.id
  }

  get progress(): JobContext['progress'] {
    return (value) => this.#powers.progress(this.#run, value)
  }

  get submit(): JobContext['submit'] {
    return (jobs, options) => this.#powers.submit(this.#run, jobs, options)
  }

  get note(): JobContext['note'] {
    return (text) => this.#powers.note(this.#run, text)
  }
}

/** The results of the dependencies that succeeded, by id; `found` has the jobs that are known. */
export function depsOf(
  job: StoredJob,
  found: ReadonlyMap<string, StoredJob>,
): Readonly<Record<string, unknown>> {
  const deps: Record<string, unknown> = Object.create(null)
  for (const { id } of job.deps) {
    const dep = found.get(id)
    if (dep?.status === 'success') deps[id] = storedValue(dep.result)
  }
  return deps
}
