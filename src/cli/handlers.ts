// Owns the way from the module of a worker to handlers that are defined.
// May never run a job, nor let a handler pass that nobody could call.

import { isAxError } from '../core/errors.ts'
import { show } from '../core/options.ts'
import type { JobContext, TypePolicy } from '../core/types.ts'
import type { AxScheduler } from '../index.ts'
import { loadModule } from './load.ts'
import { FlowFault } from './problems.ts'

type Handler = (context: JobContext) => unknown

export interface Handlers {
  /** Says what the module exports to a scheduler, and answers the types. */
  define(scheduler: AxScheduler, bodies: Bodies): Promise<readonly string[]>
}

/** Attempts whose handler has been called and has not settled. */
export type Bodies = Set<JobContext>

const SHAPES =
  'It has to be a function that is given the scheduler and defines types, or an object of ' +
  "handlers by type: a function each, or an object with a 'handler' and a policy."

/** Loads the module; throws a FlowFault that tells why it cannot be used. */
export async function loadHandlers(file: string): Promise<Handlers> {
  const loaded = await loadModule(file).catch((error) => {
    if (!(error instanceof FlowFault)) throw error
    throw new FlowFault(file, error.problems, 'worker')
  })
  if (!('default' in loaded)) {
    throw fault(file, `The module has no default export, which is where handlers are. ${SHAPES}`)
  }
  const given: unknown = loaded.default
  const isSet = typeof given === 'object' && given !== null && !Array.isArray(given)
  if (typeof given !== 'function' && !isSet) {
    throw fault(file, `The default export is ${show(given)}. ${SHAPES}`)
  }
  return {
    async define(scheduler, bodies) {
      const types = typesOf(scheduler, bodies)
      if (typeof given === 'function') await called(file, given, scheduler)
      else defineAll(file, given as Readonly<Record<string, unknown>>, scheduler)
      if (types.length > 0) return types
      throw fault(file, 'It defines no type, so this worker would run nothing.')
    },
  }
}

/** The types that are defined from now on, as they come; their handlers are watched. */
function typesOf(scheduler: AxScheduler, bodies: Bodies): readonly string[] {
  const types: string[] = []
  const define = scheduler.define.bind(scheduler) as (...args: unknown[]) => unknown
  scheduler.define = ((...args: [string, ...unknown[]]) => {
    const handle = define(...args.map((arg) => (isHandler(arg) ? watched(arg, bodies) : arg)))
    types.push(args[0])
    return handle
  }) as typeof scheduler.define
  return types
}

function isHandler(value: unknown): value is Handler {
  return typeof value === 'function'
}

function watched(handler: Handler, bodies: Bodies): Handler {
  return async (context) => {
    bodies.add(context)
    try {
      return await handler(context)
    } finally {
      bodies.delete(context)
    }
  }
}

async function called(file: string, define: unknown, scheduler: AxScheduler): Promise<void> {
  try {
    await (define as (scheduler: AxScheduler) => unknown)(scheduler)
  } catch (error) {
    // The store is nothing that the module could mend.
    if (isAxError(error, 'STORE_UNAVAILABLE')) throw error
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    throw fault(file, `The function that it exports has thrown. ${text}`)
  }
}

function defineAll(
  file: string,
  given: Readonly<Record<string, unknown>>,
  scheduler: AxScheduler,
): void {
  const problems = Object.entries(given).flatMap(([type, value]) => {
    try {
      const [policy, handler] = policyOf(value)
      scheduler.define(type, policy, handler)
      return []
    } catch (error) {
      if (!isAxError(error)) throw error
      return [{ text: `${show(type)}: ${error.message}` }]
    }
  })
  if (problems.length > 0) throw new FlowFault(file, problems, 'worker')
}

/** Whatever is no handler is refused by the scheduler, in its words. */
function policyOf(value: unknown): [TypePolicy, Handler] {
  if (typeof value !== 'object' || value === null) return [{}, value as Handler]
  const { handler, ...policy } = value as TypePolicy & { readonly handler?: unknown }
  return [policy, handler as Handler]
}

function fault(file: string, text: string): FlowFault {
  return new FlowFault(file, [{ text }], 'worker')
}
