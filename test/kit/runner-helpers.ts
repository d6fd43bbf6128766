// Owns what the tests of the runner share. May never sleep.

import type { AttemptRecord, RunnerContext } from '../../src/kit/runner.ts'
import { createRunner, type Runner, type RunnerOptions } from '../../src/kit/runner.ts'
import { type VirtualRuntime, virtualRuntime } from '../../src/testing/virtual.ts'

export interface Bench {
  readonly runtime: VirtualRuntime
  readonly runner: Runner
  /** The timeline so far. */
  readonly records: AttemptRecord[]
  /** The timeline, a word a line: `key attempt outcome code`. */
  timeline(): string[]
}

/** A runner on virtual time whose timeline is kept. */
export function bench(options: Partial<RunnerOptions> = {}, seed = 1): Bench {
  const runtime = virtualRuntime(seed)
  const records: AttemptRecord[] = []
  const onAttempt = (record: AttemptRecord) => {
    records.push(record)
    options.onAttempt?.(record)
  }
  const runner = createRunner({ concurrency: 1, ...options, onAttempt, runtime })
  const timeline = () =>
    records.map(({ key, attempt, outcome, code }) =>
      [key, attempt, outcome, code].filter((word) => word !== undefined).join(' '),
    )
  return { runtime, runner, records, timeline }
}

export function sleep(runtime: VirtualRuntime, ms: number): Promise<void> {
  return new Promise((resolve) => runtime.after(ms, resolve))
}

/** A body that lasts so long, and ends with the reason of its signal if it is aborted before. */
export function obedient<T>(runtime: VirtualRuntime, ms: number, value: T) {
  return ({ signal }: RunnerContext): Promise<T> =>
    new Promise((resolve, reject) => {
      const timer = runtime.after(ms, () => resolve(value))
      signal.addEventListener('abort', () => {
        timer.cancel()
        reject(signal.reason)
      })
    })
}

/** A body that lasts so long, whatever it is told. */
export function stubborn<T>(runtime: VirtualRuntime, ms: number, value: T) {
  return (): Promise<T> => sleep(runtime, ms).then(() => value)
}

export const transient = (more: object = {}) =>
  Object.assign(new Error('try again'), { retryable: true, ...more })
