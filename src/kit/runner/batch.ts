// Owns running a function over many items: what is pulled when, and when to stop.
// May never throw for an item, drop one in silence, or hold more of them than it needs to.

import {
  callable,
  checkOptions,
  integer,
  plain,
  refuseUnknown,
  refuseValue,
  share,
} from '../../core/options.ts'
import { Breath } from '../breath.ts'
import type { BatchOptions, BatchResult, RunnerContext } from '../runner.ts'
import { Counts } from '../stats.ts'
import { codeOf } from '../transient.ts'
import type { Core } from './core.ts'
import type { Feed } from './waits.ts'

type Source<I> = Iterable<I> | AsyncIterable<I>
type Work<I> = (item: I, context: RunnerContext) => unknown

let batches = 0

/** See `Runner.batch`. */
export async function runBatch<I>(
  core: Core,
  items: Source<I>,
  fn: Work<I>,
  options: BatchOptions<I> = {},
): Promise<BatchResult<I, unknown>> {
  checkOptions('batch', options, ['key', 'stopWhen'])
  callable('fn', fn)
  if (options.key !== undefined) callable('key', options.key)
  const stop = stopRule(options.stopWhen)
  batches += 1
  const batch = new Batch<I>(core, fn, options.key ?? (() => undefined), stop, `batch ${batches}`)
  return batch.run(items)
}

interface Place<I> {
  readonly index: number
  readonly key: string
  readonly item: I
}

class Batch<I> {
  readonly #core: Core
  readonly #fn: Work<I>
  readonly #keyOf: (item: I) => string | undefined
  readonly #stop: StopRule
  readonly #name: string
  readonly #fulfilled: (Place<I> & { value: unknown })[] = []
  readonly #rejected: (Place<I> & { error: unknown })[] = []
  readonly #skipped: I[] = []
  readonly #codes = new Counts()
  #pulled = 0
  #open = 0
  #stopped = false

  constructor(
    core: Core,
    fn: Work<I>,
    keyOf: (item: I) => string | undefined,
    stop: StopRule,
    name: string,
  ) {
    this.#core = core
    this.#fn = fn
    this.#keyOf = keyOf
    this.#stop = stop
    this.#name = name
  }

