// Owns one operation from its call to its end: its waits, its attempts, its outcome.
// May never end twice, run two bodies at a time, or go on when nobody waits for it.

import { isAxError } from '../../core/errors.ts'
import { type Context, enter } from '../context.ts'
import { tell } from '../hooks.ts'
import type { Place } from '../lineup.ts'
import type { Waiter } from '../nested/graph.ts'
import { retryDelay } from '../retry.ts'
import { codeOf } from '../transient.ts'
import type { Core } from './core.ts'
import { Crowd, type Reject, type Resolve } from './crowd.ts'
import { outcomeUnknown, timedOut } from './errors.ts'
import type { Outcome } from './meter.ts'
import {
  answerOf,
  cancelCode,
  type End,
  Final,
  type FlightTerms,
  isWaiting,
  More,
  outcomeOf,
  type State,
} from './parts.ts'
import { type Body, Run, type RunOwner, type RunRoom } from './run.ts'
import type { Claim } from './slots.ts'

/**
 * There may be a million of these in a queue: what calls have in common is in their terms, and
 * what few of them have is made when it is needed.
 */
export class Flight implements Claim, RunOwner, Waiter {
  readonly key: string
  readonly since: number
  resolve: Resolve
  reject: Reject
  // Its place in the queue, which the slots keep.
  place: Place = 'nowhere'
  index = -1
  readonly #task: Body
  readonly #terms: FlightTerms
  state: State = 'between'
  /** Attempts that were begun; a question that failed counts as one. */
  #attempts = 0
  #hasWorked = false
  run: Run | undefined = undefined
  crowd: Crowd | undefined = undefined
  more: More | undefined = undefined

  constructor(
    key: string,
    task: Body,
    terms: FlightTerms,
    since: number,
    resolve: Resolve,
    reject: Reject,
  ) {
    this.key = key
    this.#task = task
    this.#terms = terms
    this.since = since
    this.resolve = resolve
    this.reject = reject
  }

  get priority(): number {
    return this.#terms.priority
  }

  get context(): Context {
    return this.#terms.context
  }

  get room(): RunRoom {
    return this.#terms.core
  }

  get waitsSince(): number {
    return this.more?.waitsSince ?? this.since
  }

  set waitsSince(time: number) {
    if (time !== this.since) this.#rest.waitsSince = time
  }

  get isEnded(): boolean {
    return this.state === 'ended'
  }

