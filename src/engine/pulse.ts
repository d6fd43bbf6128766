// Owns the heartbeat: prolongs what this process holds, and hears what it has lost.
// May never settle a job.

import type { Timer } from '../kit/runtime.ts'
import type { ExtendAnswer } from '../store/store.ts'
import type { Hub } from './hub.ts'
import type { Registry } from './registry.ts'
import { MARGIN, type Run } from './run.ts'
import type { Worker } from './worker.ts'

/** Beats per lease: two may get lost and the lease still holds. */
const BEATS = 3

const NOTHING = Object.freeze({})

export class Pulse {
  readonly #hub: Hub
  readonly #worker: Worker
  readonly #registry: Registry
  #live = false
  #timer: Timer | undefined
  #fence: Timer | undefined
  #next: Promise<void> | undefined
  /** The highest lease number of an earlier answer: unlisted leases up to it were never heard. */
  #mark = 0

  constructor(hub: Hub, worker: Worker, registry: Registry) {
    this.#hub = hub
    this.#worker = worker
    this.#registry = registry
  }

  /** Says who is here. Where hints are certain, the store is in this process: once is enough. */
  async start(): Promise<void> {
    this.#live = true
    await this.#hub.briefly(
      () => this.announce(),
      () => this.#worker.isStopping,
    )
    if (this.#isRemote) this.#arm()
  }

  async announce(): Promise<void> {
    if (!this.#live) return
    const { store, holder, settings } = this.#hub
    const ttlMs = this.#isRemote ? settings.leaseMs : Number.MAX_SAFE_INTEGER
    const { served: types } = this.#registry
    const zombies = this.#worker.zombieCount
    const beat = { holder, name: settings.name, types, zombies, settings: this.#said }
    if (this.#worker.isStopping) await store.beat({ ...beat, full: false, ttlMs: 0 })
    else await store.beat({ ...beat, full: this.#worker.isFull, ttlMs })
  }

  /** What this process was given explicitly, for whoever compares it with others. */
  get #said(): string {
    const { given } = this.#registry
    return JSON.stringify({ ...this.#hub.settings.said, types: given })
  }

  /** The worker has something to hold. */
  busy(): void {
    if (!this.#isRemote) this.#arm()
    else if (this.#fence === undefined) this.#armFence()
  }

  /**
   * The worker holds nothing and asks for nothing: what is left was never heard of. `heard` is
   * called for each answer of the store.
   */
  async stop(heard: () => void = () => {}): Promise<void> {
    if (!this.#live) return
    this.#live = false
    this.#timer?.cancel()
    this.#fence?.cancel()
    const { store, holder, settings, runtime } = this.#hub
    if (this.#isRemote) {
      const until = runtime.monotonic() + settings.leaseMs
      const extend = () => this.#extend().then(heard)
      // The first answer tells how far lease numbers have come, the second call gives back.
      await this.#hub.patiently(extend, () => runtime.monotonic() > until)
      await this.#hub.patiently(extend, () => runtime.monotonic() > until)
    }
    const gone = { types: [], full: false, zombies: 0, settings: '', ttlMs: 0 }
    await store.beat({ holder, name: settings.name, ...gone })
  }

  /** Whether a lease may have run out unnoticed: this process was stalled or cut off. */
  get isLate(): boolean {
    const now = this.#hub.runtime.monotonic()
    for (const run of this.#worker.runs.values()) if (run.safeUntil <= now) return true
    return false
  }

  /** Prolongs everything held, once. */
  async beat(): Promise<void> {
    if (this.#live) await this.#worker.turn(() => this.#extend())
  }

  /** A beat that begins after this call, shared by all who ask before it does. */
  next(): Promise<void> {
    this.#next ??= this.#beatNext()
    return this.#next
  }

  async #beatNext(): Promise<void> {
    // A turn may begin at once, and would then be over before it is known as the next one.
    await null
    await this.#worker.turn(() => {
      this.#next = undefined
      return this.#extend()
    })
  }

  get #isRemote(): boolean {
    return this.#hub.store.traits.lossyHints
  }

  #arm(): void {
    if (!this.#live || this.#timer !== undefined) return
    const ms = this.#hub.settings.leaseMs / BEATS
    this.#timer = this.#hub.runtime.after(ms, () => void this.#tick(), { ref: false })
  }

  async #tick(): Promise<void> {
    this.#timer = undefined
    try {
      if (this.#isRemote) await this.announce()
      await this.beat()
      this.#hub.outage.answered('a heartbeat')
    } catch (error) {
      this.#hub.outage.failed('a heartbeat', error)
    }
    if (this.#isRemote || this.#worker.runs.size > 0) this.#arm()
  }

  async #extend(): Promise<void> {
    const { store, holder, runtime, settings } = this.#hub
    const runs = [...this.#worker.runs.values()]
    const held = runs.map(({ job, lease, isStuck, note }) => {
      const said = note === undefined ? NOTHING : { note }
      return { id: job.id, lease: lease.number, stuck: isStuck, ...said }
    })
    const askedAt = runtime.monotonic()
    const ask = { holder, held, leaseMs: settings.leaseMs, upTo: this.#upTo }
    const answer = this.#hub.heard(await store.extend(ask, this.#hub.tell))
    this.#mark = answer.mark
    this.#hear(runs, answer, askedAt + settings.leaseMs)
  }

  /** Where an end could not be written, an unlisted lease is not one that nobody heard of. */
  get #upTo(): number {
    return this.#worker.gaveUp ? 0 : this.#mark
  }

  #hear(runs: readonly Run[], answer: ExtendAnswer, safeUntil: number): void {
    for (const [index, run] of runs.entries()) {
      const lease = answer.leases[index]
      if (lease?.status === 'lost') this.#worker.lost(run)
      else {
        run.safeUntil = safeUntil
        if (lease?.status === 'cancelled') this.#worker.cancelled(run, lease.lease)
        if (lease?.status === 'evicted') this.#worker.evicted(run, lease.by)
      }
    }
  }

  /**
   * A worker that cannot reach the store stops its bodies before anybody else can start them.
   * A store in this process is always reached, so there it is the store alone that decides.
   */
  #armFence(): void {
    const runs = [...this.#worker.runs.values()].filter((run) => run.mark === undefined)
    this.#fence = undefined
    if (runs.length === 0 || !this.#live) return
    const { runtime, settings } = this.#hub
    const margin = settings.leaseMs * MARGIN
    const first = Math.min(...runs.map((run) => run.safeUntil)) - margin
    const check = () => {
      const now = runtime.monotonic()
      for (const run of runs) if (run.safeUntil - margin <= now) this.#worker.fence(run)
      this.#armFence()
    }
    this.#fence = runtime.after(Math.max(1, first - runtime.monotonic()), check, { ref: false })
  }
}
