// Owns one call of `ax run`: begins a run, resumes one, or follows one that another process runs.
// May never hold a rule about jobs: what runs when, and again, is the scheduler's business.

import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { AxError, isAxError } from '../core/errors.ts'
import { hasEnded, type StoredJob } from '../core/job.ts'
import { isSuspect } from '../core/suspect.ts'
import { viewOf } from '../core/view.ts'
import type { AxScheduler, Store } from '../index.ts'
import { reviveAll, untoldNotice, untoldOf } from './again.ts'
import { aborted, type Execution, openRunner, type Runner, untilOver } from './execute.ts'
import type { Flow } from './flow.ts'
import { whyHeld } from './held.ts'
import type { Interrupts } from './interrupts.ts'
import { nap, type Ownership, openLookout, openReader, own, runsElsewhere } from './owner.ts'
import { planOf } from './plan.ts'
import type { Screen } from './progress.ts'
import { type JobReport, type RunReport, reportJob } from './report.ts'
import {
  giveUp,
  giveUpOld,
  headOf,
  isGivenUp,
  jobsOf,
  latestRun,
  newRun,
  type RunRef,
} from './runs.ts'
import { endLeftOver } from './shell.ts'
import { byName, nameOf, newView, seed, type View } from './view.ts'
import { endOfLog, startWatch } from './watch.ts'

export interface RunOptions {
  readonly store: Store
  /** Where the store is, if that is a place: flow files are known by their way from there. */
  readonly storeFolder?: string
  /** The store outlives this process. */
  readonly isDurable: boolean
  /** Begin a new run, whatever became of the latest one. */
  readonly fresh: boolean
  /** Of the pool `default`, whatever the flow says. */
  readonly concurrency?: number
  /** How long running jobs may go on after an interrupt, in milliseconds. */
  readonly drain: number
  readonly screen: Screen
  readonly interrupts: Interrupts
}

/** Between two looks at a run that another process runs. */
const LOOK_MS = 100

/** Waiting for less than this needs no explanation. */
const PATIENCE_MS = 1_000

/** Carries a run of the flow to its end, or until it is interrupted, and tells what came of it. */
export async function runFlow(flow: Flow, options: RunOptions): Promise<RunReport> {
  const startedAt = Date.now()
  for (let fresh = options.fresh; ; fresh = false) {
    const report = await attend(flow, { ...options, fresh }, startedAt)
    if (report !== undefined) return report
    options.screen.print([`The process that ran ${flow.name} has died: this one goes on with it.`])
  }
}

/** Undefined: the process that was followed has died. */
async function attend(
  flow: Flow,
  options: RunOptions,
  startedAt: number,
): Promise<RunReport | undefined> {
  const { store, screen, interrupts } = options
  const { run, isTaken } = await find(flow, options)
  if (isTaken) return follow(flow, run, options, startedAt)
  let isServing = false
  const runner = openRunner(flow, store, options.concurrency, (text) => {
    // While a run stops, its jobs are meant to wait.
    const isCalm = isServing && !interrupts.drain.aborted
    if (isCalm) screen.print([byName({ prefix: run.prefix, flow: flow.name }, text)])
  })
  let hasEnded = false
  try {
    const owned = await own(runner.scheduler, runner.name, store, run, interrupts.drain)
    if (owned !== undefined) {
      const start = (execution: Execution) => {
        isServing = true
        runner.serve(execution)
      }
      const report = await carryOut(flow, run, owned, { ...options, runner, start }, startedAt)
      hasEnded = report.ok || !report.isOpen
      return report.told
    }
  } finally {
    // An end that was said is written first; else the head goes back as it was.
    await runner.scheduler.close(hasEnded ? {} : { drainMs: 0 })
  }
  return follow(flow, run, options, startedAt)
}

