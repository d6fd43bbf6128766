// Owns copies of what crosses a link. May never copy what is kept by reference on purpose:
// bodies of jobs and boxed values.

import { type JobStatus, Live, type StoredJob } from '../../core/job.ts'

/** A deep copy of plain data; functions and boxed values stay what they are. */
export function copy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Live) return value
  if (Array.isArray(value)) return value.map(copy)
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
    ...job,
    deps: job.deps.map((dep) => ({ ...dep })),
    lease: job.lease === undefined ? undefined : { ...job.lease },
    log: job.log.map((attempt) => ({ ...attempt })),
  }
}

/** Fields that are not the same in two records, by name. */
export function differences(one: StoredJob, other: StoredJob): string[] {
  const names: string[] = []
  for (const key of Object.keys(one) as (keyof StoredJob)[]) {
    const a = one[key]
    const b = other[key]
    if (a === b) continue
    const deep = typeof a === 'object' && a !== null && !(a instanceof Live)
    if (!deep || JSON.stringify(a) !== JSON.stringify(b)) names.push(key)
  }
  return names
}

/** The simulator's own opinion of what an end is. */
export function isEnd(status: JobStatus | 'gone' | 'new'): boolean {
  return status === 'success' || status === 'failed' || status === 'cancelled'
}
