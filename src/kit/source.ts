// Owns an iterable that items are pulled from, sync or async.
// May never touch it once it has ended, or tell it twice to return.

import { refuseValue } from '../core/options.ts'
import { NOTHING } from './results.ts'
import { attempt, listen } from './slot.ts'

interface Cursor<I> {
  next(): IteratorResult<I> | PromiseLike<IteratorResult<I>>
  return?: ((value?: unknown) => unknown) | undefined
}

/** What becomes of an async pull; at most one of these is called. */
export interface Pulled<I> {
  item(item: I): void
  /** There are no more. */
  end(): void
  fail(error: unknown): void
}

/** Throws `INVALID_OPTION` for what cannot be iterated over. */
export class Source<I> {
  readonly isAsync: boolean
  readonly #open: () => Cursor<I>
  #cursor: Cursor<I> | undefined
  /** It has said or thrown its last word, was told to return, or was never opened. */
  #isClosed = true
  /** A pull is under way. */
  isBusy = false

  constructor(source: Iterable<I> | AsyncIterable<I>) {
    const given = source as Partial<Iterable<I> & AsyncIterable<I>> | null | undefined
    this.isAsync = typeof given?.[Symbol.asyncIterator] === 'function'
    if (!this.isAsync && typeof given?.[Symbol.iterator] !== 'function') {
      refuseValue('source', source, 'an iterable or an async iterable')
    }
    this.#open = this.isAsync
      ? () => (source as AsyncIterable<I>)[Symbol.asyncIterator]()
      : () => (source as Iterable<I>)[Symbol.iterator]()
  }

  /** Throws what the source throws. */
  open(): void {
    this.#cursor = this.#open()
    this.#isClosed = false
  }

  /** The next item of a sync source; NOTHING at its end. Throws what the source throws. */
  pullNow(): I | typeof NOTHING {
    let item: I | typeof NOTHING = NOTHING
    this.isBusy = true
    try {
      const result = (this.#cursor as Cursor<I>).next() as IteratorResult<I>
      if (result.done !== true) item = result.value
    } catch (error) {
      this.isBusy = false
      this.#isClosed = true
      throw error
    }
    this.isBusy = false
    if (item === NOTHING) this.#isClosed = true
    return item
  }

  /** Pulls from an async source. */
  pull(pulled: Pulled<I>): void {
    this.isBusy = true
    const fail = (error: unknown) => {
      this.isBusy = false
      this.#isClosed = true
      pulled.fail(error)
    }
    const hear = (result: IteratorResult<I>) => {
      let item: I | typeof NOTHING = NOTHING
      try {
        if (result.done !== true) item = result.value
      } catch (error) {
        fail(error)
        return
      }
      this.isBusy = false
      if (item !== NOTHING) pulled.item(item)
      else {
        this.#isClosed = true
        pulled.end()
      }
    }
    listen(
      attempt(() => (this.#cursor as Cursor<I>).next()),
      hear,
      fail,
    )
  }

  /** Tells it to return, unless it has ended. Nobody waits for that behind a pull under way. */
  close(): Promise<unknown> | undefined {
    if (this.#isClosed) return undefined
    this.#isClosed = true
    const closing = attempt(() => this.#cursor?.return?.())
    if (!this.isBusy) return closing
    closing.catch(() => {})
    return undefined
  }
}
