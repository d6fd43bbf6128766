// Owns the steps of a job: the one place where a row changes its status.
// May never decide: it obeys the promises of store.ts, in the words of the memory store.

import {
  hasEnded,
  type JobStatus,
  type Lease,
  type StepName,
  type Verdict,
} from '../../core/job.ts'
import { isDoomed } from '../../core/quorum.ts'
import { rankOf } from '../../core/rank.ts'
import { eventOf, isLegal } from '../../core/steps.ts'
import { LIMITS } from '../../store/limits.ts'
import { readable } from './driver.ts'
import { Graph, type Incoming } from './graph.ts'
import { Keys, Lanes } from './lanes.ts'
import { Pools } from './pools.ts'
import { AGAIN, type Row } from './row.ts'
import type { Session } from './session.ts'

/** What a log entry says beside the transition. */
export interface Note {
  readonly worker?: string | undefined
  readonly code?: string | undefined
  readonly cause?: string | undefined
}

/** An end whose dependents have not all been told, and the last one that has. */
interface FanOut {
  readonly number: number
  readonly job: number
  readonly next: number
}

/** The next deadlines that keepers of this process know of: an earlier one is worth a hint. */
export interface Announced {
  wait: number
  quiet: number
}

const NO_NOTE: Note = Object.freeze({})
const NOTHING = Object.freeze({})

/** What SQLite takes for no limit. */
const ALL = -1

export class Board {
  readonly session: Session
  readonly pools: Pools
  readonly graph: Graph
  readonly lanes: Lanes
  readonly keys: Keys
  readonly announced: Announced

  constructor(session: Session, announced: Announced) {
    this.session = session
    this.announced = announced
    this.pools = new Pools(session)
    this.graph = new Graph(session)
    this.lanes = new Lanes(session)
    this.keys = new Keys(session)
  }

  get now(): number {
    return this.session.now
  }

  /** The one place where a status changes, and where the table is asked. */
  enter(row: Row, step: StepName, to: JobStatus, note: Note = NO_NOTE): void {
    const from = row.status
    if (!isLegal(step, from, to)) throw new Error(`no step ${step} leads from ${from} to ${to}`)
    row.rev += 1
    if (from !== to) {
      row.status = to
      this.session.tally(row, from, -1)
      this.session.tally(row, to, 1)
    }
    this.session.touch(row)
    this.#record(row, step, from, note)
  }

