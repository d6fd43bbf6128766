// Owns the edges between jobs: who names whom, what became of it, ghosts and remembered outcomes.
// May never change a status: it answers what follows, and the store moves.

import { doMeet, findCycle, namersOf } from '../../core/cycle.ts'
import { type Dep, hasEnded, type JobStatus, type NewJob } from '../../core/job.ts'
import { afterEnd, type Counts, isDoomed, quorumOf, satisfies } from '../../core/quorum.ts'
import { Fifo } from '../../kit/fifo.ts'
import { LIMITS } from '../limits.ts'
import type { JobRecord } from './record.ts'

export type EdgeState = 'open' | 'satisfied' | 'dead'

/** One dependency of one job, reachable from both ends. */
export interface Edge {
  readonly from: JobRecord
  readonly dep: Dep
  node: GraphNode
  state: EdgeState
  /** Its place in the list of its node; -1 once the node has been forgotten. */
  index: number
}

/** An id that has been named. `record` is absent for a ghost: nobody has submitted it yet. */
export interface GraphNode {
  readonly id: string
  record: JobRecord | undefined
  readonly dependents: Edge[]
  /** How many of them are alive, failed or cancelled: those keep it from being forgotten. */
  namers: number
  /** False once a removal has put an edge out of the order of insertion. */
  sorted: boolean
}

/** What a fresh look at the dependencies of a job has found. */
export interface Survey {
  readonly states: readonly EdgeState[]
  readonly counts: Counts
  /** The first dead dependency, and the one with whose death the job was doomed. */
  readonly dead: string | undefined
  readonly doomedBy: string | undefined
}

interface Outcome {
  readonly id: string
  readonly end: JobStatus
  readonly until: number
}

export class Graph {
  readonly #records: ReadonlyMap<string, JobRecord>
  readonly #nodes = new Map<string, GraphNode>()
  readonly #outcomes = new Map<string, Outcome>()
  readonly #oldOutcomes = new Fifo<Outcome>()

  constructor(records: ReadonlyMap<string, JobRecord>) {
    this.#records = records
  }

  /** Whether an id is known as a job, or its outcome is remembered. */
  knows(id: string, now: number): boolean {
    return this.#records.has(id) || this.#remembered(id, now) !== undefined
  }

  /** How a job that has been forgotten ended, as long as that is remembered. */
  outcomeOf(id: string, now: number): JobStatus | undefined {
    return this.#remembered(id, now)?.end
  }

