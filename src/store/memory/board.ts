// Owns every index of the memory store, and the few steps that keep them true to the records.
// May never be bypassed: a record changes its status here and nowhere else.

import { hasEnded, type JobStatus, type StepName, type Verdict } from '../../core/job.ts'
import { isDoomed } from '../../core/quorum.ts'
import { rankOf } from '../../core/rank.ts'
import type { TypeChange, TypeSetting } from '../../core/settings.ts'
import { isLegal } from '../../core/steps.ts'
import { changedType } from '../../core/terms.ts'
import { Fifo } from '../../kit/fifo.ts'
import { Heap } from '../../kit/heap.ts'
import { LIMITS } from '../limits.ts'
import type { Hint } from '../store.ts'
import { Catalog } from './catalog.ts'
import { type Edge, Graph } from './graph.ts'
import { Keys, Lanes } from './lanes.ts'
import { Log } from './log.ts'
import { leaveLine, moveInLine, Pools, standInLine } from './queues.ts'
import { Ranks } from './ranks.ts'
import type { JobRecord } from './record.ts'
import { Retries } from './retries.ts'
import { Rooms, takesPlace } from './room.ts'
import { Timetable } from './timetable.ts'

/** What a log entry says beside the transition. */
export interface Note {
  readonly worker?: string | undefined
  readonly code?: string | undefined
  readonly cause?: string | undefined
}

/** An end whose dependents have not all been told: the list, and how far it has come. */
interface FanOut {
  readonly end: JobRecord
  readonly edges: readonly Edge[]
  next: number
}

const NO_NOTE: Note = Object.freeze({})
const NOBODY: readonly string[] = Object.freeze([])

export class Board {
  readonly records = new Map<string, JobRecord>()
  readonly catalog = new Catalog()
  readonly log: Log
  readonly pools: Pools
  readonly graph = new Graph(this.records)
  readonly lanes = new Lanes()
  readonly keys = new Keys()
  readonly ranks = new Ranks()
  readonly rooms = new Rooms()
  readonly retries = new Retries()
  readonly timetable = new Timetable()
  /** Pending jobs but retries, by the instant at which they fall due. */
  readonly due = new Heap<JobRecord>((record, index) => {
    record.at = index
  })
  /** Deadlines of jobs that wait, of leases and holds, and of retentions. */
  readonly waits = deadlines()
  readonly leases = deadlines()
  readonly retention = deadlines()
  readonly doomed = new Set<JobRecord>()
  /** Leases and holds by holder, in order of number. */
  readonly holders = new Map<string, Map<number, JobRecord>>()
  readonly failures = new Map<string, number>()
  readonly fanOuts = new Fifo<FanOut>()
  /** The instant of the call in hand: it never falls. */
  now = 0
  lastSeq = 0
  lastLease = 0
  forgotten = 0
  /** The next deadlines that keepers know of. */
  #nextWait = Number.POSITIVE_INFINITY
  #nextQuiet = Number.POSITIVE_INFINITY
  /** What the call in hand will hint at. */
  hintReady = false
  hintOverdue = false
  hintEnded: string[] = []
  hintHolders: string[] = []
  hintSettings = false
  readonly types = new Map<string, TypeSetting>()

  constructor(maxLog: number) {
    this.log = new Log(maxLog)
    this.pools = new Pools(this.log.kindOf)
  }

  /** The one place where a status changes, and where the table is asked. */
  enter(record: JobRecord, step: StepName, to: JobStatus, note: Note = NO_NOTE): void {
    const from = record.status
    if (!isLegal(step, from, to)) throw new Error(`no step ${step} leads from ${from} to ${to}`)
    record.rev += 1
    if (from !== to) {
      record.status = to
      const { counts, pool } = record.queue
      counts[from] -= 1
      counts[to] += 1
      if (pool.room !== undefined) {
        pool.room.queued += Number(takesPlace(to)) - Number(takesPlace(from))
      }
      this.catalog.changeStatus(record.seq, from, to)
    }
    this.log.append(record, step, from, this.now, note.worker, note.code, note.cause)
  }

  /** Makes a new record known, so that others of its group can name it. */
  introduce(record: JobRecord): void {
    this.records.set(record.id, record)
    this.graph.adopt(record)
  }

