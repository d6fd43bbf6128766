// Owns what is wrong with a store, or looks as if: findings, each with what to type.
// May never read anything: whoever examines a store hands in what was read, in bounded pieces.

import type { BreakerState } from './breaker.ts'
import { differences } from './differences.ts'
import { showMs } from './duration.ts'
import { show } from './options.ts'
import { LATE_MS } from './schedule.ts'
import type { StoredSettings } from './settings.ts'
import type { Finding } from './types.ts'

/**
 * The kinds of findings, gravest first; a finding's `kind` is one of these for ever.
 *
 * - `damage`: the store contradicts itself
 * - `cycle`: jobs wait for each other in a loop
 * - `orphaned-key`: a key is held by a job that is not known, or has ended
 * - `expired-lease`: a lease or a hold is past its deadline, and nobody has reaped it
 * - `no-handler`: ready jobs of a type that no live worker serves
 * - `zombies`: bodies that ignore their abort; workers that take nothing for them
 * - `open-breaker`: a pool waits for what lies behind it to get well, or would if it had jobs
 * - `paused-pool`: ready jobs in a pool that is paused
 * - `closed-pool`: ready jobs in a pool, or of a type, with a concurrency of 0
 * - `unknown-dependency`: jobs wait for ids that nobody has submitted
 * - `late-schedule`: the instant of a schedule has passed, and its job was not added
 * - `long-wait`: jobs that were submitted more than five minutes ago are waiting or ready
 * - `settings-differ`: a live worker was given other settings than those that hold
 * - `no-timeout`: types whose jobs may run for ever: no timeout, and no heartbeat
 */
export const FINDINGS = [
  'damage',
  'cycle',
  'orphaned-key',
  'expired-lease',
  'no-handler',
  'zombies',
  'open-breaker',
  'paused-pool',
  'closed-pool',
  'unknown-dependency',
  'late-schedule',
  'long-wait',
  'settings-differ',
  'no-timeout',
] as const

export type FindingKind = (typeof FINDINGS)[number]

/** Jobs that have not started so long after their submission are named. */
export const LONG_MS = 300_000

/** Ids in one finding. */
const MAX_JOBS = 100

/** Ids in one sentence. */
const NAMED = 3

/** Some jobs, and whether there are more than were read. */
export interface Sample {
  readonly jobs: readonly string[]
  readonly more: boolean
}

export interface DoctorFacts {
  /** On the store's clock. */
  readonly now: number
  readonly inspection: {
    readonly ghosts: readonly { readonly id: string; readonly dep: string }[]
    readonly cycles: readonly (readonly string[])[]
    readonly orphanedKeys: readonly { readonly key: string; readonly owner: string }[]
    readonly expired: readonly { readonly id: string; readonly deadline: number }[]
    readonly damage: readonly string[]
  }
  readonly workers: readonly {
    readonly holder: string
    readonly zombies: number
    readonly full: boolean
    readonly settings: string
  }[]
  readonly settings: StoredSettings
  readonly pools: Readonly<
    Record<
      string,
      {
        readonly concurrency: number
        readonly paused: boolean
        readonly ready: number
        readonly breakerState: BreakerState
        readonly breakerUntil: number
      }
    >
  >
  /** Jobs that wait for others, or are ready, and were submitted more than `LONG_MS` ago. */
  readonly waiting: Sample
  readonly ready: Sample
  /** Types with ready jobs that nobody serves, or that have a cap of 0. */
  readonly unserved: readonly ({ readonly type: string; readonly count: number } & Sample)[]
  readonly closedTypes: readonly { readonly type: string; readonly count: number }[]
  /** Types whose jobs may run for ever, with such a job each, if there is one. */
  readonly timeless: readonly { readonly type: string; readonly job: string | undefined }[]
}

/** All that is to be said, gravest first. O(facts). */
export function diagnose(facts: DoctorFacts): Finding[] {
  return [
    ...damaged(facts),
    ...looped(facts),
    ...orphaned(facts),
    ...expired(facts),
    ...unserved(facts),
    ...haunted(facts),
    ...tripped(facts),
    ...paused(facts),
    ...closed(facts),
    ...ghosts(facts),
    ...late(facts),
    ...long(facts),
    ...different(facts),
    ...timeless(facts),
  ]
}

/** Of a store that answers nothing else: what it contradicts itself in. */
export function diagnoseDamage(inspection: DoctorFacts['inspection']): Finding[] {
  return [...damaged({ inspection }), ...looped({ inspection }), ...orphaned({ inspection })]
}

type Inspected = Pick<DoctorFacts, 'inspection'>

function finding(kind: FindingKind, ids: readonly string[], text: string, remedy: string): Finding {
  return { kind, jobs: [...new Set(ids)].slice(0, MAX_JOBS), text, remedy }
}

