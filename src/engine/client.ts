// Owns what callers ask for: submitting, cancelling, retrying. Read, decide, apply, and again.
// May never lease a job or run a body.

import { AxError } from '../core/errors.ts'
import { idMaker } from '../core/id.ts'
import type { Fact, NewJob } from '../core/job.ts'
import { type SubmitContext, toNewJob } from '../core/submit.ts'
import type { JobHandle, JobInput } from '../core/types.ts'
import { coalesce, Failed } from '../kit/coalesce.ts'
import { captureContext } from '../kit/context.ts'
import { LIMITS } from '../store/limits.ts'
import type { Inserted, InsertGroup } from '../store/store.ts'
import { refusalError } from './errors.ts'
import { Handle, type HandlePowers } from './handle.ts'
import type { Hub } from './hub.ts'
import type { Registry } from './registry.ts'
import { cannotRetry, revive, reviveBranch, warnOfStuck } from './revival.ts'
import { settle } from './settle.ts'
import type { LocalBody } from './worker.ts'

export class Client {
  /** Stores one job, together with those of the same turn. One promise per call. */
  readonly insertOne: (job: NewJob) => Promise<JobHandle>
  readonly #hub: Hub
  readonly #powers: HandlePowers
  /** What submissions are checked against; `now` and `index` are of the one in hand. */
  readonly #context: SubmitContext & { now: number; index: number | undefined }

  constructor(hub: Hub, registry: Registry, powers: HandlePowers) {
    this.#hub = hub
    this.#powers = powers
    this.insertOne = coalesce((jobs) => this.#insertSingles(jobs), {
      max: LIMITS.chunk,
      weigh: (job) => 1 + job.deps.length,
    })
    const mint = idMaker(() => hub.runtime.random())
    this.#context = {
      typeOf: (type) => registry.termsOf(type),
      mint: () => mint(this.#context.now),
      now: 0,
      index: undefined,
      maxPayloadBytes: hub.settings.limits.payload,
      keepsLive: hub.store.traits.keepsLive,
      storeName: hub.store.traits.name,
    }
  }

  /** Checks one submission and gives it its final shape. Nothing is stored yet. */
  prepare(input: JobInput, index?: number): NewJob {
    const now = this.#hub.runtime.now()
    this.#context.now = now
    this.#context.index = index
    const job = toNewJob(input, this.#context)
    if (job.body === undefined) return job
    return { ...job, body: { ...job.body, enter: captureContext() } as LocalBody }
  }

  /** Stores jobs that came one by one, each on its own terms. Errors do not speak of a batch. */
  async #insertSingles(jobs: readonly NewJob[]): Promise<readonly (JobHandle | Failed)[]> {
    const { store, settings, tell } = this.#hub
    const { unknownDeps } = settings
    const groups = jobs.map((job): InsertGroup => ({ jobs: [job], unknownDeps }))
    const answers = this.#hub.heard(await store.insert(groups, tell))
    return answers.map((answer, index) => {
      const job = jobs[index] as NewJob
      if (answer.status === 'stale') return new Failed(leaseLost(job.id))
      if (answer.status === 'refused') return new Failed(refusalError(answer.refusals, [job], true))
      return this.#handleOf(answer.jobs[0] as Inserted)
    })
  }

  /** Stores jobs, all or none; on behalf of a running job, only while it holds its lease. */
  async insert(jobs: readonly NewJob[], fence?: InsertGroup['fence']): Promise<JobHandle[]> {
    const { unknownDeps } = this.#hub.settings
    const group: InsertGroup = { jobs, unknownDeps, ...(fence === undefined ? {} : { fence }) }
    const answer = await this.#hub.insert(group)
    if (answer.status === 'stale') throw leaseLost(fence?.id ?? '')
    if (answer.status === 'refused') throw refusalError(answer.refusals, jobs, false)
    return answer.jobs.map((each) => this.#handleOf(each))
  }

  /** True if this call ended a job that had not ended. */
  async cancel(id: string, reason?: string): Promise<boolean> {
    const job = (await this.#hub.store.get([id]))[0] ?? null
    if (job === null) throw unknownJob(id)
    const fact: Fact = reason === undefined ? { type: 'cancel' } : { type: 'cancel', reason }
    const moved = await settle(this.#hub, job, fact)
    return moved?.status === 'moved'
  }

  /** True if this call revived the job. */
  async retry(id: string, downstream: boolean): Promise<boolean> {
    const job = (await this.#hub.store.get([id]))[0] ?? null
    if (job === null) throw unknownJob(id)
    const revived = await revive(this.#hub, job)
    if (revived === 'nothing') return false
    if (revived !== 'revived') throw cannotRetry(id, revived)
    if (downstream) warnOfStuck(this.#hub, (await reviveBranch(this.#hub, id)).stuck)
    return true
  }

  #handleOf({ added, job }: Inserted): JobHandle {
    if (!added) this.#hub.emitter.emit('job:duplicate', { job: job.id, key: job.key })
    return new Handle(job.id, added, this.#powers)
  }
}

function leaseLost(id: string): AxError {
  return new AxError(
    'LEASE_LOST',
    `Job ${id} no longer holds its lease, so what it submits is not stored.`,
    { jobId: id },
  )
}

export function unknownJob(id: string): AxError {
  return new AxError(
    'UNKNOWN_JOB',
    `No job has the id ${JSON.stringify(id)}. It was never submitted, or it has been forgotten.`,
    { jobId: id },
  )
}
