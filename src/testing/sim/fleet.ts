// Owns the processes of a run: which are up, how they start, stop, die and come back.
// May never be asked by the engine: it only builds schedulers and pulls plugs.

import type { AxError } from '../../core/errors.ts'
import { isAxError } from '../../core/errors.ts'
import type {
  Confirmed,
  Job,
  JobContext,
  JobHandle,
  StandardSchemaV1,
  TypePolicy,
} from '../../core/types.ts'
import { AxScheduler } from '../../index.ts'
import { type Far, Link } from './link.ts'
import { expect, type Watch } from './oracle.ts'
import type { Brought, Fault, NodePlan, Plan, PolicySpec, Script } from './plan.ts'
import { TYPE_NAMES } from './policies.ts'
import { SimNode } from './world.ts'

/** One life of one process. */
export interface Process {
  readonly plan: NodePlan
  readonly node: SimNode
  readonly link: Link
  readonly scheduler: AxScheduler
  /** When it was asked to close; nothing may start after that. */
  closingAt: number | undefined
  closed: boolean
  /** How long it stays away if it crashes. */
  downMs: number
  readonly handles: Map<string, JobHandle>
}

/** Who runs what handlers and confirms are asked for. */
export interface Doer {
  run(node: SimNode, context: JobContext, script: Script): Promise<unknown>
  ask(node: SimNode, job: Job, signal: AbortSignal, script: Script): Promise<Confirmed>
}

const SUPERVISOR_MS = 400

const DOWN_MS = 250

const silent = { info() {}, warn() {}, error() {} }

export class Fleet {
  /** Every life of every process, oldest first. */
  readonly all: Process[] = []
  /** Errors that a scheduler logged although nothing but the store was wrong. */
  readonly complaints: string[] = []
  readonly #watch: Watch
  readonly #far: Far & { restarts: number; deafUntil: number }
  readonly #plan: Plan
  readonly #doer: Doer
  readonly #lives = new Map<string, number>()

  constructor(
    watch: Watch,
    far: Far & { restarts: number; deafUntil: number },
    plan: Plan,
    doer: Doer,
  ) {
    this.#watch = watch
    this.#far = far
    this.#plan = plan
    this.#doer = doer
  }

