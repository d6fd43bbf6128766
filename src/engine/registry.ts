// Owns what this process knows about types: policies and handlers.
// May never run a handler.

import { AxError } from '../core/errors.ts'
import { callable, plain, show } from '../core/options.ts'
import type { TypeChange } from '../core/settings.ts'
import type { TypeSaid } from '../core/terms.ts'
import type { JobContext, TypePolicy } from '../core/types.ts'
import { capturePlace, type Place } from '../kit/place.ts'
import { checkType } from './options.ts'

export type Handler = (context: JobContext) => unknown

export class Registry {
  readonly #policies: ReadonlyMap<string, TypePolicy>
  readonly #types = new Map<string, TypeSaid>()
  readonly #handlers = new Map<string, Handler>()
  readonly #places = new Map<string, Place>()
  /** What was given of types; and what of that is not stored yet. */
  readonly #given = new Map<string, TypeChange>()
  readonly #unsaid = new Map<string, TypeChange>()
  #served: readonly string[] = []

  constructor(policies: ReadonlyMap<string, TypePolicy>) {
    this.#policies = policies
    for (const [type, policy] of policies) this.#learn(type, policy)
  }

  /** What `define` says goes over what the options said of the type. */
  define(type: string, policy: TypePolicy, handler: Handler): void {
    if (this.#handlers.has(type)) {
      throw new AxError(
        'INVALID_OPTION',
        `The type ${show(type)} has a handler already. Define each type once.`,
        { option: 'type', value: type },
      )
    }
    callable('The handler', handler)
    plain(`The policy of type ${show(type)}`, policy)
    const said = Object.entries(policy).filter(([, value]) => value !== undefined)
    this.#learn(type, { ...this.#policies.get(type), ...Object.fromEntries(said) })
    this.#handlers.set(type, handler)
    this.#places.set(type, capturePlace())
    this.#served = [...this.#handlers.keys()]
  }

  #learn(type: string, policy: TypePolicy): void {
    const said = checkType(type, policy)
    this.#types.set(type, said)
    const { setting } = said
    if (setting === undefined) return
    this.#given.set(type, setting)
    this.#unsaid.set(type, setting)
  }

  /** What was given of types, explicitly. */
  get given(): Readonly<Record<string, TypeChange>> {
    return Object.fromEntries(this.#given)
  }

  /** What of it is not stored yet. */
  get unsaid(): readonly (readonly [string, TypeChange])[] {
    return [...this.#unsaid]
  }

  /** It is stored. */
  said(type: string, setting: TypeChange): void {
    if (this.#unsaid.get(type) === setting) this.#unsaid.delete(type)
  }

  /** Where the handler of a type was defined. */
  placeOf(type: string): string | undefined {
    return this.#places.get(type)?.()
  }

  /** What was given of a type, and its functions; what others have said of it is not in it. */
  ofType(type: string): TypeSaid | undefined {
    return this.#types.get(type)
  }

  handlerOf(type: string): Handler | undefined {
    return this.#handlers.get(type)
  }

  /** The types that have a handler here. */
  get served(): readonly string[] {
    return this.#served
  }
}
