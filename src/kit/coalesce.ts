// Owns turning many small calls into few batches.
// May never use a timer or a delay; know what a batch does.

import { outside } from './context.ts'
import { Fifo } from './fifo.ts'

interface Call<I, O> {
  readonly item: I
  readonly resolve: (result: O | PromiseLike<O>) => void
  readonly reject: (error: unknown) => void
}

/** A result that rejects its own call and none of the others. */
export class Failed {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}

/**
 * Makes a function whose calls are answered by `run` in batches, one batch in flight at a time,
 * in the order of the calls. A batch starts in a microtask, so the calls of one turn share it;
 * calls that come while it is in flight share the next. Thus a lone call waits for nothing, and
 * the busier it gets, the larger the batches: no timer, no latency to tune.
 *
 * `run` is given 1 to `max` items (default 1000; the rest waits for the batch after) and resolves
 * with as many results, in order; a `Failed` one rejects its call alone, a promise is passed on.
 * Where items differ in size, `weigh` says how much of `max` one takes; a batch has at least one
 * item. If `run` rejects, all calls of that batch reject with that error, and the next batch starts
 * all the same. It runs in nobody's async context.
 */
export function coalesce<I, O>(
  run: (items: readonly I[]) => Promise<readonly (O | PromiseLike<O> | Failed)[]>,
  options: { readonly max?: number; readonly weigh?: (item: I) => number } = {},
): (item: I) => Promise<O> {
  const { max = 1000, weigh = () => 1 } = options
  const waiting = new Fifo<Call<I, O>>()
  let busy = false

  const soon = () => outside(() => queueMicrotask(flush))

  async function flush(): Promise<void> {
    const batch: Call<I, O>[] = []
    for (let weight = 0; weight < max && waiting.size > 0; ) {
      const call = waiting.shift() as Call<I, O>
      batch.push(call)
      weight += weigh(call.item)
    }
    try {
      const results = await run(batch.map((call) => call.item))
      expectResults(results, batch.length)
      for (let at = 0; at < batch.length; at += 1) answer(batch[at] as Call<I, O>, results[at])
    } catch (error) {
      for (const call of batch) call.reject(error)
    }
    // In a microtask again: callers who have just been answered may join at once.
    busy = waiting.size > 0
    if (busy) soon()
  }

  return (item) =>
    new Promise<O>((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (busy) return
      busy = true
      soon()
    })
}

function answer<I, O>(call: Call<I, O>, result: O | PromiseLike<O> | Failed | undefined): void {
  if (result instanceof Failed) call.reject(result.error)
  else call.resolve(result as O | PromiseLike<O>)
}

function expectResults(results: unknown, count: number): void {
  if (Array.isArray(results) && results.length === count) return
  const got = Array.isArray(results) ? `${results.length} results` : typeof results
  throw new TypeError(`a batch of ${count} items was answered with ${got}, not ${count} results`)
}
