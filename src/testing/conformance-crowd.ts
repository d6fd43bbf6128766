// Owns the part of the suite where many clients use one store at once, and the account afterwards.
// May never expect an order that only luck gives: whatever is checked holds for every interleaving.

import type { Fact, JobEvent, NewJob, StoredJob } from '../core/job.ts'
import { decide, type Keep } from '../core/machine.ts'
import type { Moved, Store } from '../store/store.ts'
import { ERROR, edge, LEASE_MS, PATIENT, TYPES } from './cases-bench.ts'
import { newJob, numbersFrom } from './history-commands.ts'
import type { ManualClock } from './history-side.ts'
import { copyJob } from './sim/copy.ts'

const CAPS: Readonly<Record<string, number>> = { default: 3, io: 1 }
const LONG: Keep = {
  successMs: 1e9,
  failedMs: 1e9,
  cancelledMs: 1e9,
  outcomesMs: 1e9,
  logMs: 1e9,
}

/** Calls per client before everything is run to its end. */
const ROUNDS = 40

/** More than any crowd needs to come to rest. */
const LAST_ROUNDS = 2_000

/** What the clients share, and what they saw. */
interface Crowd {
  readonly store: Store
  readonly clock: ManualClock
  readonly random: () => number
  readonly submitted: NewJob[]
  readonly leases: number[]
  /** Finishes that a store accepted, by the number of the lease they were written under. */
  readonly accepted: number[]
  /** What was wrong with an answer when it came. */
  readonly faults: string[]
}

/** Lets a crowd work, then lists what is wrong with what is left. Empty: nothing is. */
export async function crowdFaults(
  store: Store,
  clock: ManualClock,
  seed: number,
): Promise<readonly string[]> {
  const crowd: Crowd = {
    store,
    clock,
    random: numbersFrom(seed),
    submitted: [],
    leases: [],
    accepted: [],
    faults: [],
  }
  for (const [pool, concurrency] of Object.entries(CAPS)) {
    await store.configure({ pool, by: 'operator', terms: { concurrency } })
  }
  await Promise.all([
    ...['w1', 'w2', 'w3', 'w4'].map((name) => rounds(() => work(crowd, name))),
    ...['s1', 's2'].map((name) => rounds((round) => submit(crowd, `${name}-${round}`))),
    rounds(() => operate(crowd)),
    rounds(() => keep(crowd)),
  ])
  const faults = await finishAll(crowd)
  return faults.length > 0 ? faults : account(crowd)
}

async function rounds(turn: (round: number) => Promise<void>): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) await turn(round)
}

function pickOf<T>(crowd: Crowd, from: readonly T[]): T | undefined {
  return from[Math.floor(crowd.random() * from.length)]
}

async function submit(crowd: Crowd, name: string): Promise<void> {
  const { random, submitted } = crowd
  const jobs = [0, 1].map((number) => {
    const dep = random() < 0.5 ? pickOf(crowd, submitted)?.id : undefined
    return newJob(`${name}-${number}`, {
      ...PATIENT,
      pool: random() < 0.7 ? 'default' : 'io',
      deps: dep === undefined ? [] : [edge(dep, random() < 0.3 ? 'end' : 'success')],
      delayMs: random() < 0.2 ? 50 : 0,
      key: random() < 0.3 ? pickOf(crowd, ['k1', 'k2']) : undefined,
      exclusive: random() < 0.4 ? pickOf(crowd, ['l1', 'l2']) : undefined,
    })
  })
  const told = await crowd.store.insert([{ jobs, unknownDeps: 'reject' }], false)
  if (told.answer[0]?.status === 'done') submitted.push(...jobs)
}

/** Takes some jobs, dawdles, and says how they ended: too late now and then. */
async function work(crowd: Crowd, holder: string): Promise<void> {
  const { store, random } = crowd
  const max = 1 + Math.floor(random() * 3)
  const ask = { holder, leaseMs: LEASE_MS, max, types: TYPES }
  const { answer } = await store.lease(ask, false)
  const jobs = answer.jobs.map(copyJob)
  crowd.leases.push(...jobs.map((job) => job.lease?.number ?? 0))
  const turns = random() * (random() < 0.2 ? 60 : 6)
  for (let turn = 0; turn < turns; turn += 1) await store.time()
  const isLost = random() < 0.1
  if (isLost) return
  await Promise.all(jobs.map((job) => finish(crowd, job)))
}

async function finish(crowd: Crowd, job: StoredJob): Promise<void> {
  const retryable = crowd.random() < 0.7
  const fact: Fact =
    crowd.random() < 0.7
      ? { type: 'succeeded', result: '1' }
      : { type: 'failed', error: ERROR, retryable }
  const number = job.lease?.number ?? 0
  const move = decide(job, fact, LONG)
  const told = await crowd.store.apply(move === null ? [] : [move], true)
  if (told.answer[0]?.status === 'moved') crowd.accepted.push(number)
  const ended = told.events.find((event) => event.job === job.id && event.from === 'running')
  if (ended !== undefined && ended.attempt !== job.starts) {
    crowd.faults.push(`attempt ${ended.attempt} of ${job.id} ended by the lease of ${job.starts}`)
  }
  const [now] = await crowd.store.get([job.id])
  if (now?.lease?.hold === true) await write(crowd, copyJob(now), { type: 'settled' })
}

