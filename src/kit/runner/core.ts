// Owns what the calls of one runner share: slots, keys, memory, breaker, figures.
// May never know how far a call has got: each is its own `Flight`.

import { type AxError, isAxError } from '../../core/errors.ts'
import { callable, countOf, refuseValue } from '../../core/options.ts'
import type { CallZombie } from '../../core/zombie.ts'
import { contextOf, nobody } from '../context.ts'
import { Deadlines } from '../deadlines.ts'
import { createLimiter, type Limiter } from '../limiter.ts'
import { Watch } from '../nested/watch.ts'
import type { CallOptions, Confirm, RunnerResult, RunnerStats } from '../runner.ts'
import { Signals } from '../signals.ts'
import { Silence } from '../silence.ts'
import { codeOf, isOverload, isTransient } from '../transient.ts'
import { Zombies } from '../zombies.ts'
import type { Reject, Resolve, Rider } from './crowd.ts'
import { breakerOpen, closedError, joinsItself, outcomeUnknown } from './errors.ts'
import { Flight } from './flight.ts'
import { Leftovers } from './keys.ts'
import { Memory } from './memory.ts'
import { Meter, type Outcome } from './meter.ts'
import { codeFor, type End, type FlightTerms } from './parts.ts'
import { type Body, type Due, type Run, type RunRoom, Seats, zombieOf } from './run.ts'
import { type CallTerms, callTermsOf, type Settings } from './settings.ts'
import { type SlotOwner, Slots } from './slots.ts'
import { type Feed, RunnerParty } from './waits.ts'

type Result = RunnerResult<unknown>

let resolveNext: Resolve
let rejectNext: Reject

/** Made once, not per call: it hands out what it is given through the two variables above. */
function keep(resolve: Resolve, reject: Reject): void {
  resolveNext = resolve
  rejectNext = reject
}

export class Core implements SlotOwner, RunRoom {
  readonly settings: Settings
  readonly confirm: Confirm | undefined
  readonly slots: Slots<Flight>
  /** For calls that keep their slot while they back off, if these are capped. */
  readonly sessions: Limiter | undefined
  readonly deadlines: Deadlines<Due>
  readonly graceMs: number
  readonly seats = new Seats()
  readonly meter: Meter
  readonly zombies: Zombies<Run, CallZombie>
  readonly leftovers: Leftovers
  readonly memory: Memory | undefined
  readonly riders = new Signals<Rider>((rider, reason) => rider.leave(reason))
  /** Calls that wait for their next attempt under the signal of their retries. */
  readonly retrying = new Signals<Flight>((flight, reason) => flight.abandoned(reason))
  /** Calls that have not ended, by key. */
  readonly flights = new Map<string, Flight>()
  /** Of those, the ones that others have joined. */
  readonly joins = new Set<Flight>()
  /** Batches that wait for something to end, and for the start of an item. */
  readonly feeds = new Set<Feed>()
  readonly starts = new Set<Feed>()
  readonly watch: Watch
  /** Bodies that have ended. */
  ended = 0
  /** Calls that wait, and slots in use for bodies nobody waits for. */
  waiting = 0
  stopping = 0
  /** What calls reject with once the runner is closed. */
  closed: AxError | undefined = undefined
  /** Of calls without options. */
  readonly #terms: FlightTerms
  readonly #silence: Silence

  constructor(settings: Settings) {
    const { runtime, remember, inSlotConcurrency } = settings
    this.settings = settings
    this.confirm = settings.confirm
    this.graceMs = settings.graceMs
    this.#terms = { ...settings.terms, core: this, context: nobody }
    this.deadlines = new Deadlines(runtime, (item) => item.due())
    this.slots = new Slots(settings.concurrency, settings, runtime, this.deadlines, this)
    this.sessions =
      inSlotConcurrency === Number.POSITIVE_INFINITY
        ? undefined
        : createLimiter(inSlotConcurrency, {
            maxQueue: settings.maxQueue,
            overflow: settings.overflow,
            enqueueTimeout: settings.patienceMs,
            nested: 'queue',
            runtime,
          })
    this.#silence = new Silence(runtime, () => this.flights.size + this.slots.active === 0)
    this.meter = new Meter(runtime, settings.watchers)
    this.zombies = new Zombies(settings.maxZombies, (run) => zombieOf(run, runtime))
    this.leftovers = new Leftovers(settings.confirm !== undefined)
    this.watch = new Watch(new RunnerParty(this), runtime)
    this.watch.enroll()
    this.memory = remember && new Memory(runtime, remember.ms, remember.max)
  }

  get isClosed(): boolean {
    return this.closed !== undefined
  }

  now(): number {
    return this.settings.runtime.monotonic()
  }

  // ------------------------------------------------------------------ calls

