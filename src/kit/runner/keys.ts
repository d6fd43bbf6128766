// Owns what is known of a key after its call has ended: bodies that have not, and who waits for
// that. May never keep anything of a key for which no body runs.

import type { Flight } from './flight.ts'

interface Leftover {
  /** Bodies that were told to stop and have their grace. */
  stopping: number
  /** Bodies whose grace is over. */
  outlived: number
  /** The call that came after. */
  waiting: Flight | undefined
}

/**
 * Bodies that outlast their calls, by key. A call that comes meanwhile waits for the grace of
 * such a body, and then for its end, or, if it can ask whether the body has taken effect, asks.
 */
export class Leftovers {
  readonly #byKey = new Map<string, Leftover>()
  readonly #canConfirm: boolean

  constructor(canConfirm: boolean) {
    this.#canConfirm = canConfirm
  }

  /** Whether bodies of that key run which were told to stop, or outlived their grace. */
  of(key: string): 'none' | 'stopping' | 'outlived' {
    const entry = this.#byKey.size === 0 ? undefined : this.#byKey.get(key)
    if (entry === undefined) return 'none'
    return entry.stopping > 0 ? 'stopping' : 'outlived'
  }

  /** That call goes on when it may. */
  wait(flight: Flight): void {
    this.#entry(flight.key).waiting = flight
  }

  /** That call waits no longer. */
  leave(flight: Flight): void {
    const entry = this.#byKey.get(flight.key)
    if (entry?.waiting === flight) entry.waiting = undefined
  }

  /** The call has ended, its body has not. */
  stop(key: string): void {
    this.#entry(key).stopping += 1
  }

  /** A body that was told to stop has settled in its grace. Answers who waited for it. */
  settle(key: string): Flight | undefined {
    const entry = this.#entry(key)
    entry.stopping -= 1
    return this.#release(key, entry)
  }

  /** The grace of a body is over. `wasStopping`: its call had ended before. */
  outlive(key: string, wasStopping: boolean): Flight | undefined {
    const entry = this.#entry(key)
    if (wasStopping) entry.stopping -= 1
    entry.outlived += 1
    return this.#release(key, entry)
  }

  /** A body has settled long after its grace. */
  end(key: string): Flight | undefined {
    const entry = this.#entry(key)
    entry.outlived -= 1
    return this.#release(key, entry)
  }

  /** Calls that wait for bodies of their keys. */
  *waiting(): IterableIterator<Flight> {
    for (const { waiting } of this.#byKey.values()) if (waiting !== undefined) yield waiting
  }

  #entry(key: string): Leftover {
    let entry = this.#byKey.get(key)
    if (entry === undefined) {
      entry = { stopping: 0, outlived: 0, waiting: undefined }
      this.#byKey.set(key, entry)
    }
    return entry
  }

  #release(key: string, entry: Leftover): Flight | undefined {
    if (entry.stopping + entry.outlived === 0) this.#byKey.delete(key)
    if (entry.stopping > 0 || (entry.outlived > 0 && !this.#canConfirm)) return undefined
    const { waiting } = entry
    entry.waiting = undefined
    return waiting
  }
}
