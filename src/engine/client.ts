// Owns what callers ask for: submitting, cancelling, retrying. Read, decide, apply, and again.
// May never lease a job or run a body.

import { AxError } from '../core/errors.ts'
import type { Fact, NewJob } from '../core/job.ts'
import type { JobHandle } from '../core/types.ts'
import { coalesce, Failed } from '../kit/coalesce.ts'
import { LIMITS } from '../store/limits.ts'
import type { Inserted, InsertGroup, Refusal } from '../store/store.ts'
import { canWait, refusalError } from './errors.ts'
import { Handle, type HandlePowers } from './handle.ts'
import type { Hub } from './hub.ts'
import { replaceJobs } from './replacing.ts'
import { cannotRetry, revive, reviveBranch, warnOfStuck } from './revival.ts'
import { Full, Rooms } from './rooms.ts'
import { settle } from './settle.ts'
import { shareOf, sizeOfJob } from './sizes.ts'

export class Client {
  /** Stores one job, together with those of the same turn. One promise per call. */
  readonly insertOne: (job: NewJob) => Promise<JobHandle>
  readonly #hub: Hub
  readonly #powers: HandlePowers
  readonly #rooms: Rooms

  constructor(hub: Hub, powers: HandlePowers) {
    this.#hub = hub
    this.#powers = powers
    this.#rooms = new Rooms(hub, (jobs) => this.#offerSingles(jobs, true))
    this.insertOne = coalesce((jobs) => this.#insertSingles(jobs), {
      max: LIMITS.chunk,
      weigh: (job) => shareOf(1 + job.deps.length, sizeOfJob(job), LIMITS.chunk),
    })
  }

  /** Those who wait for room: a body of this process must not be among them. */
  get waiting(): Rooms {
    return this.#rooms
  }

  /** Whoever waits for room is told that there will be none. */
  close(): void {
    this.#rooms.close()
  }

  /** Those whose pool is full, and says so to callers that may wait, wait. */
  async #insertSingles(
    jobs: readonly NewJob[],
  ): Promise<readonly (JobHandle | Promise<JobHandle> | Failed)[]> {
    const { heard } = this.#rooms
    const answers = await this.#offerSingles(jobs, false)
    return answers.map((answer, at) => {
      return answer instanceof Full ? this.#rooms.park(jobs[at] as NewJob, answer, heard) : answer
    })
  }

  /** Stores jobs that came one by one, each on its own terms. Errors do not speak of a batch. */
  async #offerSingles(
    jobs: readonly NewJob[],
    isTheirTurn: boolean,
  ): Promise<readonly (JobHandle | Failed | Full)[]> {
    const groups = jobs.map((job) => this.#groupOf([job], isTheirTurn))
    const answers = await this.#hub.insertAll(groups)
    return answers.map((answer, index) => {
      const job = jobs[index] as NewJob
      if (answer.status === 'stale') return new Failed(leaseLost(job.id))
      if (answer.status === 'done') return this.#handleOf(answer.jobs[0] as Inserted)
      const { refusals } = answer
      return this.#fullOf(refusals, [job]) ?? new Failed(refusalError(refusals, [job]))
    })
  }

  /**
   * Stores jobs, all or none, and waits for room where the pool wants that; on behalf of a running
   * job, only while it holds its lease, and without waiting: it would keep its slot meanwhile.
   */
  async insert(jobs: readonly NewJob[], fence?: InsertGroup['fence']): Promise<JobHandle[]> {
    if (fence === undefined) {
      const inserted = await this.#rooms.enter(async (isItsTurn) => {
        const answer = await this.#offer(this.#groupOf(jobs, isItsTurn))
        if (answer.status === 'done') return answer.jobs
        const { refusals } = answer
        return this.#fullOf(refusals, jobs, 0) ?? fail(refusalError(refusals, jobs, OUTSIDE))
      })
      return inserted.map((each) => this.#handleOf(each))
    }
    const answer = await this.#offer({ ...this.#groupOf(jobs, true), fence })
    if (answer.status === 'refused') throw refusalError(answer.refusals, jobs, INSIDE)
    return answer.jobs.map((each) => this.#handleOf(each))
  }

  /**
   * Stores jobs of a stream, in order, as many at a time as there is room for; `from` is the place
   * of the first in the stream. Resolves with how many were new. What was stored before an error
   * stays: `note` hears each time how many of the stream are.
   */
  insertSome(
    jobs: readonly NewJob[],
    from: number,
    note: (stored: number) => void,
  ): Promise<number> {
    let at = 0
    let added = 0
    const go = async (isItsTurn: boolean): Promise<number | Full> => {
      for (let size = jobs.length; at < jobs.length; ) {
        const piece = jobs.slice(at, at + size)
        const answer = await this.#offer(this.#groupOf(piece, isItsTurn))
        if (answer.status === 'done') {
          added += answer.jobs.filter((each) => this.#handleOf(each).added).length
          at += piece.length
          note(from + at)
          size = jobs.length
          continue
        }
        const first = roomOf(answer.refusals)
        if (first > 0) size = first
        else if (first === 0 && piece.length > 1) size = 1
        else {
          const { refusals } = answer
          const place = { from: from + at, isInside: false }
          return (
            this.#fullOf(refusals, piece, from + at) ?? fail(refusalError(refusals, piece, place))
          )
        }
      }
      return added
    }
    return this.#rooms.enter(go)
  }

  /** Stores jobs in place of others, on behalf of a running job, while it holds its lease. */
  async replace(
    jobs: readonly NewJob[],
    fence: NonNullable<InsertGroup['fence']>,
    replaced: readonly string[],
  ): Promise<JobHandle[]> {
    const answer = await replaceJobs(this.#hub, jobs, fence, replaced)
    if (answer.status === 'refused') {
      throw refusalError(answer.refusals, jobs, INSIDE)
    }
    if (answer.status === 'stale') throw leaseLost(fence.id)
    return answer.jobs.map((each) => this.#handleOf(each))
  }

  async #offer(group: InsertGroup) {
    const answer = await this.#hub.insert(group)
    if (answer.status === 'stale') throw leaseLost(group.fence?.id ?? '')
    return answer
  }

  /** Whose turn it is passes nobody; whoever comes now takes no place that others here wait for. */
  #groupOf(jobs: readonly NewJob[], isTheirTurn: boolean): InsertGroup {
    const { unknownDeps } = this.#hub.settings
    const behind = isTheirTurn ? NOBODY : this.#rooms.waitedFor(jobs)
    return behind.length === 0 ? { jobs, unknownDeps } : { jobs, unknownDeps, behind }
  }

  /**
   * What to wait for, if room is all that is missing, and its pools let callers wait: where others
   * wait already, behind them. `from`: the place of the first job, unless it came on its own.
   */
  #fullOf(refusals: readonly Refusal[], jobs: readonly NewJob[], from?: number): Full | undefined {
    const full = refusals.filter((each) => each.reason === 'full')
    if (full.length === 0 || !refusals.every(canWait)) return undefined
    const { pool } = full.find((each) => this.#rooms.isWaitedFor(each.pool)) ?? (full[0] as Refused)
    return new Full(pool, () => refusalError(refusals, jobs, { from, isInside: true }))
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

type Refused = Extract<Refusal, { readonly reason: 'full' }>

const NOBODY: readonly string[] = []
/** Where a whole batch stands, and who submits it. */
const OUTSIDE = { from: 0, isInside: false } as const
const INSIDE = { from: 0, isInside: true } as const

/** For how many jobs, from the first, there is room; -1 if room is not all that is missing. */
function roomOf(refusals: readonly Refusal[]): number {
  if (!refusals.every((each) => each.reason === 'full')) return -1
  return Math.min(...refusals.map(({ index }) => index))
}

function fail(error: AxError): never {
  throw error
}

export function leaseLost(id: string): AxError {
  return new AxError(
    'LEASE_LOST',
    `Job ${id} no longer holds its lease, so what it submits, or notes, is not stored.`,
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
