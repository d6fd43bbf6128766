// Owns reading a stretch of the log for advice, page by page.
// May never read all of it: the latest entries say what is going on.

import { type AdviceSettings, adviseOn } from '../core/advise.ts'
import { Digester } from '../core/digest.ts'
import type { StoredJob, Terms } from '../core/job.ts'
import type { Advice } from '../core/types.ts'
import { Breath } from '../kit/breath.ts'
import { LIMITS } from '../store/limits.ts'
import type { Store } from '../store/store.ts'
import type { Hub } from './hub.ts'

/** Entries that are read: a busy store's last minutes, a quiet one's last days. */
const STRETCH = 100_000

/** Types whose jobs are asked for their timeout, as none is stored, and jobs of each. */
const MAX_LOOKS = 100
const SAMPLE = 100

/** What the latest entries of the log show. */
export async function advise(hub: Hub): Promise<Advice[]> {
  const digest = await read(hub)
  const timeouts = await timeoutsOf(hub.store, Object.keys(digest.types))
  const { pools } = await hub.store.count()
  const caps = Object.entries(pools).map(([name, { concurrency }]) => [name, concurrency])
  const settings: AdviceSettings = { timeouts, concurrency: Object.fromEntries(caps) }
  return adviseOn(digest, settings)
}

/** Up to the entry that was the last when it began: a busy log has no end. */
async function read({ store, runtime }: Hub) {
  const breath = new Breath(runtime)
  const digester = new Digester()
  const { last, oldest } = await store.events(0, 1)
  for (let after = Math.max(oldest - 1, last - STRETCH); after < last; ) {
    const { events } = await store.events(after, Math.min(LIMITS.events, last - after))
    const end = events.at(-1)
    if (end === undefined) break
    for (const event of events) digester.add(event)
    after = end.seq
    await breath.take()
  }
  return digester.digest()
}

/** What is stored about types; where that is none, what their jobs bring. */
async function timeoutsOf(store: Store, types: readonly string[]) {
  const settings = await store.settings()
  const known = types.map((type) => {
    return [type, timeLimitOf(Object.hasOwn(settings.types, type) && settings.types[type])] as const
  })
  const looks = known.filter(([, limit]) => limit === 0).slice(0, MAX_LOOKS)
  const found = looks.map(async ([type]) => {
    const { jobs } = await store.list({ type, after: 0, limit: SAMPLE })
    return [type, commonOf(jobs)] as const
  })
  return Object.fromEntries([...known, ...(await Promise.all(found))])
}

/** Null: there is none, but its heartbeat stops a body that hangs. */
function timeLimitOf(has: false | undefined | { readonly terms: Terms }): number | null {
  if (!has) return 0
  const { timeoutMs, heartbeatMs } = has.terms
  return timeoutMs === 0 && heartbeatMs > 0 ? null : timeoutMs
}

/** The timeout that all of these jobs have; 0 if one may hang for ever, null if they differ. */
function commonOf(jobs: readonly StoredJob[]): number | null {
  const limits = new Set(jobs.map(timeLimitOf))
  if (limits.size === 0 || limits.has(0)) return 0
  const [first] = limits
  return limits.size === 1 && first !== undefined ? first : null
}