function damaged({ inspection }: Inspected): Finding[] {
  const { damage } = inspection
  if (damage.length === 0) return []
  const places = counted(damage.length, 'place')
  const text = `The store contradicts itself in ${places}: ${clipped(damage)}.`
  const remedy =
    'Stop all workers, save a copy of the store, and report it with this text; then submit what ' +
    'has not ended to a new store.'
  return [finding('damage', [], text, remedy)]
}

function looped({ inspection }: Inspected): Finding[] {
  return inspection.cycles.map((path) => {
    const text = `Jobs wait for each other in a loop: ${path.map(show).join(' > ')}.`
    const first = show(path[0] ?? '')
    return finding('cycle', path, text, `Break the loop: scheduler.cancel(${first}).`)
  })
}

function orphaned({ inspection }: Inspected): Finding[] {
  const { orphanedKeys: keys } = inspection
  if (keys.length === 0) return []
  const pairs = keys.map(({ key, owner }) => `${show(key)} (job ${show(owner)})`)
  const text =
    `${counted(keys.length, 'key')} cannot be used, as a job that is unknown or has ended holds ` +
    `${keys.length === 1 ? 'it' : 'them'}: ${clipped(pairs)}.`
  const ids = keys.map(({ owner }) => owner)
  const remedy =
    'That should not be: report it. Until then, submit with another key, or without one.'
  return [finding('orphaned-key', ids, text, remedy)]
}

function expired({ inspection, now, workers }: DoctorFacts): Finding[] {
  const { expired: jobs } = inspection
  if (jobs.length === 0) return []
  const oldest = Math.min(...jobs.map(({ deadline }) => deadline))
  const ids = jobs.map(({ id }) => id)
  const text =
    `${counted(jobs.length, 'lease')} ${jobs.length === 1 ? 'is' : 'are'} past the deadline, the ` +
    `oldest for ${showMs(now - oldest)}: ${namesOf(ids)}.`
  const remedy =
    workers.length === 0
      ? 'No worker is alive to reap them: start one, `await scheduler.start()`.'
      : 'A live worker reaps them within seconds. If this stays, look at the log of the workers.'
  return [finding('expired-lease', ids, text, remedy)]
}

function unserved(facts: DoctorFacts): Finding[] {
  return facts.unserved.map(({ type, count, jobs }) => {
    const text =
      `${counted(count, 'ready job')} of type ${show(type)} ${count === 1 ? 'waits' : 'wait'}, ` +
      'and no live worker has a handler for it.'
    const remedy =
      `Start a worker with scheduler.define(${show(type)}, handler), ` +
      'or cancel the jobs if the type is a slip.'
    return finding('no-handler', jobs, text, remedy)
  })
}

function haunted({ workers }: DoctorFacts): Finding[] {
  return workers
    .filter(({ zombies, full }) => zombies > 0 || full)
    .map(({ holder, zombies, full }) => {
      const rest = full ? ', and takes nothing more for them' : ''
      const text =
        `Worker ${show(holder)} has ${counted(zombies, 'zombie')}, bodies that ignore their ` +
        `abort${rest}.`
      const remedy =
        'See scheduler.zombies() in that process for the handlers; let them follow their signal, ' +
        'and restart the worker to be rid of those that hang.'
      return finding('zombies', [], text, remedy)
    })
}

/** One that is due, in a pool where nothing is ready, closes with the next job: it is no news. */
function tripped({ pools, now }: DoctorFacts): Finding[] {
  return Object.entries(pools)
    .filter(([, { breakerState, breakerUntil, ready }]) => {
      const isDue = breakerState !== 'open' || breakerUntil <= now
      return breakerState !== 'closed' && (ready > 0 || !isDue)
    })
    .map(([name, { breakerState, breakerUntil, ready }]) => {
      const probe =
        breakerState === 'open' && breakerUntil > now
          ? `lets a probe through in ${showMs(breakerUntil - now)}`
          : 'waits for what its probe shows'
      const text =
        `The breaker of pool ${show(name)} is open and ${probe}; ` +
        `${counted(ready, 'ready job')} ${ready === 1 ? 'waits' : 'wait'}.`
      const remedy =
        'Mend what lies behind the pool: it goes on by itself. To go on regardless: ' +
        `scheduler.pool(${show(name)}).configure({ breaker: false }).`
      return finding('open-breaker', [], text, remedy)
    })
}

function paused({ pools }: DoctorFacts): Finding[] {
  return Object.entries(pools)
    .filter(([, pool]) => pool.paused && pool.ready > 0)
    .map(([name, { ready }]) => {
      const text = `Pool ${show(name)} is paused, with ${counted(ready, 'ready job')}.`
      return finding('paused-pool', [], text, `scheduler.pool(${show(name)}).resume()`)
    })
}

