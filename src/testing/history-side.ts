// Owns one side of a replay: a store, and what a client of it remembers from its answers.
// May never let numbers that a store makes up decide what is compared: order counts, not numbers.

import type { Fact, Move, StoredJob } from '../core/job.ts'
import { decide, type Keep } from '../core/machine.ts'
import type { InsertAnswer, InsertGroup, Store, Tick, Told } from '../store/store.ts'
import type { Command, PlannedGroup, PlannedMove, View } from './history-commands.ts'
import { copyJob } from './sim/copy.ts'

/** A clock that stands still until it is told. */
export interface ManualClock {
  now(): number
  advance(ms: number): void
}

export function manualClock(start: number): ManualClock {
  let now = start
  return {
    now: () => now,
    advance: (ms) => {
      now += ms
    },
  }
}

/** A store and its client's memory: leases as answered, marks, jobs handed out as overdue. */
export interface Side {
  readonly store: Store
  readonly leased: Map<string, StoredJob[]>
  readonly held: Map<string, Map<string, number>>
  readonly marks: Map<string, number>
  highest: number
  handedOut: readonly StoredJob[]
  cursor: number
}

export function sideOf(store: Store): Side {
  return {
    store,
    leased: new Map(),
    held: new Map(),
    marks: new Map(),
    highest: 0,
    handedOut: [],
    cursor: 0,
  }
}

/** Does one command on one side, and answers in a form that two sides can be compared by. */
export async function follow(side: Side, command: Command, clock: ManualClock): Promise<unknown> {
  return plain(await answerTo(side, command, clock))
}

/** The same for a store under test: an error is its answer. */
export async function tryTo(side: Side, command: Command, clock: ManualClock): Promise<unknown> {
  try {
    return await follow(side, command, clock)
  } catch (error) {
    return { threw: String(error) }
  }
}

async function answerTo(side: Side, command: Command, clock: ManualClock): Promise<unknown> {
  const { store } = side
  switch (command.do) {
    case 'insert':
      return insert(side, command.groups)
    case 'replace':
      return replace(side, command)
    case 'schedule':
      return schedule(side, command, clock)
    case 'settings':
      return store.settings()
    case 'workers':
      return store.workers()
    case 'inspect':
      return store.inspect()
    case 'lease':
      return lease(side, command)
    case 'apply':
      return apply(side, await decideAll(side, command.moves, command.keep))
    case 'overdue':
      return overdue(side, command)
    case 'keep':
      return keep(side, command.keep)
    case 'extend':
      return extend(side, command)
    case 'configure':
      return store.configure(command.change)
    case 'beat':
      return beat(side, command)
    case 'clock':
      return store.time().then((time) => time - clock.now())
    case 'get':
      return store.get(command.ids)
    case 'list':
      return pages(side, command)
    case 'dependents':
      return dependentPages(side, command)
    case 'standing':
      return standing(side, command.id)
    case 'count':
      return counted(side)
    case 'events':
      return newEvents(side, command.limit)
  }
}

/** Just what the port asks for: a store need not keep anything else. */
function beat({ store }: Side, command: Command & { do: 'beat' }): Promise<void> {
  const { holder, types, full, zombies, ttlMs } = command
  return store.beat({ holder, name: holder, types, full, zombies, settings: '', ttlMs })
}

async function insert(side: Side, planned: readonly PlannedGroup[]): Promise<unknown> {
  const groups: InsertGroup[] = []
  for (const { jobs, unknownDeps, behind, fence, tick } of planned) {
    const lease = fence === undefined ? undefined : (await known(side, fence.id, fence.view))?.lease
    groups.push({
      jobs,
      unknownDeps,
      ...(behind === undefined ? {} : { behind }),
      ...(fence === undefined ? {} : { fence: { id: fence.id, lease: lease?.number ?? 0 } }),
      ...(tick === undefined ? {} : { tick: await tickOf(side, tick) }),
    })
  }
  const told = await side.store.insert(groups, true)
  const answers: unknown[] = []
  for (const [index, answer] of told.answer.entries()) {
    answers.push(await withCheckedLoop(side, groups[index] as InsertGroup, answer))
  }
  return { ...told, answer: answers }
}

async function replace(side: Side, command: Command & { do: 'replace' }): Promise<unknown> {
  const { jobs, unknownDeps, fence } = command.group
  const lease = fence === undefined ? undefined : (await known(side, fence.id, fence.view))?.lease
  const gone = []
  for (const { id, view } of command.gone) {
    const job = await known(side, id, view)
    gone.push({ id, seq: job?.seq ?? 0, rev: job?.rev ?? 0 })
  }
  const held = fence === undefined ? {} : { fence: { id: fence.id, lease: lease?.number ?? 0 } }
  const group = { jobs, unknownDeps, gone, ...held }
  const told = await side.store.replace(group, true)
  return { ...told, answer: await withCheckedLoop(side, group, told.answer) }
}

const NO_SCHEDULE = { cron: '', timeZone: null, missed: 'one', template: '', nextAt: 0 } as const

