// Owns make-up runs: reviving all that failed, a few at a time, within a window.
// May never revive a job twice in one run, or one that ended after the run began.

import { allowance, freeAt, type RateTerms, taken } from '../core/gcra.ts'
import type { StoredJob } from '../core/job.ts'
import { checkOptions, refuseValue } from '../core/options.ts'
import { resolveRate } from '../core/pools.ts'
import type { JobFilter, RetryWhereOptions } from '../core/types.ts'
import type { Timer } from '../kit/runtime.ts'
import type { ListPage, ListQuery, RefusedMove } from '../store/store.ts'
import { type Hub, isUnavailable } from './hub.ts'
import { checkFilter } from './reader.ts'
import { cannotRetry, revive, reviveBranch } from './revival.ts'

/** Jobs revived side by side: their moves share a call. */
const WIDTH = 100

/** Jobs that could not be revived, by name; more are only counted. */
const MAX_STUCK = 1_000

/** Of those, so many stand in the warning, and three of them with the reason. */
const MAX_NAMED = 100
const MAX_REASONS = 3

const ENDS = ['failed', 'cancelled'] as const

/** Checks what `retryWhere` is asked. Refuses with INVALID_OPTION, before anything is opened. */
export function checkMakeUp(filter: JobFilter, options: RetryWhereOptions): RateTerms | null {
  checkFilter(filter)
  for (const status of filter.status === undefined ? [] : [filter.status].flat()) {
    if (status === 'failed' || status === 'cancelled') continue
    refuseValue('status', status, "'failed' or 'cancelled': only these can be retried")
  }
  checkOptions('retryWhere', options, ['per', 'until'])
  const { per, until } = options
  if (until !== undefined && !Number.isFinite(until)) {
    refuseValue('until', until, 'a number of epoch milliseconds')
  }
  return per === undefined ? null : resolveRate('per', per)
}

/** One call of `retryWhere`. */
interface Run {
  readonly pace: RateTerms | null
  /** The state of the pace, see gcra.ts. */
  tat: number
  /** On the monotonic clock. */
  readonly deadline: number
  /** On the store's clock: what ended later is not looked at. */
  readonly began: number
  readonly limit: number
  /** Matching jobs that run again; `revived` has those of their branches, too. */
  matched: number
  revived: number
  /** Each is revived once, even if it fails again within the millisecond. */
  readonly seen: Set<string>
  readonly stuck: Map<string, RefusedMove>
  uncounted: number
}

export class MakeUp {
  readonly #hub: Hub
  readonly #sleepers = new Set<() => void>()
  readonly #running = new Set<Promise<number>>()
  #stopped = false

  constructor(hub: Hub) {
    this.#hub = hub
  }

