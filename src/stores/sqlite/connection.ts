// Owns one connection: its prepared statements, and the terms and lines that it has seen.
// May never outlive its file; and forgets what it has learnt when a transaction is undone.

import type { Terms } from '../../core/job.ts'
import type { StoredSettings } from '../../core/settings.ts'
import type { Kin, Member } from './alike.ts'
import type { Shared } from './columns.ts'
import type { Database, Statement, Value } from './driver.ts'
import { ITS_OWN, packTerms, unpackTerms } from './figures.ts'
import type { Row } from './row.ts'
import type { State } from './state.ts'
import { SQL, type StatementName } from './statements.ts'

/** What a transaction knew at its end: as good as the file, as long as nobody else has written. */
export interface Kept {
  /** What `PRAGMA data_version` said. */
  readonly version: number
  readonly state: State
  readonly rows: Map<number, Row | Member>
  readonly ids: Map<string, Row | Member | null>
  readonly facts: Facts
}

/** What was found of small tables: whoever writes to one takes it out of here. */
export interface Facts {
  /** Of pools that have no breaker. */
  readonly pools: Map<string, PoolColumns>
  /** Types with a cap over all pools. */
  caps: ReadonlyMap<string, number> | undefined
  hasEdges: boolean | undefined
  hasOutcomes: boolean | undefined
  /** What is set, but for what the state says of it. */
  said: Pick<StoredSettings, 'pools' | 'types' | 'schedules'> | undefined
  /** Types, as a text, none of whose jobs are ready in the file, where none at all is pending. */
  drained: string | undefined
}

/** A row of `pool`. */
export interface PoolColumns {
  readonly pool: string
  readonly start: string
  readonly operator: string
  readonly tat: number
  readonly breaker: string | null
  readonly wanted: number | null
  readonly told: number
}

/** All jobs of one type in one pool. */
export interface Line {
  readonly pool: string
  readonly type: string
}

/** What ready jobs that were read last had in common: the next ones say only if they differ. */
export interface Likely {
  readonly line: number
  /** What is asked of the columns that `ready` compares. */
  readonly values: readonly Value[]
  readonly kin: Kin
}

/** Terms that jobs share: as many as there are types, and some more. */
const MOST_TERMS = 1_000

/** Statements kept ready: those by name, and what rows have been written with. */
const MOST_STATEMENTS = 1_000

export class Connection implements Shared {
  readonly db: Database
  /** Taken by the write transaction that comes next; put back only once that is committed. */
  kept: Kept | undefined
  /** Throws if a later version of ax has taken the file over. */
  check: () => void = () => {}
  likely: Likely | undefined
  readonly #statements = new Map<string, Statement>()
  readonly #lines = new Map<number, Line>()
  readonly #linesBy = new Map<string, number>()
  readonly #terms = new Map<number, Terms>()
  #termsAt = new WeakMap<Terms, number>()

  constructor(db: Database) {
    this.db = db
  }

  /** Rows of a statement, with columns by name. */
  all<T>(name: StatementName, ...values: readonly Value[]): readonly T[] {
    return this.statement(SQL[name]).all(...values) as readonly T[]
  }

  first<T>(name: StatementName, ...values: readonly Value[]): T | undefined {
    return this.statement(SQL[name]).get(...values) as T | undefined
  }

  run(name: StatementName, ...values: readonly Value[]): void {
    this.statement(SQL[name]).run(...values)
  }

  statement(sql: string): Statement {
    let known = this.#statements.get(sql)
    if (known === undefined) {
      if (this.#statements.size >= MOST_STATEMENTS) this.#statements.clear()
      known = this.db.prepare(sql)
      this.#statements.set(sql, known)
    }
    return known
  }

  readonly termsOf = (at: number): Terms => {
    const known = this.#terms.get(at)
    if (known !== undefined) return known
    const found = this.first<{ json: string }>('terms', at)
    const terms = unpackTerms(found?.json ?? '{}')
    this.#terms.set(at, terms)
    return terms
  }

  /**
   * The number of these terms, which are written down if nobody has agreed on them before. ITS_OWN
   * where there are too many: then each job is told its own.
   */
  termsAt(terms: Terms): number {
    const known = this.#termsAt.get(terms)
    if (known !== undefined) return known
    const json = packTerms(terms)
    const find = () => this.first<{ terms: number }>('termsAt', json)?.terms
    let at = find()
    if (at === undefined) {
      const isFull = (this.first<{ count: number }>('termsCount')?.count ?? 0) >= MOST_TERMS
      if (!isFull) this.run('addTerms', json)
      at = isFull ? ITS_OWN : (find() as number)
    }
    this.#termsAt.set(terms, at)
    return at
  }

  readonly lineOf = (at: number): Line => {
    const known = this.#lines.get(at)
    if (known !== undefined) return known
    const line = this.first<Line>('line', at)
    if (line === undefined) throw new Error(`there is no line ${at}`)
    this.#lines.set(at, line)
    return line
  }

  /** The number of a line, which is begun if there is none. */
  lineFor(pool: string, type: string): number {
    const name = `${pool}\0${type}`
    const known = this.#linesBy.get(name)
    if (known !== undefined) return known
    const find = () => this.first<{ line: number }>('lineBy', pool, type)?.line
    let at = find()
    if (at === undefined) {
      this.run('addLine', pool, type)
      at = find() as number
    }
    this.#linesBy.set(name, at)
    return at
  }

  /** A line may have ended, and its number be another's: somebody else has written. */
  forgetLines(): void {
    this.#lines.clear()
    this.#linesBy.clear()
  }

  close(): void {
    this.#statements.clear()
    this.db.close()
  }

  /** A transaction was undone: numbers that it gave out may be given to others. */
  forget(): void {
    this.forgetLines()
    this.likely = undefined
    this.#terms.clear()
    this.#termsAt = new WeakMap()
  }
}
