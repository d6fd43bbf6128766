// Owns the ageing that is set, and how many jobs are still ranked by one that is set no more.
// May never move a job: the board knows in which index a rank stands.

import { type Ageing, weightOf } from '../../core/rank.ts'
import type { JobRecord } from './record.ts'

/** How many jobs that have not ended carry this weight. */
interface Kind {
  readonly weight: number
  count: number
}

/**
 * Counts of jobs by priority and weight. Counting costs two increments in the life of a job; the
 * alternative, a look at every job when the ageing changes, stopped a store of a million jobs for
 * a tenth of a second, each time.
 */
export class Ranks {
  /** How far the ranking has come: jobs up to this seq have the weight that is set. */
  after = 0
  #ageing: Ageing | null = null
  /** By priority; the weight that is set comes first, and each weight comes once. */
  readonly #kinds: Kind[][] = []
  #unranked = 0

  get ageing(): Ageing | null {
    return this.#ageing
  }

  /** How many jobs have not ended and carry a weight that is set no more. O(1). */
  get unranked(): number {
    return this.#unranked
  }

  /** The weight that is set. */
  weightOf(priority: number): number {
    return (this.#of(priority)[0] as Kind).weight
  }

  /** A job begins to live, or does so again: it has the weight that is set. */
  begin(record: JobRecord): void {
    const kind = this.#of(record.priority)[0] as Kind
    record.weight = kind.weight
    kind.count += 1
  }

  end(record: JobRecord): void {
    this.#take(this.#of(record.priority), record.weight)
  }

  /** Gives a living job the weight that is set. */
  weigh(record: JobRecord): void {
    const kinds = this.#of(record.priority)
    const first = kinds[0] as Kind
    if (record.weight === first.weight) return
    this.#take(kinds, record.weight)
    first.count += 1
    record.weight = first.weight
  }

  /** Changes the ageing. Who carries another weight by it waits for being ranked anew. */
  set(ageing: Ageing | null): void {
    this.#ageing = ageing
    this.#unranked = 0
    this.after = 0
    for (const priority of this.#kinds.keys()) {
      const kinds = this.#kinds[priority]
      if (kinds === undefined) continue
      const weight = weightOf(priority, ageing)
      const known = kinds.find((kind) => kind.weight === weight) ?? { weight, count: 0 }
      const others = kinds.filter((kind) => kind !== known && kind.count > 0)
      this.#kinds[priority] = [known, ...others]
      for (const kind of others) this.#unranked += kind.count
    }
  }

  #take(kinds: readonly Kind[], weight: number): void {
    const first = kinds[0] as Kind
    if (first.weight === weight) {
      first.count -= 1
      return
    }
    const kind = kinds.find((each) => each.weight === weight) as Kind
    kind.count -= 1
    this.#unranked -= 1
  }

  #of(priority: number): Kind[] {
    let kinds = this.#kinds[priority]
    if (kinds === undefined) {
      kinds = [{ weight: weightOf(priority, this.#ageing), count: 0 }]
      this.#kinds[priority] = kinds
    }
    return kinds
  }
}
