// Owns running: takes leases, runs bodies, writes what became of them.
// May never decide what an outcome means (that is `decide`), or start anything after `stop`.

import type { Lease, StoredJob } from '../core/job.ts'
import type { JobBody } from '../core/submit.ts'
import type { TypeSaid } from '../core/terms.ts'
import type { JobZombie } from '../core/zombie.ts'
import { type Enter, outside } from '../kit/context.ts'
import { createLimiter, type Limiter } from '../kit/limiter.ts'
import type { Place } from '../kit/place.ts'
import type { Timer } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import type { InsertGroup } from '../store/store.ts'
import { askFirst, mustAsk } from './confirm.ts'
import { type ContextPowers, depsOf, NO_DEPS, RunContext } from './context.ts'
import { Ends } from './ends.ts'
import { Force } from './forced.ts'
import { type Hub, isUnavailable } from './hub.ts'
import { complain } from './logger.ts'
import { type Outcome, Outcomes } from './outcomes.ts'
import type { Handler, Registry } from './registry.ts'
import { MARGIN, type Mark, Run } from './run.ts'
import { Runs } from './runs.ts'

/** The body of a job that carries its own handler, with the context of whoever submitted it. */
export interface LocalBody extends JobBody {
  readonly enter: Enter
  /** Where it was submitted, if that may be asked for. */
  readonly from?: Place
}

/** Who wants to know what this process holds: one job more, or none any more. */
export interface WorkerOwner {
  busy(): void
  /** It holds nothing, and has not been told of anything more. */
  free(): void
  /** It has begun, or ceased, to take nothing for too many zombies. */
  fullness(): void
  /** A body does not stop, and keeps its slot: the store has to know at once. */
  stuck(): void
}

export class Worker {
  /** Everything this process holds, until its end has been answered. */
  readonly runs = new Runs()
  /** How many bodies have ended here. */
  ended = 0
  /** A worker's `lease` and `extend` never overlap: whoever calls either takes this turn. */
  readonly turn: Limiter
  readonly #force: Force
  readonly #ends: Ends
  readonly #outcomes: Outcomes
  readonly #hub: Hub
  readonly #registry: Registry
  readonly #powers: ContextPowers
  readonly #owner: WorkerOwner
  #state: 'idle' | 'live' | 'stopping' = 'idle'
  #filling = false
  #again = false
  #due: Timer | undefined
  #poll: Timer | undefined
  #emptied: (() => void)[] = []

