// Owns the warning that names what keeps a store from becoming quiet: jobs that cannot start.
// May never name the same thing twice while it lasts, or be waited for.

import type { Counted } from '../store/store.ts'
import type { Hub } from './hub.ts'

/** Types looked at for a warning: more than anybody reads. */
const MOST_TYPES = 20

/** One thing that holds jobs up: how it is called, for programs and for people. */
interface Obstacle {
  readonly fields: { readonly pool: string } | { readonly type: string }
  readonly text: string
}

export class HeldUp {
  readonly #hub: Hub
  /** What has been named, and is there still: once it has gone, it is news again. */
  #named: ReadonlySet<string> = new Set()

  constructor(hub: Hub) {
    this.#hub = hub
  }

  /** Names what is there and was not at the last look; `who` is waiting. */
  async warn(who: string): Promise<void> {
    const { store, settings } = this.#hub
    const counted = await store.count()
    const found = [...inPools(counted), ...(await this.#ofTypes(counted))]
    const keyed = found.map((each) => [JSON.stringify(each.fields), each] as const)
    for (const [key, { fields, text }] of keyed) {
      if (!this.#named.has(key)) settings.logger.warn(fields, `${who} waits for ${text}`)
    }
    this.#named = new Set(keyed.map(([key]) => key))
  }

  async #ofTypes({ types }: Counted): Promise<Obstacle[]> {
    const { store } = this.#hub
    const ready = Object.entries(types).filter(([, counts]) => counts.ready > 0)
    if (ready.length === 0) return []
    const [{ types: set }, workers] = await Promise.all([store.settings(), store.workers()])
    const able = new Set(workers.flatMap(({ types, full }) => (full ? [] : types)))
    const obstacles: Obstacle[] = []
    for (const [type, { ready: count }] of ready.slice(0, MOST_TYPES)) {
      const cap = Object.hasOwn(set, type) ? set[type]?.concurrency : null
      if (cap !== 0 && able.has(type)) continue
      const why = cap === 0 ? `${CLOSED} ${closedType(type)}` : await this.#whyUnserved(type)
      if (why === undefined) continue
      obstacles.push({ fields: { type }, text: `${jobs(count)} of the type '${type}', ${why}` })
    }
    return obstacles
  }

  /** Undefined where somebody can take them. Costly among many jobs: only for types in trouble. */
  async #whyUnserved(type: string): Promise<string | undefined> {
    const { store } = this.#hub
    const page = await store.list({ statuses: ['ready'], type, after: 0, limit: 1 })
    const [job] = page.jobs
    if (job === undefined) return undefined
    const { served, full } = await store.standing(job.id)
    if (served && !full) return undefined
    const why = served
      ? 'whose workers all have as many zombies as they may. Restart them.'
      : 'that has no handler anywhere. Define it, or cancel them.'
    return `such as ${job.id}, ${why}`
  }
}

const CLOSED = 'which has a concurrency of 0.'

function closedType(type: string): string {
  return `Give it another, in types or in define('${type}', ...).`
}

function inPools({ pools }: Counted): Obstacle[] {
  return Object.entries(pools).flatMap(([pool, { paused, concurrency, ready }]) => {
    if (ready === 0 || (!paused && concurrency > 0)) return []
    const text = paused
      ? `${jobs(ready)} in the paused pool '${pool}'. Resume it with pool('${pool}').resume().`
      : `${jobs(ready)} in the pool '${pool}', ${CLOSED} Raise it with ` +
        `pool('${pool}').configure({ concurrency: 10 }).`
    return [{ fields: { pool }, text }]
  })
}

function jobs(count: number): string {
  return `${count} ready job${count === 1 ? '' : 's'}`
}
