// A downstream that breaks: more than 20 calls in a second, and it answers 503 to everybody until
// five seconds after the last such second. It lives in this process, on the clock it is given, and
// knows nothing about its callers.

/** Calls that it takes in any second. One more, and it is ill. */
export const LIMIT = 20

/** How long it stays ill after the last call that was too many, in milliseconds. */
const ILL_MS = 5_000

/** What an HTTP client throws for an answer that is no success. */
export class HttpError extends Error {
  /** @param {number} status */
  constructor(status) {
    super(`GET /export: ${status}`)
    this.name = 'HttpError'
    this.status = status
    this.code = `HTTP_${status}`
  }
}

/**
 * `call(ms)` takes so long and resolves, or rejects with an `HttpError`. `restart()` breaks every
 * call that is under way, at one instant. `calls` has the instants of all calls, in order.
 *
 * @param {import('ax-scheduler').Runtime} runtime
 */
export function createDownstream(runtime) {
  /** @type {number[]} */
  const calls = []
  /** @type {Set<(error: HttpError) => void>} */
  const underWay = new Set()
  let recent = 0
  let illUntil = Number.NEGATIVE_INFINITY

  /** How many calls there were in the second that ends now. */
  function load() {
    const now = runtime.monotonic()
    while (Number(calls[recent]) <= now - 1_000) recent += 1
    return calls.length - recent
  }

  /**
   * @param {number} ms
   * @returns {Promise<void>}
   */
  async function call(ms) {
    const now = runtime.monotonic()
    calls.push(now)
    if (load() > LIMIT) illUntil = now + ILL_MS
    if (now < illUntil) throw new HttpError(503)
    return new Promise((resolve, reject) => {
      underWay.add(reject)
      runtime.after(ms, () => {
        underWay.delete(reject)
        resolve()
      })
    })
  }

  function restart() {
    const broken = underWay.size
    for (const reject of underWay) reject(new HttpError(503))
    underWay.clear()
    return broken
  }

  return { call, restart, calls }
}
