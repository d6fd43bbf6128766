// Owns the making of histories: commands drawn from a seed, so that a number tells it all.
// May never depend on the store under test: what comes next is drawn from the model alone.

import type { Dep, DepMode, Fact, JobStatus, NewJob } from '../core/job.ts'
import type { Keep } from '../core/machine.ts'
import {
  type Command,
  newJob,
  numbersFrom,
  type PlannedGroup,
  type PlannedMove,
  START,
  TERMS,
  type View,
} from './history-commands.ts'
import { drawChange } from './history-settings.ts'
import { behindOthers, drawLook, drawSetting, drawTick } from './history-time.ts'
import type { Peeked } from './model.ts'

/** Features that a seed switches on or off. */
const FEATURES = [
  'deps',
  'ghosts',
  'quorum',
  'on end',
  'keys',
  'windows',
  'minted',
  'lanes',
  'priorities',
  'delays',
  'patience',
  'fences',
  'big groups',
  'repeats',
  'reject',
  'cancels',
  'revivals',
  'losses',
  'omissions',
  'pauses',
  'batches',
  'short retention',
  'stale views',
  'worker caps',
  'type caps',
  'rates',
  'elastic',
  'preempt',
  'breakers',
  'pressure',
  'ageing',
  'budget',
  'room',
  'schedules',
  'stuck bodies',
  'replacements',
  'heads of flows',
  'notes',
] as const

/** Poison: jobs are lost again and again, and go on. Every other seed has it. */
export type Feature = (typeof FEATURES)[number] | 'poison'

/** What the mixed history has on every seed. */
const MIXED: readonly Feature[] = [
  'deps',
  'ghosts',
  'quorum',
  'on end',
  'keys',
  'windows',
  'lanes',
  'short retention',
  'revivals',
  'cancels',
]

/** What is set while time passes. Beside it, what pools let start seldom comes to a pinch. */
const SET_BY_TIME: readonly Feature[] = ['ageing', 'budget', 'room', 'schedules']
const PINCH: readonly Feature[] = ['pressure', 'preempt', 'elastic', 'worker caps']

const TYPES = ['alpha', 'beta', 'gamma'] as const
const POOLS = ['default', 'io', 'narrow'] as const
const HOLDERS = ['w1', 'w2', 'w3'] as const
const STATUSES: readonly JobStatus[] = [
  'pending',
  'waiting',
  'ready',
  'running',
  'success',
  'failed',
  'cancelled',
]
const LEASES = [1_000, 10_000] as const

/** The dice, the settings drawn with them, and how many jobs there are already. */
export interface Maker {
  readonly chance: (probability: number) => boolean
  readonly below: (limit: number) => number
  readonly pick: <T>(from: readonly T[]) => T
  readonly has: (feature: Feature) => boolean
  readonly keep: Keep
  readonly weights: readonly number[]
  made: number
  /** Something was handed out as overdue, and nobody has decided about it yet. */
  owes: boolean
}

/** Under pressure most jobs can wait, and few cannot. */
const PRESSED = [1, 2, 3, 3, 3, 40, 41, 50, 51, 100] as const

/** Where there is pressure, so many things are set before anything happens. */
const SAID_FIRST = 12

/** Mixed histories have one of two subjects in turn; all others have what the seed says. */
function featuresOf(seed: number, mixed: boolean, random: () => number): ReadonlySet<Feature> {
  const drawn: readonly Feature[] = FEATURES.filter(() => random() < 0.6)
  const poison: readonly Feature[] = seed % 2 === 1 ? ['poison'] : []
  if (!mixed) return new Set([...drawn, ...poison])
  if (seed % 2 === 1) return new Set([...drawn, ...MIXED, ...SET_BY_TIME, ...poison])
  const others = drawn.filter((each) => !SET_BY_TIME.includes(each))
  return new Set([...others, ...MIXED, ...PINCH])
}

