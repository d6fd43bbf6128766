// Owns what can be asked of a map, what its bodies are handed, and what it asks of a limiter.
// May never fill in a default: what a missing option means is the map's business.

import type { Context } from './context.ts'
import type { Berth } from './nested/trace.ts'
import type { Watch } from './nested/watch.ts'
import type { Runtime } from './runtime.ts'
import type { Entry } from './waiting.ts'

export interface MapContext {
  /** Aborted when the results of bodies that still run are of no interest any more. */
  readonly signal: AbortSignal
}

export interface MapOptions {
  /** Results in the order of their items (default), or as they come. */
  readonly ordered?: boolean | undefined
  /** How many results may lie waiting for the consumer; default: the concurrency. */
  readonly buffer?: number | undefined
  /** Ends all of it: the consumer gets the reason of the signal. */
  readonly signal?: AbortSignal | undefined
}

/** What a limiter lends: slots, taken at once or waited for. */
export interface Slots {
  readonly concurrency: number
  /** Calls that wait, tickets included. */
  readonly waiting: number
  readonly free: boolean
  readonly runtime: Runtime
  /** Undefined where nobody looks for waits that could never end. */
  readonly watch: Watch | undefined
  /** Where its bodies run; a map adds its own. */
  readonly berths: Set<Berth>
  take(): boolean
  give(): void
  keeps(others: number): boolean
  proceed(run: () => void): void
  ticket(task: () => unknown, reject: (error: unknown) => void, context: Context): Entry
  withdraw(ticket: Entry): void
}
