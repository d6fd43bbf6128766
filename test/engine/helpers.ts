// Owns what the tests of the engine share: a world of virtual time, bodies that end by hand,
// processes that stall, and a watch for what a test leaves behind. May never sleep.

import { getEventListeners } from 'node:events'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { AxError } from '../../src/core/errors.ts'
import type { JobEvent } from '../../src/core/job.ts'
import type { JobContext } from '../../src/core/types.ts'
import type { SchedulerOptions } from '../../src/engine/options.ts'
import { AxScheduler } from '../../src/index.ts'
import type { Runtime, Timer } from '../../src/kit/runtime.ts'
import type { Hint, Store } from '../../src/store/store.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'
import { awaitingServers, inMemory, storeOn } from './stores.ts'

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly fields: object
  readonly message: string
}

export interface World {
  readonly runtime: VirtualRuntime
  readonly logs: LogLine[]
  /** A scheduler on this world's time, whose log goes to `logs`. */
  open(options?: number | SchedulerOptions): AxScheduler
  /** A store on this world's time, for schedulers that share one. */
  store(): Store
  /** Lets time pass until the promise has settled. Fails if nothing is left that could do it. */
  pass<T>(promise: Promise<T>): Promise<T>
  /** The same, for one that rejects: its error. */
  fails(promise: Promise<unknown>): Promise<AxError>
  warnings(): string[]
}

export function world(seed = 1): World {
  const runtime = awaitingServers(virtualRuntime(seed))
  const logs: LogLine[] = []
  const log = (level: LogLine['level']) => (fields: object, message?: string) => {
    logs.push({ level, fields, message: message ?? '' })
  }
  const logger = { info: log('info'), warn: log('warn'), error: log('error') }
  const pass = async <T>(promise: Promise<T>): Promise<T> => {
    let settled = false
    const settle = () => {
      settled = true
    }
    promise.then(settle, settle)
    await runtime.run(() => settled)
    if (!settled) throw new Error('time has nothing left to bring, and the promise is pending')
    return promise
  }
  return {
    runtime,
    logs,
    open: (options = {}) => {
      const given = typeof options === 'number' ? { concurrency: options } : options
      const own = inMemory() ? {} : { store: storeOn(runtime) }
      return new AxScheduler({ runtime, logger, ...own, ...given })
    },
    store: () => storeOn(runtime),
    pass,
    fails: async (promise) => {
      const error = await pass(
        promise.then(
          (value) => new Error(`resolved with ${String(value)}`),
          (thrown: unknown) => thrown,
        ),
      )
      expect(error).toBeInstanceOf(AxError)
      return error as AxError
    },
    warnings: () => logs.filter(({ level }) => level !== 'info').map(({ message }) => message),
  }
}

/** A body that the test ends by hand, and what it can see of it. */
export interface Body<R = unknown> {
  readonly execute: (context: JobContext) => Promise<R>
  readonly starts: JobContext[]
  /** Ends the latest start, or the one with that index. */
  end(value: R, index?: number): void
  fail(error: unknown, index?: number): void
}

export function body<R = unknown>(): Body<R> {
  const starts: JobContext[] = []
  const ends: PromiseWithResolvers<R>[] = []
  return {
    starts,
    execute: (context) => {
      starts.push(context)
      const end = withResolvers<R>()
      ends.push(end)
      return end.promise
    },
    end: (value, index = ends.length - 1) => (ends[index] as (typeof ends)[number]).resolve(value),
    fail: (error, index = ends.length - 1) => (ends[index] as (typeof ends)[number]).reject(error),
  }
}

interface PromiseWithResolvers<R> {
  readonly promise: Promise<R>
  readonly resolve: (value: R) => void
  readonly reject: (error: unknown) => void
}

function withResolvers<R>(): PromiseWithResolvers<R> {
  let resolve: (value: R) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<R>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}

/** A body that takes so long, and ends at once when it is aborted. */
export function takes(runtime: Runtime, ms: number, value: unknown = undefined) {
  return ({ signal }: JobContext): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const timer = runtime.after(ms, () => resolve(value))
      const stop = () => {
        timer.cancel()
        reject(signal.reason)
      }
      signal.addEventListener('abort', stop, { once: true })
    })
}

/** A body that takes so long, whatever anybody says. */
export function ignores(runtime: Runtime, ms: number, value: unknown = undefined) {
  return (): Promise<unknown> =>
    new Promise((resolve) => {
      runtime.after(ms, () => resolve(value))
    })
}

/** The log of a store as text, one line per record. */
export async function logOf(scheduler: AxScheduler, job?: string): Promise<string[]> {
  const lines: string[] = []
  for await (const event of scheduler.events()) {
    if (job === undefined || event.job === job) lines.push(lineOf(event, job === undefined))
  }
  return lines
}

function lineOf(event: JobEvent, named: boolean): string {
  return `${named ? `${event.job} ` : ''}${event.event} ${event.from ?? 'new'}>${event.to}`
}

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