/** A source of commands; each is drawn with the model's present state in view. */
export function historyFrom(seed: number, mixed: boolean): (peek: readonly Peeked[]) => Command {
  const random = numbersFrom(seed)
  const below = (limit: number) => Math.floor(random() * limit)
  const on = featuresOf(seed, mixed, random)
  const pick = <T>(from: readonly T[]): T => from[below(from.length)] as T
  const times = on.has('short retention') ? [0, 0, 500, 5_000] : [60_000, 600_000]
  const maker: Maker = {
    chance: (probability) => random() < probability,
    below,
    pick,
    has: (feature) => on.has(feature),
    keep: {
      successMs: pick(times),
      failedMs: pick(times),
      cancelledMs: pick(times),
      outcomesMs: pick([0, 2_000, 60_000]),
      logMs: pick([3_000, 600_000]),
    },
    weights: KINDS.map(([draw, weight]) => {
      const isRare = draw === drawFinish && on.has('pressure')
      const isOften = (draw === drawClock || draw === drawOverdue) && on.has('poison')
      return weight * (0.4 + random()) * (isRare ? 0.4 : isOften ? 2 : 1)
    }),
    made: 0,
    owes: false,
  }
  let told = 0
  return (peek) => {
    if (maker.has('pressure') && told < SAID_FIRST) {
      told += 1
      return drawConfigure(maker)
    }
    if (!maker.owes || maker.chance(0.5)) return kindOf(maker)(maker, peek)
    maker.owes = false
    return { do: 'keep', keep: maker.keep }
  }
}

type Draw = (maker: Maker, peek: readonly Peeked[]) => Command

const KINDS: readonly (readonly [draw: Draw, weight: number])[] = [
  [drawInsert, 16],
  [drawReplace, 3],
  [drawLease, 14],
  [drawFinish, 20],
  [drawOrder, 10],
  [drawOverdue, 8],
  [drawExtend, 6],
  [drawConfigure, 5],
  [drawClock, 9],
  [drawBeat, 2],
  [drawRead, 8],
]

function kindOf(maker: Maker): Draw {
  const total = maker.weights.reduce((sum, weight) => sum + weight, 0)
  let left = (maker.below(1_000) / 1_000) * total
  const index = maker.weights.findIndex((weight) => {
    left -= weight
    return left < 0
  })
  return (KINDS[index] ?? KINDS[0])?.[0] as Draw
}

function drawInsert(maker: Maker, peek: readonly Peeked[]): Command {
  const count = maker.chance(0.1) ? 2 + maker.below(2) : 1
  const groups = Array.from({ length: count }, () => drawGroup(maker, peek))
  return { do: 'insert', groups }
}

function drawGroup(maker: Maker, peek: readonly Peeked[]): PlannedGroup {
  const isBig = maker.has('big groups') && maker.chance(0.1)
  const size = isBig ? 1 + maker.below(30) : 1 + maker.below(4)
  const first = maker.made
  maker.made += size
  const jobs = Array.from({ length: size }, (_, index) => {
    const isRepeat = maker.has('repeats') && maker.chance(0.06)
    const number = isRepeat ? 1 + maker.below(maker.made) : first + index + 1
    return drawJob(maker, number, peek, { first, size })
  })
  const running = peek.filter((job) => job.holder !== undefined)
  const isFenced = maker.has('fences') && maker.chance(0.25)
  const parent = isFenced ? maker.pick(running) : undefined
  const isTick = maker.has('schedules') && maker.chance(0.1)
  return {
    ...(isTick ? drawTick(maker) : {}),
    ...behindOthers(maker),
    jobs,
    unknownDeps: maker.has('reject') && maker.chance(0.4) ? 'reject' : 'wait',
    ...(parent === undefined ? {} : { fence: { id: parent.id, view: drawView(maker) } }),
  }
}

