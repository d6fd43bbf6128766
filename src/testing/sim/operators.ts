// Owns what users do: each drawn operation through the public face, and whether the answer they
// get is true. May never look behind the face to act, only to judge.

import { isAxError } from '../../core/errors.ts'
import type { JobContext, JobHandle, JobInput } from '../../core/types.ts'
import type { Administrators } from './administer.ts'
import type { Bodies } from './bodies.ts'
import { isEnd } from './copy.ts'
import type { Fleet, Process } from './fleet.ts'
import { expect, type Watch } from './oracle.ts'
import type { Invalid, Op, Spec } from './plan.ts'
import { type LiveBody, type Submitter, toInput } from './submit.ts'

/** Codes that say for certain that nothing was stored. */
const REFUSALS: readonly string[] = [
  ...['DUPLICATE_ID', 'KEY_TAKEN', 'CYCLE', 'UNKNOWN_DEPENDENCY', 'INVALID_JOB', 'TOO_LARGE'],
  ...['LEASE_LOST', 'CLOSED', 'QUEUE_OVERFLOW'],
]

const REPEAT_MS = 60

const AGAIN_MS = 400

/** Longer than any call takes: who waits longer does so for room. */
const PATIENCE_MS = 12_000

export class Operators implements Submitter {
  done = 0
  /** Calls of `result()` that have not settled, with the process that waits. */
  readonly pending = new Set<{ readonly id: string; readonly process: Process }>()
  /** Submissions that have not been answered. */
  readonly adding = new Set<{ readonly id: string; readonly process: Process }>()
  readonly #administrators: Administrators
  readonly #watch: Watch
  readonly #doubled: boolean
  #fleet!: Fleet
  #bodies!: Bodies

  /** `doubled`: a refused request may arrive once more, and be granted then. */
  constructor(watch: Watch, doubled: boolean, administrators: Administrators) {
    this.#watch = watch
    this.#administrators = administrators
    this.#doubled = doubled
  }

  connect(fleet: Fleet, bodies: Bodies): void {
    this.#fleet = fleet
    this.#bodies = bodies
  }

  /** The handler that jobs carry with them: it runs on whatever process has the lease. */
  readonly runLive: LiveBody = (context, script) => {
    const holder = context.job.attemptLog.at(-1)?.worker ?? ''
    const process = this.#fleet.byHolder(holder)
    if (process === undefined) throw new Error(`nobody knows the holder ${holder}`)
    return this.#bodies.run(process.node, context, script)
  }

  async fromBody(context: JobContext, jobs: readonly Spec[]): Promise<void> {
    try {
      const handles = await context.submit(jobs.map((spec) => toInput(spec, this.runLive)))
      this.#acknowledged(handles)
    } catch (error) {
      this.#note(error)
      throw error
    }
  }

  /** Does one operation on the process that it was drawn for, or on another that is up. */
  perform(op: Op): void {
    const process = this.#fleet.find(op.node)
    const { world } = this.#watch
    if (process === undefined) {
      // Nobody is up: users come again.
      if (!world.healed) world.after(AGAIN_MS, () => this.perform(op))
      return
    }
    this.done += 1
    if (op.kind === 'add') this.#noteRepeats(op.jobs, op.index)
    world.trace.add(`${world.time} ${process.node.label} ${op.kind} ${op.index}`)
    process.node.after(0, () => this.#attempt(process, op))
  }

  /** What is submitted again, alone, may be stored although its first batch is refused. */
  #noteRepeats(jobs: readonly Spec[], index: number): void {
    for (const { id, script } of jobs) {
      if (id !== undefined && script.op !== index) this.#watch.view.uncertain.add(id)
    }
  }

