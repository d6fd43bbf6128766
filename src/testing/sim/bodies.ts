// Owns the bodies of jobs: they do what their script says, and write down whatever they do, as
// an outside system would that checks who may still act.
// May never use a clock other than the world's, and never outlive the process that runs them.

import type { Confirmed, Job, JobContext } from '../../core/types.ts'
import { expect, type Watch, type Words } from './oracle.ts'
import type { ConfirmAnswer, Script, Step } from './plan.ts'
import { FOREVER } from './scripts.ts'
import type { Submitter } from './submit.ts'
import type { SimNode } from './world.ts'

/** One call of a handler. */
export interface Body {
  readonly id: string
  readonly attempt: number
  /** Which job of that id it is; 0 if that was gone before it began. */
  seq: number
  /** 0 if it was not this process's any more. */
  lease: number
  readonly node: SimNode
  readonly startedAt: number
  readonly timeoutMs: number
  /** When it last showed that it is alive. */
  aliveAt: number
  abortedAt: number | undefined
  settledAt: number | undefined
  /** Until then it does not listen to its signal. */
  deafUntil: number
  /** Wakes it up, if it waits. */
  wake: (() => void) | undefined
}

export interface BodyLimits {
  readonly graceMs: number
  readonly maxZombies: number
  /** What a call over a link can take at most, once everything is healed. */
  readonly slackMs: number
}

export class Bodies {
  /** Every body that has not settled, of processes that are alive. */
  readonly live = new Set<Body>()
  /** Every lease under which a body has begun. */
  readonly begun = new Set<number>()
  readonly #byLease = new Map<number, Body>()
  /** What confirm has said before an attempt. */
  readonly #confirmed = new Map<string, Words['confirmed']>()
  readonly #words = new Map<number, Mutable<Words>>()
  /** How often each job has been asked about. */
  readonly #asked = new Map<string, number>()
  readonly #watch: Watch
  readonly #limits: BodyLimits
  readonly #submitter: Submitter

  constructor(watch: Watch, limits: BodyLimits, submitter: Submitter) {
    this.#watch = watch
    this.#limits = limits
    this.#submitter = submitter
  }

  /** A handler for one process. */
  async run(node: SimNode, context: JobContext, script: Script): Promise<unknown> {
    const { attempt, job, signal } = context
    const body = this.#begin(node, job, attempt, signal)
    this.#noteStart(body)
    const { attempts } = script
    const steps = attempts[Math.min(context.attempt, attempts.length) - 1] ?? []
    let result: unknown = { by: node.name, attempt: context.attempt }
    try {
      for (const step of steps) {
        this.#act(body)
        const given = await this.#step(body, context, step)
        if (given !== undefined) result = given.value
      }
      this.#act(body)
      return result
    } catch (error) {
      Object.assign(this.#wordsUnder(body), spoken(error))
      throw error
    } finally {
      this.#settle(body)
    }
  }

  /** A confirm for one process: whether an earlier attempt has taken effect. */
  async ask(node: SimNode, job: Job, signal: AbortSignal, script: Script): Promise<Confirmed> {
    const body = this.#begin(node, job, job.attemptLog.at(-1)?.attempt ?? 0, signal)
    const words = this.#wordsUnder(body)
    const key = `${body.id} ${body.seq}`
    const times = this.#asked.get(key) ?? 0
    this.#asked.set(key, times + 1)
    const { answers = [] } = script
    const answer = answers[Math.min(times, answers.length - 1)] ?? 'not'
    words.confirmed = 'failed'
    try {
      await this.#wait(body, { signal }, 5 + ((body.seq * 37) % 250))
      const given = await this.#answer(body, signal, answer)
      words.confirmed = given.done === true ? 'done' : given.done === false ? 'not' : 'failed'
      this.#confirmed.set(attemptOf(body), words.confirmed)
      const isKnown = words.confirmed !== 'failed'
      if (isKnown) this.#watch.coverage.deed(given.done ? 'confirmed' : 'not confirmed')
      return given
    } catch (error) {
      Object.assign(words, spoken(error))
      throw error
    } finally {
      this.#settle(body)
    }
  }

  async #answer(body: Body, signal: AbortSignal, answer: ConfirmAnswer): Promise<Confirmed> {
    const { coverage, world } = this.#watch
    if (answer === 'throw') {
      coverage.deed('confirm throws')
      throw Object.assign(new Error('Nobody answers.'), { code: 'ECONNREFUSED' })
    }
    if (answer === 'nonsense') return { done: 'maybe' } as unknown as Confirmed
    if (answer === 'hang' || answer === 'deaf') {
      coverage.deed('confirm hangs')
      if (answer === 'deaf' && !world.healed) body.deafUntil = world.time + FOREVER
      await this.#wait(body, { signal }, FOREVER)
    }
    return answer === 'done' ? { done: true, result: { confirmed: body.id } } : { done: false }
  }