/** Some jobs that have not succeeded go, and those of their ids that come back are others. */
function drawReplace(maker: Maker, peek: readonly Peeked[]): Command {
  const open = peek.filter(({ status, holder }) => status !== 'success' && holder === undefined)
  if (!maker.has('replacements') || open.length === 0) return drawInsert(maker, peek)
  const few = maker.has('stale views') && maker.chance(0.1) ? peek : open
  const ids = new Set(Array.from({ length: 1 + maker.below(4) }, () => maker.pick(few).id))
  const gone = [...ids].map((id) => ({ id, view: drawView(maker) }))
  const { tick: _, behind: __, ...group } = drawGroup(maker, peek)
  const again = [...ids].filter(() => maker.chance(0.6))
  const jobs = again.map((id) => {
    const first = maker.made - group.jobs.length
    const job = drawJob(maker, Number(id.slice(1)), peek, { first, size: group.jobs.length })
    return { ...job, id, payload: maker.chance(0.5) ? job.payload : '"edited"' }
  })
  return { do: 'replace', gone, group: { ...group, jobs: [...jobs, ...group.jobs] } }
}

function drawView(maker: Maker): View {
  if (!maker.has('stale views') || maker.chance(0.7)) return 'fresh'
  return maker.pick(['last lease', 'older lease'] as const)
}

function drawJob(
  maker: Maker,
  number: number,
  peek: readonly Peeked[],
  group: { readonly first: number; readonly size: number },
): NewJob {
  const { has, chance, pick } = maker
  const isPressed = has('pressure')
  const priorities = isPressed ? PRESSED : [1, 49, 50, 51, 100]
  const priority = has('priorities') || isPressed ? pick(priorities) : 50
  const isMinted = has('minted') && chance(0.3)
  const deps = isMinted || !has('deps') ? [] : drawDeps(maker, peek, group)
  const key = has('keys') && chance(0.25) ? pick(['k1', 'k2', 'k3', 'k4', 'k5']) : undefined
  const isOther = has('repeats') && chance(0.03)
  return newJob(isMinted ? `m${number}` : `j${number}`, {
    type: TYPES[number % TYPES.length] as string,
    pool: chance(0.6) ? 'default' : pick(POOLS),
    flow: chance(0.3) ? drawFlow(maker, peek) : undefined,
    payload: isOther ? '"other"' : `{"n":${number}}`,
    terms: {
      ...pick(TERMS),
      ...(isPressed && chance(0.6) ? { preemptible: true } : {}),
      ...(has('poison') && chance(0.6) ? { maxLost: 9, idempotent: true } : {}),
    },
    priority,
    delayMs: has('delays') && chance(0.25) ? pick([1, 50, 1_000, 20_000, 200_000]) : 0,
    enqueueTimeoutMs: has('patience') && chance(0.3) ? pick([1, 500, 5_000]) : 0,
    deps,
    depMode: drawMode(maker, deps),
    key,
    keyForMs: key !== undefined && has('windows') && chance(0.5) ? pick([100, 5_000]) : 0,
    exclusive: has('lanes') && chance(0.35) ? pick(['l1', 'l2']) : undefined,
    minted: isMinted,
  })
}

/** A name that is no job's, or that of a job: that one is the head of the flow. */
function drawFlow(maker: Maker, peek: readonly Peeked[]): string {
  const isHead = maker.has('heads of flows') && peek.length > 0 && maker.chance(0.7)
  return isHead ? maker.pick(peek.slice(-30)).id : maker.pick(['f1', 'f2'])
}

function drawDeps(
  maker: Maker,
  peek: readonly Peeked[],
  group: { readonly first: number; readonly size: number },
): Dep[] {
  if (maker.chance(0.5)) return []
  const deps = Array.from({ length: 1 + maker.below(3) }, (): Dep => {
    const ghost = maker.has('ghosts') && maker.chance(0.25)
    const inGroup = maker.chance(0.3)
    const later = `j${maker.made + 1 + maker.below(12)}`
    const mate = `j${group.first + 1 + maker.below(group.size)}`
    const known = peek.length === 0 ? mate : maker.pick(peek.slice(-40)).id
    const old = maker.chance(0.15) ? `j${1 + maker.below(maker.made)}` : known
    const on = maker.has('on end') && maker.chance(0.3) ? 'end' : 'success'
    return { id: ghost ? later : inGroup ? mate : old, on }
  })
  return deps.filter((dep, index) => deps.findIndex(({ id }) => id === dep.id) === index)
}

