// Owns the public scheduler: wires the parts, starts them, stops them.
// May never do what one of the parts should: each method is a few lines.

import { type Duration, toMs } from '../core/duration.ts'
import type { JobEvent, NewJob } from '../core/job.ts'
import { boolean, callable, checkOptions, oneOf, refuseValue } from '../core/options.ts'
import type {
  Explanation,
  Job,
  JobContext,
  JobFilter,
  JobHandle,
  JobInput,
  TypePolicy,
} from '../core/types.ts'
import { viewOf } from '../core/view.ts'
import type { JobZombie } from '../core/zombie.ts'
import type { Runtime } from '../kit/runtime.ts'
import type { Hint, Store } from '../store/store.ts'
import { Client, leaseLost } from './client.ts'
import { leave } from './closing.ts'
import { checkBatch, checkEdges, checkSource } from './errors.ts'
import { EVENT_NAMES, type EventName, type SchedulerEvents } from './events.ts'
import type { HandlePowers } from './handle.ts'
import { closedError, Hub } from './hub.ts'
import { Intake } from './intake.ts'
import { Keeper } from './keeper.ts'
import { KnownTypes } from './known.ts'
import { MakeUp } from './make-up.ts'
import { watchNesting } from './nesting.ts'
import { Operator, type OperatorParts } from './operator.ts'
import {
  checkExtras,
  checkId,
  resolveOptions,
  type SchedulerOptions,
  type Settings,
} from './options.ts'
import { Pulse } from './pulse.ts'
import { Quiet } from './quiet.ts'
import { checkEvents, checkFilter, type EventsOptions, Reader } from './reader.ts'
import { type Handler, Registry } from './registry.ts'
import { checkNote, checkReplaced } from './replacing.ts'
import { Schedules } from './schedules.ts'
import { Setup } from './setup.ts'
import { addAll, type JobSource } from './stream.ts'
import { goneError, Waiters } from './waiters.ts'
import { Worker } from './worker.ts'

/** A type with a handler, to submit to by payload alone. */
export interface TypeHandle<P, R> {
  readonly type: string
  submit(
    payload: P,
    options?: Omit<JobInput<P, R>, 'type' | 'payload' | 'execute'>,
  ): Promise<JobHandle<R>>
}

const DRAIN_MS = 30_000

/** For those who wait for the next change: there will be none. */
const NOTHING_NEW: Hint = {
  ready: false,
  overdue: false,
  ended: [],
  holders: [],
  settings: false,
  room: [],
}

/**
 * Jobs as data, run under control: see README. A number is the concurrency of the default pool.
 * Every method that reads or writes jobs rejects with STORE_UNAVAILABLE while the store is away:
 * then it is unknown whether the write happened, and asking again with the same ids is safe.
 */
export abstract class SchedulerBase extends Operator {
  readonly #settings: Settings
  readonly #hub: Hub
  readonly #registry: Registry
  readonly #client: Client
  readonly #setup: Setup
  readonly #intake: Intake
  readonly #reader: Reader
  readonly #schedules: Schedules
  readonly #makeUp: MakeUp
  readonly #worker: Worker
  readonly #pulse: Pulse
  readonly #keeper: Keeper
  readonly #waiters: Waiters
  readonly #quiet: Quiet
  readonly #ownsStore: boolean
  #starting: Promise<void> | undefined
  #ready = false
  #closing: Promise<void> | undefined

