// Owns the checks on leases: who gets one, in what order, how many at once, how they are kept
// and how they are taken away. May never ask the store why.

import type { JobEvent, StoredJob } from '../../core/job.ts'
import type {
  ExtendAnswer,
  ExtendAsk,
  LeaseAnswer,
  LeaseAsk,
  OverdueAnswer,
} from '../../store/store.ts'
import type { PoolBook } from './books.ts'
import { isEnd } from './copy.ts'
import { isSuspect } from './counts.ts'
import { type Commit, expect, type Watch } from './oracle.ts'
import type { Picked } from './oracle-pick.ts'
import type { Seen } from './view.ts'

/** After the entries of the call are folded. `due`: what should have come of it. */
export function judgeLease(watch: Watch, commit: Commit, due: Picked): void {
  const ask = commit.call.args[0] as LeaseAsk
  const { answer } = commit.answer as { readonly answer: LeaseAnswer }
  const granted = new Set(answer.jobs.map((job) => job.id))
  const ran = commit.events.filter(({ event }) => event === 'job:running').map(({ job }) => job)
  const told = ran.length === granted.size && ran.every((id) => granted.has(id))
  expect(watch, 6, told, () => `lease answered ${[...granted]} and logged ${ran}`)
  expect(watch, 19, granted.size <= ask.max, () => `asked for ${ask.max}, got ${granted.size}`)
  for (const job of answer.jobs) judgeGrant(watch, commit, ask, job)
  judgeCaps(watch, answer)
  judgeAge(watch, commit, ask, answer)
  judgePicks(watch, commit, due, [...ran])
  for (const seen of watch.view.of('pending')) {
    if (seen.again && watch.view.budget !== null) continue
    const text = () => `${seen.job.id}: due at ${seen.job.availableAt} and left pending`
    expect(watch, 24, seen.job.availableAt > commit.now, text, [seen.job.id])
  }
}

function judgeGrant(watch: Watch, { now }: Commit, ask: LeaseAsk, job: StoredJob): void {
  const { view } = watch
  const own = [job.id]
  const number = job.lease?.number ?? 0
  expect(watch, 7, number > view.lastLease, () => `${job.id}: lease ${number} is not new`, own)
  view.lastLease = Math.max(view.lastLease, number)
  const right = job.lease?.holder === ask.holder && job.deadline === now + ask.leaseMs
  expect(watch, 9, right, () => `${job.id}: lease of ${job.lease?.holder} to ${job.deadline}`, own)
  const served = job.body !== undefined || ask.types.includes(job.type)
  expect(watch, 26, served, () => `${job.id}: granted to a worker that does not serve it`, own)
  const pool = view.pool(job.pool)
  expect(watch, 22, !pool.paused, () => `${job.id}: granted in a paused pool`, own)
  const seen = view.jobs.get(job.id) as Seen
  const { needs } = view.countsOf(seen)
  expect(watch, 28, needs === 0, () => `${job.id}: started ${needs} short of its quorum`, own)
  const victim = view.victimOf(job.id)?.job.id
  const text = () => `${job.id}: started while its victim ${victim} has its slot`
  expect(watch, 23, victim === undefined, text, own)
  judgeSuspect(watch, ask, seen)
  chargeRate(watch, pool, job, now)
}

/** 19: a worker has one job at a time that may be what kills workers, cancelled ones included. */
function judgeSuspect(watch: Watch, ask: LeaseAsk, seen: Seen): void {
  if (!isSuspect(seen)) return
  watch.coverage.deed('a suspect starts')
  const mine = watch.view.held().filter(({ job }) => job.lease?.holder === ask.holder)
  const ids = mine.filter(isSuspect).map(({ job }) => job.id)
  expect(watch, 19, ids.length <= 1, () => `${ask.holder} has the suspects ${ids}`, ids)
}

