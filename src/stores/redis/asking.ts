// Owns the arguments of scripts: what the port was asked, as lists that the scripts read.
// May never leave out what a rule needs, or say a text twice where a number does.

import type { Move, NewJob, StoredJob, Terms } from '../../core/job.ts'
import { STATUSES } from '../../core/job.ts'
import type { PoolTermsChange, Schedule, TypeChange } from '../../core/settings.ts'
import { DEFAULT_TYPE } from '../../core/terms.ts'
import { LIMITS } from '../../store/limits.ts'
import type {
  Change,
  ExtendAsk,
  InsertGroup,
  ListQuery,
  ReplaceGroup,
  WorkerBeat,
} from '../../store/store.ts'
import { type Packable, type Part, pack } from './pack.ts'
import { flagsOf, packSaid } from './rows.ts'

type Ask = { readonly [name: string]: Packable }
type PackTerms = (terms: Terms) => Buffer

/** What the jobs of a call share: each line, all terms, and what else is the same, is said once. */
class Shared {
  readonly lines: Packable[] = []
  readonly terms: Packable[] = []
  readonly kinds: Packable[] = []
  readonly #kinds = new Map<string, number>()
  #last: NewJob | undefined
  #lastKind = 0
  readonly #lines = new Map<string, number>()
  readonly #terms = new Map<Terms, number>()
  readonly #packTerms: PackTerms

  constructor(packTerms: PackTerms) {
    this.#packTerms = packTerms
  }

  lineOf({ pool, type }: NewJob): number {
    const name = `${pool}\0${type}`
    const known = this.#lines.get(name)
    if (known !== undefined) return known
    const at = this.lines.push([pool, type])
    this.#lines.set(name, at)
    return at
  }

  termsOf({ terms }: NewJob): number {
    const known = this.#terms.get(terms)
    if (known !== undefined) return known
    const at = this.terms.push(this.#packTerms(terms))
    this.#terms.set(terms, at)
    return at
  }

  /** All but who a job is and what it carries; most jobs are of the kind of the one before them. */
  kindOf(job: NewJob): number {
    if (this.#last === undefined || !isLike(job, this.#last)) {
      this.#lastKind = this.#findKind(job)
      this.#last = job
    }
    return this.#lastKind
  }

  #findKind(job: NewJob): number {
    const { priority, delayMs, minted } = job
    const kind = [this.lineOf(job), this.termsOf(job), flagsOf(job), priority, delayMs, minted]
    const name = kind.join(' ')
    const known = this.#kinds.get(name)
    if (known !== undefined) return known
    const at = this.kinds.push(kind)
    this.#kinds.set(name, at)
    return at
  }
}

/** Whether two jobs differ in who they are and what they carry alone. */
function isLike(a: NewJob, b: NewJob): boolean {
  return (
    a.type === b.type &&
    a.pool === b.pool &&
    a.terms === b.terms &&
    a.priority === b.priority &&
    a.delayMs === b.delayMs &&
    a.minted === b.minted &&
    flagsOf(a) === flagsOf(b)
  )
}

/** Three values for each job, as insertion.lua reads them. */
function jobsAsk(jobs: readonly NewJob[], shared: Shared): Part {
  const kinds = jobs.map((job) => shared.kindOf(job))
  return (writer) => {
    writer.list(3 * jobs.length)
    for (let place = 0; place < jobs.length; place += 1) {
      const job = jobs[place] as NewJob
      writer.text(job.id)
      writer.number(kinds[place] as number)
      writer.write(packSaid(job))
    }
  }
}

function groupAsk(group: InsertGroup, shared: Shared): Ask {
  const { jobs, fence, tick, behind = [], unknownDeps } = group
  return {
    jobs: jobsAsk(jobs, shared),
    reject: unknownDeps === 'reject',
    ...(behind.length === 0 ? {} : { behind: [...behind] }),
    ...(fence === undefined ? {} : { fence: [fence.id, fence.lease] }),
    ...(tick === undefined
      ? {}
      : {
          tick: {
            name: tick.of.name,
            at: tick.at,
            nextAt: tick.nextAt,
            row: rowAsk(tick.of),
          },
        }),
  }
}

export function insertAsk(groups: readonly InsertGroup[], packTerms: PackTerms): Ask {
  const shared = new Shared(packTerms)
  const asked = groups.map((group) => groupAsk(group, shared))
  return { groups: asked, lines: shared.lines, terms: shared.terms, kinds: shared.kinds }
}

export function replaceAsk({ gone, ...group }: ReplaceGroup, packTerms: PackTerms): Ask {
  const shared = new Shared(packTerms)
  const asked = groupAsk(group, shared)
  return {
    group: asked,
    gone: gone.flatMap(({ id, seq, rev }): Packable[] => [id, seq, rev]),
    lines: shared.lines,
    terms: shared.terms,
    kinds: shared.kinds,
  }
}

/**
 * What moves have in common is said once, as a kind; then eight values for each move, as apply.lua
 * reads them; false for none. `mine`: what this process knows of the job that each is about, of
 * which the server need not say again what was said.
 */
