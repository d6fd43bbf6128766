// Owns the narrow face of the scheduler for business code: submit, cancel, ask.
// May never grow: whoever needs more has the scheduler.

import type { JobStatus } from '../core/job.ts'
import { able } from '../core/options.ts'
import type { JobInput } from '../core/types.ts'
import { unknownJob } from './client.ts'
import type { SchedulerBase } from './scheduler.ts'

export class TaskGateway {
  readonly #scheduler: SchedulerBase

  constructor(scheduler: SchedulerBase) {
    this.#scheduler = able('scheduler', scheduler, ['addJob', 'cancel', 'job'])
  }

  /** Stores a job and answers its id; with a key that is taken, the id of its owner. */
  async submit(def: JobInput): Promise<string> {
    return (await this.#scheduler.addJob(def)).id
  }

  /** Afterwards the job has ended, if it had not before. UNKNOWN_JOB for an id nobody knows. */
  async cancel(id: string): Promise<void> {
    await this.#scheduler.cancel(id)
  }

  /** UNKNOWN_JOB for an id nobody knows. */
  async getStatus(id: string): Promise<JobStatus> {
    const job = await this.#scheduler.job(id)
    if (job === null) throw unknownJob(id)
    return job.status
  }
}
