// Owns taking a run up: how the flow as it is now fits what is stored of the run.
// May never change what is stored: it says what to submit, and what that takes the place of.

import { AxError } from '../core/errors.ts'
import type { StoredJob } from '../core/job.ts'
import type { JobInput } from '../core/types.ts'
import { changesOf, type Definition, definitionOf, isDefinition, isSame } from './definition.ts'
import type { Flow, FlowJob } from './flow.ts'
import { payloadOf, type RunRef } from './runs.ts'

/** What to hand to the store in one step. Nothing: the run goes on as it is. */
export interface Plan {
  readonly submit: readonly JobInput[]
  readonly replaces: readonly string[]
}

/**
 * A run fits a flow if its jobs that have succeeded do what they did then, after the same ones. All
 * others that have changed take the definition that they have now, but for those in `kept`; new
 * ones are added, removed ones dropped. Throws INVALID_JOB, with the differences, if it does not
 * fit.
 */
export function planOf(
  flow: Flow,
  run: RunRef,
  stored: readonly StoredJob[],
  kept: ReadonlySet<string> = new Set(),
): Plan {
  const known = new Map(stored.filter((job) => isOfFile(job, run)).map((job) => [job.id, job]))
  refuseMisfit(flow, run, known)
  const wanted = flow.jobs.map((job) => [run.prefix + job.name, job] as const)
  const ids = new Set(wanted.map(([id]) => id))
  const isOpen = (id: string) => known.get(id)?.status !== 'success'
  const hasChanged = (id: string, job: FlowJob) => {
    const was = known.get(id)
    return was === undefined || !isSame(payloadOf(was), definitionOf(job))
  }
  const changed = wanted.filter(([id, job]) => isOpen(id) && !kept.has(id) && hasChanged(id, job))
  const replaced = changed.map(([id]) => id).filter((id) => known.has(id))
  const dropped = [
    ...[...known.keys()].filter((id) => isOpen(id) && !ids.has(id)),
    ...stored.filter((job) => isOrphan(flow, job, run)).map(({ id }) => id),
  ]
  return {
    submit: changed.map(([, job]) => toInput(flow, job, run)),
    replaces: [...replaced, ...dropped],
  }
}

/** Not one that a function has submitted: such a job has another name than its type. */
function isOfFile(job: StoredJob, run: RunRef): boolean {
  const name = job.id.slice(run.prefix.length)
  return job.type === typeOf(run.flow, name) && isDefinition(payloadOf(job))
}

/** One that a function has submitted, of a type that the file has no more: nobody could run it. */
function isOrphan(flow: Flow, job: StoredJob, run: RunRef): boolean {
  if (job.status === 'success' || isOfFile(job, run)) return false
  return flow.jobs.every(({ name }) => typeOf(flow.name, name) !== job.type)
}

function refuseMisfit(flow: Flow, run: RunRef, known: ReadonlyMap<string, StoredJob>): void {
  const jobs = new Map(flow.jobs.map((job) => [run.prefix + job.name, job]))
  const lines: string[] = []
  for (const [id, was] of known) {
    if (was.status !== 'success') continue
    const name = id.slice(run.prefix.length)
    const job = jobs.get(id)
    if (job === undefined) lines.push(`${name}: it is in the file no more.`)
    else {
      const changes = changesOf(payloadOf(was) as Definition, definitionOf(job))
      lines.push(...changes.map((change) => `${name}: ${change}`))
    }
  }
  if (lines.length === 0) return
  const text =
    `Run ${run.number} of ${flow.name} is not finished, and what has succeeded in it ` +
    'is not what the file says now:'
  const remedy = 'Undo that to resume the run, or start over with --fresh.'
  const told = [text, ...lines.map((line) => `  ${line}`), remedy].join('\n')
  throw new AxError('INVALID_JOB', told, { run: run.number, differences: lines })
}

export function poolOf(flow: string, pool: string): string {
  return `${flow}/${pool}`
}

export function typeOf(flow: string, job: string): string {
  return `${flow}/${job}`
}

export function toInput(flow: Flow, job: FlowJob, run: RunRef): JobInput {
  const { backoff, key, ...settings } = job.settings
  return {
    ...settings,
    // Said also where it is none: a type of that name may have had some when the file was another.
    retries: settings.retries ?? 0,
    // Keys are unique in a store, and those of a flow in the flow.
    ...(key === undefined ? {} : { key: `${flow.name}/${key}` }),
    ...(backoff === undefined || typeof backoff === 'function' ? {} : { backoff }),
    id: run.prefix + job.name,
    type: typeOf(flow.name, job.name),
    payload: definitionOf(job),
    flow: run.id,
    pool: poolOf(flow.name, job.pool),
    deps: job.deps.map(({ name, on }) => ({ id: run.prefix + name, on })),
    ...(job.depMode === undefined ? {} : { depMode: job.depMode }),
  }
}
