// Owns what callers ask for: submitting, cancelling, retrying. Read, decide, apply, and again.
// May never lease a job or run a body.

import { AxError } from '../core/errors.ts'
import { idMaker } from '../core/id.ts'
import type { Fact, NewJob, StoredJob } from '../core/job.ts'
import { decide } from '../core/machine.ts'
import { type SubmitContext, toNewJob } from '../core/submit.ts'
import type { JobHandle, JobInput } from '../core/types.ts'
import { Breath } from '../kit/breath.ts'
import { coalesce, Failed } from '../kit/coalesce.ts'
import { captureContext } from '../kit/context.ts'
import { LIMITS } from '../store/limits.ts'
import type { Inserted, InsertGroup, Moved, RefusedMove } from '../store/store.ts'
import { refusalError } from './errors.ts'
import { Handle, type HandlePowers } from './handle.ts'
import type { Hub } from './hub.ts'
import type { Registry } from './registry.ts'
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
    const moved = await this.#settle(job, fact)
    return moved?.status === 'moved'
  }

  /** True if this call revived the job. */
  async retry(id: string, downstream: boolean): Promise<boolean> {
    const job = (await this.#hub.store.get([id]))[0] ?? null
    if (job === null) throw unknownJob(id)
    const moved = await this.#settle(job, { type: 'retry' })
    if (moved === null) return false
    if (moved.status === 'refused') throw cannotRetry(id, moved.why)
    if (downstream) await this.#reviveBranch(id)
    return true
  }

  /**
   * Revives what the failure of a job had cancelled, in order of dependency: a job is looked at
   * again whenever one of those it waits for has been revived. One that stays dead, or whose key
   * is taken, ends its path and is reported.
   */
  async #reviveBranch(root: string): Promise<void> {
    const stuck = new Map<string, RefusedMove>()
    const revived = [root]
    const seen = new Set(revived)
    const breath = new Breath(this.#hub.runtime)
    for (const id of revived) {
      for await (const page of this.#dependents(id)) {
        const branch = page.filter((job) => !seen.has(job.id) && isCascaded(job))
        const moved = await Promise.all(branch.map((job) => this.#settle(job, { type: 'retry' })))
        branch.forEach((job, index) => {
          const answer = moved[index]
          if (answer?.status === 'refused') stuck.set(job.id, answer.why)
          if (answer?.status !== 'moved') return
          stuck.delete(job.id)
          seen.add(job.id)
          revived.push(job.id)
        })
        await breath.take()
      }
    }
    const { logger } = this.#hub.settings
    for (const [id, why] of stuck) {
      logger.warn(
        { jobId: id, why },
        `not revived with its branch: ${cannotRetry(id, why).message}`,
      )
    }
  }

  async *#dependents(id: string): AsyncGenerator<readonly StoredJob[]> {
    for (let after = 0; ; ) {
      const page = await this.#hub.store.dependents(id, after, LIMITS.page)
      yield page
      const last = page.at(-1)
      if (last === undefined || page.length < LIMITS.page) return
      after = last.seq
    }
  }

  /** Decides on the job as it is, until the decision is written or there is nothing to decide. */
  async #settle(first: StoredJob, fact: Fact): Promise<Moved | null> {
    for (let job: StoredJob | null = first; job !== null; ) {
      const move = decide(job, fact, this.#hub.settings.keep)
      if (move === null) return null
      const answer = await this.#hub.move(move)
      if (answer.status !== 'stale') return answer
      job = answer.job
    }
    return null
  }

  #handleOf({ added, job }: Inserted): JobHandle {
    if (!added) this.#hub.emitter.emit('job:duplicate', { job: job.id, key: job.key })
    return new Handle(job.id, added, this.#powers)
  }
}

/** Cancelled because of a dependency, or about to be. */
function isCascaded(job: StoredJob): boolean {
  if (job.status === 'waiting') return true
  return job.status === 'cancelled' && job.code === 'DEPENDENCY_FAILED'
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

function cannotRetry(id: string, why: RefusedMove): AxError {
  if (why.reason === 'key') {
    return new AxError(
      'KEY_TAKEN',
      `Job ${id} cannot run again: job ${why.owner} has taken its key. Wait for that one to end.`,
      { jobId: id, owner: why.owner },
    )
  }
  const dep = why.reason === 'doomed' ? why.dep : 'a dependency'
  return new AxError(
    'DEPENDENCY_FAILED',
    `Job ${id} cannot run again while its dependency ${dep} has not succeeded. ` +
      `Retry ${dep} with { downstream: true }.`,
    { jobId: id, dependency: dep },
  )
}
