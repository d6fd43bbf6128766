// Owns one transaction: the rows in hand, what it adds to counts and log, what it will hint at.
// May never know a rule of the port: what happens to a job is in board.ts.

import { carried, type RateTerms } from '../../core/gcra.ts'
import {
  hasEnded,
  type JobEvent,
  type JobStatus,
  STATUSES,
  type StoredJob,
  type Terms,
} from '../../core/job.ts'
import { type Ageing, weightOf } from '../../core/rank.ts'
import { type Kin, kinOf, LEAST_ALIKE, type Member, memberFor } from './alike.ts'
import { columnsOf } from './columns.ts'
import type { Connection, Facts } from './connection.ts'
import type { Value } from './driver.ts'
import { Log } from './entries.ts'
import { Hand } from './hand.ts'
import { type Ask, readReady } from './line.ts'
import { type Row, viewOf } from './row.ts'
import { readState, type State, valuesOf } from './state.ts'
import type { StatementName } from './statements.ts'
import { Writer } from './writing.ts'

/** What the transaction will hint at, once it is in the file. */
export interface Signs {
  ready: boolean
  overdue: boolean
  settings: boolean
  readonly ended: string[]
  readonly holders: string[]
  readonly room: string[]
}

type Counts = Record<JobStatus, number>

/** A wall clock that was set back by less than this stands still; beyond it, it is followed. */
const STEADY_MS = 60_000

/** As many statements cost less than one that reads a text. */
const FEW = 3

function versionOf(connection: Connection): number {
  return connection.first<{ data_version: number }>('dataVersion')?.data_version ?? 0
}

export class Session {
  readonly connection: Connection
  readonly state: State
  readonly now: number
  readonly signs: Signs = {
    ready: false,
    overdue: false,
    settings: false,
    ended: [],
    holders: [],
    room: [],
  }
  readonly hand: Hand
  readonly facts: Facts
  /** What has been logged by the call in hand, if it wants to be told. */
  events: JobEvent[] = []
  tells = false
  readonly #before: readonly Value[]
  readonly #dirty = new Set<Row>()
  readonly #log = new Log()
  #last: JobEvent | undefined
  readonly #writer: Writer
  readonly #tallies = new Map<number, Counts>()
  readonly #emptied = new Set<number>()
  readonly #weights = new Map<string, [priority: number, weight: number, count: number]>()
  readonly #failures = new Map<string, number>()
  readonly #version: number
  #wrote = false

  /**
   * What the last one knew holds, if nobody else has written since: reading the jobs that a worker
   * finishes once more took a tenth of all time. `isWrite`: it has the lock.
   */
  constructor(connection: Connection, clock: () => number, isWrite: boolean) {
    this.connection = connection
    this.#writer = new Writer(connection)
    this.#version = versionOf(connection)
    const kept = connection.kept?.version === this.#version ? connection.kept : undefined
    if (isWrite) connection.kept = undefined
    if (kept === undefined) {
      connection.forgetLines()
      connection.check()
    }
    this.state = kept === undefined ? readState(connection) : { ...kept.state }
    this.facts = kept?.facts ?? noFacts()
    // Rows in hand are changed in place, and kept by whoever has the lock.
    this.hand = new Hand(connection, isWrite ? kept : undefined)
    this.#before = valuesOf(this.state)
    const wall = Math.floor(clock())
    const { now } = this.state
    this.now = wall < now && now - wall < STEADY_MS ? now : wall
  }

  // What the file says

  /** Of tables that rows in hand do not stand in. */
  all<T>(name: StatementName, ...values: readonly Value[]): readonly T[] {
    return this.connection.all(name, ...values)
  }

  first<T>(name: StatementName, ...values: readonly Value[]): T | undefined {
    return this.connection.first(name, ...values)
  }

  run(name: StatementName, ...values: readonly Value[]): void {
    this.#wrote = true
    this.connection.run(name, ...values)
  }

  /** Of jobs and their counts: whatever is in hand is written before. */
  ask<T>(name: StatementName, ...values: readonly Value[]): readonly T[] {
    this.flush()
    return this.connection.all(name, ...values)
  }

  askOne<T>(name: StatementName, ...values: readonly Value[]): T | undefined {
    this.flush()
    return this.connection.first(name, ...values)
  }

  /** A number that a statement counts, or an instant that it finds; undefined for none. */
  number(name: StatementName, ...values: readonly Value[]): number | undefined {
    const found = this.askOne<Record<string, number | null>>(name, ...values)
    return found?.count ?? found?.at ?? undefined
  }

  rows(name: StatementName, ...values: readonly Value[]): readonly Row[] {
    return this.ask(name, ...values).map((found) => this.hand.adopt(columnsOf(found)))
  }

