// Owns the public face of the runner: its options, its promises, its shape.
// May never hold a rule of its own: what happens to a call is decided in `runner/`.

import type { BreakerOptions } from '../core/breaker.ts'
import type { Duration } from '../core/duration.ts'
import type { CallZombie } from '../core/zombie.ts'
import type { AdaptiveOptions } from './adaptive.ts'
import type { RetryOptions } from './retry.ts'
import { runBatch } from './runner/batch.ts'
import { Core } from './runner/core.ts'
import { settingsOf } from './runner/settings.ts'
import type { Runtime } from './runtime.ts'
import type { Percentiles } from './stats.ts'

export interface RunnerOptions {
  /** How many bodies run at once; with `{ min, max, initial }` the runner finds it out. */
  readonly concurrency: number | AdaptiveOptions
  /** How many calls may wait for a slot; default 1000. */
  readonly maxQueue?: number | undefined
  /** When the queue is full: `QUEUE_OVERFLOW` at once (default), or wait for room as well. */
  readonly overflow?: 'reject' | 'wait' | undefined
  /** How long an attempt may wait for its slot; default 10 s, 0: for ever. */
  readonly enqueueTimeout?: Duration | undefined
  /** How long an attempt may run; default 0: for ever. */
  readonly timeoutMs?: Duration | undefined
  /** How long a body that was told to stop keeps its slot; default 5 s. Infinity is fine. */
  readonly graceMs?: Duration | undefined
  /** How many bodies may go on without a slot after their grace; default 100. */
  readonly maxZombies?: number | undefined
  /** Default: no retries. */
  readonly retry?: RunnerRetry | undefined
  /** Whether a task may run again after it may have taken effect; default false. */
  readonly idempotent?: boolean | undefined
  /** Asked before an attempt that follows an unknown outcome: has it taken effect? */
  readonly confirm?: Confirm | undefined
  /** Keeps how calls ended, so that the same key does not run again; `max` keys, default 10,000. */
  readonly remember?: { readonly ms: Duration; readonly max?: number | undefined } | undefined
  /** Default: none. */
  readonly breaker?: BreakerOptions | undefined
  /** Told of every attempt when it is over. */
  readonly onAttempt?: ((record: AttemptRecord) => void) | undefined
  /** pino, console, or anything of that shape: gets the same records, as fields. */
  readonly logger?: RunnerLogger | undefined
  /** Clock, timers and chance, for tests. */
  readonly runtime?: Runtime | undefined
}

export interface RunnerRetry extends Omit<RetryOptions, 'runtime'> {
  /**
   * Ends retrying, of all calls or of one: a call that waits for its next attempt rejects with the
   * reason of the signal at once, and none makes a further one. First attempts are made, and what
   * runs is not interrupted: that is what the `signal` of a call is for.
   */
  readonly signal?: AbortSignal | undefined
  /** Back off without giving the slot up: for a session that must go on over one connection. */
  readonly inSlot?: boolean | undefined
  /** How many calls may do so at once; default: as many as there are slots. */
  readonly inSlotConcurrency?: number | undefined
}

export type Confirm = (context: {
  readonly key: string
  readonly signal: AbortSignal
}) => Confirmed | PromiseLike<Confirmed>

type Confirmed = { readonly done: true; readonly result: unknown } | { readonly done: false }

export interface RunnerLogger {
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
}

/** What a task is given. */
export interface RunnerContext {
  readonly key: string
  /** From 1. */
  readonly attempt: number
  /** Aborted at the timeout, when nobody waits for the result any more, and by `close()`. */
  readonly signal: AbortSignal
  /** The key: the same for every attempt, and for every later call of the same operation. */
  readonly idempotencyKey: string
}

export interface CallOptions {
  readonly timeoutMs?: Duration | undefined
  /** Laid over the runner's own. */
  readonly retry?: Omit<RunnerRetry, 'inSlotConcurrency'> | undefined
  /** Ends this caller's wait; the body is aborted when nobody else waits for it. */
  readonly signal?: AbortSignal | undefined
  /** An integer from 1 to 100, larger first; default 50. */
  readonly priority?: number | undefined
  readonly idempotent?: boolean | undefined
}

export interface RunnerResult<T> {
  readonly result: T
  /** From the call to its result. */
  readonly ms: number
  /** How many attempts the operation took. */
  readonly attempts: number
  /** Another call did the work, at the same time or earlier. */
  readonly deduplicated: boolean
}

/** One line of the timeline. */
export interface AttemptRecord {
  readonly key: string
  /** From 1; 0 for a call that another one answered. */
  readonly attempt: number
  /** How long it waited for its slot. */
  readonly queuedMs: number
  /** How long the body ran; 0 if it never did. */
  readonly callMs: number
  readonly outcome: 'success' | 'failure' | 'timeout' | 'cancelled' | 'deduplicated'
  /** Of a failure: the error's own code, or `HANDLER_FAILED`. */
  readonly code?: string
  /** When it was over, milliseconds since 1970. */
  readonly at: number
}

/**
 * `succeeded`, `failed`, `cancelled` and `deduplicated` count calls by how they ended, where a
 * call that joins another counts as deduplicated from that moment. At every moment
 * `calls = waiting + active - stopping + succeeded + failed + cancelled + deduplicated`.
 */
