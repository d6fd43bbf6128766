// Owns the checks on leases: who gets one, in what order, how many at once, how they are kept
// and how they are taken away. May never ask the store why.

import type { JobEvent, StoredJob } from '../../core/job.ts'
import type {
  Change,
  ExtendAnswer,
  ExtendAsk,
  LeaseAnswer,
  LeaseAsk,
  OverdueAnswer,
  PoolChange,
} from '../../store/store.ts'
import { isEnd } from './copy.ts'
import { type Commit, expect, type Watch } from './oracle.ts'
import { comesBefore, type Seen } from './view.ts'

/** After the entries of the call are folded. */
export function judgeLease(watch: Watch, commit: Commit): void {
  const ask = commit.call.args[0] as LeaseAsk
  const { answer } = commit.answer as { readonly answer: LeaseAnswer }
  const granted = new Set(answer.jobs.map((job) => job.id))
  const ran = commit.events.filter(({ event }) => event === 'job:running').map(({ job }) => job)
  const told = ran.length === granted.size && ran.every((id) => granted.has(id))
  expect(watch, 6, told, () => `lease answered ${[...granted]} and logged ${ran}`)
  expect(watch, 19, granted.size <= ask.max, () => `asked for ${ask.max}, got ${granted.size}`)
  for (const job of answer.jobs) judgeGrant(watch, commit, ask, job)
  judgeOrder(watch, ask, answer)
  judgeRest(watch, commit, ask, granted.size)
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
  const used = view.used(job.pool)
  const text = () => `${job.id}: ${used} leases and holds in ${job.pool} of ${pool.concurrency}`
  expect(watch, 19, used <= pool.concurrency, text, own)
  const seen = view.jobs.get(job.id) as Seen
  const { needs } = view.countsOf(seen)
  expect(watch, 28, needs === 0, () => `${job.id}: started ${needs} short of its quorum`, own)
}

/** 26: what is left in line comes after what was taken from it. */
function judgeOrder(watch: Watch, ask: LeaseAsk, answer: LeaseAnswer): void {
  for (const taken of answer.jobs) {
    for (const left of watch.view.of('ready')) {
      if (left.job.pool !== taken.pool || !isServed(left.job, ask)) continue
      const right = comesBefore(taken, left.job)
      const text = () => `${taken.id} was taken before ${left.job.id}, which comes first`
      expect(watch, 26, right, text, [taken.id, left.job.id])
    }
  }
}

/** 24: whoever asks for more than he got has emptied every line that he may draw from. */
function judgeRest(watch: Watch, commit: Commit, ask: LeaseAsk, granted: number): void {
  if (granted >= ask.max) return
  const { view } = watch
  for (const seen of view.of('ready')) {
    const pool = view.pool(seen.job.pool)
    const free = !pool.paused && view.used(seen.job.pool) < pool.concurrency
    if (!isServed(seen.job, ask)) continue
    const text = () => `${seen.job.id}: ready, a slot is free, and lease left it at ${commit.now}`
    expect(watch, 24, !free, text, [seen.job.id])
  }
  for (const seen of view.of('pending')) {
    const text = () => `${seen.job.id}: due at ${seen.job.availableAt} and left pending`
    expect(watch, 24, seen.job.availableAt > commit.now, text, [seen.job.id])
  }
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
    const due = hold ? 'cancelled' : current ? 'held' : 'lost'
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

/** 25: what is set moves no job by itself. */
export function judgeConfigure(watch: Watch, commit: Commit): void {
  const change = commit.call.args[0] as Change
  if ('pool' in change) takeOver(watch, change)
  const quiet = commit.events.length === 0
  expect(watch, 25, quiet, () => `configuring ${JSON.stringify(change)} moved jobs`)
}

function takeOver(watch: Watch, change: PoolChange): void {
  const pool = watch.view.pool(change.pool)
  for (const name of ['concurrency', 'paused'] as const) {
    const value = change.terms[name]
    if (value === undefined) continue
    if (change.by === 'operator') pool.fixed.add(name)
    if (change.by === 'start' && pool.fixed.has(name)) continue
    Object.assign(pool, { [name]: value })
  }
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
      const right = holder.status !== 'ready' || comesBefore(holder.job, job)
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
