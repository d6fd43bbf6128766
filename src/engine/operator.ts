// Owns the operators' face of the scheduler: pools, schedules, make-up runs, doctor, advice.
// May never run a job: whoever has only this face is an onlooker with a hand on the levers.

import { checkName } from '../core/id.ts'
import { resolvePoolChange } from '../core/pools.ts'
import type {
  Advice,
  DoctorReport,
  JobFilter,
  JobInput,
  PoolOptionsChange,
  RetryWhereOptions,
  ScheduleInfo,
  ScheduleOptions,
  Snapshot,
} from '../core/types.ts'
import { snapshotOf } from '../core/view.ts'
import { advise } from './advisor.ts'
import { examine } from './doctor.ts'
import type { Hub } from './hub.ts'
import { checkMakeUp, type MakeUp } from './make-up.ts'
import { configurePool } from './pools.ts'
import type { Reader } from './reader.ts'
import type { Schedules } from './schedules.ts'

export interface PoolHandle {
  /**
   * Changes what is given and leaves the rest; null takes a setting back, so that what processes
   * bring along, or the default, holds again. Rejects with INVALID_OPTION.
   */
  configure(change: PoolOptionsChange): Promise<void>
  pause(): Promise<void>
  resume(): Promise<void>
}

/** What the operators' methods need of the scheduler. */
export interface OperatorParts {
  readonly hub: Hub
  readonly reader: Reader
  readonly schedules: Schedules
  readonly makeUp: MakeUp
  /** Bodies of this process that are zombies now. */
  zombies(): number
  /** Opens the store, to look or to set something: also after close, as long as it lives. */
  open(): Promise<void>
  /** Opens it for work, which ends with close: rejects with CLOSED after that. */
  openForWork(): Promise<void>
  /** Begins to run jobs, unless `autoStart` is false; rejects with CLOSED after close. */
  begin(): Promise<void>
}

export abstract class Operator {
  readonly #parts: () => OperatorParts

  constructor(parts: () => OperatorParts) {
    this.#parts = parts
  }

  /** Everything in numbers, and what runs. O(1) in the number of jobs. */
  async snapshot(): Promise<Snapshot> {
    const { hub, zombies, open } = this.#parts()
    await open()
    const [counted, workers] = await Promise.all([hub.store.count(), hub.store.workers()])
    const others = workers.filter((worker) => worker.holder !== hub.holder)
    return snapshotOf(counted, sumOf([zombies(), ...others.map((worker) => worker.zombies)]))
  }

  /** Settings of one pool, stored for all workers; they win over what processes bring along. */
  pool(name: string): PoolHandle {
    checkName('The name of a pool', name, 'INVALID_OPTION')
    const configure = async (change: PoolOptionsChange) => {
      const terms = resolvePoolChange(name, change)
      const { hub, open } = this.#parts()
      await open()
      await configurePool(hub, name, terms)
    }
    return {
      configure,
      pause: () => configure({ paused: true }),
      resume: () => configure({ paused: false }),
    }
  }

  /**
   * Adds a job at each instant of a cron expression: five fields, six with seconds in front, or a
   * nickname such as `@daily`. It is stored: any process that runs jobs on the same store adds
   * them, exactly one per instant, called `<name>@<instant as ISO text>`. A time of day that a
   * change of clocks skips comes at the change, one that is repeated comes once. With a `*` or a
   * step in its seconds, minutes or hours an expression comes whenever the clock shows a time that
   * fits: not while that is skipped, and again when it is repeated. UTC has no such changes.
   *
   * The same name again replaces the schedule; if expression and zone are the same, its next
   * instant stays, also one that has come, and brings the new job. Where the job's `key` is taken,
   * its owner stands for that instant, too; where its pool is full, the instant waits for room.
   * The job is data, without `id`, `execute` and `availableAt`. Rejects with INVALID_OPTION or
   * INVALID_JOB.
   */
  async schedule(
    name: string,
    cron: string,
    job: JobInput,
    options: ScheduleOptions = {},
  ): Promise<void> {
    const { schedules, openForWork, begin } = this.#parts()
    const checked = await schedules.check(name, cron, job, options)
    // Before this process begins to work: instants that are due are to bring the new job.
    await openForWork()
    await schedules.set(checked)
    await begin()
  }

  /** Ends a schedule; jobs that it has added stay. True if there was one of that name. */
  async unschedule(name: string): Promise<boolean> {
    checkName('The name of a schedule', name, 'INVALID_OPTION')
    const { schedules, open } = this.#parts()
    await open()
    return schedules.remove(name)
  }

  /** All schedules, in order of name. */
  async schedules(): Promise<ScheduleInfo[]> {
    const { schedules, open } = this.#parts()
    await open()
    return schedules.list()
  }

  /**
   * Runs again all jobs that match, each once, with the branch that its failure had cancelled:
   * those that failed or were cancelled before the call, in order of submission. With `per`, this
   * process revives no more than that; with `until`, it stops at that instant, done or not.
   * Resolves with how many jobs run again. Those whose key is taken, or whose dependencies stay
   * dead, are named in a warning. `close()` ends it: it resolves with what it has done. It goes on
   * through outages of the store. `limit` counts matching jobs. Rejects with INVALID_OPTION.
   */
  async retryWhere(filter: JobFilter, options: RetryWhereOptions = {}): Promise<number> {
    const pace = checkMakeUp(filter, options)
    const { reader, makeUp, openForWork } = this.#parts()
    await openForWork()
    const query = await reader.queryOf(filter)
    const { limit = Number.POSITIVE_INFINITY } = filter
    return makeUp.run(query, limit, pace, options.until)
  }

  /**
   * What is wrong with the store, or looks as if, gravest first, and what to type. The kinds:
   * `damage`, `cycle`, `orphaned-key`, `expired-lease`, `no-handler`, `zombies`, `open-breaker`,
   * `paused-pool`, `closed-pool`, `unknown-dependency`, `late-schedule`, `long-wait`,
   * `settings-differ`, `no-timeout`. Reads counts and single pages; the store looks through its
   * records for faults, O(jobs).
   */
  async doctor(): Promise<DoctorReport> {
    const { hub, zombies, open } = this.#parts()
    await open()
    return { findings: await examine(hub.store, { holder: hub.holder, zombies: zombies() }) }
  }

  /**
   * What the latest 100,000 entries of the log show, with figures. The kinds: of types `timeout`,
   * `futile-retries`, `lost` and `silent`, of pools `queue-grows`, `downstream` and
   * `enqueue-timeouts`. Nothing is changed.
   */
  async advise(): Promise<Advice[]> {
    const { hub, open } = this.#parts()
    await open()
    return advise(hub)
  }
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0)
}