  get #core(): Core {
    return this.#terms.core
  }

  get #rest(): More {
    this.more ??= new More()
    return this.more
  }

  get #isUnknown(): boolean {
    return this.more?.isUnknown === true
  }

  /** Somebody waits who can leave: the first caller under a signal, or one who joins. */
  listen(signal: AbortSignal | undefined): Crowd {
    this.crowd ??= new Crowd(this.#core.riders, this, signal)
    return this.crowd
  }

  /** Whether it is the body of this operation that calls, or something which that waits for. */
  get isHere(): boolean {
    return this.run?.isSettled === false && this.run.isHere
  }

  abandoned(reason: unknown): void {
    enter(this.context, () => this.cancel('cancelled', reason))
  }

  /**
   * Begins. `first`: a full queue does not take it in. `isUnknown`: an earlier call of the key may
   * have taken effect.
   */
  open(first: boolean, isUnknown: boolean): void {
    if (isUnknown) this.#rest.isUnknown = true
    const core = this.#core
    const left = core.leftovers.of(this.key)
    if (core.isBroken) this.refused(core.refusal(), 0)
    else if (left === 'none') this.#queue(first, this.since)
    else if (left === 'outlived' && core.confirm !== undefined) {
      this.#rest.isUnknown = true
      this.#queue(first, this.since)
    } else {
      this.#to('queued')
      core.leftovers.wait(this)
      core.slots.park(this, this.since)
    }
  }

  /** Nothing of its key is in its way any more. */
  proceed(isUnknown: boolean): void {
    if (isUnknown) this.#rest.isUnknown = true
    enter(this.context, () => this.#core.slots.unpark(this))
  }

  /** What it has waited for has succeeded: that is its result, too. */
  answer(result: unknown, attempts: number): void {
    this.#core.slots.withdraw(this)
    this.#attempts = attempts
    this.#end('deduplicated', result)
    this.#core.meter.record(this.key, 0, 0, 0, 'deduplicated')
  }

  #queue(first: boolean, now: number): void {
    this.#to('queued')
    const { sessions, slots } = this.#core
    if (this.#terms.inSlot && sessions !== undefined && this.more?.leaveSession === undefined) {
      this.#enterSession(first, now)
    } else slots.claim(this, first, now, now)
  }

  /** A place among those who keep their slot while they back off, and then the slot. */
  #enterSession(first: boolean, since: number): void {
    const core = this.#core
    const more = this.#rest
    const hold = () =>
      new Promise<void>((leave) => {
        more.leaveSession = leave
        if (this.isEnded) leave()
        else core.slots.claim(this, first, since, core.now())
      })
    more.session = new AbortController()
    const options = { priority: this.priority, signal: more.session.signal }
    core.stalls()
    core.sessions?.(hold, options).catch((error) => this.refused(error, core.now() - since))
  }

  due(): void {
    this.giveUp(undefined)
  }

  /** It waits no longer: with that error, or because its patience is at an end. */
  giveUp(error: unknown): void {
    if (this.place === 'parked') this.#core.leftovers.leave(this)
    if (this.place === 'nowhere') this.more?.session?.abort(error)
    else enter(this.context, () => this.#core.slots.expire(this, error))
  }

  /** An attempt found no place. Where one before it ran, and nobody knows how far, that counts. */
  refused(refusal: unknown, queuedMs: number): void {
    if (this.isEnded) return
    const { meter } = this.#core
    const isUnknown = this.#isUnknown && this.#attempts > 0
    const error = isUnknown ? outcomeUnknown(this.key, refusal) : refusal
    const code = codeOf(error)
    if (queuedMs > 0) meter.queueWait.record(queuedMs)
    meter.codes.add(code)
    this.#end(this.#attempts === 0 && queuedMs === 0 ? 'refused' : 'failed', error)
    meter.record(this.key, this.#attempts + 1, queuedMs, 0, 'failure', code)
    this.#core.moved()
  }

  #backOff(delay: number, inSlot: boolean): void {
    const { runtime } = this.#core.settings
    const { signal } = this.#terms.retry
    this.#to(inSlot ? 'holding' : 'backing')
    if (signal !== undefined) this.#core.retrying.add(signal, this)
    this.#rest.timer = runtime.after(delay, () => enter(this.context, () => this.#again()))
  }

  #again(): void {
    const now = this.#core.now()
    if (this.state === 'holding') this.#attempt(0, now)
    else this.#queue(false, now)
  }

  /** Ends it. If its body runs, that is told to stop; a runner that closes hears it out. */
  cancel(mark: 'cancelled' | 'closed', reason: unknown): void {
    // The end of one call may have called off another: its hooks and abort listeners can do that.
    if (this.isEnded) return
    const core = this.#core
    if (this.state === 'running') {
      if (mark === 'cancelled') this.#end('cancelled', reason)
      this.run?.stop(mark, reason)
      return
    }
    const since = this.place === 'nowhere' ? this.since : this.waitsSince
    const queuedMs = this.state === 'queued' ? core.now() - since : 0
    this.more?.timer?.cancel()
    if (this.state === 'holding') core.slots.release()
    this.#end('cancelled', reason)
    this.more?.session?.abort(reason)
    if (this.place !== 'nowhere') core.slots.withdraw(this)
    const code = cancelCode(reason)
    core.meter.record(this.key, this.#attempts + 1, queuedMs, 0, 'cancelled', code)
    core.moved()
  }

  begin(now: number): void {
    const queuedMs = now - this.waitsSince
    this.#core.meter.queueWait.record(queuedMs)
    this.#attempt(queuedMs, now)
  }

  /** Starts a body in the slot it has. */
  #attempt(queuedMs: number, now: number): void {
    const core = this.#core
    const pass = core.pass(now)
    if (pass === undefined) {
      core.slots.release()
      this.#to('between')
      this.refused(core.refusal(), queuedMs)
      return
    }
    this.#to('running')
    this.#launch(this.#isUnknown && core.confirm !== undefined, queuedMs, now, pass)
  }

  #launch(isConfirm: boolean, queuedMs: number, now: number, pass: number): void {
    const { confirm, meter } = this.#core
    const number = this.#attempts + 1
    const run = new Run(this, number, isConfirm, queuedMs, now, pass)
    this.run = run
    if (!isConfirm) {
      if (number > 1) meter.retried += 1
      this.#attempts = number
      this.#hasWorked = true
    }
    run.start(isConfirm ? (confirm as Body) : this.#task, this.#terms.timeoutMs)
  }

  expired(run: Run): unknown {
    const core = this.#core
    const { idempotent, timeoutMs } = this.#terms
    const error = timedOut(this.key, run.number, timeoutMs)
    core.learn(run, 'timeout', error)
    const more = this.#rest
    if (!run.isConfirm && !idempotent) more.isUnknown = true
    let final: unknown = error
    try {
      more.goesOn = !core.isClosed && this.#hasMore(run, error)
    } catch (problem) {
      final = problem
    }
    if (!more.goesOn && !this.isEnded) {
      this.#fail(run.isConfirm ? outcomeUnknown(this.key, final) : final)
    }
    return error
  }

  settled(run: Run, ok: boolean, value: unknown): void {
    if (!run.isConfirm || !ok) this.#over(run, ok, value)
    else this.#answered(run, value)
  }

  outlived(run: Run): void {
    this.#over(run, false, undefined)
  }

  gone(run: Run): void {
    this.#core.gone(run)
  }

  /** Whether it has taken effect is known now, unless the answer makes no sense. */
  #answered(run: Run, given: unknown): void {
    const core = this.#core
    const { done, value } = answerOf(given)
    if (done !== false) this.#over(run, done === true, value)
    else {
      this.#rest.isUnknown = false
      core.memory?.forget(this.key)
      if (this.isEnded || core.isClosed) this.#over(run, false, undefined)
      else this.#launch(false, run.queuedMs, core.now(), run.pass)
    }
  }

  /** A body has settled, or its grace is over. Everything is counted before anybody is told. */
  #over(run: Run, ok: boolean, value: unknown): void {
    const core = this.#core
    const now = core.now()
    const wasEnded = this.isEnded
    // An answer to a question that nobody waits for any more is the truth, but no success.
    const outcome = ok && !(run.isConfirm && wasEnded) ? 'success' : outcomeOf(run)
    const error = run.mark === undefined ? value : run.reason
    core.measure(run, outcome, error, now)
    if (run.isConfirm && !ok) this.#attempts = run.number
    const next = ok || wasEnded ? undefined : this.#next(run, outcome, error)
    const hadEnded = this.isEnded
    const delay = hadEnded || typeof next !== 'number' ? undefined : next
    const keeps = core.vacate(run, hadEnded, delay !== undefined && this.#terms.inSlot)
    this.run = undefined
    if (!hadEnded) this.#to('between')
    if (hadEnded) this.#late(ok, value)
    else if (delay !== undefined) this.#backOff(delay, keeps)
    else if (ok) this.#end(this.#hasWorked ? 'succeeded' : 'deduplicated', value, now)
    else this.#fail((next as Final).error, (next as Final).end)
    this.#clear(run, ok, value)
    if (core.meter.isWatched) {
      core.report(run, outcome, error, now, !this.#hasWorked)
      // It was called off while it was asked whether there should be another attempt.
      if (hadEnded && !wasEnded) {
        core.meter.record(this.key, run.number + 1, 0, 0, 'cancelled', 'CANCELLED')
      }
    }
    if (delay !== undefined) {
      tell(this.#terms.retry.onRetry, { attempt: run.number, delay, error })
    }
    core.moved(delay === undefined && !core.meter.isWatched ? now : undefined)
  }

  /** The wait until the next attempt, or why there is none. Asks the user's functions. */
  #next(run: Run, outcome: Outcome, error: unknown): number | Final {
    const core = this.#core
    try {
      if (core.closed !== undefined) return new Final(core.closed, 'cancelled')
      if (outcome === 'timeout') {
        // Whether an attempt is left was decided at the deadline: else it would have ended there.
        if (this.#isUnknown && core.confirm === undefined) {
          return new Final(outcomeUnknown(this.key, error))
        }
      } else if (!this.#hasMore(run, error)) {
        return new Final(run.isConfirm ? outcomeUnknown(this.key, error) : error)
      }
      const delay = retryDelay(this.#terms.retry, run.number, error, core.settings.runtime.random())
      // What was asked on the way, a rule or a jitter of the user's, may have ended it all.
      if (core.closed !== undefined) return new Final(core.closed, 'cancelled')
      const { signal } = this.#terms.retry
      return signal?.aborted ? new Final(signal.reason, 'cancelled') : delay
    } catch (problem) {
      return new Final(problem)
    }
  }

  #hasMore(run: Run, error: unknown): boolean {
    const { retry } = this.#terms
    return run.number <= retry.retries && retry.isRetryable(error)
  }

  /** A body has ended after its call. What it has done is true all the same. */
  #late(ok: boolean, value: unknown): void {
    this.more?.leaveSession?.()
    if (!ok) return
    this.#rest.isUnknown = false
    this.#core.memory?.put(this.key, { known: true, result: value, attempts: this.#attempts })
  }

  /** Lets the next call of the key go on, if it waits for this body. */
  #clear(run: Run, ok: boolean, value: unknown): void {
    const { leftovers, confirm } = this.#core
    const isLeftover = this.more?.isLeftover === true
    if (!isLeftover && !run.isOutlived) return
    const next = run.isOutlived
      ? leftovers.outlive(this.key, isLeftover)
      : leftovers.settle(this.key)
    this.#rest.isLeftover = false
    if (ok && run.mark === 'timeout') next?.answer(value, this.#attempts)
    else next?.proceed(confirm !== undefined && (run.isOutlived || this.#isUnknown))
  }

  #fail(error: unknown, end: End = 'failed'): void {
    const { meter } = this.#core
    const isUnknown = isAxError(error, 'OUTCOME_UNKNOWN')
    if (isUnknown) meter.codes.add(error.code)
    this.#end(end, error)
    // Told once it is counted: whoever is told may look at the counts.
    if (isUnknown) meter.log('error', { key: this.key, code: error.code }, error.message)
  }

  #end(end: End, value: unknown, now = this.#core.now()): void {
    const core = this.#core
    const isRunning = this.state === 'running'
    if (isRunning) {
      core.stopping += 1
      const isLeftover = this.run?.isSettled === false
      this.#rest.isLeftover = isLeftover
      if (isLeftover) core.outlasted(this.run as Run)
    }
    if (this.place === 'parked') core.leftovers.leave(this)
    this.#to('ended')
    core.flights.delete(this.key)
    if (this.crowd !== undefined) core.joins.delete(this)
    if (!isRunning) this.more?.leaveSession?.()
    core.count(end, now - this.since, now)
    const isSuccess = end === 'succeeded' || end === 'deduplicated'
    if (isSuccess)
      core.memory?.put(this.key, { known: true, result: value, attempts: this.#attempts })
    else if (this.#isUnknown) core.memory?.put(this.key, { known: false, error: value })
    this.#tell(isSuccess, value, now, end === 'deduplicated')
  }

  #tell(isSuccess: boolean, value: unknown, now: number, isShared: boolean): void {
    const attempts = this.#attempts
    if (!isSuccess) {
      this.reject(value)
      this.crowd?.reject(value)
      return
    }
    this.resolve({ result: value, ms: now - this.since, attempts, deduplicated: isShared })
    this.crowd?.resolve(value, now, attempts)
  }

  #to(state: State): void {
    const was = isWaiting(this.state)
    const { signal } = this.#terms.retry
    const isOver = state === 'running' || state === 'ended'
    if (signal !== undefined && isOver) this.#core.retrying.delete(signal, this)
    this.state = state
    if (was !== isWaiting(state)) this.#core.waiting += was ? -1 : 1
  }
}
