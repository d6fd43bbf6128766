// Owns why a job does not run, in the words of `ax run`, and telling it where no picture shows it.
// May never change anything about the run.

import type { AxScheduler, Store } from '../index.ts'
import type { Screen } from './progress.ts'
import { byName, nameOf, reasonOf, type View } from './view.ts'

export interface Held {
  readonly text: string
  /** When it goes on by itself, if the clock decides that. */
  readonly until: number | undefined
  /** Waits for other jobs of the flow, which have reasons of their own. */
  readonly isBehind: boolean
  /** What keeps it from running does so also when its run goes on. */
  readonly isLasting: boolean
  /** Waits for another run, whatever this one does. */
  readonly isForeign: boolean
}

/** After so long without a transition the people who watch are told why. */
const PATIENCE_MS = 3_000

/** How many jobs are looked at for that, and how many told of at a time. */
const LOOKED_AT = 20
const MAX_TOLD = 3

const LASTING = ['lane', 'unknown-dependency', 'paused', 'breaker', 'suspect']

export async function whyHeld(
  scheduler: AxScheduler,
  store: Store,
  view: View,
  id: string,
): Promise<Held> {
  const { reason, text, until } = await scheduler.explain(id)
  const foreign = reason === 'lane' ? await foreignLane(store, view, id) : undefined
  return {
    text: foreign ?? reasonOf(view, text),
    until,
    isLasting: LASTING.includes(reason),
    isBehind: reason === 'dependency',
    isForeign: foreign !== undefined,
  }
}

/** Undefined if a job of this run has the lane, or one that no `ax run` runs. */
async function foreignLane(store: Store, view: View, id: string): Promise<string | undefined> {
  const { laneHolder } = await store.standing(id)
  if (laneHolder === undefined || laneHolder.startsWith(view.prefix)) return undefined
  const [job, holder] = await store.get([id, laneHolder])
  const [head] = await store.get([holder?.flow ?? ''])
  if (!job || !holder || !head) return undefined
  const lane = `waits for its lane ${JSON.stringify(job.exclusive)}, which ${holder.id} keeps`
  if (head.status === 'running') return `${lane}; that run is running.`
  const remedy = 'finish it with the command that began it, or give it up with that and --fresh'
  return `${lane}, and no process runs run ${head.id}: ${remedy}.`
}

/** Says, once each, why jobs wait while nothing happens. Returns the function that stops that. */
export function tellHeld(
  scheduler: AxScheduler,
  store: Store,
  view: View,
  screen: Screen,
  heldUp: () => readonly string[],
): () => void {
  const told = new Set<string>()
  let before = ''
  const look = async (): Promise<void> => {
    const now = [...view.rows.values()].map(({ status, since }) => `${status}${since}`).join()
    const isQuiet = now === before && view.notice === ''
    before = now
    if (!isQuiet) return
    const ids = heldUp().slice(0, LOOKED_AT)
    const held = await Promise.all(ids.map((id) => whyHeld(scheduler, store, view, id)))
    const lines = held.flatMap(({ text, until, isBehind, isForeign }, index) => {
      const isTold = isForeign || (view.running.size === 0 && !isBehind && until === undefined)
      return isTold ? [`${nameOf(view, ids[index] as string)} ${byName(view, text)}`] : []
    })
    for (const line of lines.filter((each) => !told.has(each)).slice(0, MAX_TOLD)) {
      told.add(line)
      screen.print([line])
    }
  }
  // An explanation that cannot be had is left out.
  const timer = setInterval(() => void look().catch(() => {}), PATIENCE_MS)
  timer.unref()
  return () => clearInterval(timer)
}
