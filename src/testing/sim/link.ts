// Owns the way between one process and the store: each call is a request packet and an answer
// packet, which may be late, lost, doubled and out of order.
// May never look into what a call means, or hand one side an object that the other one keeps.

import { AxError } from '../../core/errors.ts'
import type { Timer } from '../../kit/runtime.ts'
import type { Hint, Store } from '../../store/store.ts'
import { copy } from './copy.ts'
import type { Coverage } from './coverage.ts'
import type { LinkSettings } from './plan.ts'
import type { Random } from './random.ts'
import type { SimNode } from './world.ts'

export type CallName = Exclude<keyof Store, 'traits' | 'watch'>

/** One call as it arrives at the store. `heard` becomes true once the caller has its answer. */
export interface Call {
  readonly node: SimNode
  readonly name: CallName
  readonly args: readonly unknown[]
  /** When the caller made it. */
  readonly sentAt: number
  heard: boolean
}

/** The store's side: does the call and answers with a copy. */
export interface Far {
  act(call: Call): Promise<unknown>
  /** Registers for hints; the function it returns ends that. */
  watch(onHint: (hint: Hint) => void): Promise<() => Promise<void>>
  /** How often the store has restarted: packets of an earlier time are lost. */
  readonly restarts: number
  /** Until when hints are lost altogether. */
  readonly deafUntil: number
}

/** A cut in the way, in one direction or in both. */
export interface Cut {
  until: number
  way: 'both' | 'to' | 'from'
}

const CALLS: readonly CallName[] = [
  'insert',
  'replace',
  'lease',
  'overdue',
  'apply',
  'extend',
  'configure',
  'settings',
  'beat',
  'get',
  'list',
  'count',
  'dependents',
  'standing',
  'workers',
  'inspect',
  'events',
  'time',
]

/** The port as one node sees it, through its link. */
export class Link {
  readonly store: Store
  readonly cut: Cut = { until: 0, way: 'both' }
  readonly #node: SimNode
  readonly #far: Far
  readonly #settings: LinkSettings
  readonly #coverage: Coverage
  readonly #chance: Random
  readonly #healthyMs: number
  /** When the packet before will be there, in each direction: for links that keep the order. */
  readonly #arrival = { to: 0, from: 0 }

  constructor(
    node: SimNode,
    far: Far,
    settings: LinkSettings,
    coverage: Coverage,
    leaseMs: number,
  ) {
    this.#healthyMs = Math.floor(leaseMs / 20)
    this.#node = node
    this.#far = far
    this.#settings = settings
    this.#coverage = coverage
    this.#chance = node.world.stream(`link ${node.name} ${node.life}`)
    this.store = this.#makeStore()
  }

