// Owns the port: what the engine asks of a store, and what a store promises.
// May never be implemented in part: no method is optional, no promise is.

import type { RateTerms } from '../core/gcra.ts'
import type { JobEvent, Lease, Move, NewJob, StoredJob } from '../core/job.ts'
import type { Ageing } from '../core/rank.ts'
import type { PoolTermsChange, Schedule, StoredSettings, TypeChange } from '../core/settings.ts'
import type {
  Counted,
  EventPage,
  Inspection,
  ListPage,
  ListQuery,
  Standing,
  WorkerInfo,
} from './reads.ts'

export type * from './reads.ts'

/**
 * Where jobs live. A store never decides anything: it offers a few atomic, batched writes and
 * obeys a few rules of a line or two. The promises, in prose:
 *
 * 1. Each write is one atomic step, and each call touches an id once. A rejected promise means
 *    *unknown*: it may have happened. Answers come in the order asked.
 * 2. Only the store's clock counts. Durations go in; the store makes instants of them.
 * 3. `insert`: each group is all or nothing. An id that is present, with equal type and payload,
 *    and a minted id whose key is taken, answer `exists` and refuse nothing; the rest of the
 *    group is inserted. A job is placed: `waiting` while dependencies are missing or its lane is
 *    taken, `pending` until its time, else `ready`. A pool with a `maxQueue` takes no group that
 *    would leave it with more jobs pending or ready. Judged is what would stand after the whole
 *    group: of its jobs that would be pending or ready there, in order, as many have room as
 *    places are left; one that fills a ghost, which a job that has not ended counts on, needs
 *    none, but takes one. Jobs that wait do not count, nor a holder that yields its lane to the
 *    group. The refusal names each pool without room, and leaves all else as it was. Whatever
 *    becomes pending or ready in another way is never refused. Groups are judged one by one; one
 *    that comes `behind` others in some pools finds no place free in those that let callers wait.
 * 4. A dependency that nobody has submitted leaves a ghost, which is open. Its insertion fills
 *    it. A group that would close a loop is refused, across groups and processes too.
 * 5. `lease`: promotes what is due, then grants ready jobs, pool by pool in order of name, the
 *    smallest (rank, seq) first among those that could be granted. Slots in use, of the pool, of
 *    the worker in it (`perWorker`) and of the type over all pools, count leases and holds, and
 *    are counted from these, never kept in a counter that could drift. A `perWorker` that is no
 *    less than the pool's cap stops nobody. A type that the worker does not serve, or that is at
 *    its cap, hides nobody. Nothing starts in a paused pool, in one whose breaker is open, or
 *    beyond its rate, which a grant is charged to and nothing is given back to; a change of its
 *    terms is `carried`.
 * 6. `apply`: a move happens if what it expects is true: its lease number, or its seq and revision
 *    (and, for `overdue`, a deadline that is still past), and if the table of steps allows it.
 *    Otherwise it changes nothing and answers `stale` with the job as it is. Then the dependents
 *    of what ended are told, in order of seq.
 * 7. A dependent's edge is open, satisfied or dead. A satisfying end takes one from `needs` and
 *    from `open`; another end takes one from `open`. No needs left releases; `open < needs` dooms:
 *    the job keeps waiting with a deadline of now and the culprit as its `cause`.
 * 8. Reviving looks at the dependencies again, and opens the edges of those that wait for it.
 * 9. A key names its owner and is compared on release. A failed or cancelled owner frees it at
 *    once, a successful one when its window is over.
 * 10. A lane has one holder, from the moment it would be ready until it has ended for good. Until
 *    its first start the holder yields to a better-ranked arrival. Waiters keep the rank of the
 *    moment when they asked; the best of them is next.
 * 11. Cancelling a running job turns its lease into a hold under a new number: same slot, same
 *    lane, same deadline. What the old number writes is stale.
 * 12. A job is forgotten only if no live, failed or cancelled job that is kept names it. The job
 *    whose id is its `flow` counts as naming it; refused for that one alone, it is overdue again
 *    LIMITS.flowMs later. Its id and outcome stay for a while; its edges and results do not.
 * 13. The log has one record per transition, in order. Folding it gives the stored states.
 * 14. A job's weight is `weightOf(priority, ageing)` with the ageing that is set; its rank is the
 *    instant at which it asked minus that. When ageing changes, whatever has not ended and was
 *    ranked by the old one is ranked anew (`rank + old weight - new weight`), at most LIMITS.chunk
 *    with each `overdue`; `count` says how many are left. That is no decision about a job: its
 *    revision stays, and a lane stays with its holder. Jobs are weighed as they are added and
 *    revived, and whenever they ask for their place.
 * 15. With a budget, a job that runs again after a failure or a timeout (steps `retry` and
 *    `timeout`) becomes ready only when `lease` takes one of the budget for it: those whose time
 *    has come, best (rank, seq) first, where the rank is that of the instant they were due. Until
 *    then it is `pending`, also without a delay. Nothing else is charged to the budget. Of other
 *    pending jobs `lease` lets out those whose time has come before that, by (instant, seq), at
 *    most LIMITS.chunk of each; without a budget retries are among these. New terms begin with
 *    the state that `carried` in core/gcra.ts makes of the old one. Nobody looks at all retries at
 *    once: each `lease` puts those whose time has come in line, at most LIMITS.chunk, by (instant,
 *    seq), and while some are not, the budget lets nobody out, as they may be better. Without a
 *    budget each takes the best out of the line, at most LIMITS.chunk, before it lets anybody out.
 * 16. `elastic`: once a pool, or the worker's share of it, is full, `lease` goes on in the same
 *    order as long as the next job is urgent (of at least `minPriority`, and above the ageing's
 *    ceiling) and no more than `raiseOf(cap)` are in use beyond the cap, nor beyond the share
 *    than `raiseOf(share)`. Nobody else starts above the cap.
 * 17. `preempt`: if after that the job that would be next, urgent by the `minPriority` given here,
 *    is stopped by the pool's cap alone, if one slot more would do, and if none is about to be
 *    free (a hold, or a job told to give way), `lease` tells one running job of the pool to give
 *    way: preemptible, displaced fewer than three times, running for `minRunMs` at least, of a
 *    priority lower by at least `minGap`; the lowest priority, then the latest start, then the
 *    highest seq. Where the asking worker's share is used up too, one of its own. That job's
 *    `evictor` is the urgent one; its holder is hinted at, and `extend` answers `evicted`. While
 *    the victim holds its lease, or the hold that became of it, the urgent job is passed over and
 *    hides nobody. From becoming ready until it is ready no more it displaces at most one; if it
 *    is ready no more, the victim need not give way. A lease or hold that `extend` calls stuck
 *    stays so to its end, the hold of it too: it is no slot about to be free, and nobody's victim;
 *    the urgent job that waited for it takes any slot.
 * 18. A breaker that is open lets nothing start in its pool until its time is over; then one job
 *    starts, the probe, and no other until that one has shown something. `apply` records the
 *    verdict of a move that ends an attempt, once, with the pass it was leased with; an attempt
 *    that ends otherwise (lost, unheard, cancelled) shows nothing, and the next job is the probe.
 *    Other terms begin anew, closed, and no earlier pass counts for them.
 * 19. Inserting a group with a `tick` happens only if the schedule still stands at that instant,
 *    and says what it said when it was handed out; then it is moved on in the same step. Else the
 *    group is `stale`. One that is refused leaves the schedule where it is; one without jobs just
 *    moves it on.
 * 20. A suspect is a job with two losses or more since its last revival (`lost - lostBefore`). A
 *    holder never has leases and holds of more than one suspect, over all pools: while it has
 *    one, `lease` passes over the others, which hide nobody, and are for other workers, or wait.
 * 21. `replace` is `stale` unless each job in `gone` stands at that seq and revision, has no lease
 *    or hold, and has not succeeded. The group is judged as if these were out; it needs no room.
 *    Then they go, in the order given, as if never submitted: no outcome, no log entry; keys are
 *    free, lanes go on. Edges to them stay, those that had died open again where the job waits
 *    and is not doomed; the group fills the ghosts. They count as forgotten.
 * 22. A note sent with `extend` is written to the job, and stays there until a later one comes.
 */
