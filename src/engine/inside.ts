// Owns finding out that a body which runs here waits for something, and keeps its slot meanwhile.
// May never ask while no body runs, or take a call that a body goes on without for one that it
// waits for.

import type { Waiter } from '../kit/nested/graph.ts'
import { atMost, some } from '../kit/nested/some.ts'
import { ask } from '../kit/nested/trace.ts'
import type { Hub } from './hub.ts'
import type { Worker } from './worker.ts'

/** A body may begin to wait for a call that it has made earlier: it is asked again, ever later. */
const FIRST_MS = 20
const LAST_MS = 5_000
/** Each costs 4 us. */
const MOST = 256

/** Those who wait, who came first first. */
export interface Line<W extends Waiter> {
  everyone(): Iterable<W>
  /** Called for one that a body waits for. */
  refuse(waiter: W): void
}

/** See kit/nested/trace.ts for how V8 tells who waits for a promise, and what it does not tell. */
export class Inside<W extends Waiter> {
  readonly #hub: Hub
  readonly #worker: Pick<Worker, 'runs'>
  readonly #line: Line<W>
  #newcomers: W[] = []
  #isArmed = false

  constructor(hub: Hub, worker: Pick<Worker, 'runs'>, line: Line<W>) {
    this.#hub = hub
    this.#worker = worker
    this.#line = line
  }

  /** Somebody begins to wait. Whether a body hangs on that shows in a later turn. */
  add(waiter: W): void {
    if (this.#worker.runs.size === 0) return
    this.#newcomers.push(waiter)
    if (this.#newcomers.length > 1) return
    this.#hub.runtime.soon(() => {
      const newcomers = this.#newcomers
      this.#newcomers = []
      this.#ask(newcomers)
      this.#arm(FIRST_MS)
    })
  }

  #arm(ms: number): void {
    if (this.#isArmed) return
    this.#isArmed = true
    const again = () => {
      this.#isArmed = false
      const waiting = [...this.#line.everyone()]
      if (waiting.length === 0 || this.#worker.runs.size === 0) return
      this.#ask([...some(waiting.length, MOST, [...waiting].reverse(), atMost(MOST, waiting))])
      this.#arm(Math.min(LAST_MS, 2 * ms))
    }
    this.#hub.runtime.after(ms, again, { ref: false })
  }

  #ask(waiters: readonly W[]): void {
    const bodies = [...this.#worker.runs.values()].filter(({ isBusy }) => isBusy)
    for (const { body } of bodies) body.mark()
    const names = new Set(bodies.map(({ body }) => body.name))
    const inside: W[] = []
    for (const waiter of waiters) {
      ask(waiter, (found) => {
        if ([...found].some((name) => names.has(name))) inside.push(waiter)
      })
    }
    // The answers come in the microtasks before this.
    this.#hub.runtime.soon(() => {
      for (const waiter of inside) this.#line.refuse(waiter)
    })
  }
}
