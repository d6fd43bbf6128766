// Owns telling listeners that something has happened.
// May never let a listener break the emitter, its caller, or another listener.

interface Entry<V> {
  readonly listener: (value: V) => unknown
  live: boolean
}

/**
 * Events by name, each with a value of its own type. Listeners are called in the order in which
 * they came, within `emit`. One that throws, or whose promise rejects, is reported to `onError`
 * and nobody else notices. One that is added while an event is emitted hears the next; one that
 * is removed hears nothing more. `emit` without listeners is one lookup.
 */
export class Emitter<Events extends object> {
  readonly #entries = new Map<keyof Events, readonly Entry<never>[]>()
  readonly #onError: (error: unknown, event: keyof Events) => void

  /** `onError` gets what listeners throw; what it throws itself is dropped. Default: dropped. */
  constructor(onError: (error: unknown, event: keyof Events) => void = () => {}) {
    this.#onError = onError
  }

  /** Adds a listener; the function it returns removes it again. */
  on<E extends keyof Events>(event: E, listener: (value: Events[E]) => unknown): () => void {
    const entry: Entry<Events[E]> = { listener, live: true }
    // Lists are replaced, never changed: an emit under way goes through the one it found.
    this.#entries.set(event, [...(this.#entries.get(event) ?? []), entry as Entry<never>])
    return () => {
      if (!entry.live) return
      entry.live = false
      const rest = this.#entries.get(event)?.filter((other) => other !== entry) ?? []
      if (rest.length > 0) this.#entries.set(event, rest)
      else this.#entries.delete(event)
    }
  }

  emit<E extends keyof Events>(event: E, value: Events[E]): void {
    const entries = this.#entries.get(event) as readonly Entry<Events[E]>[] | undefined
    if (entries === undefined) return
    for (const entry of entries) {
      if (entry.live) this.#tell(event, entry, value)
    }
  }

  /** Whether anybody listens: for callers that would have to build the value first. */
  has(event: keyof Events): boolean {
    return this.#entries.has(event)
  }

  /** How many listeners an event has. */
  count(event: keyof Events): number {
    return this.#entries.get(event)?.length ?? 0
  }

  #tell<E extends keyof Events>(event: E, entry: Entry<Events[E]>, value: Events[E]): void {
    try {
      const answer = entry.listener(value)
      if (typeof answer !== 'object' || answer === null || !('then' in answer)) return
      Promise.resolve(answer).catch((error: unknown) => this.#report(event, error))
    } catch (error) {
      this.#report(event, error)
    }
  }

  #report(event: keyof Events, error: unknown): void {
    try {
      this.#onError(error, event)
    } catch {
      // There is nobody left to tell.
    }
  }
}
