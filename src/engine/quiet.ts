// Owns the question whether anything can still happen by itself: `idle()`.
// May never trust a single look: it looks again after every change until the store is quiet.

import type { Timer } from '../kit/runtime.ts'
import type { Counted } from '../store/store.ts'
import { HeldUp } from './held-up.ts'
import { closedError, type Hub } from './hub.ts'

/** After so long, jobs that cannot start are named in a warning; then ever less often. */
const PATIENCE_MS = 5_000
const MOST_PATIENCE_MS = 60_000

interface Waiter {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

export class Quiet {
  readonly #hub: Hub
  /** Whether this process has, or takes, anything to run: then nobody needs to ask the store. */
  readonly #isBusy: () => boolean
  readonly #waiting: Waiter[] = []
  #looking = false
  #changed = false
  #wake: (() => void) | undefined
  #closed = false
  #patience: Timer | undefined
  /** Whether anything has become ready since listeners were last told of quiet. */
  #stirred = false

  constructor(hub: Hub, isBusy: () => boolean) {
    this.#hub = hub
    this.#isBusy = isBusy
    hub.onHint((hint) => {
      this.#stirred ||= hint.ready
      this.changed()
    })
  }

  /**
   * Resolves when nothing in the store is pending, ready, running, held, doomed or unfinished.
   * Rejects with CLOSED if this process closes before.
   */
  idle(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
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
    if (this.#isWatched) this.#start()
  }

  #start(): void {
    if (this.#looking) return
    this.#looking = true
    void this.#look()
  }

  async #look(): Promise<void> {
    this.#warnIn(PATIENCE_MS, new HeldUp(this.#hub))
    while (!this.#closed && (this.#waiting.length > 0 || this.#isWatched)) {
      const asked = this.#waiting.length
      this.#changed = false
      // A turn first: what those who ask have just submitted is on its way to the store.
      await new Promise<void>((resolve) => this.#hub.runtime.soon(resolve))
      const stirred = this.#stirred
      this.#stirred = false
      if (this.#isBusy() || !(await this.#isQuiet())) {
        this.#stirred ||= stirred
        await this.#nextChange()
      } else this.#tell(asked, stirred)
    }
    this.#patience?.cancel()
    this.#looking = false
    if (this.#closed) await this.#tellClosed()
  }

  /** Those who still wait are told the truth: that it is quiet, or that nobody will say. */
  async #tellClosed(): Promise<void> {
    const waiting = this.#waiting.splice(0)
    const quiet = waiting.length > 0 && (await this.#isQuiet())
    for (const { resolve, reject } of waiting) {
      if (quiet) resolve()
      else reject(closedError(this.#hub.settings.name))
    }
  }

  /** Whether listeners are to be told as soon as it is quiet. */
  get #isWatched(): boolean {
    return this.#stirred && this.#hub.emitter.has('idle')
  }

  #tell(asked: number, stirred: boolean): void {
    if (stirred && !this.#closed) {
      this.#hub.emitter.emit('idle', { at: this.#hub.runtime.now() })
    }
    for (const { resolve } of this.#waiting.splice(0, asked)) resolve()
  }

  async #isQuiet(): Promise<boolean> {
    const ask = () => this.#hub.store.count()
    try {
      return isQuiet(await this.#hub.patiently(ask, () => this.#closed))
    } catch (error) {
      if (!this.#closed) this.#hub.settings.logger.error({ error }, `idle(): ${String(error)}`)
      return false
    }
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

  /** Says what holds everything up, and looks again: it may come, and go, while they wait. */
  #warnIn(ms: number, heldUp: HeldUp): void {
    const warn = () => {
      const who = this.#waiting.length > 0 ? 'idle()' : "The event 'idle'"
      heldUp.warn(who).catch(() => {})
      this.#warnIn(Math.min(ms * 2, MOST_PATIENCE_MS), heldUp)
    }
    this.#patience = this.#hub.runtime.after(ms, warn, { ref: false })
  }
}

/** Jobs that wait for ids nobody has submitted do not count: nothing here can change them. */
function isQuiet(counted: Counted): boolean {
  if (counted.held.length > 0 || counted.doomed > 0 || counted.fanOuts > 0) return false
  return Object.values(counted.pools).every(
    ({ states }) => states.pending === 0 && states.ready === 0 && states.running === 0,
  )
}
