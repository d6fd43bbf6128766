// Owns the promise that no two attempts of a job run at a time, but where a lease has run out.
// May never guess when a body ended: one that has not said so is still running.

import type { JobEvent } from '../../../src/core/job.ts'
import type { Entry } from '../crash/ledger.ts'

export interface Overlaps {
  /** One sentence for each attempt that began beside another without a reason. */
  readonly faults: readonly string[]
  /** Attempts whose body went on after they had been lost, and ended. */
  readonly late: number
}

export function overlapsIn(entries: readonly Entry[], events: readonly JobEvent[]): Overlaps {
  const lost = new Set<string>()
  for (const { job, event, attempt } of events) {
    if (event === 'job:lost') lost.add(`${job} ${attempt}`)
  }
  const open = new Map<string, Set<string>>()
  const faults: string[] = []
  let late = 0
  for (const [kind, id = '', attempt = ''] of entries) {
    if (kind !== 'start' && kind !== 'end') continue
    const running = open.get(id) ?? new Set()
    open.set(id, running)
    if (kind === 'end') {
      running.delete(attempt)
      if (lost.has(`${id} ${attempt}`)) late += 1
      continue
    }
    for (const other of running) {
      if (lost.has(`${id} ${other}`)) continue
      faults.push(`attempts ${other} and ${attempt} of ${id} run at a time, and none was lost`)
    }
    running.add(attempt)
  }
  return { faults, late }
}
