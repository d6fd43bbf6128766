// Owns listening to abort signals on behalf of many calls.
// May never leave a listener behind when nobody waits under that signal any more.

import { refuseValue } from '../core/options.ts'

interface Group<T> {
  readonly items: Set<T>
  readonly listener: () => void
}

/**
 * Items that wait under signals, with one listener per distinct signal. Node keeps listeners in a
 * linked list and walks it for every `addEventListener` and `removeEventListener`: with one
 * listener per call, 100,000 calls under one signal take quadratic time.
 *
 * Neither `AbortSignal.any` nor `Promise.race` will do: both hold on to what they have combined
 * for as long as the longest-lived of their sources.
 */
export class Signals<T> {
  readonly #groups = new Map<AbortSignal, Group<T>>()
  readonly #onAbort: (item: T, reason: unknown) => void

  /** `onAbort` is called for each item under a signal as it aborts, in the order of `add`. */
  constructor(onAbort: (item: T, reason: unknown) => void) {
    this.#onAbort = onAbort
  }

  /** From now on, `item` hears of `signal`, which must not be aborted yet. O(1). */
  add(signal: AbortSignal, item: T): void {
    let group = this.#groups.get(signal)
    if (group === undefined) {
      group = { items: new Set(), listener: () => this.#abort(signal) }
      this.#groups.set(signal, group)
      signal.addEventListener('abort', group.listener, { once: true })
    }
    group.items.add(item)
  }

  /** `item` has heard enough; the last one takes the listener off. O(1). */
  delete(signal: AbortSignal, item: T): void {
    const group = this.#groups.get(signal)
    if (group === undefined) return
    group.items.delete(item)
    if (group.items.size > 0) return
    this.#groups.delete(signal)
    signal.removeEventListener('abort', group.listener)
  }

  #abort(signal: AbortSignal): void {
    const group = this.#groups.get(signal)
    this.#groups.delete(signal)
    for (const item of group?.items ?? []) this.#onAbort(item, signal.reason)
  }
}

/** An option that must be an abort signal, or absent. */
export function optionalSignal(value: AbortSignal | undefined): AbortSignal | undefined {
  if (value === undefined || typeof value?.addEventListener === 'function') return value
  return refuseValue('signal', value, 'an AbortSignal')
}
