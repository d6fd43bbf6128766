// Owns what a job of a flow does: a command, a request, a pause, or a function of a module.
// May never know when it does it, or how often.

import type { JobContext } from '../core/types.ts'
import { systemRuntime } from '../kit/runtime.ts'
import { type Checker, duration, text } from './check.ts'
import { checkRequest, type Request, request } from './http.ts'
import { type Path, showPath } from './problems.ts'
import { type Place, shell } from './shell.ts'

/** A function gets its dependencies' results by the names that they have in the flow. */
export type Call = (context: JobContext) => unknown

export type Work =
  | { readonly kind: 'run'; readonly command: string }
  | { readonly kind: 'http'; readonly request: Request }
  | { readonly kind: 'sleep'; readonly ms: number }
  | { readonly kind: 'call'; readonly call: Call }

/** The keys that say what a job does; it has exactly one of them. */
export function workKeys(allowsFunctions: boolean): readonly string[] {
  return allowsFunctions ? ['run', 'http', 'sleep', 'execute'] : ['run', 'http', 'sleep']
}

export function checkWork(
  check: Checker,
  path: Path,
  job: Readonly<Record<string, unknown>>,
): Work | undefined {
  const keys = workKeys(check.allowsFunctions)
  const given = keys.filter((key) => job[key] !== undefined)
  const key = given[0]
  if (key === undefined) {
    const text = `${showPath(path)} does nothing: it needs one of ${keys.join(', ')}.`
    return check.report(path, text, 'key')
  }
  if (given.length > 1) {
    const text = `${showPath(path)} has ${given.join(' and ')}, and a job does one thing only.`
    check.report([...path, given[1] as string], text, 'key')
  }
  return WORK[key]?.(check, [...path, key], job[key])
}

const WORK: Readonly<
  Record<string, (check: Checker, path: Path, value: unknown) => Work | undefined>
> = {
  run(check, path, value) {
    if (typeof value === 'function' && check.allowsFunctions) return called(value)
    const command = check.read(path, value, text)
    return command === undefined ? undefined : { kind: 'run', command }
  },
  execute(check, path, value) {
    if (typeof value === 'function') return called(value)
    return check.report(path, `${showPath(path)} must be a function.`)
  },
  http(check, path, value) {
    const request = checkRequest(check, path, value)
    return request === undefined ? undefined : { kind: 'http', request }
  },
  sleep(check, path, value) {
    const ms = check.read(path, value, duration)
    return ms === undefined ? undefined : { kind: 'sleep', ms }
  },
}

function called(value: unknown): Work {
  return { kind: 'call', call: value as Call }
}

/** Does it once. Rejects soon after `context.signal` is aborted, unless a function ignores it. */
export async function perform(work: Work, context: JobContext, place: Place): Promise<unknown> {
  switch (work.kind) {
    case 'run':
      return shell(work.command, context, place)
    case 'http':
      return request(work.request, context)
    case 'sleep':
      return sleep(work.ms, context.signal)
    case 'call':
      return work.call(context)
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<null> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const timer = systemRuntime.after(ms, () => {
      signal.removeEventListener('abort', stop)
      resolve(null)
    })
    const stop = () => {
      timer.cancel()
      reject(signal.reason)
    }
    signal.addEventListener('abort', stop, { once: true })
  })
}