/** 21: the start counts, and its window has no more than it may. */
function chargeRate(watch: Watch, pool: PoolBook, job: StoredJob, now: number): void {
  const { rate, breaker } = pool
  if (rate !== null) {
    const at = rate.opensAt(0, now)
    const early = () => `${job.id}: started ${at - now} ms before the rate of ${job.pool} allows it`
    expect(watch, 21, at <= now, early, [job.id])
    rate.takes.push(now)
    const text = () => `${job.id}: ${rate.inWindow(now)} starts, ${JSON.stringify(rate.terms)}`
    expect(watch, 21, rate.inWindow(now) <= rate.bound, text, [job.id])
  }
  if (breaker === null) return
  const at = breaker.opensAt(now)
  const text = () => `${job.id}: started while the breaker of ${job.pool} is ${breaker.mode}`
  expect(watch, 26, at <= now, text, [job.id])
  if (breaker.started(job.lease?.number ?? 0)) watch.coverage.deed('a probe starts')
}

/** 19: leases and holds, of the pool, of each worker in it, of the type over all pools. */
function judgeCaps(watch: Watch, answer: LeaseAnswer): void {
  const { view } = watch
  for (const name of new Set(answer.jobs.map(({ pool }) => pool))) {
    const pool = view.pool(name)
    const own = answer.jobs.filter((job) => job.pool === name)
    const urgent = own.filter((job) => isEntitled(watch, pool, job))
    const used = view.used(name)
    const ids = own.map(({ id }) => id)
    const cap = urgent.length > 0 ? pool.raised(pool.concurrency) : pool.concurrency
    expect(watch, 19, used <= cap, () => `${used} of ${name} run, of ${cap}, with ${ids}`, ids)
    const ordinary = own.length - urgent.length
    const text = () => `${used} of ${name} run, and ${ordinary} of them started above the cap`
    // Whoever is not entitled started while there was room below the cap.
    const room = ordinary === 0 || used - urgent.length <= pool.concurrency
    expect(watch, 19, room, text, ids)
    if (used > pool.concurrency) watch.coverage.deed('starts above the cap')
    const holder = own[0]?.lease?.holder ?? ''
    const mine = view.used(name, holder)
    const share = urgent.length > 0 ? pool.raised(pool.share) : pool.share
    expect(watch, 19, mine <= share, () => `${holder} runs ${mine} of ${name}, of ${share}`, ids)
  }
  for (const type of new Set(answer.jobs.map((job) => job.type))) {
    const cap = view.types.get(type)?.concurrency ?? Number.POSITIVE_INFINITY
    const used = view.usedOf(type)
    expect(watch, 19, used <= cap, () => `${used} of type ${type} run, of ${cap}`)
  }
}

function isEntitled(watch: Watch, pool: PoolBook, job: StoredJob): boolean {
  return pool.elastic !== null && watch.view.isUrgent(job, pool.elastic.minPriority)
}

/**
 * 27: among jobs that age, nobody is taken before one whose priority and wait come to more points.
 * By the formula alone, for jobs that were ranked by the ageing that is set.
 */
function judgeAge(watch: Watch, commit: Commit, ask: LeaseAsk, answer: LeaseAnswer): void {
  const { view } = watch
  const { ageing } = view
  if (ageing === null) return
  const points = (seen: Seen) => {
    const { priority } = seen.job
    return priority * ageing.everyMs + (commit.now - seen.asked)
  }
  for (const { id, pool, priority } of answer.jobs) {
    const taken = view.jobs.get(id) as Seen
    for (const left of view.of('ready')) {
      if (left.job.pool !== pool || !isServed(left.job, ask)) continue
      if (isHeldBack(watch, left, ask.holder)) continue
      const bothAge = priority <= ageing.ceiling && left.job.priority <= ageing.ceiling
      const isAbove = left.job.priority > ageing.ceiling && left.job.priority > priority
      const isStale = [taken, left].some((each) => each.weight !== view.worth(each.job.priority))
      if (isStale) continue
      const text = () => `${id} was taken before ${left.job.id}, which outranks it by its age`
      if (bothAge) {
        expect(watch, 27, points(taken) >= points(left), text, [id, left.job.id])
        if (left.job.priority > priority) watch.coverage.deed('overtakes by age')
      } else expect(watch, 27, !isAbove, text, [id, left.job.id])
    }
  }
}