function closed({ pools, closedTypes }: DoctorFacts): Finding[] {
  const ofPools = Object.entries(pools)
    .filter(([, pool]) => pool.concurrency === 0 && !pool.paused && pool.ready > 0)
    .map(([name, { ready }]) => {
      const text = `Pool ${show(name)} has a concurrency of 0, with ${counted(ready, 'ready job')}.`
      const remedy = `scheduler.pool(${show(name)}).configure({ concurrency: 10 })`
      return finding('closed-pool', [], text, remedy)
    })
  const ofTypes = closedTypes.map(({ type, count }) => {
    const text = `Type ${show(type)} has a concurrency of 0, with ${counted(count, 'ready job')}.`
    const remedy = `Give it another concurrency, in types or in define(${show(type)}, ...).`
    return finding('closed-pool', [], text, remedy)
  })
  return [...ofPools, ...ofTypes]
}

function ghosts({ inspection }: DoctorFacts): Finding[] {
  const deps = new Map<string, string[]>()
  for (const { id, dep } of inspection.ghosts) {
    const ids = deps.get(dep) ?? []
    deps.set(dep, ids)
    ids.push(id)
  }
  if (deps.size === 0) return []
  const ids = inspection.ghosts.map(({ id }) => id)
  const count = new Set(ids).size
  const text =
    `${counted(count, 'job')} ${count === 1 ? 'waits' : 'wait'} for ids that nobody has ` +
    `submitted: ${namesOf([...deps.keys()])}.`
  const [first] = ids
  const remedy =
    'Submit them, or, if an id is a slip, cancel who waits: ' +
    `scheduler.cancel(${show(first ?? '')}).`
  return [finding('unknown-dependency', ids, text, remedy)]
}

function late({ settings, now, workers }: DoctorFacts): Finding[] {
  return settings.schedules
    .filter(({ nextAt }) => now - nextAt > LATE_MS)
    .map(({ name, nextAt }) => {
      const text = `The schedule ${show(name)} should have added a job ${showMs(now - nextAt)} ago.`
      const remedy =
        workers.length === 0
          ? 'No worker is alive to add it: start one, `await scheduler.start()`.'
          : 'Look for its name in the logs of the workers: they say why the job was refused.'
      return finding('late-schedule', [], text, remedy)
    })
}

function long({ waiting, ready, inspection }: DoctorFacts): Finding[] {
  const known = new Set(inspection.ghosts.map(({ id }) => id))
  const others = { ...waiting, jobs: waiting.jobs.filter((id) => !known.has(id)) }
  const kinds = [
    [others, 'other jobs'],
    [ready, 'a slot'],
  ] as const
  return kinds
    .filter(([{ jobs }]) => jobs.length > 0)
    .map(([{ jobs, more }, what]) => {
      const count = `${more ? 'At least ' : ''}${counted(jobs.length, 'job')}`
      const text =
        `${count} submitted more than ${showMs(LONG_MS)} ago ` +
        `${jobs.length === 1 ? 'waits' : 'wait'} for ${what}: ${namesOf(jobs)}.`
      const remedy = `scheduler.explain(${show(jobs[0] ?? '')}) says why.`
      return finding('long-wait', jobs, text, remedy)
    })
}

function different({ workers, settings }: DoctorFacts): Finding[] {
  return workers.flatMap(({ holder, settings: said }) => {
    const all = differences(said, settings)
    if (all.length === 0) return []
    const text = `Worker ${show(holder)} was given other settings than hold: ${clipped(all)}.`
    const remedy =
      'Give all processes the same settings, and restart those that have old ones; ' +
      'what an operator has set is not compared.'
    return [finding('settings-differ', [], text, remedy)]
  })
}

function timeless({ timeless: types }: DoctorFacts): Finding[] {
  if (types.length === 0) return []
  const ids = types.flatMap(({ job }) => (job === undefined ? [] : [job]))
  const names = types.map(({ type }) => show(type))
  const text =
    `${counted(types.length, 'type')} ${types.length === 1 ? 'has' : 'have'} no timeout, and no ` +
    `heartbeat, so a body that hangs keeps its slot for ever: ${clipped(names)}.`
  const remedy =
    'Give each a timeout in its policy: two or three times what its slowest runs take; ' +
    'scheduler.advise() has the figures.'
  return [finding('no-timeout', ids, text, remedy)]
}

function namesOf(ids: readonly string[]): string {
  return clipped(ids.map(show))
}

function clipped(items: readonly string[]): string {
  const rest = items.length > NAMED ? ` and ${items.length - NAMED} more` : ''
  return items.slice(0, NAMED).join(', ') + rest
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}