  async run(items: Source<I>): Promise<BatchResult<I, unknown>> {
    const running = new Set<Promise<void>>()
    try {
      await this.#feed(items, running)
    } finally {
      await Promise.all(running)
    }
    return {
      fulfilled: inOrder(this.#fulfilled).map(({ key, item, value }) => ({ key, item, value })),
      rejected: inOrder(this.#rejected).map(({ key, item, error }) => ({ key, item, error })),
      skipped: this.#skipped,
      codes: this.#codes.toObject(),
    }
  }

  /** Begins item after item, as slots free up; once stopped, only reads what is left. */
  async #feed(items: Source<I>, running: Set<Promise<void>>): Promise<void> {
    const source = iteratorOf(items)
    const breath = new Breath(this.#core.settings.runtime)
    for (;;) {
      await breath.take()
      const refusal = await this.#room()
      const step = await source.next()
      if (step.done) return
      // It may have been stopped while the source was asked.
      if (this.#isStopped()) this.#skipped.push(step.value)
      else await this.#begin(step.value, running, refusal)
    }
  }

  /**
   * Waits until a slot is free. Where others keep the queue from running dry, one that has been
   * freed will do: the item then waits among them, as the only one of this batch. Answers with an
   * error if it would wait for ever: that is for the next item.
   */
  async #room(): Promise<unknown> {
    const { slots, settings } = this.#core
    while (!this.#isStopped()) {
      const hasRoom = this.#open < slots.limit + settings.maxQueue
      if (hasRoom && slots.isFree) return undefined
      try {
        await this.#core.freed()
      } catch (error) {
        return error
      }
      if (hasRoom) return undefined
    }
    return undefined
  }

  #isStopped(): boolean {
    return this.#stopped || this.#core.isClosed
  }

  /** Resolves when the item's body has started, or it is settled without. */
  async #begin(item: I, running: Set<Promise<void>>, refusal: unknown): Promise<void> {
    const index = this.#pulled
    this.#pulled += 1
    this.#open += 1
    let key = `${this.#name} #${index}`
    const { promise, feed } = startOf(key)
    const started = () => {
      if (this.#core.starts.size > 0) this.#core.starts.delete(feed)
      feed.resolve(undefined)
    }
    const work = async () => {
      try {
        key = this.#keyOf(item) ?? key
        feed.key = key
        if (refusal !== undefined) throw refusal
        const task = (context: RunnerContext) => {
          started()
          return this.#fn(item, context)
        }
        // What waits for another call of its key does not wait for a slot: the batch goes on.
        if (this.#core.isTaken(key)) started()
        else this.#core.starts.add(feed)
        const { result } = await this.#core.call(key, task, undefined, false)
        this.#fulfilled.push({ index, key, item, value: result })
        this.#ended(false)
      } catch (error) {
        this.#rejected.push({ index, key, item, error })
        this.#codes.add(codeOf(error))
        this.#ended(true)
      }
      started()
    }
    const done = work().then(() => {
      running.delete(done)
    })
    running.add(done)
    await promise
  }

  #ended(failed: boolean): void {
    this.#open -= 1
    if (this.#stop(failed)) this.#stopped = true
    // The runner has told of the end before this batch has counted it.
    this.#core.moved()
  }
}

/** Settled when an item has begun. */
function startOf(key: string): { promise: Promise<unknown>; feed: Feed } {
  const feed: Feed = { resolve: () => {}, reject: () => {}, key }
  const promise = new Promise<unknown>((resolve, reject) => {
    feed.resolve = resolve
    feed.reject = reject
  })
  return { promise, feed }
}

function inOrder<P extends { readonly index: number }>(places: P[]): P[] {
  return places.sort((a, b) => a.index - b.index)
}

function iteratorOf<I>(items: Source<I>): AsyncIterator<I> | Iterator<I> {
  const asked = items as Partial<AsyncIterable<I> & Iterable<I>> | null | undefined
  const iterator = asked?.[Symbol.asyncIterator]?.() ?? asked?.[Symbol.iterator]?.()
  return iterator ?? refuseValue('items', items, 'an iterable, or an async one')
}

/** Told of every item that has ended; true once it is time to stop. */
type StopRule = (failed: boolean) => boolean

function stopRule(rule: BatchOptions<never>['stopWhen']): StopRule {
  if (rule === undefined) return () => false
  plain('stopWhen', rule)
  refuseUnknown('stopWhen', rule, ['consecutiveFailures', 'failureRate', 'window'])
  const { consecutiveFailures = Number.POSITIVE_INFINITY, failureRate, window = 20 } = rule
  if (consecutiveFailures !== Number.POSITIVE_INFINITY) {
    integer('consecutiveFailures', consecutiveFailures, 1)
  }
  if (failureRate === undefined && rule.window !== undefined) {
    refuseValue('window of stopWhen', window, 'left out without failureRate')
  }
  if (rule.consecutiveFailures === undefined && failureRate === undefined) {
    refuseValue('stopWhen', rule, 'left out, or say consecutiveFailures or failureRate')
  }
  integer('window', window, 1, 1_000_000)
  if (failureRate !== undefined) share('failureRate', failureRate)
  let consecutive = 0
  const last: boolean[] = []
  let failures = 0
  return (failed) => {
    consecutive = failed ? consecutive + 1 : 0
    if (failureRate === undefined) return consecutive >= consecutiveFailures
    last.push(failed)
    if (failed) failures += 1
    if (last.length > window && last.shift()) failures -= 1
    const isTooMany = last.length === window && failures >= failureRate * window
    return isTooMany || consecutive >= consecutiveFailures
  }
}
