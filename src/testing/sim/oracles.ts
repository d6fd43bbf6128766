// Owns the oracles' turn after every write to the store: read what it logged, judge it, fold it,
// compare. May never be skipped for a write, and may never write.

import type { JobEvent, Move, NewJob, StoredJob } from '../../core/job.ts'
import type { Explanation } from '../../core/types.ts'
import type { ExtendAsk, InsertAnswer, InsertGroup, LeaseAsk, Moved } from '../../store/store.ts'
import type { Shown } from './books.ts'
import { copyJob, differences, isEnd } from './copy.ts'
import type { Call } from './link.ts'
import { type Commit, expect, type Watch } from './oracle.ts'
import { judgeApply } from './oracle-apply.ts'
import { checkExplain } from './oracle-explain.ts'
import { judgeInsert } from './oracle-insert.ts'
import { judgeExtend, judgeKeys, judgeLanes, judgeLease, judgeOverdue } from './oracle-lease.ts'
import { judgePromotion, type Picked, pick, tellVictims } from './oracle-pick.ts'
import { checkBackoff, checkEvent, checkRecord, checkTerms } from './oracle-records.ts'
import { checkSettings, judgeConfigure } from './oracle-settings.ts'
import type { Seen } from './view.ts'

/** Calls that may change something. Nobody in the simulation replaces jobs. */
const WRITES: ReadonlySet<string> = new Set([
  'insert',
  'lease',
  'overdue',
  'apply',
  'extend',
  'configure',
])

/** Every so many writes, everything is compared and not only what was touched. */
const FULL_CHECK = 150
const COUNT_CHECK = 30
const EXPLAIN_CHECK = 50

/** Jobs in line that are explained then, first and last ones. */
const EXPLAINED = 2

const PAGE = 500

export class Oracles {
  readonly watch: Watch
  /** Asks the engine; set by whoever has an onlooker. */
  explain: ((id: string) => Promise<Explanation>) | undefined = undefined
  #lastSeq = 0
  #writes = 0

  constructor(watch: Watch) {
    this.watch = watch
  }

  /** To be called right after a call has been done, before anything else happens. */
  async after(call: Call, answer: unknown): Promise<void> {
    if (!WRITES.has(call.name)) return
    this.#writes += 1
    const commit = await this.#read(call, answer)
    if (call.name === 'apply') judgeApply(this.watch, commit)
    if (call.name === 'overdue') this.#judgeOverdue(commit)
    const picked = call.name === 'lease' ? this.#foldLease(commit) : undefined
    if (call.name === 'insert') this.#foldInsert(commit)
    else if (picked === undefined) this.#fold(commit, commit.events)
    if (call.name === 'extend') this.#foldStuck(commit)
    this.#foldEnds(commit)
    this.#compare(commit)
    if (picked !== undefined) judgeLease(this.watch, commit, picked)
    if (call.name === 'extend') judgeExtend(this.watch, commit)
    if (call.name === 'configure') judgeConfigure(this.watch, commit)
    if (this.#writes % COUNT_CHECK === 0) await this.#checkCounts()
    if (this.#writes % EXPLAIN_CHECK === 0) await this.#explainSome()
    if (this.#writes % FULL_CHECK === 0) await this.checkAll()
  }

  async #read(call: Call, answer: unknown): Promise<Commit> {
    const { raw, view, world } = this.watch
    const events: JobEvent[] = []
    for (let more = true; more; ) {
      const page = await raw.events(this.#lastSeq, 1_000)
      events.push(...page.events)
      this.#lastSeq = page.events.at(-1)?.seq ?? this.#lastSeq
      more = page.events.length === 1_000
    }
    const ids = [...this.#touched(call, answer, events)]
    const records = await raw.get(ids)
    const before = new Map<string, StoredJob>()
    const after = new Map<string, StoredJob | null>()
    for (const [index, id] of ids.entries()) {
      const record = records[index] ?? null
      after.set(id, record === null ? null : copyJob(record))
      const seen = view.jobs.get(id)
      if (seen !== undefined) before.set(id, seen.job)
    }
    return { call, answer, now: world.time, events, before, after }
  }

  /** Every job that the call can have changed. */
  #touched(call: Call, answer: unknown, events: readonly JobEvent[]): Set<string> {
    const { view } = this.watch
    const ids = new Set<string>()
    for (const { job, to, event } of events) {
      ids.add(job)
      if (!isEnd(to) && event !== 'job:revived') continue
      for (const namer of view.namers.get(job) ?? []) ids.add(namer.job.id)
      for (const dep of view.jobs.get(job)?.job.deps ?? []) ids.add(dep.id)
    }
    if (call.name === 'apply') {
      for (const { id, step } of call.args[0] as readonly Move[]) {
        ids.add(id)
        if (step !== 'forget') continue
        for (const dep of view.jobs.get(id)?.job.deps ?? []) ids.add(dep.id)
      }
    }
    if (call.name === 'extend') {
      const { held, holder } = call.args[0] as ExtendAsk
      for (const { id } of held) ids.add(id)
      for (const seen of [...view.of('running'), ...view.holds]) {
        if (seen.job.lease?.holder === holder) ids.add(seen.job.id)
      }
    }
    if (call.name === 'insert') {
      for (const id of inserted(call, answer)) ids.add(id)
    }
    if (call.name === 'overdue') for (const { job } of view.stale()) ids.add(job.id)
    this.#addVictims(call, ids)
    return ids
  }

  /** Jobs are ranked anew, and nothing else is changed. */
  #judgeOverdue(commit: Commit): void {
    judgeOverdue(this.watch, commit)
    const count = this.watch.view.rankAnew()
    if (count > 0) this.watch.coverage.deed('ranked anew')
  }

  /** What is due is let out first; then it is certain who has to start. */
  #foldLease(commit: Commit): Picked {
    const { view, coverage } = this.watch
    judgePromotion(this.watch, commit)
    const starts = commit.events.findIndex(({ event }) => event === 'job:running')
    const end = starts < 0 ? commit.events.length : starts
    this.#fold(commit, commit.events.slice(0, end))
    const picked = pick(view, commit.call.args[0] as LeaseAsk, commit.now, coverage)
    this.#fold(commit, commit.events.slice(end))
    tellVictims(picked)
    return picked
  }

  /** Group by group. */
  #foldInsert(commit: Commit): void {
    let next = 0
    judgeInsert(this.watch, commit, (added) => {
      const from = next
      for (let left = added; left > 0 && next < commit.events.length; next += 1) {
        if (commit.events[next]?.from === null) left -= 1
      }
      this.#fold(commit, commit.events.slice(from, next))
    })
    this.#fold(commit, commit.events.slice(next))
  }

