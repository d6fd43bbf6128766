// Owns the naive books of what is set: rates by their starts, breakers by what they were shown,
// pools by what was said of them. May never share a line with the code that it watches.

import type { BreakerTerms } from '../../core/breaker.ts'
import type { RateTerms } from '../../core/gcra.ts'
import type { Elastic, PoolTerms, PoolTermsChange, Preempt } from '../../core/settings.ts'

/** Starts against a rate, all of them since its terms were set. */
export class RateBook {
  readonly terms: RateTerms
  readonly takes: number[] = []
  /** Microseconds: what was owed when the terms were set. */
  readonly #owedUntil: number

  constructor(terms: RateTerms, owedUntil = 0) {
    this.terms = terms
    this.#owedUntil = owedUntil
  }

  get #isOwnBurst(): boolean {
    const { count, burst } = this.terms
    return burst !== Math.max(1, Math.floor(count / 50))
  }

  /** Microseconds between two. */
  get spacing(): number {
    const { count, perMs, burst } = this.terms
    return Math.max(1, Math.ceil((perMs * 1_000) / (this.#isOwnBurst ? count : count - burst + 1)))
  }

  /** What any half-open window may have. */
  get bound(): number {
    const { count, burst } = this.terms
    return this.#isOwnBurst ? count + burst - 1 : count
  }

  /** Until when it is filled, with so many more at `now`. */
  filled(more: number, now: number): number {
    const { spacing } = this
    let until = this.#owedUntil
    for (const at of this.takes) until = Math.max(until, at * 1_000) + spacing
    for (let index = 0; index < more; index += 1) until = Math.max(until, now * 1_000) + spacing
    return until
  }

  /** The first millisecond at which one more may come, after so many more at `now`. */
  opensAt(more: number, now: number): number {
    const { burst } = this.terms
    return Math.ceil((this.filled(more, now) - (burst - 1) * this.spacing) / 1_000)
  }

  /** Starts in the window that ends with `now`. */
  inWindow(now: number): number {
    return this.takes.filter((at) => at > now - this.terms.perMs).length
  }
}

/** Other terms: what is owed is owed at the new price, no more than may come at once. */
export function successor(
  book: RateBook | null,
  terms: RateTerms | null,
  now: number,
): RateBook | null {
  if (terms === null) return null
  if (book === null) return new RateBook(terms)
  const next = new RateBook(terms)
  const filled = book.filled(0, now)
  const isSame = next.spacing === book.spacing && terms.burst === book.terms.burst
  if (isSame && next.bound === book.bound && terms.perMs === book.terms.perMs) return book
  if (isSame) return new RateBook(terms, filled)
  const ahead = Math.max(filled - now * 1_000, 0)
  const owed = Math.min(Math.ceil(ahead / book.spacing), terms.burst)
  return new RateBook(terms, now * 1_000 + owed * next.spacing)
}

export type Shown = 'success' | 'failure' | 'neutral'

/** A breaker by the leases that count for it and what they have shown. */
export class BreakerBook {
  readonly terms: BreakerTerms
  mode: 'closed' | 'open' | 'half-open' = 'closed'
  until = 0
  /** The lease of the probe. */
  probe: number | null = null
  #counted = new Set<number>()
  #shown: Shown[] = []

  constructor(terms: BreakerTerms) {
    this.terms = terms
  }

  /** Whether it lets somebody through, when it will, or Infinity: only the probe can tell. */
  opensAt(now: number): number {
    if (this.mode === 'closed') return 0
    if (this.mode === 'open') return this.until > now ? this.until : 0
    return this.probe === null ? 0 : Number.POSITIVE_INFINITY
  }

  /** What it is called. */
  stateAt(now: number): 'closed' | 'open' | 'half-open' {
    return this.mode === 'open' && now >= this.until ? 'half-open' : this.mode
  }

  /** True if this start is a probe. */
  started(lease: number): boolean {
    if (this.mode === 'open') this.#turn('half-open')
    if (this.mode === 'half-open') this.probe = lease
    this.#counted.add(lease)
    return this.mode === 'half-open'
  }

  /** What an attempt has shown; answers whether that has changed anything. */
  show(lease: number, shown: Shown, now: number): 'opens' | 'closes' | undefined {
    if (!this.#counted.delete(lease)) return undefined
    if (this.mode === 'half-open') {
      this.probe = null
      if (shown === 'success') this.#turn('closed')
      if (shown === 'failure') this.#open(now)
      return shown === 'success' ? 'closes' : shown === 'failure' ? 'opens' : undefined
    }
    if (shown === 'neutral') return undefined
    this.#shown.push(shown)
    if (shown === 'success' || !this.#isTooMuch()) return undefined
    this.#open(now)
    return 'opens'
  }

  #isTooMuch(): boolean {
    const { failures, failureRate, window } = this.terms
    const row = this.#shown.length - 1 - this.#shown.lastIndexOf('success')
    if (failures > 0 && row >= failures) return true
    const last = this.#shown.slice(-window)
    const failed = last.filter((each) => each === 'failure').length
    return failureRate > 0 && last.length === window && failed >= failureRate * window
  }

  #open(now: number): void {
    this.#turn('open')
    this.until = now + this.terms.resetMs
  }

  #turn(mode: BreakerBook['mode']): void {
    this.mode = mode
    this.probe = null
    this.#shown = []
    this.#counted = new Set()
  }
}

/** A pool as it is run. */
export interface PoolSeen {
  start: PoolTerms
  operator: PoolTerms
  rate: RateBook | null
  breaker: BreakerBook | null
}

export class PoolBook implements PoolSeen {
  start: PoolTerms = {}
  operator: PoolTerms = {}
  rate: RateBook | null = null
  breaker: BreakerBook | null = null

  /** The operators' word, else what processes brought, else nothing. */
  #said<K extends keyof PoolTerms>(name: K): PoolTerms[K] {
    return name in this.operator ? this.operator[name] : this.start[name]
  }

  get concurrency(): number {
    return this.#said('concurrency') ?? 10
  }

  get paused(): boolean {
    return this.#said('paused') === true
  }

  /** Of one worker; Infinity where the whole pool's cap comes first. */
  get share(): number {
    const own = this.#said('perWorker') ?? Number.POSITIVE_INFINITY
    return own < this.concurrency ? own : Number.POSITIVE_INFINITY
  }

  /** As it was said; Infinity if it was not. */
  get perWorker(): number {
    return this.#said('perWorker') ?? Number.POSITIVE_INFINITY
  }

  get maxQueue(): number {
    return this.#said('maxQueue') ?? Number.POSITIVE_INFINITY
  }

  get overflow(): 'reject' | 'wait' {
    return this.#said('overflow') ?? 'reject'
  }

  get elastic(): Elastic | null {
    return this.#said('elastic') || null
  }

  get preempt(): Preempt | null {
    return this.#said('preempt') || null
  }

  /** A cap as it is for urgent jobs. */
  raised(cap: number): number {
    const { elastic } = this
    if (elastic === null || cap === 0 || !Number.isFinite(cap)) return cap
    return cap + Math.max(1, Math.floor(cap * elastic.ratio))
  }

  configure(by: 'start' | 'operator', change: PoolTermsChange, now: number): void {
    const terms: Record<string, unknown> = { ...this[by] }
    for (const [name, value] of Object.entries(change)) {
      if (value === undefined) continue
      if (value === null) delete terms[name]
      else terms[name] = value
    }
    this[by] = terms as PoolTerms
    this.rate = successor(this.rate, this.#said('rate') || null, now)
    const breaker = this.#said('breaker') || null
    if (breaker === null) this.breaker = null
    else if (this.breaker === null || isOther(this.breaker.terms, breaker)) {
      this.breaker = new BreakerBook(breaker)
    }
  }
}

function isOther(one: BreakerTerms, other: BreakerTerms): boolean {
  const names = ['failures', 'failureRate', 'window', 'resetMs'] as const
  return names.some((name) => one[name] !== other[name])
}
