// Owns what is said of a store that refuses: once that it does, and once that it answers again.
// May never decide anything: whoever is refused goes on asking, and nobody waits for a word.

import { isAxError } from '../core/errors.ts'
import type { Runtime } from '../kit/runtime.ts'
import { complain, type Logger } from './logger.ts'

/** One call that was lost is no outage yet; the same one refused again is. */
const TWICE = 2

/** Who speaks, and to whom. */
export interface Speaker {
  readonly name: string
  readonly logger: Logger
  readonly runtime: Runtime
}

export class Outage {
  readonly #speaker: Speaker
  /** What is refused now, and how often it has been in a row. */
  readonly #refused = new Map<unknown, number>()
  /** What has failed otherwise, with the words that were said of it. */
  readonly #failed = new Map<string, string>()
  /** When it was said that the store refuses, until it was said that it answers. */
  #saidAt: number | undefined
  /** Why the store has refused at last. */
  #reason = ''

  constructor(speaker: Speaker) {
    this.#speaker = speaker
  }

  /** Why the store refuses; undefined while it does not. */
  get reason(): string | undefined {
    return this.#refused.size > 0 ? this.#reason : undefined
  }

  /** A part of the engine that comes back has failed: it says so once, and not each time. */
  failed(what: string, error: unknown): void {
    if (isRefusal(error)) {
      this.refused(what, error)
      return
    }
    const text = String(error)
    if (this.#failed.get(what) === text) return
    this.#failed.set(what, text)
    complain(this.#speaker.logger, `${what} failed`, error)
  }

  /** The store is away, or refuses a call; whoever asked will ask again under the same name. */
  refused(what: unknown, error: unknown): void {
    const times = (this.#refused.get(what) ?? 0) + 1
    this.#refused.set(what, times)
    this.#reason = isAxError(error) ? error.message : String(error)
    const isPassing = isAxError(error) && error.retryable && times < TWICE
    if (this.#saidAt !== undefined || isPassing) return
    const { name, logger, runtime } = this.#speaker
    this.#saidAt = runtime.monotonic()
    const text = `The store refuses what '${name}' asks of it, and is asked again: ${this.#reason}`
    logger.error({ error }, text)
  }

  /** The store has answered what was asked under that name. */
  answered(what: unknown): void {
    const isQuiet = this.#refused.size === 0 && this.#failed.size === 0
    if (isQuiet && this.#saidAt === undefined) return
    this.#failed.delete(what as string)
    this.#refused.delete(what)
    if (this.#refused.size > 0 || this.#saidAt === undefined) return
    const { name, logger, runtime } = this.#speaker
    const ms = Math.round(runtime.monotonic() - this.#saidAt)
    this.#saidAt = undefined
    logger.warn({ ms }, `The store answers '${name}' again, after ${ms} ms.`)
  }

  /** That is not asked any more. */
  forget(what: unknown): void {
    this.#refused.delete(what)
  }
}

/** Not an error of the engine: the store is away, or was closed under it. */
function isRefusal(error: unknown): boolean {
  return isAxError(error, 'STORE_UNAVAILABLE') || isAxError(error, 'CLOSED')
}