export async function codeOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise
  } catch (error) {
    return error instanceof AxError ? error.code : error
  }
}

/**
 * A process of its own on a shared store: its timers, its calls and its hints can be held up, as
 * by a blocked event loop, and let go again. One that is never let go has died.
 */
export interface Process {
  readonly runtime: Runtime
  readonly store: Store
  stall(): void
  wake(): void
}

export function processOn(store: Store, runtime: Runtime, lossyHints = false): Process {
  let stalled = false
  const backlog: (() => void)[] = []
  const run = (task: () => void) => {
    if (stalled) backlog.push(task)
    else task()
  }
  const turn = () => new Promise<void>((resolve) => run(resolve))
  return {
    runtime: stallable(runtime, run),
    store: gated(store, lossyHints, turn, run),
    stall: () => {
      stalled = true
    },
    wake: () => {
      stalled = false
      for (const task of backlog.splice(0)) task()
    },
  }
}

function stallable(runtime: Runtime, run: (task: () => void) => void): Runtime {
  return {
    now: () => runtime.now(),
    monotonic: () => runtime.monotonic(),
    random: () => runtime.random(),
    soon: (task) => runtime.soon(() => run(task)),
    after: (ms, task, options): Timer => {
      let cancelled = false
      const timer = runtime.after(
        ms,
        () =>
          run(() => {
            if (!cancelled) task()
          }),
        options,
      )
      return {
        cancel: () => {
          cancelled = true
          timer.cancel()
        },
      }
    },
  }
}

function gated(
  store: Store,
  lossyHints: boolean,
  turn: () => Promise<void>,
  run: (task: () => void) => void,
): Store {
  const traits = { ...store.traits, lossyHints: lossyHints || store.traits.lossyHints }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'traits') return traits
      const method = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>
      if (name === 'watch') {
        return (onHint: (hint: Hint) => void) =>
          target.watch((hint) => {
            // What is on its way when hints are lossy may as well never arrive.
            if (!lossyHints) run(() => onHint(hint))
          })
      }
      return async (...args: unknown[]) => {
        await turn()
        const answer = await method.apply(target, args)
        await turn()
        return answer
      }
    },
  })
}

export interface Node extends Process {
  readonly scheduler: AxScheduler
  readonly name: string
}

/** Schedulers of one store, each in a process that can stall. Leases of 15 s unless said. */
export function cluster(names: readonly string[], options: object = {}, seed = 1) {
  const base: World = world(seed)
  const store = base.store()
  const nodes = names.map((name): Node => {
    const process = processOn(store, base.runtime)
    const { runtime } = process
    const scheduler = base.open({
      name,
      runtime,
      store: process.store,
      leaseMs: 15_000,
      ...options,
    })
    return { ...process, scheduler, name }
  })
  return { ...base, shared: store, nodes: nodes as [Node, Node, ...Node[]] }
}

export async function startAll(nodes: readonly Node[]): Promise<void> {
  for (const { scheduler } of nodes) await scheduler.start()
}

/** A store of which single calls can be made to fail, before or after they have been carried out. */
export interface Faulty {
  readonly store: Store
  /** Asked at each call; answers what is to become of it. A silent one is never answered. */
  decide: (call: string) => 'ok' | 'refuse' | 'lose-answer' | 'silent'
}

export function faulty(inner: Store): Faulty {
  const away = () =>
    new AxError('STORE_UNAVAILABLE', 'The store does not answer. Is it running?', {})
  const faults: { decide: Faulty['decide'] } = { decide: () => 'ok' }
  const store = new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        const fate = faults.decide(String(name))
        if (fate === 'refuse') throw away()
        if (fate === 'silent') return new Promise<never>(() => {})
        const answer = await value.apply(target, args)
        if (fate === 'lose-answer') throw away()
        return answer
      }
    },
  })
  return {
    store,
    get decide() {
      return faults.decide
    },
    set decide(decide) {
      faults.decide = decide
    },
  }
}

/** A store that says what it has answered, before anybody hears of it. */
export function tapped(inner: Store, tap: (call: string, answer: unknown) => void): Store {
  return new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        const answer: unknown = await value.apply(target, args)
        tap(String(name), answer)
        return answer
      }
    },
  })
}

export function listeners(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length
}

/** Fails the file if anything in it leaves a rejection that nobody handles, or a warning. */
export function watchForLeaks(): void {
  const found: string[] = []
  const onRejection = (reason: unknown) => found.push(`unhandledRejection: ${String(reason)}`)
  const onWarning = (warning: Error) => {
    if (warning.name !== 'ExperimentalWarning') found.push(`warning: ${warning.message}`)
  }
  beforeAll(() => {
    process.on('unhandledRejection', onRejection)
    process.on('warning', onWarning)
  })
  afterEach(async () => {
    await new Promise<void>((resolve) => setImmediate(resolve))
    expect(found.splice(0)).toEqual([])
  })
  afterAll(() => {
    process.off('unhandledRejection', onRejection)
    process.off('warning', onWarning)
  })
}
