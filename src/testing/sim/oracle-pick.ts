// Owns what a `lease` has to come to, worked out by brute force: who starts, in what order, who is
// told to give way, when time alone lets the next one start.
// May never keep a count, or look at the answer: it looks at every ready and every running job.

import type { StoredJob } from '../../core/job.ts'
import type { LeaseAsk } from '../../store/store.ts'
import type { PoolBook } from './books.ts'
import { isSuspect } from './counts.ts'
import type { Coverage } from './coverage.ts'
import type { Commit, Watch } from './oracle.ts'
import { expect } from './oracle.ts'
import type { Seen, View } from './view.ts'

const NEVER = Number.POSITIVE_INFINITY

/** The most that one call grants. */
const MOST = 1_000

export interface Picked {
  readonly grants: readonly string[]
  readonly told: readonly { readonly victim: Seen; readonly urgent: Seen }[]
  readonly nextAt: number
}

/** Somebody who has a slot, or is given one by this call. */
interface Taker {
  readonly job: StoredJob
  readonly holder: string
  readonly hold: boolean
  readonly startedAt: number
  readonly giving: boolean
  readonly seen: Seen
}

/** After what is due has been let out, before anything has started. */
export function pick(view: View, ask: LeaseAsk, now: number, coverage: Coverage): Picked {
  return new Pick(view, ask, now, coverage).all()
}

class Pick {
  readonly #view: View
  readonly #ask: LeaseAsk
  readonly #now: number
  readonly #coverage: Coverage
  readonly #takers: Taker[]
  readonly #grants: string[] = []
  readonly #told: { victim: Seen; urgent: Seen }[] = []
  #nextAt = NEVER

