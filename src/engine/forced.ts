// Owns ending attempts by force: deadlines, aborts, grace, and the bodies that do not stop.
// May never decide what an ended attempt counts as, or wait for a body longer than its grace.

import type { JobZombie } from '../core/zombie.ts'
import { Opened, Resources } from '../kit/resources.ts'
import { Zombies } from '../kit/zombies.ts'
import type { Hub } from './hub.ts'
import type { Registry } from './registry.ts'
import type { Mark, Run } from './run.ts'
import type { LocalBody } from './worker.ts'

/** What it has to know of the worker. */
export interface ForceOwner {
  /** Nobody listens to its body any more: what it counts as is to be written. */
  left(run: Run): void
  /** There are as many zombies as there may be, or not any more. */
  fullness(): void
  /** A body does not stop, and keeps its slot: nobody else may wait for that. */
  stuck(): void
  /** A body has settled long after its grace: there may be room for new work. */
  wake(): void
  isStopping(): boolean
}

export class Force {
  readonly #hub: Hub
  readonly #registry: Registry
  readonly #owner: ForceOwner
  readonly #zombies: Zombies<Run, JobZombie>
  readonly #resources: Resources | undefined

  constructor(hub: Hub, registry: Registry, owner: ForceOwner) {
    this.#hub = hub
    this.#registry = registry
    this.#owner = owner
    this.#zombies = new Zombies(hub.settings.maxZombies, (run) => this.#recordOf(run))
    this.#resources = hub.settings.trackAsync ? new Resources() : undefined
  }

  /** Whether nothing more may start before some zombies have ended. */
  get isFull(): boolean {
    return this.#zombies.isFull
  }

  get zombieCount(): number {
    return this.#zombies.size
  }

  /** The zombies, with what they hang on now. */
  zombies(): JobZombie[] {
    return this.#zombies.entries().map(([run, record]) => ({ ...record, ...openIn(run) }))
  }

  /** Calls what belongs to an attempt, so that what it opens is known to be its own. */
  watched<T>(run: Run, call: () => T): T {
    if (this.#resources === undefined) return call()
    run.opened ??= new Opened()
    return this.#resources.watch(run.opened, call)
  }

  /** The attempt has begun: its time counts. */
  limit(run: Run): void {
    const { timeoutMs } = run.job.terms
    if (timeoutMs === 0) return
    const { runtime } = this.#hub
    // One turn more, so that a body whose I/O is done already gets to say so after a stall.
    run.timeout = runtime.after(timeoutMs, () => runtime.soon(() => this.abort(run, 'timeout')))
  }

  /** The body is about to be called: from now on it has to show that it is alive. */
  listen(run: Run): void {
    const { heartbeatMs } = run.job.terms
    if (heartbeatMs === 0) return
    const { runtime } = this.#hub
    run.aliveAt = runtime.monotonic()
    const look = () => {
      if (run.settled || run.mark !== undefined) return
      const silentMs = runtime.monotonic() - run.aliveAt
      if (silentMs < heartbeatMs) wait(heartbeatMs - silentMs)
      else this.#silenced(run)
    }
    // Progress only notes the time: the timer is set again when it fires, not for each sign.
    const wait = (ms: number) => {
      run.pulse = runtime.after(ms, () => runtime.soon(look))
    }
    wait(heartbeatMs)
  }

  #silenced(run: Run): void {
    this.abort(run, 'silent')
    const { job, attempt } = run
    const detail = { ...this.#startOf(run), ...openIn(run) }
    const from =
      detail.startedFrom === undefined ? '' : ` It was started from ${detail.startedFrom}.`
    const open = detail.asyncResources?.join(', ') ?? ''
    const hangs = open === '' ? '' : ` It has open: ${open}.`
    this.#hub.settings.logger.warn(
      { jobId: job.id, type: job.type, attempt, code: 'HEARTBEAT_LOST', ...detail },
      `job ${job.id} of type ${job.type} has shown no progress for ${job.terms.heartbeatMs} ms ` +
        `and is told to stop.${from}${hangs}`,
    )
  }

  /** Tells a body to stop. The first reason counts, and its grace begins with it. */
  abort(run: Run, mark: Mark): void {
    if (run.settled || run.left) return
    const first = run.mark === undefined
    run.abort(mark)
    // What it has been held back with is not its own any more.
    if (run.outlived && mark === 'lost') this.#leave(run)
    if (!first) return
    const { runtime, settings } = this.#hub
    run.grace = runtime.after(settings.graceMs, () => this.#outlive(run))
  }

  /** The worker stops: nothing is left to protect, so nobody needs to wait for others to settle. */
  release(): void {
    for (const run of this.#zombies.held()) if (!run.left) this.#leave(run)
  }

  /** A body has settled, or was never called. */
  settled(run: Run): void {
    run.clear()
    if (run.opened !== undefined) this.#resources?.forget(run.opened)
    if (!run.outlived) return
    const wasFull = this.isFull
    const next = this.#zombies.remove(run)
    if (next !== undefined && next !== run) {
      if (!next.left) this.#leave(next)
      this.#announce(next)
    }
    if (this.isFull !== wasFull) this.#owner.fullness()
    this.#owner.wake()
  }

  close(): void {
    this.#resources?.close()
  }

  /**
   * Its grace is over: a body goes on as a zombie, and no longer counts. Where there is no room for
   * another one it keeps its lease, as if its grace went on: what cannot be stopped must not pile
   * up. A worker that stops, or has lost the lease, has nothing to keep.
   */
  #outlive(run: Run): void {
    const isAlive = run.begun || run.asking
    run.outlived = isAlive
    const wasFull = this.isFull
    const isZombie = isAlive && this.#zombies.add(run)
    const isHeld = isAlive && !isZombie && run.mark !== 'lost' && !this.#owner.isStopping()
    if (isHeld) this.#hold(run)
    else this.#leave(run)
    if (isZombie) this.#announce(run)
    if (this.isFull !== wasFull) this.#owner.fullness()
  }

  #leave(run: Run): void {
    run.left = true
    this.#owner.left(run)
  }

  #announce(run: Run): void {
    const { emitter, holder } = this.#hub
    const detail = { ...this.#startOf(run), ...openIn(run) }
    emitter.emit('job:zombie', { job: run.job.id, attempt: run.attempt, worker: holder, ...detail })
  }

  #recordOf(run: Run): JobZombie {
    const { holder, runtime } = this.#hub
    const { id, type, startedAt } = run.job
    const { attempt } = run
    const since = runtime.now()
    return { id, type, attempt, startedAt, since, worker: holder, ...this.#startOf(run) }
  }

  /** Where a body of its own was submitted, or its type was defined. */
  #startOf({ job }: Run): { readonly startedFrom?: string } {
    const body = job.body as LocalBody | undefined
    const startedFrom = body === undefined ? this.#registry.placeOf(job.type) : body.from?.()
    return startedFrom === undefined ? {} : { startedFrom }
  }

  #hold({ job, attempt }: Run): void {
    this.#owner.stuck()
    const { logger, maxZombies } = this.#hub.settings
    const why = `there is no room for a zombie more (maxZombies ${maxZombies})`
    const text = `job ${job.id} does not stop, and keeps its slot: ${why}.`
    logger.warn({ jobId: job.id, attempt }, text)
  }
}

/** What an attempt has open, where that is known. */
function openIn({ opened }: Run): { readonly asyncResources?: readonly string[] } {
  return opened === undefined ? {} : { asyncResources: opened.list() }
}
