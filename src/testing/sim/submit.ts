// Owns the way from a drawn job to a submission, from outside and from inside a body.
// May never change what was drawn.

import type { JobContext, JobInput } from '../../core/types.ts'
import type { Script, Spec } from './plan.ts'

/** What bodies need of those who submit. */
export interface Submitter {
  fromBody(context: JobContext, jobs: readonly Spec[]): Promise<void>
}

/** Runs a script wherever the job that carries it is running. */
export type LiveBody = (context: JobContext, script: Script) => Promise<unknown>

export function toInput(spec: Spec, runLive: LiveBody): JobInput {
  const { script, live, dedupeMs, deps, ...rest } = spec
  return {
    ...rest,
    payload: script,
    ...(deps === undefined ? {} : { deps: deps.map((dep) => (dep.on === 'end' ? dep : dep.id)) }),
    ...(dedupeMs === undefined ? {} : { dedupe: { for: dedupeMs } }),
    ...(live === true ? { execute: (context: JobContext) => runLive(context, script) } : {}),
  }
}