  startAll(): void {
    for (const plan of this.#plan.nodes) this.start(plan)
  }

  /** Processes that can be asked for something. */
  up(): Process[] {
    return this.all.filter(({ node, closingAt }) => node.alive && closingAt === undefined)
  }

  /** The one that runs under a name, or another one that is up. */
  find(name: string): Process | undefined {
    const up = this.up()
    return up.findLast(({ plan }) => plan.name === name) ?? up.at(-1)
  }

  byHolder(holder: string): Process | undefined {
    return this.all.find(({ node }) => node.holder === holder)
  }

  start(plan: NodePlan, extraTypes: readonly string[] = []): Process {
    const life = (this.#lives.get(plan.name) ?? 0) + 1
    this.#lives.set(plan.name, life)
    if (life > 1) this.#watch.coverage.fault('restart with the same name')
    const { world, coverage } = this.#watch
    const node = new SimNode(world, plan.name, life, plan)
    const { link: network, leaseMs } = this.#plan.settings
    const link = new Link(node, this.#far, network, coverage, leaseMs)
    const process: Process = {
      plan,
      node,
      link,
      scheduler: this.#makeScheduler(node, link, plan, [...plan.types, ...extraTypes]),
      closingAt: undefined,
      closed: false,
      downMs: DOWN_MS,
      handles: new Map(),
    }
    this.all.push(process)
    node.onDeath = () => world.after(process.downMs, () => this.#comeBack(plan))
    world.trace.add(`${world.time} start ${node.label}`)
    // Inside an event of its own: a process that is dead by then does not start.
    node.after(0, () => this.#supervise(process))
    return process
  }

  #makeScheduler(node: SimNode, link: Link, plan: NodePlan, types: readonly string[]): AxScheduler {
    const { leaseMs, graceMs, maxZombies, keepMs, unknownDeps, brought } = this.#plan.settings
    const life = brought[(node.life - 1) % brought.length] as Brought
    const { pools, ageing, retryBudget } = life
    const policies = this.#policiesOf(node, life)
    const scheduler = new AxScheduler({
      store: link.store,
      runtime: node.runtime,
      name: plan.name,
      leaseMs,
      graceMs,
      maxZombies,
      keep: keepMs,
      unknownDeps,
      autoStart: plan.types.length > 0,
      ...(plan.bare ? {} : { pools, types: policies }),
      ...(plan.bare || ageing === undefined ? {} : { ageing }),
      ...(plan.bare || retryBudget === undefined ? {} : { retryBudget }),
      logger: { ...silent, error: (detail, text) => this.#complain(node, detail, text) },
    })
    for (const type of new Set(types)) {
      scheduler.define(type, policies[type] ?? {}, (context) =>
        this.#doer.run(node, context, context.payload as Script),
      )
    }
    return scheduler
  }

  /** Policies with the functions that only a process has. */
  #policiesOf(node: SimNode, { caps }: Brought): Record<string, TypePolicy> {
    const policies = Object.entries(this.#plan.settings.types).map(([type, spec]) => {
      const { asks, shaped, ...policy }: PolicySpec = spec
      const confirm: TypePolicy['confirm'] = ({ job, signal }) =>
        this.#doer.ask(node, job, signal, job.payload as Script)
      const whole: TypePolicy = {
        ...policy,
        ...(asks === true ? { confirm } : {}),
        ...(shaped === true ? { schema: this.#schema } : {}),
        ...(caps[type] === undefined ? {} : { concurrency: caps[type] }),
      }
      return [type, whole] as const
    })
    return Object.fromEntries(policies)
  }

  /** Marks what it has seen; every other time its answer takes a while. */
  readonly #schema: StandardSchemaV1 = {
    '~standard': {
      version: 1,
      vendor: 'simulated',
      validate: (value) => {
        const script = value as Script
        if (script.misshapen === true) {
          this.#watch.coverage.deed('refused by its schema')
          return { issues: [{ message: 'misshapen', path: ['misshapen'] }] }
        }
        const answer = { value: { ...script, shaped: true } }
        return script.op % 2 === 0 ? answer : Promise.resolve(answer)
      },
    },
  }

  /** A scheduler has no reason to log an error: the store's absence is nothing of that kind. */
  #complain(node: SimNode, detail: object, text: string | undefined): void {
    const { error } = detail as { readonly error?: unknown }
    if (isAxError(error, 'STORE_UNAVAILABLE')) return
    this.complaints.push(`${node.label}: ${text ?? ''} ${String(error)}`)
  }

  /** As a service manager would: a process whose start fails is told to start again. */
  async #supervise(process: Process): Promise<void> {
    const { scheduler, node, plan } = process
    if (plan.types.length === 0) return
    try {
      await scheduler.start()
    } catch (error) {
      if (!isAxError(error)) throw error
      const { code } = error as AxError
      this.#watch.coverage.code(code)
      if (code === 'CLOSED' || process.closingAt !== undefined) return
      node.after(SUPERVISOR_MS, () => this.#supervise(process))
    }
  }

  /** What a process with this name is told, or what befalls it. */
  apply(fault: Fault): void {
    const { coverage, world } = this.#watch
    if (fault.kind === 'store restart') {
      coverage.fault('store restart')
      this.#far.restarts += 1
      this.#far.deafUntil = world.time + fault.ms
      world.trace.add(`${world.time} store restart`)
      return
    }
    const process = this.up().findLast(({ plan }) => plan.name === fault.node)
    if (process === undefined) return
    const { node, link, plan } = process
    if (fault.kind === 'crash') {
      coverage.fault('crash')
      process.downMs = fault.downMs
      node.crash()
    } else if (fault.kind === 'stall') {
      coverage.fault('stall')
      node.stall(fault.ms)
    } else if (fault.kind === 'jump') {
      coverage.fault('clock jump')
      node.jumpMs += fault.ms
    } else if (fault.kind === 'partition') {
      link.cut.until = world.time + fault.ms
      link.cut.way = fault.way
    } else if (fault.kind === 'deploy') {
      coverage.fault('deploy')
      this.start(plan)
      world.after(fault.overlapMs, () => this.close(process, fault.drainMs))
    } else {
      coverage.fault('drain')
      this.close(process, fault.drainMs)
      world.after(fault.downMs, () => this.#comeBack(plan))
    }
  }

  /** Starts a process again unless another one of that name is up by now. */
  #comeBack(plan: NodePlan): void {
    if (!this.up().some((other) => other.plan.name === plan.name)) this.start(plan)
  }

  /** 38: once it is closed, its process holds nothing that the store would have to wait for. */
  close(process: Process, drainMs: number): void {
    const { node, scheduler, closingAt } = process
    if (!node.alive || closingAt !== undefined) return
    const { world } = this.#watch
    process.closingAt = world.time
    world.trace.add(`${world.time} close ${node.label} within ${drainMs}`)
    node.after(0, async () => {
      await scheduler.close({ drainMs })
      process.closed = true
      world.trace.add(`${world.time} closed ${node.label}`)
      this.#checkClosed(process)
    })
  }

  #checkClosed({ node }: Process): void {
    const { view, world } = this.#watch
    for (const seen of [...view.of('running'), ...view.holds]) {
      const { job } = seen
      const { lease } = job
      if (lease?.holder !== node.holder) continue
      const text = () => `${job.id}: closed ${node.label} has left lease ${lease.number}`
      // What it was never told of, or could not write in an outage, runs out by itself.
      const heard = this.#watch.hasBegun(lease.number)
      const excused = !world.healed || !heard || job.deadline <= world.time
      expect(this.#watch, 38, excused, text, [job.id])
    }
  }

  /** Crashed processes come back, and every type is served by somebody. */
  heal(): void {
    for (const { link } of this.all) link.cut.until = 0
    for (const plan of this.#plan.nodes) {
      const up = this.up().some((process) => process.plan.name === plan.name)
      if (!up) this.start(plan)
    }
    const first = this.#plan.nodes[0]
    if (first !== undefined) this.start({ ...first, bare: false, name: 'healer' }, TYPE_NAMES)
  }
}