  /** What a body has said and done under a lease. */
  wordsOf(lease: number): Words | undefined {
    const body = this.#byLease.get(lease)
    const words = this.#words.get(lease)
    if (body?.abortedAt === undefined) return words
    return { ...words, late: (body.settledAt ?? this.#watch.world.time) > body.abortedAt }
  }

  #wordsUnder({ lease }: Body): Mutable<Words> {
    const known = this.#words.get(lease)
    if (known !== undefined) return known
    const made: Mutable<Words> = {}
    this.#words.set(lease, made)
    return made
  }

  #settle(body: Body): void {
    body.settledAt = this.#watch.world.time
    this.live.delete(body)
  }

  /** Everybody listens from here on; those who were told to stop long ago do so now. */
  heal(): void {
    for (const body of [...this.live]) {
      if (!body.node.alive) continue
      body.deafUntil = 0
      body.wake?.()
    }
  }

  /** Whether the body under a lease, in a process awake throughout, was not told to stop. */
  goesOn(lease: number): boolean {
    const body = this.#byLease.get(lease)
    if (body === undefined || body.settledAt !== undefined || !body.node.alive) return false
    return body.abortedAt === undefined && body.node.lastStall < body.startedAt
  }

  /** Bodies of a process that were told to stop, have used up their grace and go on. */
  zombiesOf(node: SimNode, at: number): Body[] {
    return [...this.live].filter((body) => {
      if (body.node !== node || body.abortedAt === undefined) return false
      return body.abortedAt + this.#limits.graceMs < at
    })
  }

  /** Whether there are more of them than may be zombies: some keep their leases. */
  isCrowded(node: SimNode, at: number): boolean {
    return this.zombiesOf(node, at).length > this.#limits.maxZombies
  }