/** At the cap of its type, waiting for its victim, or a second suspect: it hides nobody. */
function isHeldBack({ view }: Watch, seen: Seen, holder: string): boolean {
  const { job } = seen
  if (isSuspect(seen) && view.hasSuspect(holder)) return true
  const cap = view.types.get(job.type)?.concurrency ?? Number.POSITIVE_INFINITY
  return view.usedOf(job.type) >= cap || view.victimOf(job.id) !== undefined
}

/** 24, 26: exactly what should have been taken was taken, in that order. */
function judgePicks(watch: Watch, commit: Commit, due: Picked, ran: readonly string[]): void {
  const missing = due.grants.filter((id) => !ran.includes(id))
  const text = (what: string) => () => {
    const times = `at ${commit.now}, due were ${due.grants}, taken ${ran}`
    return `${what} ${times}`
  }
  const first = missing.slice(0, 1)
  expect(watch, 24, missing.length === 0, text(`${first} could start and was left`), first)
  const same = ran.length === due.grants.length && ran.every((id, at) => id === due.grants[at])
  expect(watch, 26, same, text('lease took others, or in another order:'), ran)
  const { answer } = commit.answer as { readonly answer: LeaseAnswer }
  const times = () =>
    `lease says that time lets somebody start at ${answer.nextAt}, not ${due.nextAt}`
  expect(watch, 24, answer.nextAt === due.nextAt, times)
}

function isServed(job: StoredJob, ask: LeaseAsk): boolean {
  return job.body !== undefined || ask.types.includes(job.type)
}

/** The whole list is answered for, and what is not on it and old enough goes back uncharged. */
export function judgeExtend(watch: Watch, commit: Commit): void {
  const ask = commit.call.args[0] as ExtendAsk
  const { answer } = commit.answer as { readonly answer: ExtendAnswer }
  const { view } = watch
  for (const [index, { id, lease }] of ask.held.entries()) {
    const before = commit.before.get(id)
    const given = answer.leases[index]
    const after = commit.after.get(id)
    const current = before?.lease?.number === lease
    const hold = before?.lease?.hold === true && before.lease.holder === ask.holder
    const evictor = watch.view.jobs.get(id)?.evictor
    const holds = evictor === undefined ? 'held' : 'evicted'
    const due = hold ? 'cancelled' : current ? holds : 'lost'
    if (due === 'evicted' && given?.status === 'evicted') {
      watch.coverage.deed('is asked to give way')
      expect(watch, 23, given.by === evictor, () => `${id}: gives way to ${given.by}`, [id])
    }
    const text = () => `${id}: extend under ${lease} answered ${given?.status}, not ${due}`
    expect(watch, 8, given?.status === due, text, [id])
    if (due === 'lost') continue
    const longer = after?.deadline === commit.now + ask.leaseMs
    expect(watch, 9, longer, () => `${id}: its lease was not prolonged by extend`, [id])
  }
  const listed = new Set(ask.held.map(({ lease }) => lease))
  for (const event of commit.events) judgeUnheard(watch, commit, ask, listed, event)
  for (const seen of view.of('running')) {
    const { lease } = seen.job
    const unheard = lease?.holder === ask.holder && lease.number <= ask.upTo
    if (!unheard) continue
    const text = () => `${seen.job.id}: nobody heard of its lease, and it was not returned`
    expect(watch, 10, listed.has(lease.number), text, [seen.job.id])
  }
}

