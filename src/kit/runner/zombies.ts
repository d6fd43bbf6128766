// Owns the bodies whose grace is over and who have not settled.
// May never hold more zombies than it was allowed to: the others keep their slots.

import type { CallZombie } from '../../core/zombie.ts'
import { processName, type Runtime } from '../runtime.ts'
import type { Run } from './run.ts'

export class Zombies {
  readonly #max: number
  readonly #runtime: Runtime
  readonly #zombies = new Map<Run, CallZombie>()
  /** For whom there is no room: their slots are not given to others. */
  readonly #stuck = new Set<Run>()

  constructor(max: number, runtime: Runtime) {
    this.#max = max
    this.#runtime = runtime
  }

  get size(): number {
    return this.#zombies.size
  }

  /** With so many of them, nothing new should start. */
  get isFull(): boolean {
    return this.#zombies.size > 0 && this.#zombies.size >= this.#max
  }

  list(): CallZombie[] {
    return [...this.#zombies.values()]
  }

  /** The grace of that body is over. True: it is a zombie, and its slot is free. */
  add(run: Run): boolean {
    if (this.#zombies.size >= this.#max) {
      this.#stuck.add(run)
      return false
    }
    const since = this.#runtime.now()
    const startedAt = since - (this.#runtime.monotonic() - run.startedAt)
    const { number, owner } = run
    const worker = processName()
    this.#zombies.set(run, { key: owner.key, attempt: number, startedAt, since, worker })
    return true
  }

  /** That body has settled at last. True: a slot that was held is free now. */
  remove(run: Run): boolean {
    if (this.#stuck.delete(run)) return true
    this.#zombies.delete(run)
    for (const next of this.#stuck) {
      this.#stuck.delete(next)
      return this.add(next)
    }
    return false
  }
}
