// Owns opening the store: what this process was given is stored, hints begin, settings are read.
// May never store a default: what nobody has said must not overwrite what somebody has.

import { type Hub, isUnavailable } from './hub.ts'
import type { KnownTypes } from './known.ts'
import { complain } from './logger.ts'
import { checkStart } from './pools.ts'
import type { Registry } from './registry.ts'

export class Setup {
  readonly #hub: Hub
  readonly #registry: Registry
  readonly #known: KnownTypes
  #opening: Promise<void> | undefined
  #unwatch: () => Promise<void> = async () => {}
  #saying: Promise<void> | undefined
  #closed = false

  constructor(hub: Hub, registry: Registry, known: KnownTypes) {
    this.#hub = hub
    this.#registry = registry
    this.#known = known
  }

  /** Whether anybody has asked for it. */
  get isBegun(): boolean {
    return this.#opening !== undefined
  }

  /** Once; after a failure, such as an outage, it may be asked again: each part can be repeated. */
  open(): Promise<void> {
    this.#opening ??= this.#open().catch((error) => {
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }

  /** A type has come later: it is stored once the store is open. An outage only delays that. */
  typesCame(): void {
    this.#saying ??= this.#opening
      ?.then(() => this.#sayTypes())
      .catch(() => {})
      .finally(() => {
        this.#saying = undefined
      })
  }

  close(): void {
    this.#closed = true
  }

  unwatch(): Promise<void> {
    return this.#unwatch()
  }

  async #open(): Promise<void> {
    const { store, settings } = this.#hub
    await store.open()
    await checkStart(this.#hub)
    for (const [pool, terms] of settings.pools) {
      await store.configure({ pool, by: 'start', terms })
    }
    await this.#storeTypes()
    const { ageing, budget } = settings
    if (ageing !== undefined) await store.configure({ ageing })
    if (budget !== undefined) await store.configure({ budget })
    await this.#unwatch()
    this.#unwatch = await store.watch((hint) => this.#hub.hint(hint))
    await this.#known.refresh()
  }

  /** What was given of types, explicitly: all workers count by it, submitters go by it. */
  async #storeTypes(): Promise<void> {
    for (let next = this.#registry.unsaid; next !== undefined; next = this.#registry.unsaid) {
      const [type, setting] = next
      await this.#hub.store.configure({ type, setting })
      this.#registry.said(type, setting)
    }
  }

  async #sayTypes(): Promise<void> {
    try {
      await this.#hub.patiently(
        () => this.#storeTypes(),
        () => this.#closed,
      )
    } catch (error) {
      if (this.#closed && isUnavailable(error)) return
      complain(this.#hub.settings.logger, 'storing the settings of types failed', error)
    }
  }
}
