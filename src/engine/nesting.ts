// Owns the question whether a job that waits for the result of another could wait for ever.
// May never look while all goes well, or refuse a wait for what may have changed meanwhile.

import { AxError } from '../core/errors.ts'
import { show } from '../core/options.ts'
import { isUrgent, raiseOf } from '../core/settings.ts'
import type { Block, Holder, Wait } from '../kit/nested/graph.ts'
import { type Party, Watch } from '../kit/nested/watch.ts'
import { type Hub, isUnavailable } from './hub.ts'
import { complain } from './logger.ts'
import type { Rooms } from './rooms.ts'
import type { Run } from './run.ts'
import { fingerprint, rulesOf, type Survey, type Surveyed, surveyOf } from './survey.ts'
import type { ResultWait, Waiters } from './waiters.ts'
import type { Worker } from './worker.ts'

/** Jobs that are looked up for one look. */
const MOST_LOOKED_UP = 64

/**
 * From now on, waits for results that could never end are found out, and refused; and all waits
 * of a body for room, since it would keep its slot meanwhile.
 */
export function watchNesting(hub: Hub, worker: Worker, waiters: Waiters, rooms: Rooms): void {
  const nesting = new Nesting(hub, worker, waiters)
  waiters.onWait = () => nesting.wait()
  rooms.watch(worker)
}

/** What would keep a job from ever ending, in words. */
interface Reason extends Block {
  readonly why: string
}

/**
 * What a scheduler tells of those who wait for results: for which of its own bodies, if these never
 * end. That may be found to be a ring, by way of limiters and runners too: see kit/nested.
 *
 * A job that is waited for can never end if it runs here, and its body is stuck; or if it cannot
 * start, because as many bodies are stuck here as its pool, or its type, may have in all, or
 * because its lane belongs to one of them; or if one that it depends on can never end. Who waits
 * under a signal that no body was given gives up by itself.
 */
class Nesting implements Party {
  readonly #hub: Hub
  readonly #worker: Worker
  readonly #waiters: Waiters
  readonly #watch: Watch
  /** By the id of the job that is waited for. */
  readonly #surveys = new Map<string, Survey>()
  /** Counts what was looked up. */
  news = 0
  #isLookingUp = false

  constructor(hub: Hub, worker: Worker, waiters: Waiters) {
    this.#hub = hub
    this.#worker = worker
    this.#waiters = waiters
    this.#watch = new Watch(this, hub.runtime)
  }

