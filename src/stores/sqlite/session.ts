// Owns one transaction: the rows in hand, what it adds to counts and log, what it will hint at.
// May never know a rule of the port: what happens to a job is in board.ts.

import { carried, type RateTerms } from '../../core/gcra.ts'
import {
  type JobEvent,
  type JobStatus,
  STATUSES,
  type StoredJob,
  type Terms,
} from '../../core/job.ts'
import { type Ageing, weightOf } from '../../core/rank.ts'
import { columnsOf, readRow } from './columns.ts'
import type { Connection } from './connection.ts'
import type { Value } from './driver.ts'
import { entriesOf } from './entries.ts'
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

/**
 * Rows kept from one transaction to the next: beyond it, only those that run. Some thousands more
 * cost the collector of garbage more than it costs to read them again.
 */
const MOST_KEPT = 1_000
const MOST_TEXT = 1_000

function isSmall({ payload, error }: Row): boolean {
  return (payload?.length ?? 0) <= MOST_TEXT && error === undefined
}

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
  /** What has been logged by the call in hand. */
  events: JobEvent[] = []
  readonly #before: readonly Value[]
  readonly #rows: Map<number, Row>
  readonly #ids: Map<string, Row | null>
  /** Rows that this transaction has read, made or touched, and ids that it did not find. */
  readonly #seen = new Set<Row>()
  readonly #absent: string[] = []
  readonly #dirty = new Set<Row>()
  #unlogged: JobEvent[] = []
  readonly #writer: Writer
  readonly #tallies = new Map<number, Counts>()
  readonly #emptied = new Set<number>()
  readonly #weights = new Map<string, [priority: number, weight: number, count: number]>()
  readonly #failures = new Map<string, number>()
  #wrote = false
  #version = 0

  /**
   * `isWrite`: it has the lock. Then what the last one knew holds, if nobody else has written
   * since: reading the jobs that a worker finishes once more took a tenth of all time.
   */
  constructor(connection: Connection, clock: () => number, isWrite: boolean) {
    this.connection = connection
    this.#writer = new Writer(connection)
    const { kept } = connection
    if (isWrite) {
      connection.kept = undefined
      this.#version = versionOf(connection)
    }
    const holds = isWrite && kept?.version === this.#version
    if (!holds) {
      connection.forgetLines()
      connection.check()
    }
    this.state = holds ? kept.state : readState(connection)
    this.#rows = holds ? kept.rows : new Map()
    this.#ids = holds ? kept.ids : new Map()
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
    return this.ask<T>(name, ...values)[0]
  }

  /** A number that a statement counts, or an instant that it finds; undefined for none. */
  number(name: StatementName, ...values: readonly Value[]): number | undefined {
    const found = this.askOne<Record<string, number | null>>(name, ...values)
    return found?.count ?? found?.at ?? undefined
  }

  rows(name: StatementName, ...values: readonly Value[]): readonly Row[] {
    return this.ask(name, ...values).map((found) => this.#adopt(columnsOf(found)))
  }

  /** Ready jobs of one line, in one text: a row for each costs libsql another 1.6 us. */
  readyRows(...values: readonly Value[]): readonly Row[] {
    const found = this.askOne<{ rows: string | null }>('ready', ...values)
    const list = JSON.parse(found?.rows ?? '[]') as readonly (number | readonly unknown[])[]
    return list.map((each) => {
      return typeof each === 'number' ? (this.bySeq(each) as Row) : this.#adopt(each)
    })
  }

  byId(id: string): Row | undefined {
    const known = this.#ids.get(id)
    if (known !== undefined) return known ?? undefined
    const found = this.connection.first('byId', id)
    if (found === undefined) {
      this.#lack(id)
      return undefined
    }
    return this.#adopt(columnsOf(found))
  }

  view(id: string): StoredJob | null {
    const row = this.byId(id)
    return row === undefined ? null : viewOf(row)
  }

  bySeq(seq: number): Row | undefined {
    const known = this.#rows.get(seq)
    if (known !== undefined) return known
    const found = this.connection.first('bySeq', seq)
    return found === undefined ? undefined : this.#adopt(columnsOf(found))
  }

  /** Reads several jobs at once, where one by one would be as many questions. */
  prepare(ids: readonly string[]): void {
    const unknown = ids.filter((id) => !this.#ids.has(id))
    if (unknown.length < 2) return
    for (const id of unknown) this.#lack(id)
    for (const found of this.connection.all('byIds', JSON.stringify(unknown))) {
      this.#adopt(columnsOf(found))
    }
  }

  prepareSeqs(seqs: readonly number[]): void {
    const unknown = seqs.filter((seq) => !this.#rows.has(seq))
    if (unknown.length < 2) return
    for (const found of this.connection.all('bySeqs', JSON.stringify(unknown))) {
      this.#adopt(columnsOf(found))
    }
  }

  /** Whether a row is in hand: then reading it costs nothing. */
  has(seq: number): boolean {
    return this.#rows.has(seq)
  }

  #adopt(columns: readonly unknown[]): Row {
    const known = this.#rows.get(columns[0] as number)
    if (known !== undefined) return known
    const row = readRow(columns, this.connection)
    this.#hold(row)
    return row
  }

  #lack(id: string): void {
    this.#ids.set(id, null)
    this.#absent.push(id)
  }

  #hold(row: Row): void {
    this.#seen.add(row)
    this.#rows.set(row.seq, row)
    this.#ids.set(row.id, row)
  }

  // What changes

  /** A row that is new. */
  introduce(row: Row): void {
    this.#hold(row)
    this.#dirty.add(row)
  }

  touch(row: Row): void {
    this.#dirty.add(row)
    this.#seen.add(row)
  }

  remove(row: Row): void {
    this.#dirty.delete(row)
    this.#rows.delete(row.seq)
    this.#lack(row.id)
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
    this.events.push(event)
    this.#unlogged.push(event)
  }

  tally({ line }: Row, status: JobStatus, by: 1 | -1): void {
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

  #weigh({ priority, weight }: Row, by: 1 | -1): void {
    if (weight !== this.weightOf(priority)) this.state.unranked += by
    const name = `${priority} ${weight}`
    const known = this.#weights.get(name)
    if (known === undefined) this.#weights.set(name, [priority, weight, by])
    else known[2] += by
  }

  // What is written

  /** Writes everything in hand, so that the file can be asked about it. */
  flush(): void {
    if (this.#dirty.size > 0) {
      this.#wrote = this.#writer.write(this.#dirty) || this.#wrote
      this.#dirty.clear()
    }
    if (this.#tallies.size > 0) this.#writeTallies()
    for (const [priority, weight, count] of this.#weights.values()) {
      if (count !== 0) this.run('addWeight', priority, weight, count)
    }
    this.#weights.clear()
  }

  /** The end of the transaction, just before it is committed. */
  finish(): void {
    this.flush()
    for (const line of this.#emptied) {
      this.run('dropLine', line)
      this.connection.forgetLines()
    }
    for (const batch of entriesOf(this.#unlogged)) {
      this.run('addBatch', batch.first, batch.last, batch.at, batch.entries)
    }
    this.#unlogged = []
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
    const [rows, ids] = [this.#rows, this.#ids]
    for (const id of this.#absent) if (ids.get(id) === null) ids.delete(id)
    for (const row of this.#seen) {
      const isNext = row.status === 'ready' && rows.size <= MOST_KEPT && isSmall(row)
      if (row.status === 'running' || isNext || rows.get(row.seq) !== row) continue
      rows.delete(row.seq)
      ids.delete(row.id)
    }
    this.connection.kept = { version: this.#version, state: this.state, rows, ids }
  }

  #writeTallies(): void {
    const sums: number[][] = []
    for (const [line, counts] of this.#tallies) {
      const changes = STATUSES.map((status) => counts[status])
      if (changes.some((change) => change !== 0)) sums.push([line, ...changes])
    }
    this.#tallies.clear()
    if (sums.length > FEW) this.run('addTallies', JSON.stringify(sums))
    else for (const [line, ...changes] of sums) this.run('addTally', ...changes, line as number)
  }
}

function zeros(): Counts {
  return { pending: 0, waiting: 0, ready: 0, running: 0, success: 0, failed: 0, cancelled: 0 }
}
