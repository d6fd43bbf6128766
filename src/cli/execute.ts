// Owns running the jobs of a run that this process owns: handlers, pools, interrupts.
// May never run a job of another run, whatever the store hands out.

import { randomBytes } from 'node:crypto'
import { AxError } from '../core/errors.ts'
import { nearest, show } from '../core/options.ts'
import type { JobContext, JobInput, PoolOptions, SubmitOptions, TypePolicy } from '../core/types.ts'
import { AxScheduler, type Store } from '../index.ts'
import { systemRuntime } from '../kit/runtime.ts'
import { DEFAULT_POOL, type Flow, type FlowJob } from './flow.ts'
import type { Interrupts } from './interrupts.ts'
import { KEEP, nap } from './owner.ts'
import { poolOf, typeOf } from './plan.ts'
import type { RunRef } from './runs.ts'
import type { Place } from './shell.ts'
import { nameOf, type View } from './view.ts'
import { abortingNotice, stoppingNotice, type Watch } from './watch.ts'
import { perform } from './work.ts'

export interface Execution {
  readonly flow: Flow
  readonly run: RunRef
  readonly view: View
  readonly scratch: string
}

/** A scheduler that can own the run and run its jobs. As yet it knows no handler of them. */
export interface Runner {
  readonly scheduler: AxScheduler
  /** No other scheduler is called so. */
  readonly name: string
  /** Begins to run the jobs. */
  serve(execution: Execution): void
  /** How many of their bodies run here. */
  readonly running: number
}

/** Of a pool of which the flow says nothing. */
const USUAL: PoolOptions = { concurrency: 10 }

/** `say` is given what the scheduler has to tell. */
export function openRunner(
  flow: Flow,
  store: Store,
  concurrency: number | undefined,
  say: (text: string) => void,
): Runner {
  // All of them are said, since what was said for an earlier run is stored.
  const pools: Record<string, PoolOptions> = { [poolOf(flow.name, DEFAULT_POOL)]: USUAL }
  for (const [name, pool] of Object.entries(flow.pools)) {
    pools[poolOf(flow.name, name)] = { ...USUAL, ...pool }
  }
  if (concurrency !== undefined) pools[poolOf(flow.name, DEFAULT_POOL)] = { concurrency }
  const tell = (_: object, message = '') => say(message)
  const logger = { info() {}, warn: tell, error: tell }
  const name = `ax run ${process.pid}.${randomBytes(3).toString('hex')}`
  const scheduler = new AxScheduler({ store, pools, keep: KEEP, name, logger, autoStart: false })
  const bodies = { running: 0 }
  return {
    scheduler,
    name,
    serve(execution) {
      for (const job of flow.jobs) define(scheduler, job, execution, bodies)
    },
    get running() {
      return bodies.running
    },
  }
}

function define(
  scheduler: AxScheduler,
  job: FlowJob,
  execution: Execution,
  bodies: { running: number },
): void {
  const { flow, run, scratch } = execution
  const place: Place = { folder: flow.folder, scratch }
  const { retries = 0, backoff } = job.settings
  // A function cannot be stored with a job: it belongs to the type.
  const policy: TypePolicy = typeof backoff === 'function' ? { retries, backoff } : {}
  scheduler.define(typeOf(flow.name, job.name), policy, async (context) => {
    if (context.job.flow !== run.id) {
      const text = `This process runs ${run.id}, and job ${context.job.id} is not of that run.`
      throw new AxError('INVALID_JOB', text, { retryable: false })
    }
    bodies.running += 1
    try {
      return await perform(job.work, inFlow(context, execution), place)
    } finally {
      bodies.running -= 1
    }
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
  if (!isNamed && job.execute === undefined) refuseType(type, flow)
  if (pool !== undefined && pool !== DEFAULT_POOL && !Object.hasOwn(flow.pools, pool)) {
    throw new AxError('INVALID_JOB', `The flow has no pool ${show(pool)}.`, { retryable: false })
  }
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

/** Nobody could run it, and the run would wait for it. */
function refuseType(type: unknown, flow: Flow): never {
  const names = flow.jobs.map(({ name }) => name)
  const near = typeof type === 'string' ? nearest(type, names) : undefined
  const hint = near === undefined ? '' : ` Did you mean '${near}'?`
  const text =
    `A submitted job needs as its type the name of a job of the flow, got ${show(type)}.${hint} ` +
    "With --store memory it may bring its own 'execute' instead."
  throw new AxError('INVALID_JOB', text, { retryable: false })
}

/** Until nothing can happen any more, or the run has been told to stop and has been aborted. */
export async function untilOver(
  runner: Runner,
  watch: Watch,
  { drain, abort }: Interrupts,
  drainMs: number,
  lost: AbortSignal,
): Promise<void> {
  await Promise.race([watch.over(), aborted(drain), aborted(lost)])
  if (!drain.aborted || lost.aborted) return
  // From here on nothing is started. The lease of the run is held until everything has stopped.
  void runner.scheduler.close({ drainMs: MAX_DRAIN_MS }).catch(() => {})
  if (runner.running > 0) watch.notice(stoppingNotice(runner.running, drainMs))
  await Promise.race([stopped(runner), aborted(abort), aborted(lost), after(drainMs)])
  if (runner.running > 0) watch.notice(abortingNotice(runner.running))
}

/** A scheduler that is told to close waits for as long: what it is told later is shorter. */
const MAX_DRAIN_MS = 2 ** 31 - 1

/** Between two looks whether the last body has ended. */
const LOOK_MS = 20

async function stopped(runner: Runner): Promise<void> {
  while (runner.running > 0) await nap(LOOK_MS)
}

export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => systemRuntime.after(ms, resolve, { ref: false }))
}
