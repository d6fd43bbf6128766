// Owns waiting for results: who waits for which job, and telling them once it has ended.
// May never depend on a hint: where hints may get lost, it looks for itself.

import { AxError, isAxError } from '../core/errors.ts'
import { hasEnded, type StoredJob } from '../core/job.ts'
import { toError } from '../core/values.ts'
import { storedValue } from '../core/view.ts'
import { outside } from '../kit/context.ts'
import type { Waiter } from '../kit/nested/graph.ts'
import type { Timer } from '../kit/runtime.ts'
import { Signals } from '../kit/signals.ts'
import { LIMITS } from '../store/limits.ts'
import { closedError, type Hub } from './hub.ts'

/** One who waits for the end of a job, with a promise of its own. */
export interface ResultWait extends Waiter {
  readonly id: string
  readonly signal: AbortSignal | undefined
}

export class Waiters {
  /** Called whenever somebody begins to wait. */
  onWait: () => void = () => {}
  readonly #hub: Hub
  readonly #waiting = new Map<string, Set<ResultWait>>()
  /** One listener per signal, however many waits it may end. */
  readonly #signals = new Signals<ResultWait>((waiter, reason) => {
    this.#forget(waiter)
    waiter.reject(reason)
  })
  /** Ids to look at in the next turn. */
  #toRead = new Set<string>()
  #reading = false
  #poll: Timer | undefined
  #closed = false

  constructor(hub: Hub) {
    this.#hub = hub
    hub.onHint((hint) => this.#heard(hint.ended))
  }

  /** Settles when the job has ended for good. */
  result(id: string, signal?: AbortSignal): Promise<unknown> {
    if (this.#closed) return Promise.reject(closedError(this.#hub.settings.name))
    if (signal?.aborted === true) return Promise.reject(signal.reason)
    return new Promise((resolve, reject) => {
      const waiter: ResultWait = { id, signal, resolve, reject }
      const waiters = this.#waiting.get(id) ?? new Set()
      this.#waiting.set(id, waiters.add(waiter))
      if (signal !== undefined) outside(() => this.#signals.add(signal, waiter))
      this.#look(id)
      this.#keepPolling()
      this.onWait()
    })
  }

  /** For how many jobs somebody waits. */
  get size(): number {
    return this.#waiting.size
  }

  /** Those who wait for the job that has been waited for the longest; undefined for nobody. */
  get oldest(): ReadonlySet<ResultWait> | undefined {
    for (const waiters of this.#waiting.values()) return waiters
    return undefined
  }

  /** Everyone who waits, who came last first, job by job. */
  *newest(): IterableIterator<ResultWait> {
    for (const waiters of [...this.#waiting.values()].reverse()) yield* [...waiters].reverse()
  }

  isWaiting(waiter: ResultWait): boolean {
    return this.#waiting.get(waiter.id)?.has(waiter) === true
  }

  isAwaited(id: string): boolean {
    return this.#waiting.has(id)
  }

  /** Ends the wait of one of them. */
  refuse(waiter: ResultWait, error: unknown): void {
    this.#forget(waiter)
    if (waiter.signal !== undefined) this.#signals.delete(waiter.signal, waiter)
    waiter.reject(error)
  }

  close(): void {
    this.#closed = true
    this.#poll?.cancel()
    this.#end(closedError(this.#hub.settings.name))
  }

  /** Whoever waits, waits in vain. */
  #end(error: unknown): void {
    this.#toRead.clear()
    for (const id of [...this.#waiting.keys()]) this.#settle(id, (waiter) => waiter.reject(error))
  }

  #forget(waiter: ResultWait): void {
    const waiters = this.#waiting.get(waiter.id)
    waiters?.delete(waiter)
    if (waiters?.size === 0) this.#waiting.delete(waiter.id)
  }

  #heard(ended: readonly string[]): void {
    if (this.#waiting.size === 0) return
    for (const id of ended) if (this.#waiting.has(id)) this.#look(id)
  }

  #look(id: string): void {
    this.#toRead.add(id)
    if (this.#reading) return
    this.#reading = true
    outside(() => queueMicrotask(() => void this.#read()))
  }

  async #read(): Promise<void> {
    while (this.#toRead.size > 0 && !this.#closed) {
      const ids = [...this.#toRead].slice(0, LIMITS.page)
      for (const id of ids) this.#toRead.delete(id)
      try {
        const jobs = await this.#hub.store.get(ids)
        this.#hub.outage.answered('waiting for results')
        ids.forEach((id, index) => {
          this.#consider(id, jobs[index] ?? null)
        })
      } catch (error) {
        // Nobody opens a store for those who wait: they are told, and nobody else.
        if (isAxError(error, 'CLOSED')) this.#end(error)
        else {
          this.#hub.outage.failed('waiting for results', error)
          for (const id of ids) this.#toRead.add(id)
          await this.#hub.sleep(100)
        }
      }
    }
    this.#reading = false
  }

  #consider(id: string, job: StoredJob | null): void {
    if (job === null) this.#settle(id, (waiter) => waiter.reject(goneError(id)))
    else if (job.status === 'success') {
      this.#settle(id, (waiter) => waiter.resolve(storedValue(job.result)))
    } else if (hasEnded(job.status)) {
      const error = toError(job.error ?? { name: 'Error', message: job.status }, id)
      this.#settle(id, (waiter) => waiter.reject(error))
    }
  }

  #settle(id: string, tell: (waiter: ResultWait) => void): void {
    const waiters = this.#waiting.get(id)
    if (waiters === undefined) return
    this.#waiting.delete(id)
    for (const waiter of waiters) {
      if (waiter.signal !== undefined) this.#signals.delete(waiter.signal, waiter)
      tell(waiter)
    }
  }

  #keepPolling(): void {
    const ms = this.#hub.pollMs()
    if (this.#poll !== undefined || !Number.isFinite(ms)) return
    this.#poll = this.#hub.runtime.after(ms, () => {
      this.#poll = undefined
      if (this.#waiting.size === 0 || this.#closed) return
      for (const id of this.#waiting.keys()) this.#look(id)
      this.#keepPolling()
    })
  }
}

export function goneError(id: string): AxError {
  return new AxError(
    'GONE',
    `Job ${id} is not known (any more): its record has been forgotten, or it never was. ` +
      'Keep records longer with keep.success, keep.failed and keep.cancelled.',
    { jobId: id },
  )
}
