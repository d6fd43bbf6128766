// Owns results that lie waiting for whoever asks for them, in order.
// May never hand one out twice, or out of turn.

/** A place in which no result lies. */
export const NOTHING = Symbol('nothing')

/** What was thrown, lying among results. */
export class Failure {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

type Place<O> = O | Failure | typeof NOTHING

const SMALLEST = 16

/** Results by their number, from `taken` on, in a ring that grows. All of it O(1), amortised. */
export class Results<O> {
  #ring = new Array<Place<O>>(SMALLEST).fill(NOTHING)
  /** How many have been taken: the number of the next one. */
  taken = 0

  /** Whether the next one is there. */
  get ready(): boolean {
    return this.#at(this.taken) !== NOTHING
  }

  /** Lays a result down; none is there under that number, and it is not below `taken`. */
  put(number: number, result: O | Failure): void {
    while (number - this.taken >= this.#ring.length) this.#grow()
    this.#ring[number & (this.#ring.length - 1)] = result
  }

  /** Takes the next one, or answers NOTHING. */
  take(): Place<O> {
    const at = this.taken & (this.#ring.length - 1)
    const result = this.#ring[at] as Place<O>
    if (result === NOTHING) return NOTHING
    this.#ring[at] = NOTHING
    this.taken += 1
    return result
  }

  /** Puts `failure` after those that are there without a gap, and forgets what lies behind it. */
  cut(failure: Failure): void {
    let end = this.taken
    while (end - this.taken < this.#ring.length && this.#at(end) !== NOTHING) end += 1
    const kept = Array.from({ length: end - this.taken }, (_, n) => this.#at(this.taken + n))
    this.clear()
    for (const [n, result] of kept.entries()) this.put(this.taken + n, result as O | Failure)
    this.put(end, failure)
  }

  clear(): void {
    this.#ring.fill(NOTHING)
  }

  #at(number: number): Place<O> {
    return this.#ring[number & (this.#ring.length - 1)] as Place<O>
  }

  #grow(): void {
    const ring = new Array<Place<O>>(this.#ring.length * 2).fill(NOTHING)
    for (let n = 0; n < this.#ring.length; n += 1) {
      const number = this.taken + n
      ring[number & (ring.length - 1)] = this.#at(number)
    }
    this.#ring = ring
  }
}
