// Owns the question whether a job may be what kills its workers.
// May never know why a job was lost: it counts.

import type { StoredJob } from './job.ts'

/** With so many losses since its last revival a job is a suspect. */
export const SUSPECT_LOSSES = 2

/**
 * Whether no worker may hold this job beside another one like it. A job that kills its worker is
 * one from its second kill on, and so is a neighbour that died both times with it: from then on
 * they are never together again.
 */
export function isSuspect({ lost, lostBefore }: Pick<StoredJob, 'lost' | 'lostBefore'>): boolean {
  return lost - lostBefore >= SUSPECT_LOSSES
}