function drawMode(maker: Maker, deps: readonly Dep[]): DepMode {
  const distinct = new Set(deps.map((dep) => dep.id)).size
  if (!maker.has('quorum') || distinct === 0 || maker.chance(0.4)) return 'all'
  return maker.chance(0.5) ? 'any' : 1 + maker.below(distinct)
}

function drawLease(maker: Maker): Command {
  const types = maker.chance(0.8) ? TYPES : TYPES.filter(() => maker.chance(0.5))
  return {
    do: 'lease',
    holder: maker.pick(HOLDERS),
    leaseMs: maker.pick(LEASES),
    max: maker.pick([1, 2, 3, 8, 1_000]),
    types,
  }
}

/** What workers say about what they hold, one or several at a time. */
function drawFinish(maker: Maker, peek: readonly Peeked[]): Command {
  const held = peek.filter((job) => job.holder !== undefined)
  if (held.length === 0) return drawLease(maker)
  const ids = drawSome(maker, held)
  const moves = ids.map((id) => ({ id, fact: drawFact(maker), view: drawView(maker) }))
  if (!maker.has('batches') || !maker.has('cancels')) {
    return { do: 'apply', moves, keep: maker.keep }
  }
  const children = peek.filter(
    (job) => job.deps.some((dep) => ids.includes(dep)) && !ids.includes(job.id),
  )
  const cancelled = drawSome(maker, children).map((id) => order(id, 'cancel', 'fresh'))
  const all = maker.chance(0.5) ? [...moves, ...cancelled] : [...cancelled, ...moves]
  return { do: 'apply', moves: all, keep: maker.keep }
}

function drawFact(maker: Maker): Fact {
  const error = { name: 'Error', message: 'no', ...(maker.chance(0.3) ? { code: 'E_NO' } : {}) }
  const kind = maker.below(10)
  if (maker.has('breakers') && maker.chance(0.25)) return drawShown(maker)
  if (maker.has('preempt') && maker.chance(0.1)) {
    return maker.chance(0.3) ? { type: 'preempted', unbegun: true } : { type: 'preempted' }
  }
  if (kind < 4) return { type: 'succeeded', result: `{"r":${maker.below(100)}}` }
  if (kind < 6) return { type: 'failed', error, retryable: maker.chance(0.7) }
  if (kind === 6) return { type: 'timedOut' }
  if (kind === 7) return { type: 'returned' }
  return maker.chance(0.5) ? { type: 'settled' } : { type: 'failed', error, retryable: true }
}

/** Something that speaks against the downstream. */
function drawShown(maker: Maker): Fact {
  const retryable = maker.chance(0.8)
  const error = { name: 'Error', message: 'ill', code: 'ECONNRESET' }
  if (maker.chance(0.3)) return { type: 'timedOut', silent: maker.chance(0.3) }
  return { type: 'failed', error, retryable, transient: true, asked: maker.chance(0.2) }
}

/** What operators and keepers say: cancel, retry, or something due about any job. */
function drawOrder(maker: Maker, peek: readonly Peeked[]): Command {
  const facts: ('cancel' | 'retry' | 'overdue')[] = ['overdue']
  if (maker.has('cancels')) facts.push('cancel')
  if (maker.has('revivals')) facts.push('retry', 'retry')
  const fact = maker.pick(facts)
  const dead = peek.filter((job) => ['failed', 'cancelled', 'waiting'].includes(job.status))
  const moves = drawSome(maker, fact === 'retry' ? dead : peek).map((id) =>
    order(id, maker.has('batches') ? maker.pick(facts) : fact, drawView(maker)),
  )
  return { do: 'apply', moves, keep: maker.keep }
}

