// Owns the question what a piece of work hangs on: the kinds of resources that it has opened and
// that are still there. May never be at work unless somebody has asked for it: hooks cost.

import { AsyncLocalStorage, createHook } from 'node:async_hooks'

/** Bookkeeping of one piece of work stops at so many live resources: more tell nothing new. */
const MOST = 1_000

/** Kinds named at most. */
const KINDS = 10

/**
 * Not named: promises and ticks are how code waits, not what it waits for; and contexts that are
 * carried about by hand ('AX' among them) never say when they are done.
 */
const UNTOLD: ReadonlySet<string> = new Set([
  'PROMISE',
  'TickObject',
  'Microtask',
  'AsyncResource',
  'RANDOMBYTESREQUEST',
  'AX',
])

/** What one piece of work has open. */
export class Opened {
  readonly #kinds = new Map<number, string>()
  #over = false

  opened(id: number, kind: string): boolean {
    if (this.#over || this.#kinds.size >= MOST) return false
    this.#kinds.set(id, kind)
    return true
  }

  closed(id: number): void {
    this.#kinds.delete(id)
  }

  /** Nobody will ask any more. Answers what was open. */
  end(): readonly number[] {
    this.#over = true
    const ids = [...this.#kinds.keys()]
    this.#kinds.clear()
    return ids
  }

  /** Kind by kind, the most frequent first: `['TCPWRAP x2', 'Timeout x1']`. O(open). */
  list(): string[] {
    const counts = new Map<string, number>()
    for (const kind of this.#kinds.values()) counts.set(kind, (counts.get(kind) ?? 0) + 1)
    const sorted = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    return sorted.slice(0, KINDS).map(([kind, count]) => `${kind} x${count}`)
  }
}

/**
 * Watches what is opened in the course of pieces of work, by way of async_hooks: each resource
 * that is made or done with in the whole process calls it, which is why it is an option. Measured
 * on Node 20: each promise costs up to 1 us more, an empty job 5 us.
 */
export class Resources {
  readonly #work = new AsyncLocalStorage<Opened>()
  readonly #open = new Map<number, Opened>()
  readonly #hook = createHook({
    init: (id, kind) => {
      if (UNTOLD.has(kind)) return
      const work = this.#work.getStore()
      if (work?.opened(id, kind)) this.#open.set(id, work)
    },
    destroy: (id) => {
      const work = this.#open.get(id)
      if (work === undefined) return
      this.#open.delete(id)
      work.closed(id)
    },
  })

  constructor() {
    this.#hook.enable()
  }

  /** Runs `run`; what it and everything that follows from it opens goes to `work`. */
  watch<T>(work: Opened, run: () => T): T {
    return this.#work.run(work, run)
  }

  /** That work is over. */
  forget(work: Opened): void {
    for (const id of work.end()) this.#open.delete(id)
  }

  /** Watches no more. */
  close(): void {
    this.#hook.disable()
  }
}