  /** Ready jobs of one line after a place in it, in order. */
  ready(ask: Ask): readonly (Row | Member)[] {
    this.flush()
    return readReady(this.connection, this.hand, ask)
  }

  /**
   * The ready jobs of these types, where that is known without asking the file: it has none, and
   * those in hand are new to it. Undefined: nobody knows.
   */
  readyInHand(types: readonly string[]): readonly Row[] | undefined {
    if (this.facts.drained !== JSON.stringify(types)) return undefined
    const ready: Row[] = []
    let areNew = true
    for (const row of this.#dirty) {
      if (row.status === 'pending') return undefined
      areNew &&= row.saved === null && row.lease === undefined
      if (row.status === 'ready' && types.includes(row.type)) ready.push(row)
    }
    return ready.length === 0 || areNew ? ready : undefined
  }

  byId(id: string): Row | undefined {
    return this.hand.byId(id)
  }

  bySeq(seq: number): Row | undefined {
    return this.hand.bySeq(seq)
  }

  view(id: string): StoredJob | null {
    const row = this.byId(id)
    return row === undefined ? null : viewOf(row)
  }

  prepare(ids: readonly string[]): void {
    this.hand.prepare(ids)
  }

  prepareSeqs(seqs: readonly number[]): void {
    this.hand.prepareSeqs(seqs)
  }

  // What changes

  /** A row that is new. */
  introduce(row: Row): void {
    this.hand.hold(row)
    this.#dirty.add(row)
  }

  touch(row: Row): void {
    this.#dirty.add(row)
    this.hand.see(row)
  }

  remove(row: Row): void {
    this.#dirty.delete(row)
    this.hand.remove(row)
    if (row.saved !== null) {
      this.run('removeJob', row.seq)
      this.run(row.saved.table === 'live' ? 'removeLive' : 'removePast', `[${row.seq}]`)
    }
    this.#emptied.add(row.line)
  }

  termsAt(terms: Terms): number {
    return this.connection.termsAt(terms)
  }

  lineFor(pool: string, type: string): number {
    return this.connection.lineFor(pool, type)
  }

  log(event: JobEvent): void {
    if (this.tells) this.events.push(event)
    this.#last = event
    this.#log.add(event)
  }

  /** Writes what has been logged so far: who asks the file about the log has to find it there. */
  writeLog(): void {
    for (const batch of this.#log.take(this.now)) {
      this.run('addBatch', batch.first, batch.last, batch.at, batch.entries)
    }
  }

