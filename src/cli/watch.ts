// Owns watching a run: the store's log becomes a view, a view becomes pictures and lines.
// May never change anything about the run.

import { showMs } from '../core/duration.ts'
import { hasEnded, type JobEvent } from '../core/job.ts'
import type { AxScheduler, Store } from '../index.ts'
import { tellHeld, whyHeld } from './held.ts'
import type { Screen } from './progress.ts'
import { eventLine, isTold, liveLines, type Waiting } from './render.ts'
import { fold, foldProgress, type Row, type View } from './view.ts'

export interface Watch {
  /** Tells the people who watch: a line in the log, or below the picture. */
  notice(text: string): void
  /** Resolves when nothing of the run can happen any more. */
  over(): Promise<void>
  /** Resolves when everything that happened is on the screen. Idempotent. */
  end(): Promise<void>
}

/** How many waiting jobs are explained, and how often: enough to see what holds a run up. */
const EXPLAINED = 3
const EXPLAIN_MS = 500

/** Where the log ends now. Whoever reads the jobs after that misses nothing. */
export async function endOfLog(store: Store): Promise<number> {
  return (await store.events(Number.MAX_SAFE_INTEGER, 1)).last
}

/**
 * Watches from an entry of the log on; the view shows how the jobs were then, or later. `runner`
 * runs the jobs, if this process does: what their bodies say about themselves is in no log.
 */
export function startWatch(
  scheduler: AxScheduler,
  store: Store,
  view: View,
  screen: Screen,
  after: number,
  runner: AxScheduler = scheduler,
): Watch {
  const { tell, told } = lineTeller(scheduler, view, screen)
  const stop = new AbortController()
  let seen = after
  let hasChanged = false
  let wake = () => {}
  const take = (event: JobEvent): void => {
    seen = event.seq
    if (!event.job.startsWith(view.prefix)) return
    const row = fold(view, event)
    if (!screen.isLive && isTold(event)) tell(row, event)
    hasChanged = true
    wake()
  }
  const reading = (async () => {
    const log = scheduler.events({ after, follow: true, signal: stop.signal })
    for await (const event of log) take(event)
  })().catch(() => {})
  const off = runner.on('job:progress', ({ job, value }) => foldProgress(view, job, value))
  const heldUp = () => [...view.rows].filter(([, row]) => isHeldUp(row)).map(([id]) => id)
  const stopPicture = screen.isLive
    ? startPicture(scheduler, store, view, screen, heldUp)
    : tellHeld(scheduler, store, view, screen, heldUp)
  let ended: Promise<void> | undefined

  const end = async (): Promise<void> => {
    off()
    stop.abort()
    await reading
    for await (const event of scheduler.events({ after: seen })) take(event)
    await told()
    stopPicture()
  }
  return {
    notice(text) {
      view.notice = text
      if (!screen.isLive) screen.print([text])
    },
    async over() {
      for (;;) {
        hasChanged = false
        if (await isOver(scheduler, view)) return
        if (hasChanged) continue
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, EXPLAIN_MS)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
    },
    end() {
      ended ??= end()
      return ended
    },
  }
}

/** Whether all jobs have ended, but for those that wait for what nobody has submitted. */
async function isOver(scheduler: AxScheduler, view: View): Promise<boolean> {
  const { pending, ready, running, waiting } = view.counts
  if (pending + ready + running > 0) return false
  if (waiting === 0) return true
  for (const [id, row] of view.rows) {
    if (row.status !== 'waiting') continue
    const { reason, blockedBy = [] } = await scheduler.explain(id)
    const waits = blockedBy.every(({ id: dep, status }) => {
      return status === 'unknown' || (status === 'waiting' && view.rows.has(dep))
    })
    const isStuck = reason === 'unknown-dependency' || reason === 'dependency'
    if (!isStuck || !waits) return false
  }
  return true
}

/** Writes transitions in their order, each with the error that led to it. */
function lineTeller(scheduler: AxScheduler, view: View, screen: Screen) {
  let queue: Promise<void> = Promise.resolve()
  const write = async (row: Row, event: JobEvent): Promise<void> => {
    const hasError = event.code !== undefined && event.cause === undefined
    const job = hasError ? await scheduler.job(event.job) : null
    screen.print([eventLine(view, row, event, job?.error?.message)])
  }
  return {
    tell(row: Row, event: JobEvent) {
      // A line that cannot be written is no reason to stop the run.
      queue = queue.then(() => write(row, event)).catch(() => {})
    },
    told: () => queue,
  }
}

function startPicture(
  scheduler: AxScheduler,
  store: Store,
  view: View,
  screen: Screen,
  heldUp: () => readonly string[],
): () => void {
  let waiting: readonly Waiting[] = []
  const explain = async (): Promise<void> => {
    const ids = heldUp().slice(0, EXPLAINED)
    const told = ids.map(async (id) => ({ id, ...(await whyHeld(scheduler, store, view, id)) }))
    waiting = await Promise.all(told)
  }
  // An explanation that cannot be had is left out.
  const refresh = () => void explain().catch(() => {})
  const timer = setInterval(refresh, EXPLAIN_MS)
  timer.unref()
  setImmediate(refresh)
  // Once there is a notice the run is stopping: that explains them all.
  const current = () => (view.notice ? [] : waiting.filter(({ id }) => isHeldUp(view.rows.get(id))))
  screen.show(() => liveLines(view, current(), Date.now(), screen.look()))
  return () => {
    clearInterval(timer)
    screen.end()
  }
}

function isHeldUp(row: Row | undefined): boolean {
  return row !== undefined && row.status !== 'running' && !hasEnded(row.status)
}

/** What is said when a run is told to stop. */
export function stoppingNotice(running: number, drainMs: number): string {
  const jobs = running === 1 ? '1 running job has' : `${running} running jobs have`
  return `Stopping: ${jobs} up to ${showMs(drainMs)} to end. Ctrl-C again aborts.`
}

export function abortingNotice(running: number): string {
  const jobs = running === 1 ? '1 running job' : `${running} running jobs`
  return `Aborting ${jobs}. Ctrl-C again leaves at once.`
}
