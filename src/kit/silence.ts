// Owns those who wait until nothing is going on, and a promise that is settled from outside.
// May never tell of a silence that is over before it is told, or tell it late.

import type { Runtime } from './runtime.ts'

export interface Deferred {
  readonly promise: Promise<void>
  readonly resolve: () => void
}

export function deferred(): Deferred {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

/** `isSilent()`: whether nothing is going on at this moment. */
export class Silence {
  readonly #runtime: Runtime
  readonly #isSilent: () => boolean
  #awaited: Deferred | undefined
  #isDue = false

  constructor(runtime: Runtime, isSilent: () => boolean) {
    this.#runtime = runtime
    this.#isSilent = isSilent
  }

  get isAwaited(): boolean {
    return this.#awaited !== undefined
  }

  /** Resolves at once if nothing is going on, else after a turn in which that was so. */
  wait(): Promise<void> {
    if (this.#isSilent()) return Promise.resolve()
    // One promise for everyone: 20,000 who wait cost no more than one.
    this.#awaited ??= deferred()
    return this.#awaited.promise
  }

  /** Something has ended. */
  notice(): void {
    if (this.#awaited === undefined || this.#isDue || !this.#isSilent()) return
    // A turn later, so that whoever waited for what has ended has had a say: he may call again.
    this.#isDue = true
    this.#runtime.soon(() => {
      this.#isDue = false
      if (!this.#isSilent()) return
      this.#awaited?.resolve()
      this.#awaited = undefined
    })
  }
}