  /** The last entry, of another job. */
  #logAgain(job: string): void {
    const event = this.#last as JobEvent
    const seq = this.state.lastEvent + 1
    this.state.lastEvent = seq
    if (this.tells) this.events.push({ ...event, job, seq })
    this.#log.again(event, job, seq)
  }

  // Jobs that are alike

  /** A new row has been placed, and others like it may follow: it is one of them. */
  precede(row: Row): Member {
    this.#dirty.delete(row)
    return this.hand.join(row, kinOf(row))
  }

  /** Another one arrives, just after. */
  follow(kin: Kin, id: string, payload: string | undefined): Member {
    const { state } = this
    state.lastSeq += 1
    this.#logAgain(id)
    return this.hand.enrol(memberFor(state.lastSeq, id, payload, kin))
  }

  /**
   * All of them are there. What is counted of the first has been counted. A few are written
   * beside whatever else is: a statement for every one or two took twice as long.
   */
  arrived(kin: Kin, members: readonly Member[]): void {
    this.#count(kin.row, members.length - 1, undefined)
    if (members.length < LEAST_ALIKE) {
      for (const member of members) this.#scatter(member)
      return
    }
    this.#wrote = true
    this.#disturb(kin.row)
    this.#writer.arrive(kin, members)
  }

  /** A new one becomes a row, as it has met too few that are alike. */
  #scatter(member: Member): void {
    const row = this.hand.take(member)
    row.saved = null
    this.#dirty.add(row)
  }

  /** What became of a row becomes of others that were as it was. Answers it, as one of them. */
  repeat(before: Kin, row: Row, others: readonly Member[]): Member {
    const { state } = this
    this.#dirty.delete(row)
    const kin = kinOf(row)
    const first = this.hand.join(row, kin)
    const isLeased = row.lease !== undefined
    for (const member of others) {
      member.kin = kin
      if (isLeased) state.lastLease += 1
      member.lease = isLeased ? state.lastLease : 0
      this.#logAgain(member.id)
    }
    this.hand.moved(others)
    this.#count(row, others.length, before.row.status)
    this.#wrote = true
    this.#writer.again(before, kin, [first, ...others])
    return first
  }

  #count(row: Row, by: number, from: JobStatus | undefined): void {
    if (from !== undefined) this.tally(row, from, -by)
    this.tally(row, row.status, by)
    const wasAlive = from !== undefined && !hasEnded(from)
    const isAlive = !hasEnded(row.status)
    if (wasAlive !== isAlive) this.#weigh(row, isAlive ? by : -by)
  }

  tally({ line }: Row, status: JobStatus, by: number): void {
    let counts = this.#tallies.get(line)
    if (counts === undefined) {
      counts = zeros()
      this.#tallies.set(line, counts)
    }
    counts[status] += by
  }

  countFailure(code: string, by: 1 | -1): void {
    this.#failures.set(code, (this.#failures.get(code) ?? 0) + by)
  }

  setBudget(terms: RateTerms | null): void {
    const { state, now } = this
    state.budgetTat = carried(state.budget, terms, state.budgetTat, now)
    state.budget = terms
  }

  // Ranks

  weightOf(priority: number): number {
    return weightOf(priority, this.state.ageing)
  }

  /** A job begins to live, or does so again: it has the weight that is set. */
  beginRank(row: Row): void {
    row.weight = this.weightOf(row.priority)
    this.#weigh(row, 1)
  }

  endRank(row: Row): void {
    this.#weigh(row, -1)
  }

  /** Gives a living job the weight that is set. */
  weigh(row: Row): void {
    if (row.weight === this.weightOf(row.priority)) return
    this.#weigh(row, -1)
    this.beginRank(row)
  }

  setAgeing(ageing: Ageing | null): void {
    this.flush()
    const { state } = this
    state.ageing = ageing
    state.rankedAfter = 0
    state.unranked = 0
    const kinds = this.all<Record<'priority' | 'weight' | 'count', number>>('weights')
    for (const { priority, weight, count } of kinds) {
      if (weight !== this.weightOf(priority)) state.unranked += count
    }
  }

  #weigh({ priority, weight }: Row, by: number): void {
    if (weight !== this.weightOf(priority)) this.state.unranked += by
    const name = `${priority} ${weight}`
    const known = this.#weights.get(name)
    if (known === undefined) this.#weights.set(name, [priority, weight, by])
    else known[2] += by
  }

  // What is written

  /** Writes everything in hand, so that the file can be asked about it. */
  flush(isLast = false): void {
    if (this.#dirty.size > 0) {
      for (const row of this.#dirty) this.#disturb(row)
      this.#wrote = this.#writer.write(this.#dirty) || this.#wrote
      this.#dirty.clear()
    }
    if (this.#tallies.size > 0) this.#writeTallies(isLast)
    for (const [priority, weight, count] of this.#weights.values()) {
      if (count !== 0) this.run('addWeight', priority, weight, count)
    }
    this.#weights.clear()
  }

  /** A job is written that may be the next to start. */
  #disturb({ status }: Row): void {
    if (status === 'ready' || status === 'pending') this.facts.drained = undefined
  }

  /** The end of the transaction, just before it is committed. */
  finish(): void {
    this.flush(true)
    for (const line of this.#emptied) {
      this.run('dropLine', line)
      this.connection.forgetLines()
    }
    this.writeLog()
    if (this.#failures.size > 0) {
      for (const [code, count] of this.#failures) this.run('addFailure', code, count)
      this.run('dropFailures')
      this.#failures.clear()
    }
    const values = valuesOf(this.state)
    const isSame = values.every((value, at) => value === this.#before[at])
    if (isSame && !this.#wrote) return
    this.state.now = this.now
    this.connection.run('setState', ...valuesOf(this.state))
  }

  /** After the commit: jobs that run, and some that are ready, are what the next ones are about. */
  keep(): void {
    const { state, facts } = this
    // What there is may end; that there is none is true until somebody adds one.
    if (facts.hasEdges) facts.hasEdges = undefined
    if (facts.hasOutcomes) facts.hasOutcomes = undefined
    this.connection.kept = { version: this.#version, state, facts, ...this.hand.keep() }
  }

  /** Only how many are queued is asked within a transaction. */
  #writeTallies(isLast: boolean): void {
    const sums: number[][] = []
    for (const [line, counts] of this.#tallies) {
      if (!isLast && counts.ready === 0 && counts.pending === 0) continue
      this.#tallies.delete(line)
      const changes = STATUSES.map((status) => counts[status])
      if (changes.some((change) => change !== 0)) sums.push([line, ...changes])
    }
    if (sums.length > FEW) this.run('addTallies', JSON.stringify(sums))
    else for (const [line, ...changes] of sums) this.run('addTally', ...changes, line as number)
  }
}

function noFacts(): Facts {
  return {
    pools: new Map(),
    caps: undefined,
    hasEdges: undefined,
    hasOutcomes: undefined,
    said: undefined,
    drained: undefined,
  }
}

function zeros(): Counts {
  return { pending: 0, waiting: 0, ready: 0, running: 0, success: 0, failed: 0, cancelled: 0 }
}
