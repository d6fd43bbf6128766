// Owns a second opinion on cron expressions: second by second, with the time zones of the platform.
// May never be used for more than the few forms that the simulator draws: numbers, lists, steps
// and `*` in the seconds, minutes and hours, `*` in the rest.

const HOUR_MS = 3_600_000

/** Zones change their clocks on the quarter of an hour, if at all. */
const SLOT_MS = 900_000

const offsets = new Map<string, number>()

/** Milliseconds that a zone is ahead of UTC at an instant. */
function offsetAt(zone: string, instant: number): number {
  const slot = Math.floor(instant / SLOT_MS)
  const key = `${zone} ${slot}`
  const known = offsets.get(key)
  if (known !== undefined) return known
  const format = new Intl.DateTimeFormat('en-US', {
    ...{ timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric' },
    ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  })
  const at = slot * SLOT_MS
  const parts = Object.fromEntries(
    format.formatToParts(new Date(at)).map(({ type, value }) => [type, Number(value)]),
  ) as Record<string, number>
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts
  const offset = Date.UTC(year, month - 1, day, hour, minute, second) - at
  offsets.set(key, offset)
  return offset
}

export class Instants {
  readonly #fields: readonly ReadonlySet<number>[]
  readonly #zone: string
  /** It names a time of day, rather than a rhythm. */
  readonly #isFixed: boolean

  constructor(cron: string, zone: string | null) {
    const fields = cron.split(' ').slice(0, 3)
    this.#fields = fields.map((field, index) => valuesOf(field, index < 2 ? 60 : 24))
    this.#isFixed = fields.every((field) => !field.includes('*'))
    this.#zone = zone ?? 'UTC'
  }

  isOne(instant: number): boolean {
    if (instant % 1_000 !== 0) return false
    if (this.isSkipped(instant)) return true
    const offset = offsetAt(this.#zone, instant)
    if (!this.#shows(instant + offset)) return false
    // A time of day that is shown twice comes the first time only.
    const before = offsetAt(this.#zone, instant - HOUR_MS)
    const isRepeated = before > offset && offsetAt(this.#zone, instant + offset - before) === before
    return !(this.#isFixed && isRepeated)
  }

  /** Whether this is the moment at which clocks went forward over a time of day that was named. */
  isSkipped(instant: number): boolean {
    if (!this.#isFixed) return false
    const before = offsetAt(this.#zone, instant - 1)
    const after = offsetAt(this.#zone, instant)
    for (let local = instant + before; local < instant + after; local += 1_000) {
      if (this.#shows(local)) return true
    }
    return false
  }

  after(instant: number): number {
    let next = (Math.floor(instant / 1_000) + 1) * 1_000
    while (!this.isOne(next)) next += next % SLOT_MS === 0 && this.#isIdle(next) ? SLOT_MS : 1_000
    return next
  }

  /** The last one before an instant. */
  before(instant: number): number {
    let last = (Math.ceil(instant / 1_000) - 1) * 1_000
    while (!this.isOne(last)) {
      const slot = last - SLOT_MS + 1_000
      last -= slot % SLOT_MS === 0 && this.#isIdle(slot) && !this.isOne(slot) ? SLOT_MS : 1_000
    }
    return last
  }

  /** Whether the hour of a whole quarter is none of those that are named. */
  #isIdle(slot: number): boolean {
    const hour = new Date(slot + offsetAt(this.#zone, slot)).getUTCHours()
    return this.#fields[2]?.has(hour) === false
  }

  #shows(local: number): boolean {
    const date = new Date(local)
    const shown = [date.getUTCSeconds(), date.getUTCMinutes(), date.getUTCHours()]
    return this.#fields.every((values, index) => values.has(shown[index] as number))
  }
}

function valuesOf(field: string, size: number): ReadonlySet<number> {
  const all = Array.from({ length: size }, (_, value) => value)
  if (field === '*') return new Set(all)
  if (field.startsWith('*/')) {
    const step = Number(field.slice(2))
    return new Set(all.filter((value) => value % step === 0))
  }
  return new Set(field.split(',').map(Number))
}
