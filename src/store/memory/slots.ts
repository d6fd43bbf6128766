// Owns who uses slots under a name: a worker's share of a pool, a type over all pools.
// May never count but by the leases and holds themselves: a set of them cannot drift.

import type { JobRecord } from './record.ts'

/** Leases and holds by name, for a rule that asks how many. */
export class Tally {
  readonly #sets = new Map<string, Set<JobRecord>>()

  add(name: string, record: JobRecord): void {
    const known = this.#sets.get(name)
    if (known === undefined) this.#sets.set(name, new Set([record]))
    else known.add(record)
  }

  delete(name: string, record: JobRecord): void {
    const known = this.#sets.get(name)
    known?.delete(record)
    if (known?.size === 0) this.#sets.delete(name)
  }

  count(name: string): number {
    return this.#sets.get(name)?.size ?? 0
  }
}

interface Cap {
  readonly concurrency: number
  readonly held: Set<JobRecord>
}

/** The types that have a cap over all pools. Where none has, nothing is counted. */
export class Caps {
  readonly #caps = new Map<string, Cap>()

  /** `held`: everything that has a slot now. */
  set(type: string, concurrency: number | null, held: Iterable<JobRecord>): void {
    if (concurrency === null) this.#caps.delete(type)
    else {
      const all = [...held].filter((record) => record.type === type)
      this.#caps.set(type, { concurrency, held: new Set(all) })
    }
  }

  isFull(type: string): boolean {
    if (this.#caps.size === 0) return false
    const cap = this.#caps.get(type)
    return cap !== undefined && cap.held.size >= cap.concurrency
  }

  add(record: JobRecord): void {
    if (this.#caps.size > 0) this.#caps.get(record.type)?.held.add(record)
  }

  delete(record: JobRecord): void {
    if (this.#caps.size > 0) this.#caps.get(record.type)?.held.delete(record)
  }
}