async function tickOf(
  { store }: Side,
  { schedule: name, isStale, isOld, stepMs }: PlannedGroup['tick'] & object,
): Promise<Tick> {
  const { schedules } = await store.settings()
  const row = schedules.find((each) => each.name === name) ?? { ...NO_SCHEDULE, name }
  const at = isStale ? row.nextAt - 1 : row.nextAt
  const of = isOld ? { ...row, template: '["old"]' } : row
  return { of, at, nextAt: row.nextAt + stepMs }
}

function schedule(
  { store }: Side,
  { name, row }: Command & { do: 'schedule' },
  clock: ManualClock,
): Promise<void> {
  if (row === null) return store.configure({ schedule: name, row })
  const { inMs, ...rest } = row
  const change = { schedule: name, row: { ...rest, name, nextAt: clock.now() + inMs } }
  return store.configure(change)
}

/** Which of several loops is shown is up to the store. That it is one is checked here. */
async function withCheckedLoop(
  side: Side,
  group: Pick<InsertGroup, 'jobs'>,
  answer: InsertAnswer,
): Promise<unknown> {
  const refusal = answer.status === 'refused' ? answer.refusals[0] : undefined
  if (refusal?.reason !== 'cycle') return answer
  const { path, index } = refusal
  const depsOf = async (id: string) => {
    const job = group.jobs.find((each) => each.id === id) ?? (await side.store.get([id]))[0]
    return job?.deps.map((dep) => dep.id) ?? []
  }
  const faults: string[] = []
  if (path.length < 2 || path[0] !== path.at(-1)) faults.push('it does not close')
  for (const [at, id] of path.slice(1).entries()) {
    const dep = path[at] as string
    if (!(await depsOf(id)).includes(dep)) faults.push(`${id} does not depend on ${dep}`)
  }
  const first = group.jobs.findIndex((job) => path.includes(job.id))
  if (index !== Math.max(0, first)) faults.push(`the index should be ${first}, not ${index}`)
  return { status: 'refused', why: 'cycle', faults }
}

async function lease(side: Side, command: Command & { do: 'lease' }): Promise<unknown> {
  const told = await side.store.lease(command, true)
  for (const job of told.answer.jobs) {
    side.leased.set(job.id, [...(side.leased.get(job.id) ?? []), copyJob(job)])
    const number = job.lease?.number ?? 0
    heldBy(side, command.holder).set(job.id, number)
    side.highest = Math.max(side.highest, number)
  }
  return told
}

function heldBy(side: Side, holder: string): Map<string, number> {
  const held = side.held.get(holder) ?? new Map<string, number>()
  side.held.set(holder, held)
  return held
}

async function known(side: Side, id: string, view: View): Promise<StoredJob | null> {
  if (view === 'fresh') {
    const job = (await side.store.get([id]))[0] ?? null
    return job === null ? null : copyJob(job)
  }
  return side.leased.get(id)?.at(view === 'last lease' ? -1 : -2) ?? null
}

async function decideAll(
  side: Side,
  planned: readonly PlannedMove[],
  keepFor: Keep,
): Promise<Move[]> {
  const moves: Move[] = []
  for (const { id, fact, view } of planned) {
    const job = await known(side, id, view)
    const move = job === null ? null : decide(job, fact, keepFor)
    if (move !== null) moves.push(move)
  }
  return moves
}

async function apply(side: Side, moves: readonly Move[]): Promise<unknown> {
  const told = await side.store.apply(moves, true)
  for (const [index, answer] of told.answer.entries()) {
    const { id, expect } = moves[index] as Move
    const isWorkers = answer.status === 'moved' && 'lease' in expect
    if (isWorkers) for (const held of side.held.values()) held.delete(id)
  }
  const answers = told.answer.map((answer, index) => {
    const isGone = answer.status === 'moved' && moves[index]?.step === 'forget'
    return isGone ? { status: 'moved', gone: answer.job.id } : answer
  })
  return { moves: moves.map(({ id, step, to }) => `${id} ${step} ${to}`), ...told, answer: answers }
}

/** An answer that is just full may invite to another call in vain. */
async function overdue(side: Side, command: Command & { do: 'overdue' }): Promise<unknown> {
  const told = await side.store.overdue(command, true)
  const { more, ...rest } = told.answer
  side.handedOut = rest.jobs.map(copyJob)
  const isFull = [rest.jobs, rest.schedules].some((list) => list.length === command.limit)
  return { ...told, answer: { ...rest, more: isFull ? 'perhaps' : more } }
}

async function keep(side: Side, keepFor: Keep): Promise<unknown> {
  const fact: Fact = { type: 'overdue' }
  const moves = side.handedOut.map((job) => decide(job, fact, keepFor))
  side.handedOut = []
  return apply(
    side,
    moves.filter((move) => move !== null),
  )
}