/** The run to carry out or to follow, before anything of it is touched. */
async function find(
  flow: Flow,
  options: RunOptions,
): Promise<{ readonly run: RunRef; readonly isTaken: boolean }> {
  const { store } = options
  const lookout = await openLookout(store)
  try {
    const { run, isNew, isTaken } = await chosen(lookout, flow, options)
    // An edited file that does not fit is refused, and leaves all as it is.
    if (!isTaken && !isNew) planOf(flow, run, await jobsOf(store, run))
    return { run, isTaken }
  } finally {
    await lookout.close({ drainMs: 0 })
  }
}

interface Choice {
  readonly run: RunRef
  readonly isNew: boolean
}

/** The run that this call is about, and whether another process runs it. */
async function chosen(
  lookout: AxScheduler,
  flow: Flow,
  options: RunOptions,
): Promise<Choice & { readonly isTaken: boolean }> {
  for (;;) {
    const choice = await choose(lookout, flow, options)
    try {
      return { ...choice, isTaken: await runsElsewhere(options.store, choice.run) }
    } catch (error) {
      // Its time was over, and it has just been forgotten: then it is another one.
      if (!isAxError(error, 'GONE')) throw error
    }
  }
}

/** The run that this call is about: the latest one, unless that is over, or a new one is wanted. */
async function choose(scheduler: AxScheduler, flow: Flow, options: RunOptions): Promise<Choice> {
  const { store, fresh, screen, storeFolder = '' } = options
  const file = storeFolder === '' ? flow.file : relative(storeFolder, flow.file)
  await giveUpOld(scheduler, store)
  const latest = await latestRun(scheduler, flow.name)
  const isOver = latest === undefined || latest.head.status === 'success'
  if (latest !== undefined && !isOver && !fresh && !isGivenUp(latest.head)) {
    refuseOtherFile(latest.run, file, storeFolder)
    return { run: latest.run, isNew: false }
  }
  if (latest !== undefined && !isOver) {
    if (!isGivenUp(latest.head)) {
      screen.print([`Giving up run ${latest.run.number} of ${flow.name}, which is not finished.`])
    }
    await giveUp(scheduler, store, latest.run)
    await released(latest.run, options)
  }
  const run = await newRun(scheduler, flow.name, latest?.run.number ?? 0, file)
  // Another call may have begun it at this very moment.
  refuseOtherFile(run, file, storeFolder)
  return { run, isNew: true }
}

/** Two files of one name are two flows: what one has done is not done for the other. */
function refuseOtherFile(run: RunRef, file: string, storeFolder: string): void {
  if (run.file === undefined || run.file === file) return
  const text =
    `Run ${run.number} of ${run.flow} is not finished, and another file has begun it: ` +
    `${resolve(storeFolder, run.file)}. Give this flow a 'name:' of its own, or give that run ` +
    'up with --fresh.'
  throw new AxError('INVALID_JOB', text, { run: run.number, file: run.file })
}

/** Waits until no process holds a job of the run, and ends what a process that died has left. */
async function released(
  run: RunRef,
  { store, screen, interrupts }: RunOptions,
): Promise<readonly StoredJob[]> {
  const since = Date.now()
  let isTold = false
  for (;;) {
    const jobs = await jobsOf(store, run)
    const held = jobs.filter(({ lease }) => lease !== undefined)
    if (held.length === 0) {
      const ended = await Promise.all(jobs.map((job) => endLeftOver(viewOf(job))))
      const count = ended.filter((isEnded) => isEnded).length
      if (count > 0) screen.print([leftOverNotice(count)])
      return jobs
    }
    if (interrupts.abort.aborted) throw new AxError('CANCELLED', 'Interrupted while waiting.')
    if (!isTold && Date.now() - since > PATIENCE_MS) {
      isTold = true
      screen.print([`Waiting for ${jobCount(held.length)} that another process still holds.`])
    }
    await nap(LOOK_MS / 2)
  }
}

function leftOverNotice(count: number): string {
  const what = count === 1 ? 'a command' : `${count} commands`
  return `Ended ${what} that a process which died had left behind.`
}