  async #attempt(process: Process, op: Op): Promise<void> {
    try {
      await this.#do(process, op)
    } catch (error) {
      this.#note(error)
      if (!isAxError(error)) throw error
      if (op.kind === 'add') this.#afterRefusal(process, op, op.jobs, error.code)
    }
  }

  #note(error: unknown): void {
    if (isAxError(error)) this.#watch.coverage.code(error.code)
  }

  async #do(process: Process, op: Op): Promise<void> {
    const { scheduler } = process
    if (await this.#administrators.perform(process, op)) return
    switch (op.kind) {
      case 'add':
        return this.#add(process, op.jobs)
      case 'invalid':
        return this.#invalid(process, op.variant)
      case 'cancel':
        return this.#cancel(process, this.#named(op.id))
      case 'retry':
        return this.#retry(process, op.id, op.downstream)
      case 'result':
        return this.#result(process, op.id)
      case 'explain':
        return this.#explain(process, op.id)
      case 'job':
        await scheduler.job(op.id)
        return
      case 'pause':
        return scheduler.pool(op.pool).pause()
      case 'resume':
        return scheduler.pool(op.pool).resume()
      case 'snapshot':
        return this.#snapshot(process)
      case 'zombies':
        return this.#zombies(process)
      case 'events':
        return this.#events(process)
      case 'jobs':
        return this.#jobs(process)
    }
  }

  async #add(process: Process, jobs: readonly Spec[]): Promise<void> {
    const inputs = jobs.map((spec) => toInput(spec, this.runLive))
    const handles = await this.#submit(process, inputs)
    for (const handle of handles) process.handles.set(handle.id, handle)
    expect(this.#watch, 1, handles.length === jobs.length, () => 'not as many handles as jobs')
    this.#acknowledged(handles)
  }

  /** Where pools are full it may take as long as it takes. */
  async #submit(process: Process, inputs: readonly JobInput[]): Promise<readonly JobHandle[]> {
    const { scheduler } = process
    const { world, coverage } = this.#watch
    const adding = { id: inputs.map(({ id }) => id).join(' '), process }
    this.adding.add(adding)
    const patience = process.node.after(PATIENCE_MS, () => coverage.deed('waits for room'))
    const begun = world.time
    try {
      const handles =
        inputs.length === 1
          ? [await scheduler.addJob(inputs[0] as JobInput)]
          : await scheduler.addJobs(inputs)
      if (world.time - begun > PATIENCE_MS) coverage.deed('let in after waiting')
      return handles
    } finally {
      patience.cancel()
      this.adding.delete(adding)
    }
  }

  /** 1: what was acknowledged is there, or has been there and was forgotten by the rules. */
  #acknowledged(handles: readonly JobHandle[]): void {
    const { view } = this.#watch
    for (const { id } of handles) {
      const there = view.jobs.has(id) || view.ever.has(id)
      expect(this.#watch, 1, there, () => `${id}: acknowledged and not there`, [id])
    }
  }

  /** 36, 40: what was refused left nothing; what may or may not have happened is asked again. */
  #afterRefusal(process: Process, op: Op, jobs: readonly Spec[], code: string): void {
    const { view, world } = this.#watch
    if (code === 'STORE_UNAVAILABLE') {
      for (const { id } of jobs) if (id !== undefined) view.uncertain.add(id)
      if (jobs.every(({ id }) => id !== undefined) && !world.healed) {
        process.node.after(REPEAT_MS, () => this.#attempt(process, op))
      }
      return
    }
    if (!REFUSALS.includes(code) || this.#doubled) return
    for (const { id, script } of jobs) {
      if (id === undefined || script.op !== op.index || view.uncertain.has(id)) continue
      const seen = view.jobs.get(id)
      const stored = seen !== undefined && this.#watch.scriptOf(seen.job)?.op === op.index
      expect(this.#watch, 40, !stored, () => `${id}: refused with ${code}, and stored`, [id])
    }
  }

  /** `*3` is the third of those that run at this moment, going round. */
  #named(id: string): string {
    if (!id.startsWith('*')) return id
    const running = [...this.#watch.view.of('running')]
    return running[Number(id.slice(1)) % running.length]?.job.id ?? 'nobody'
  }

  /** 37: true means that somebody has cancelled it in the meantime; false, that it had ended. */
  async #cancel(process: Process, id: string): Promise<void> {
    const { view, world } = this.#watch
    const begun = world.time
    const doomed = this.#isOver(id)
    const handle = process.handles.get(id)
    const answer = await (handle === undefined ? process.scheduler.cancel(id) : handle.cancel())
    const log = view.logOf(id)
    const cancelled = log.some((event) => event.at >= begun && event.code === 'CANCELLED')
    if (answer) {
      expect(this.#watch, 37, cancelled, () => `${id}: cancel said true, and it was not`, [id])
      return
    }
    const over = doomed || this.#isOver(id) || log.some((event) => event.at >= begun)
    expect(this.#watch, 37, over, () => `${id}: cancel said false, and it had not ended`, [id])
  }

  #isOver(id: string): boolean {
    const { view } = this.#watch
    const seen = view.jobs.get(id)
    return seen === undefined || isEnd(seen.status) || view.isDoomed(seen)
  }

  async #retry(process: Process, id: string, downstream: boolean): Promise<void> {
    const { view, world } = this.#watch
    const begun = world.time
    const before = view.jobs.get(id)
    const couldBefore = before !== undefined && isRevivable(before.status, before.job.lease)
    const answer = await process.scheduler.retry(id, { downstream })
    const log = view.logOf(id)
    const since = log.some((event) => event.at >= begun)
    const revived = log.some((event) => event.at >= begun && event.event === 'job:revived')
    if (answer) {
      expect(this.#watch, 37, revived, () => `${id}: retry said true, and nothing happened`, [id])
    } else {
      const text = () => `${id}: retry said false, and it could have been revived`
      expect(this.#watch, 37, !couldBefore || since || !view.jobs.has(id), text, [id])
    }
  }

  async #result(process: Process, id: string): Promise<void> {
    const handle = process.handles.get(id)
    if (handle === undefined) return
    const waiting = { id, process }
    this.pending.add(waiting)
    const { view } = this.#watch
    try {
      await handle.result()
      const ended = view.logOf(id).some((event) => event.to === 'success')
      expect(this.#watch, 37, ended, () => `${id}: result() resolved without a success`, [id])
    } catch (error) {
      if (!isAxError(error)) throw error
      const { code } = error
      const known = ['GONE', 'CLOSED'].includes(code)
      const ended = view.logOf(id).some((event) => isEnd(event.to) && event.code === code)
      const text = () => `${id}: result() rejected with ${code}, which is not how it ended`
      expect(this.#watch, 37, known || ended, text, [id])
      throw error
    } finally {
      this.pending.delete(waiting)
    }
  }

  async #explain(process: Process, id: string): Promise<void> {
    const answer = await process.scheduler.explain(id)
    const total = answer.id === id && answer.reason !== '' && answer.text.length > 10
    expect(this.#watch, 41, total, () => `${id}: explain has nothing to say`, [id])
  }

  async #snapshot(process: Process): Promise<void> {
    const { total, states, types } = await process.scheduler.snapshot()
    const sum = (counts: object) => Object.values(counts).reduce((one, other) => one + other, 0)
    const byType = Object.values(types).reduce((all, counts) => all + sum(counts), 0)
    const text = () => `snapshot: ${total} in all, ${sum(states)} by state, ${byType} by type`
    expect(this.#watch, 3, total === sum(states) && total === byType, text)
  }

  /** 12: who is on the list was told to stop long enough ago, and still goes on. */
  async #zombies({ node, scheduler, closed }: Process): Promise<void> {
    const { world } = this.#watch
    const listed = scheduler.zombies().map(({ id, attempt }) => `${id} ${attempt}`)
    const bodies = [...this.#bodies.live].filter((body) => body.node === node)
    const stubborn = bodies.filter((body) => body.abortedAt !== undefined)
    const names = stubborn.map(({ id, attempt }) => `${id} ${attempt}`)
    const real = listed.every((name) => names.includes(name))
    expect(this.#watch, 12, real, () => `zombies ${listed} are not all of ${names}`)
    if (node.lastStall >= world.time - 10_000 || closed) return
    const overdue = this.#bodies.zombiesOf(node, world.time)
    const missing = overdue.filter(({ id, attempt }) => !listed.includes(`${id} ${attempt}`))
    const text = () => `not on the zombie list: ${missing.map(({ id }) => id).join(', ')}`
    // Where the list is full, the others wait for their place on it.
    expect(
      this.#watch,
      12,
      missing.length === 0 || this.#bodies.isCrowded(node, world.time),
      text,
      missing.map(({ id }) => id),
    )
  }

  async #events(process: Process): Promise<void> {
    let last = 0
    for await (const event of process.scheduler.events()) {
      expect(this.#watch, 5, event.seq > last, () => `events() went back to ${event.seq}`)
      last = event.seq
      if (last > 300) break
    }
    for await (const _ of process.scheduler.events({ after: 0 })) break
  }

  async #jobs(process: Process): Promise<void> {
    const ids = new Set<string>()
    const status = ['failed', 'ready'] as const
    for await (const job of process.scheduler.jobs({ status, limit: 30 })) {
      expect(this.#watch, 2, !ids.has(job.id), () => `jobs() listed ${job.id} twice`, [job.id])
      ids.add(job.id)
    }
  }

  async #invalid(process: Process, variant: Invalid): Promise<void> {
    if (variant === 'pool option') return this.#administrators.refused(process)
    const { scheduler } = process
    const before = this.#watch.view.added
    await scheduler.addJobs(INVALID[variant]()).then(
      () => expect(this.#watch, 40, false, () => `${variant}: was accepted`),
      (error: unknown) => {
        this.#note(error)
        const known = isAxError(error) && ALLOWED.includes(error.code)
        expect(this.#watch, 40, known, () => `${variant}: refused with ${String(error)}`)
      },
    )
    const trace = [...this.#watch.view.jobs.keys()].some((id) => id.startsWith('invalid'))
    expect(this.#watch, 40, !trace, () => `${variant}: left a trace, ${before}`)
  }
}

const ALLOWED: readonly string[] = ['INVALID_JOB', 'TOO_LARGE', 'STORE_UNAVAILABLE', 'CLOSED']

const INVALID: Readonly<Record<Exclude<Invalid, 'pool option'>, () => JobInput[]>> = {
  'no such type of value': () => [
    { id: 'invalid1', type: 'plain' },
    { id: 'invalid2', type: 'plain', priority: 101 },
  ],
  quorum: () => [{ id: 'invalid3', type: 'plain', deps: ['a', 'b', 'a'], depMode: 3 }],
  'dedupe without key': () => [{ id: 'invalid4', type: 'plain', dedupe: { for: 10 } }],
  'unknown option': () => [{ id: 'invalid5', type: 'plain', prority: 5 } as JobInput],
  'unstorable payload': () => [{ id: 'invalid6', type: 'plain', payload: { f: () => 1 } }],
  'too large': () => [{ id: 'invalid7', type: 'plain', payload: 'x'.repeat(1_100_000) }],
  'too many': () => {
    const job: JobInput = { type: 'plain' }
    return new Array<JobInput>(10_001).fill(job)
  },
}

function isRevivable(status: string, lease: object | undefined): boolean {
  return (status === 'failed' || status === 'cancelled') && lease === undefined
}