  #makeStore(): Store {
    const calls = CALLS.map((name) => [
      name,
      (...args: readonly unknown[]) => this.#call(name, args),
    ])
    return {
      ...Object.fromEntries(calls),
      traits: { name: 'simulated', keepsLive: true, lossyHints: true },
      watch: (onHint: (hint: Hint) => void) => this.#watch(onHint),
      open: () => Promise.resolve(),
      // The store lives on; only this process leaves it.
      close: () => Promise.resolve(),
    } as Store
  }

  #call(name: CallName, args: readonly unknown[]): Promise<unknown> {
    const node = this.#node
    if (!node.alive) return new Promise(() => {})
    const sent = args.map(copy)
    const held = sent[0] as { readonly holder?: string } | undefined
    if (name === 'lease' && held?.holder !== undefined) node.holder = held.holder
    const call: Call = { node, name, args: sent, sentAt: node.world.time, heard: false }
    const restarts = this.#far.restarts
    return new Promise((resolve, reject) => {
      const ms = this.#settings.clientTimeoutMs
      const timer = node.after(ms, () => settle.fail('no answer in time'))
      const settle = this.#settler(call, timer, resolve, reject)
      if (this.#happens('crashOnSend', 'crash between two steps')) return node.crash()
      if (this.#happens('busy', 'busy')) return this.#deliver('from', () => settle.fail('busy'))
      if (this.#isLost('to', 'loseRequest', 'request lost')) return
      const act = () => this.#arrive(call, restarts, settle)
      this.#send('to', act)
      if (this.#happens('duplicate', 'delivered twice')) this.#send('to', act)
    })
  }

  #settler(
    call: Call,
    timer: Timer,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ): { succeed(answer: unknown): void; fail(why: string): void } {
    let open = true
    return {
      succeed: (answer: unknown) => {
        if (!open) return
        open = false
        timer.cancel()
        call.heard = true
        if (this.#happens('crashOnAnswer', 'crash between two steps')) this.#node.crash()
        else resolve(answer)
      },
      fail: (why: string) => {
        if (!open) return
        open = false
        timer.cancel()
        const text = `No answer to ${call.name}: ${why}. Whether it happened is unknown.`
        reject(new AxError('STORE_UNAVAILABLE', text))
      },
    }
  }

  /** The request is there: the store acts, and its answer goes its own way. */
  async #arrive(
    call: Call,
    restarts: number,
    settle: { succeed(answer: unknown): void; fail(why: string): void },
  ): Promise<void> {
    if (this.#far.restarts !== restarts) return
    if (this.#happens('failBefore', 'fails before doing it')) {
      return this.#deliver('from', () => settle.fail('it failed before'))
    }
    const answer = await this.#far.act(call)
    if (this.#happens('failAfter', 'does it and fails')) {
      return this.#deliver('from', () => settle.fail('it failed after'))
    }
    if (this.#isLost('from', 'loseAnswer', 'does it and loses the answer')) return
    this.#deliver('from', () => {
      if (this.#far.restarts === restarts) settle.succeed(answer)
    })
  }

  async #watch(onHint: (hint: Hint) => void): Promise<() => Promise<void>> {
    return this.#far.watch((hint) => {
      if (!this.#node.alive || this.#node.world.time < this.#far.deafUntil) return
      if (this.#isLost('from', 'loseHint', 'hint lost')) return
      const sent = copy(hint) as Hint
      this.#deliver('from', () => onHint(sent))
      if (this.#happens('duplicateHint', 'hint doubled')) this.#deliver('from', () => onHint(sent))
    })
  }

  #isLost(way: 'to' | 'from', rate: 'loseRequest' | 'loseAnswer' | 'loseHint', name: string) {
    const { cut } = this
    if (this.#node.world.time < cut.until && (cut.way === 'both' || cut.way === way)) {
      this.#coverage.fault('partition')
      return true
    }
    return this.#happens(rate, name)
  }

  #happens(rate: keyof LinkSettings & string, name: string): boolean {
    const happens = this.#chance.next() < Number(this.#settings[rate])
    if (!happens || this.#node.world.healed) return false
    this.#coverage.fault(name)
    this.#node.world.trace.add(`${this.#node.world.time} ${this.#node.label} ${name}`)
    return true
  }

  /** A packet to the store: whoever sent it, it arrives; its sender may be dead by then. */
  #send(way: 'to', run: () => Promise<void>): void {
    this.#node.world.after(this.#delay(way), run)
  }

  /** A packet to the node. */
  #deliver(way: 'from', run: () => void): void {
    this.#node.after(this.#delay(way), run)
  }

  #delay(way: 'to' | 'from'): number {
    const { latencyMs, jitterMs, lateMs, reorder } = this.#settings
    const { world } = this.#node
    const jitter = Math.floor(this.#chance.next() * jitterMs)
    // A healthy network is much faster than a lease, or nobody could keep one.
    let delay = world.healed ? Math.min(latencyMs, this.#healthyMs) : latencyMs + jitter
    if (this.#happens('late', 'late')) delay += Math.floor(this.#chance.next() * lateMs)
    if (world.healed) return delay
    if (!reorder) delay = Math.max(delay, this.#arrival[way] - world.time)
    else if (world.time + delay < this.#arrival[way]) this.#coverage.fault('reordered')
    this.#arrival[way] = Math.max(this.#arrival[way], world.time + delay)
    return delay
  }
}
