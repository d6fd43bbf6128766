// Owns writing the ends of attempts: decided one by one, written together, however long it takes.
// May never keep a promise per job, or end a run before the store has answered.

import { isAxError } from '../core/errors.ts'
import type { Fact, Move } from '../core/job.ts'
import { decide } from '../core/machine.ts'
import { toErrorData } from '../core/values.ts'
import { outside } from '../kit/context.ts'
import { LIMITS } from '../store/limits.ts'
import { type Hub, isUnavailable } from './hub.ts'
import { complain } from './logger.ts'
import type { Run } from './run.ts'

const SETTLED: Fact = { type: 'settled' }

/** What it has to know of the worker. */
export interface EndsOwner {
  /** The ends of these are on their way to the store: their slots will be free. */
  ending(runs: readonly Run[]): void
  /** The end of this run has been answered. */
  over(run: Run): void
  isStopping(): boolean
  /** Whether a later attempt of the same job runs here: then a hold is that one's. */
  isSuperseded(run: Run): boolean
}

interface End {
  readonly run: Run
  readonly move: Move
  /** It stands for one that was too large. */
  readonly isShrunk?: boolean
}

export class Ends {
  /**
   * True once an end could not be written. What was given up may still be leased, and must never
   * count as a lease that nobody heard of.
   */
  gaveUp = false
  readonly #hub: Hub
  readonly #owner: EndsOwner
  /** Attempts that are over, with the moves that say so, waiting to be written together. */
  readonly #waiting: End[] = []
  #writing = false
  /** Moves that were given up. */
  #unwritten: readonly Move[] = []

  constructor(hub: Hub, owner: EndsOwner) {
    this.#hub = hub
    this.#owner = owner
  }

  /** How many ends were given up. */
  get unwritten(): number {
    return this.#unwritten.length
  }

  /** Writes what an attempt came to; null where nothing is to be written. */
  write(run: Run, fact: Fact | null): void {
    if (fact === null) {
      this.#owner.over(run)
      return
    }
    const current = fact.type !== 'settled' && run.isCurrent
    const move = current ? decide(run.job, fact, this.#hub.settings.keep) : null
    if (move === null) void this.#release(run)
    else {
      this.#waiting.push({ run, move })
      if (this.#waiting.length > 1 || this.#writing) return
      outside(() => queueMicrotask(() => void this.#flush()))
    }
  }

  /**
   * The store may be back by the time everything else is over: then the ends still count. One that
   * is away is waited for as long as a lease may last that it has prolonged without our hearing.
   */
  async lastWords(): Promise<void> {
    const moves = this.#unwritten
    if (moves.length === 0) return
    const { runtime, settings } = this.#hub
    const until = runtime.monotonic() + settings.leaseMs
    await this.#hub.patiently(
      () => this.#hub.moveAll(moves),
      () => runtime.monotonic() > until,
    )
    this.#unwritten = []
  }

  /** One batch in flight; what ends meanwhile makes the next. */
  async #flush(): Promise<void> {
    if (this.#writing) return
    this.#writing = true
    while (this.#waiting.length > 0) {
      const ends = this.#waiting.splice(0, LIMITS.moves)
      try {
        const moves = ends.map((end) => end.move)
        const runs = ends.map((end) => end.run)
        const writing = this.#patiently(runs, () => this.#hub.moveAll(moves))
        this.#owner.ending(runs)
        const answers = await writing
        ends.forEach(({ run }, index) => {
          if (answers[index]?.status === 'moved') this.#owner.over(run)
          else void this.#release(run)
        })
      } catch (error) {
        if (this.#shrink(ends, error)) continue
        this.#giveUp('writing the ends of jobs', error)
        this.#unwritten = [...this.#unwritten, ...ends.map((end) => end.move)]
        for (const { run } of ends) this.#owner.over(run)
      }
    }
    this.#writing = false
  }

  /** No store takes what one of them has come to: it has failed, and the others are written. */
  #shrink(ends: readonly End[], error: unknown): boolean {
    if (!isAxError(error, 'TOO_LARGE')) return false
    const large = ends.find(({ run }) => run.job.id === (error as { jobId?: unknown }).jobId)
    if (large === undefined || large.isShrunk) return false
    const { run } = large
    const fact: Fact = { type: 'failed', error: toErrorData(error), retryable: false }
    const move = run.isCurrent ? decide(run.job, fact, this.#hub.settings.keep) : null
    if (move === null) return false
    this.#waiting.unshift(...ends.filter((end) => end !== large), { run, move, isShrunk: true })
    return true
  }

  /** The lease is no longer current. If it has become a hold, that ends with the body. */
  async #release(run: Run): Promise<void> {
    const { store, holder, settings } = this.#hub
    const read = async () => (await store.get([run.job.id]))[0] ?? null
    try {
      for (let settled = false; !settled; ) {
        const job = await this.#patiently([run], read)
        const mine = job?.lease?.hold === true && job.lease.holder === holder
        const free = mine && !this.#owner.isSuperseded(run)
        const move = free ? decide(job, SETTLED, settings.keep) : null
        if (move === null) break
        const answer = await this.#patiently([run], () => this.#hub.move(move))
        settled = answer.status === 'moved'
      }
    } catch (error) {
      this.#giveUp(`releasing job ${run.job.id}`, error)
    }
    this.#owner.over(run)
  }

  /** No end is given up for an outage, unless this process is stopping and the lease is over. */
  #patiently<T>(runs: readonly Run[], ask: () => Promise<T>): Promise<T> {
    const { runtime } = this.#hub
    // Asked afresh each time: heartbeats go on, and prolong what is held.
    const isOver = (run: Run) => run.safeUntil < runtime.monotonic()
    return this.#hub.patiently(ask, () => this.#owner.isStopping() && runs.every(isOver))
  }

  #giveUp(what: string, error: unknown): void {
    this.gaveUp = true
    if (isUnavailable(error)) return
    if (isAxError(error, 'CLOSED')) this.#hub.outage.failed('writing the ends of jobs', error)
    else complain(this.#hub.settings.logger, `${what} failed`, error)
  }
}
