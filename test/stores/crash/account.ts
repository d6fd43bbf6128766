// Owns the account of one file after a kill: the ledger, the log and the records must tell the same
// story. May never trust what the store counts: all of it is worked out from these three.

import { hasEnded, type JobEvent, type JobStatus, type StoredJob } from '../../../src/core/job.ts'
import type { Store } from '../../../src/store/store.ts'
import { allEvents, allJobs } from '../reading.ts'
import { type Entry, readLedger } from './ledger.ts'
import { CAPS } from './work.ts'

/** What the log says of a job. */
interface Story {
  status: JobStatus
  starts: number
  pool: string
  /** The record of its latest change. */
  seq: number
}

export class Account {
  readonly #store: Store
  readonly #ledger: string
  readonly #stories = new Map<string, Story>()
  readonly #faults: string[] = []
  #last = 0

  constructor(store: Store, ledger: string) {
    this.#store = store
    this.#ledger = ledger
  }

  /** One sentence for each promise that is broken. Others may go on writing meanwhile. */
  async faults(): Promise<readonly string[]> {
    // What the ledger tells now has to be in the file; what the file tells, in the ledger later.
    const told = readLedger(this.#ledger)
    await this.#fold()
    const last = this.#last
    const jobs = await allJobs(this.#store)
    const before = new Map([...this.#stories].map(([id, story]) => [id, { ...story }] as const))
    await this.#fold()
    this.#compare(jobs, before, last)
    this.#hold(told, jobs)
    this.#justify(readLedger(this.#ledger), jobs)
    return this.#faults.splice(0)
  }

  /** Ids of all jobs that have not ended. */
  get unfinished(): readonly string[] {
    return [...this.#stories].filter(([, { status }]) => !hasEnded(status)).map(([id]) => id)
  }

  async #fold(): Promise<void> {
    for (const event of await allEvents(this.#store, this.#last)) this.#take(event)
  }

  #take({ seq, job, from, to, attempt, pool }: JobEvent): void {
    const known = this.#stories.get(job)
    if (seq !== this.#last + 1) this.#faults.push(`entry ${seq} of the log follows ${this.#last}`)
    this.#last = seq
    if ((known?.status ?? null) !== from) {
      this.#faults.push(
        `${job} leaves ${from} for ${to}, but it is ${known?.status ?? 'not there'}`,
      )
    }
    if (known?.status === 'success') this.#faults.push(`${job} had succeeded, and goes to ${to}`)
    const story = known ?? { status: to, starts: 0, pool, seq }
    story.status = to
    story.seq = seq
    if (to === 'running') story.starts += 1
    if (attempt !== story.starts) this.#faults.push(`${job} skips a number of its starts`)
    this.#stories.set(job, story)
    if (to === 'running') this.#checkCap(pool)
  }

  #checkCap(pool: string): void {
    let running = 0
    for (const story of this.#stories.values()) {
      if (story.status === 'running' && story.pool === pool) running += 1
    }
    const cap = CAPS[pool as keyof typeof CAPS]
    if (running > cap) this.#faults.push(`${running} jobs run in ${pool}, where ${cap} may`)
  }

  /** Jobs that did not change while they were read are what the log makes of them. */
  #compare(
    jobs: ReadonlyMap<string, StoredJob>,
    before: ReadonlyMap<string, Story>,
    last: number,
  ): void {
    for (const [id, { status, starts }] of before) {
      const isStill = (this.#stories.get(id)?.seq ?? 0) <= last
      const job = jobs.get(id)
      if (!isStill || (job?.status === status && job.starts === starts)) continue
      const stored = `${job?.status ?? 'not there'} after ${job?.starts ?? 0} starts`
      this.#faults.push(`the log leads ${id} to ${status} after ${starts}; it is ${stored}`)
    }
    for (const id of jobs.keys()) {
      if (!this.#stories.has(id)) this.#faults.push(`${id} is stored, and not in the log`)
    }
  }

  /** What processes were told, and how often bodies began, against what is stored. */
  #hold(entries: readonly Entry[], jobs: ReadonlyMap<string, StoredJob>): void {
    const bodies = new Set<string>()
    for (const [kind, ...words] of entries) {
      const [id = '', attempt = ''] = words
      if (kind === 'ask') this.#isWhole(words, jobs)
      if (kind === 'ack') this.#isKept(id, jobs.get(id))
      if (kind === 'result' && this.#stories.get(id)?.status !== 'success') {
        this.#faults.push(`${id} was told to have succeeded, and is not stored as that`)
      }
      if (kind !== 'start') continue
      if (bodies.has(`${id} ${attempt}`)) this.#faults.push(`${id} ran attempt ${attempt} twice`)
      bodies.add(`${id} ${attempt}`)
      const { starts = 0 } = this.#stories.get(id) ?? {}
      if (Number(attempt) > starts) this.#faults.push(`${id} ran, and the log knows no such start`)
    }
  }

  /** Whether each job is there for a reason, and each success with its effect. */
  #justify(entries: readonly Entry[], jobs: ReadonlyMap<string, StoredJob>): void {
    const asked = new Set<string>()
    const effects = new Map<string, [attempt: number, key: string][]>()
    const owners = new Map<string, string>()
    for (const [kind, ...words] of entries) {
      const [id = '', attempt = '', key = ''] = words
      if (kind === 'ask') for (const each of words) asked.add(each)
      if (kind !== 'effect') continue
      const owner = owners.get(key) ?? id
      owners.set(key, id)
      if (owner !== id) this.#faults.push(`${owner} and ${id} share an idempotency key`)
      const known = effects.get(id) ?? []
      effects.set(id, known)
      known.push([Number(attempt), key])
    }
    for (const [id, job] of jobs) {
      if (!asked.has(id)) this.#faults.push(`${id} is stored, and nobody has submitted it`)
      if (job.status === 'success') this.#isOnce(job, effects.get(id) ?? [])
      else if (job.status === 'failed' || job.status === 'cancelled') {
        this.#faults.push(`${id} is ${job.status} (${job.code}), and nothing says it should be`)
      }
    }
  }

  #isWhole(ids: readonly string[], jobs: ReadonlyMap<string, StoredJob>): void {
    const there = ids.filter((id) => jobs.has(id))
    if (there.length === 0 || there.length === ids.length) return
    this.#faults.push(`of one call of ${ids.length}, ${there.join(' and ')} alone is stored`)
  }

  #isKept(id: string, job: StoredJob | undefined): void {
    if (job === undefined) this.#faults.push(`${id} was acknowledged, and is lost`)
    else if (!String(job.payload).includes(`"${id}"`))
      this.#faults.push(`${id} has another payload`)
  }

  /** To whoever counts effects by their key, a success is one effect, of its last attempt. */
  #isOnce({ id, starts, result }: StoredJob, effects: readonly [number, string][]): void {
    const keys = new Set(effects.map(([, key]) => key))
    if (keys.size !== 1) this.#faults.push(`${id} has succeeded, with ${keys.size} effects`)
    if (!effects.some(([attempt]) => attempt === starts)) {
      this.#faults.push(`${id} has succeeded without its last attempt`)
    }
    if (result !== JSON.stringify(id)) this.#faults.push(`${id} has another result`)
  }
}
