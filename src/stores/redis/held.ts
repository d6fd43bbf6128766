// Owns what this process knows of jobs that it has leased, until their ends have been answered.
// May never be needed: what is not known here is said again by the server.

import type { StoredJob } from '../../core/job.ts'

/** Beyond so many, all are forgotten. */
const MOST_HELD = 10_000

/** So many places that nobody needs any more are not worth the way. */
const FEW = 100

/**
 * Places are emptied, not deleted, and once most are empty the rest move to a new map. A map in
 * V8 that entries come to and leave all the time leaves old tables behind, each of which leads to
 * the next: until the next full collection every job that ever was in one counts as alive, and is
 * copied twice. That took as long as all the rest of reading a job.
 */
export class Held {
  #jobs = new Map<string, StoredJob | undefined>()
  #count = 0

  add(jobs: readonly StoredJob[]): void {
    if (this.#count > MOST_HELD) {
      this.#jobs = new Map()
      this.#count = 0
    }
    for (const job of jobs) {
      if (this.#jobs.get(job.id) === undefined) this.#count += 1
      this.#jobs.set(job.id, job)
    }
  }

  get(id: string): StoredJob | undefined {
    return this.#jobs.get(id)
  }

  remove(id: string): void {
    if (this.#jobs.get(id) === undefined) return
    this.#jobs.set(id, undefined)
    this.#count -= 1
    if (this.#jobs.size > 2 * this.#count + FEW) this.#moveOn()
  }

  #moveOn(): void {
    const jobs = this.#jobs
    this.#jobs = new Map()
    for (const [id, job] of jobs) if (job !== undefined) this.#jobs.set(id, job)
  }
}