  constructor(
    options: number | SchedulerOptions | undefined,
    defaultStore: (runtime: Runtime) => Store,
  ) {
    super(() => this.#operatorParts())
    const settings = resolveOptions(options)
    this.#settings = settings
    this.#ownsStore = settings.store === undefined
    this.#hub = new Hub(settings.store ?? defaultStore(settings.runtime), settings)
    this.#registry = new Registry(settings.types)
    const powers: HandlePowers = {
      result: (id, signal) => this.#waiters.result(id, signal),
      known: async (id) => {
        const job = await this.job(id)
        if (job === null) throw goneError(id)
        return job
      },
      cancel: (id, reason) => this.cancel(id, reason),
    }
    this.#client = new Client(this.#hub, powers)
    const known = new KnownTypes(this.#hub, this.#registry)
    this.#setup = new Setup(this.#hub, this.#registry, known)
    this.#intake = new Intake(this.#hub, this.#registry, known, () => {
      if (!this.#setup.isBegun) this.#checkOpen()
      return this.#open()
    })
    this.#reader = new Reader(this.#hub)
    this.#schedules = new Schedules(this.#hub, (job) => this.#intake.prepare(job))
    this.#makeUp = new MakeUp(this.#hub)
    this.#worker = new Worker(
      this.#hub,
      this.#registry,
      {
        progress: (run, value) => {
          if (!run.counts) return
          this.#worker.alive(run)
          run.progress = value
          this.#hub.emitter.emit('job:progress', { job: run.job.id, attempt: run.attempt, value })
        },
        submit: async (run, jobs, options) => {
          const replaced = checkReplaced(options)
          const fence = { id: run.job.id, lease: run.lease.number }
          return this.#submit(Array.isArray(jobs) ? jobs : [jobs as JobInput], fence, replaced)
        },
        note: async (run, text) => {
          run.note = checkNote(text)
          const isOver = () => run.mark !== undefined
          await this.#hub.patiently(() => this.#pulse.next(), isOver)
          if (!run.counts) throw leaseLost(run.job.id)
        },
      },
      {
        busy: () => this.#pulse.busy(),
        free: () => this.#quiet.changed(),
        fullness: () => this.#announce(),
        stuck: () => void this.#pulse.beat().catch(() => {}),
      },
    )
    this.#pulse = new Pulse(this.#hub, this.#worker, this.#registry)
    this.#keeper = new Keeper(this.#hub, this.#pulse, this.#schedules)
    this.#waiters = new Waiters(this.#hub)
    watchNesting(this.#hub, this.#worker, this.#waiters, this.#client.waiting)
    this.#quiet = new Quiet(this.#hub, () => this.#worker.isBusy)
    this.#hub.onHint((hint) => {
      if (hint.ready && !hint.served?.includes(this.#hub.holder)) this.#worker.wake()
      if (hint.overdue || hint.settings) this.#keeper.wake()
      if (hint.holders.includes(this.#hub.holder)) this.#pulse.beat().catch(() => {})
    })
  }

  /**
   * Says how jobs of a type run in this process. Once per type; jobs of a type without a handler
   * anywhere stay `ready`.
   */
  define<P, R>(
    type: string,
    handler: (context: JobContext<P>) => R | PromiseLike<R>,
  ): TypeHandle<P, R>
  define<P, R>(
    type: string,
    policy: TypePolicy<P>,
    handler: (context: JobContext<P>) => R | PromiseLike<R>,
  ): TypeHandle<P, R>
  define<P, R>(
    type: string,
    policyOrHandler: TypePolicy<P> | ((context: JobContext<P>) => R | PromiseLike<R>),
    handler?: (context: JobContext<P>) => R | PromiseLike<R>,
  ): TypeHandle<P, R> {
    if (typeof policyOrHandler === 'function' && handler === undefined) {
      this.#registry.define(type, {}, policyOrHandler as Handler)
    } else this.#registry.define(type, policyOrHandler as TypePolicy, handler as Handler)
    if (this.#ready) {
      this.#announce()
      this.#worker.wake()
    }
    this.#setup.typesCame()
    return {
      type,
      submit: (payload, options) => {
        try {
          if (options !== undefined) checkExtras(type, options)
        } catch (error) {
          return Promise.reject(error)
        }
        return this.addJob<P, R>({ ...options, type, payload })
      },
    }
  }

  /** Stores one job. Resolves once it is stored, not once it has run. O(log n). */
  addJob<P, R>(job: JobInput<P, R>): Promise<JobHandle<R>> {
    try {
      this.#checkOpen()
      const prepared = this.#intake.prepare(job as JobInput)
      const insert = (ready: NewJob) => this.#client.insertOne(ready) as Promise<JobHandle<R>>
      if (prepared instanceof Promise) return this.#late(prepared).then(insert)
      return this.#ready ? insert(prepared) : this.#begin().then(() => insert(prepared))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Stores up to 10,000 jobs with up to 100,000 dependencies, all or none. An error names the
   * first job that is wrong (`index`), and nothing is stored.
   */
  async addJobs(jobs: readonly JobInput[]): Promise<JobHandle[]> {
    return this.#submit(jobs, undefined)
  }

  /**
   * Stores any number of jobs, at most a thousand at a time and no more than their pools have room
   * for, pulling from the source only as they are stored. Not atomic: what was stored before an
   * error stays, and the error says how many (`stored`). Resolves with how many were new.
   */
  async addMany(jobs: JobSource): Promise<number> {
    checkSource(jobs)
    const parts = { intake: this.#intake, client: this.#client, runtime: this.#settings.runtime }
    return addAll(jobs, parts, () => this.#begin())
  }

  /** What is known about a job, or null. A copy. */
  async job(id: string): Promise<Job | null> {
    checkId(id)
    await this.#open()
    const job = (await this.#hub.store.get([id]))[0] ?? null
    return job === null ? null : viewOf(job, this.#worker.progressOf(id))
  }

  /** The jobs that match, in order of submission, read page by page. */
  async *jobs(filter: JobFilter = {}): AsyncGenerator<Job> {
    checkFilter(filter)
    await this.#open()
    yield* this.#reader.jobs(filter)
  }

  /** Why a job is where it is, in one sentence. */
  async explain(id: string): Promise<Explanation> {
    checkId(id)
    await this.#open()
    return this.#reader.explain(id)
  }

  /** True if this call ended a job that had not ended: it will not succeed any more. */
  async cancel(id: string, reason?: string): Promise<boolean> {
    checkId(id)
    if (reason !== undefined && typeof reason !== 'string') refuseValue('reason', reason, 'a text')
    await this.#open()
    return this.#client.cancel(id, reason)
  }

  /**
   * Runs a failed or cancelled job again: numbering goes on, the allowance is fresh. With
   * `downstream`, also what its failure had cancelled. False if there was nothing to revive.
   * Rejects with KEY_TAKEN or DEPENDENCY_FAILED where a rule forbids it.
   */
  async retry(id: string, options: { readonly downstream?: boolean } = {}): Promise<boolean> {
    checkId(id)
    checkOptions('retry', options, ['downstream'])
    const { downstream = false } = options
    boolean('downstream', downstream)
    await this.#open()
    return this.#client.retry(id, downstream)
  }

  /** Listens to what this process does. Returns the function that stops listening. */
  on<E extends EventName>(event: E, listener: (event: SchedulerEvents[E]) => void): () => void {
    oneOf('The event', event, EVENT_NAMES)
    callable('The listener', listener)
    const off = this.#hub.on(event, listener)
    if (event === 'idle' && this.#ready) this.#quiet.watch()
    return off
  }

  /**
   * The store's log after an entry, oldest first; with `follow`, for ever (until aborted or
   * closed). Rejects with GONE, naming the oldest entry, where retention has taken what was asked.
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<JobEvent> {
    checkEvents(options)
    await this.#open()
    yield* this.#reader.events(options, () => this.#closing !== undefined)
  }

  /** Bodies of this process that were told to stop, did not, and no longer count. */
  zombies(): JobZombie[] {
    return this.#worker.zombies()
  }

  /** Resolves when no job is left, in the whole store, that can still change by itself. */
  async idle(): Promise<void> {
    await this.#open()
    await this.#quiet.idle()
  }

  /** Begins to run jobs. The first job does this, unless `autoStart` is false. */
  async start(): Promise<void> {
    this.#checkOpen()
    this.#starting ??= this.#start().catch((error) => {
      this.#starting = undefined
      throw error
    })
    return this.#starting
  }

  /**
   * Ends this process's work: nothing new starts, what runs gets `drainMs` (default 30 s), then
   * an abort, and goes back to the queue with no attempt used. Pending `result()` calls reject
   * with CLOSED. A store that answers nothing for 5 s is not waited for. Idempotent; asked again
   * with a shorter `drainMs`, it waits no longer than that.
   */
  async close(options: { readonly drainMs?: Duration } = {}): Promise<void> {
    checkOptions('close', options, ['drainMs'])
    const { drainMs: given = DRAIN_MS } = options
    const drainMs = toMs(given, 'drainMs')
    this.#closing ??= this.#close()
    const patience = this.#hub.runtime.after(drainMs, () => this.#worker.abortAll())
    await this.#closing
    patience.cancel()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #submit(
    inputs: readonly JobInput[],
    fence: { readonly id: string; readonly lease: number } | undefined,
    replaced?: readonly string[],
  ): Promise<JobHandle[]> {
    // A handler may add jobs while its scheduler drains: its lease alone is the condition.
    if (fence === undefined) this.#checkOpen()
    checkBatch(inputs)
    const prepared = this.#intake.prepareAll(inputs)
    const jobs = prepared instanceof Promise ? await prepared : prepared
    checkEdges(jobs)
    if (fence === undefined) this.#checkOpen()
    if (!this.#ready) await this.#begin()
    if (fence !== undefined && replaced !== undefined) {
      return this.#client.replace(jobs, fence, replaced)
    }
    if (jobs.length === 0) return []
    return this.#client.insert(jobs, fence)
  }

  #operatorParts(): OperatorParts {
    return {
      hub: this.#hub,
      reader: this.#reader,
      schedules: this.#schedules,
      makeUp: this.#makeUp,
      zombies: () => this.#worker.zombieCount,
      open: () => this.#open(),
      openForWork: async () => {
        this.#checkOpen()
        await this.#open()
      },
      begin: () => this.#begin(),
    }
  }

  /** What had to be looked up first: this process may have closed meanwhile. */
  async #late(prepared: Promise<NewJob>): Promise<NewJob> {
    const job = await prepared
    if (this.#ready) this.#checkOpen()
    else await this.#begin()
    return job
  }

  async #begin(): Promise<void> {
    this.#checkOpen()
    await (this.#settings.autoStart ? this.start() : this.#open())
  }

  async #open(): Promise<void> {
    await this.#setup.open()
    if (!this.#settings.autoStart) this.#ready = true
  }

  /** May be asked again after an outage: each part of it can be done twice. */
  async #start(): Promise<void> {
    await this.#open()
    await this.#pulse.start()
    this.#ready = true
    this.#worker.start()
    this.#keeper.start()
  }

  async #close(): Promise<void> {
    this.#worker.stop()
    const madeUp = this.#makeUp.stop()
    this.#client.close()
    this.#setup.close()
    if (this.#setup.isBegun) {
      await leave({
        ...{ hub: this.#hub, setup: this.#setup, worker: this.#worker, madeUp },
        ...{ keeper: this.#keeper, pulse: this.#pulse },
        started: async () => this.#starting,
        announce: () => this.#announce(),
      })
      await this.#warnOfLoss()
      await this.#setup.unwatch().catch(() => {})
      this.#hub.hint(NOTHING_NEW)
    }
    this.#worker.close()
    this.#waiters.close()
    this.#quiet.close()
    if (this.#ownsStore) await this.#hub.store.close()
  }

  /** What only lives in memory ends with the process: that is said, with its number. */
  async #warnOfLoss(): Promise<void> {
    const { store, settings } = this.#hub
    if (!this.#ownsStore) return
    const { pools } = await store.count()
    const live = Object.values(pools).map(({ states: { pending, waiting, ready, running } }) => {
      return pending + waiting + ready + running
    })
    const left = live.reduce((sum, count) => sum + count, 0)
    if (left === 0) return
    const jobs =
      left === 1 ? '1 job that has not ended ends' : `${left} jobs that have not ended end`
    settings.logger.warn({ jobs: left }, `${jobs} with the memory store of '${settings.name}'.`)
  }

  /** Says what this process serves, now. Where that fails, the next heartbeat says it. */
  #announce(): void {
    this.#pulse.announce().catch(() => {})
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw closedError(this.#settings.name)
  }
}