export interface Store {
  readonly traits: Traits

  /** Add jobs. Rejects nothing for being a duplicate: answers say what became of each. */
  insert(groups: readonly InsertGroup[], tell: boolean): Promise<Told<readonly InsertAnswer[]>>
  /** Give jobs another definition, take some out, add some: one atomic step. */
  replace(group: ReplaceGroup, tell: boolean): Promise<Told<InsertAnswer>>
  /** Take up to `max` ready jobs. O(pools and types with ready jobs + granted * log n). */
  lease(ask: LeaseAsk, tell: boolean): Promise<Told<LeaseAnswer>>
  /** Jobs at whose deadline somebody has to decide; also continues what was left unfinished. */
  overdue(ask: OverdueAsk, tell: boolean): Promise<Told<OverdueAnswer>>
  /** Write decisions, each on its own condition. O(moves * log n + dependents told). */
  apply(moves: readonly Move[], tell: boolean): Promise<Told<readonly Moved[]>>
  /** Prolong what a worker holds. `held` is the whole list: see Extend. */
  extend(ask: ExtendAsk, tell: boolean): Promise<Told<ExtendAnswer>>
  /** Change what is set for all workers: all that is given in one step, in order. */
  configure(...changes: readonly Change[]): Promise<void>
  /** What is set; schedules in order of name. */
  settings(): Promise<StoredSettings>
  /** Say who is alive and which types it serves, for `ttlMs`; 0 says goodbye. */
  beat(worker: WorkerBeat): Promise<void>

