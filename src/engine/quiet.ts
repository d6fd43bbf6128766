// Owns the question whether anything can still happen by itself: `idle()`.
// May never trust a single look: it looks again after every change until the store is quiet.

import type { Counted } from '../store/store.ts'
import type { Hub } from './hub.ts'

/** After so long, jobs that cannot start are named in a warning. */
const PATIENCE_MS = 5_000

export class Quiet {
  readonly #hub: Hub
  /** Whether this process runs anything: then nobody needs to ask the store. */
  readonly #isBusy: () => boolean
  readonly #waiting: (() => void)[] = []
  #looking = false
  #changed = false
  #wake: (() => void) | undefined
  #closed = false

  constructor(hub: Hub, isBusy: () => boolean) {
    this.#hub = hub
    this.#isBusy = isBusy
    hub.onHint(() => this.changed())
  }

  /** Resolves when nothing in the store is pending, ready, running, held, doomed or unfinished. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#start()
    })
  }

  /** Somebody wants to hear of it whenever the store becomes quiet. */
  watch(): void {
    this.#start()
  }

  close(): void {
    this.#closed = true
    this.#wake?.()
  }

  /** The store has hinted at something, or this process holds nothing any more. */
  changed(): void {
    this.#changed = true
    this.#wake?.()
    if (this.#hub.emitter.has('idle')) this.#start()
  }

  #start(): void {
    if (this.#looking) return
    this.#looking = true
    void this.#look()
  }

  async #look(): Promise<void> {
    const patience = this.#hub.runtime.after(PATIENCE_MS, () => this.#warn().catch(() => {}), {
      ref: false,
    })
    try {
      for (;;) {
        this.#changed = false
        // A turn first: what the caller has just asked for is on its way to the store.
        await new Promise<void>((resolve) => this.#hub.runtime.soon(resolve))
        if (this.#closed || (!this.#isBusy() && isQuiet(await this.#count()))) break
        await this.#nextChange()
      }
    } catch (error) {
      this.#hub.settings.logger.error({ error }, `looking for quiet failed: ${String(error)}`)
    }
    patience.cancel()
    this.#looking = false
    if (!this.#closed) this.#hub.emitter.emit('idle', { at: this.#hub.runtime.now() })
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #count(): Promise<Counted> {
    return this.#hub.patiently(
      () => this.#hub.store.count(),
      () => this.#closed,
    )
  }

  async #nextChange(): Promise<void> {
    if (this.#changed || this.#closed) return
    await new Promise<void>((resolve) => {
      const poll = this.#hub.runtime.after(this.#hub.pollMs(), resolve)
      this.#wake = () => {
        poll.cancel()
        resolve()
      }
    })
    this.#wake = undefined
  }

  /** Jobs that hold everything up and cannot start: in a paused pool, or nobody serves them. */
  async #warn(): Promise<void> {
    const { store, settings } = this.#hub
    const { pools } = await store.count()
    for (const [name, pool] of Object.entries(pools)) {
      if (!pool.paused || pool.ready === 0) continue
      const text = `idle() waits for ${pool.ready} ready jobs in the paused pool '${name}'. `
      settings.logger.warn({ pool: name }, `${text}Resume it with pool('${name}').resume().`)
    }
    const { jobs } = await store.list({ statuses: ['ready'], after: 0, limit: 1 })
    for (const job of jobs) {
      if ((await store.standing(job.id)).served) continue
      const text = `idle() waits for job ${job.id}, whose type '${job.type}' has no handler anywhere. `
      settings.logger.warn({ jobId: job.id }, `${text}Define it, or cancel the job.`)
    }
  }
}

/** Jobs that wait for ids nobody has submitted do not count: nothing here can change them. */
function isQuiet(counted: Counted): boolean {
  if (counted.held.length > 0 || counted.doomed > 0 || counted.fanOuts > 0) return false
  return Object.values(counted.pools).every(
    ({ states }) => states.pending === 0 && states.ready === 0 && states.running === 0,
  )
}
