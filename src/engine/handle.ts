// Owns handles: what a caller holds of a submitted job.
// May never hold the job itself, or a promise that nobody asked for.

import { checkOptions } from '../core/options.ts'
import type { Job, JobHandle } from '../core/types.ts'
import { optionalSignal } from '../kit/signals.ts'

export interface HandlePowers {
  result(id: string, signal: AbortSignal | undefined): Promise<unknown>
  known(id: string): Promise<Job>
  cancel(id: string, reason: string | undefined): Promise<boolean>
}

export class Handle<R> implements JobHandle<R> {
  readonly id: string
  readonly added: boolean
  readonly #powers: HandlePowers

  constructor(id: string, added: boolean, powers: HandlePowers) {
    this.id = id
    this.added = added
    this.#powers = powers
  }

  async result(options: { readonly signal?: AbortSignal } = {}): Promise<R> {
    checkOptions('result', options, ['signal'])
    return (await this.#powers.result(this.id, optionalSignal(options.signal))) as R
  }

  job(): Promise<Job> {
    return this.#powers.known(this.id)
  }

  cancel(reason?: string): Promise<boolean> {
    return this.#powers.cancel(this.id, reason)
  }
}
