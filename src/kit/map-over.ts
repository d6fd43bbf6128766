// Owns the way from a limiter to an iteration over results: what is promised, what is checked.
// May never pull an item or run a body itself.

import { callable } from '../core/options.ts'
import { type Fn, Mapping } from './map.ts'
import { checkMap, type MapContext, type MapOptions, type Slots } from './map-options.ts'
import { Source } from './source.ts'

/**
 * Iterates over `fn(item, index, { signal })` for the items of `source`. Nothing is pulled before
 * the first result is asked for; from then on at most concurrency + `buffer` items have been
 * pulled whose results have not been taken, and none is pulled unless there is a slot for it.
 * Slots are shared with the limiter's other callers: after each body the next in line comes first.
 * Where the concurrency is Infinity, a map runs at most 1,000 bodies at once all the same: the
 * limiter would hold nothing back, and a source without end would be swallowed whole.
 *
 * It is over at the first failure (of a body, in its place when `ordered`; of the source, at
 * once), at a `break`, or when `signal` is aborted. Then nothing more is pulled, the source is
 * told once by `return()`, running bodies have their signal aborted, and what becomes of them
 * reaches nobody. The source's `return()` is waited for, unless a pull is under way.
 *
 * An item costs one promise in `fn`'s wake and one for its consumer; one more where slots are
 * contended. O(1) an item. However little bodies and source do, timers and I/O have their turn.
 */
export function mapOver<I, O>(
  slots: Slots,
  source: Iterable<I> | AsyncIterable<I>,
  fn: (item: I, index: number, context: MapContext) => O | PromiseLike<O>,
  options: MapOptions = {},
): AsyncIterableIterator<O> {
  callable('fn', fn)
  const terms = checkMap(options)
  return new Mapping<I, O>(slots, new Source(source), fn as Fn<I>, terms)
}
