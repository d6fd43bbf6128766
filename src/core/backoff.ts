// Owns the waiting times between attempts, and the random numbers that jitter them.
// May never use a source of randomness: the job's own id is the seed.

import type { BackoffTerms } from './job.ts'

export const DEFAULT_BACKOFF: BackoffTerms = {
  type: 'exponential',
  delayMs: 1_000,
  maxMs: 30_000,
  factor: 2,
  jitter: true,
}

/**
 * The wait after failure number `failure` (from 1), in whole milliseconds, always finite.
 * Capped first, then jittered into [50 %, 100 %]: a cap after the jitter would send everybody who
 * has reached the cap back at the same instant.
 */
export function backoffMs(terms: BackoffTerms, failure: number, random: number): number {
  const grown = terms.type === 'fixed' ? terms.delayMs : grow(terms, failure)
  const capped = Math.min(grown, terms.maxMs)
  return Math.round(terms.jitter ? capped * (0.5 + random / 2) : capped)
}

function grow(terms: BackoffTerms, failure: number): number {
  if (terms.delayMs === 0) return 0
  const grown = terms.delayMs * terms.factor ** (failure - 1)
  return Number.isFinite(grown) ? grown : terms.maxMs
}

/**
 * The wait after a job was lost for the n-th time (from 1): nothing, then 1 s, 4 s, 16 s ... at
 * most ten minutes, jittered into [50 %, 100 %]. The first loss is nearly always a deploy.
 */
export function lossDelayMs(loss: number, random: number): number {
  if (loss <= 1) return 0
  const grown = Math.min(1_000 * 4 ** (loss - 2), 600_000)
  return Math.round(grown * (0.5 + random / 2))
}

/**
 * A number in [0, 1) that depends on the two arguments alone, so that a job always backs off
 * alike and no two jobs do. FNV-1a over the text, finished by the mixer of MurmurHash3.
 */
export function seededRandom(id: string, salt: number): number {
  let hash = 0x811c9dc5 ^ salt
  for (let index = 0; index < id.length; index += 1) {
    hash = Math.imul(hash ^ id.charCodeAt(index), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}
