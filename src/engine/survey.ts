// Owns what is known of a job that somebody waits for: which jobs have to end before it can.
// May never write, or read more than a bounded part of a graph.

import { hasEnded, type StoredJob } from '../core/job.ts'
import { type PoolRules, poolRules, type StoredSettings } from '../core/settings.ts'
import { LIMITS } from '../store/limits.ts'
import type { Store } from '../store/store.ts'

/** What matters of a job here; a copy, since what a store in this process hands out changes. */
export type Surveyed = Pick<
  StoredJob,
  'id' | 'rev' | 'status' | 'type' | 'pool' | 'priority' | 'exclusive' | 'deps' | 'needs' | 'open'
>

export interface Survey {
  /** The job itself, and all that have to end before it can start; none has ended yet. */
  readonly before: readonly Surveyed[]
  /** Of these jobs, so many have to be stuck before one of those can never start. */
  readonly choices: readonly { readonly ids: readonly string[]; readonly enough: number }[]
  readonly settings: StoredSettings
}

/** Jobs looked at behind one that is waited for. */
const MOST = 1_000

/** How it stands with a job now; null if it has ended. O(dependencies that have not ended). */
export async function surveyOf(store: Store, id: string): Promise<Survey | null> {
  const settings = await store.settings()
  const before: Surveyed[] = []
  const choices: { readonly ids: readonly string[]; readonly enough: number }[] = []
  const seen = new Set<string>()
  for (let ids: readonly string[] = [id]; ids.length > 0 && seen.size < MOST; ) {
    for (const each of ids) seen.add(each)
    const found = await liveOf(store, ids)
    before.push(...found)
    const next = new Set<string>()
    for (const job of found) {
      if (job.status !== 'waiting') continue
      const deps = job.deps.map((dep) => dep.id)
      const spare = job.open - job.needs
      if (spare > 0) choices.push({ ids: deps, enough: spare + 1 })
      else for (const dep of deps) if (!seen.has(dep)) next.add(dep)
    }
    ids = [...next]
  }
  return before[0]?.id === id ? { before, choices, settings } : null
}

/** Two surveys with the same one say the same. */
export function fingerprint({ before, settings }: Survey): string {
  const jobs = before.map(({ id, rev, status }) => [id, rev, status])
  const rules = [...new Set(before.map(({ pool }) => pool))].map((pool) => rulesOf(settings, pool))
  return JSON.stringify([jobs, rules, settings.ageing])
}

export function rulesOf({ pools }: StoredSettings, name: string): PoolRules {
  const { start = {}, operator = {} } = pools[name] ?? {}
  return poolRules(start, operator)
}

async function liveOf(store: Store, ids: readonly string[]): Promise<Surveyed[]> {
  const live: Surveyed[] = []
  for (let at = 0; at < ids.length; at += LIMITS.page) {
    for (const job of await store.get(ids.slice(at, at + LIMITS.page))) {
      if (job !== null && !hasEnded(job.status)) live.push(copyOf(job))
    }
  }
  return live
}

function copyOf(job: StoredJob): Surveyed {
  const { id, rev, status, type, pool, priority, exclusive, deps, needs, open } = job
  return { id, rev, status, type, pool, priority, exclusive, deps, needs, open }
}