function judgeUnheard(
  watch: Watch,
  commit: Commit,
  ask: ExtendAsk,
  listed: ReadonlySet<number>,
  event: JobEvent,
): void {
  const lease = commit.before.get(event.job)?.lease
  const own = [event.job]
  if (event.event === 'job:ready') {
    const freed = isFreed(watch, commit, event)
    expect(watch, 35, freed, () => `${event.job}: extend let it into a lane that is taken`, own)
    return
  }
  const known = event.event === 'job:returned' && lease !== undefined
  expect(watch, 9, known, () => `${event.job}: extend logged ${event.event}`, own)
  if (lease === undefined) return
  const mine = lease.holder === ask.holder && lease.number <= ask.upTo && !listed.has(lease.number)
  expect(watch, 9, mine, () => `${event.job}: extend took lease ${lease.number} away`, own)
  const begun = watch.hasBegun(lease.number)
  const text = () => `${event.job}: returned as never heard of, and its body had begun`
  expect(watch, 10, !begun, text, own)
}

/** Whether a hold that nobody listed was settled, and its lane passed on. */
function isFreed(watch: Watch, commit: Commit, event: JobEvent): boolean {
  const lane = watch.view.jobs.get(event.job)?.job.exclusive
  for (const [id, job] of commit.before) {
    if (lane === undefined || job.exclusive !== lane || job.lease?.hold !== true) continue
    if (commit.after.get(id)?.lease === undefined) return true
  }
  return false
}

/** 10: what is overdue is handed out, in order, and nothing else is. Before any move is made. */
export function judgeOverdue(watch: Watch, commit: Commit): void {
  const { limit } = commit.call.args[0] as { readonly limit: number }
  const { answer } = commit.answer as { readonly answer: OverdueAnswer }
  const given = answer.jobs.map((job) => job.id)
  const late = [...watch.view.jobs.values()]
    .map((seen) => seen.job)
    .filter((job) => job.deadline > 0 && job.deadline <= commit.now)
  const missing = late.filter((job) => !given.includes(job.id))
  const all = given.length >= limit || missing.length === 0
  const text = () => `overdue left out ${missing.map((job) => job.id).join(', ')}`
  expect(
    watch,
    10,
    all,
    text,
    missing.map((job) => job.id),
  )
  const early = answer.jobs.filter((job) => job.deadline === 0 || job.deadline > commit.now)
  expect(watch, 9, early.length === 0, () => `overdue handed out ${early.map((job) => job.id)}`)
  const free = commit.events.length === 0
  expect(watch, 9, free, () => `overdue changed ${commit.events.map(({ job }) => job).join(', ')}`)
}

/** 35: one job per lane has been admitted; the best of those that wait comes next. */
export function judgeLanes(watch: Watch, lanes: ReadonlySet<string>): void {
  for (const lane of lanes) {
    const members = [...(watch.view.lanes.get(lane) ?? [])]
    const admitted = members.filter((seen) => seen.admitted)
    const ids = admitted.map((seen) => seen.job.id)
    expect(watch, 35, ids.length <= 1, () => `lane ${lane} has admitted ${ids.join(', ')}`, ids)
    const waiters = members.filter((seen) => seen.status === 'waiting' && seen.job.needs === 0)
    const holder = admitted[0]
    for (const { job } of waiters) {
      const text = () => `${job.id} waits for lane ${lane}, which is free`
      expect(watch, 35, holder !== undefined, text, [job.id])
      if (holder === undefined || holder.startedSinceAdmission) continue
      // A new ageing changes the order of those who wait; the lane stays with its holder.
      const waiter = watch.view.jobs.get(job.id)
      const { epoch } = watch.view
      if (holder.epoch !== epoch || waiter?.epoch !== epoch) continue
      const right = holder.status !== 'ready' || watch.view.comesBefore(holder, waiter)
      const other = holder.job.id
      expect(watch, 35, right, () => `${other} has lane ${lane}, ${job.id} is better`, [other])
    }
  }
}

/** 34: an owner of a key is there, and no other job that holds the key has not ended. */
export function judgeKeys(watch: Watch, seen: Seen): void {
  const { key } = seen.job
  if (key === undefined || isEnd(seen.status)) return
  const owner = watch.view.keys.get(key)?.id
  const text = () => `${seen.job.id} has key ${key}, which belongs to ${owner}`
  expect(watch, 34, owner === seen.job.id, text, [seen.job.id])
}