  /** Gives a new row the status that its gates say. Its edges have been drawn. */
  begin(row: Row): void {
    this.keys.take(row)
    this.session.beginRank(row)
    let to: JobStatus = 'ready'
    if (row.needs > 0) to = 'waiting'
    else if (row.availableAt > this.now) to = 'pending'
    else if (this.#asksLane(row, this.now) === 'wait') to = 'waiting'
    row.status = to
    this.session.tally(row, to, 1)
    this.#record(row, 'add', null, NO_NOTE)
    this.#settle(row)
  }

  /** Lets a job that needs nothing more pass the gates of time and lane. */
  place(row: Row, step: StepName, keepRank: boolean, note?: Note): void {
    const again = step === 'retry' || step === 'timeout'
    if (again && (row.availableAt > this.now || this.session.state.budget !== null)) {
      this.#rank(row, row.availableAt)
      row.again = AGAIN.due
      this.enter(row, step, 'pending', note)
      this.#settle(row)
    } else if (row.availableAt > this.now) {
      row.keepRank = keepRank
      this.enter(row, step, 'pending', note)
      this.#settle(row)
    } else this.pass(row, step, keepRank ? undefined : this.now, note)
  }

  /** The gate of the lane, for a job whose time has come. No `readyAt`: it keeps its rank. */
  pass(row: Row, step: StepName, readyAt: number | undefined, note?: Note): void {
    const to = this.#asksLane(row, readyAt) === 'wait' ? 'waiting' : 'ready'
    this.enter(row, step, to, note)
    this.#settle(row)
  }

  /** Takes a job out of whatever it stands in, before its status changes. */
  leave(row: Row): void {
    this.setDeadline(row, 0)
    if (row.status === 'ready') this.calm(row)
    else if (row.status === 'pending') row.again = AGAIN.no
  }

  /** Which line of deadlines it stands in follows from its status. */
  setDeadline(row: Row, at: number): void {
    const deadline = readable(at)
    row.deadline = deadline
    this.session.touch(row)
    if (deadline > 0) this.#announce(row.lease === undefined && !hasEnded(row.status), deadline)
  }

  /** Gives a lease or a hold, under a number that was never used. */
  grant(row: Row, holder: string, hold: boolean): Lease {
    const { state } = this.session
    state.lastLease += 1
    const lease = { holder, number: state.lastLease, hold }
    row.lease = lease
    this.session.touch(row)
    return lease
  }

  /** Ends a lease or a hold. Whoever waited for this slot in particular waits no more. */
  drop(row: Row): void {
    if (row.lease === undefined) return
    if (row.evictor !== undefined) this.#untie(row, this.session.byId(row.evictor))
    row.lease = undefined
    row.stuck = false
    this.session.touch(row)
    this.session.signs.ready = true
  }

  /** Has a running job give way to an urgent one, which is passed over until it has. */
  displace(victim: Row, urgent: Row): void {
    victim.evictor = urgent.id
    urgent.victim = victim.id
    urgent.displaced = true
    this.session.touch(victim)
    this.session.touch(urgent)
    if (victim.lease !== undefined) this.session.signs.holders.push(victim.lease.holder)
  }

  /** An urgent job that waits no more needs nobody to give way, and may displace again. */
  calm(urgent: Row): void {
    if (!urgent.displaced) return
    urgent.displaced = false
    this.session.touch(urgent)
    if (urgent.victim === undefined) return
    const victim = this.session.byId(urgent.victim)
    if (victim !== undefined) this.#untie(victim, urgent)
  }

  /** Its body does not stop: who waits for this slot in particular takes any. */
  stick(row: Row): void {
    if (row.stuck) return
    row.stuck = true
    this.session.touch(row)
    if (row.evictor !== undefined) this.#untie(row, this.session.byId(row.evictor))
    this.session.signs.ready = true
  }

  #untie(victim: Row, urgent: Row | undefined): void {
    victim.evictor = undefined
    this.session.touch(victim)
    if (urgent === undefined) return
    urgent.victim = undefined
    this.session.touch(urgent)
  }

  /** What an attempt has shown, for the breaker that let it start; once. */
  show(row: Row, verdict: Verdict): void {
    const { pass } = row
    if (pass < 0) return
    row.pass = -1
    this.session.touch(row)
    this.session.signs.ready = true
    const pool = this.pools.get(row.pool)
    if (pool.breaker === null) return
    pool.breaker.record(pass, verdict, this.now)
    this.pools.save(pool)
  }

  /** A job that can no longer be satisfied: somebody has to cancel it, now. */
  doom(row: Row): void {
    this.setDeadline(row, this.now)
    this.session.signs.overdue = true
  }

  /** A schedule has been set or moved to that instant: whoever sleeps longer has to be told. */
  scheduled(nextAt: number): void {
    this.#announce(true, nextAt)
  }

  /** Goes on ranking anew what an older ageing has ranked: looks at LIMITS.chunk jobs at most. */
  continueRanking(): void {
    const { state, signs } = this.session
    if (state.unranked === 0) return
    for (const row of this.session.rows('live', state.rankedAfter, LIMITS.chunk)) {
      if (state.unranked === 0) break
      state.rankedAfter = row.seq
      const old = row.weight
      this.session.weigh(row)
      if (row.weight === old) continue
      row.rank += old - row.weight
      this.session.touch(row)
    }
    if (state.unranked > 0) signs.overdue = true
  }

  /** Tells the dependents of an end: at once where they are few, else a chunk per call. */
  fanOut(end: Row): void {
    if (!this.graph.isWaitedFor(end.id)) return
    this.session.run('addFanOut', end.seq)
    this.continueFanOuts()
  }

