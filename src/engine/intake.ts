// Owns what happens to a submission before it is stored: its payload checked, its type looked up.
// May never store anything, or open a store for what is wrong anyhow.

import { idMaker } from '../core/id.ts'
import type { NewJob } from '../core/job.ts'
import { schemaThrew, valueFrom } from '../core/schema.ts'
import {
  agreed,
  type Draft,
  draftOf,
  filled,
  type JobBody,
  placed,
  type SubmitContext,
} from '../core/submit.ts'
import type { JobInput, StandardSchemaV1 } from '../core/types.ts'
import { captureContext } from '../kit/context.ts'
import { capturePlace } from '../kit/place.ts'
import type { Hub } from './hub.ts'
import type { KnownTypes } from './known.ts'
import type { Registry } from './registry.ts'
import type { LocalBody } from './worker.ts'

/** A job in its final shape, or one on its way: its schema, or the store, has to be asked. */
export type Prepared = NewJob | Promise<NewJob>

export class Intake {
  readonly #hub: Hub
  readonly #registry: Registry
  readonly #known: KnownTypes
  /** Opens the store. */
  readonly #open: () => Promise<unknown>
  readonly #context: SubmitContext

  constructor(hub: Hub, registry: Registry, known: KnownTypes, open: () => Promise<unknown>) {
    this.#hub = hub
    this.#registry = registry
    this.#known = known
    this.#open = open
    this.#context = {
      mint: idMaker(() => hub.runtime.random()),
      isMade: (type) => registry.ofType(type)?.schema !== undefined,
      maxPayloadBytes: hub.settings.limits.payload,
      keepsLive: hub.store.traits.keepsLive,
      storeName: hub.store.traits.name,
    }
  }

  /**
   * Checks one submission and gives it its final shape; nothing is stored yet. What it says is
   * taken down before this returns, so that the caller may go on and change it.
   */
  prepare(input: JobInput, index?: number): Prepared {
    const draft = this.#draft(input, index)
    if (!(draft instanceof Promise) && this.#known.isFresh) return this.#agreed(draft, index)
    return this.#late([draft], () => index).then(([job]) => job as NewJob)
  }

  /** All of a list, in order; `from` is the place of the first. The first that is wrong speaks. */
  prepareAll(inputs: readonly JobInput[], from = 0): NewJob[] | Promise<NewJob[]> {
    const { isFresh } = this.#known
    const jobs: NewJob[] = []
    const rest: (Draft | Promise<Draft>)[] = []
    for (let at = 0; at < inputs.length; at += 1) {
      const draft = (): Draft | Promise<Draft> => this.#draft(inputs[at] as JobInput, from + at)
      if (!isFresh || rest.length > 0) rest.push((async () => draft())())
      else {
        const made = draft()
        if (made instanceof Promise) rest.push(made)
        else jobs.push(this.#agreed(made, from + at))
      }
    }
    if (rest.length === 0) return jobs
    const next = from + jobs.length
    return this.#late(rest, (at) => next + at).then((late) => jobs.concat(late))
  }

  /** What is wrong whatever its type is refused here, before the store is opened for any of it. */
  #draft(input: JobInput, index: number | undefined): Draft | Promise<Draft> {
    return inPlace(index, () => {
      const draft = this.#bound(draftOf(input, this.#context, this.#hub.runtime.now()))
      const { type } = draft.job
      const schema = this.#registry.ofType(type)?.schema
      return schema === undefined ? draft : this.#validated(draft, schema, input.payload, index)
    })
  }

  /** A body of its own sees the context of whoever submits it. */
  #bound(draft: Draft): Draft {
    const { job, asked } = draft
    if (job.body === undefined) return draft
    const body: LocalBody = { ...(job.body as JobBody), enter: captureContext() }
    // Costly, so only where it may be asked for: see kit/place.ts.
    const { heartbeatMs } = { ...this.#known.termsOf(job.type).terms, ...asked }
    const isWatched = heartbeatMs > 0 || this.#hub.settings.trackAsync
    return { ...draft, job: { ...job, body: isWatched ? { ...body, from: capturePlace() } : body } }
  }

  /** What the schema of its type makes of its payload is what is stored. */
  #validated(
    draft: Draft,
    schema: StandardSchemaV1,
    payload: unknown,
    index: number | undefined,
  ): Draft | Promise<Draft> {
    const { type } = draft.job
    const take = (answer: unknown) => filled(draft, valueFrom(type, answer), this.#context)
    const fail = (error: unknown): never => {
      throw schemaThrew(type, error)
    }
    let answer: unknown
    try {
      answer = schema['~standard'].validate(payload)
    } catch (error) {
      fail(error)
    }
    if (!isThenable(answer)) return take(answer)
    const made = Promise.resolve(answer).catch(fail).then(take)
    return made.catch((error: unknown) => {
      throw errorAt(index, error)
    })
  }

  /** What others have said of the types is looked up first. */
  async #late(
    drafts: readonly (Draft | Promise<Draft>)[],
    indexOf: (at: number) => number | undefined,
  ): Promise<NewJob[]> {
    const made = await Promise.allSettled(drafts)
    for (const each of made) if (each.status === 'rejected') throw each.reason
    if (!this.#known.isFresh) {
      await this.#open()
      if (!this.#known.isFresh) await this.#known.refresh()
    }
    return made.map((each, at) => {
      return this.#agreed((each as PromiseFulfilledResult<Draft>).value, indexOf(at))
    })
  }

  #agreed(draft: Draft, index: number | undefined): NewJob {
    return inPlace(index, () => agreed(draft, this.#known.termsOf(draft.job.type)))
  }
}

/** Errors of a batch say which job they are about. */
function inPlace<T>(index: number | undefined, make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw errorAt(index, error)
  }
}

function errorAt(index: number | undefined, error: unknown): unknown {
  return index === undefined ? error : placed(error, index)
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (typeof value !== 'object' || value === null) return false
  return typeof (value as { readonly then?: unknown }).then === 'function'
}
