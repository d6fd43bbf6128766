// Owns schedules: storing them, and adding the jobs of instants that have come, each exactly once.
// May never trust its own clock, or add a job outside of the step that moves its schedule on.

import type { AxError } from '../core/errors.ts'
import type { NewJob } from '../core/job.ts'
import { show } from '../core/options.ts'
import {
  checkTemplate,
  jobAt,
  resolveSchedule,
  type Tick,
  templateOf,
  ticksOf,
} from '../core/schedule.ts'
import type { Schedule } from '../core/settings.ts'
import type { JobInput, ScheduleInfo, ScheduleOptions } from '../core/types.ts'
import { storedValue } from '../core/view.ts'
import type { CronTimes } from '../kit/cron.ts'
import { dateOf } from '../kit/runtime.ts'
import type { InsertAnswer, InsertGroup } from '../store/store.ts'
import { refusalError } from './errors.ts'
import { type Hub, isUnavailable } from './hub.ts'

/** A job in its final shape, checked as every submission is. */
export type Prepare = (input: JobInput) => NewJob | Promise<NewJob>

/** Loaded with the first schedule: whoever has none never loads it. */
let cronTimes: typeof CronTimes | undefined

async function timesOf(cron: string, timeZone: string | null): Promise<CronTimes> {
  cronTimes ??= (await import('../kit/cron.ts')).CronTimes
  return new cronTimes(cron, timeZone)
}

/** Calls it now; whoever awaits the promise learns what came of it. */
function begun<T>(call: () => T): Promise<T> {
  const promise = (async () => call())()
  promise.catch(() => {})
  return promise
}

/** What came of one look at the schedules that are due. */
export interface Fired {
  /** Some have moved on: there may be more to do at once. */
  readonly moved: boolean
  /** Some could not: they stay due, and are to be tried again in a while. */
  readonly stuck: boolean
}

export class Schedules {
  readonly #hub: Hub
  readonly #prepare: Prepare
  /** What was last said about a schedule that is stuck: said once, not at every look. */
  readonly #complaints = new Map<string, string>()

  constructor(hub: Hub, prepare: Prepare) {
    this.#hub = hub
    this.#prepare = prepare
  }

  /**
   * Checks a schedule as a whole: the expression, the zone, the job as any job. The job is taken
   * down before this returns, so that the caller may go on and change it.
   */
  async check(name: string, cron: string, job: JobInput, options: ScheduleOptions) {
    const terms = resolveSchedule(name, options)
    const given = checkTemplate(job)
    const template = begun(() => templateOf(given, this.#hub.settings.limits.payload))
    const times = await timesOf(cron, terms.timeZone)
    await this.#prepare(given)
    return { row: { name, cron, template: await template, ...terms }, times }
  }

  /**
   * Stores it. With the same cron and zone its next instant stays, also one that has come, and
   * brings the new job; other ones count from now.
   */
  async set({ row, times }: Awaited<ReturnType<Schedules['check']>>): Promise<void> {
    const { store } = this.#hub
    const nextAt = times.after(await store.time())
    this.#complaints.delete(row.name)
    await store.configure({ schedule: row.name, row: { ...row, nextAt } })
  }

  /** True if there was one. */
  async remove(name: string): Promise<boolean> {
    const { store } = this.#hub
    const { schedules } = await store.settings()
    if (!schedules.some((row) => row.name === name)) return false
    await store.configure({ schedule: name, row: null })
    return true
  }

  async list(): Promise<ScheduleInfo[]> {
    const { schedules } = await this.#hub.store.settings()
    return schedules.map(({ name, cron, timeZone, missed, template, nextAt }) => ({
      name,
      cron,
      ...(timeZone === null ? {} : { timeZone }),
      missed,
      job: storedValue(template) as JobInput,
      nextAt,
    }))
  }

  /**
   * Adds what the schedules that are due bring. Whoever else tries the same finds them moved on.
   * One whose job is refused stays where it is, with a warning, until it is let in.
   */
  async fire(rows: readonly Schedule[]): Promise<Fired> {
    const fired = { moved: false, stuck: false }
    for (const row of rows) {
      try {
        const moved = await this.#fireOne(row)
        if (moved) this.#complaints.delete(row.name)
        fired[moved ? 'moved' : 'stuck'] = true
      } catch (error) {
        if (isUnavailable(error)) throw error
        this.#complain(row, String((error as Error)?.message ?? error))
        fired.stuck = true
      }
    }
    return fired
  }

  async #fireOne(row: Schedule): Promise<boolean> {
    const { store, tell } = this.#hub
    const times = await timesOf(row.cron, row.timeZone)
    const ticks = ticksOf(row, await store.time(), times)
    const groups: InsertGroup[] = []
    for (const tick of ticks) groups.push(await this.#groupOf(row, tick))
    const answers = this.#hub.heard(await store.insert(groups, tell))
    const refused = answers.findIndex((answer) => answer.status === 'refused')
    this.#tellOfKeys(answers)
    if (refused < 0) return true
    const moved = await this.#refused(row, groups[refused] as InsertGroup, answers[refused])
    return moved || refused > 0
  }

  async #groupOf(row: Schedule, tick: Tick): Promise<InsertGroup> {
    const { at, nextAt, instant } = tick
    const { unknownDeps } = this.#hub.settings
    const rest = { tick: { of: row, at, nextAt }, unknownDeps }
    if (instant === null) return { jobs: [], ...rest }
    const job = await this.#prepare(jobAt(row, dateOf(instant).toISOString()))
    // As if the id were made up: where its key is taken, the owner stands for this instant, too.
    return { jobs: [{ ...job, minted: true }], ...rest }
  }

  #tellOfKeys(answers: readonly InsertAnswer[]): void {
    for (const answer of answers) {
      if (answer.status !== 'done') continue
      for (const { added, job } of answer.jobs) {
        if (!added) this.#hub.emitter.emit('job:duplicate', { job: job.id, key: job.key })
      }
    }
  }

  /**
   * Most refusals may end: room is made, a dependency comes. A job of that name which is another
   * stays: that instant has had its job, and the schedule goes on without.
   */
  async #refused(row: Schedule, group: InsertGroup, answer: InsertAnswer | undefined) {
    if (answer?.status !== 'refused') return false
    const error: AxError = refusalError(answer.refusals, group.jobs)
    this.#complain(row, error.message)
    if (error.code !== 'DUPLICATE_ID') return false
    const { store, tell } = this.#hub
    this.#hub.heard(await store.insert([{ ...group, jobs: [] }], tell))
    return true
  }

  #complain({ name, nextAt }: Schedule, text: string): void {
    if (this.#complaints.get(name) === text) return
    this.#complaints.set(name, text)
    const { logger } = this.#hub.settings
    const instant = dateOf(nextAt).toISOString()
    logger.warn(
      { schedule: name, nextAt },
      `The schedule ${show(name)} could not add its job of ${instant}: ${text}`,
    )
  }
}