  /** What ended attempts have shown, for the breakers of their pools. */
  #foldEnds(commit: Commit): void {
    const { view, coverage } = this.watch
    const verdicts = new Map<string, Shown>()
    if (commit.call.name === 'apply') {
      const { answer } = commit.answer as { readonly answer: readonly Moved[] }
      for (const [index, move] of (commit.call.args[0] as readonly Move[]).entries()) {
        if (answer[index]?.status === 'moved') verdicts.set(move.id, move.verdict)
      }
    }
    for (const { job, pool, from } of commit.events) {
      const lease = commit.before.get(job)?.lease
      if (from !== 'running' || lease === undefined) continue
      const shown = verdicts.get(job) ?? 'neutral'
      const turn = view.pool(pool).breaker?.show(lease.number, shown, commit.now)
      if (turn !== undefined) coverage.deed(turn === 'opens' ? 'a breaker opens' : 'a probe closes')
    }
  }

  /** Who is told to give way, and who need not any more. */
  #addVictims({ name }: Call, ids: Set<string>): void {
    const { view } = this.watch
    for (const { job, evictor } of view.held()) {
      const mayBeTold = name === 'lease' && view.pool(job.pool).preempt !== null
      if (mayBeTold || (evictor !== undefined && ids.has(evictor))) ids.add(job.id)
    }
  }

  #fold(commit: Commit, events: readonly JobEvent[]): void {
    const { view, world } = this.watch
    const added = commit.events.filter(({ from }) => from === null).map(({ job }) => job)
    const decided = entriesOf(commit)
    for (const [index, event] of events.entries()) {
      if (index === decided) view.tell(commit.now)
      const seen = view.jobs.get(event.job)
      checkEvent(this.watch, seen, event)
      const record = commit.after.get(event.job)
      if (seen === undefined) {
        if (record === undefined || record === null) continue
        const fresh = companions(commit.call, added, event.job)
        view.add(record, event, commit.now, fresh).log.push(event)
      } else {
        const lease = commit.before.get(event.job)?.lease?.number ?? 0
        const ended = { begun: this.watch.hasBegun(lease) }
        view.fold(seen, event, commit.now, record ?? seen.job, ended)
      }
      world.trace.add(`${event.at} ${event.seq} ${event.job} ${event.event} ${event.to}`)
      this.watch.coverage.code(event.code)
    }
    if (commit.call.name !== 'apply') return
    view.tell(commit.now)
    this.#forget(commit)
  }

  /** A slot that will not be free for long is nobody's to wait for; no entry says so. */
  #foldStuck(commit: Commit): void {
    const { holder, held } = commit.call.args[0] as ExtendAsk
    for (const { id, lease, stuck } of held) {
      const seen = this.watch.view.jobs.get(id)
      const mine = commit.before.get(id)?.lease
      if (stuck !== true || seen === undefined || mine?.holder !== holder) continue
      if (!mine.hold && mine.number !== lease) continue
      seen.stuck = true
      seen.evictor = undefined
    }
  }

  /** What is forgotten leaves no entry in the log. */
  #forget(commit: Commit): void {
    const { answer } = commit.answer as { readonly answer: readonly Moved[] }
    for (const [index, move] of (commit.call.args[0] as readonly Move[]).entries()) {
      const seen = this.watch.view.jobs.get(move.id)
      if (move.step !== 'forget' || answer[index]?.status !== 'moved' || seen === undefined)
        continue
      this.watch.view.forget(seen, move.keepMs, commit.now)
    }
  }

  #compare(commit: Commit): void {
    const { view } = this.watch
    const lanes = new Set<string>()
    const given = new Set<number>()
    const own = new Map<string, JobEvent[]>()
    for (const event of commit.events) {
      const list = own.get(event.job)
      if (list === undefined) own.set(event.job, [event])
      else list.push(event)
    }
    for (const [id, record] of commit.after) {
      const seen = view.jobs.get(id)
      const there = (record !== null) === (seen !== undefined)
      expect(this.watch, 1, there, () => `${id}: is ${record === null ? 'gone' : 'there'}`, [id])
      if (record === null || seen === undefined) continue
      seen.job = record
      if (record.lease?.hold === true) view.holds.add(seen)
      else if (view.holds.delete(seen)) {
        seen.admitted = false
        seen.evictor = undefined
        seen.stuck = false
      }
      if (record.exclusive !== undefined) lanes.add(record.exclusive)
      this.#checkHold(seen, commit, given)
      checkRecord(this.watch, seen, commit, own.get(id) ?? [])
      judgeKeys(this.watch, seen)
      for (const event of own.get(id) ?? []) {
        const lease = commit.before.get(id)?.lease?.number ?? 0
        checkTerms(this.watch, seen, event, lease)
        if (BACKS_OFF.has(event.event)) checkBackoff(this.watch, seen, event, lease)
      }
    }
    judgeLanes(this.watch, lanes)
    view.lastLease = Math.max(view.lastLease, ...given)
  }

  /**
   * A hold has a number of its own, the slot of the lease that it was, and its deadline. `given`:
   * the numbers of holds that this call has made, in whatever order they are looked at.
   */
  #checkHold(seen: Seen, commit: Commit, given: Set<number>): void {
    const { job } = seen
    const before = commit.before.get(job.id)
    if (job.lease?.hold !== true || before?.lease?.hold !== false) return
    const { number } = job.lease
    const fresh = number > this.watch.view.lastLease && !given.has(number)
    given.add(number)
    expect(this.watch, 7, fresh, () => `${job.id}: its hold has an old number`, [job.id])
    const same = job.deadline === before.deadline && job.lease.holder === before.lease.holder
    expect(this.watch, 20, same, () => `${job.id}: its hold is not what its lease was`, [job.id])
  }

  /** 2, 3: what the store counts is what there is. */
  async #checkCounts(): Promise<void> {
    const { raw, view } = this.watch
    const counted = await raw.count()
    const tally = new Map<string, number>()
    for (const { job, status } of view.jobs.values()) {
      for (const cell of [`${job.type} ${status}`, `pool ${job.pool} ${status}`]) {
        tally.set(cell, (tally.get(cell) ?? 0) + 1)
      }
    }
    const check = (cell: string, count: number) => {
      const text = () => `counted ${count} of ${cell}, there are ${tally.get(cell) ?? 0}`
      expect(this.watch, 3, count === (tally.get(cell) ?? 0), text)
    }
    for (const [type, states] of Object.entries(counted.types)) {
      for (const [status, count] of Object.entries(states)) check(`${type} ${status}`, count)
    }
    for (const [name, pool] of Object.entries(counted.pools)) {
      const { states, running } = pool
      for (const [status, count] of Object.entries(states)) check(`pool ${name} ${status}`, count)
      const used = view.used(name)
      expect(this.watch, 20, running === used, () => `${name}: ${running} slots, not ${used}`)
    }
    const { forgotten } = counted
    const { unranked, budgeted } = counted
    const stale = view.stale().length
    expect(this.watch, 27, unranked === stale, () => `${unranked} to rank anew, not ${stale}`)
    const due = view.budget === null ? [] : [...view.of('pending')]
    const waiting = due.filter((seen) => seen.again && seen.job.availableAt <= counted.at).length
    expect(
      this.watch,
      18,
      budgeted === waiting,
      () => `${budgeted} wait for the budget, ${waiting}`,
    )
    const all = view.added === view.jobs.size + view.forgotten && forgotten === view.forgotten
    expect(this.watch, 3, all, () => `${view.added} added, ${view.jobs.size} and ${forgotten}`)
  }

  /** 41: while nothing moves, those who wait are told why, as they are at the end. */
  async #explainSome(): Promise<void> {
    const { view } = this.watch
    const { explain } = this
    if (explain === undefined) return
    const gone = [...view.of('ready')].filter(({ displaced }) => displaced).slice(0, EXPLAINED)
    for (const status of ['pending', 'waiting', 'ready'] as const) {
      const line = [...view.of(status)]
      const some = new Set([...line.slice(0, EXPLAINED), ...line.slice(-EXPLAINED), ...gone])
      for (const seen of some) await checkExplain(this.watch, seen, explain)
    }
  }

  /** 32, 34, 10: what the store finds wrong with itself is nothing. */
  async #inspect(): Promise<void> {
    const { raw, view, world } = this.watch
    const { cycles, orphanedKeys, damage, expired } = await raw.inspect()
    expect(this.watch, 32, cycles.length === 0, () => `loops: ${JSON.stringify(cycles)}`)
    expect(this.watch, 34, orphanedKeys.length === 0, () => JSON.stringify(orphanedKeys))
    expect(this.watch, 2, damage.length === 0, () => `damage: ${damage.join('; ')}`)
    const late = view.held().filter(({ job }) => job.deadline <= world.time).length
    const text = () => `${expired.length} leases are over, not ${late}`
    expect(this.watch, 10, expired.length === Math.min(late, PAGE), text)
  }

  /** 2, 6: nothing has changed that no call has touched. */
  async checkAll(): Promise<void> {
    const { raw, view } = this.watch
    let count = 0
    for (let after: number | null = 0; after !== null; ) {
      const page: Awaited<ReturnType<typeof raw.list>> = await raw.list({ after, limit: PAGE })
      for (const job of page.jobs) {
        const seen = view.jobs.get(job.id)
        const changed = seen === undefined ? ['being there'] : differences(seen.job, copyJob(job))
        const text = () => `${job.id}: ${changed.join(', ')} changed, and nothing touched it`
        expect(this.watch, 6, changed.length === 0, text, [job.id])
        count += 1
      }
      after = page.after
    }
    expect(this.watch, 2, count === view.jobs.size, () => `${count} listed of ${view.jobs.size}`)
    await checkSettings(this.watch)
    await this.#inspect()
  }
}

