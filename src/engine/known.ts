// Owns what is known here of types that other processes have brought: a copy of what is stored.
// May never be used without asking whether it is fresh.

import type { TypeTerms } from '../core/submit.ts'
import { typeOfSetting } from '../core/terms.ts'
import type { Hub } from './hub.ts'

/** Where hints may get lost, what is older than this is read again before it is used. */
const FRESH_MS = 1_000

export class KnownTypes {
  readonly #hub: Hub
  /** Nobody else has the store, so there is nothing that is not known here anyhow. */
  readonly #isAlone: boolean
  #types: ReadonlyMap<string, TypeTerms> = new Map()
  #readAt = Number.NEGATIVE_INFINITY
  /** Counts the hints that something has been set; what was read before the last one is old. */
  #changes = 0
  #seen = -1
  #reading: Promise<void> | undefined

  constructor(hub: Hub) {
    this.#hub = hub
    this.#isAlone = hub.settings.store === undefined
    hub.onHint((hint) => {
      if (hint.settings) this.#changes += 1
    })
  }

  /** Whether anything has been read yet. */
  get isLoaded(): boolean {
    return this.#isAlone || this.#seen >= 0
  }

  get isFresh(): boolean {
    if (this.#isAlone) return true
    if (this.#seen !== this.#changes) return false
    const { runtime, store } = this.#hub
    return !store.traits.lossyHints || runtime.monotonic() - this.#readAt < FRESH_MS
  }

  /** What the store says of a type. O(1). */
  get(type: string): TypeTerms | undefined {
    return this.#types.get(type)
  }

  /** Reads what is stored, once for all who ask meanwhile, and again if it changes meanwhile. */
  async refresh(): Promise<void> {
    if (this.#isAlone) return
    do {
      this.#reading ??= this.#read().finally(() => {
        this.#reading = undefined
      })
      await this.#reading
    } while (this.#seen !== this.#changes)
  }

  async #read(): Promise<void> {
    const { runtime, store } = this.#hub
    const changes = this.#changes
    const readAt = runtime.monotonic()
    const { types } = await store.settings()
    this.#types = new Map(
      Object.entries(types).map(([type, setting]) => [type, typeOfSetting(setting)]),
    )
    this.#seen = changes
    this.#readAt = readAt
  }
}
