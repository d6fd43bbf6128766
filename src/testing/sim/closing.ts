// Owns the end of a run: the state at the end of the safety phase, the healing, and the demand
// that everything comes to rest. May never forgive what is still stuck then.

import { isAxError } from '../../core/errors.ts'
import type { JobInput } from '../../core/types.ts'
import { AxScheduler } from '../../index.ts'
import type { Administrators } from './administer.ts'
import type { Bodies } from './bodies.ts'
import { isSuspect } from './counts.ts'
import type { Fleet, Process } from './fleet.ts'
import { Violation } from './invariants.ts'
import type { Operators } from './operators.ts'
import { expect, type Watch } from './oracle.ts'
import { checkExplain, isStartable, waitsForGhost } from './oracle-explain.ts'
import { checkLate } from './oracle-settings.ts'
import type { Oracles } from './oracles.ts'
import type { Plan } from './plan.ts'
import { POOLS } from './policies.ts'
import type { Seen, View } from './view.ts'
import { SimNode } from './world.ts'

/** Jobs explained at the end of the safety phase: more of a kind say nothing new. */
const EXPLAINED = 60

/** What anything may take once all is well: back-off and losses wait the longest. */
const PATIENCE_MS = 1_200_000

/** Between two looks at whether work stands still although it could go on. */
const LOOK_MS = 3_000

export class Closing {
  readonly #watch: Watch
  readonly #plan: Plan
  readonly #fleet: Fleet
  readonly #bodies: Bodies
  readonly #operators: Operators
  readonly #administrators: Administrators
  readonly #oracles: Oracles
  readonly #observer: AxScheduler
  #standing = new Map<string, number>()
  #starts = new Map<string, number>()
  #typeStarts: ReadonlyMap<string, number> = new Map()
  #lastSuspect = 0

  constructor(
    watch: Watch,
    plan: Plan,
    parts: {
      readonly fleet: Fleet
      readonly bodies: Bodies
      readonly operators: Operators
      readonly administrators: Administrators
      readonly oracles: Oracles
    },
  ) {
    this.#watch = watch
    this.#plan = plan
    this.#fleet = parts.fleet
    this.#bodies = parts.bodies
    this.#operators = parts.operators
    this.#administrators = parts.administrators
    this.#oracles = parts.oracles
    const node = new SimNode(watch.world, 'observer', 1, { offsetMs: 0, drift: 0 })
    const { runtime } = node
    this.#observer = new AxScheduler({ store: watch.raw, runtime, autoStart: false })
    this.#oracles.explain = (id) => this.#observer.explain(id)
  }

  /** S: everything that can be asked while the world stands still. */
  async atSafety(): Promise<void> {
    const { view } = this.#watch
    await this.#oracles.checkAll()
    const idle = [...view.jobs.values()]
    const live = idle.filter(({ status }) => LIVE.includes(status)).slice(-EXPLAINED)
    const ended = idle.filter(({ status }) => !LIVE.includes(status)).slice(-10)
    for (const seen of [...live, ...ended]) await this.#explain(seen)
    await this.#compareSnapshot()
  }

