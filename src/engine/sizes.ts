// Owns how much one call of a store carries: what many jobs bring in one turn is parted by it.
// May never part what is stored all or none.

import type { Move, NewJob, Stored } from '../core/job.ts'
import { LIMITS } from '../store/limits.ts'

export function sizeOfJob({ payload }: NewJob): number {
  return sizeOf(payload)
}

export function sizeOfJobs(jobs: readonly NewJob[]): number {
  let size = 0
  for (const job of jobs) size += sizeOf(job.payload)
  return size
}

export function sizeOfMove({ result, error }: Move): number {
  const said = error === undefined ? 0 : error.message.length + (error.stack?.length ?? 0)
  return sizeOf(result) + said
}

/** In characters: most are a byte, and none is more than three. */
function sizeOf(stored: Stored): number {
  return typeof stored === 'string' ? stored.length : 0
}

/** What it takes of a call that takes `most` by number, or so many bytes. */
export function shareOf(count: number, size: number, most: number): number {
  return Math.max(count, (size / LIMITS.bytes) * most)
}

/** In order, each piece as heavy as a call may be at most, or one item alone. */
export function piecesOf<T>(
  items: readonly T[],
  weigh: (item: T) => number,
  most: number,
): readonly (readonly T[])[] {
  const pieces: T[][] = []
  let sum = Number.POSITIVE_INFINITY
  for (const item of items) {
    const weight = weigh(item)
    sum += weight
    if (sum > most) {
      sum = weight
      pieces.push([])
    }
    pieces.at(-1)?.push(item)
  }
  return pieces
}
