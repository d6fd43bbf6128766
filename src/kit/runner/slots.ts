// Owns the slots of a runner and the queue in front of them.
// May never give out more than there are, or let a newcomer overtake the queue.

import type { AxError } from '../../core/errors.ts'
import { type Context, enter } from '../context.ts'
import type { Deadlines } from '../deadlines.ts'
import { type Guest, Lineup } from '../lineup.ts'
import { enqueueTimeout, queueOverflow } from '../refusals.ts'
import type { Runtime } from '../runtime.ts'
import type { Due } from './run.ts'

/** Whoever wants a slot. */
export interface Claim extends Guest, Due {
  /** The async context in which it begins. */
  readonly context: Context
  /** Kept by the slots. */
  waitsSince: number
  /** It has a slot, at that time of the monotonic clock. Must not throw. */
  begin(now: number): void
  /** It will not get one. Must not throw. */
  refused(error: unknown, queuedMs: number): void
}

export interface SlotTerms {
  readonly maxQueue: number
  readonly overflow: 'reject' | 'wait'
  readonly patienceMs: number
}

/** Who has a say in the matter. */
export interface SlotOwner {
  /** Whether anything may start at all. */
  isOpen(): boolean
  /** Somebody waits who would wait for ever. */
  stalls(): void
}

/** Bodies that start one after another before timers and I/O have their turn: some 0.3 ms. */
const STREAK = 256

export class Slots<C extends Claim> {
  /** How many there are. After raising it, `fill`. */
  limit: number
  /** How many are in use. */
  active = 0
  readonly #terms: SlotTerms
  readonly #runtime: Runtime
  readonly #deadlines: Deadlines<Due>
  readonly #owner: SlotOwner
  readonly #lineup: Lineup<C>
  #isFilling = false
  #streak = 0
  #isResting = false

  constructor(
    limit: number,
    terms: SlotTerms,
    runtime: Runtime,
    deadlines: Deadlines<Due>,
    owner: SlotOwner,
  ) {
    this.limit = limit
    this.#terms = terms
    this.#lineup = new Lineup(terms.maxQueue)
    this.#runtime = runtime
    this.#deadlines = deadlines
    this.#owner = owner
  }

  /** Claims in the queue and in the lobby. */
  get waiting(): number {
    return this.#lineup.size
  }

  /** Whether a claim would be served at once. */
  get isFree(): boolean {
    if (this.active >= this.limit || this.#lineup.size > 0) return false
    return this.#owner.isOpen()
  }

  /**
   * Serves the claim at once, or when its turn comes. `first`: a full queue refuses it. `since`:
   * when its wait began.
   */
  claim(claim: C, first: boolean, since: number, now: number): void {
    claim.waitsSince = since
    if (this.isFree) {
      this.active += 1
      claim.begin(now)
      return
    }
    if (!first) this.#lineup.enqueue(claim)
    else if (!this.#lineup.isFull || this.#terms.overflow === 'wait') this.#lineup.join(claim)
    else {
      claim.refused(this.#full(), now - since)
      return
    }
    this.#limitWait(claim, now)
  }

  /** Lets the claim wait for something else first; that is part of its wait. */
  park(claim: C, now: number): void {
    claim.waitsSince = now
    claim.place = 'parked'
    this.#limitWait(claim, now)
  }

  /** What a parked claim has waited for has come: it joins the queue, however full that is. */
  unpark(claim: C): void {
    this.withdraw(claim)
    this.claim(claim, false, claim.waitsSince, this.#runtime.monotonic())
  }

  /** Takes back a claim that waits. */
  withdraw(claim: C): void {
    if (claim.place === 'parked') claim.place = 'nowhere'
    else this.#lineup.leave(claim)
    this.#deadlines.drop(claim)
  }

  /** A claim that waits is refused; without an error its patience is at an end. */
  expire(claim: C, error: unknown): void {
    const waitedMs = this.#runtime.monotonic() - claim.waitsSince
    this.withdraw(claim)
    const refusal = error ?? enqueueTimeout(this.#terms.patienceMs, this.waiting)
    claim.refused(refusal, waitedMs)
  }

  /** Of those who wait for a slot at most `most`: the newest, and those who are next. */
  some(most: number): Iterable<C> {
    return this.#lineup.some(most)
  }

  /** A slot is not needed any more; nothing starts before `fill`. */
  release(): void {
    this.active -= 1
  }

  /** Serves whoever waits for as long as there are slots. `now`: what the clock has just shown. */
  fill(now = Number.NaN): void {
    // A body that starts may come back here: the loop that runs will see what has changed.
    if (this.#isFilling || this.#isResting) return
    this.#isFilling = true
    let time = now
    while (this.active < this.limit && this.#owner.isOpen()) {
      const claim = this.#lineup.next()
      if (claim === undefined) break
      if (claim.index >= 0) this.#deadlines.drop(claim)
      this.active += 1
      const begunAt = Number.isNaN(time) ? this.#runtime.monotonic() : time
      time = Number.NaN
      enter(claim.context, () => claim.begin(begunAt))
      this.#streak += 1
      if (this.#streak >= STREAK && this.#lineup.size > 0) {
        this.#rest()
        break
      }
    }
    this.#isFilling = false
  }

  /** Goes on after a turn: what only uses promises would keep timers and I/O out for ever. */
  #rest(): void {
    this.#isResting = true
    this.#runtime.soon(() => {
      this.#isResting = false
      this.#streak = 0
      this.fill()
    })
  }

  #limitWait(claim: C, now: number): void {
    const { patienceMs } = this.#terms
    if (patienceMs === Number.POSITIVE_INFINITY) this.#owner.stalls()
    else this.#deadlines.set(claim, Math.max(0, claim.waitsSince + patienceMs - now))
  }

  #full(): AxError {
    const { active, limit } = this
    const { maxQueue } = this.#terms
    return queueOverflow({ maxQueue, active, waiting: this.waiting, concurrency: limit })
  }
}
