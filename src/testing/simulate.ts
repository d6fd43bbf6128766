// Owns one simulation: a plan comes in, the real engine runs it on a world that goes wrong, and
// an outcome comes out. May never use a real clock, and never lets two runs of one plan differ.

import type { JobEvent, StoredJob } from '../core/job.ts'
import { Live } from '../core/job.ts'
import { AxScheduler } from '../index.ts'
import { memoryStore } from '../store/memory.ts'
import type { LeaseAnswer, Store, WorkerBeat } from '../store/store.ts'
import { Administrators } from './sim/administer.ts'
import { Bodies } from './sim/bodies.ts'
import { Closing } from './sim/closing.ts'
import { copy } from './sim/copy.ts'
import { Coverage } from './sim/coverage.ts'
import { Fleet } from './sim/fleet.ts'
import { type Invariant, Violation } from './sim/invariants.ts'
import type { Call, Far } from './sim/link.ts'
import { Operators } from './sim/operators.ts'
import { expect, type Watch } from './sim/oracle.ts'
import { Oracles } from './sim/oracles.ts'
import type { Plan, Script } from './sim/plan.ts'
import { View } from './sim/view.ts'
import { drawPlan } from './sim/workload.ts'
import { World } from './sim/world.ts'

export interface SimulateOptions {
  /** Fixes everything: the same seed gives the same run, event by event. */
  readonly seed: number
  /** Keeps the last lines of what happened, for people. Default false. */
  readonly trace?: boolean
}

/** What a simulation came to. */
export interface Outcome {
  readonly seed: number
  readonly violation: FoundViolation | undefined
  /** The same for every run of one seed. */
  readonly hash: number
  readonly operations: number
  readonly jobs: number
  readonly starts: number
  readonly events: number
  /** Simulated milliseconds. */
  readonly virtualMs: number
  readonly coverage: Readonly<Record<string, number>>
  readonly trace: readonly string[]
}

export interface FoundViolation {
  /** Its number in the list of invariants; 0 if the run itself went wrong. */
  readonly invariant: Invariant | 0
  readonly text: string
  /** The logs of the jobs that it is about. */
  readonly logs: Readonly<Record<string, readonly JobEvent[]>>
  /** A line per process. */
  readonly nodes: readonly string[]
}

/** Runs the whole engine under the plan that a seed draws. Never rejects for what it finds. */
export function simulate(options: SimulateOptions): Promise<Outcome> {
  return runPlan(drawPlan(options.seed), options.trace === true ? 4_000 : 0)
}

/** Runs one plan: the drawn one, or one that was made smaller. */
export async function runPlan(plan: Plan, keepTrace = 0): Promise<Outcome> {
  await loadSchedules()
  const run = new Simulation(plan, keepTrace)
  return run.outcome(await run.go())
}

/**
 * The engine loads what schedules need with the first of them, which takes real time. So that no
 * run has to wait for it, it is loaded before.
 */
async function loadSchedules(): Promise<void> {
  if (loaded) return
  const scheduler = new AxScheduler({ autoStart: false })
  await scheduler.schedule('first', '@daily', { type: 'none' })
  await scheduler.close()
  loaded = true
}

let loaded = false

class Simulation {
  readonly #plan: Plan
  readonly #world: World
  readonly #view = new View()
  readonly #coverage = new Coverage()
  readonly #watch: Watch
  readonly #oracles: Oracles
  readonly #operators: Operators
  readonly #administrators: Administrators
  readonly #bodies: Bodies
  readonly #fleet: Fleet

