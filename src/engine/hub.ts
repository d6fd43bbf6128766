// Owns the way to the store: batches of writes, hints coming back, events going out.
// May never decide; whoever calls it has asked `decide` first.

import { AxError, isAxError } from '../core/errors.ts'
import type { Move } from '../core/job.ts'
import { Breath } from '../kit/breath.ts'
import { coalesce } from '../kit/coalesce.ts'
import type { Emitter } from '../kit/emitter.ts'
import { withRetry } from '../kit/retry.ts'
import type { Runtime } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import type { Hint, InsertAnswer, InsertGroup, Moved, Store, Told } from '../store/store.ts'
import { createEmitter, type EventName, publish, type SchedulerEvents } from './events.ts'
import type { Settings } from './options.ts'
import { Outage } from './outage.ts'
import { piecesOf, shareOf, sizeOfJobs, sizeOfMove } from './sizes.ts'

/** How a store that is away is asked again: soon at first, then patiently, and for ever. */
const PATIENCE = { baseDelay: 50, maxDelay: 1_000, retries: Number.POSITIVE_INFINITY }

/** How often a call is repeated that its caller waits for: for some two seconds. */
const BRIEFLY = { ...PATIENCE, retries: 5 }

/** Between two looks at a store whose hints may get lost. */
const POLL_MS = 1_000

export class Hub {
  readonly store: Store
  readonly settings: Settings
  readonly runtime: Runtime
  readonly emitter: Emitter<SchedulerEvents>
  /** This process, this start: a name that no other start shares. */
  readonly holder: string
  readonly move: (move: Move) => Promise<Moved>
  /** Called while jobs are on their way to the store. */
  onInserting: (groups: readonly InsertGroup[]) => void = () => {}
  /** Taken where a loop could go on from promise to promise: timers and heartbeats need a turn. */
  readonly breath: Breath
  /** Says that the store refuses, and that it answers again. */
  readonly outage: Outage
  /** A small group, stored together with those of the same turn. */
  readonly #insertSmall: (group: InsertGroup) => Promise<InsertAnswer>
  readonly #hintListeners = new Set<(hint: Hint) => void>()
  #transitions = 0
  #answers = 0
  #hasGivenUp = false

