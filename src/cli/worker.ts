// Owns one call of `ax worker`: handlers of a module that run the jobs of a store until somebody
// stops them. May never hold a rule about jobs: what runs when, and again, is the scheduler's.

import { Console } from 'node:console'
import { showMs } from '../core/duration.ts'
import type { JobEvent } from '../core/job.ts'
import { AxScheduler, type Store } from '../index.ts'
import { aborted } from './execute.ts'
import { EXIT, type ExitCode } from './exit.ts'
import { type Bodies, type Handlers, loadHandlers } from './handlers.ts'
import { type Interrupts, listenForInterrupts } from './interrupts.ts'
import { openStore } from './store.ts'
import { openTeller, type Teller } from './tell.ts'

export interface WorkerOptions {
  /** How many jobs this process runs at once. */
  readonly concurrency?: number
  /** Milliseconds. */
  readonly drain: number
  readonly json?: boolean
  readonly name?: string
  readonly store?: string
}

/** Any time: it only keeps the process alive, which has nothing to do while no job is there. */
const ALIVE_MS = 60_000

const TOLD = [
  'job:running',
  'job:success',
  'job:failed',
  'job:retry',
  'job:timeout',
  'job:lost',
  'job:returned',
  'job:preempted',
  'job:cancelled',
] as const

export async function workerCommand(file: string, options: WorkerOptions): Promise<ExitCode> {
  // What handlers print must not get among the lines of this process.
  globalThis.console = new Console(process.stderr, process.stderr)
  // Nobody reads any more: the jobs go on.
  process.stdout.on('error', () => {})
  const handlers = await loadHandlers(file)
  const { store } = await openStore(options.store)
  const interrupts = listenForInterrupts()
  try {
    return await serve(store, handlers, options, interrupts)
  } finally {
    interrupts.end()
    await store.close()
  }
}

async function serve(
  store: Store,
  handlers: Handlers,
  options: WorkerOptions,
  interrupts: Interrupts,
): Promise<ExitCode> {
  const { concurrency, name = 'ax worker', json = false } = options
  const teller = openTeller(json)
  const scheduler = new AxScheduler({
    ...{ store, name, autoStart: false, logger: teller.logger },
    ...(concurrency === undefined ? {} : { maxRunning: concurrency }),
  })
  const bodies: Bodies = new Set()
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const told = follow(scheduler, teller, begun)
  const alive = setInterval(() => {}, ALIVE_MS)
  try {
    const types = await handlers.define(scheduler, bodies)
    await scheduler.start()
    teller.say({ event: 'worker:started', name, pid: process.pid, types }, startedText(types))
    begin()
    await aborted(interrupts.drain)
    const returned = await stop(scheduler, bodies, options.drain, interrupts, teller)
    await told()
    teller.say({ event: 'worker:stopped', returned }, stoppedText(returned))
    return returned === 0 ? EXIT.success : EXIT.interrupted
  } finally {
    await scheduler.close({ drainMs: 0 })
    clearInterval(alive)
  }
}

/**
 * Tells what begins and ends here, and which jobs of dead workers this one takes back, in order:
 * nothing before `begun`. What it answers settles once all is told that has happened.
 */
function follow(scheduler: AxScheduler, teller: Teller, begun: Promise<void>): () => Promise<void> {
  let told = begun
  const tell = async (event: JobEvent): Promise<void> => {
    const hasError = event.code !== undefined && event.cause === undefined
    const job = hasError ? await scheduler.job(event.job).catch(() => null) : null
    teller.transition(event, job?.error?.message)
  }
  for (const name of TOLD) {
    scheduler.on(name, (event) => {
      const isOfRunning = event.to === 'running' || event.from === 'running'
      // One that is emitted under two names, its own and that of its new state, is one line.
      if (isOfRunning && event.event === name) told = told.then(() => tell(event))
    })
  }
  return () => told
}

/**
 * The first signal lets running jobs end, for as long as they may; the next one aborts them.
 * Resolves with how many were handed back.
 */
async function stop(
  scheduler: AxScheduler,
  bodies: Bodies,
  drainMs: number,
  { abort }: Interrupts,
  teller: Teller,
): Promise<number> {
  const begun = new Set([...bodies].map(({ job }) => job.id))
  let returned = 0
  scheduler.on('job:returned', ({ job }) => {
    // What was granted and has not begun goes back too, and nobody has to know.
    if (begun.has(job)) returned += 1
  })
  const { size } = bodies
  teller.say({ event: 'worker:stopping', running: size }, stoppingText(size, drainMs))
  const closed = scheduler.close({ drainMs })
  void aborted(abort).then(() => scheduler.close({ drainMs: 0 }))
  await closed
  return returned
}

function startedText(types: readonly string[]): string {
  return `Serving ${types.join(', ')}. Ctrl-C stops.`
}

function stoppingText(running: number, drainMs: number): string {
  if (running === 0) return 'Stopping.'
  const jobs = running === 1 ? '1 running job has' : `${running} running jobs have`
  return `Stopping: ${jobs} up to ${showMs(drainMs)} to end. Ctrl-C again hands back at once.`
}

function stoppedText(returned: number): string {
  if (returned === 0) return 'Stopped.'
  return `Stopped. ${returned === 1 ? '1 job was' : `${returned} jobs were`} handed back.`
}