async function extend(side: Side, command: Command & { do: 'extend' }): Promise<unknown> {
  const { holder, omit, leaseMs } = command
  const mine = heldBy(side, holder)
  const numberOf = (id: string, number: number) =>
    (command.isStale ? side.leased.get(id)?.at(-2)?.lease?.number : undefined) ?? number
  const listed = [...mine].filter(([id]) => !omit.includes(id))
  const held = listed.map(([id, number]) => {
    const note = command.noted.includes(id) ? { note: `of ${id}` } : {}
    return { id, lease: numberOf(id, number), stuck: command.stuck.includes(id), ...note }
  })
  const mark = side.marks.get(holder) ?? 0
  const upTo = { nothing: 0, mark, everything: side.highest }[command.upTo]
  const told = await side.store.extend({ holder, held, leaseMs, upTo }, true)
  side.marks.set(holder, told.answer.mark)
  for (const [index, { status }] of told.answer.leases.entries()) {
    if (status === 'lost') mine.delete(held[index]?.id ?? '')
  }
  for (const id of omit) mine.delete(id)
  return { held: held.map(({ id }) => id), ...told }
}

async function pages(side: Side, command: Command & { do: 'list' }): Promise<unknown> {
  const jobs: StoredJob[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page = await side.store.list({ ...command, after })
    if (page.jobs.length > command.limit) throw new Error('The page is too long.')
    jobs.push(...page.jobs)
    after = page.after
  }
  return jobs
}

async function dependentPages(
  side: Side,
  { id, limit }: { readonly id: string; readonly limit: number },
): Promise<unknown> {
  const jobs: StoredJob[] = []
  for (;;) {
    const page = await side.store.dependents(id, jobs.at(-1)?.seq ?? 0, limit)
    if (page.length > limit) throw new Error('The page is too long.')
    if (page.length === 0) return jobs
    jobs.push(...page)
  }
}

/** A place in line is asked for only where there is a line: among ready jobs. */
async function standing(side: Side, id: string): Promise<unknown> {
  const [job] = await side.store.get([id])
  if (job === null || job === undefined) return null
  const { ahead, ...rest } = await side.store.standing(id)
  return job.status === 'ready' ? { ahead, ...rest } : rest
}

/** Whether types and pools without a job are named is up to the store. */
async function counted(side: Side): Promise<unknown> {
  const { types, pools, held, ...rest } = await side.store.count()
  const isUsed = (states: Readonly<Record<string, number>>) =>
    Object.values(states).some((count) => count !== 0)
  return {
    ...rest,
    types: Object.fromEntries(Object.entries(types).filter(([, states]) => isUsed(states))),
    pools: Object.fromEntries(Object.entries(pools).filter(([, pool]) => isUsed(pool.states))),
    held: [...held].sort((a, b) => a.seq - b.seq),
  }
}

async function newEvents(side: Side, limit: number): Promise<unknown> {
  const events: Told<unknown>['events'][number][] = []
  for (;;) {
    const page = await side.store.events(side.cursor, limit)
    if (page.events.length > limit) throw new Error('The page is too long.')
    const isEmpty = page.events.length === 0
    for (const event of page.events) {
      if (event.seq <= side.cursor || event.seq > page.last) throw new Error('Out of order.')
      side.cursor = event.seq
    }
    events.push(...page.events)
    if (isEmpty) return events
  }
}

/** All that the port shows: every job, what each waits for, the counts, and the log's news. */
export async function dumpOf(side: Side): Promise<unknown> {
  const jobs = (await pages(side, { do: 'list', limit: 500 })) as StoredJob[]
  const standings: unknown[] = []
  const dependents: unknown[] = []
  for (const { id, status, deps } of jobs) {
    if (UNSTARTED.includes(status)) standings.push([id, await standing(side, id)])
    for (const dep of deps) dependents.push([dep.id, await sizeOf(side, dep.id)])
  }
  const log = await newEvents(side, 1_000)
  const { events: first, oldest } = await side.store.events(0, 5)
  const isOldest = first.every(({ seq }, index) => (index === 0 ? seq === oldest : seq > oldest))
  const count = await counted(side)
  const [settings, workers] = [await side.store.settings(), await side.store.workers()]
  const inspection = await side.store.inspect()
  const rest = { settings, workers, inspection }
  return plain({ jobs, standings, dependents, count, log, first, isOldest, ...rest })
}

async function sizeOf(side: Side, id: string): Promise<readonly string[]> {
  return (await side.store.dependents(id, 0, 500)).map((job) => job.id)
}

const UNSTARTED: readonly string[] = ['pending', 'waiting', 'ready']
const RANKED: readonly string[] = ['waiting', 'ready', 'running']

/** Without what stores may choose: numbers of order, the rank of a job that stands in no line. */
export function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  if ('terms' in value && 'rev' in value) return plainJob(value as StoredJob)
  const copy: Record<string, unknown> = {}
  for (const [key, part] of Object.entries(value)) {
    if (part !== undefined && key !== 'seq') copy[key] = plain(part)
  }
  return copy
}

function plainJob(job: StoredJob): object {
  const { seq: _, rank, ...rest } = copyJob(job)
  return RANKED.includes(job.status) && job.needs === 0 ? { ...rest, rank } : rest
}
