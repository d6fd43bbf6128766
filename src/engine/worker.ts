// Owns running: takes leases, runs bodies, writes what became of them.
// May never decide what an outcome means (that is `decide`), or start anything after `stop`.

import { seededRandom } from '../core/backoff.ts'
import { isAxError } from '../core/errors.ts'
import { type Fact, type Lease, Live, type Stored, type StoredJob } from '../core/job.ts'
import { backoffFunctionOf, type JobBody } from '../core/submit.ts'
import { isRetryableFailure, retryAfterOf, toErrorData, toJson } from '../core/values.ts'
import type { JobZombie } from '../core/zombie.ts'
import { Breath } from '../kit/breath.ts'
import { type Enter, outside } from '../kit/context.ts'
import { createLimiter, type Limiter } from '../kit/limiter.ts'
import type { Timer } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import { type ContextPowers, depsOf, NO_DEPS, RunContext } from './context.ts'
import { Ends } from './ends.ts'
import { type Hub, isUnavailable } from './hub.ts'
import type { Handler, Registry } from './registry.ts'
import { type Mark, Run } from './run.ts'

/** The body of a job that carries its own handler, with the context of whoever submitted it. */
export interface LocalBody extends JobBody {
  readonly enter: Enter
}

/** Who wants to know what this process holds: one job more, or none any more. */
export interface WorkerOwner {
  busy(): void
  free(): void
  /** It has begun, or ceased, to take nothing for too many zombies. */
  fullness(): void
}

/** What a body came to. */
type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown }

export class Worker {
  /** Everything this process holds, by lease number, until its end has been answered. */
  readonly runs = new Map<number, Run>()
  /** A worker's `lease` and `extend` never overlap: whoever calls either takes this turn. */
  readonly turn: Limiter
  readonly #zombies = new Map<Run, number>()
  readonly #ends: Ends
  readonly #hub: Hub
  readonly #registry: Registry
  readonly #powers: ContextPowers
  readonly #owner: WorkerOwner
  #state: 'idle' | 'live' | 'stopping' = 'idle'
  #filling = false
  #again = false
  #due: Timer | undefined
  #poll: Timer | undefined
  readonly #breath: Breath
  #emptied: (() => void)[] = []

