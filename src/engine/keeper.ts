// Owns time that passes: lost leases, waits that are over, doomed branches, retention, schedules.
// May never run user code, and never decides: it asks `decide` about every job it is handed.

import type { Move } from '../core/job.ts'
import { decide } from '../core/machine.ts'
import { Breath } from '../kit/breath.ts'
import type { Timer } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import type { Hub } from './hub.ts'
import type { Pulse } from './pulse.ts'
import type { Fired, Schedules } from './schedules.ts'

/** A schedule whose job is refused is tried again after so long. */
const STUCK_MS = 1_000

/** Nothing was due. */
const NONE: Fired = { moved: false, stuck: false }

export class Keeper {
  readonly #hub: Hub
  readonly #pulse: Pulse
  readonly #schedules: Schedules
  readonly #breath: Breath
  #live = false
  #sweeping = false
  #again = false
  /** Somebody waits for what comes next; nobody stays awake for the quiet one. */
  #timer: Timer | undefined
  #quiet: Timer | undefined

  constructor(hub: Hub, pulse: Pulse, schedules: Schedules) {
    this.#hub = hub
    this.#pulse = pulse
    this.#schedules = schedules
    this.#breath = new Breath(hub.runtime)
  }

  start(): void {
    this.#live = true
    this.wake()
  }

  stop(): void {
    this.#live = false
    this.#timer?.cancel()
    this.#quiet?.cancel()
  }

  /** Looks for overdue jobs, now or, if it is looking, once more. */
  wake(): void {
    if (!this.#live) return
    if (this.#sweeping) this.#again = true
    else void this.#sweep()
  }

  async #sweep(): Promise<void> {
    this.#sweeping = true
    try {
      do {
        this.#again = false
        await this.#turn()
      } while (this.#again && this.#live)
      this.#hub.outage.answered('housekeeping')
    } catch (error) {
      this.#hub.outage.failed('housekeeping', error)
      this.#arm(this.#hub.pollMs(), Number.POSITIVE_INFINITY)
    } finally {
      this.#sweeping = false
    }
  }

  /** One generation: what a commit dooms is found by the next turn. */
  async #turn(): Promise<void> {
    const { store, settings } = this.#hub
    // After a stall everything looks overdue: what this process holds gets one beat first.
    if (this.#pulse.isLate) await this.#pulse.beat()
    const ask = { limit: LIMITS.moves, keepLogMs: settings.keep.logMs }
    const answer = this.#hub.heard(await store.overdue(ask, this.#hub.tell))
    const moves: Promise<unknown>[] = []
    for (const job of answer.jobs) {
      const move: Move | null = decide(job, { type: 'overdue' }, settings.keep)
      if (move !== null) moves.push(this.#hub.move(move))
    }
    await Promise.all(moves)
    const { schedules } = answer
    const { moved, stuck } = schedules.length === 0 ? NONE : await this.#schedules.fire(schedules)
    if (answer.more || moved || moves.length > 0) {
      this.#again = true
      await this.#breath.take()
    } else {
      const now = await store.time()
      const ms = answer.nextAt - now
      this.#arm(stuck ? Math.min(ms, STUCK_MS) : ms, answer.nextQuietAt - now)
    }
  }

  #arm(ms: number, quietMs: number): void {
    this.#timer?.cancel()
    this.#quiet?.cancel()
    if (!this.#live) return
    const { runtime } = this.#hub
    const wake = () => this.wake()
    if (Number.isFinite(ms)) this.#timer = runtime.after(Math.max(1, ms), wake)
    const quiet = Math.min(Math.max(1, quietMs), this.#hub.pollMs())
    if (Number.isFinite(quiet)) this.#quiet = runtime.after(quiet, wake, { ref: false })
  }
}
