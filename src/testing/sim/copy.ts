// Owns copies of what crosses a link. May never copy what is kept by reference on purpose:
// bodies of jobs and boxed values.

import { type JobStatus, Live, type StoredJob } from '../../core/job.ts'

/** A deep copy of plain data; functions and boxed values stay what they are. */
export function copy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Live) return value
  if (Array.isArray(value)) return value.map(copy)
  if ('rev' in value && 'terms' in value) return copyJob(value as StoredJob)
  const result: Record<string, unknown> = {}
  for (const key in value) {
    const each = (value as Record<string, unknown>)[key]
    result[key] = key === 'body' || key === 'terms' ? each : copy(each)
  }
  return result
}

/** A copy of a record that no later change of the store can reach. */
export function copyJob(job: StoredJob): StoredJob {
  return {
    id: job.id,
    seq: job.seq,
    rev: job.rev,
    type: job.type,
    pool: job.pool,
    flow: job.flow,
    payload: job.payload,
    body: job.body,
    terms: job.terms,
    priority: job.priority,
    weight: job.weight,
    rank: job.rank,
    status: job.status,
    deps: job.deps,
    depMode: job.depMode,
    needs: job.needs,
    open: job.open,
    key: job.key,
    keyForMs: job.keyForMs,
    exclusive: job.exclusive,
    enqueueTimeoutMs: job.enqueueTimeoutMs,
    starts: job.starts,
    attempts: job.attempts,
    lost: job.lost,
    preempted: job.preempted,
    attemptsBefore: job.attemptsBefore,
    lostBefore: job.lostBefore,
    lease: job.lease === undefined ? undefined : { ...job.lease },
    unknown: job.unknown,
    evictor: job.evictor,
    deadline: job.deadline,
    createdAt: job.createdAt,
    availableAt: job.availableAt,
    startedAt: job.startedAt,
    finishedAt: job.finishedAt,
    result: job.result,
    error: job.error,
    code: job.code,
    cause: job.cause,
    log: job.log.slice(),
    note: job.note,
  }
}

/** Names of the fields that are not the same in two records. */
export function differences(one: StoredJob, other: StoredJob): string[] {
  const names: string[] = []
  for (const key in one) {
    const name = key as keyof StoredJob
    if (one[name] !== other[name] && !isSame(one[name], other[name])) names.push(name)
  }
  return names
}

/** By value, for the small plain things that a record has in it. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object') return false
  if (one === null || other === null || one instanceof Live) return false
  for (const key in one) {
    if (!isSame(one[key as keyof typeof one], other[key as keyof typeof other])) return false
  }
  return Object.keys(one).length === Object.keys(other).length
}

/** The simulator's own opinion of what an end is. */
export function isEnd(status: JobStatus): boolean {
  return status === 'success' || status === 'failed' || status === 'cancelled'
}
