// Owns schedules as rules: what can be repeated, and which jobs an instant that has come brings.
// May never read a clock, or know what a cron expression means: instants are handed in.

import { AxError } from './errors.ts'
import { byteLength, checkName } from './id.ts'
import { checkOptions, oneOf, plain, refuseValue } from './options.ts'
import type { Missed, Schedule } from './settings.ts'
import { JOB_KEYS } from './submit.ts'
import type { JobInput, ScheduleOptions } from './types.ts'
import { fromJson, toJson } from './values.ts'

/** Room for `@2025-01-01T00:00:00.000Z` within the 255 bytes of an id. */
const MAX_NAME = 255 - 25

/** Whoever adds the jobs may be restarting: after so long, an instant is late, or missed. */
export const LATE_MS = 60_000

/** Jobs that one look adds for one schedule that catches up; then others have their turn. */
export const MAX_TICKS = 100

/** The parts of a schedule that people give beside its cron and its job. */
export interface ScheduleTerms {
  readonly timeZone: string | null
  readonly missed: Missed
}

/**
 * Whether two rows come at the same instants: then the one at which the first stands is kept,
 * though it has come already, and gets the job of the second.
 */
export function isSameSchedule(a: Schedule, b: Schedule): boolean {
  return a.cron === b.cron && a.timeZone === b.timeZone
}

/** Whether what was made of a row for the instant `at` is still what it asks for. */
export function stillStands(now: Schedule | undefined, then: Schedule, at: number): boolean {
  if (now?.nextAt !== at || !isSameSchedule(now, then)) return false
  return now.missed === then.missed && now.template === then.template
}

/** Checks the name and the options of a schedule. Refuses with INVALID_OPTION. */
export function resolveSchedule(name: string, options: ScheduleOptions): ScheduleTerms {
  checkName('The name of a schedule', name, 'INVALID_OPTION')
  if (byteLength(name) > MAX_NAME) {
    refuseValue('The name of a schedule', name, `at most ${MAX_NAME} bytes: ids are made of it`)
  }
  checkOptions('schedule', options, ['timeZone', 'missed'])
  const { timeZone = null, missed = 'one' } = options
  return { timeZone, missed: oneOf('missed', missed, ['skip', 'one', 'all']) }
}

/** What cannot be repeated, and why. */
const NOT_REPEATED: readonly (readonly [keyof JobInput, string])[] = [
  ['id', 'each job is called by the name of the schedule and its instant'],
  ['execute', 'a schedule is stored as data: define(type, handler), and name the type'],
  ['availableAt', 'the cron expression says when; use delay for a while after it'],
]

/**
 * A copy of the job of a schedule, to be checked as any job is. Refuses with INVALID_JOB what
 * cannot be repeated.
 */
export function checkTemplate(job: JobInput): JobInput {
  plain('A job', job, 'INVALID_JOB')
  for (const [key, why] of NOT_REPEATED) {
    if (job[key] === undefined) continue
    throw new AxError('INVALID_JOB', `The job of a schedule has no ${key}: ${why}. Leave it out.`, {
      option: key,
    })
  }
  const copy: Record<string, unknown> = {}
  // Inherited keys count: jobs are read with them.
  for (const key in job) copy[key] = job[key as keyof JobInput]
  return copy
}

/**
 * The job of a schedule as JSON, the same text for the same job: two processes that bring the same
 * schedule agree. Its payload is as it was given; a schema looks at it whenever a job is made.
 */
export function templateOf(job: JobInput, maxPayloadBytes: number): string {
  const template: Record<string, unknown> = {}
  for (const key of JOB_KEYS) {
    if (key !== 'payload' && job[key] !== undefined) template[key] = job[key]
  }
  const text = JSON.stringify(template)
  const rules = { maxBytes: maxPayloadBytes, code: 'INVALID_JOB', lenient: false } as const
  const payload = toJson(job.payload, 'payload', rules)
  if (payload === undefined) return text
  return `${text.slice(0, -1)}${text === '{}' ? '' : ','}"payload":${payload}}`
}

/** The job that an instant gets; `iso` is the instant as text. */
export function jobAt({ name, template }: Schedule, iso: string): JobInput {
  return { ...(fromJson(template) as JobInput), id: `${name}@${iso}` }
}

/** When the instants come. */
export interface Instants {
  /** The first one after that moment. */
  after(instant: number): number
  /** The last one up to `now`, of which `first` is one. */
  latest(first: number, now: number): number
}

/** One step of a schedule: from the instant at which it stands to the next one. */
export interface Tick {
  readonly at: number
  readonly nextAt: number
  /** The instant that gets a job; null: it was missed, and nobody makes up for it. */
  readonly instant: number | null
}

/**
 * The steps of a schedule whose instant has come. `one`: whatever has passed meanwhile gets a
 * single job, that of the latest instant. `all`: each gets its own, oldest first, at most a
 * hundred at a time. `skip`: as `one`, unless even the latest passed over a minute ago.
 */
export function ticksOf(
  { missed, nextAt }: Pick<Schedule, 'missed' | 'nextAt'>,
  now: number,
  instants: Instants,
): readonly Tick[] {
  if (nextAt > now) return []
  if (missed === 'all') return allOf(nextAt, now, instants)
  const latest = instants.latest(nextAt, now)
  const isMissed = missed === 'skip' && now - latest > LATE_MS
  const instant = isMissed ? null : latest
  return [{ at: nextAt, nextAt: instants.after(latest), instant }]
}

function allOf(nextAt: number, now: number, instants: Instants): readonly Tick[] {
  const ticks: Tick[] = []
  for (let at = nextAt; at <= now && ticks.length < MAX_TICKS; ) {
    const following = instants.after(at)
    ticks.push({ at, nextAt: following, instant: at })
    at = following
  }
  return ticks
}