  /** L: heal, run to quiescence, fill the ghosts, run again, stop everybody. */
  async toTheEnd(): Promise<void> {
    const { world, view } = this.#watch
    const { lateMs, clientTimeoutMs } = this.#plan.settings.link
    world.healed = true
    this.#bodies.heal()
    this.#fleet.heal()
    // What is still on its way arrives first: a late pause would undo the healing.
    const asleep = this.#fleet.all.map(({ node }) => node.stalledUntil - world.time)
    const stormMs = Math.max(lateMs, ...asleep) + 2 * clientTimeoutMs + 2_000
    await world.runUntil(world.time + stormMs)
    await this.#openPools()
    await this.#endSchedules()
    await this.#letIn()
    await this.#rest()
    for (const seen of view.of('waiting')) await this.#checkWaiting(seen)
    await this.#fillGhosts()
    await this.#rest()
    const left = [...view.of('waiting')].map((seen) => seen.job.id)
    expect(this.#watch, 33, left.length === 0, () => `still waiting: ${left.join(', ')}`, left)
    await this.#expectIdle()
    await this.#stopAll()
  }

  async #explain(seen: Seen): Promise<void> {
    await checkExplain(this.#watch, seen, (id) => this.#observer.explain(id))
  }

  async #compareSnapshot(): Promise<void> {
    const { view } = this.#watch
    const { states, running } = await this.#observer.snapshot()
    for (const [status, count] of Object.entries(states)) {
      const there = view.of(status as keyof typeof states).size
      expect(this.#watch, 3, count === there, () => `snapshot: ${count} ${status}, not ${there}`)
    }
    const held = view.of('running').size + view.holds.size
    const stopping = running.filter((each) => each.stopping === true).length
    const text = () => `snapshot: ${running.length} run, ${stopping} stop; it is ${held}`
    expect(this.#watch, 20, running.length === held && stopping === view.holds.size, text)
  }

  /** Operators put everything right: no pause, room in every pool, and rates that let work on. */
  async #openPools(): Promise<void> {
    const { view } = this.#watch
    for (const name of POOLS) {
      const { rate, share } = view.pool(name)
      const change = {
        concurrency: 8,
        paused: false,
        ...(share === 0 ? { perWorker: null } : {}),
        ...(rate === null ? {} : { rate: { count: 40, per: 1_000 } }),
      }
      await this.#ask((scheduler) => scheduler.pool(name).configure(change))
      // The share of processes that were started with none is what holds now.
      if (view.pool(name).share > 0) continue
      await this.#ask((scheduler) => scheduler.pool(name).configure({ perWorker: 4 }))
    }
    const budget = view.budget === null ? null : FAST
    await this.#ask((_, healer) => this.#administrators.set(healer, { budget }))
    for (const [type, { concurrency }] of view.types) {
      if (concurrency !== 0) continue
      await this.#ask((_, healer) => this.#administrators.set(healer, { type, concurrency: 2 }))
    }
  }

  /** 24: whoever waits for room is let in, a poll after there is some, until nobody waits. */
  async #letIn(): Promise<void> {
    const { world } = this.#watch
    const waiting = () => {
      const isThere = ({ node, closingAt }: Process) => node.alive && closingAt === undefined
      return [...this.#operators.adding].filter(({ process }) => isThere(process))
    }
    for (let left = waiting(); left.length > 0; ) {
      await this.#rest()
      await world.runUntil(world.time + LOOK_MS)
      const now = waiting()
      const ids = now.map(({ id }) => id)
      const moved = now.length < left.length
      expect(this.#watch, 24, moved, () => `there is room, and they still wait for it: ${ids}`)
      left = now
    }
  }

  /** 39: every instant has had its job by now. From here on no more come. */
  async #endSchedules(): Promise<void> {
    const { view, world } = this.#watch
    await world.runUntil(world.time + 6_000)
    checkLate(this.#watch)
    for (const name of [...view.schedules.keys()]) {
      await this.#ask((scheduler) => scheduler.unschedule(name))
    }
  }

  /** Asks the healer, again and again while the last packets of the storm are about. */
  async #ask<T>(ask: (scheduler: AxScheduler, healer: Process) => Promise<T>): Promise<T> {
    const { world } = this.#watch
    const healer = this.#fleet.find('healer')
    if (healer === undefined) throw new Violation(0, 'there is no healer')
    for (let tries = 0; ; tries += 1) {
      const state: { done?: boolean; value?: T; error?: unknown } = {}
      healer.node.after(0, async () => {
        await ask(healer.scheduler, healer).then(
          (value) => Object.assign(state, { done: true, value }),
          (error: unknown) => Object.assign(state, { done: true, error }),
        )
      })
      await world.runUntil(world.time + 30_000, () => state.done === true)
      if (state.done !== true) throw new Violation(42, 'the healer gets no answer')
      if (!('error' in state)) return state.value as T
      if (!isAxError(state.error, 'STORE_UNAVAILABLE') || tries > 5) throw state.error
    }
  }

  /** Runs until nothing is left that could still happen by itself. */
  async #rest(): Promise<void> {
    const { world, view } = this.#watch
    const end = world.time + PATIENCE_MS
    this.#standing = new Map()
    while (world.time < end) {
      await world.runUntil(Math.min(end, world.time + LOOK_MS), () => isQuiet(view))
      if (isQuiet(view)) return
      this.#checkProgress()
    }
    const stuck = [...view.jobs.values()].filter((seen) => isStuck(view, seen))
    throw new Violation(
      42,
      await this.#sayStuck(stuck),
      stuck.map((seen) => seen.job.id),
    )
  }

