// Owns cron expressions: when the next instant comes, in a time zone, across changes of its clock.
// May never read a clock, or be loaded with anything but a schedule: it pulls in `croner`.

import { Cron } from 'croner'
import { AxError } from '../core/errors.ts'
import { refuseValue, show } from '../core/options.ts'
import { dateOf } from './runtime.ts'

/** The last instant that a date can be: for an expression that has no next one. */
const NEVER = 8_640_000_000_000_000

/** All instants are whole seconds. */
const SECOND = 1_000

/**
 * The instants of a cron expression. Five fields (minute, hour, day of month, month, day of week),
 * six with seconds in front, or a nickname such as `@daily`; ranges, lists, steps, names, `L`,
 * `W` and `#` as croner knows them. Where both days are given, either will do.
 *
 * In a time zone whose clock changes, a time of day that is skipped comes at the moment of the
 * change, and one that is repeated comes the first time only. An expression with a `*` or a step
 * in its seconds, minutes or hours comes whenever the clock shows a time that fits instead: what
 * is skipped does not come, and what is repeated comes again. So what comes every hour or more
 * often goes by the time that passes, but every 30 minutes between two and three need not come on
 * a day at all, and every two hours may be three hours apart, or one.
 */
export class CronTimes {
  readonly #cron: Cron

  /** Refuses with INVALID_OPTION what is no expression, or no time zone, or never comes. */
  constructor(cron: string, timeZone: string | null) {
    checkZone(timeZone)
    this.#cron = parsed(cron, timeZone)
    if (this.after(0) === NEVER) {
      refuseValue('cron', cron, 'an expression that comes at some time')
    }
  }

  /** The first instant after that one, epoch milliseconds. About 50 us. */
  after(instant: number): number {
    return this.#cron.nextRun(dateOf(instant))?.getTime() ?? NEVER
  }

  /**
   * The last instant up to `now`, of which `first` is one. By bisection, as `after` never goes
   * back: some twenty steps for a week of seconds. If somebody in another zone has made `first`,
   * it may be no instant here; then it stands by itself.
   */
  latest(first: number, now: number): number {
    let low = Math.floor(first / SECOND)
    let high = Math.floor(now / SECOND)
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if (this.after(middle * SECOND - 1) <= now) low = middle
      else high = middle - 1
    }
    const last = this.after(low * SECOND - 1)
    return last <= now ? last : first
  }
}

function parsed(cron: string, timeZone: string | null): Cron {
  const fields = typeof cron === 'string' ? cron.trim().split(/\s+/).length : 0
  const isNickname = fields === 1 && cron.trim().startsWith('@')
  if (fields !== 5 && fields !== 6 && !isNickname)
    refuse(cron, 'it has neither five nor six fields')
  try {
    const zone = timeZone === null ? {} : { timezone: timeZone }
    return new Cron(cron, { fixedTimeRule: 'no-wildcard', ...zone })
  } catch (error) {
    return refuse(cron, String((error as Error).message).replace(/^CronPattern: /, ''))
  }
}

function refuse(cron: unknown, why: string): never {
  throw new AxError(
    'INVALID_OPTION',
    `cron must be an expression such as '0 3 * * *' (every day at three) or '*/15 * * * * *' ` +
      `(every fifteen seconds), got ${show(cron)}: ${why.replace(/\.$/, '')}.`,
    { option: 'cron', value: cron },
  )
}

function checkZone(timeZone: unknown): void {
  if (timeZone === null) return
  const expected = "the name of a time zone, such as 'Europe/Berlin' or 'UTC'"
  if (typeof timeZone === 'string' && timeZone !== '' && isZone(timeZone)) return
  refuseValue('timeZone', timeZone, expected)
}

function isZone(timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone }) !== undefined
  } catch {
    return false
  }
}