  #begin(node: SimNode, job: Job, attempt: number, signal: AbortSignal): Body {
    const { world } = this.#watch
    const body: Body = {
      id: job.id,
      attempt,
      seq: 0,
      lease: 0,
      node,
      startedAt: world.time,
      timeoutMs: job.timeout,
      aliveAt: world.time,
      abortedAt: undefined,
      settledAt: undefined,
      deafUntil: 0,
      wake: undefined,
    }
    this.live.add(body)
    this.#noteLease(body)
    const onAbort = () => {
      if (body.abortedAt === undefined) this.#noteAbort(body, signal)
      body.abortedAt ??= world.time
      if (world.time < body.deafUntil) this.#watch.coverage.fault('ignores the abort')
      else body.wake?.()
    }
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
    world.trace.add(`${world.time} ${node.label} starts ${body.id} attempt ${body.attempt}`)
    if (body.timeoutMs > 0) this.#guardTimeout(body)
    return body
  }

  #noteAbort(body: Body, signal: AbortSignal): void {
    const { world, coverage } = this.#watch
    const { code } = signal.reason as { readonly code?: string }
    const words = this.#wordsUnder(body)
    words.silentMs = world.time - body.aliveAt
    words.evicted = code === 'PREEMPTED'
    if (code === 'PREEMPTED') coverage.code(code)
  }

  /** The body itself has been called, not only the question about an earlier one. */
  #noteStart(body: Body): void {
    if (body.lease === 0) return
    this.begun.add(body.lease)
    this.#byLease.set(body.lease, body)
    const seen = this.#watch.view.jobs.get(body.id)
    if (seen === undefined) return
    const { terms } = seen.job
    // Not what was said under its lease: that may have become a hold while the answer came.
    const confirmed = this.#confirmed.get(attemptOf(body))
    const may = !seen.unknown || !terms.confirm || confirmed === 'not'
    const text = () => `${body.id}: starts after an unknown outcome, and confirm said ${confirmed}`
    expect(this.#watch, 16, may, text, [body.id])
    if (terms.heartbeatMs > 0) this.#guardSilence(body, terms.heartbeatMs)
  }

  /** 17: whoever is silent for too long is told to stop. */
  #guardSilence(body: Body, ms: number): void {
    const { world } = this.#watch
    const left = body.aliveAt + ms - world.time
    world.after(left + 1, () => {
      const awake = body.node.alive && body.node.lastStall < body.startedAt
      if (body.settledAt !== undefined || body.abortedAt !== undefined || !awake) return
      const silentMs = world.time - body.aliveAt
      const text = () => `${body.id}: silent for ${silentMs} ms, and not told to stop`
      expect(this.#watch, 17, silentMs <= ms, text, [body.id])
      this.#guardSilence(body, ms)
    })
  }

  /** An id may be given to another job later, so a body is known by its lease. */
  #noteLease(body: Body): void {
    const seen = this.#watch.view.jobs.get(body.id)
    const lease = seen?.job.lease
    if (seen?.starts !== body.attempt || lease?.holder !== body.node.holder) return
    body.seq = seen.job.seq
    const { deadline } = seen.job
    const { time } = this.#watch.world
    const text = () => `${body.id}: starts ${time - deadline} ms after the end of its lease`
    expect(this.#watch, 11, deadline > time, text, [body.id])
    body.lease = lease.number
  }

  /** 17: the abort comes at the timeout, and the job is off by timeout and grace. */
  #guardTimeout(body: Body): void {
    const { world } = this.#watch
    const awake = () => body.node.alive && body.node.lastStall < body.startedAt
    world.after(body.timeoutMs + 1, () => {
      if (body.settledAt !== undefined || !awake()) return
      const text = () => `${body.id}: not aborted ${body.timeoutMs} ms after its start`
      expect(this.#watch, 17, body.abortedAt !== undefined, text, [body.id])
    })
    const { graceMs, slackMs } = this.#limits
    const healthy = world.healed
    world.after(body.timeoutMs + graceMs + slackMs, () => {
      if (!healthy || !awake()) return
      const seen = this.#watch.view.jobs.get(body.id)
      const same = seen?.job.seq === body.seq && seen.starts === body.attempt
      const left = !same || seen.status !== 'running' || this.isCrowded(body.node, world.time)
      const text = () => `${body.id}: still running after its timeout and its grace`
      expect(this.#watch, 17, left, text, [body.id])
    })
  }

  /**
   * The outside ledger: whoever acts without having been told to stop must still be the one that
   * the store has given the job to. A process that was stalled may act once before it notices.
   */
  #act(body: Body): void {
    const { view, world } = this.#watch
    world.trace.add(`${world.time} ${body.node.label} ${body.id} acts`)
    if (body.abortedAt !== undefined || !body.node.alive) return
    const seen = view.jobs.get(body.id)
    const lease = seen?.job.lease
    const mine = lease?.holder === body.node.holder && seen?.starts === body.attempt
    const stalled = body.node.lastStall >= body.startedAt
    if (stalled) return
    const text = () =>
      `${body.id}: attempt ${body.attempt} acts on ${body.node.label} and was not told to stop, ` +
      `but its lease is ${lease === undefined ? 'gone' : `${lease.number} of ${lease.holder}`}`
    expect(this.#watch, 11, mine, text, [body.id])
  }

  async #step(
    body: Body,
    context: JobContext,
    step: Step,
  ): Promise<{ readonly value: unknown } | undefined> {
    const { node } = body
    switch (step.do) {
      case 'wait':
        await this.#wait(body, context, step.ms, step.soft)
        return undefined
      case 'beat':
        return this.#beat(body, context, step)
      case 'throw':
        throw thrown(step)
      case 'submit':
        await this.#submitter.fromBody(context, step.jobs)
        return undefined
      case 'crash':
        return this.#crash(body)
      case 'stall':
        if (this.#watch.world.healed) return undefined
        this.#watch.coverage.fault('stall inside a body')
        node.stall(step.ms)
        await this.#wait(body, context, 0)
        return undefined
      case 'deaf':
        body.deafUntil = this.#watch.world.healed ? 0 : this.#watch.world.time + step.ms
        return undefined
      case 'return':
        return { value: RESULTS[step.what]() }
    }
  }

  /** Nothing of this process happens after this: not even what this body would do next. */
  #crash(body: Body): Promise<never> | undefined {
    if (this.#watch.world.healed) return undefined
    this.#watch.coverage.fault('crash inside a body')
    body.node.crash()
    this.live.delete(body)
    return new Promise(() => {})
  }

  async #beat(body: Body, context: JobContext, step: Step & { do: 'beat' }): Promise<undefined> {
    const { world, coverage } = this.#watch
    for (let left = step.ms; left > 0; left -= step.every) {
      body.aliveAt = world.time
      context.progress(left)
      coverage.deed('beats')
      await this.#wait(body, context, Math.min(left, step.every))
    }
    return undefined
  }

  /** `soft`: told to stop, it goes on at once. */
  #wait(
    body: Body,
    context: { readonly signal: AbortSignal },
    ms: number,
    soft = false,
  ): Promise<void> {
    const { world } = this.#watch
    return new Promise((resolve, reject) => {
      const settle = () => {
        if (context.signal.aborted && world.time >= body.deafUntil) {
          end()
          if (soft) resolve()
          else reject(context.signal.reason)
        } else if (world.healed && ms >= 1_000_000) {
          end()
          resolve()
        }
      }
      const end = () => {
        body.wake = undefined
        timer.cancel()
        waking?.cancel()
      }
      const timer = body.node.after(ms, () => {
        end()
        resolve()
      })
      const deafMs = body.deafUntil - world.time
      const waking = deafMs > 0 && deafMs < ms ? body.node.after(deafMs, settle) : undefined
      body.wake = settle
      settle()
    })
  }
}

