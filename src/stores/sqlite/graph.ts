// Owns the edges between jobs: who names whom, what became of it, ghosts and remembered outcomes.
// May never change a status: it answers what follows, and the board moves.

import { doMeet, findCycle, namersOf } from '../../core/cycle.ts'
import { type Dep, hasEnded, type JobStatus, type NewJob } from '../../core/job.ts'
import { afterEnd, type Counts, isDoomed, quorumOf, satisfies } from '../../core/quorum.ts'
import { readable } from './driver.ts'
import type { Row } from './row.ts'
import type { Session } from './session.ts'

export type EdgeState = 'open' | 'satisfied' | 'dead'

/** An edge as it stands in the file. */
export interface Edge {
  readonly place: number
  readonly dep: string
  readonly on_end: number
  readonly state: EdgeState
}

/** An edge from its other end. */
export interface Incoming {
  readonly job: number
  readonly place: number
  readonly on_end: number
}

/** What a fresh look at the dependencies of a job has found. */
export interface Survey {
  readonly edges: readonly Edge[]
  readonly states: readonly EdgeState[]
  readonly counts: Counts
  /** The first dead dependency, and the one with whose death the job was doomed. */
  readonly dead: string | undefined
  readonly doomedBy: string | undefined
}

export class Graph {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** Whether an id is known as a job, or its outcome is remembered. */
  knows(id: string): boolean {
    return this.#session.byId(id) !== undefined || this.outcomeOf(id) !== undefined
  }

  /** Whether anybody has still to be told of an end of this job. */
  isWaitedFor(id: string): boolean {
    const { facts } = this.#session
    facts.hasEdges ??= this.#session.first('anyEdge') !== undefined
    return facts.hasEdges && this.#session.first('anyOpenEdge', id) !== undefined
  }

  /** How a job that has been forgotten ended, as long as that is remembered. */
  outcomeOf(id: string): JobStatus | undefined {
    if (!this.remembers()) return undefined
    return this.#session.first<{ status: JobStatus }>('outcome', id, this.#session.now)?.status
  }

  /** A new job by an id that was another's: the old outcome no longer counts. */
  adopt(row: Row): void {
    if (this.remembers()) this.#session.run('removeOutcome', row.id)
  }

  /** Whether the outcome of any job that has been forgotten is remembered. */
  remembers(): boolean {
    const { facts } = this.#session
    facts.hasOutcomes ??= this.#session.first('anyOutcome') !== undefined
    return facts.hasOutcomes
  }

  /** Whether a new job would have to wait for others. `group`: the ids that are new with it. */
  wouldWait(job: NewJob, group: ReadonlySet<string>): boolean {
    const isMet = (dep: Dep) => !group.has(dep.id) && this.#look(dep) === 'satisfied'
    return quorumOf(job.depMode, job.deps.length) > job.deps.filter(isMet).length
  }

  /** Whether a job that has not ended counts on this id, which nobody has submitted. */
  isAwaited(id: string): boolean {
    if (this.#session.byId(id) !== undefined) return false
    return this.#session.askOne('awaited', id) !== undefined
  }

  /** Draws the edges of a new row. All rows of its group have been introduced before. */
  link(row: Row): void {
    const edges = row.deps.map(({ id, on }, place): Edge => {
      return { place, dep: id, on_end: Number(on === 'end'), state: 'open' }
    })
    const survey = this.#surveyOf(row, edges)
    this.#session.facts.hasEdges = true
    for (const { place, dep, on_end } of edges) {
      const state = survey.states[place] as EdgeState
      this.#session.run('addEdge', row.seq, place, dep, on_end, state)
    }
    this.#count(row, survey)
  }

  /** Looks at every dependency that is not satisfied again, and counts anew. Changes nothing. */
  survey(row: Row): Survey {
    return this.#surveyOf(row, this.edgesOf(row))
  }

  edgesOf(row: Row): readonly Edge[] {
    return row.deps.length === 0 ? NO_EDGES : this.#session.all<Edge>('edges', row.seq)
  }

  /** Writes a survey down; where the job is doomed, with the culprit. */
  commit(row: Row, survey: Survey): void {
    for (const [at, edge] of survey.edges.entries()) {
      const state = survey.states[at] as EdgeState
      if (state !== edge.state) this.#session.run('setEdge', state, row.seq, edge.place)
    }
    this.#count(row, survey)
  }

  #count(row: Row, { counts, doomedBy }: Survey): void {
    row.needs = counts.needs
    row.open = counts.open
    if (isDoomed(counts) && doomedBy !== undefined) row.cause = this.#culprit(doomedBy)
    this.#session.touch(row)
  }