  async #sayStuck(stuck: readonly Seen[]): Promise<string> {
    const lines: string[] = []
    for (const { job } of stuck.slice(0, 10)) {
      const { reason, text } = await this.#observer.explain(job.id)
      lines.push(`${job.id}: ${reason}: ${text}`)
    }
    return `stuck: ${stuck.length} jobs\n  ${lines.join('\n  ')}`
  }

  /** 10, 24: no lease outlives its end, and nothing ready lies beside a free slot. */
  #checkProgress(): void {
    const { view, world } = this.#watch
    for (const { job } of view.of('running')) {
      const over = job.deadline < world.time - LOOK_MS
      const text = () => `${job.id}: its lease ended ${world.time - job.deadline} ms ago`
      expect(this.#watch, 10, !over, text, [job.id])
    }
    const standing = new Map<string, number>()
    for (const seen of view.of('ready')) {
      const { job, readyAt } = seen
      if (!isStartable(this.#watch, seen)) continue
      standing.set(job.id, readyAt)
      // A cap of its type, or its worker, may have been used up in another pool meanwhile.
      const ofType = this.#typeStarts.get(job.type) !== view.lastTypeStart.get(job.type)
      const ofSuspects = isSuspect(seen) && this.#lastSuspect !== view.lastSuspectStart
      const moved = ofSuspects || ofType || this.#starts.get(job.pool) !== startsOf(view, job.pool)
      const before = !moved && this.#standing.get(job.id) === readyAt
      const text = () => `${job.id}: ready for ${world.time - readyAt} ms beside a free slot`
      expect(this.#watch, 24, !before, text, [job.id])
    }
    this.#standing = standing
    for (const name of view.pools.keys()) this.#starts.set(name, startsOf(view, name))
    this.#typeStarts = new Map(view.lastTypeStart)
    this.#lastSuspect = view.lastSuspectStart
  }

  /** 42, 33: whoever still waits does so for an id that nobody has submitted. */
  async #checkWaiting(seen: Seen): Promise<void> {
    const { id } = seen.job
    const text = () => `${id}: waits, and nothing that it waits for can still come`
    expect(this.#watch, 42, waitsForGhost(this.#watch, seen), text, [id])
    await this.#explain(seen)
  }

  async #fillGhosts(): Promise<void> {
    const { view, world } = this.#watch
    const ghosts = new Set<string>()
    for (const seen of view.of('waiting')) {
      for (const [id, state] of seen.edges) {
        if (state === 'open' && view.endOf(id, world.time) === undefined) ghosts.add(id)
      }
    }
    const jobs = [...ghosts].filter((id) => !view.jobs.has(id))
    if (jobs.length === 0) return
    const script = { op: -1, attempts: [[{ do: 'wait', ms: 1 }]] }
    const inputs: JobInput[] = jobs.map((id) => ({ id, type: 'plain', payload: script }))
    await this.#ask((scheduler) => scheduler.addJobs(inputs))
  }

  async #expectIdle(): Promise<void> {
    await this.#askDoctor()
    await this.#ask(async (scheduler) => {
      await scheduler.idle()
    })
    this.#watch.coverage.checked(42)
  }

  /** Once all is well there is nothing that a doctor could mend. */
  async #askDoctor(): Promise<void> {
    const { findings } = await this.#observer.doctor()
    for (const { kind, text } of findings) {
      const fine = HARMLESS.includes(kind)
      expect(this.#watch, 2, fine, () => `the doctor still finds ${kind}: ${text}`)
    }
    await this.#observer.advise()
  }

  /** 20, 38: everybody stops, nobody waits any more, no slot is left in use. */
  async #stopAll(): Promise<void> {
    const { world, view } = this.#watch
    const up = this.#fleet.up()
    for (const process of up) this.#fleet.close(process, 1_000)
    await world.runUntil(world.time + 60_000, () => up.every(({ closed }) => closed))
    const open = up.filter(({ closed }) => !closed).map(({ node }) => node.label)
    expect(this.#watch, 38, open.length === 0, () => `never closed: ${open.join(', ')}`)
    const used = view.of('running').size + view.holds.size
    expect(this.#watch, 20, used === 0, () => `${used} slots are in use at the end`)
    const waiting = [...this.#operators.pending].filter(({ process }) => process.node.alive)
    const ids = waiting.map(({ id }) => id)
    expect(this.#watch, 42, ids.length === 0, () => `result() never settled: ${ids}`, ids)
    const runs = [...this.#administrators.runs].filter(({ process }) => process.node.alive)
    expect(this.#watch, 42, runs.length === 0, () => `${runs.length} make-up runs never ended`)
    const [complaint] = this.#fleet.complaints
    if (complaint !== undefined) throw new Violation(0, `a scheduler complained: ${complaint}`)
    await this.#oracles.checkAll()
  }
}

const LIVE: readonly string[] = ['pending', 'waiting', 'ready', 'running']

/** Findings that say something about the plan and nothing about the store. */
const HARMLESS = ['no-timeout', 'settings-differ', 'open-breaker', 'zombies']

/** A budget that lets retries go on as they come. */
const FAST = { count: 40, perMs: 1_000, burst: 1, intervalUs: 25_000, toleranceUs: 0 }

/** The newest lease of the pool: a count of starts would fall with what is forgotten. */
function startsOf(view: View, pool: string): number {
  return view.lastStart.get(pool) ?? 0
}

function isQuiet(view: View): boolean {
  const busy = view.of('pending').size + view.of('ready').size + view.of('running').size
  if (busy + view.holds.size > 0) return false
  for (const seen of view.of('waiting')) if (view.isDoomed(seen)) return false
  return true
}

function isStuck(view: View, seen: Seen): boolean {
  if (view.holds.has(seen)) return true
  if (seen.status === 'waiting') return view.isDoomed(seen)
  return seen.status === 'pending' || seen.status === 'ready' || seen.status === 'running'
}