  constructor(store: Store, settings: Settings) {
    this.store = store
    this.settings = settings
    this.runtime = settings.runtime
    this.emitter = createEmitter(settings.logger)
    this.breath = new Breath(this.runtime)
    this.outage = new Outage(settings)
    const start = Math.floor(this.runtime.random() * 2 ** 40).toString(36)
    this.holder = `${settings.name}:${start}`
    this.move = coalesce((moves) => this.moveAll(moves), { max: LIMITS.moves })
    this.#insertSmall = coalesce((groups) => this.insertAll(groups), {
      max: LIMITS.batch,
      weigh: ({ jobs }) => {
        const count = jobs.reduce((sum, job) => sum + 1 + job.deps.length, 0)
        return shareOf(count, sizeOfJobs(jobs), LIMITS.batch)
      },
    })
  }

  /** How often it has answered a part of what takes several calls: so long it is not silent. */
  get answers(): number {
    return this.#answers
  }

  /** Whether anybody here listens to transitions: only then are they asked for. */
  get tell(): boolean {
    return this.#transitions > 0
  }

  on<E extends EventName>(event: E, listener: (value: SchedulerEvents[E]) => void): () => void {
    const stop = this.emitter.on(event, listener)
    this.#transitions += 1
    let on = true
    return () => {
      if (on) this.#transitions -= 1
      on = false
      stop()
    }
  }

  /** Small groups share a call; a large one is a call of its own. */
  async insert(group: InsertGroup): Promise<InsertAnswer> {
    const isSmall = group.jobs.length <= 100 && sizeOfJobs(group.jobs) < LIMITS.bytes
    if (isSmall) return this.#insertSmall(group)
    const answers = await this.insertAll([group])
    return answers[0] as InsertAnswer
  }

  /** In as many calls as their size asks for, one after the other. */
  async insertAll(groups: readonly InsertGroup[]): Promise<readonly InsertAnswer[]> {
    const pieces = piecesOf(groups, ({ jobs }) => sizeOfJobs(jobs), LIMITS.bytes)
    if (pieces.length <= 1) return this.#insertPiece(groups)
    const answers: InsertAnswer[] = []
    for (const piece of pieces) answers.push(...(await this.#insertPiece(piece)))
    return answers
  }

  async #insertPiece(groups: readonly InsertGroup[]): Promise<readonly InsertAnswer[]> {
    await this.breath.take()
    const inserting = this.store.insert(groups, this.tell)
    this.onInserting(groups)
    return this.heard(await inserting)
  }

  /** Emits what a call has written, and passes its answer on. */
  heard<T>(told: Told<T>): T {
    if (told.events.length > 0) publish(this.emitter, told.events)
    return told.answer
  }

  hint(hint: Hint): void {
    for (const listener of this.#hintListeners) listener(hint)
  }

  onHint(listener: (hint: Hint) => void): () => void {
    this.#hintListeners.add(listener)
    return () => {
      this.#hintListeners.delete(listener)
    }
  }

  /** How long to sleep between two looks: jittered, so that workers do not look in step. */
  pollMs(): number {
    return this.store.traits.lossyHints
      ? POLL_MS * (0.75 + this.runtime.random() / 4)
      : Number.POSITIVE_INFINITY
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.runtime.after(ms, resolve)
    })
  }

  /**
   * Asks until the store answers, or until `stop` says so: for what must not be given up because
   * of an outage. Other errors pass through.
   */
  patiently<T>(ask: () => Promise<T>, stop: () => boolean): Promise<T> {
    const { outage, runtime } = this
    // Its name among all that is refused.
    const call = {}
    let isRefused = false
    const isRetryable = (error: unknown) => {
      const isWorthIt = isUnavailable(error) && !this.#hasGivenUp && !stop()
      if (isWorthIt) outage.refused(call, error)
      else outage.forget(call)
      isRefused = isWorthIt
      return isWorthIt
    }
    const again = async () => {
      const answer = await ask()
      outage.answered(call)
      return answer
    }
    return withRetry(() => (isRefused ? again() : ask()), { ...PATIENCE, isRetryable, runtime })
  }

  /** Nobody waits for this process any more: what the store refuses from now on is given up. */
  giveUp(): void {
    this.#hasGivenUp = true
  }

  /**
   * Asks again where one call was lost, which is no outage yet; gives up after some two seconds,
   * or where asking again is no use.
   */
  briefly<T>(ask: () => Promise<T>, stop: () => boolean): Promise<T> {
    const isWorthIt = (error: unknown) =>
      isAxError(error) && error.retryable && isUnavailable(error)
    const isRetryable = (error: unknown) => isWorthIt(error) && !stop()
    const counted = async () => {
      const answer = await ask()
      this.#answers += 1
      return answer
    }
    return withRetry(counted, { ...BRIEFLY, isRetryable, runtime: this.runtime })
  }

  /** In as many calls as their size asks for, one after the other. */
  async moveAll(moves: readonly Move[]): Promise<readonly Moved[]> {
    const pieces = piecesOf(moves, sizeOfMove, LIMITS.bytes)
    if (pieces.length <= 1) return this.#movePiece(moves)
    const answers: Moved[] = []
    for (const piece of pieces) {
      const moved = await this.#movePiece(piece)
      // What is written a second time, as a later piece was refused, is no progress.
      if (moved.some(({ status }) => status === 'moved')) this.#answers += 1
      answers.push(...moved)
    }
    return answers
  }

  /** A call touches each id once: a second move of a batch on the same job waits for the first. */
  async #movePiece(moves: readonly Move[]): Promise<readonly Moved[]> {
    const ids = new Set(moves.map((move) => move.id))
    if (ids.size === moves.length) return this.heard(await this.store.apply(moves, this.tell))
    const answers = new Array<Moved>(moves.length)
    let rest = moves.map((_, index) => index)
    while (rest.length > 0) {
      const round = new Map<string, number>()
      for (const index of rest) {
        const { id } = moves[index] as Move
        if (!round.has(id)) round.set(id, index)
      }
      const taken = [...round.values()]
      const told = await this.store.apply(
        taken.map((index) => moves[index] as Move),
        this.tell,
      )
      this.heard(told).forEach((answer, at) => {
        answers[taken[at] as number] = answer
      })
      const done = new Set(taken)
      rest = rest.filter((index) => !done.has(index))
    }
    return answers
  }
}

export function isUnavailable(error: unknown): boolean {
  return isAxError(error, 'STORE_UNAVAILABLE')
}

export function closedError(name: string): AxError {
  return new AxError(
    'CLOSED',
    `The scheduler '${name}' is closed. Make another one to go on, on the same store if need be.`,
  )
}