function order(id: string, type: 'cancel' | 'retry' | 'overdue', view: View): PlannedMove {
  return { id, fact: { type }, view }
}

function drawSome(maker: Maker, jobs: readonly Peeked[]): string[] {
  if (jobs.length === 0) return []
  const count = maker.has('batches') ? 1 + maker.below(6) : 1
  return [...new Set(Array.from({ length: count }, () => maker.pick(jobs).id))]
}

function drawOverdue(maker: Maker): Command {
  maker.owes = true
  return { do: 'overdue', limit: maker.pick([1, 3, 1_000]), keepLogMs: maker.keep.logMs }
}

function drawExtend(maker: Maker, peek: readonly Peeked[]): Command {
  const holder = maker.pick(HOLDERS)
  const held = peek.filter((job) => job.holder === holder)
  const omit = held.filter(() => maker.has('omissions') && maker.chance(0.3))
  const told = held.filter(({ isTold }) => isTold && maker.has('stuck bodies'))
  const stuck = told.filter(() => maker.chance(0.5))
  return {
    do: 'extend',
    holder,
    omit: omit.map((job) => job.id),
    stuck: stuck.map((job) => job.id),
    noted: held.filter(() => maker.has('notes') && maker.chance(0.4)).map((job) => job.id),
    leaseMs: maker.pick(LEASES),
    upTo: maker.pick(['nothing', 'mark', 'mark', 'everything']),
    isStale: maker.has('stale views') && maker.chance(0.3),
  }
}

function drawConfigure(maker: Maker): Command {
  const setting = maker.chance(0.7) ? drawSetting(maker) : undefined
  return setting ?? { do: 'configure', change: drawChange(maker) }
}

function drawClock(maker: Maker): Command {
  const long = maker.has('losses') ? [1_000, 10_000] : [100]
  return { do: 'clock', ms: maker.pick([0, 1, 10, 100, 500, 2_000, 5_000, ...long, 60_000]) }
}

function drawBeat(maker: Maker): Command {
  const types = TYPES.filter(() => maker.chance(0.6))
  const ttlMs = maker.pick([0, 1_000, 60_000])
  const full = maker.pick([false, false, true])
  const zombies = maker.below(3)
  return { do: 'beat', holder: maker.pick(HOLDERS), types, full, zombies, ttlMs }
}

function drawRead(maker: Maker, peek: readonly Peeked[]): Command {
  const id = peek.length === 0 ? 'j1' : maker.pick(peek).id
  const kind = maker.below(7)
  if (kind === 6) return drawLook(maker)
  if (kind === 0) return { do: 'get', ids: [id, 'nobody', `j${maker.made + 3}`] }
  if (kind === 1) return { do: 'dependents', id, limit: maker.pick([1, 2, 100]) }
  if (kind === 2) return { do: 'count' }
  if (kind === 3) return { do: 'events', limit: maker.pick([1, 7, 1_000]) }
  return kind === 4 && peek.length > 0 ? { do: 'standing', id } : drawList(maker)
}

function drawList(maker: Maker): Command {
  const { chance, pick } = maker
  return {
    do: 'list',
    limit: pick([1, 3, 50, 500]),
    ...(chance(0.4) ? { statuses: STATUSES.filter(() => chance(0.4)) } : {}),
    ...(chance(0.3) ? { type: pick(TYPES) } : {}),
    ...(chance(0.3) ? { pool: pick(POOLS) } : {}),
    ...(chance(0.2) ? { flow: pick(['f1', 'f2']) } : {}),
    ...(chance(0.2) ? { code: pick(['E_NO', 'CANCELLED', 'LOST', 'HANDLER_FAILED']) } : {}),
    ...(chance(0.2) ? { key: pick(['k1', 'k2']) } : {}),
    ...(chance(0.1) ? { createdAfter: START + maker.below(60_000) } : {}),
    ...(chance(0.1) ? { createdBefore: START + maker.below(600_000) } : {}),
  }
}
