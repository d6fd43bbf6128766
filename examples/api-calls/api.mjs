// An API with a quota, a capacity and bad luck, in this process and on the clock it is given.
// It knows nothing about its callers. The same seed gives the same luck, call by call.

/** How many requests it works on at full speed; more of them slow each other down. */
const CAPACITY = 50
/** With more than this many under way it answers 503 at once. */
const ROOM = 250
/** Requests that it takes in one second; the next one hears 429 and when to come back. */
const QUOTA = 120

/** What an HTTP client throws for an answer that is no success: `withRetry` looks at `status`. */
export class HttpError extends Error {
  /**
   * @param {number} status
   * @param {number} [retryAfter] milliseconds, from the header Retry-After
   */
  constructor(status, retryAfter) {
    super(`POST /charges: ${status}`)
    this.name = 'HttpError'
    this.status = status
    this.code = `HTTP_${status}`
    if (retryAfter !== undefined) this.retryAfter = retryAfter
  }
}

/**
 * @typedef {{ idempotencyKey: string, amount: number }} Charge
 * @typedef {{ id: string, amount: number }} Receipt
 */

/**
 * `api.charge(charge, signal)` resolves to a receipt, or rejects with an `HttpError`, or with the
 * reason of the signal. `api.seen` is what the other side could tell.
 *
 * @param {import('ax-scheduler').Runtime} runtime
 * @param {{ seed?: number, ill?: boolean | undefined, quota?: number | undefined }} [options]
 *   `ill`: three times as slow, 40 % of the requests get a 503 and 10 % no answer at all
 */
export function createApi(runtime, { seed = 1, ill = false, quota = QUOTA } = {}) {
  /** The unique index: one receipt per idempotency key. @type {Map<string, Receipt>} */
  const receipts = new Map()
  /** @type {Map<string, number>} */
  const tries = new Map()
  const seen = { requests: 0, charged: 0, repeats: 0, peak: 0 }
  const luck = ill ? { slow: 3, refuse: 0.4, silent: 0.1 } : { slow: 1, refuse: 0.01, silent: 0.01 }
  let underWay = 0
  let second = 0
  let used = 0

  /** Insert or nothing: whoever comes second gets what the first one got. @param {Charge} charge */
  function book({ idempotencyKey, amount }) {
    const known = receipts.get(idempotencyKey)
    if (known !== undefined) {
      seen.repeats += 1
      return known
    }
    seen.charged += 1
    const receipt = { id: `charge-${seen.charged}`, amount }
    receipts.set(idempotencyKey, receipt)
    return receipt
  }

  function refuseAboveQuota() {
    const now = runtime.monotonic()
    if (Math.floor(now / 1_000) !== second) {
      second = Math.floor(now / 1_000)
      used = 0
    }
    used += 1
    if (used > quota) throw new HttpError(429, (second + 1) * 1_000 - now)
  }

  /**
   * @param {Charge} charge
   * @param {AbortSignal} signal
   * @returns {Promise<Receipt>}
   */
  async function charge(charge, signal) {
    const nth = (tries.get(charge.idempotencyKey) ?? 0) + 1
    tries.set(charge.idempotencyKey, nth)
    const [duration, fate, silence] = draw(`${seed}/${charge.idempotencyKey}/${nth}`)
    seen.requests += 1
    refuseAboveQuota()
    if (underWay >= ROOM) throw new HttpError(503)
    underWay += 1
    seen.peak = Math.max(seen.peak, underWay)
    const crowd = Math.max(1, underWay / CAPACITY) * (1 + Math.max(0, underWay - CAPACITY) / 200)
    const ms = (200 + 200 * duration) * luck.slow * crowd
    return new Promise((resolve, reject) => {
      // Whoever gives up and closes the connection does not stop the work on the other side.
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      runtime.after(ms, () => {
        underWay -= 1
        if (fate < luck.refuse) reject(new HttpError(503))
        else if (fate > 1 - luck.silent) silence < 0.5 && book(charge)
        else resolve(book(charge))
      })
    })
  }

  return { charge, seen }
}

/**
 * Three numbers in [0, 1) that depend on the text alone (FNV-1a, and the finisher of murmur3).
 *
 * @param {string} text
 * @returns {[number, number, number]}
 */
function draw(text) {
  let hash = 0x811c9dc5
  for (const character of text) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193)
  const next = (/** @type {number} */ salt) => {
    let mixed = hash ^ Math.imul(salt, 0x9e3779b9)
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32
  }
  return [next(1), next(2), next(3)]
}
