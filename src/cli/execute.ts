// Owns running the jobs of a run that this process owns: handlers, pools, interrupts.
// May never run a job of another run, whatever the store hands out.

import { AxError } from '../core/errors.ts'
import type { JobContext, JobInput, PoolOptions, SubmitOptions, TypePolicy } from '../core/types.ts'
import { AxScheduler, type Store } from '../index.ts'
import { systemRuntime } from '../kit/runtime.ts'
import { DEFAULT_POOL, type Flow, type FlowJob } from './flow.ts'
import type { Interrupts } from './interrupts.ts'
import { KEEP } from './owner.ts'
import { poolOf, typeOf } from './plan.ts'
import type { RunRef } from './runs.ts'
import type { Place } from './shell.ts'
import { byName, nameOf, type View } from './view.ts'
import { abortingNotice, stoppingNotice, type Watch } from './watch.ts'
import { perform } from './work.ts'

export interface Execution {
  readonly flow: Flow
  readonly run: RunRef
  readonly store: Store
  readonly view: View
  readonly scratch: string
  /** Of the pool `default`, whatever the flow says. */
  readonly concurrency: number | undefined
  /** What is to be told, by name, but while the run stops: then its jobs are meant to wait. */
  readonly tell: (text: string) => void
}

/** A scheduler that runs the jobs of one run, once it is started. */
export function openRunner(execution: Execution): AxScheduler {
  const { flow, store, view, concurrency } = execution
  const pools: Record<string, PoolOptions> = {}
  for (const [name, pool] of Object.entries(flow.pools)) pools[poolOf(flow.name, name)] = pool
  if (concurrency !== undefined) pools[poolOf(flow.name, DEFAULT_POOL)] = { concurrency }
  const say = (_: object, message = '') => execution.tell(byName(view, message))
  const logger = { info() {}, warn: say, error: say }
  const options = { store, pools, keep: KEEP, name: 'ax run', logger, autoStart: false }
  const scheduler = new AxScheduler(options)
  for (const job of flow.jobs) define(scheduler, job, execution)
  return scheduler
}

function define(scheduler: AxScheduler, job: FlowJob, execution: Execution): void {
  const { flow, run, scratch } = execution
  const place: Place = { folder: flow.folder, scratch }
  const { retries = 0, backoff } = job.settings
  // A function cannot be stored with a job: it belongs to the type.
  const policy: TypePolicy = typeof backoff === 'function' ? { retries, backoff } : {}
  scheduler.define(typeOf(flow.name, job.name), policy, (context) => {
    if (context.job.flow === run.id) return perform(job.work, inFlow(context, execution), place)
    const text = `This process runs ${run.id}, and job ${context.job.id} is not of that run.`
    throw new AxError('INVALID_JOB', text, { retryable: false })
  })
}

/** The context of an attempt, in the words of the flow: names instead of ids. */
function inFlow(context: JobContext, execution: Execution): JobContext {
  const { run, view } = execution
  const deps: Record<string, unknown> = Object.create(null)
  for (const [id, result] of Object.entries(context.deps)) deps[nameOf(view, id)] = result
  const { job } = context
  return {
    job,
    // What a job of the file has as its payload is its description.
    payload: job.type === typeOf(run.flow, nameOf(view, job.id)) ? undefined : context.payload,
    attempt: context.attempt,
    signal: context.signal,
    // Runs are counted anew in another store, and operations must not be taken for the same.
    idempotencyKey: `${context.idempotencyKey}:${run.born}`,
    deps,
    progress: (value) => context.progress(value),
    note: (text) => context.note(text),
    submit: (jobs: JobInput | readonly JobInput[], options?: SubmitOptions) =>
      context.submit(
        [jobs].flat().map((each) => ofRun(each as JobInput, execution)),
        options,
      ),
  }
}

/** A job that another one submits is of its run: so are its id, its dependencies, type and pool. */
function ofRun(job: JobInput, { flow, run }: Execution): JobInput {
  if (typeof job !== 'object' || job === null) return job
  const idOf = (id: string) => (id.startsWith(run.prefix) ? id : run.prefix + id)
  const { id, deps, type, pool } = job
  const isNamed = flow.jobs.some((each) => each.name === type)
  return {
    ...job,
    flow: run.id,
    pool: poolOf(flow.name, pool ?? DEFAULT_POOL),
    ...(isNamed ? { type: typeOf(flow.name, type as string) } : {}),
    ...(typeof id === 'string' ? { id: idOf(id) } : {}),
    ...(Array.isArray(deps)
      ? {
          deps: deps.map((dep) =>
            typeof dep === 'string' ? idOf(dep) : { ...dep, id: idOf(dep.id) },
          ),
        }
      : {}),
  }
}

/** Until nothing can happen any more, or the run has been told to stop, and has stopped. */
export async function untilOver(
  scheduler: AxScheduler,
  view: View,
  watch: Watch,
  { drain, abort }: Interrupts,
  drainMs: number,
  lost: AbortSignal,
): Promise<void> {
  await Promise.race([watch.over(), aborted(drain), aborted(lost)])
  if (lost.aborted) await scheduler.close({ drainMs: 0 })
  if (!drain.aborted) return
  const closed = scheduler.close({ drainMs })
  if (view.running.size > 0) watch.notice(stoppingNotice(view.running.size, drainMs))
  await Promise.race([closed, aborted(abort), aborted(lost), after(drainMs)])
  if (view.running.size > 0) watch.notice(abortingNotice(view.running.size))
  await scheduler.close({ drainMs: 0 })
}

export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => systemRuntime.after(ms, resolve, { ref: false }))
}