  /** Gives a new record the status that its gates say. Its edges have been drawn. */
  begin(record: JobRecord): void {
    if (record.key !== undefined) this.keys.take(record)
    this.ranks.begin(record)
    let to: JobStatus = 'ready'
    if (record.needs > 0) to = 'waiting'
    else if (record.availableAt > this.now) to = 'pending'
    else if (this.#asksLane(record, this.now) === 'wait') to = 'waiting'
    record.status = to
    const { counts, pool } = record.queue
    counts[to] += 1
    if (pool.room !== undefined) pool.room.queued += Number(takesPlace(to))
    this.catalog.add(record)
    this.log.append(record, 'add', null, this.now, undefined, undefined, undefined)
    this.#settle(record)
  }

  /** Lets a job that needs nothing more pass the gates of time and lane. */
  place(record: JobRecord, step: StepName, keepRank: boolean, note?: Note): void {
    const again = step === 'retry' || step === 'timeout'
    if (again && (record.availableAt > this.now || this.retries.terms !== null)) {
      this.#rank(record, record.availableAt)
      record.rare.again = 'due'
      this.enter(record, step, 'pending', note)
      this.#settle(record)
    } else if (record.availableAt > this.now) {
      if (keepRank || record.has.keepRank) record.rare.keepRank = keepRank
      this.enter(record, step, 'pending', note)
      this.#settle(record)
    } else this.pass(record, step, keepRank ? undefined : this.now, note)
  }

  /** The gate of the lane, for a job whose time has come. No `readyAt`: it keeps its rank. */
  pass(record: JobRecord, step: StepName, readyAt: number | undefined, note?: Note): void {
    const to = this.#asksLane(record, readyAt) === 'wait' ? 'waiting' : 'ready'
    this.enter(record, step, to, note)
    this.#settle(record)
  }

  /** Takes a job out of whatever it stands in, before its status changes. */
  leave(record: JobRecord): void {
    this.setDeadline(record, 0)
    if (record.status === 'ready') {
      leaveLine(record)
      this.calm(record)
    } else if (record.status === 'pending') {
      if (record.has.again === 'no') this.due.remove(record.at)
      else this.retries.remove(record)
    } else if (record.status === 'waiting') {
      if (record.at >= 0) this.lanes.leave(record)
      else this.doomed.delete(record)
    }
  }

  /** Which heap it stands in follows from its status, so this comes before a change of status. */
  setDeadline(record: JobRecord, deadline: number): void {
    record.deadline = deadline
    const heap = this.#deadlinesOf(record)
    if (deadline > 0) this.#announce(heap === this.waits, deadline)
    if (deadline === 0) {
      if (record.timerAt >= 0) heap.remove(record.timerAt)
    } else if (record.timerAt >= 0) heap.update(record.timerAt, deadline, record.seq)
    else heap.push(record, deadline, record.seq)
  }

  /** What the keepers know of after this: nobody has to tell them of a later deadline. */
  announced(nextWait: number): void {
    this.#nextWait = nextWait
    this.#nextQuiet = Math.min(this.leases.peekKey(), this.retention.peekKey())
  }

  /** Gives a lease or a hold, under a number that was never used. */
  grant(record: JobRecord, holder: string, hold: boolean): void {
    this.lastLease += 1
    record.lease = { holder, number: this.lastLease, hold }
    record.queue.pool.held.add(record)
    this.pools.occupy(record, holder)
    let held = this.holders.get(holder)
    if (held === undefined) {
      held = new Map()
      this.holders.set(holder, held)
    }
    held.set(this.lastLease, record)
  }

  /** Ends a lease or a hold. Whoever waited for this slot in particular waits no more. */
  drop(record: JobRecord): void {
    const { lease } = record
    if (lease === undefined) return
    const held = this.holders.get(lease.holder)
    held?.delete(lease.number)
    if (held?.size === 0) this.holders.delete(lease.holder)
    this.pools.vacate(record, lease.holder)
    if (record.has.evictor !== undefined) this.#untie(record, record.has.evictor)
    if (record.has.stuck) record.rare.stuck = false
    record.lease = undefined
    this.hintReady = true
  }

  /** Has a running job give way to an urgent one, which is passed over until it has. */
  displace(victim: JobRecord, urgent: JobRecord): void {
    victim.rare.evictor = urgent
    urgent.rare.victim = victim
    urgent.rare.displaced = true
    if (victim.lease !== undefined) this.hintHolders.push(victim.lease.holder)
  }

  /** An urgent job that waits no more needs nobody to give way, and may displace again. */
  calm(urgent: JobRecord): void {
    if (!urgent.has.displaced) return
    urgent.rare.displaced = false
    if (urgent.has.victim !== undefined) this.#untie(urgent.has.victim, urgent)
  }

  /** Its body does not stop: who waits for this slot in particular takes any. */
  stick(record: JobRecord): void {
    if (record.has.stuck) return
    record.rare.stuck = true
    if (record.has.evictor !== undefined) this.#untie(record, record.has.evictor)
    this.hintReady = true
  }

  #untie(victim: JobRecord, urgent: JobRecord): void {
    victim.rare.evictor = undefined
    urgent.rare.victim = undefined
  }

