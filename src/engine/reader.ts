// Owns reading: listings, explanations, the log. Page by page, so that nobody waits for long.
// May never write.

import { AxError } from '../core/errors.ts'
import { explain } from '../core/explain.ts'
import { checkName } from '../core/id.ts'
import { type JobEvent, type JobStatus, STATUSES, type StoredJob } from '../core/job.ts'
import {
  boolean,
  checkOptions,
  integer,
  oneOf,
  plain,
  refuseUnknown,
  refuseValue,
} from '../core/options.ts'
import type { Explanation, Job, JobFilter } from '../core/types.ts'
import { viewOf } from '../core/view.ts'
import { optionalSignal } from '../kit/signals.ts'
import { LIMITS } from '../store/limits.ts'
import type { ListQuery } from '../store/store.ts'
import { unknownJob } from './client.ts'
import type { Hub } from './hub.ts'

const FILTER_KEYS = [
  'status',
  'type',
  'pool',
  'flow',
  'code',
  'key',
  'createdAfter',
  'createdBefore',
  'limit',
  'after',
]

export interface EventsOptions {
  /** The seq of the last entry already seen. Default: begin with the oldest there is. */
  readonly after?: number
  /** Wait for more instead of ending. */
  readonly follow?: boolean
  readonly signal?: AbortSignal
}

export class Reader {
  readonly #hub: Hub

  constructor(hub: Hub) {
    this.#hub = hub
  }

  async *jobs(filter: JobFilter): AsyncGenerator<Job> {
    const query = await this.queryOf(filter)
    let left = filter.limit ?? Number.POSITIVE_INFINITY
    for (let after: number | null = query.after; after !== null && left > 0; ) {
      const page = await this.#hub.store.list({
        ...query,
        after,
        limit: Math.min(left, LIMITS.page),
      })
      for (const job of page.jobs) yield viewOf(job)
      left -= page.jobs.length
      after = page.after
    }
  }

  async explain(id: string): Promise<Explanation> {
    const { store } = this.#hub
    const job = await this.#known(id)
    const standing = await store.standing(id)
    // Only a pool with a raise for urgent jobs asks what is urgent, and that is up to the ageing.
    const ageing = standing.pool.elastic === null ? null : (await store.settings()).ageing
    const facts = { standing, ageing, now: await store.time() }
    if (job.status !== 'running') return explain(job, facts)
    const workers = await store.workers()
    const leaseHolderAlive = workers.some(({ holder }) => holder === job.lease?.holder)
    return explain(job, { ...facts, leaseHolderAlive })
  }

  /** `isClosed` ends a follower that has read everything. */
  async *events(options: EventsOptions, isClosed: () => boolean): AsyncGenerator<JobEvent> {
    const { follow = false, signal } = options
    for (let after = options.after; ; ) {
      signal?.throwIfAborted()
      // Listening begins before reading: what is written in between is not missed.
      const change = this.#nextChange(signal)
      try {
        const page = await this.#hub.store.events(after ?? 0, LIMITS.events)
        if (after !== undefined && after < page.oldest - 1) throw logGone(after, page.oldest)
        yield* page.events
        after = page.events.at(-1)?.seq ?? Math.max(after ?? 0, page.oldest - 1)
        if (page.events.length > 0) continue
        if (!follow || isClosed()) return
        await change.happened
      } finally {
        change.forget()
      }
    }
  }

  /** A filter that has been checked, as a store is asked; the limit is up to the caller. */
  async queryOf(filter: JobFilter): Promise<ListQuery> {
    const { status, limit: _limit, after, ...rest } = filter
    const statuses = status === undefined ? undefined : ([status].flat() as JobStatus[])
    return {
      ...rest,
      ...(statuses === undefined ? {} : { statuses }),
      after: after === undefined ? 0 : (await this.#known(after)).seq,
      limit: LIMITS.page,
    }
  }

  async #known(id: string): Promise<StoredJob> {
    const [job] = await this.#hub.store.get([id])
    if (job === undefined || job === null) throw unknownJob(id)
    return job
  }

  /** A hint, a poll, or an abort: whatever comes first. */
  #nextChange(signal: AbortSignal | undefined) {
    let resolve = () => {}
    const happened = new Promise<void>((done) => {
      resolve = done
    })
    const off = this.#hub.onHint(resolve)
    const timer = this.#hub.runtime.after(this.#hub.pollMs(), resolve)
    signal?.addEventListener('abort', resolve)
    const forget = () => {
      off()
      timer.cancel()
      signal?.removeEventListener('abort', resolve)
    }
    return { happened, forget }
  }
}

/** Refuses with `INVALID_OPTION`, before anything is opened or asked. */
export function checkEvents(options: EventsOptions): void {
  checkOptions('events', options, ['after', 'follow', 'signal'])
  const { after, follow, signal } = options
  optionalSignal(signal)
  if (follow !== undefined) boolean('follow', follow)
  if (after !== undefined) integer('after', after, 0)
}

/** The same for what is asked of a listing. */
export function checkFilter(filter: JobFilter): void {
  refuseUnknown('jobs', plain('The filter of jobs', filter), FILTER_KEYS)
  const { limit, after, createdAfter, createdBefore, type, pool, flow, code, key } = filter
  const { status } = filter
  for (const each of status === undefined ? [] : [status].flat()) oneOf('status', each, STATUSES)
  if (limit !== undefined) integer('limit', limit, 0)
  for (const [name, value] of Object.entries({ createdAfter, createdBefore })) {
    if (value !== undefined && !Number.isFinite(value)) {
      refuseValue(name, value, 'a number of epoch milliseconds')
    }
  }
  for (const [name, value] of Object.entries({ after, type, pool, flow, code, key })) {
    if (value !== undefined) checkName(name, value, 'INVALID_OPTION')
  }
}

function logGone(after: number, oldest: number): AxError {
  return new AxError(
    'GONE',
    `The log begins with entry ${oldest}: what follows entry ${after} has been dropped in part. ` +
      'Ask for entries after a later one, or keep the log longer with keep.log.',
    { after, oldest },
  )
}