  /** `first`: a full queue does not take it in. */
  call(key: string, task: Body, options: CallOptions | undefined, first = true): Promise<Result> {
    const { settings } = this
    let terms: CallTerms = this.#terms
    try {
      if (typeof key !== 'string' || key === '') refuseValue('key', key, 'a text that is not empty')
      if (typeof task !== 'function') callable('task', task)
      if (options !== undefined) terms = callTermsOf(options, settings, terms)
    } catch (error) {
      return Promise.reject(error)
    }
    const signal = options?.signal
    this.meter.calls += 1
    if (this.closed !== undefined || signal?.aborted) {
      this.meter.cancelled += 1
      return Promise.reject(this.closed ?? signal?.reason)
    }
    const flight = this.flights.get(key)
    if (flight !== undefined) return this.#join(flight, signal)
    const past = this.memory?.get(key)
    if (past?.known) return Promise.resolve(this.#answer(key, past.result, past.attempts))
    const isUnknown = past !== undefined && !terms.idempotent
    if (isUnknown && this.confirm === undefined) {
      this.#share(key)
      const known = isAxError(past.error, 'OUTCOME_UNKNOWN')
      return Promise.reject(known ? past.error : outcomeUnknown(key, past.error))
    }
    const promise = new Promise<unknown>(keep) as Promise<Result>
    const resolve = resolveNext
    const reject = rejectNext
    const fresh = new Flight(key, task, this.#at(terms, promise), this.now(), resolve, reject)
    this.flights.set(key, fresh)
    if (signal !== undefined) fresh.listen(signal)
    fresh.open(first, isUnknown)
    return promise
  }

  /** The terms of a call that has just been made. */
  #at(terms: CallTerms, promise: Promise<unknown>): FlightTerms {
    const context = contextOf(promise)
    if (terms === this.#terms && context === nobody) return this.#terms
    return { ...terms, core: this, context }
  }

  /** Whether a call of that key would wait for another one, or for a body of it. */
  isTaken(key: string): boolean {
    return this.flights.has(key) || this.leftovers.of(key) !== 'none'
  }

  #join(flight: Flight, signal: AbortSignal | undefined): Promise<Result> {
    const since = this.now()
    if (flight.isHere) {
      this.meter.codes.add('NESTED_LIMIT')
      this.meter.failed += 1
      return Promise.reject(joinsItself(flight.key))
    }
    const outcome = new Promise<unknown>((resolve, reject) => {
      flight.listen(undefined).join(since, resolve, reject, signal)
    })
    this.joins.add(flight)
    this.watch.wait()
    this.#share(flight.key)
    return outcome as Promise<Result>
  }

  #answer(key: string, result: unknown, attempts: number): Result {
    this.#share(key)
    return { result, ms: 0, attempts, deduplicated: true }
  }

