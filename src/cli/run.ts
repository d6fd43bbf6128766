// Owns one run of a flow: its jobs are handed to a scheduler, watched, and reported.
// May never hold a rule about jobs: what runs when, and again, is the scheduler's business.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { showMs } from '../core/duration.ts'
import { hasEnded, type JobEvent } from '../core/job.ts'
import type { JobContext, JobInput } from '../core/types.ts'
import { AxScheduler } from '../engine/scheduler.ts'
import { memoryStore } from '../store/memory.ts'
import { DEFAULT_POOL, type Flow, type FlowJob } from './flow.ts'
import type { Interrupts } from './interrupts.ts'
import type { Screen } from './progress.ts'
import { eventLine, isTold, liveLines, type Waiting } from './render.ts'
import { type JobReport, type RunReport, reportJob } from './report.ts'
import { byName, fold, foldProgress, nameOf, newView, type View } from './view.ts'
import { perform } from './work.ts'

export interface RunOptions {
  /** Of the pool `default`, whatever the flow says. */
  readonly concurrency?: number
  /** How long running jobs may go on after an interrupt, in milliseconds. */
  readonly drain: number
  readonly screen: Screen
  readonly interrupts: Interrupts
}

/** How many waiting jobs are explained, and how often: enough to see what holds a run up. */
const EXPLAINED = 3
const EXPLAIN_MS = 500

/** The records of a run are read when it is over, however long it takes. */
const KEEP = { success: '3650d', failed: '3650d', cancelled: '3650d' }

/** Runs every job of a flow to its end, or until it is interrupted, and tells what came of it. */
export async function runFlow(flow: Flow, options: RunOptions): Promise<RunReport> {
  const startedAt = Date.now()
  const run = newRunId(new Date(startedAt))
  const view = newView(flow, `${flow.name}#${run}/`, startedAt)
  const scratch = await mkdtemp(join(tmpdir(), 'ax-run-'))
  const scheduler = openScheduler(flow, options)
  const watch = startWatch(scheduler, view, options.screen)
  try {
    for (const job of flow.jobs) define(scheduler, flow, job, view, scratch)
    await scheduler.addJobs(flow.jobs.map((job) => toInput(flow, job, view, run)))
    await untilOver(scheduler, view, options)
    await watch.end()
    const jobs = await reportJobs(scheduler, view, options.interrupts)
    const ok = jobs.every(({ state }) => state === 'success')
    const interrupted = options.interrupts.drain.aborted
    return { flow: flow.name, run, ok, interrupted, ms: Date.now() - startedAt, jobs }
  } finally {
    await watch.end()
    await scheduler.close({ drainMs: 0 })
    await rm(scratch, { recursive: true, force: true })
  }
}

/** Sorts by time and can be read: `20260518-093000-k3f9`. */
function newRunId(now: Date): string {
  const [date = '', time = ''] = now.toISOString().slice(0, 19).split('T')
  const chance = Math.floor(Math.random() * 36 ** 4).toString(36)
  return `${date.replaceAll('-', '')}-${time.replaceAll(':', '')}-${chance.padStart(4, '0')}`
}

/** Pools and types carry the flow's name, so that flows that share a store do not share them. */
function openScheduler(flow: Flow, { concurrency, screen }: RunOptions): AxScheduler {
  const pools = Object.entries(flow.pools).map(([name, pool]) => [poolOf(flow, name), pool])
  const own = concurrency === undefined ? [] : [[poolOf(flow, DEFAULT_POOL), { concurrency }]]
  const say = (_: object, message = '') => screen.print([byName({ prefix: '', flow: flow.name }, message)])
  return new AxScheduler({
    store: memoryStore(),
    pools: Object.fromEntries([...pools, ...own]),
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
  scheduler.define(typeOf(flow, job), (context) => perform(job.work, named(context, view), place))
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
  return {
    ...job.settings,
    id: view.prefix + job.name,
    type: typeOf(flow, job),
    flow: `${flow.name}#${run}`,
    pool: poolOf(flow, job.pool),
    deps: job.deps.map(({ name, on }) => ({ id: view.prefix + name, on })),
    ...(job.depMode === undefined ? {} : { depMode: job.depMode }),
  }
}
