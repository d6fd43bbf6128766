// Owns what submissions of this process go by: what it says of types itself, over a copy of what
// is stored. May never be used without asking whether it is fresh.

import type { TypeSetting } from '../core/settings.ts'
import { DEFAULT_TYPE, type TypeSaid, type TypeTerms, typeTerms } from '../core/terms.ts'
import type { Hub } from './hub.ts'
import type { Registry } from './registry.ts'

/** Where hints may get lost, what is older than this is read again before it is used. */
const FRESH_MS = 1_000

/** A type, and what that was made of. */
interface Known {
  readonly stored: TypeSetting | undefined
  readonly said: TypeSaid | undefined
  readonly terms: TypeTerms
}

export class KnownTypes {
  readonly #hub: Hub
  readonly #registry: Registry
  /** Nobody else has the store, so there is nothing that is not known here anyhow. */
  readonly #isAlone: boolean
  #stored: ReadonlyMap<string, TypeSetting> = new Map()
  readonly #types = new Map<string, Known>()
  #readAt = Number.NEGATIVE_INFINITY
  /** Counts the hints that something has been set; what was read before the last one is old. */
  #changes = 0
  #seen = -1
  #reading: Promise<void> | undefined

  constructor(hub: Hub, registry: Registry) {
    this.#hub = hub
    this.#registry = registry
    this.#isAlone = hub.settings.store === undefined
    hub.onHint((hint) => {
      if (hint.settings) this.#changes += 1
    })
  }

  get isFresh(): boolean {
    if (this.#isAlone) return true
    if (this.#seen !== this.#changes) return false
    const { runtime, store } = this.#hub
    return !store.traits.lossyHints || runtime.monotonic() - this.#readAt < FRESH_MS
  }

  /** One object for as long as nobody says anything new of the type: jobs share it. O(1). */
  termsOf(type: string): TypeTerms {
    const stored = this.#stored.get(type)
    const said = this.#registry.ofType(type)
    if (stored === undefined && said === undefined) return DEFAULT_TYPE
    const known = this.#types.get(type)
    if (known !== undefined && known.stored === stored && known.said === said) return known.terms
    const terms = typeTerms(stored, said)
    this.#types.set(type, { stored, said, terms })
    return terms
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
    this.#stored = new Map(Object.entries(types))
    this.#seen = changes
    this.#readAt = readAt
  }
}
