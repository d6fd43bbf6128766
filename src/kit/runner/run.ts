// Owns one body: its call, its signal, its timeout and its grace.
// May never decide what its end means, or tell of one end twice.

import type { CallZombie } from '../../core/zombie.ts'
import { type Context, captureContext, type Enter, enter } from '../context.ts'
import type { Deadlines, Timed } from '../deadlines.ts'
import type { Holder } from '../nested/graph.ts'
import { awaiter, nameHolder, waitingHere } from '../nested/trace.ts'
import type { RunnerContext } from '../runner.ts'
import { processName, type Runtime } from '../runtime.ts'

/** A body or a call with a deadline. */
export interface Due extends Timed {
  /** Its time has come; it has no deadline any more. */
  due(): void
}

/** A task, or the question whether it has taken effect. */
export type Body = (context: RunnerContext) => unknown

/** Why a body was told to stop; the first reason stays. */
export type Mark = 'timeout' | 'cancelled' | 'closed'

/** What a runner provides for its bodies. */
export interface RunRoom {
  readonly deadlines: Deadlines<Due>
  readonly graceMs: number
  readonly seats: Seats
}

/** Whoever a body runs for. */
export interface RunOwner {
  readonly key: string
  readonly room: RunRoom
  /** The async context of the caller. */
  readonly context: Context
  /** Its time is over; it is about to be aborted, with the reason that is answered. */
  expired(run: Run): unknown
  /** It has returned or thrown, in time or in its grace. */
  settled(run: Run, ok: boolean, value: unknown): void
  /** Its grace is over, and it has not settled. */
  outlived(run: Run): void
  /** It has settled after that. */
  gone(run: Run): void
}

export class Run implements Due {
  readonly owner: RunOwner
  readonly number: number
  /** Not the task runs, but the question whether it has taken effect. */
  readonly isConfirm: boolean
  /** How long it waited for its slot. */
  readonly queuedMs: number
  /** On the monotonic clock. */
  readonly startedAt: number
  /** Of the breaker. */
  readonly pass: number
  index = -1
  mark: Mark | undefined = undefined
  /** What it was aborted with. */
  reason: unknown = undefined
  isSettled = false
  /** Its grace is over. */
  isOutlived = false
  seat: Seat | undefined = undefined
  #controller: AbortController | undefined = undefined
  #enter: Enter | undefined = undefined

  constructor(
    owner: RunOwner,
    number: number,
    isConfirm: boolean,
    queuedMs: number,
    startedAt: number,
    pass: number,
  ) {
    this.owner = owner
    this.number = number
    this.isConfirm = isConfirm
    this.queuedMs = queuedMs
    this.startedAt = startedAt
    this.pass = pass
  }

  start(body: Body, timeoutMs: number): void {
    const { deadlines, seats } = this.owner.room
    if (timeoutMs !== Number.POSITIVE_INFINITY) deadlines.set(this, timeoutMs)
    this.seat = seats.take()
    this.seat.host(this, body)
  }

  /** Whether the code that calls this runs in the body, or in something the body waits for. */
  get isHere(): boolean {
    return this.seat !== undefined && waitingHere().has(this.seat.name)
  }

  /** Made when the body first asks for it: a signal is the dearest part of an attempt. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      // Abort listeners of the body see what the body saw, whoever it is that aborts.
      this.#enter = captureContext()
      if (this.mark !== undefined) this.#controller.abort(this.reason)
    }
    return this.#controller.signal
  }

  /** Tells the body to stop; from now on it has its grace. */
  stop(mark: Mark, reason: unknown): void {
    if (this.mark !== undefined || this.isSettled) return
    const { deadlines, graceMs } = this.owner.room
    this.mark = mark
    this.reason = reason
    deadlines.set(this, graceMs)
    this.#enter?.(() => this.#controller?.abort(reason))
  }

  due(): void {
    // Hooks see the caller's context, and not that of a timer.
    enter(this.owner.context, () => this.#due())
  }

  #due(): void {
    if (this.mark === undefined) {
      this.stop('timeout', this.owner.expired(this))
      return
    }
    this.isOutlived = true
    this.owner.outlived(this)
  }

  settle(ok: boolean, value: unknown): void {
    this.isSettled = true
    if (this.isOutlived) this.owner.gone(this)
    else {
      if (this.index >= 0) this.owner.room.deadlines.drop(this)
      this.owner.settled(this, ok, value)
    }
  }
}

/** What is told of a body whose grace is over. */
export function zombieOf({ owner, number, startedAt }: Run, runtime: Runtime): CallZombie {
  const since = runtime.now()
  const started = since - (runtime.monotonic() - startedAt)
  return {
    key: owner.key,
    attempt: number,
    startedAt: started,
    since,
    worker: processName(),
  }
}

/** Seats that are kept; more bodies than this seldom run at once. */
const SPARE_SEATS = 256

/** The seats of a runner: as many as bodies run, and some to spare. */
export class Seats {
  readonly all = new Set<Seat>()
  readonly #spare: Seat[] = []

  take(): Seat {
    const spare = this.#spare.pop()
    if (spare !== undefined) return spare
    const seat = new Seat(this)
    this.all.add(seat)
    return seat
  }

  give(seat: Seat): void {
    if (this.#spare.length < SPARE_SEATS) this.#spare.push(seat)
    else this.all.delete(seat)
  }
}

/**
 * Where a body sits while it runs. Seats are used again, so that the function which awaits a body
 * is made once for each seat and not for each body. Its name is the seat's own, so that a trace
 * taken in the body shows where it sits: see nested/trace.ts.
 */
export class Seat implements Holder {
  readonly name = nameHolder()
  turn = 0
  /** Whose body sits here. */
  run: Run | undefined = undefined
  readonly #seats: Seats

  constructor(seats: Seats) {
    this.#seats = seats
  }

  get busy(): boolean {
    return this.run !== undefined
  }

  /** The function below is always there. */
  mark(): void {}

  /** Runs the body, and tells of its end: a throw is a failure, a thenable is asked once. */
  readonly host = awaiter(this.name, async (run: Run, body: Body): Promise<void> => {
    this.run = run
    let ok = true
    let value: unknown
    try {
      value = await body(new TaskContext(run))
    } catch (error) {
      ok = false
      value = error
    }
    this.run = undefined
    this.turn += 1
    this.#seats.give(this)
    run.settle(ok, value)
  })
}

/** What a body is given: no more of a run than it may see. */
class TaskContext implements RunnerContext {
  readonly key: string
  readonly attempt: number
  readonly #run: Run

  constructor(run: Run) {
    this.key = run.owner.key
    this.attempt = run.number
    this.#run = run
  }

  get idempotencyKey(): string {
    return this.key
  }

  get signal(): AbortSignal {
    return this.#run.signal
  }
}
