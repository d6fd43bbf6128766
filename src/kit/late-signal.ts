// Owns an abort signal that is made when somebody first looks at it: most never do, and one with a
// listener costs more than all else that a body costs (2.6 us, measured on Node 20).
// May never be aborted twice.

import { type Context, enter } from './context.ts'

export class LateSignal {
  readonly #context: Context
  #controller: AbortController | undefined
  #isAborted = false
  #reason: unknown

  /** Listeners hear of the abort in `context`. */
  constructor(context: Context) {
    this.#context = context
  }

  get(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#isAborted) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  abort(reason: unknown): void {
    if (this.#isAborted) return
    this.#isAborted = true
    this.#reason = reason
    const controller = this.#controller
    if (controller !== undefined) enter(this.#context, () => controller.abort(reason))
  }
}