const RESULTS: Readonly<Record<(Step & { do: 'return' })['what'], () => unknown>> = {
  nothing: () => undefined,
  object: () => ({ list: [1, 'two', null], nested: { yes: true } }),
  unstorable: () => ({ big: 1n }),
  large: () => 'x'.repeat(1_100_000),
}

function thrown(step: Step & { do: 'throw' }): Error {
  const error = new Error('The script says so.')
  const { code, status, retryable, retryAfter } = step
  return Object.assign(error, {
    ...(status === undefined ? {} : { status }),
    ...(code === undefined ? {} : { code }),
    ...(retryable === undefined ? {} : { retryable }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  })
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** What an error says about another attempt, and about what lies behind the job. */
function spoken(error: unknown): Words {
  const { code, status, retryable, retryAfter } = error as {
    readonly code?: string
    readonly status?: number
    readonly retryable?: boolean
    readonly retryAfter?: number
  }
  const isIll = code?.startsWith('ECONN') === true || status === 503 || retryable === true
  return {
    retryable: retryable !== false,
    transient: isIll && retryable !== false && code !== 'QUEUE_OVERFLOW',
    ...(retryAfter === undefined ? {} : { retryAfter }),
  }
}

function attemptOf({ id, seq, attempt }: Body): string {
  return `${id} ${seq} ${attempt}`
}