  get(ids: readonly string[]): Promise<readonly (StoredJob | null)[]>
  /** One page, in order of seq. Every filter is indexed. */
  list(query: ListQuery): Promise<ListPage>
  /** Counts, all of them kept as the jobs move. O(types + pools + held). */
  count(): Promise<Counted>
  /** The jobs that name this one, in order of seq, a page at a time. */
  dependents(id: string, after: number, limit: number): Promise<readonly StoredJob[]>
  /** What `explain` has to know beside the job itself. */
  standing(id: string): Promise<Standing>
  /** Who is alive, in order of holder. */
  workers(): Promise<readonly WorkerInfo[]>
  /** What `doctor` cannot see from outside; lists of at most LIMITS.page entries. O(jobs). */
  inspect(): Promise<Inspection>
  /** The log after an entry. `oldest` is the first entry that retention has left. */
  events(after: number, limit: number): Promise<EventPage>

  /** Be told that something may have changed. Hints may be lost, late or doubled. */
  watch(onHint: (hint: Hint) => void): Promise<() => Promise<void>>
  /** The store's clock, epoch milliseconds. */
  time(): Promise<number>
  /** Idempotent. */
  open(): Promise<void>
  close(): Promise<void>
}

/** What kind of store it is. */
export interface Traits {
  readonly name: string
  /** It keeps references: jobs may carry their own `execute`. */
  readonly keepsLive: boolean
  /** False: hints never get lost, so nobody needs to poll. */
  readonly lossyHints: boolean
}

/** An answer, and the log records that the call wrote, if it was asked to tell. */
export interface Told<T> {
  readonly answer: T
  readonly events: readonly JobEvent[]
}

export interface InsertGroup {
  readonly jobs: readonly NewJob[]
  /** The running job on whose behalf this is; if its lease is gone, nothing is stored. */
  readonly fence?: { readonly id: string; readonly lease: number }
  /** The instant of a schedule that this is for; if that has passed, nothing is stored. */
  readonly tick?: Tick
  /**
   * Pools in which others of its process wait for room. It is let into these only if it needs no
   * place that is free there; if that alone keeps it out, no hint is due to it, but to the others.
   */
  readonly behind?: readonly string[]
  readonly unknownDeps: 'wait' | 'reject'
}

/** An instant of a schedule has come: of the row as it was handed out, at `at`; then `nextAt`. */
export interface Tick {
  readonly of: Schedule
  readonly at: number
  readonly nextAt: number
}

export interface ReplaceGroup extends Omit<InsertGroup, 'tick' | 'behind'> {
  readonly gone: readonly { readonly id: string; readonly seq: number; readonly rev: number }[]
}

/** `refused`: nothing of the group was stored, for the reasons given, each with an index. */
export type InsertAnswer =
  | { readonly status: 'done'; readonly jobs: readonly Inserted[] }
  | { readonly status: 'refused'; readonly refusals: readonly Refusal[] }
  | { readonly status: 'stale' }

export interface Inserted {
  readonly added: boolean
  /** The job that was inserted, or the one that was there already. */
  readonly job: StoredJob
}

export type Refusal =
  | { readonly index: number; readonly reason: 'duplicate'; readonly id: string }
  | { readonly index: number; readonly reason: 'key'; readonly key: string; readonly owner: string }
  | { readonly index: number; readonly reason: 'unknown'; readonly dep: string }
  | { readonly index: number; readonly reason: 'cycle'; readonly path: readonly string[] }
  /**
   * `index`: the first job for which this pool has no room; there is one refusal per such pool,
   * in order of index. `never`: an empty pool would not have it either.
   */
  | {
      readonly index: number
      readonly reason: 'full'
      readonly pool: string
      readonly maxQueue: number
      readonly overflow: 'reject' | 'wait'
      readonly never: boolean
    }

export interface LeaseAsk {
  readonly holder: string
  readonly leaseMs: number
  readonly max: number
  /** The types that this worker has handlers for; jobs that carry a body need none. */
  readonly types: readonly string[]
}