  /** Somebody begins to wait; if nothing runs here, it is nobody whose wait matters. */
  wait(): void {
    if (this.#worker.runs.size > 0) this.#watch.wait()
  }

  get waiting(): number {
    return this.#worker.runs.size === 0 ? 0 : this.#waiters.size
  }

  get joined(): object | undefined {
    return this.#worker.runs.size === 0 ? undefined : this.#waiters.oldest
  }

  get ended(): number {
    return this.#worker.ended
  }

  *holders(): Iterable<Holder> {
    for (const run of this.#worker.runs.values()) if (run.isBusy) yield run.body
  }

  waits(note: (wait: Wait) => void, most: number): void {
    for (const id of this.#surveys.keys()) {
      if (!this.#waiters.isAwaited(id)) this.#surveys.delete(id)
    }
    const here = new Here(this.#worker.runs.values())
    if (here.runs.length === 0) return
    const unknown = new Set<string>()
    let left = most
    for (const waiter of this.#waiters.newest()) {
      if (left === 0) break
      if (here.isForeign(waiter.signal)) continue
      const survey = this.#surveys.get(waiter.id)
      if (survey === undefined) {
        if (unknown.size < MOST_LOOKED_UP) unknown.add(waiter.id)
        continue
      }
      const reasons = here.reasons(survey)
      const [first] = reasons
      if (first === undefined) continue
      left -= 1
      note({
        waiter,
        blocks: reasons,
        holds: () => this.#waiters.isWaiting(waiter),
        refuse: () => void this.#refuse(waiter, survey, first.why),
      })
    }
    if (unknown.size > 0) void this.#lookUp(unknown)
  }

  /** In time for the next look. */
  async #lookUp(ids: ReadonlySet<string>): Promise<void> {
    if (this.#isLookingUp) return
    this.#isLookingUp = true
    try {
      for (const id of ids) await this.#survey(id)
    } catch (error) {
      if (!isUnavailable(error))
        complain(this.#hub.settings.logger, 'looking for loops failed', error)
    }
    this.#isLookingUp = false
  }

  async #survey(id: string): Promise<Survey | null> {
    const survey = await surveyOf(this.#hub.store, id)
    if (survey !== null && this.#waiters.isAwaited(id)) this.#surveys.set(id, survey)
    this.news += 1
    return survey
  }

  /** Only if the job is still where it was when it was concluded that it could never end. */
  async #refuse(waiter: ResultWait, before: Survey, why: string): Promise<void> {
    try {
      const now = await this.#survey(waiter.id)
      if (now === null || fingerprint(now) !== fingerprint(before)) return
      if (this.#waiters.isWaiting(waiter))
        this.#waiters.refuse(waiter, nestedResult(waiter.id, why))
    } catch (error) {
      if (!isUnavailable(error))
        complain(this.#hub.settings.logger, 'looking for loops failed', error)
    }
  }
}

/** The bodies of this process, as they are at one look. */
class Here {
  readonly runs: readonly Run[]
  readonly #byId: ReadonlyMap<string, Run>
  readonly #shared = new Map<string, Reason | undefined>()

  constructor(runs: Iterable<Run>) {
    this.runs = [...runs].filter((run) => run.isBusy)
    this.#byId = new Map(this.runs.map((run) => [run.job.id, run]))
  }

  /** Whether that is a signal of somebody who gives up by himself. */
  isForeign(signal: AbortSignal | undefined): boolean {
    return signal !== undefined && !this.runs.some((run) => run.gave(signal))
  }

  /** What could keep a job from ever ending, if the bodies in it are stuck. */
  reasons({ before, choices, settings }: Survey): readonly Reason[] {
    const reasons: Reason[] = []
    const add = (reason: Reason | undefined) => {
      if (reason !== undefined) reasons.push(reason)
    }
    for (const [index, job] of before.entries()) {
      const run = this.#byId.get(job.id)
      const itself = index === 0 ? 'it' : `job ${job.id}, on which it depends,`
      if (run !== undefined) add(reasonOf([run], 1, `${itself} waits, in the end, for the same`))
      if (run !== undefined || job.status === 'running') continue
      add(this.#lane(job))
      add(this.#pool(job, settings))
      add(this.#type(job, settings))
    }
    for (const { ids, enough } of choices) {
      const runs = ids.flatMap((id) => this.#byId.get(id) ?? [])
      add(reasonOf(runs, enough, 'too few of the jobs on which it depends can ever end'))
    }
    return reasons
  }

  #lane({ id, exclusive }: Surveyed): Reason | undefined {
    if (exclusive === undefined) return undefined
    return this.#once(`lane ${exclusive}`, () => {
      const runs = this.runs.filter(({ job }) => job.exclusive === exclusive && job.id !== id)
      return reasonOf(runs, 1, `the lane ${show(exclusive)} belongs to the one that waits`)
    })
  }

  #pool(job: Surveyed, settings: Survey['settings']): Reason | undefined {
    const { concurrency, elastic, preempt } = rulesOf(settings, job.pool)
    const isFor = (rule: { readonly minPriority: number } | null) => {
      return rule !== null && isUrgent(job.priority, rule.minPriority, settings.ageing)
    }
    if (concurrency === 0 || isFor(preempt)) return undefined
    const cap = concurrency + (isFor(elastic) ? raiseOf(concurrency, elastic) : 0)
    return this.#once(`pool ${cap} ${job.pool}`, () => {
      const runs = this.runs.filter((run) => run.job.pool === job.pool)
      return reasonOf(
        runs,
        cap,
        `all ${cap} slots of the pool ${show(job.pool)} are held by ${SUCH}`,
      )
    })
  }

  #type({ type }: Surveyed, settings: Survey['settings']): Reason | undefined {
    const cap = settings.types[type]?.concurrency ?? null
    if (cap === null || cap === 0) return undefined
    return this.#once(`type ${type}`, () => {
      const runs = this.runs.filter((run) => run.job.type === type)
      return reasonOf(runs, cap, `all ${cap} jobs that the type ${show(type)} may run are ${SUCH}`)
    })
  }

  /** All who wait for the same share one block. */
  #once(key: string, make: () => Reason | undefined): Reason | undefined {
    if (!this.#shared.has(key)) this.#shared.set(key, make())
    return this.#shared.get(key)
  }
}

const SUCH = 'jobs that wait in the same way'

/** Undefined where there are too few bodies here for it to be one. */
function reasonOf(runs: readonly Run[], enough: number, why: string): Reason | undefined {
  if (runs.length < enough) return undefined
  return { holders: runs.map((run) => run.body), enough, why }
}

function nestedResult(id: string, why: string): AxError {
  return new AxError(
    'NESTED_LIMIT',
    `Waiting for the result of job ${id} from inside a job would never end: ${why}. Let another ` +
      'job depend on it (deps) instead of waiting here, or give it a pool, or a lane, of its own.',
    { jobId: id },
  )
}