  #surveyOf(row: Row, edges: readonly Edge[]): Survey {
    let counts: Counts = { needs: quorumOf(row.depMode, edges.length), open: edges.length }
    let dead: string | undefined
    let doomedBy: string | undefined
    this.#session.prepare(edges.map(({ dep }) => dep))
    const states = edges.map((edge) => {
      const state = edge.state === 'satisfied' ? edge.state : this.#look(depOf(edge))
      if (state === 'open') return state
      if (state === 'dead') dead ??= edge.dep
      counts = afterEnd(counts, state === 'satisfied')
      if (isDoomed(counts)) doomedBy ??= edge.dep
      return state
    })
    return { edges, states, counts, dead, doomedBy }
  }

  /** Tells one dependent of an end. Answers what follows for it. */
  tell(
    edge: Incoming,
    end: Row,
  ): { readonly row: Row; readonly now: 'released' | 'doomed' } | null {
    const row = this.#session.bySeq(edge.job)
    if (row === undefined) return null
    const wasDoomed = isDoomed(row)
    const satisfied = satisfies(
      { id: end.id, on: edge.on_end === 1 ? 'end' : 'success' },
      end.status,
    )
    this.#session.run('setEdge', satisfied ? 'satisfied' : 'dead', edge.job, edge.place)
    const needed = row.needs
    const counts = afterEnd(row, satisfied)
    row.needs = counts.needs
    row.open = counts.open
    this.#session.touch(row)
    if (row.status !== 'waiting') return null
    if (needed > 0 && counts.needs === 0) return { row, now: 'released' }
    if (wasDoomed || !isDoomed(counts)) return null
    row.cause = this.#culprit(end.id)
    return { row, now: 'doomed' }
  }

  /** A revived job can deliver again: those that wait for it, and still can, count on it anew. */
  reopen({ id }: Row): void {
    for (const edge of this.#session.ask<Incoming>('deadEdges', id)) {
      const row = this.#session.bySeq(edge.job)
      if (row === undefined || isDoomed(row)) continue
      this.#session.run('setEdge', 'open', edge.job, edge.place)
      row.open += 1
      this.#session.touch(row)
    }
  }

  /** A job that has succeeded no longer needs those it named. Answers who is named by nobody. */
  unname(row: Row): readonly Row[] {
    if (row.deps.length === 0) return NOBODY
    this.#session.run('unname', row.seq)
    this.#session.prepare(row.deps.map(({ id }) => id))
    const named = row.deps.map(({ id }) => this.#session.byId(id))
    return named.filter((each) => each?.parked === true && !this.isNamed(each.id)) as Row[]
  }

  /** Whether a job that is alive, failed or cancelled names this one. */
  isNamed(id: string): boolean {
    return this.#session.first('named', id) !== undefined
  }

  /** Cuts every edge of a forgotten job and remembers its outcome. Same answer as `unname`. */
  forget(row: Row, keepMs: number): readonly Row[] {
    const free = row.status === 'success' ? NOBODY : this.unname(row)
    if (row.deps.length > 0) this.#session.run('removeEdges', row.seq)
    this.#session.run('cutEdges', row.id)
    if (keepMs > 0) {
      this.#session.run('setOutcome', row.id, row.status, readable(this.#session.now + keepMs))
      this.#session.facts.hasOutcomes = true
    }
    return free
  }

  /** Cuts the edges of a job that is taken out; those to it stay, and wait for its id. */
  withdraw(row: Row): readonly Row[] {
    const free = this.unname(row)
    if (row.deps.length > 0) this.#session.run('removeEdges', row.seq)
    return free
  }

  /** The loop that a group would close, or null: see the same function of the memory store. */
  loopOf(jobs: readonly NewJob[]): readonly string[] | null {
    const group = new Map(jobs.map((job) => [job.id, job]))
    const linked = jobs.filter((job) => job.deps.length > 0)
    this.#session.prepare(linked.flatMap(({ deps }) => deps.map(({ id }) => id)))
    const within = (id: string) => this.#unmet(group, group.get(id))
    const ids = linked.map((job) => job.id)
    const loop = findCycle(ids, within)
    if (loop !== null) return loop
    const fillers = this.#session.all<{ dep: string }>('namedAmong', JSON.stringify(ids))
    if (fillers.length === 0) return null
    const idsOf = (name: 'needed' | 'needing', id: string) =>
      this.#session.ask<{ id: string }>(name, id).map((each) => each.id)
    const up = (id: string) => (group.has(id) ? within(id) : idsOf('needed', id))
    const inGroup = namersOf(jobs)
    const down = (id: string) => [...(inGroup.get(id) ?? []), ...idsOf('needing', id)]
    const starts = fillers.map(({ dep }) => dep)
    return doMeet(starts, up, down) ? findCycle(ids, up) : null
  }

  /** What a new job waits for: all of its dependencies but those that are satisfied already. */
  #unmet(group: ReadonlyMap<string, NewJob>, job: NewJob | undefined): string[] {
    const deps = job?.deps ?? []
    const waits = (dep: Dep) => group.has(dep.id) || this.#look(dep) !== 'satisfied'
    return deps.flatMap((dep) => (waits(dep) ? dep.id : []))
  }

  #look(dep: Dep): EdgeState {
    const end = this.#session.byId(dep.id)?.status ?? this.outcomeOf(dep.id)
    if (end === undefined || !hasEnded(end)) return 'open'
    return satisfies(dep, end) ? 'satisfied' : 'dead'
  }

  #culprit(id: string): string {
    return this.#session.byId(id)?.cause ?? id
  }
}

const NO_EDGES: readonly Edge[] = Object.freeze([])
const NOBODY: readonly Row[] = Object.freeze([])

export function depOf({ dep, on_end }: Edge): Dep {
  return { id: dep, on: on_end === 1 ? 'end' : 'success' }
}