/** What is added in the same group as a job. */
function companions(call: Call, added: readonly string[], id: string): ReadonlySet<string> {
  const groups = call.name === 'insert' ? (call.args[0] as readonly InsertGroup[]) : []
  const group = groups.find(({ jobs }) => jobs.some((job) => job.id === id))
  const ids = new Set(group?.jobs.map((job) => job.id))
  return new Set(added.filter((each) => ids.has(each)))
}

/** How many entries of the log are decisions themselves; what they bring about follows. */
function entriesOf({ call, answer }: Commit): number {
  if (call.name !== 'apply') return 0
  const { answer: moved } = answer as { readonly answer: readonly Moved[] }
  const moves = call.args[0] as readonly Move[]
  const isLogged = ({ step }: Move) => step !== 'forget' && step !== 'settle'
  return moves.filter((move, at) => moved[at]?.status === 'moved' && isLogged(move)).length
}

const BACKS_OFF: ReadonlySet<string> = new Set(['job:retry', 'job:timeout', 'job:lost'])

function inserted(call: Call, answer: unknown): string[] {
  const groups = call.args[0] as readonly InsertGroup[]
  const answers = (answer as { readonly answer: readonly InsertAnswer[] }).answer
  const asked = groups.flatMap((group) => group.jobs.map((job: NewJob) => job.id))
  const given = answers.flatMap((each) =>
    each.status === 'done' ? each.jobs.map(({ job }) => job.id) : [],
  )
  // An id that was refused is looked at, too: it must not be there.
  return [...asked, ...given]
}