  #share(key: string): void {
    this.meter.deduplicated += 1
    this.meter.record(key, 0, 0, 0, 'deduplicated')
  }

  // ------------------------------------------------------------------ slots

  get concurrency(): number {
    return this.slots.limit
  }

  set concurrency(value: number) {
    const { adaptive } = this.settings
    const limit = countOf('concurrency', value, 1)
    if (adaptive === undefined) this.slots.limit = limit
    else {
      adaptive.limit = limit
      this.slots.limit = adaptive.limit
    }
    this.moved()
  }

  isOpen(): boolean {
    return !this.zombies.isFull && this.closed === undefined
  }

  /** Something has ended or changed: whoever waits for that is served. */
  moved(now?: number): void {
    this.slots.fill(now)
    if (this.feeds.size > 0) this.#feed()
    if (this.#silence.isAwaited) this.#silence.notice()
  }

  /** Somebody waits who would wait for ever. */
  stalls(): void {
    if (this.settings.patienceMs === Number.POSITIVE_INFINITY) this.watch.wait()
  }

  /** Resolves when something has ended or changed; rejects if that could never come. */
  freed(): Promise<void> {
    return new Promise<unknown>((resolve, reject) => {
      this.feeds.add({ resolve, reject, key: undefined })
      this.watch.wait()
    }) as Promise<void>
  }

  #feed(): void {
    const feeds = [...this.feeds]
    this.feeds.clear()
    for (const feed of feeds) feed.resolve(undefined)
  }

  /**
   * A body has settled, or its grace is over: its slot is free, unless the call wants it for its
   * next attempt (true: it has it), or the body goes on and may not be a zombie.
   */
  vacate(run: Run, hadEnded: boolean, wantsSlot: boolean): boolean {
    if (run.isOutlived) {
      const { key } = run.owner
      const isZombie = this.zombies.add(run)
      this.meter.log('warn', { key, attempt: run.number }, `${key} does not stop`)
      if (!isZombie) {
        if (!hadEnded) this.stopping += 1
        return false
      }
    }
    this.ended += 1
    if (hadEnded) this.stopping -= 1
    if (!wantsSlot) this.slots.release()
    return wantsSlot
  }

  /** A body has settled after its grace. */
  gone(run: Run): void {
    if (this.zombies.remove(run) !== undefined) {
      this.slots.release()
      this.stopping -= 1
    }
    this.leftovers.end(run.owner.key)?.proceed(false)
    this.moved()
  }

  // ---------------------------------------------------------------- lessons

  /** Whether the breaker lets nobody through, now and when a slot is free. */
  get isBroken(): boolean {
    const { breaker } = this.settings
    return breaker !== undefined && breaker.retryAfter(this.now()) > 0
  }

  refusal(): AxError {
    return breakerOpen(this.settings.breaker?.retryAfter(this.now()) ?? 0)
  }

  /** The breaker's pass for an attempt. */
  pass(now: number): number | undefined {
    const { breaker } = this.settings
    return breaker === undefined ? 0 : breaker.admit(now)
  }

  /** What an attempt shows about the downstream: once for each, when it is known. */
  learn(run: Run, outcome: Outcome, error: unknown): void {
    const { breaker, adaptive } = this.settings
    if (outcome === 'failure' || outcome === 'timeout') this.meter.codes.add(codeOf(error))
    if (breaker === undefined && adaptive === undefined) return
    const now = this.now()
    const isFault = outcome === 'timeout' || (outcome === 'failure' && isTransient(error))
    const isSuccess = outcome === 'success'
    if (breaker !== undefined && run.mark !== 'cancelled') {
      const before = breaker.state(now)
      breaker.record(run.pass, isSuccess ? 'success' : isFault ? 'failure' : 'neutral', now)
      const state = breaker.state(now)
      if (state !== before) this.meter.log('warn', { breaker: state }, `the breaker is ${state}`)
    }
    if (adaptive === undefined || run.isConfirm) return
    const isLoad = outcome === 'timeout' || (outcome === 'failure' && isOverload(error))
    const verdict = isSuccess ? 'ok' : isLoad ? 'overload' : 'neutral'
    adaptive.sample(run.startedAt, now, this.slots.active, verdict)
    this.slots.limit = adaptive.limit
  }

  /**
   * A call has ended, and its body has not: whoever calls for the key waits. What a body does after
   * its call was cancelled speaks for nothing: if it was the breaker's probe, the next call is it.
   */
  outlasted(run: Run): void {
    this.leftovers.stop(run.owner.key)
    if (run.mark === undefined) this.settings.breaker?.record(run.pass, 'neutral', this.now())
  }

  /** Counts an attempt that is over. */
  measure(run: Run, outcome: Outcome, error: unknown, now: number): void {
    const { meter } = this
    // Of a timeout it has learned at the deadline.
    if (run.mark !== 'timeout') this.learn(run, outcome, error)
    if (outcome === 'success') meter.landed += 1
    if (run.isConfirm && outcome === 'success') return
    if (run.isConfirm && run.number > 1) meter.retried += 1
    meter.attempts += 1
    meter.call.record(now - run.startedAt)
  }

  /**
   * Tells those who watch of an attempt that is over. A question whose answer is that there is
   * nothing left to do was none: no body was started. `isShared`: the work was another call's.
   */
  report(run: Run, outcome: Outcome, error: unknown, now: number, isShared: boolean): void {
    const { meter } = this
    const { number, queuedMs, owner } = run
    const { key } = owner
    if (!run.isConfirm || outcome !== 'success') {
      const code = outcome === 'success' ? undefined : codeFor(outcome, error)
      meter.record(key, number, queuedMs, now - run.startedAt, outcome, code)
    } else if (isShared) meter.record(key, 0, queuedMs, 0, 'deduplicated')
    else meter.log('info', { key, attempts: number - 1 }, `${key} has taken effect: confirmed`)
  }

  /** Counts a call that has ended. */
  count(end: End, ms: number, now: number): void {
    const { meter } = this
    if (end === 'succeeded') meter.success(ms, now)
    else if (end === 'refused') meter.failed += 1
    else {
      meter[end] += 1
      if (end === 'failed') meter.latency.record(ms)
    }
  }

  stats(): RunnerStats {
    const { meter, slots } = this
    return {
      calls: meter.calls,
      active: slots.active,
      stopping: this.stopping,
      waiting: this.waiting,
      zombies: this.zombies.size,
      succeeded: meter.succeeded,
      failed: meter.failed,
      cancelled: meter.cancelled,
      deduplicated: meter.deduplicated,
      attempts: meter.attempts,
      retried: meter.retried,
      codes: meter.codes.toObject(),
      latency: meter.latency.percentiles(),
      queueWait: meter.queueWait.percentiles(),
      call: meter.call.percentiles(),
      effectiveSuccessRate: meter.attempts === 0 ? 1 : Math.min(1, meter.landed / meter.attempts),
      throughput: meter.throughput(this.now()),
      concurrency: slots.limit,
    }
  }

  // -------------------------------------------------------------------- end

  idle(): Promise<void> {
    return this.#silence.wait()
  }

  close(): Promise<void> {
    if (this.closed === undefined) {
      this.closed = closedError()
      for (const flight of [...this.flights.values()]) flight.cancel('closed', this.closed)
      this.sessions?.clear(this.closed)
      this.moved()
    }
    return this.idle()
  }
}