export interface LeaseAnswer {
  readonly jobs: readonly StoredJob[]
  /**
   * The earliest instant at which time alone lets a job start: one falls due, the budget has one
   * more, a rate allows another, a breaker lets a probe through. Infinity if there is none.
   */
  readonly nextAt: number
}

export interface OverdueAsk {
  readonly limit: number
  /** Log entries older than this are dropped, a bounded number per call. */
  readonly keepLogMs: number
}

export interface OverdueAnswer {
  readonly jobs: readonly StoredJob[]
  /** Schedules whose instant has come, by (instant, name), up to `limit`, until they move on. */
  readonly schedules: readonly Schedule[]
  /**
   * The next deadline of a job that waits, or instant of a schedule that this does not hand out;
   * Infinity for none. As long as nobody has decided about a job that is overdue, it has passed.
   */
  readonly nextAt: number
  /** The next end of a lease or a retention, of the log too: nobody stays awake for it alone. */
  readonly nextQuietAt: number
  /** True if work is left that only needs another call: a fan-out, jobs to be ranked anew. */
  readonly more: boolean
}

export type Moved =
  | { readonly status: 'moved'; readonly job: StoredJob }
  /** Not as expected; `job` is null if it has been forgotten. */
  | { readonly status: 'stale'; readonly job: StoredJob | null }
  /** A rule forbids it: the key has another owner, or the dependencies are beyond hope. */
  | { readonly status: 'refused'; readonly job: StoredJob; readonly why: RefusedMove }

export type RefusedMove =
  | { readonly reason: 'key'; readonly owner: string }
  | { readonly reason: 'doomed'; readonly dep: string }
  | { readonly reason: 'named' }

/**
 * `held` is everything the worker holds, also what it has settled but not been answered about.
 * Leases of this holder that are not listed, up to number `upTo`, were granted by an answer that
 * never arrived: they go back to their place, uncharged. A worker never lets `lease` and `extend`
 * overlap, and passes as `upTo` the `mark` of an earlier answer. `stuck`: the body was told to
 * stop, its grace is over, and it keeps its slot as there is no room for one zombie more.
 * `note`: what the next holder should know of this attempt, if it comes to that.
 */
export interface ExtendAsk {
  readonly holder: string
  readonly held: readonly {
    readonly id: string
    readonly lease: number
    readonly stuck?: boolean
    readonly note?: string
  }[]
  readonly leaseMs: number
  readonly upTo: number
}

export interface ExtendAnswer {
  readonly leases: readonly Extended[]
  /** The highest lease number given out so far. */
  readonly mark: number
}

/**
 * `cancelled`: the lease has become a hold, under the number given. `evicted`: it holds, and the
 * job has been told to give way to the job `by`.
 */
export type Extended =
  | { readonly status: 'held' }
  | { readonly status: 'evicted'; readonly by: string }
  | { readonly status: 'cancelled'; readonly lease: Lease }
  | { readonly status: 'lost' }

/** What an operator sets wins over what processes bring along, until it is taken back. */
export interface PoolChange {
  readonly pool: string
  readonly by: 'start' | 'operator'
  readonly terms: PoolTermsChange
}

export type Change =
  | PoolChange
  /** What is not said of a type stays as it is stored, or else as it is without a word. */
  | { readonly type: string; readonly setting: TypeChange }
  | { readonly ageing: Ageing | null }
  | { readonly budget: RateTerms | null }
  /** `row` null takes it away. A row with the stored one's cron, zone and job keeps its time. */
  | { readonly schedule: string; readonly row: Schedule | null }

export interface WorkerBeat {
  readonly holder: string
  readonly name: string
  readonly types: readonly string[]
  /** It takes nothing now: too many of its bodies are zombies. */
  readonly full: boolean
  /** How many of its bodies are zombies. */
  readonly zombies: number
  /** What this process was given explicitly, as JSON: `doctor` compares. */
  readonly settings: string
  readonly ttlMs: number
}

export interface Hint {
  /** Jobs may have become ready. */
  readonly ready: boolean
  /** Deadlines may have come nearer, or a fan-out is unfinished. */
  readonly overdue: boolean
  /** Ids of jobs that ended or were revived or forgotten. */
  readonly ended: readonly string[]
  /** Holders one of whose leases has become a hold, or one of whose jobs has to give way. */
  readonly holders: readonly string[]
  /** What is set has changed. */
  readonly settings: boolean
  /**
   * Pools in which somebody who may wait was refused for room, and would be let in now. Said once
   * for all who were refused until then: who tries again and is refused is told again.
   */
  readonly room: readonly string[]
  /**
   * Holders of whom a lease is under way that the store serves after what is hinted at: they need
   * not ask for another. Absent: nobody.
   */
  readonly served?: readonly string[]
}
