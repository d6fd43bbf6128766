// Owns the named points at which a process of the crash suite ends itself with SIGKILL.
// May never do anything but that: until a point is armed, everything goes its way.

import type { Store } from '../../../src/store/store.ts'
import type { Spy } from './spy.ts'

/** Calls of the port that carry a job from one owner to the next. */
export const KINDS = ['insert', 'lease', 'apply'] as const
export type Kind = (typeof KINDS)[number]

const PLACES = ['amid the writes', 'before the commit', 'after the commit', 'before the answer']

/** Within a transaction of such a call, or on its way back; and in a body. */
export const POINTS: readonly string[] = [
  ...PLACES.flatMap((place) => KINDS.map((kind) => `${place} of ${kind}`)),
  'before the effect',
  'after the effect',
]

const isKind = (name: unknown): name is Kind => KINDS.includes(name as Kind)

export class Faults implements Spy {
  readonly #die: (point: string) => void
  readonly #asked: Record<Kind, number> = { insert: 0, lease: 0, apply: 0 }
  /** Calls of the transaction that is open: those that were asked as it began. */
  #within: readonly Kind[] = []
  #isWriting = false
  #writes = 0
  #armed: string | undefined
  #countdown = 0

  constructor(die: (point: string) => void) {
    this.#die = die
  }

  /** From now on the process dies when it comes to this point for the so-manieth time. */
  arm(point: string, countdown: number): void {
    this.#armed = point
    this.#countdown = countdown
  }

  hit(point: string): void {
    if (point !== this.#armed) return
    this.#countdown -= 1
    if (this.#countdown <= 0) this.#die(point)
  }

  before(sql: string): void {
    // One that has written nothing has nothing to lose.
    if (this.#isWriting && this.#writes > 0 && /^\s*COMMIT/i.test(sql))
      this.#at('before the commit')
  }

  after(sql: string): void {
    if (/^\s*BEGIN IMMEDIATE/i.test(sql)) {
      this.#isWriting = true
      this.#writes = 0
      this.#within = KINDS.filter((kind) => this.#asked[kind] > 0)
    } else if (/^\s*(COMMIT|ROLLBACK)/i.test(sql)) {
      const hasWritten = this.#isWriting && this.#writes > 0
      this.#isWriting = false
      if (hasWritten && /^\s*COMMIT/i.test(sql)) this.#at('after the commit')
    } else if (this.#isWriting && /^\s*(INSERT|UPDATE|DELETE|REPLACE|WITH)/i.test(sql)) {
      this.#writes += 1
      this.#at('amid the writes')
    }
  }

  /** The same store, whose calls are counted, and whose answers may come too late. */
  around(store: Store): Store {
    const asked = this.#asked
    const answered = (kind: Kind, answer: unknown) => {
      asked[kind] -= 1
      if (!isEmpty(answer)) this.hit(`before the answer of ${kind}`)
      return answer
    }
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        if (!isKind(name)) return value.bind(target)
        return (...args: unknown[]) => {
          asked[name] += 1
          const fail = (error: unknown) => {
            asked[name] -= 1
            throw error
          }
          return value.apply(target, args).then((told: unknown) => answered(name, told), fail)
        }
      },
    })
  }

  #at(place: string): void {
    for (const kind of this.#within) this.hit(`${place} of ${kind}`)
  }
}

/** A lease of nothing is no news to anybody. */
function isEmpty(told: unknown): boolean {
  const { answer } = told as { readonly answer: { readonly jobs?: readonly unknown[] } }
  return answer.jobs?.length === 0
}