export interface RunnerStats {
  readonly calls: number
  /** Slots in use. */
  readonly active: number
  /** Of those, the ones held by bodies whose calls have ended, or gone on without them. */
  readonly stopping: number
  /** Calls that wait: for a slot, for room, for their next attempt. */
  readonly waiting: number
  readonly zombies: number
  readonly succeeded: number
  readonly failed: number
  readonly cancelled: number
  readonly deduplicated: number
  /** Attempts that are over. To ask `confirm` is one only if that fails. */
  readonly attempts: number
  /** Attempts that were not the first of their call. */
  readonly retried: number
  /** Failures by code: of attempts, and of calls that were refused or ended in the queue. */
  readonly codes: Record<string, number>
  /** From the call to its end, of calls that were let in and not cancelled. */
  readonly latency: Percentiles
  readonly queueWait: Percentiles
  readonly call: Percentiles
  /** Successes per attempt: retries are counted in. 1 before the first attempt. */
  readonly effectiveSuccessRate: number
  /** Calls that succeeded, per second, over the last ten seconds. */
  readonly throughput: number
  readonly concurrency: number
}

export interface BatchOptions<I> {
  /** Default: a key of its own for every item. */
  readonly key?: ((item: I) => string) | undefined
  readonly stopWhen?:
    | {
        /** Stops when this many items in a row have failed. */
        readonly consecutiveFailures?: number | undefined
        /** Stops when this share (0 to 1) of the last `window` items have failed. */
        readonly failureRate?: number | undefined
        /** Default 20. */
        readonly window?: number | undefined
      }
    | undefined
}

export interface BatchResult<I, O> {
  /** In the order of the items, like `rejected`. */
  readonly fulfilled: { readonly key: string; readonly item: I; readonly value: O }[]
  readonly rejected: { readonly key: string; readonly item: I; readonly error: unknown }[]
  /** Items that were not begun. */
  readonly skipped: I[]
  /** Of the rejected ones: how many by code. */
  readonly codes: Record<string, number>
}

/** `runner(key, task, options?)`: see `createRunner`. */
export interface Runner extends AsyncDisposable {
  <T>(
    key: string,
    task: (context: RunnerContext) => T | PromiseLike<T>,
    options?: CallOptions,
  ): Promise<RunnerResult<T>>
  /** Settable, with immediate effect; of an adaptive runner, where it goes on from. */
  concurrency: number
  /** O(1) in the number of calls. */
  stats(): RunnerStats
  /** Bodies that were told to stop, did not, and no longer hold a slot. */
  zombies(): CallZombie[]
  /**
   * Calls `fn` for every item, and settles all of them; an item that fails is reported, never
   * thrown. The source is pulled from only when a slot is free. When `stopWhen` is met, what is
   * running is seen to its end, and the rest of the source is read and reported as skipped.
   * An item for which no slot could ever come free is rejected with `NESTED_LIMIT`.
   * Rejects only if the source itself throws.
   */
  batch<I, O>(
    items: Iterable<I> | AsyncIterable<I>,
    fn: (item: I, context: RunnerContext) => O | PromiseLike<O>,
    options?: BatchOptions<I>,
  ): Promise<BatchResult<I, O>>
  /** Resolves when no call waits and no slot is in use. Zombies do not count. */
  idle(): Promise<void>
  /**
   * From now on calls reject with `CLOSED`, waiting ones at once; running bodies are aborted, and
   * their calls reject with `CLOSED` unless they succeed within their grace. Resolves when idle.
   */
  close(): Promise<void>
}

/**
 * Runs tasks by key, under a cap: `runner(key, task)` resolves to `{ result, ms, attempts,
 * deduplicated }`, or rejects with the task's own error, with the reason of the caller's signal,
 * or with an error of the runner.
 *
 * - One call per key at a time: who comes while it is under way shares its outcome.
 *   The first caller's task and options hold.
 * - `NESTED_LIMIT` is for a call in a body that waits for it, if that could never end: at once for
 *   the body's own key; soon for keys that wait for each other, and for other keys when every
 *   slot is held by such a body, unless the call gives up by itself (`enqueueTimeout`, a signal)
 *   or a body's time is limited. Limiters, maps and single flights in such a ring count.
 * - Each attempt queues for a slot of its own, at the tail of its priority; backing off holds
 *   none (but see `retry.inSlot`). `QUEUE_OVERFLOW` is for first attempts; `ENQUEUE_TIMEOUT` and
 *   `BREAKER_OPEN` end the call.
 * - At its timeout a body is aborted. It keeps its slot until it has settled or `graceMs` are
 *   over, and the next attempt waits for that; a success until then counts. A call with no
 *   attempt left has its `EXECUTION_TIMEOUT` at once. After its grace a body is a zombie: its
 *   slot is free, and nobody listens to it.
 * - What a timed-out attempt has done is unknown. It is followed by another only if the task is
 *   `idempotent`, or `confirm` says that it did not take effect; else the call ends with
 *   `OUTCOME_UNKNOWN`.
 * - Tasks and hooks see the AsyncLocalStorage of the (first) caller. Hooks that throw change
 *   nothing.
 */
export function createRunner(options: RunnerOptions): Runner {
  const core = new Core(settingsOf(options))
  const runner = (key: string, task: (context: RunnerContext) => unknown, given?: CallOptions) =>
    core.call(key, task, given)
  Object.assign(runner, {
    stats: () => core.stats(),
    zombies: () => core.zombies.list(),
    batch: (
      items: Iterable<unknown> | AsyncIterable<unknown>,
      fn: (item: unknown, context: RunnerContext) => unknown,
      given?: BatchOptions<unknown>,
    ) => runBatch(core, items, fn, given),
    idle: () => core.idle(),
    close: () => core.close(),
    [Symbol.asyncDispose]: () => core.close(),
  })
  return Object.defineProperty(runner, 'concurrency', {
    enumerable: true,
    get: () => core.concurrency,
    set: (value: number) => {
      core.concurrency = value
    },
  }) as unknown as Runner
}
