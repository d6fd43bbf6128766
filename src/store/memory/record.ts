// Owns a job as the memory store holds it: a mutable record that reads as a StoredJob.
// May never be changed outside src/store/memory*: to everybody else it is read-only.

import type {
  Attempt,
  Dep,
  DepMode,
  ErrorData,
  JobStatus,
  Lease,
  NewJob,
  Stored,
  StoredJob,
  Terms,
} from '../../core/job.ts'
import type { Edge, GraphNode } from './graph.ts'
import type { Lane } from './lanes.ts'
import type { Queue } from './queues.ts'

/**
 * What most jobs do not have. One frozen object stands for "nothing of it", so that a plain
 * queued job costs a record of 26 fields and no more.
 */
export interface Rare {
  flow: string | undefined
  deps: readonly Dep[]
  depMode: DepMode
  needs: number
  open: number
  edges: readonly Edge[]
  key: string | undefined
  keyForMs: number
  exclusive: string | undefined
  lane: Lane | undefined
  enqueueTimeoutMs: number
  lost: number
  preempted: number
  attemptsBefore: number
  lostBefore: number
  error: ErrorData | undefined
  code: string | undefined
  cause: string | undefined
  unknown: boolean
  /** The urgent job that it has to give way to, and the one that has to give way to it. */
  evictor: JobRecord | undefined
  victim: JobRecord | undefined
  /** Its holder says that its body does not stop: nobody may count on its slot. */
  stuck: boolean
  /** It has displaced somebody since it became ready: no other. */
  displaced: boolean
  /** What the breaker of its pool wants back with the verdict of its attempt. */
  pass: number
  /** It goes back to its old place in line when it falls due. */
  keepRank: boolean
  /** It runs again after a failure or a timeout: which of the heaps of retries it is in. */
  again: 'no' | 'due' | 'held'
  /** The retention of a job whose hold is not settled yet. */
  keepMs: number
  /** Its retention is over, but a job that is kept still names it. */
  parked: boolean
  /** What a holder has written down about its attempt. */
  note: string | undefined
}

const NO_DEPS: readonly Dep[] = Object.freeze([])
const NO_EDGES: readonly Edge[] = Object.freeze([])
const NO_ATTEMPTS: readonly Attempt[] = Object.freeze([])

const NOTHING: Rare = Object.freeze({
  flow: undefined,
  deps: NO_DEPS,
  depMode: 'all',
  needs: 0,
  open: 0,
  edges: NO_EDGES,
  key: undefined,
  keyForMs: 0,
  exclusive: undefined,
  lane: undefined,
  enqueueTimeoutMs: 0,
  lost: 0,
  preempted: 0,
  attemptsBefore: 0,
  lostBefore: 0,
  error: undefined,
  code: undefined,
  cause: undefined,
  unknown: false,
  evictor: undefined,
  victim: undefined,
  stuck: false,
  displaced: false,
  pass: -1,
  keepRank: false,
  again: 'no',
  keepMs: 0,
  parked: false,
  note: undefined,
})

export class JobRecord implements StoredJob {
  readonly id: string
  readonly seq: number
  rev = 1
  /** The ready queue of its pool and type: also where its pool and type are written. */
  readonly queue: Queue
  readonly payload: Stored
  readonly body: unknown
  readonly terms: Terms
  readonly priority: number
  weight: number
  rank: number
  status: JobStatus = 'waiting'
  starts = 0
  attempts = 0
  lease: Lease | undefined = undefined
  deadline = 0
  readonly createdAt: number
  availableAt: number
  /** When it last became ready. */
  readyAt = 0
  finishedAt = 0
  result: Stored = undefined
  /** The latest attempt, and those before it: most jobs have one, and no list. */
  latest: Attempt | undefined = undefined
  earlier: readonly Attempt[] = NO_ATTEMPTS
  /** Who depends on it, if anybody has ever named it. */
  node: GraphNode | undefined = undefined
  /** Its index in the one heap of jobs that it is in: ready, due, retries, lane; -1: none. */
  at = -1
  /** Its index in the one heap of deadlines that it is in; -1 for none. */
  timerAt = -1
  #rare: Rare

  constructor(job: NewJob, seq: number, now: number, queue: Queue, weight: number) {
    this.id = job.id
    this.seq = seq
    this.queue = queue
    this.payload = job.payload
    this.body = job.body
    this.terms = job.terms
    this.priority = job.priority
    this.weight = weight
    this.rank = now - weight
    this.createdAt = now
    this.availableAt = now + job.delayMs
    this.#rare = isPlain(job) ? NOTHING : rareOf(job)
  }

  /** What it has of the rare things, to read. */
  get has(): Readonly<Rare> {
    return this.#rare
  }

  /** The same, to write: makes the job's own object at the first time. */
  get rare(): Rare {
    if (this.#rare === NOTHING) this.#rare = { ...NOTHING }
    return this.#rare
  }

  get log(): readonly Attempt[] {
    return this.latest === undefined ? NO_ATTEMPTS : [...this.earlier, this.latest]
  }
  get type(): string {
    return this.queue.type
  }
  get pool(): string {
    return this.queue.pool.name
  }
  get flow(): string | undefined {
    return this.#rare.flow
  }
  get deps(): readonly Dep[] {
    return this.#rare.deps
  }
  get depMode(): DepMode {
    return this.#rare.depMode
  }
  get needs(): number {
    return this.#rare.needs
  }
  get open(): number {
    return this.#rare.open
  }
  get key(): string | undefined {
    return this.#rare.key
  }
  get keyForMs(): number {
    return this.#rare.keyForMs
  }
  get exclusive(): string | undefined {
    return this.#rare.exclusive
  }
  get enqueueTimeoutMs(): number {
    return this.#rare.enqueueTimeoutMs
  }
  get lost(): number {
    return this.#rare.lost
  }
  get preempted(): number {
    return this.#rare.preempted
  }
  get attemptsBefore(): number {
    return this.#rare.attemptsBefore
  }
  get lostBefore(): number {
    return this.#rare.lostBefore
  }
  get error(): ErrorData | undefined {
    return this.#rare.error
  }
  get code(): string | undefined {
    return this.#rare.code
  }
  get cause(): string | undefined {
    return this.#rare.cause
  }
  get unknown(): boolean {
    return this.#rare.unknown
  }
  get evictor(): string | undefined {
    return this.#rare.evictor?.id
  }
  get note(): string | undefined {
    return this.#rare.note
  }
  get startedAt(): number {
    return this.latest?.startedAt ?? 0
  }
}

function isPlain(job: NewJob): boolean {
  return (
    job.deps.length === 0 &&
    job.flow === undefined &&
    job.key === undefined &&
    job.exclusive === undefined &&
    job.enqueueTimeoutMs === 0 &&
    job.depMode === 'all'
  )
}

function rareOf(job: NewJob): Rare {
  return {
    ...NOTHING,
    flow: job.flow,
    deps: job.deps,
    depMode: job.depMode,
    key: job.key,
    keyForMs: job.keyForMs,
    exclusive: job.exclusive,
    enqueueTimeoutMs: job.enqueueTimeoutMs,
  }
}