function jobCount(count: number): string {
  return count === 1 ? '1 job' : `${count} jobs`
}

interface Carried {
  readonly ok: boolean
  /** Some job has not ended: the run is handed back. */
  readonly isOpen: boolean
  readonly told: RunReport
}

/** Runs what is left of a run that this process owns. */
async function carryOut(
  flow: Flow,
  run: RunRef,
  owned: Ownership,
  options: RunOptions & { readonly runner: Runner; start(execution: Execution): void },
  startedAt: number,
): Promise<Carried> {
  const { store, screen, interrupts, runner } = options
  const { scheduler } = runner
  const { signal } = owned.context
  const resumed = await prepare(flow, run, owned, scheduler, options)
  const scratch = await mkdtemp(join(tmpdir(), 'ax-run-'))
  const leave = () => rmSync(scratch, { recursive: true, force: true })
  process.on('exit', leave)
  const after = await endOfLog(store)
  const view = viewOfRun(flow, run, await jobsOf(store, run), startedAt)
  if (resumed) screen.print([resumingNotice(run, view)])
  const reader = openReader(store)
  const watch = startWatch(reader, store, view, screen, after, scheduler)
  try {
    options.start({ flow, run, view, scratch })
    await untilOver(runner, watch, interrupts, options.drain, signal)
    const interrupted = interrupts.drain.aborted
    const isTaken = signal.aborted && !interrupted
    if (isTaken && runner.running > 0) watch.notice(takenNotice(run, runner.running))
    // The jobs of a run that was taken away are those of another process by now.
    const isCut = isTaken || (interrupted && runner.running > 0)
    if (isCut) await scheduler.close({ drainMs: 0 })
    else await released(run, options)
    await watch.end()
    const takenAway = isTaken ? await whyTaken(store, run) : undefined
    const fixed = isTaken ? 'The run is no longer run here.' : undefined
    const jobs = await reportJobs(reader, store, view, flow, interrupted, fixed)
    const ok = jobs.every(({ state }) => state === 'success')
    const isOpen = jobs.some(({ state }) => !hasEnded(state))
    if (ok) owned.end()
    else if (!isOpen) owned.end(failure(jobs))
    const resumable = options.isDurable && !ok && !isTaken
    const how = { resumed, followed: false, ok, interrupted, resumable }
    const told = { flow: flow.name, run: run.number, ...how, ms: Date.now() - startedAt, jobs }
    return { ok, isOpen, told: takenAway === undefined ? told : { ...told, takenAway } }
  } finally {
    await watch.end()
    await reader.close({ drainMs: 0 })
    process.off('exit', leave)
    leave()
  }
}

/** Has the store say of the run what the flow says. True if some of it was there already. */
async function prepare(
  flow: Flow,
  run: RunRef,
  { context }: Ownership,
  scheduler: AxScheduler,
  options: RunOptions,
): Promise<boolean> {
  const found = await released(run, options)
  const untold = untoldOf(context.job, found)
  const { submit, replaces } = planOf(flow, run, found, untold)
  if (submit.length + replaces.length > 0) await context.submit(submit, { replaces })
  await reviveAll(scheduler, options.store, run, untold, context.signal)
  const names = [...untold].map((id) => nameOf(run, id))
  if (names.length > 0) options.screen.print([untoldNotice(names)])
  const suspects = found.filter((job) => !hasEnded(job.status) && isSuspect(job)).length
  if (suspects > 1) options.screen.print([suspectNotice(suspects)])
  return found.length > 0
}

function suspectNotice(count: number): string {
  const why = 'were running at two crashes, and one of them may be the cause'
  return `${jobCount(count)} ${why}: they run one at a time until they have succeeded.`
}

function viewOfRun(flow: Flow, run: RunRef, jobs: readonly StoredJob[], startedAt: number): View {
  const view = newView({ ...flow, jobs: [] }, run.prefix, startedAt)
  for (const job of jobs) seed(view, job)
  return view
}

