// Owns the loop behind every request about one job: read, decide, apply, and again.
// May never give up on a job that has changed meanwhile: it decides anew.

import type { Fact, StoredJob } from '../core/job.ts'
import { decide } from '../core/machine.ts'
import type { Moved } from '../store/store.ts'
import type { Hub } from './hub.ts'

/**
 * Decides on the job as it is, until the decision is written or there is nothing to decide, as
 * there is none where `applies` says no.
 */
export async function settle(
  hub: Hub,
  first: StoredJob,
  fact: Fact,
  applies: (job: StoredJob) => boolean = () => true,
): Promise<Moved | null> {
  for (let job: StoredJob | null = first; job !== null && applies(job); ) {
    const move = decide(job, fact, hub.settings.keep)
    if (move === null) return null
    const answer = await hub.move(move)
    if (answer.status !== 'stale') return answer
    job = answer.job
  }
  return null
}