  constructor(hub: Hub, registry: Registry, powers: ContextPowers, owner: WorkerOwner) {
    this.#hub = hub
    this.#registry = registry
    this.#powers = powers
    this.#owner = owner
    this.turn = createLimiter(1, { nested: 'queue', runtime: hub.runtime })
    this.#breath = new Breath(hub.runtime)
    this.#ends = new Ends(hub, {
      over: (run) => this.#over(run),
      isStopping: () => this.#state === 'stopping',
      isSuperseded: (run) => this.#isSuperseded(run),
    })
  }

  /** Whether the end of a run could not be written: then the list of runs does not tell all. */
  get gaveUp(): boolean {
    return this.#ends.gaveUp
  }

  start(): void {
    this.#state = 'live'
    this.#keepPolling()
    this.wake()
  }

  /** Looks for work, now or, if it is looking, once more. */
  wake(): void {
    if (this.#state !== 'live') return
    if (this.#filling) this.#again = true
    else void outside(() => this.#fill())
  }

  /** No new starts from here on. */
  stop(): void {
    this.#state = 'stopping'
    this.#due?.cancel()
    this.#poll?.cancel()
  }

  abortAll(): void {
    for (const run of this.runs.values()) this.#abort(run, 'stop')
  }

  /** Resolves when this process holds nothing. */
  async emptied(): Promise<void> {
    if (this.runs.size === 0 && !this.#filling) return
    await new Promise<void>((resolve) => this.#emptied.push(resolve))
  }

  /** Tries once more to write what could not be written. */
  lastWords(): Promise<void> {
    return this.#ends.lastWords()
  }

  zombies(): JobZombie[] {
    return [...this.#zombies].map(([run, since]) => ({
      id: run.job.id,
      type: run.job.type,
      attempt: run.attempt,
      startedAt: run.job.startedAt,
      since,
      worker: this.#hub.holder,
    }))
  }

  get isStopping(): boolean {
    return this.#state === 'stopping'
  }

  /** Whether it takes nothing more before some of its zombies have ended. */
  get isFull(): boolean {
    return this.#zombies.size >= this.#hub.settings.maxZombies
  }

  get zombieCount(): number {
    return this.#zombies.size
  }

  progressOf(id: string): unknown {
    for (const run of this.runs.values()) if (run.job.id === id) return run.progress
    return undefined
  }

  /** The store says that a job of this worker was cancelled: its body has to stop. */
  cancelled(run: Run, hold: Lease): void {
    run.hold = hold
    if (run.mark !== 'cancelled') this.#abort(run, 'cancelled')
  }

  /** The lease is another's, or nobody's: the body has to stop, and its result counts nothing. */
  lost(run: Run): void {
    this.#abort(run, 'lost')
  }

  /** The store is out of reach, and the lease is about to run out by this process's clock. */
  fence(run: Run): void {
    this.#abort(run, 'fenced')
  }

  // Taking work

  async #fill(): Promise<void> {
    this.#filling = true
    try {
      do {
        this.#again = false
        await this.#breath.take()
        if (this.#state === 'live') await this.turn(() => this.#take())
      } while (this.#again && this.#state === 'live')
    } catch (error) {
      if (!isUnavailable(error)) this.#complain('taking jobs failed', error)
      this.#wakeIn(this.#hub.pollMs())
    } finally {
      this.#filling = false
    }
    this.#tellEmpty()
  }

  async #take(): Promise<void> {
    const { store, holder, runtime, settings } = this.#hub
    if (this.isFull) return
    const { leaseMs } = settings
    const askedAt = runtime.monotonic()
    const ask = { holder, leaseMs, max: LIMITS.moves, types: this.#registry.served }
    const { jobs, nextAt } = this.#hub.heard(await store.lease(ask, this.#hub.tell))
    this.#acceptAll(jobs, askedAt + leaseMs)
    if (jobs.length === LIMITS.moves) this.#again = true
    if (Number.isFinite(nextAt)) this.#wakeIn(nextAt - (await store.time()))
    else this.#due?.cancel()
  }

  /** Jobs that are due keep the process alive: somebody is waiting for them. */
  #wakeIn(ms: number): void {
    this.#due?.cancel()
    if (this.#state !== 'live') return
    this.#due = this.#hub.runtime.after(Math.max(0, ms), () => this.wake())
  }

  #keepPolling(): void {
    const ms = this.#hub.pollMs()
    if (!Number.isFinite(ms) || this.#state !== 'live') return
    const poll = () => {
      this.wake()
      this.#keepPolling()
    }
    this.#poll = this.#hub.runtime.after(ms, poll, { ref: false })
  }

  // Running

  /** Starts what was granted; jobs that build on others have their results fetched together. */
  #acceptAll(jobs: readonly StoredJob[], safeUntil: number): void {
    const joined: Run[] = []
    for (const job of jobs) {
      const run = this.#accept(job, safeUntil)
      if (run === undefined) continue
      if (job.deps.length > 0) joined.push(run)
      else this.#begin(run, NO_DEPS)
    }
    if (joined.length > 0) void this.#beginJoined(joined)
  }

  /** Between the grant and this turn the job may have been cancelled, or the worker stopped. */
  #accept(job: StoredJob, safeUntil: number): Run | undefined {
    const { lease } = job
    if (lease?.holder !== this.#hub.holder) return undefined
    const run = new Run(job, lease, this.#hub.runtime.monotonic(), safeUntil)
    this.runs.set(lease.number, run)
    this.#owner.busy()
    if (!lease.hold && this.#state !== 'stopping') return run
    this.#endUnstarted(run, lease.hold ? 'cancelled' : 'stop')
    return undefined
  }

  #endUnstarted(run: Run, mark: Mark): void {
    run.abort(mark)
    run.settled = true
    run.clear()
    this.#ends.write(run, run.forced())
  }

  async #beginJoined(runs: readonly Run[]): Promise<void> {
    const ids = new Set(runs.flatMap((run) => run.job.deps.map((dep) => dep.id)))
    const found = await this.#read([...ids])
    for (const run of runs) {
      if (found !== null && run.mark === undefined) this.#begin(run, depsOf(run.job, found))
      else if (!run.left) this.#endUnstarted(run, run.mark ?? 'stop')
    }
  }

  /** Jobs by id; null if this process is stopping and the store is away. */
  async #read(ids: readonly string[]): Promise<ReadonlyMap<string, StoredJob> | null> {
    const found = new Map<string, StoredJob>()
    const stop = () => this.#state === 'stopping'
    try {
      for (let at = 0; at < ids.length; at += LIMITS.page) {
        const page = ids.slice(at, at + LIMITS.page)
        const jobs = await this.#hub.patiently(() => this.#hub.store.get(page), stop)
        for (const job of jobs) if (job !== null) found.set(job.id, job)
      }
      return found
    } catch (error) {
      if (!isUnavailable(error)) this.#complain('reading dependencies failed', error)
      return null
    }
  }

  /** Calls the body. A value that is no object needs no promise: most no-ops are over at once. */
  #begin(run: Run, deps: RunContext['deps']): void {
    if (this.#isOverdue(run)) {
      this.#endUnstarted(run, 'fenced')
      return
    }
    this.#armTimeout(run)
    run.begun = true
    let value: unknown
    try {
      value = this.#call(run, new RunContext(run, deps, this.#powers))
    } catch (error) {
      this.#settled(run, { ok: false, error })
      return
    }
    if (typeof value !== 'object' && typeof value !== 'function') {
      this.#settled(run, { ok: true, value })
      return
    }
    // Not Promise.resolve: of a foreign promise, that would read more than `then`, outside of it.
    new Promise((resolve) => resolve(value)).then(
      (result) => this.#settled(run, { ok: true, value: result }),
      (error) => this.#settled(run, { ok: false, error }),
    )
  }

  #settled(run: Run, outcome: Outcome): void {
    run.settled = true
    run.clear()
    if (run.left) {
      const wasFull = this.isFull
      this.#zombies.delete(run)
      if (wasFull && !this.isFull) this.#owner.fullness()
      this.wake()
    } else this.#ends.write(run, this.#factOf(run, outcome))
  }

  /** The grant took so long to arrive that the lease is over already, by this process's clock. */
  #isOverdue(run: Run): boolean {
    const { runtime, store } = this.#hub
    return store.traits.lossyHints && run.safeUntil <= runtime.monotonic()
  }

  #call(run: Run, context: RunContext): unknown {
    const body = run.job.body as LocalBody | undefined
    if (body !== undefined) return body.enter(() => body.execute(context))
    const handler = this.#registry.handlerOf(run.job.type) as Handler
    return handler(context)
  }

  /** What the body came to, as a fact: a success in time counts, else the mark, else the error. */
  #factOf(run: Run, outcome: Outcome): Fact | null {
    if (run.mark === 'cancelled' || run.mark === 'lost') return run.forced()
    if (outcome.ok) return this.#success(run, outcome.value)
    if (run.mark === 'timeout') return this.#timedOut(run)
    return run.forced() ?? this.#failure(run, outcome.error)
  }

  #success(run: Run, value: unknown): Fact {
    try {
      return { type: 'succeeded', result: encode(run.job, value, this.#hub.settings.limits.result) }
    } catch (error) {
      return { type: 'failed', error: toErrorData(error), retryable: false }
    }
  }

  #failure(run: Run, error: unknown): Fact {
    const retryAfterMs = retryAfterOf(error)
    return {
      type: 'failed',
      error: toErrorData(error),
      retryable: this.#isRetryable(run, error),
      ...this.#ownDelay(run),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    }
  }

  #timedOut(run: Run): Fact {
    return { type: 'timedOut', ...this.#ownDelay(run) }
  }

  #isRetryable(run: Run, error: unknown): boolean {
    const rule = this.#registry.termsOf(run.job.type)?.retryable
    if (rule === undefined) return isRetryableFailure(error)
    try {
      const answer: unknown = rule(error)
      if (typeof answer === 'boolean') return answer
      this.#complain(`the retryable rule of type ${run.job.type} did not say true or false`, answer)
      return false
    } catch (thrown) {
      this.#complain(`the retryable rule of type ${run.job.type} threw`, thrown)
      return isRetryableFailure(error)
    }
  }

  /** The delay that a back-off function gives, if the job or its type has one. */
  #ownDelay({ job }: Run): { readonly delayMs?: number } {
    const type = this.#registry.termsOf(job.type)
    const own = (job.body as LocalBody | undefined)?.backoff
    const backoff = own ?? (type === undefined ? undefined : backoffFunctionOf(job.terms, type))
    if (backoff === undefined) return {}
    try {
      const failure = job.attempts - job.attemptsBefore
      const ms = Math.ceil(backoff(failure, seededRandom(job.id, job.starts)))
      if (ms >= 0 && ms <= 2 ** 41) return { delayMs: ms }
      this.#complain(`the back-off function of type ${job.type} answered ${ms}`, undefined)
    } catch (thrown) {
      this.#complain(`the back-off function of type ${job.type} threw`, thrown)
    }
    return {}
  }

  // Ending by force

  #armTimeout(run: Run): void {
    const { timeoutMs } = run.job.terms
    if (timeoutMs === 0) return
    const { runtime } = this.#hub
    // One turn more, so that a body whose I/O is done already gets to say so after a stall.
    run.timeout = runtime.after(timeoutMs, () => runtime.soon(() => this.#abort(run, 'timeout')))
  }

  #abort(run: Run, mark: Mark): void {
    if (run.settled || run.left) return
    const first = run.mark === undefined
    run.abort(mark)
    if (!first) return
    const { runtime, settings } = this.#hub
    run.grace = runtime.after(settings.graceMs, () => this.#leave(run))
  }

  /** Its grace is over: a body goes on as a zombie, and no longer counts. */
  #leave(run: Run): void {
    if (run.settled || run.left) return
    run.left = true
    run.clear()
    this.#ends.write(run, run.mark === 'timeout' ? this.#timedOut(run) : run.forced())
    if (!run.begun) return
    const { emitter, holder, runtime } = this.#hub
    this.#zombies.set(run, runtime.now())
    if (this.isFull) this.#owner.fullness()
    emitter.emit('job:zombie', { job: run.job.id, attempt: run.attempt, worker: holder })
  }

  /** Whether a later attempt of the same job runs here: then the hold is that one's. */
  #isSuperseded(run: Run): boolean {
    for (const other of this.runs.values()) {
      if (other.job.id === run.job.id && other.lease.number > run.lease.number) return true
    }
    return false
  }

  #over(run: Run): void {
    this.runs.delete(run.lease.number)
    if (this.runs.size > 0) return
    this.#owner.free()
    this.#tellEmpty()
  }

  #tellEmpty(): void {
    if (this.runs.size > 0 || this.#filling || this.#emptied.length === 0) return
    const waiting = this.#emptied
    this.#emptied = []
    for (const resolve of waiting) resolve()
  }

  #complain(what: string, error: unknown): void {
    const detail =
      error === undefined ? '' : `: ${isAxError(error) ? error.message : String(error)}`
    this.#hub.settings.logger.error({ error }, what + detail)
  }
}

/** A result at rest: by reference for a job with its own `execute`, JSON for every other. */
function encode(job: StoredJob, value: unknown, maxBytes: number): Stored {
  if (job.body !== undefined) return value === undefined ? undefined : new Live(value)
  return toJson(value, 'result', { maxBytes, code: 'UNSTORABLE', lenient: true })
}