function resumingNotice(run: RunRef, { rows, counts }: View): string {
  const done = `${counts.success} of ${rows.size} jobs`
  return `Resuming run ${run.number} of ${run.flow}: ${done} are done.`
}

/** Who has taken the run away from this process: somebody who started over, or time. */
async function whyTaken(store: Store, run: RunRef): Promise<string> {
  const isOver = isGivenUp(viewOf(await headOf(store, run)))
  const why = isOver
    ? 'it was given up by another process, which started over'
    : 'this process was stopped for so long that another one has taken it over'
  return `Run ${run.number} of ${run.flow} is no longer run here: ${why}.`
}

function takenNotice(run: RunRef, running: number): string {
  return `Run ${run.number} of ${run.flow} was taken away: aborting ${jobCount(running)}.`
}

function failure(reports: readonly JobReport[]): AxError {
  const missing = reports.filter(({ state }) => state !== 'success').length
  const text = `${missing} of ${jobCount(reports.length)} did not succeed.`
  return new AxError('RUN_FAILED', text, { retryable: false })
}

/** Shows a run that another process runs, until that process is done with it. */
async function follow(
  flow: Flow,
  run: RunRef,
  options: RunOptions,
  startedAt: number,
): Promise<RunReport | undefined> {
  const { store, screen, interrupts } = options
  const scheduler = await openLookout(store)
  const after = await endOfLog(store)
  const view = viewOfRun(flow, run, await jobsOf(store, run), startedAt)
  screen.print([followingNotice(run)])
  const watch = startWatch(scheduler, store, view, screen, after)
  try {
    const leave = aborted(interrupts.drain)
    let head = await headOf(store, run)
    while (head.status === 'running' && !interrupts.drain.aborted) {
      await Promise.race([nap(LOOK_MS), leave])
      head = await headOf(store, run)
    }
    await watch.end()
    const isDetached = head.status === 'running'
    if (!isDetached && !hasEnded(head.status) && head.log.at(-1)?.outcome === 'lost') {
      return undefined
    }
    const interrupted = isDetached || !hasEnded(head.status)
    const jobs = await reportJobs(scheduler, store, view, flow, interrupted)
    const ok = head.status === 'success'
    const resumable = !ok && !isDetached && head.status !== 'cancelled'
    const told = { ok, interrupted, resumable, ms: Date.now() - startedAt, jobs }
    return { flow: flow.name, run: run.number, resumed: false, followed: true, ...told }
  } finally {
    await watch.end()
    await scheduler.close({ drainMs: 0 })
  }
}

function followingNotice(run: RunRef): string {
  return `Run ${run.number} of ${run.flow} is running in another process: this one only follows it.`
}

/** Every job of the run: those of the file in its order, then what they have submitted. */
async function reportJobs(
  scheduler: AxScheduler,
  store: Store,
  view: View,
  flow: Flow,
  isInterrupted: boolean,
  fixed?: string,
): Promise<JobReport[]> {
  const reports: JobReport[] = []
  for (const job of await jobsOf(store, { id: view.prefix.slice(0, -1) })) {
    const reason = hasEnded(job.status) ? undefined : await whyOpen(job.id)
    reports.push(reportJob(viewOf(job), view, reason))
  }
  const places = new Map(flow.jobs.map(({ name }, place) => [name, place]))
  const placeOf = ({ name }: JobReport) => places.get(name) ?? places.size
  return reports.sort((a, b) => placeOf(a) - placeOf(b))

  async function whyOpen(id: string): Promise<string> {
    if (fixed !== undefined) return fixed
    const { text, isLasting } = await whyHeld(scheduler, store, view, id)
    if (!isInterrupted) return text
    return isLasting ? `The run was interrupted. It ${text}` : 'The run was interrupted.'
  }
}