  /** What an attempt has shown, for the breaker that let it start; once. */
  show(record: JobRecord, verdict: Verdict): void {
    const { pass } = record.has
    if (pass < 0) return
    record.rare.pass = -1
    record.queue.pool.breaker?.record(pass, verdict, this.now)
    this.hintReady = true
  }

  /** A job that can no longer be satisfied: somebody has to cancel it, now. */
  doom(record: JobRecord): void {
    this.doomed.add(record)
    this.setDeadline(record, this.now)
    this.hintOverdue = true
  }

  /** A schedule has been set or moved to that instant: whoever sleeps longer has to be told. */
  scheduled(nextAt: number): void {
    this.#announce(true, nextAt)
  }

  /** Goes on ranking anew what an older ageing has ranked: looks at LIMITS.chunk jobs at most. */
  continueRanking(): void {
    const { ranks, catalog } = this
    for (let looked = 0; looked < LIMITS.chunk && ranks.unranked > 0; looked += 1) {
      const record = catalog.nextLive(ranks.after)
      if (record === undefined) throw new Error(`${ranks.unranked} jobs to rank are not there`)
      ranks.after = record.seq
      this.#rankAnew(record)
    }
    if (ranks.unranked > 0) this.hintOverdue = true
  }

  /** Tells the dependents of an end: at once where they are few, else a chunk per call. */
  fanOut(end: JobRecord): void {
    const edges = this.graph.toTell(end)
    if (edges.length === 0) return
    this.fanOuts.push({ end, edges, next: 0 })
    this.continueFanOuts()
  }

  /** Goes on telling, at most LIMITS.chunk dependents. */
  continueFanOuts(): void {
    let left: number = LIMITS.chunk
    for (let task = this.fanOuts.peek(); task !== undefined; task = this.fanOuts.peek()) {
      left = this.#tell(task, left)
      if (task.next < task.edges.length) {
        this.hintOverdue = true
        return
      }
      this.fanOuts.shift()
    }
  }

  /** Finishes the telling of one end, before it is revived or forgotten. */
  finishFanOut(end: JobRecord): void {
    for (const task of this.fanOuts) {
      if (task.end === end) this.#tell(task, Number.POSITIVE_INFINITY)
    }
  }

  /** A lane is given up for good: the next in line is admitted, with the rank it waited with. */
  releaseLane(record: JobRecord): void {
    const next = this.lanes.release(record)
    if (next === undefined) return
    this.enter(next, 'admit', 'ready')
    this.#settle(next)
  }

  /** Jobs that nobody names any more, and whose retention has been over for a while. */
  unpark(records: readonly JobRecord[]): void {
    for (const record of records) {
      if (!record.has.parked) continue
      record.rare.parked = false
      this.setDeadline(record, this.now)
      this.hintOverdue = true
    }
  }

  setType(type: string, said: TypeChange): void {
    const setting = changedType(this.types.get(type), said)
    this.types.set(type, setting)
    this.pools.caps.set(type, setting.concurrency, this.pools.held())
  }

