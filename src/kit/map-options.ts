// Owns what a map can be told, and what it is lent by its limiter. May never run anything.

import { boolean, checkOptions, countOf } from '../core/options.ts'
import type { Context } from './context.ts'
import type { Berth } from './nested/trace.ts'
import type { Watch } from './nested/watch.ts'
import type { Runtime } from './runtime.ts'
import { optionalSignal } from './signals.ts'
import type { Entry } from './waiting.ts'

export interface MapContext {
  /** Aborted when the results of bodies that still run are of no interest any more. */
  readonly signal: AbortSignal
}

export interface MapOptions {
  /** Results in the order of their items (default), or as they come. */
  readonly ordered?: boolean | undefined
  /**
   * How many results may lie waiting for the consumer: an integer of at least 0, or Infinity,
   * which lets a source without end fill the memory. Default: the concurrency of the limiter, or
   * 1,000 where that is Infinity.
   */
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

/** The options of one map, checked. */
export interface MapTerms {
  readonly ordered: boolean
  readonly buffer: number | undefined
  readonly signal: AbortSignal | undefined
}

/** Throws `INVALID_OPTION` for what is no option, or no value for one. */
export function checkMap(options: MapOptions): MapTerms {
  checkOptions('map', options, ['ordered', 'buffer', 'signal'])
  const { ordered = true, buffer } = options
  boolean('ordered', ordered)
  if (buffer !== undefined) countOf('buffer', buffer, 0)
  return { ordered, buffer, signal: optionalSignal(options.signal) }
}