  /** Goes on telling, at most LIMITS.chunk dependents. */
  continueFanOuts(): void {
    let left: number = LIMITS.chunk
    for (;;) {
      const task = this.session.first<FanOut>('fanOuts')
      if (task === undefined) return
      left -= this.#tell(task, left)
      if (left > 0) continue
      if (this.session.first('fanOuts') !== undefined) this.session.signs.overdue = true
      return
    }
  }

  /** Finishes the telling of one end, before it is revived or forgotten. */
  finishFanOut(end: Row): void {
    for (const task of this.session.all<FanOut>('fanOutsOf', end.seq)) this.#tell(task, ALL)
  }

  /** A lane is given up for good: the next in line is admitted, with the rank it waited with. */
  releaseLane(row: Row): void {
    const next = this.lanes.release(row)
    if (next === undefined) return
    this.enter(next, 'admit', 'ready')
    this.#settle(next)
  }

  /** Tells as many as are left, and writes how far that came. Answers how many were told. */
  #tell(task: FanOut, limit: number): number {
    const end = this.session.bySeq(task.job)
    const edges =
      end === undefined ? [] : this.session.all<Incoming>('openEdges', end.id, task.next, limit)
    this.session.prepareSeqs(edges.map(({ job }) => job))
    for (const edge of edges) {
      const told = this.graph.tell(edge, end as Row)
      if (told?.now === 'doomed') this.doom(told.row)
      if (told?.now === 'released') this.#release(told.row)
    }
    const last = edges.at(-1)
    const isMore =
      last !== undefined &&
      edges.length === limit &&
      this.session.first('openEdges', (end as Row).id, last.job, 1) !== undefined
    if (isMore) this.session.run('setFanOut', last.job, task.number)
    else this.session.run('removeFanOut', task.number)
    return edges.length
  }

  #release(row: Row): void {
    if (row.availableAt > this.now) this.enter(row, 'release', 'pending')
    else if (this.#asksLane(row, this.now) === 'free') this.enter(row, 'release', 'ready')
    this.#settle(row)
  }

  /** The rank is fixed at the moment of asking; a holder that has to yield goes back in line. */
  #asksLane(row: Row, readyAt: number | undefined): 'free' | 'wait' {
    if (readyAt !== undefined) this.#rank(row, readyAt)
    if (row.lane === undefined) return 'free'
    const answer = this.lanes.ask(row, row.lane)
    if (answer === 'free' || answer === 'wait') return answer
    this.leave(answer)
    this.enter(answer, 'yield', 'waiting')
    return 'free'
  }

  #rank(row: Row, askedAt: number): void {
    this.session.weigh(row)
    row.rank = rankOf(askedAt, row.weight)
    this.session.touch(row)
  }

  /** What being where it is now brings with it. */
  #settle(row: Row): void {
    if (row.status === 'ready') {
      row.readyAt = this.now
      this.session.touch(row)
      if (row.enqueueTimeoutMs > 0) this.setDeadline(row, this.now + row.enqueueTimeoutMs)
      this.session.signs.ready = true
    } else if (row.status === 'pending') this.session.signs.ready = true
    else if (isDoomed(row)) this.doom(row)
  }

  #announce(waits: boolean, deadline: number): void {
    const { announced } = this
    if (deadline >= (waits ? announced.wait : announced.quiet)) return
    if (waits) announced.wait = deadline
    else announced.quiet = deadline
    this.session.signs.overdue = true
  }

  #record(row: Row, step: StepName, from: JobStatus | null, { worker, code, cause }: Note): void {
    const { state, now } = this.session
    state.lastEvent += 1
    this.session.log({
      seq: state.lastEvent,
      at: now,
      job: row.id,
      type: row.type,
      pool: row.pool,
      from,
      to: row.status,
      attempt: row.starts,
      event: eventOf(step, row.status),
      ...(code === undefined ? NOTHING : { code }),
      ...(cause === undefined ? NOTHING : { cause }),
      ...(worker === undefined ? NOTHING : { worker }),
    })
  }
}
