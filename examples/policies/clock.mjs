// Simulated time for the programs of docs/policies.md: an hour takes a moment, and every run is
// like the last. A real program needs none of this: without `runtime` a scheduler uses the clock
// of Node.js.

import { virtualRuntime } from 'ax-scheduler/testing'

export function simulatedTime() {
  const runtime = virtualRuntime(1)

  /** How much time has passed, in seconds. */
  const seconds = () => runtime.monotonic() / 1_000

  /** Lets time pass. @param {number} ms */
  const pass = (ms) => runtime.advance(ms)

  /**
   * Lets time pass until the promise has settled, and answers what it answers.
   *
   * @template T
   * @param {Promise<T>} promise
   * @returns {Promise<T>}
   */
  async function until(promise) {
    let settled = false
    const settle = () => {
      settled = true
    }
    promise.then(settle, settle)
    await runtime.run(() => settled)
    return promise
  }

  /**
   * What the body of a job does in these programs: it takes some time. Give it the signal, and it
   * stops when it is told to; without, it goes on.
   *
   * @param {number} ms
   * @param {AbortSignal} [signal]
   * @returns {Promise<void>}
   */
  function work(ms, signal) {
    return new Promise((resolve, reject) => {
      const timer = runtime.after(ms, resolve)
      signal?.addEventListener('abort', () => {
        timer.cancel()
        reject(signal.reason)
      })
    })
  }

  return { runtime, seconds, pass, until, work }
}