  constructor(hub: Hub, registry: Registry, powers: ContextPowers, owner: WorkerOwner) {
    this.#hub = hub
    this.#registry = registry
    this.#powers = powers
    this.#owner = owner
    this.turn = createLimiter(1, { nested: 'queue', runtime: hub.runtime })
    this.#outcomes = new Outcomes(hub.settings, registry)
    this.#force = new Force(hub, registry, {
      left: (run) => this.#ends.write(run, this.#outcomes.forced(run)),
      fullness: () => owner.fullness(),
      stuck: () => owner.stuck(),
      wake: () => this.wake(),
      isStopping: () => this.isStopping,
    })
    hub.onInserting = (groups) => this.#expect(groups)
    this.#ends = new Ends(hub, {
      ending: (runs) => this.#askAhead(runs),
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
    this.#force.release()
  }

  abortAll(): void {
    for (const run of this.runs.values()) this.#force.abort(run, 'stop')
  }

  /** Whether it holds anything, or is being told of more: the store need not be asked. */
  get isBusy(): boolean {
    return this.runs.size > 0 || this.#filling
  }

  /** Whether a body runs that counts, or one is asked whether an earlier one has taken effect. */
  get hasBodies(): boolean {
    for (const run of this.runs.values()) {
      if ((run.begun || run.asking) && !run.settled && !run.left) return true
    }
    return false
  }

  /** How many ends were given up that are to be written once more. */
  get unwritten(): number {
    return this.#ends.unwritten
  }

  /** Resolves when this process holds nothing. */
  async emptied(): Promise<void> {
    if (!this.isBusy) return
    await new Promise<void>((resolve) => this.#emptied.push(resolve))
  }

  /** Tries once more to write what could not be written. */
  lastWords(): Promise<void> {
    return this.#ends.lastWords()
  }

  zombies(): JobZombie[] {
    return this.#force.zombies()
  }

  get isStopping(): boolean {
    return this.#state === 'stopping'
  }

  /** Whether it takes nothing more before some of its zombies have ended. */
  get isFull(): boolean {
    return this.#force.isFull
  }

  get zombieCount(): number {
    return this.#force.zombieCount
  }

  progressOf(id: string): unknown {
    for (const run of this.runs.values()) if (run.job.id === id) return run.progress
    return undefined
  }

  /** The store says that a job of this worker was cancelled: its body has to stop. */
  cancelled(run: Run, hold: Lease): void {
    run.hold = hold
    if (run.mark !== 'cancelled') this.#force.abort(run, 'cancelled')
  }

  /** The lease is another's, or nobody's: the body has to stop, and its result counts nothing. */
  lost(run: Run): void {
    this.#force.abort(run, 'lost')
  }

  /** An urgent job takes its slot: it has to stop, but what it still achieves in time counts. */
  evicted(run: Run, by: string): void {
    run.evictor = by
    this.#force.abort(run, 'preempted')
  }

  /** It has shown that it is alive. Cheap: it only notes the time. */
  alive(run: Run): void {
    if (run.job.terms.heartbeatMs > 0) run.aliveAt = this.#hub.runtime.monotonic()
  }

  /** Nothing is left to be done here. */
  close(): void {
    this.#force.close()
  }

  /** The store is out of reach, and the lease is about to run out by this process's clock. */
  fence(run: Run): void {
    this.#force.abort(run, 'fenced')
  }

  // Taking work

  async #fill(): Promise<void> {
    this.#filling = true
    try {
      do {
        this.#again = false
        // A step later: what woke it, a submission say, is told to listeners before its start.
        await undefined
        if (this.#state === 'live') await this.turn(() => this.#take())
      } while (this.#again && this.#state === 'live')
    } catch (error) {
      this.#hub.outage.failed('taking jobs', error)
      this.#wakeIn(this.#hub.pollMs())
    } finally {
      this.#filling = false
    }
    this.#tellEmpty()
  }

  async #take(): Promise<void> {
    const { store, holder, runtime, settings } = this.#hub
    if (this.isFull) return
    const max = this.#room()
    if (max <= 0) return
    const { leaseMs } = settings
    const askedAt = runtime.monotonic()
    const ask = { holder, leaseMs, max, types: this.#registry.served }
    const { jobs, nextAt } = this.#hub.heard(await store.lease(ask, this.#hub.tell))
    this.#hub.outage.answered('taking jobs')
    // Here, and not before: ends and the lease that is asked for beside them share a transaction.
    await this.#hub.breath.take()
    this.#acceptAll(jobs, askedAt + leaseMs)
    if (jobs.length === LIMITS.moves) this.#again = true
    if (Number.isFinite(nextAt)) this.#wakeIn(nextAt - (await store.time()))
    else this.#due?.cancel()
  }

  /** How many jobs more it may take: one whose end is on its way to the store runs no more. */
  #room(): number {
    const { maxRunning } = this.#hub.settings
    if (maxRunning === Number.POSITIVE_INFINITY) return LIMITS.moves
    let running = 0
    for (const run of this.runs.values()) if (!run.settled) running += 1
    return Math.min(LIMITS.moves, maxRunning - running)
  }

  /**
   * Where a call costs a transaction or a way over the network, the next jobs are asked for in the
   * turn in which the slots of the last ones are given back: the store serves a lease after that.
   * Not where one gives way: whoever runs the urgent job has to have a chance of the slot.
   */
  #askAhead(runs: readonly Run[]): void {
    const isAlone = runs.every(({ evictor }) => evictor === undefined)
    if (isAlone && this.#hub.store.traits.lossyHints) this.wake()
  }

  /**
   * Where a call goes over the network, a worker that rests asks for jobs in the turn in which they
   * are submitted, and not once that has been answered: the store serves a lease after that.
   */
  #expect(groups: readonly InsertGroup[]): void {
    if (this.isBusy || !this.#hub.store.traits.lossyHints) return
    const [job] = groups[0]?.jobs ?? []
    if (job === undefined || job.delayMs > 0 || job.deps.length > 0) return
    if (this.#registry.served.includes(job.type)) this.wake()
  }

  /** Jobs that are due keep the process alive: somebody is waiting for them. */
  #wakeIn(ms: number): void {
    this.#due?.cancel()
    if (this.#state !== 'live') return
    this.#due = this.#hub.runtime.after(Math.max(0, ms), () => this.wake())
  }

  /** Where other processes submit, one that has handlers is there for them until it is closed. */
  #keepPolling(): void {
    const ms = this.#hub.pollMs()
    if (!Number.isFinite(ms) || this.#state !== 'live') return
    const poll = () => {
      this.wake()
      this.#keepPolling()
    }
    const isOfUse = this.#registry.served.length > 0
    const ref = isOfUse && !this.#hub.store.traits.keepsLive
    this.#poll = this.#hub.runtime.after(ms, poll, { ref })
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
    this.runs.add(run)
    this.#owner.busy()
    if (!lease.hold && this.#state !== 'stopping') return run
    this.#endUnstarted(run, lease.hold ? 'cancelled' : 'stop')
    return undefined
  }

  #endUnstarted(run: Run, mark: Mark): void {
    run.abort(mark)
    run.settled = true
    this.#force.settled(run)
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
      if (!isUnavailable(error))
        complain(this.#hub.settings.logger, 'reading dependencies failed', error)
      return null
    }
  }

  #begin(run: Run, deps: RunContext['deps']): void {
    if (this.#isOverdue(run)) {
      this.#endUnstarted(run, 'fenced')
      return
    }
    this.#force.limit(run)
    const type = run.job.unknown ? this.#registry.ofType(run.job.type) : undefined
    if (mustAsk(run, type)) void this.#ask(run, type, deps)
    else this.#callBody(run, deps)
  }

  /** Nobody knows what came of an earlier attempt: the body is called only if nothing did. */
  async #ask(run: Run, type: TypeSaid | undefined, deps: RunContext['deps']): Promise<void> {
    run.asking = true
    const outcome = await this.#force.watched(run, () => askFirst(run, type))
    // The answer may have come after a stall: then the lease may be another's by now.
    if (this.#isOverdue(run)) this.fence(run)
    if (outcome === undefined && run.mark === undefined) {
      run.asking = false
      this.#callBody(run, deps)
    } else this.#settled(run, outcome ?? { ok: false, error: undefined })
  }

  /** Calls the body. A value that is no object needs no promise: most no-ops are over at once. */
  #callBody(run: Run, deps: RunContext['deps']): void {
    run.begun = true
    this.#force.listen(run)
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
    run.end = new Promise((resolve) => resolve(value)).then(
      (result) => this.#settled(run, { ok: true, value: result }),
      (error) => this.#settled(run, { ok: false, error }),
    )
  }

  #settled(run: Run, outcome: Outcome): void {
    run.settled = true
    run.end = undefined
    this.ended += 1
    if (!run.left) this.#ends.write(run, this.#outcomes.factOf(run, outcome))
    this.#force.settled(run)
  }

  /** The grant took so long to arrive that the lease is over already, by this process's clock. */
  #isOverdue(run: Run): boolean {
    const { runtime, store, settings } = this.#hub
    const until = run.safeUntil - settings.leaseMs * MARGIN
    return store.traits.lossyHints && until <= runtime.monotonic()
  }

  #call(run: Run, context: RunContext): unknown {
    const body = run.job.body as LocalBody | undefined
    if (body !== undefined) {
      return body.enter(() => this.#force.watched(run, () => body.execute(context)))
    }
    const handler = this.#registry.handlerOf(run.job.type) as Handler
    return this.#force.watched(run, () => handler(context))
  }

  /** Whether a later attempt of the same job runs here: then the hold is that one's. */
  #isSuperseded(run: Run): boolean {
    for (const other of this.runs.values()) {
      if (other.job.id === run.job.id && other.lease.number > run.lease.number) return true
    }
    return false
  }

  #over(run: Run): void {
    this.runs.remove(run)
    // Where this process alone was the limit, the store has nothing to say.
    if (Number.isFinite(this.#hub.settings.maxRunning)) this.wake()
    this.#tellEmpty()
  }

  #tellEmpty(): void {
    if (this.isBusy) return
    this.#owner.free()
    const waiting = this.#emptied
    this.#emptied = []
    for (const resolve of waiting) resolve()
  }
}