async function write(crowd: Crowd, job: StoredJob, fact: Fact): Promise<Moved | undefined> {
  const move = decide(job, fact, LONG)
  return move === null ? undefined : (await crowd.store.apply([move], false)).answer[0]
}

async function operate(crowd: Crowd): Promise<void> {
  const id = pickOf(crowd, crowd.submitted)?.id
  const [job] = id === undefined ? [] : await crowd.store.get([id])
  if (job === null || job === undefined) return
  await write(crowd, copyJob(job), { type: crowd.random() < 0.3 ? 'cancel' : 'retry' })
}

async function keep(crowd: Crowd): Promise<void> {
  crowd.clock.advance(Math.floor(crowd.random() * 3_000))
  const { answer } = await crowd.store.overdue({ limit: 5, keepLogMs: LONG.logMs }, false)
  const moves = answer.jobs.map((job) => decide(job, { type: 'overdue' }, LONG))
  await crowd.store.apply(
    moves.filter((move) => move !== null),
    false,
  )
}

/** Works on until nothing can move any more. */
async function finishAll(crowd: Crowd): Promise<readonly string[]> {
  for (let round = 0; round < LAST_ROUNDS; round += 1) {
    crowd.clock.advance(LEASE_MS)
    await keep(crowd)
    await work(crowd, 'last')
    const { types, held, doomed, fanOuts } = await crowd.store.count()
    const states = Object.values(types)
    const alive = states.map((each) => each.pending + each.waiting + each.ready + each.running)
    const left = alive.reduce((sum, count) => sum + count, 0)
    if (left + held.length + doomed + fanOuts === 0) return []
  }
  return ['Some jobs never came to an end, though nothing they wait for is missing.']
}

async function account(crowd: Crowd): Promise<readonly string[]> {
  const jobs = new Map<string, StoredJob>()
  for (let after: number | null = 0; after !== null; ) {
    const page = await crowd.store.list({ after, limit: 100 })
    for (const job of page.jobs) jobs.set(job.id, copyJob(job))
    after = page.after
  }
  const events: JobEvent[] = []
  for (let isMore = true; isMore; ) {
    const page = await crowd.store.events(events.at(-1)?.seq ?? 0, 100)
    events.push(...page.events)
    isMore = page.events.length > 0
  }
  return [...folded(events, jobs), ...booked(crowd, events, jobs)]
}

/** Reads the log from its beginning, and looks at the world as it was after each record. */
function folded(events: readonly JobEvent[], jobs: ReadonlyMap<string, StoredJob>): string[] {
  const faults: string[] = []
  const alive = new Map<string, JobEvent['to']>()
  const starts = new Map<string, number>()
  const ends = ['success', 'failed', 'cancelled']
  let at = 0
  for (const { job: id, from, to, attempt, at: time } of events) {
    if ((alive.get(id) ?? null) !== from) faults.push(`${id} leaves ${from}, where it is not`)
    if (time < at) faults.push(`time runs backwards at ${id}`)
    at = time
    alive.set(id, to)
    if (to === 'running') starts.set(id, (starts.get(id) ?? 0) + 1)
    if (attempt !== (starts.get(id) ?? 0)) faults.push(`${id} skips a number of its starts`)
    const lives = [...alive].filter(([, status]) => !ends.includes(status))
    const running = lives.filter(([, status]) => status === 'running')
    faults.push(...twice('key', lives, (job) => job.key, jobs))
    faults.push(...twice('lane', running, (job) => job.exclusive, jobs))
    for (const [pool, cap] of Object.entries(CAPS)) {
      const used = running.filter(([each]) => jobs.get(each)?.pool === pool).length
      if (used > cap) faults.push(`${used} jobs run in ${pool}, where ${cap} may`)
    }
  }
  for (const [id, job] of jobs) {
    if (alive.get(id) !== job.status) faults.push(`the log does not lead ${id} to ${job.status}`)
    if ((starts.get(id) ?? 0) !== job.starts) faults.push(`the log knows other starts of ${id}`)
  }
  return faults
}

function twice(
  what: string,
  entries: readonly (readonly [id: string, status: string])[],
  nameOf: (job: StoredJob) => string | undefined,
  jobs: ReadonlyMap<string, StoredJob>,
): string[] {
  const names = entries.map(([id]) => nameOf(jobs.get(id) as StoredJob))
  const named = names.filter((name) => name !== undefined)
  return new Set(named).size === named.length ? [] : [`a ${what} of ${named.join(', ')} is shared`]
}

/** What clients were told against what is stored. */
function booked(
  crowd: Crowd,
  events: readonly JobEvent[],
  jobs: ReadonlyMap<string, StoredJob>,
): string[] {
  const { leases, accepted, submitted } = crowd
  const faults = [...crowd.faults]
  if (new Set(leases).size !== leases.length) faults.push('a lease number was given out twice')
  if (new Set(accepted).size !== accepted.length) faults.push('a lease was finished twice')
  const starts = events.filter((event) => event.to === 'running').length
  if (starts !== leases.length)
    faults.push(`${starts} starts are logged for ${leases.length} grants`)
  for (const { id } of submitted) if (!jobs.has(id)) faults.push(`${id} was accepted and is lost`)
  for (const { id, log, starts: count } of jobs.values()) {
    const closed = log.filter((attempt) => attempt.outcome !== undefined)
    if (closed.length !== count) faults.push(`${id} has ${count} starts, ${closed.length} closed`)
  }
  return faults
}