  setFailure(record: JobRecord, error: JobRecord['error'], code: string | undefined): void {
    if (record.error === error && record.code === code) return
    this.catalog.changeCode(record.seq, record.code, code)
    const { rare } = record
    rare.error = error
    rare.code = code
  }

  countFailure(code: string, by: 1 | -1): void {
    const count = (this.failures.get(code) ?? 0) + by
    if (count === 0) this.failures.delete(code)
    else this.failures.set(code, count)
  }

  takeHint(): Hint {
    const hint = {
      ready: this.hintReady,
      overdue: this.hintOverdue,
      ended: this.hintEnded.length > 0 ? this.hintEnded : NOBODY,
      holders: this.hintHolders.length > 0 ? this.hintHolders : NOBODY,
      settings: this.hintSettings,
      room: this.rooms.take(),
    }
    this.hintSettings = false
    this.hintReady = false
    this.hintOverdue = false
    if (this.hintEnded.length > 0) this.hintEnded = []
    if (this.hintHolders.length > 0) this.hintHolders = []
    return hint
  }

  /** Keepers sleep until the next deadline they know of; an earlier one is worth a hint. */
  #announce(waits: boolean, deadline: number): void {
    if (deadline >= (waits ? this.#nextWait : this.#nextQuiet)) return
    if (waits) this.#nextWait = deadline
    else this.#nextQuiet = deadline
    this.hintOverdue = true
  }

  #tell(task: FanOut, limit: number): number {
    let left = limit
    while (task.next < task.edges.length && left > 0) {
      const edge = task.edges[task.next] as Edge
      task.next += 1
      left -= 1
      const outcome = this.graph.tell(edge, task.end)
      if (outcome === 'doomed') this.doom(edge.from)
      if (outcome === 'released') this.#release(edge.from)
    }
    return left
  }

  #release(record: JobRecord): void {
    if (record.availableAt > this.now) {
      this.enter(record, 'release', 'pending')
      this.#settle(record)
    } else if (this.#asksLane(record, this.now) === 'free') {
      this.enter(record, 'release', 'ready')
      this.#settle(record)
    } else this.#settle(record)
  }

  /** The rank is fixed at the moment of asking; a holder that has to yield goes back in line. */
  #asksLane(record: JobRecord, readyAt: number | undefined): 'free' | 'wait' {
    if (readyAt !== undefined) this.#rank(record, readyAt)
    if (record.exclusive === undefined) return 'free'
    const answer = this.lanes.ask(record, record.exclusive)
    if (answer === 'free' || answer === 'wait') return answer
    this.leave(answer)
    this.enter(answer, 'yield', 'waiting')
    this.lanes.wait(answer)
    return 'free'
  }

  #rank(record: JobRecord, askedAt: number): void {
    this.ranks.weigh(record)
    record.rank = rankOf(askedAt, record.weight)
  }

  /** The same instant under another weight, in whichever index the rank is. */
  #rankAnew(record: JobRecord): void {
    const old = record.weight
    this.ranks.weigh(record)
    if (record.weight === old) return
    record.rank += old - record.weight
    if (record.status === 'ready') moveInLine(record)
    else if (record.status === 'pending') this.retries.ranked(record)
    else if (record.status === 'waiting' && record.at >= 0) this.lanes.ranked(record)
  }

  /** Puts a job where its status belongs. */
  #settle(record: JobRecord): void {
    if (record.status === 'ready') {
      record.readyAt = this.now
      standInLine(record)
      const { enqueueTimeoutMs } = record
      if (enqueueTimeoutMs > 0) this.setDeadline(record, this.now + enqueueTimeoutMs)
      this.hintReady = true
    } else if (record.status === 'pending') {
      if (record.has.again === 'no') this.due.push(record, record.availableAt, record.seq)
      else this.retries.add(record)
      this.hintReady = true
    } else if (isDoomed(record)) this.doom(record)
    else if (record.needs === 0) this.lanes.wait(record)
  }

  #deadlinesOf(record: JobRecord): Heap<JobRecord> {
    if (record.lease !== undefined) return this.leases
    return hasEnded(record.status) ? this.retention : this.waits
  }
}

function deadlines(): Heap<JobRecord> {
  return new Heap<JobRecord>((record, index) => {
    record.timerAt = index
  })
}
