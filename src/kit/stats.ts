// Owns figures about many things in fixed memory: percentiles, counts by name, a rate.
// May never keep what it was told one by one, or grow with how much it was told.

/** Milliseconds; all zero when nothing was recorded. */
export interface Percentiles {
  readonly count: number
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

/** Each power of two is divided into 2^5 parts. */
const PRECISION = 5
/** The upper half of a double has 20 bits of its fraction. */
const SHIFT = 20 - PRECISION
/** 2^-10 ms, one microsecond: anything below counts as nothing. */
const FIRST = (1023 - 10) << PRECISION
/** Up to 2^33 ms, 99 days; anything above counts as that. */
const BUCKETS = 43 << PRECISION

const float = new Float64Array(1)
const halves = new Uint32Array(float.buffer)
const HIGH = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1 ? 1 : 0

/**
 * A log-linear histogram of durations in milliseconds. A bucket is 1/32 of a power of two wide,
 * so what it answers is at most 1.6 % off; the largest value is exact. `record` is O(1) without
 * a logarithm: the bucket is the upper bits of the number itself. 11 kB.
 */
export class Histogram {
  #counts: Float64Array | undefined
  #count = 0
  #max = 0

  /** Negative numbers and NaN count as 0. */
  record(ms: number): void {
    this.#counts ??= new Float64Array(BUCKETS)
    const bucket = bucketOf(ms)
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1
    this.#count += 1
    if (ms > this.#max) this.#max = ms
  }

  /** The nearest-rank percentiles of all that was recorded. O(buckets). */
  percentiles(): Percentiles {
    const [p50, p95, p99] = this.#values([0.5, 0.95, 0.99]) as [number, number, number]
    return { count: this.#count, p50, p95, p99, max: this.#max }
  }

  #values(shares: readonly number[]): number[] {
    const values: number[] = []
    let seen = 0
    let bucket = -1
    for (const share of shares) {
      const rank = Math.ceil(share * this.#count)
      while (seen < rank && bucket < BUCKETS - 1) {
        bucket += 1
        seen += this.#counts?.[bucket] ?? 0
      }
      values.push(this.#count === 0 ? 0 : Math.min(middleOf(bucket), this.#max))
    }
    return values
  }
}

function bucketOf(ms: number): number {
  if (!(ms > 0)) return 0
  float[0] = ms
  const bucket = ((halves[HIGH] as number) >>> SHIFT) - FIRST
  return bucket < 0 ? 0 : bucket >= BUCKETS ? BUCKETS - 1 : bucket
}

/** The first bucket holds nothing but what is next to nothing. */
function middleOf(bucket: number): number {
  if (bucket === 0) return 0
  const power = 2 ** (((bucket + FIRST) >> PRECISION) - 1023)
  const part = bucket & ((1 << PRECISION) - 1)
  return power * (1 + (part + 0.5) / (1 << PRECISION))
}

/** Names that are counted by themselves; whatever comes after counts as `other`. */
const MAX_NAMES = 100

/** Counts by name: the first 100 names, then `other`. O(1). */
export class Counts {
  readonly #counts = new Map<string, number>()

  add(name: string): void {
    const known = this.#counts.has(name) || this.#counts.size < MAX_NAMES
    const counted = known ? name : 'other'
    this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + 1)
  }

  /** Name to count. `__proto__` is a name like any other. */
  toObject(): Record<string, number> {
    return Object.fromEntries(this.#counts)
  }
}

const SPAN_MS = 10_000
const CELLS = 20
const CELL_MS = SPAN_MS / CELLS

/** How many a second there were in the last ten seconds, give or take half of one. O(1). */
export class Rate {
  readonly #cells = new Float64Array(CELLS)
  readonly #since: number
  /** Which half second, counted from the origin of the clock, was added to last. */
  #last = 0

  /** Times are milliseconds on a clock that never goes back. */
  constructor(now: number) {
    this.#since = now
    this.#last = Math.floor(now / CELL_MS)
  }

  add(now: number): void {
    this.#advance(now)
    const cell = this.#last % CELLS
    this.#cells[cell] = (this.#cells[cell] as number) + 1
  }

  /** Per second; in the first second as if it had passed. */
  perSecond(now: number): number {
    this.#advance(now)
    let sum = 0
    for (const count of this.#cells) sum += count
    const span = SPAN_MS - CELL_MS + (now - this.#last * CELL_MS)
    return (sum * 1_000) / Math.max(1_000, Math.min(now - this.#since, span))
  }

  #advance(now: number): void {
    const cell = Math.floor(now / CELL_MS)
    for (let gone = Math.min(cell - this.#last, CELLS); gone > 0; gone -= 1) {
      this.#cells[(cell - gone + 1) % CELLS] = 0
    }
    if (cell > this.#last) this.#last = cell
  }
}