  /** Resolves with how many jobs run again: when all were looked at, at `until`, or on `stop`. */
  async run(
    query: ListQuery,
    limit: number,
    pace: RateTerms | null,
    until: number | undefined,
  ): Promise<number> {
    const running = this.#carryOut(query, limit, pace, until)
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /** Ends all runs; they resolve with what they have done. Resolves when they have. */
  async stop(): Promise<void> {
    this.#stopped = true
    for (const wake of this.#sleepers) wake()
    await Promise.allSettled(this.#running)
  }

  async #carryOut(query: ListQuery, limit: number, pace: RateTerms | null, until?: number) {
    const { store, runtime } = this.#hub
    const began = await store.time()
    const left = until === undefined ? Number.POSITIVE_INFINITY : until - began
    const deadline = runtime.monotonic() + left
    const counts = { matched: 0, revived: 0, uncounted: 0 }
    const lists = { seen: new Set<string>(), stuck: new Map<string, RefusedMove>() }
    const run: Run = { pace, tat: 0, deadline, began, limit, ...counts, ...lists }
    try {
      await this.#readAll(run, { ...query, statuses: query.statuses ?? ENDS })
    } catch (error) {
      if (!isUnavailable(error) || !this.#isOver(run)) throw error
    }
    this.#warn(run)
    return run.revived
  }

  async #readAll(run: Run, query: ListQuery): Promise<void> {
    for (let after: number | null = query.after; after !== null && !this.#isOver(run); ) {
      const ask: ListQuery = { ...query, after }
      const page: ListPage = await this.#patiently(run, () => this.#hub.store.list(ask))
      const jobs = page.jobs.filter((job) => isDue(job, run))
      for (let at = 0; at < jobs.length; ) {
        const room = await this.#roomFor(run)
        if (room === 0) return
        await this.#reviveAll(run, jobs.slice(at, at + room))
        at += room
      }
      after = page.after
    }
  }

  async #reviveAll(run: Run, jobs: readonly StoredJob[]): Promise<void> {
    const before = run.revived
    const due = jobs.filter((job) => isDue(job, run))
    await Promise.all(due.map((job) => this.#reviveOne(run, job)))
    if (run.pace === null) return
    const count = run.revived - before
    run.tat = taken(run.pace, run.tat, this.#now(), count)
  }

  async #reviveOne(run: Run, job: StoredJob): Promise<void> {
    const { id } = job
    const answer = await this.#patiently(run, () =>
      revive(this.#hub, job, (now) => isDue(now, run)),
    )
    if (answer === 'nothing') return
    if (answer !== 'revived') {
      this.#noteStuck(run, id, answer)
      return
    }
    run.matched += 1
    this.#count(run, [id])
    const branch = await this.#patiently(run, () => reviveBranch(this.#hub, id))
    this.#count(run, branch.revived)
    for (const [stuck, why] of branch.stuck) this.#noteStuck(run, stuck, why)
  }

  #count(run: Run, ids: readonly string[]): void {
    run.revived += ids.length
    for (const id of ids) {
      run.seen.add(id)
      run.stuck.delete(id)
    }
  }

  /** Jobs that depend on others may only be early: their turn may come with a branch. */
  #noteStuck(run: Run, id: string, why: RefusedMove): void {
    if (run.seen.has(id)) return
    if (run.stuck.size < MAX_STUCK || run.stuck.has(id)) run.stuck.set(id, why)
    else run.uncounted += 1
  }

  /** For how many jobs there is room now, waiting for the first; 0: the run is over. */
  async #roomFor(run: Run): Promise<number> {
    for (;;) {
      if (this.#isOver(run)) return 0
      const { pace, limit, matched } = run
      const now = this.#now()
      const paced = pace === null ? WIDTH : allowance(pace, run.tat, now)
      if (pace === null || paced > 0) return Math.min(paced, WIDTH, limit - matched)
      await this.#sleep(Math.min(freeAt(pace, run.tat) - now, run.deadline - now))
    }
  }

  #isOver(run: Run): boolean {
    return (
      this.#stopped || run.matched >= run.limit || this.#hub.runtime.monotonic() >= run.deadline
    )
  }

  /** No run is given up for an outage. */
  #patiently<T>(run: Run, ask: () => Promise<T>): Promise<T> {
    return this.#hub.patiently(ask, () => this.#isOver(run))
  }

  #now(): number {
    return Math.floor(this.#hub.runtime.monotonic())
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      let timer: Timer | undefined
      const wake = () => {
        timer?.cancel()
        this.#sleepers.delete(wake)
        resolve()
      }
      this.#sleepers.add(wake)
      timer = this.#hub.runtime.after(Math.max(1, ms), wake)
    })
  }

  #warn({ stuck, uncounted }: Run): void {
    const count = stuck.size + uncounted
    if (count === 0) return
    const jobs = [...stuck.keys()].slice(0, MAX_NAMED)
    const reasons = [...stuck]
      .slice(0, MAX_REASONS)
      .map(([id, why]) => cannotRetry(id, why).message)
    const more = count > MAX_REASONS ? ` And ${count - MAX_REASONS} more.` : ''
    const what = count === 1 ? '1 job as it was' : `${count} jobs as they were`
    this.#hub.settings.logger.warn(
      { count, jobs },
      `retryWhere left ${what}: ${reasons.join(' ')}${more}`,
    )
  }
}

/** Whether it ended before the run began, and has not been revived by it. */
function isDue(job: StoredJob, { began, seen }: Run): boolean {
  return job.finishedAt > 0 && job.finishedAt <= began && !seen.has(job.id)
}
