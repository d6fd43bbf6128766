// Owns opening the store: what this process was given is stored, hints begin, settings are read.
// May never store a default: what nobody has said must not overwrite what somebody has.

import type { Change } from '../store/store.ts'
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
    const { store } = this.#hub
    await this.#briefly(() => store.open())
    await this.#briefly(() => checkStart(this.#hub))
    await this.#briefly(() => this.#store(this.#everything()))
    await this.#briefly(() => this.#storeTypes())
    await this.#unwatch()
    this.#unwatch = await this.#briefly(() => store.watch((hint) => this.#hub.hint(hint)))
    await this.#briefly(() => this.#known.refresh())
  }

  #briefly<T>(ask: () => Promise<T>): Promise<T> {
    return this.#hub.briefly(ask, () => this.#closed)
  }

  /** What was given, explicitly: all workers count by it, submitters go by it. */
  #everything(): Change[] {
    const { pools, ageing, budget } = this.#hub.settings
    const changes: Change[] = []
    for (const [pool, terms] of pools) changes.push({ pool, by: 'start', terms })
    if (ageing !== undefined) changes.push({ ageing })
    if (budget !== undefined) changes.push({ budget })
    return changes
  }

  /** In one step, with what is not stored yet of types. */
  async #store(others: readonly Change[]): Promise<void> {
    const types = this.#registry.unsaid
    const changes: Change[] = [...others, ...types.map(([type, setting]) => ({ type, setting }))]
    if (changes.length === 0) return
    await this.#hub.store.configure(...changes)
    for (const [type, setting] of types) this.#registry.said(type, setting)
  }

  /** A type may come while others are being stored. */
  async #storeTypes(): Promise<void> {
    while (this.#registry.unsaid.length > 0) await this.#store([])
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
