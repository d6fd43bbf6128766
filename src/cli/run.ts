// Owns one run of a flow: its jobs are handed to a scheduler, watched, and reported.
// May never hold a rule about jobs: what runs when, and again, is the scheduler's business.

import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasEnded } from '../core/job.ts'
import type { JobContext, JobInput, PoolOptions, TypePolicy } from '../core/types.ts'
import { AxScheduler, memoryStore } from '../index.ts'
import { systemRuntime } from '../kit/runtime.ts'
import { DEFAULT_POOL, type Flow, type FlowJob } from './flow.ts'
import type { Interrupts } from './interrupts.ts'
import type { Screen } from './progress.ts'
import { type JobReport, type RunReport, reportJob } from './report.ts'
import { byName, nameOf, newView, reasonOf, type View } from './view.ts'
import { abortingNotice, startWatch, stoppingNotice, type Watch } from './watch.ts'
import { perform } from './work.ts'

export interface RunOptions {
  /** Of the pool `default`, whatever the flow says. */
  readonly concurrency?: number
  /** How long running jobs may go on after an interrupt, in milliseconds. */
  readonly drain: number
  readonly screen: Screen
  readonly interrupts: Interrupts
}

/** The records of a run are read when it is over, however long it takes. */
const KEEP = { success: '3650d', failed: '3650d', cancelled: '3650d' }

/** Runs every job of a flow to its end, or until it is interrupted, and tells what came of it. */
export async function runFlow(flow: Flow, options: RunOptions): Promise<RunReport> {
  const startedAt = Date.now()
  const run = newRunId(new Date(startedAt))
  const view = newView(flow, `${flow.name}#${run}/`, startedAt)
  const scratch = await mkdtemp(join(tmpdir(), 'ax-run-'))
  const leave = () => rmSync(scratch, { recursive: true, force: true })
  process.on('exit', leave)
  const scheduler = openScheduler(flow, view, options)
  const watch = startWatch(scheduler, view, options.screen)
  try {
    for (const job of flow.jobs) define(scheduler, flow, job, view, scratch)
    await scheduler.addJobs(flow.jobs.map((job) => toInput(flow, job, view, run)))
    await untilOver(scheduler, view, watch, options)
    await watch.end()
    const jobs = await reportJobs(scheduler, view, options.interrupts.drain.aborted)
    const ok = jobs.every(({ state }) => state === 'success')
    const interrupted = options.interrupts.drain.aborted
    return { flow: flow.name, run, ok, interrupted, ms: Date.now() - startedAt, jobs }
  } finally {
    await watch.end()
    await scheduler.close({ drainMs: 0 })
    process.off('exit', leave)
    leave()
  }
}

/** Sorts by time and can be read: `20260518-093000-k3f9`. */
function newRunId(now: Date): string {
  const [date = '', time = ''] = now.toISOString().slice(0, 19).split('T')
  const chance = Math.floor(Math.random() * 36 ** 4).toString(36)
  return `${date.replaceAll('-', '')}-${time.replaceAll(':', '')}-${chance.padStart(4, '0')}`
}

/** Pools and types carry the flow's name, so that flows that share a store do not share them. */
function openScheduler(flow: Flow, view: View, options: RunOptions): AxScheduler {
  const { concurrency, screen, interrupts } = options
  const pools: Record<string, PoolOptions> = {}
  for (const [name, pool] of Object.entries(flow.pools)) pools[poolOf(flow, name)] = pool
  if (concurrency !== undefined) pools[poolOf(flow, DEFAULT_POOL)] = { concurrency }
  // While a run stops, its jobs are meant to wait.
  const say = (_: object, message = '') => {
    if (!interrupts.drain.aborted) screen.print([byName(view, message)])
  }
  return new AxScheduler({
    store: memoryStore(),
    pools,
    keep: KEEP,
    name: 'ax run',
    logger: { info() {}, warn: say, error: say },
  })
}

function poolOf(flow: Flow, pool: string): string {
  return `${flow.name}/${pool}`
}

function typeOf(flow: Flow, job: FlowJob): string {
  return `${flow.name}/${job.name}`
}

function define(
  scheduler: AxScheduler,
  flow: Flow,
  job: FlowJob,
  view: View,
  scratch: string,
): void {
  const place = { folder: flow.folder, scratch }
  const { retries = 0, backoff } = job.settings
  // A function cannot be stored with a job: it belongs to the type.
  const policy: TypePolicy = typeof backoff === 'function' ? { retries, backoff } : {}
  const handler = (context: JobContext) => perform(job.work, named(context, view), place)
  scheduler.define(typeOf(flow, job), policy, handler)
}

/** The context of an attempt, with the results of its dependencies by the names in the flow. */
function named(context: JobContext, view: View): JobContext {
  const deps: Record<string, unknown> = Object.create(null)
  for (const [id, result] of Object.entries(context.deps)) deps[nameOf(view, id)] = result
  return {
    job: context.job,
    payload: context.payload,
    attempt: context.attempt,
    signal: context.signal,
    idempotencyKey: context.idempotencyKey,
    deps,
    progress: (value) => context.progress(value),
    submit: (jobs) => context.submit(jobs),
  }
}

function toInput(flow: Flow, job: FlowJob, view: View, run: string): JobInput {
  const { backoff, ...settings } = job.settings
  return {
    ...settings,
    ...(backoff === undefined || typeof backoff === 'function' ? {} : { backoff }),
    id: view.prefix + job.name,
    type: typeOf(flow, job),
    flow: `${flow.name}#${run}`,
    pool: poolOf(flow, job.pool),
    deps: job.deps.map(({ name, on }) => ({ id: view.prefix + name, on })),
    ...(job.depMode === undefined ? {} : { depMode: job.depMode }),
  }
}

/** Until nothing can happen any more, or somebody has interrupted the run and it has stopped. */
async function untilOver(
  scheduler: AxScheduler,
  view: View,
  watch: Watch,
  { interrupts, drain }: RunOptions,
): Promise<void> {
  await Promise.race([scheduler.idle(), aborted(interrupts.drain)])
  if (!interrupts.drain.aborted) return
  const closed = scheduler.close({ drainMs: drain })
  if (view.running.size > 0) watch.notice(stoppingNotice(view.running.size, drain))
  await Promise.race([closed, aborted(interrupts.abort), after(drain)])
  if (view.running.size > 0) watch.notice(abortingNotice(view.running.size))
  await scheduler.close({ drainMs: 0 })
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => systemRuntime.after(ms, resolve, { ref: false }))
}

/** Every job of the run, in order of submission. */
async function reportJobs(
  scheduler: AxScheduler,
  view: View,
  isInterrupted: boolean,
): Promise<JobReport[]> {
  const reports: JobReport[] = []
  for await (const job of scheduler.jobs()) {
    const isOpen = !hasEnded(job.status)
    reports.push(reportJob(job, view, isOpen ? await whyOpen(job.id) : undefined))
  }
  return reports

  async function whyOpen(id: string): Promise<string> {
    if (isInterrupted) return 'The run was interrupted.'
    return reasonOf(view, (await scheduler.explain(id)).text)
  }
}