  constructor(plan: Plan, keepTrace: number) {
    this.#plan = plan
    this.#world = new World(plan.seed, keepTrace, plan.settings.startAt)
    const raw = memoryStore({ now: () => this.#world.time })
    this.#watch = {
      world: this.#world,
      view: this.#view,
      coverage: this.#coverage,
      raw,
      scriptOf,
      hasBegun: (lease) => this.#bodies.begun.has(lease),
      wordsOf: (lease) => this.#bodies.wordsOf(lease),
      goesOn: (lease) => this.#bodies.goesOn(lease),
    }
    this.#oracles = new Oracles(this.#watch)
    const { graceMs, maxZombies, link } = plan.settings
    this.#administrators = new Administrators(this.#watch)
    this.#operators = new Operators(this.#watch, link.duplicate > 0, this.#administrators)
    // Two calls that run into their timeouts, and the pauses before they are made again.
    const slackMs = 2 * link.clientTimeoutMs + 3_000
    this.#bodies = new Bodies(this.#watch, { graceMs, maxZombies, slackMs }, this.#operators)
    this.#fleet = new Fleet(this.#watch, this.#makeFar(raw), plan, this.#bodies)
    this.#operators.connect(this.#fleet, this.#bodies)
  }

  async go(): Promise<FoundViolation | undefined> {
    const stray: unknown[] = []
    const onStray = (error: unknown) => {
      stray.push(error)
    }
    process.on('unhandledRejection', onStray)
    try {
      await this.#phases()
      if (stray.length > 0) throw new Violation(0, `an unhandled rejection: ${describe(stray[0])}`)
      return undefined
    } catch (error) {
      return this.#found(error)
    } finally {
      process.off('unhandledRejection', onStray)
    }
  }

  outcome(violation: FoundViolation | undefined): Outcome {
    this.#coverage.features(this.#plan.features)
    return {
      seed: this.#plan.seed,
      violation,
      hash: this.#world.trace.hash,
      operations: this.#operators.done,
      jobs: this.#view.added,
      starts: this.#bodies.begun.size,
      events: this.#world.events,
      virtualMs: this.#world.time - this.#world.start,
      coverage: this.#coverage.counts,
      trace: this.#world.trace.lines,
    }
  }

  async #phases(): Promise<void> {
    const { ops, faults, settings } = this.#plan
    const closing = new Closing(this.#watch, this.#plan, {
      fleet: this.#fleet,
      bodies: this.#bodies,
      operators: this.#operators,
      administrators: this.#administrators,
      oracles: this.#oracles,
    })
    this.#fleet.startAll()
    for (const op of ops) this.#world.after(op.at, () => this.#operators.perform(op))
    for (const fault of faults) this.#world.after(fault.at, () => this.#fleet.apply(fault))
    await this.#world.runUntil(this.#world.start + settings.phaseMs)
    await closing.atSafety()
    await closing.toTheEnd()
  }

  #makeFar(raw: Store): Far & { restarts: number; deafUntil: number } {
    return {
      restarts: 0,
      deafUntil: 0,
      watch: (onHint) => raw.watch(onHint),
      act: async (call) => {
        const { world } = this.#watch
        const method = raw[call.name] as (...args: readonly unknown[]) => Promise<unknown>
        const answer = copy(await method.apply(raw, [...call.args]))
        world.trace.add(`${world.time} ${call.node.label} ${call.name}`)
        await this.#oracles.after(call, answer)
        this.#afterCall(call, answer)
        return answer
      },
    }
  }

  #afterCall(call: Call, answer: unknown): void {
    if (call.name === 'beat') this.#view.beat(call.args[0] as WorkerBeat, this.#world.time)
    if (call.name === 'lease') {
      const { answer: leased } = answer as { readonly answer: LeaseAnswer }
      if (leased.jobs.length > 0) this.#checkZombies(call)
    }
    this.#checkList(call)
    const age = this.#world.time - call.sentAt
    const late = age > this.#plan.settings.leaseMs
    if (late && (call.name === 'apply' || call.name === 'extend')) {
      this.#coverage.fault('arrives after the lease expired')
    }
  }

  /** 12: with that many zombies, a process asks for nothing more. */
  #checkZombies({ node, sentAt }: Call): void {
    const { maxZombies } = this.#plan.settings
    if (node.lastStall > sentAt - 10_000) return
    const zombies = this.#bodies.zombiesOf(node, sentAt).length
    const text = () => `${node.label} takes work with ${zombies} zombies of ${maxZombies}`
    expect(this.#watch, 12, zombies < maxZombies, text)
  }

  /** 12: never more on the list than may be; who has no place on it keeps its lease. */
  #checkList({ node }: Call): void {
    const process = this.#fleet.all.findLast((each) => each.node === node)
    const { maxZombies } = this.#plan.settings
    const listed = process?.scheduler.zombies().length ?? 0
    const text = () => `${node.label} lists ${listed} zombies of ${maxZombies}`
    expect(this.#watch, 12, listed <= maxZombies, text)
    if (this.#bodies.isCrowded(node, this.#world.time)) {
      this.#coverage.fault('no room for a zombie')
    }
  }

  #found(error: unknown): FoundViolation {
    const jobs = error instanceof Violation ? error.jobs.slice(0, 5) : []
    return {
      invariant: error instanceof Violation ? error.invariant : 0,
      text: error instanceof Violation ? error.message : describe(error),
      logs: Object.fromEntries(jobs.map((id) => [id, this.#view.logOf(id)])),
      nodes: this.#fleet.all.map(({ node, closingAt, closed }) => {
        const state = !node.alive ? 'dead' : closed ? 'closed' : closingAt ? 'closing' : 'up'
        return `${node.label} (${node.holder}): ${state}`
      }),
    }
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function scriptOf(job: StoredJob): Script | undefined {
  const { payload } = job
  if (payload instanceof Live) return payload.value as Script
  return payload === undefined ? undefined : (JSON.parse(payload) as Script)
}
