// Owns the look over the shoulder of the SQLite library, in a child: what is put to it, and when.
// May never change an answer. The product has no hook for this: the library itself is wrapped.

import { performance } from 'node:perf_hooks'

export interface Spy {
  before?(sql: string): void
  /** Only if it did not throw. */
  after?(sql: string, ms: number): void
  failed?(sql: string, error: unknown, ms: number): void
}

type Verb = (...values: unknown[]) => unknown

interface Face {
  exec: Verb
  prepare: (sql: string) => Record<string, unknown>
}

const VERBS = ['run', 'all', 'get', 'iterate']

/** Wraps the library that the store is about to load; answers its name. */
export async function spyOn(spy: Spy): Promise<string> {
  for (const name of ['node:sqlite', 'libsql']) {
    const found = await import(name).catch(() => null)
    if (found === null) continue
    const { DatabaseSync, default: other } = found as Record<string, { prototype: Face }>
    const type = DatabaseSync ?? other
    if (type === undefined) continue
    wrap(type.prototype, spy)
    return name
  }
  throw new Error('there is no SQLite library')
}

function wrap(face: Face, spy: Spy): void {
  const { exec, prepare } = face
  face.exec = function (this: Face, sql) {
    return around(spy, String(sql), () => exec.call(this, sql))
  }
  face.prepare = function (this: Face, sql) {
    const statement = prepare.call(this, sql)
    for (const verb of VERBS) {
      const plain = statement[verb]
      if (typeof plain !== 'function') continue
      statement[verb] = (...values: unknown[]) =>
        around(spy, sql, () => plain.apply(statement, values))
    }
    return statement
  }
}

function around<T>(spy: Spy, sql: string, act: () => T): T {
  spy.before?.(sql)
  const start = performance.now()
  let answer: T
  try {
    answer = act()
  } catch (error) {
    spy.failed?.(sql, error, performance.now() - start)
    throw error
  }
  spy.after?.(sql, performance.now() - start)
  return answer
}
