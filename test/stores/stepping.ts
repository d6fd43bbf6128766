// Owns opening a store whose file takes other steps than the published ones: for tests.
// May never be used but to see what a later version will do with a file of this one.

import { hostOf } from '../../src/stores/sqlite/host.ts'
import { SqliteStore } from '../../src/stores/sqlite/port.ts'
import { STEPS } from '../../src/stores/sqlite/schema.ts'

const host = hostOf({
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  sleep: (ms) => new Promise((done) => setTimeout(done, ms)),
  every: (ms, run) => {
    const timer = setInterval(run, ms).unref()
    return () => clearInterval(timer)
  },
})

/** A store of a later ax, which adds these steps to those of this one. */
export function laterStore(file: string, ...added: readonly string[]): SqliteStore {
  const steps = [...STEPS, ...added]
  return new SqliteStore(file, { sync: 'normal', maxPages: undefined, steps }, host)
}
