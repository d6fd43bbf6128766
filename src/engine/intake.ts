// Owns what happens to a submission before it is stored: its type looked up, its payload checked.
// May never store anything, or open a store for what is wrong anyhow.

import { idMaker } from '../core/id.ts'
import { Live, type NewJob } from '../core/job.ts'
import { schemaThrew, valueFrom } from '../core/schema.ts'
import {
  ofType,
  payloadAtRest,
  placed,
  type SubmitContext,
  type TypeTerms,
  toNewJob,
  type Wishes,
} from '../core/submit.ts'
import { DEFAULT_TYPE } from '../core/terms.ts'
import type { JobInput, StandardSchemaV1 } from '../core/types.ts'
import { captureContext } from '../kit/context.ts'
import { capturePlace } from '../kit/place.ts'
import type { Hub } from './hub.ts'
import type { KnownTypes } from './known.ts'
import type { Registry } from './registry.ts'
import type { LocalBody } from './worker.ts'

/** Of a type that is not known yet: it refuses only what every type would. */
const ANY_TYPE: TypeTerms = {
  ...DEFAULT_TYPE,
  terms: { ...DEFAULT_TYPE.terms, retries: 1 },
}

/** A job in its final shape, or one on its way: its schema, or the store, has to be asked. */
export type Prepared = NewJob | Promise<NewJob>

export class Intake {
  readonly #hub: Hub
  readonly #registry: Registry
  readonly #known: KnownTypes
  /** Opens the store. */
  readonly #open: () => Promise<unknown>
  /** What submissions are checked against; what can be written is of the one in hand. */
  readonly #context: SubmitContext & {
    now: number
    index: number | undefined
    withoutPayload: boolean
  }
  #unknown: TypeTerms | undefined

  constructor(hub: Hub, registry: Registry, known: KnownTypes, open: () => Promise<unknown>) {
    this.#hub = hub
    this.#registry = registry
    this.#known = known
    this.#open = open
    const mint = idMaker(() => hub.runtime.random())
    this.#context = {
      typeOf: (type) => registry.termsOf(type) ?? this.#unknown ?? known.get(type),
      mint: () => mint(this.#context.now),
      now: 0,
      index: undefined,
      withoutPayload: false,
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
    const type = typeOf(input)
    if (type === undefined) return this.#build(input, index)
    const terms = this.#registry.termsOf(type)
    if (terms?.schema !== undefined) return this.#validated(input, type, terms.schema, index)
    if (terms !== undefined || this.#known.isFresh) return this.#build(input, index)
    return this.#lookedUp(input, type, index)
  }

  /** All of a list, in order; `from` is the place of the first. The first that is wrong speaks. */
  prepareAll(inputs: readonly JobInput[], from = 0): NewJob[] | Promise<NewJob[]> {
    const jobs: NewJob[] = []
    if (!this.#known.isLoaded) this.#check(inputs, from)
    for (let at = 0; at < inputs.length; at += 1) {
      const job = this.prepare(inputs[at] as JobInput, from + at)
      if (job instanceof Promise) return this.#rest(inputs, from, jobs, job)
      jobs.push(job)
    }
    return jobs
  }

  /** Refuses what is wrong whatever its type, before the store is opened for any of them. */
  #check(inputs: readonly JobInput[], from: number): void {
    inputs.forEach((input, at) => {
      const type = typeOf(input)
      const isKnown = type !== undefined && this.#registry.termsOf(type) !== undefined
      if (!isKnown) this.#buildAs(ANY_TYPE, false, input, from + at)
    })
  }

  async #rest(
    inputs: readonly JobInput[],
    from: number,
    jobs: NewJob[],
    first: Promise<NewJob>,
  ): Promise<NewJob[]> {
    const next = jobs.length + 1
    const late = Array.from(inputs.slice(next), async (input, at) => {
      return this.prepare(input, from + next + at)
    })
    const settled = await Promise.allSettled([first, ...late])
    for (const each of settled) {
      if (each.status === 'rejected') throw each.reason
      jobs.push(each.value)
    }
    return jobs
  }

  #build(input: JobInput, index: number | undefined): NewJob {
    const context = this.#context
    context.now = this.#hub.runtime.now()
    context.index = index
    const job = toNewJob(input, context)
    if (job.body === undefined) return job
    const body = { ...job.body, enter: captureContext() } as LocalBody
    // Costly, so only where it may be asked for: see kit/place.ts.
    const isWatched = job.terms.heartbeatMs > 0 || this.#hub.settings.trackAsync
    return { ...job, body: isWatched ? { ...body, from: capturePlace() } : body }
  }

  /** Nobody here knows the type: others may, and what they have said is stored. */
  async #lookedUp(input: JobInput, type: string, index: number | undefined): Promise<NewJob> {
    const job = this.#buildAs(ANY_TYPE, false, input, index)
    const { pool, priority, timeout, retries, backoff, idempotent, heartbeat, execute } = input
    const wishes = { pool, priority, timeout, retries, backoff, idempotent, heartbeat, execute }
    await this.#open()
    if (!this.#known.isFresh) await this.#known.refresh()
    const terms = this.#known.get(type) ?? DEFAULT_TYPE
    return inPlace(index, () => ofType(job, wishes as Wishes, terms))
  }

  /** What the schema of its type makes of its payload is what is stored. */
  #validated(
    input: JobInput,
    type: string,
    schema: StandardSchemaV1,
    index: number | undefined,
  ): Prepared {
    const job = this.#buildAs(undefined, true, input, index)
    const take = (answer: unknown): NewJob => {
      return inPlace(index, () => this.#filled(job, valueFrom(type, answer)))
    }
    const fail = (error: unknown): never => {
      return inPlace(index, () => {
        throw schemaThrew(type, error)
      })
    }
    let answer: unknown
    try {
      answer = schema['~standard'].validate(input.payload)
    } catch (error) {
      fail(error)
    }
    if (!isThenable(answer)) return take(answer)
    return Promise.resolve(answer).catch(fail).then(take)
  }

  /** The same job with a payload. */
  #filled(job: NewJob, value: unknown): NewJob {
    const isLive = job.body !== undefined
    return { ...job, payload: isLive ? new Live(value) : payloadAtRest(value, this.#context) }
  }

  #buildAs(
    type: TypeTerms | undefined,
    withoutPayload: boolean,
    input: JobInput,
    index: number | undefined,
  ): NewJob {
    try {
      this.#unknown = type
      this.#context.withoutPayload = withoutPayload
      return this.#build(input, index)
    } finally {
      this.#unknown = undefined
      this.#context.withoutPayload = false
    }
  }
}

/** Errors of a batch say which job they are about. */
function inPlace<T>(index: number | undefined, make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw index === undefined ? error : placed(error, index)
  }
}

/** The type of a submission; undefined where it has none that could be looked up. */
function typeOf(input: JobInput | null | undefined): string | undefined {
  if (typeof input !== 'object' || input === null) return undefined
  const { type } = input
  if (type === undefined) return input.execute === undefined ? undefined : 'task'
  return typeof type === 'string' ? type : undefined
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (typeof value !== 'object' || value === null) return false
  return typeof (value as { readonly then?: unknown }).then === 'function'
}