export function movesAsk(moves: readonly Move[], mine: readonly (StoredJob | undefined)[]): Ask {
  const kinds = new Kinds()
  const kindOf = moves.map((move) => kinds.of(move))
  const part: Part = (writer) => {
    writer.list(8 * moves.length)
    for (let place = 0; place < moves.length; place += 1) {
      const move = moves[place] as Move
      const { expect } = move
      writer.text(move.id)
      writer.number(kindOf[place] as number)
      if ('lease' in expect) {
        writer.number(expect.lease)
        writer.flag(false)
        writer.flag(false)
      } else {
        writer.flag(false)
        writer.number(expect.seq)
        writer.number(expect.overdue ? -expect.rev : expect.rev)
      }
      writer.write(typeof move.result === 'string' ? move.result : false)
      writer.write(move.error === undefined ? false : JSON.stringify(move.error))
      writer.number(mine[place]?.seq ?? 0)
    }
  }
  return { kinds: kinds.all, moves: part }
}

/** Most moves of a call are of the kind of the one before them. */
class Kinds {
  readonly all: Packable[] = []
  readonly #places = new Map<string, number>()
  #last: Move | undefined
  #lastPlace = 0

  /** Counted from 1. */
  of(move: Move): number {
    if (this.#last === undefined || !areAlike(move, this.#last)) {
      const kind = kindOf(move)
      const name = kind.join('\0')
      this.#lastPlace = this.#places.get(name) ?? this.all.push(kind)
      this.#places.set(name, this.#lastPlace)
      this.#last = move
    }
    return this.#lastPlace
  }
}

/** In the order of apply.lua. */
function kindOf(move: Move): (string | number | boolean)[] {
  const kind = [move.step, move.to, move.delayMs, move.keepRank, move.charge]
  const more = [move.outcome ?? false, move.code ?? false, move.keepMs, move.verdict]
  return [...kind, ...more, move.unknown === undefined ? 0 : move.unknown ? 1 : 2]
}

function areAlike(a: Move, b: Move): boolean {
  return (
    a.step === b.step &&
    a.to === b.to &&
    a.delayMs === b.delayMs &&
    a.keepRank === b.keepRank &&
    a.charge === b.charge &&
    a.outcome === b.outcome &&
    a.code === b.code &&
    a.keepMs === b.keepMs &&
    a.verdict === b.verdict &&
    a.unknown === b.unknown
  )
}

export function extendAsk({ holder, held, leaseMs, upTo }: ExtendAsk): Ask {
  const flat = held.flatMap(({ id, lease, stuck, note }): Packable[] => {
    return [id, lease, stuck === true, note ?? false]
  })
  return { holder, held: flat, leaseMs, upTo }
}

export function beatAsk({ holder, name, types, full, zombies, settings, ttlMs }: WorkerBeat): Ask {
  return { holder, said: pack([name, types, full, zombies, settings]), ttlMs }
}

export function listAsk(query: ListQuery): Ask {
  const { statuses = STATUSES, type, pool, flow, code, key, createdAfter, createdBefore } = query
  return {
    statuses: [...new Set(statuses)],
    after: query.after,
    limit: Math.min(query.limit, LIMITS.page),
    type: type ?? false,
    pool: pool ?? false,
    flow: flow ?? false,
    code: code ?? false,
    key: key ?? false,
    createdAfter: createdAfter ?? false,
    createdBefore: createdBefore ?? false,
  }
}

export function changesAsk(changes: readonly Change[]): Ask {
  return { changes: changes.map(changeAsk) }
}

function changeAsk(change: Change): Ask {
  if ('pool' in change)
    return { kind: 'pool', pool: change.pool, by: change.by, ...termsAsk(change.terms) }
  if ('type' in change) return { kind: 'type', type: change.type, ...typeAsk(change.setting) }
  if ('ageing' in change) return { kind: 'ageing', ageing: asked(change.ageing) }
  if ('budget' in change) return { kind: 'budget', budget: asked(change.budget) }
  const { schedule, row } = change
  return { kind: 'schedule', schedule, row: row === null ? false : rowAsk(row) }
}

function asked(value: object | null): Packable {
  return value === null ? false : (value as Packable)
}

/** What is said, and what is taken back. */
function termsAsk(terms: PoolTermsChange): Ask {
  const said = Object.entries(terms).filter(([, value]) => value !== null && value !== undefined)
  const without = Object.entries(terms).filter(([, value]) => value === null)
  return {
    terms: Object.fromEntries(said) as Packable,
    without: without.map(([name]) => name),
  }
}

/** Lua has no null: where a setting may be null, false stands for it. */
function typeAsk(setting: TypeChange): Ask {
  const { pool, priority, terms, concurrency } = DEFAULT_TYPE
  const usual = { pool, priority, concurrency: concurrency ?? false, maxLost: false, terms }
  return { setting: withoutNull(setting), usual: usual as unknown as Packable }
}

function withoutNull(value: object): Packable {
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  return Object.fromEntries(entries.map(([name, each]) => [name, each ?? false])) as Packable
}

/** In the order of timetable.lua. */
function rowAsk({ cron, timeZone, missed, template, nextAt }: Schedule): Packable {
  return [cron, timeZone ?? false, missed, template, nextAt]
}