  /** Ties a new record to whoever has named it before. Its old outcome no longer counts. */
  adopt(record: JobRecord): void {
    if (this.#outcomes.size > 0) this.#outcomes.delete(record.id)
    if (this.#nodes.size === 0) return
    const node = this.#nodes.get(record.id)
    if (node === undefined) return
    node.record = record
    record.node = node
  }

  /** Whether a new job would have to wait for others. `group`: the ids that are new with it. */
  wouldWait(job: NewJob, group: ReadonlySet<string>, now: number): boolean {
    const isMet = (dep: Dep) => !group.has(dep.id) && this.#look(dep, now) === 'satisfied'
    return quorumOf(job.depMode, job.deps.length) > job.deps.filter(isMet).length
  }

  /** Whether a job that has not ended counts on this id, which nobody has submitted. */
  isAwaited(id: string): boolean {
    const node = this.#nodes.get(id)
    if (node === undefined || node.record !== undefined) return false
    return node.dependents.some(({ from, state }) => state === 'open' && !hasEnded(from.status))
  }

  /** The edges to ids that nobody has submitted, in no order. O(ids that were named). */
  *ghostEdges(): Iterable<Edge> {
    for (const node of this.#nodes.values()) {
      if (node.record === undefined) yield* node.dependents
    }
  }

  /** Draws the edges of a new record. All records of its group have been adopted before. */
  link(record: JobRecord, now: number): void {
    const { rare } = record
    rare.edges = rare.deps.map((dep) => this.#draw(record, dep))
    this.commit(record, this.survey(record, now))
  }

  /** Looks at every dependency that is not satisfied again, and counts anew. Changes nothing. */
  survey(record: JobRecord, now: number): Survey {
    const { edges, depMode } = record.has
    let counts: Counts = { needs: quorumOf(depMode, edges.length), open: edges.length }
    let dead: string | undefined
    let doomedBy: string | undefined
    const states = edges.map((edge) => {
      const state = edge.state === 'satisfied' ? edge.state : this.#look(edge.dep, now)
      if (state === 'open') return state
      if (state === 'dead') dead ??= edge.dep.id
      counts = afterEnd(counts, state === 'satisfied')
      if (isDoomed(counts)) doomedBy ??= edge.dep.id
      return state
    })
    return { states, counts, dead, doomedBy }
  }

  /** Writes a survey down; where the job is doomed, with the culprit. */
  commit(record: JobRecord, { states, counts, doomedBy }: Survey): void {
    const { rare } = record
    rare.edges.forEach((edge, index) => {
      edge.state = states[index] as EdgeState
    })
    rare.needs = counts.needs
    rare.open = counts.open
    if (isDoomed(counts) && doomedBy !== undefined) rare.cause = this.#culprit(doomedBy)
  }

  /** The edges that an end of this record has to be told along, in order of insertion. */
  toTell(record: JobRecord): readonly Edge[] {
    const node = record.node
    if (node === undefined) return []
    return inOrder(node).filter((edge) => edge.state === 'open')
  }

  /** Tells one dependent of an end. Answers what follows for it. */
  tell(edge: Edge, end: JobRecord): 'released' | 'doomed' | 'nothing' {
    if (edge.index < 0 || edge.state !== 'open') return 'nothing'
    const rare = edge.from.rare
    const wasDoomed = isDoomed(rare)
    const satisfied = satisfies(edge.dep, end.status)
    edge.state = satisfied ? 'satisfied' : 'dead'
    const needed = rare.needs
    const counts = afterEnd(rare, satisfied)
    rare.needs = counts.needs
    rare.open = counts.open
    if (edge.from.status !== 'waiting') return 'nothing'
    if (needed > 0 && counts.needs === 0) return 'released'
    if (wasDoomed || !isDoomed(counts)) return 'nothing'
    rare.cause = this.#culprit(end.id)
    return 'doomed'
  }

  /** A revived job can deliver again: those that wait for it, and still can, count on it anew. */
  reopen(record: JobRecord): void {
    for (const edge of record.node?.dependents ?? []) {
      const rare = edge.from.rare
      if (edge.state !== 'dead' || edge.from.status !== 'waiting') continue
      if (isDoomed(rare)) continue
      edge.state = 'open'
      rare.open += 1
    }
  }

  /** A job that has succeeded no longer needs those it named. Answers who is named by nobody. */
  unname(record: JobRecord): readonly JobRecord[] {
    const free: JobRecord[] = []
    for (const edge of record.has.edges) {
      edge.node.namers -= 1
      if (edge.node.namers === 0 && edge.node.record !== undefined) free.push(edge.node.record)
    }
    return free
  }

  /** Cuts every edge of a forgotten job and remembers its outcome. Same answer as `unname`. */
  forget(record: JobRecord, keepMs: number, now: number): readonly JobRecord[] {
    const free = record.status === 'success' ? [] : this.unname(record)
    for (const edge of record.has.edges) this.#cut(edge)
    const node = record.node
    if (node !== undefined) {
      for (const edge of node.dependents) edge.index = -1
      node.dependents.length = 0
      this.#nodes.delete(node.id)
      record.node = undefined
    }
    if (keepMs > 0) {
      const outcome = { id: record.id, end: record.status, until: now + keepMs }
      this.#outcomes.set(record.id, outcome)
      this.#oldOutcomes.push(outcome)
      if (this.#oldOutcomes.size > LIMITS.memoryOutcomes) this.#dropOutcome()
    }
    return free
  }

  /** Cuts the edges of a job that is taken out; those to it stay, and wait for its id. */
  withdraw(record: JobRecord): readonly JobRecord[] {
    const free = this.unname(record)
    for (const edge of record.has.edges) this.#cut(edge)
    if (record.node !== undefined) record.node.record = undefined
    record.node = undefined
    return free
  }

  /** Drops outcomes whose time is over, at most `limit`. They leave about in order of time. */
  prune(now: number, limit: number): void {
    for (let count = 0; count < limit; count += 1) {
      const oldest = this.#oldOutcomes.peek()
      if (oldest === undefined || oldest.until > now) return
      this.#dropOutcome()
    }
  }

  #dropOutcome(): void {
    const oldest = this.#oldOutcomes.shift()
    if (oldest !== undefined && this.#outcomes.get(oldest.id) === oldest) {
      this.#outcomes.delete(oldest.id)
    }
  }

  /**
   * The loop that a group would close, or null. A loop that leads through older jobs leads through
   * one that fills a ghost: nothing older can lead back to a job that nobody has named. For those
   * both directions are walked in turn, and the shorter walk ends the search: a job with one
   * dependent at the end of a chain of a million costs two steps.
   */
  loopOf(
    jobs: readonly NewJob[],
    now: number,
    gone: ReadonlySet<string>,
  ): readonly string[] | null {
    const group = new Map(jobs.map((job) => [job.id, job]))
    const linked = jobs.filter((job) => job.deps.length > 0)
    const isNew = (id: string) => group.has(id) || gone.has(id)
    const within = (id: string) => this.#unmet(isNew, group.get(id), now)
    const ids = linked.map((job) => job.id)
    const loop = findCycle(ids, within)
    if (loop !== null) return loop
    const fillers = ids.filter((id) => this.#nodes.has(id))
    if (fillers.length === 0) return null
    const up = (id: string) => (isNew(id) ? within(id) : this.#needed(id))
    const inGroup = namersOf(jobs)
    const down = (id: string) => [...(inGroup.get(id) ?? []), ...this.#needing(id)]
    return doMeet(fillers, up, down) ? findCycle(ids, up) : null
  }

  /** What a new job waits for: all of its dependencies but those that are satisfied already. */
  #unmet(isNew: (id: string) => boolean, job: NewJob | undefined, now: number): string[] {
    const deps = job?.deps ?? []
    const waits = (dep: Dep) => isNew(dep.id) || this.#look(dep, now) !== 'satisfied'
    return deps.flatMap((dep) => (waits(dep) ? dep.id : []))
  }

  /** What a known job needs, or would need if it were revived. */
  #needed(id: string): string[] {
    const record = this.#records.get(id)
    if (record === undefined || record.status === 'success') return []
    return record.has.edges.flatMap((edge) => (edge.state === 'satisfied' ? [] : edge.dep.id))
  }

  /** The same from the other end: the known jobs that need this one. */
  #needing(id: string): string[] {
    const edges = this.#nodes.get(id)?.dependents ?? []
    const needs = (edge: Edge) => edge.state !== 'satisfied' && edge.from.status !== 'success'
    return edges.flatMap((edge) => (needs(edge) ? edge.from.id : []))
  }

  /** The jobs that name an id, in order of insertion, after a seq. */
  dependentsOf(id: string, after: number, limit: number): readonly JobRecord[] {
    const node = this.#nodes.get(id)
    if (node === undefined) return []
    const edges = inOrder(node)
    let low = 0
    for (let high = edges.length; low < high; ) {
      const middle = (low + high) >> 1
      if ((edges[middle] as Edge).from.seq <= after) low = middle + 1
      else high = middle
    }
    return edges.slice(low, low + limit).map((edge) => edge.from)
  }

  #draw(record: JobRecord, dep: Dep): Edge {
    let node = this.#nodes.get(dep.id)
    if (node === undefined) {
      const target = this.#records.get(dep.id)
      node = { id: dep.id, record: target, dependents: [], namers: 0, sorted: true }
      this.#nodes.set(dep.id, node)
      if (target !== undefined) target.node = node
    }
    const edge: Edge = { from: record, dep, node, state: 'open', index: node.dependents.length }
    node.dependents.push(edge)
    node.namers += 1
    return edge
  }

  #look(dep: Dep, now: number): EdgeState {
    const target = this.#records.get(dep.id)
    const end = target?.status ?? this.#remembered(dep.id, now)?.end
    if (end === undefined || !hasEnded(end)) return 'open'
    return satisfies(dep, end) ? 'satisfied' : 'dead'
  }

  #culprit(id: string): string {
    return this.#records.get(id)?.cause ?? id
  }

  #remembered(id: string, now: number): Outcome | undefined {
    const outcome = this.#outcomes.get(id)
    return outcome !== undefined && outcome.until > now ? outcome : undefined
  }

  #cut(edge: Edge): void {
    if (edge.index < 0) return
    const { dependents } = edge.node
    const last = dependents.pop() as Edge
    if (last !== edge) {
      dependents[edge.index] = last
      last.index = edge.index
      edge.node.sorted = false
    }
    edge.index = -1
    if (dependents.length === 0) {
      this.#nodes.delete(edge.node.id)
      if (edge.node.record !== undefined) edge.node.record.node = undefined
    }
  }
}

function inOrder(node: GraphNode): readonly Edge[] {
  if (!node.sorted) {
    node.dependents.sort((a, b) => a.from.seq - b.from.seq)
    node.dependents.forEach((edge, index) => {
      edge.index = index
    })
    node.sorted = true
  }
  return node.dependents
}
