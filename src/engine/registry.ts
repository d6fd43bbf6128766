// Owns what this process knows about types: policies and handlers.
// May never run a handler.

import { AxError } from '../core/errors.ts'
import { callable, plain, show } from '../core/options.ts'
import type { TypeTerms } from '../core/submit.ts'
import type { JobContext, TypePolicy } from '../core/types.ts'
import { checkType } from './options.ts'

export type Handler = (context: JobContext) => unknown

export class Registry {
  readonly #policies: ReadonlyMap<string, TypePolicy>
  readonly #terms = new Map<string, TypeTerms>()
  readonly #handlers = new Map<string, Handler>()
  #served: readonly string[] = []

  constructor(policies: ReadonlyMap<string, TypePolicy>) {
    this.#policies = policies
    for (const [type, policy] of policies) this.#terms.set(type, checkType(type, policy))
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
    this.#terms.set(type, checkType(type, { ...this.#policies.get(type), ...policy }))
    this.#handlers.set(type, handler)
    this.#served = [...this.#handlers.keys()]
  }

  termsOf(type: string): TypeTerms | undefined {
    return this.#terms.get(type)
  }

  handlerOf(type: string): Handler | undefined {
    return this.#handlers.get(type)
  }

  /** The types that have a handler here. */
  get served(): readonly string[] {
    return this.#served
  }
}