  constructor(view: View, ask: LeaseAsk, now: number, coverage: Coverage) {
    this.#view = view
    this.#ask = ask
    this.#now = now
    this.#coverage = coverage
    this.#takers = view.held().map((seen) => ({
      job: seen.job,
      holder: seen.job.lease?.holder ?? '',
      hold: seen.job.lease?.hold === true,
      startedAt: seen.job.startedAt,
      giving: seen.evictor !== undefined,
      seen,
    }))
  }

  all(): Picked {
    const lines = new Map<string, Seen[]>()
    for (const seen of this.#view.of('ready')) {
      const { job } = seen
      if (job.body === undefined && !this.#ask.types.includes(job.type)) continue
      const line = lines.get(job.pool) ?? []
      lines.set(job.pool, line)
      line.push(seen)
    }
    for (const name of [...lines.keys()].sort((one, other) => (one < other ? -1 : 1))) {
      const line = lines.get(name) as Seen[]
      line.sort((one, other) => (this.#view.comesBefore(one, other) ? -1 : 1))
      if (this.#left > 0) this.#drawFrom(this.#view.pool(name), line)
    }
    const nextAt = Math.min(this.#nextAt, this.#nextDue())
    return { grants: this.#grants, told: this.#told, nextAt }
  }

  get #left(): number {
    return Math.min(this.#ask.max, MOST) - this.#grants.length
  }

  #drawFrom(pool: PoolBook, line: Seen[]): void {
    if (pool.paused) return
    for (let started = 0, probing = false; this.#left > 0; started += 1) {
      const first = line.find((seen) => !this.#isHeldBack(seen))
      if (first === undefined) return
      const room = this.#hasRoom(pool, first)
      const rateAt = pool.rate?.opensAt(started, this.#now) ?? 0
      const breakerAt = probing ? NEVER : (pool.breaker?.opensAt(this.#now) ?? 0)
      const opensAt = Math.max(rateAt, breakerAt)
      if (opensAt > this.#now) {
        if (room) this.#nextAt = Math.min(this.#nextAt, opensAt)
        this.#coverage.deed(rateAt > this.#now ? 'held by the rate' : 'held by a breaker')
        return
      }
      if (!room) {
        this.#displace(pool, first)
        return
      }
      probing ||= pool.breaker !== null && pool.breaker.mode !== 'closed'
      line.splice(line.indexOf(first), 1)
      this.#grant(first)
    }
  }

  #grant(seen: Seen): void {
    const { job } = seen
    this.#grants.push(job.id)
    if (seen.displaced) this.#coverage.deed('starts after its victim')
    const start = { startedAt: this.#now, giving: false, hold: false }
    this.#takers.push({ job, holder: this.#ask.holder, seen, ...start })
  }

  #isHeldBack(seen: Seen): boolean {
    const { job } = seen
    const mine = this.#takers.filter(({ holder }) => holder === this.#ask.holder)
    if (isSuspect(seen) && mine.some((taker) => isSuspect(taker.seen))) {
      this.#coverage.deed('held as a suspect')
      return true
    }
    const cap = this.#view.types.get(job.type)?.concurrency ?? NEVER
    if (this.#takers.filter((taker) => taker.job.type === job.type).length >= cap) {
      this.#coverage.deed('held by a type cap')
      return true
    }
    const waits = this.#takers.some(({ seen }) => seen.evictor === job.id)
    if (waits) this.#coverage.deed('waits for its victim')
    return waits
  }

  #inPool(job: StoredJob): Taker[] {
    return this.#takers.filter((taker) => taker.job.pool === job.pool)
  }

  #limits(pool: PoolBook, { job }: Seen): { readonly cap: number; readonly share: number } {
    const { elastic, concurrency, share } = pool
    if (elastic === null || !this.#view.isUrgent(job, elastic.minPriority)) {
      return { cap: concurrency, share }
    }
    return { cap: pool.raised(concurrency), share: pool.raised(share) }
  }

  #hasRoom(pool: PoolBook, seen: Seen): boolean {
    const { cap, share } = this.#limits(pool, seen)
    const held = this.#inPool(seen.job)
    const mine = held.filter(({ holder }) => holder === this.#ask.holder).length
    if (mine >= share && held.length < cap) this.#coverage.deed('held by a share')
    return held.length < cap && mine < share
  }

  /** One slot more has to be enough, of pool and worker, and nobody else is on his way out. */
  #displace(pool: PoolBook, urgent: Seen): void {
    const { preempt } = pool
    if (preempt === null || urgent.displaced) return
    if (!this.#view.isUrgent(urgent.job, preempt.minPriority)) return
    const { cap, share } = this.#limits(pool, urgent)
    const held = this.#inPool(urgent.job)
    const mine = held.filter(({ holder }) => holder === this.#ask.holder)
    if (held.length < cap || held.length > cap || mine.length > share) return
    if (held.some(({ hold, giving, seen }) => !seen.stuck && (hold || giving))) return
    const choice = mine.length >= share ? mine : held
    const able = choice.filter(({ job, seen }) => {
      const gap = urgent.job.priority - job.priority
      const may = job.terms.preemptible && !seen.stuck && seen.preempted < 3
      return may && gap >= preempt.minGap
    })
    const ripe = able.filter(({ startedAt }) => this.#now - startedAt >= preempt.minRunMs)
    const [victim] = [...ripe].sort(
      (one, other) =>
        one.job.priority - other.job.priority ||
        other.startedAt - one.startedAt ||
        other.job.seq - one.job.seq,
    )
    if (victim !== undefined) this.#told.push({ victim: victim.seen, urgent })
    else {
      const times = able.map(({ startedAt }) => startedAt + preempt.minRunMs)
      this.#nextAt = Math.min(this.#nextAt, ...times)
    }
  }

  /** What only waits for its time, or for the budget. */
  #nextDue(): number {
    const { budget } = this.#view
    let nextAt = NEVER
    for (const { job, again } of this.#view.of('pending')) {
      if (job.availableAt > this.#now) nextAt = Math.min(nextAt, job.availableAt)
      else if (again && budget !== null) nextAt = Math.min(nextAt, budget.opensAt(0, this.#now))
    }
    return nextAt
  }
}

/** What the view takes over of it: who has been told to give way. */
export function tellVictims({ told }: Picked): void {
  for (const { victim, urgent } of told) {
    victim.evictor = urgent.job.id
    urgent.displaced = true
  }
}

/**
 * 18: of the retries whose time has come, the budget lets out as many as it has, the best first;
 * whoever waits for nothing but the clock is let out in any case. Before the entries are folded.
 */
export function judgePromotion(watch: Watch, commit: Commit): void {
  const { view, coverage } = watch
  const { budget } = view
  const out = new Set(commit.events.filter(({ from }) => from === 'pending').map(({ job }) => job))
  const due = [...view.of('pending')].filter(({ job }) => job.availableAt <= commit.now)
  const again = due.filter((seen) => seen.again)
  again.sort((one, other) => (view.comesBefore(one, other) ? -1 : 1))
  for (const { job } of due) {
    if (budget !== null && again.some((each) => each.job.id === job.id)) continue
    const text = () => `${job.id}: its time has come, and lease left it pending`
    expect(watch, 24, out.has(job.id), text, [job.id])
  }
  if (budget === null) return
  let count = 0
  while (count < again.length && budget.opensAt(count, commit.now) <= commit.now) count += 1
  for (const [index, { job }] of again.entries()) {
    const free = index < count
    const text = () => `${job.id}: number ${index + 1} for the budget, which has ${count}`
    expect(watch, 18, out.has(job.id) === free, text, [job.id])
    coverage.deed(free ? 'released by the budget' : 'held by the budget')
    if (!free) continue
    budget.takes.push(commit.now)
    const most = () => `${budget.inWindow(commit.now)} retries, ${JSON.stringify(budget.terms)}`
    expect(watch, 18, budget.inWindow(commit.now) <= budget.bound, most, [job.id])
  }
}
