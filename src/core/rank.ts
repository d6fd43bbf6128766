// Owns the order of the queue: one safe integer per job, smaller first, ties by insertion.
// May never read a clock: the store subtracts the weight from the instant a job became ready.

/** One point of priority without ageing: more milliseconds than any two jobs can differ by. */
export const STRICT_WEIGHT = 2 ** 41

export const PRIORITY = { min: 1, max: 100, default: 50 } as const

export interface Ageing {
  readonly everyMs: number
  readonly ceiling: number
}

/**
 * How much earlier than its time a job of this priority ranks, in milliseconds.
 *
 * With ageing, a job gains one point per `everyMs` waited. The difference of two waiting jobs
 * does not change while both wait, so the order is a constant: `readyAt - priority * everyMs`.
 * Above the ceiling, and everywhere without ageing, a point outweighs any wait.
 * Exact: 100 * 2^41 + 2^41 < 2^53.
 */
export function weightOf(priority: number, ageing: Ageing | null): number {
  if (ageing === null || priority > ageing.ceiling) return priority * STRICT_WEIGHT
  return priority * ageing.everyMs
}

export function rankOf(readyAt: number, weight: number): number {
  return readyAt - weight
}

/** True if the first comes before the second. */
export function isBefore(rank: number, seq: number, otherRank: number, otherSeq: number): boolean {
  return rank < otherRank || (rank === otherRank && seq < otherSeq)
}
