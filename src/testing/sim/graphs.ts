// Owns the drawing of jobs: alone, in chains, diamonds, fans and random graphs, with quorums,
// ghosts, keys and lanes. May never give a job something that the swarm has switched off.

import type { DepMode } from '../../core/job.ts'
import type { Feature } from './coverage.ts'
import type { Spec } from './plan.ts'
import { POOLS, TYPE_NAMES } from './policies.ts'
import type { Random } from './random.ts'
import { type ScriptWriter, writeScript } from './scripts.ts'

const KEYS = ['k1', 'k2', 'k3', 'k4']
const LANES = ['lane1', 'lane2', 'lane3']

type Dep = NonNullable<Spec['deps']>[number]
type Draft = { -readonly [K in keyof Spec]: Spec[K] }

export class Graphs {
  readonly #on: ReadonlySet<Feature>
  readonly #random: Random
  readonly #writer: ScriptWriter
  readonly #types: readonly string[] = TYPE_NAMES
  /** Ids that were given to a job, and ids that were named before anybody gave them. */
  readonly #known: string[] = []
  readonly #ghosts: string[] = []
  #count = 0
  #nesting = 0

  constructor(on: ReadonlySet<Feature>, random: Random, scripts: Random) {
    this.#on = on
    this.#random = random
    this.#writer = { on, random: scripts, children: (op) => this.#children(op) }
  }

  /** An id that may or may not exist by then. */
  anyId(random: Random): string {
    if (this.#known.length === 0 || random.chance(0.03)) return 'nobody'
    const recent = this.#known.slice(-40)
    return random.pick(random.chance(0.7) ? recent : this.#known)
  }

  single(op: number): Spec {
    const random = this.#random
    const id = random.chance(0.75) ? this.#newId() : undefined
    const deps = this.#chance('dependencies', 0.35) ? this.#someDeps(random.int(1, 3)) : []
    return this.#job(op, id, deps)
  }

  /** A chain, a diamond, a fan or a random graph, all in one insertion. */
  batch(op: number): Spec[] {
    const random = this.#random
    const shape = random.int(0, 3)
    const size = this.#chance('fan-in', 0.15) ? random.int(20, 200) : random.int(2, 7)
    if (shape === 0) return this.#chain(op, Math.min(size, 20))
    if (shape === 1) return this.#fan(op, size)
    if (shape === 2) return this.#diamond(op)
    return this.#anyGraph(op, Math.min(size, 12))
  }

  /** Insertions that together would close a loop: one at once, or two at the same time. */
  loop(op: number): Spec[][] {
    const random = this.#random
    const one = this.#newId()
    const other = this.#newId()
    const first = this.#job(op, one, [on(other)])
    const last = this.#job(op, other, [on(one)])
    if (random.chance(0.3)) return [[first, last]]
    if (random.chance(0.5)) return [[first], [last]]
    const middle = this.#newId()
    const between = this.#job(op, middle, [on(other)])
    return [[this.#job(op, one, [on(middle)])], [between], [last]]
  }

  #children(op: number): readonly Spec[] {
    if (this.#nesting > 0) return [this.#job(op, this.#newId(), [])]
    this.#nesting += 1
    const shards = Array.from({ length: this.#random.int(1, 3) }, () => {
      return this.#job(op, this.#random.chance(0.7) ? this.#newId() : undefined, [])
    })
    const named = shards.flatMap(({ id }) => (id === undefined ? [] : [on(id)]))
    const join = named.length > 1 ? [this.#job(op, this.#newId(), named)] : []
    this.#nesting -= 1
    return [...shards, ...join]
  }

  #chain(op: number, size: number): Spec[] {
    const jobs: Spec[] = []
    for (let index = 0; index < size; index += 1) {
      const before = jobs.at(-1)?.id
      jobs.push(this.#job(op, this.#newId(), before === undefined ? [] : [this.#dep(before)]))
    }
    return jobs
  }

  #fan(op: number, size: number): Spec[] {
    const leaves = Array.from({ length: size }, () => this.#job(op, this.#newId(), []))
    const joined = leaves.map(({ id }) => this.#dep(id as string))
    return [...leaves, this.#job(op, this.#newId(), joined)]
  }

  #diamond(op: number): Spec[] {
    const top = this.#job(op, this.#newId(), [])
    const sides = [0, 1].map(() => this.#job(op, this.#newId(), [this.#dep(top.id as string)]))
    const bottom = this.#job(
      op,
      this.#newId(),
      sides.map(({ id }) => this.#dep(id as string)),
    )
    return this.#random.shuffle([top, ...sides, bottom])
  }

  #anyGraph(op: number, size: number): Spec[] {
    const jobs: Spec[] = []
    for (let index = 0; index < size; index += 1) {
      const earlier = jobs.filter(() => this.#random.chance(0.4))
      const deps = earlier.map(({ id }) => this.#dep(id as string))
      const more = this.#random.chance(0.3) ? this.#someDeps(1) : []
      jobs.push(this.#job(op, this.#newId(), [...deps, ...more]))
    }
    return this.#random.shuffle(jobs)
  }

  /** Dependencies among what is known, or on ids that nobody has submitted yet. */
  #someDeps(count: number): Dep[] {
    return Array.from({ length: count }, () => {
      if (this.#chance('ghosts', 0.25)) return this.#dep(this.#ghost())
      if (this.#known.length === 0) return null
      const recent = this.#known.slice(-30)
      return this.#dep(this.#random.pick(recent))
    }).filter((dep) => dep !== null)
  }

  #ghost(): string {
    this.#count += 1
    const id = `g${this.#count}`
    if (this.#random.chance(0.6)) this.#ghosts.push(id)
    return id
  }

  #dep(id: string): Dep {
    return this.#chance('on end', 0.25) ? { id, on: 'end' } : on(id)
  }

  /** Sometimes the id of a ghost, which is filled by that. */
  #newId(): string {
    const ghost = this.#random.chance(0.3) ? this.#ghosts.shift() : undefined
    this.#count += 1
    const id = ghost ?? `j${this.#count}`
    this.#known.push(id)
    return id
  }

  #chance(feature: Feature, probability: number): boolean {
    const happens = this.#random.chance(probability)
    return happens && this.#on.has(feature)
  }

  #job(op: number, id: string | undefined, given: readonly Dep[]): Spec {
    const random = this.#random
    const deps = given.filter((dep) => dep.id !== id)
    const drawn = random.pick(this.#types)
    const type = this.#chance('preemption', 0.35)
      ? random.pick(['yielding', 'yielding', 'yielding', 'yielding', 'urgent'])
      : drawn
    const job: Draft = { type, script: writeScript(this.#writer, op, type) }
    if (id !== undefined) job.id = id
    if (deps.length > 0) {
      job.deps = deps
      const mode = this.#depMode(new Set(deps.map((dep) => dep.id)).size)
      if (mode !== undefined) job.depMode = mode
    }
    this.#addTerms(job)
    this.#addPlace(job)
    if (this.#chance('live bodies', 0.2)) job.live = true
    return job
  }

  #depMode(count: number): DepMode | undefined {
    if (!this.#chance('quorum', 0.5)) return undefined
    return this.#random.chance(0.5) ? 'any' : this.#random.int(1, count)
  }

  #addTerms(job: Draft): void {
    const random = this.#random
    const isPlain = job.type !== 'yielding' && job.type !== 'urgent'
    if (this.#chance('priorities', isPlain ? 0.6 : 0.15)) job.priority = random.int(1, 100)
    if (this.#chance('urgent work', 0.08)) job.priority = random.int(91, 100)
    if (this.#chance('timeouts', 0.25)) job.timeout = random.pick([30, 150, 700])
    if (this.#chance('retries', 0.35)) {
      job.retries = random.int(1, 4)
      const type = random.pick(['fixed', 'exponential'] as const)
      const delay = random.chance(0.2) ? 0 : random.int(0, 400)
      if (random.chance(0.7)) job.backoff = { type, delay }
    }
    if (this.#chance('not idempotent', 0.15)) job.idempotent = false
    if (this.#chance('heartbeats', 0.08)) job.heartbeat = random.pick([50, 120, 500])
    if (this.#chance('delays', 0.2)) job.delay = random.int(0, 4_000)
    if (this.#chance('enqueue timeout', 0.2)) job.enqueueTimeout = random.int(1, 2_000)
  }

  #addPlace(job: Draft): void {
    const random = this.#random
    if (this.#chance('keys', 0.2)) {
      job.key = random.pick(KEYS)
      if (this.#chance('windows', 0.5)) job.dedupeMs = random.pick([0, 200, 3_000])
    }
    if (this.#chance('lanes', 0.25)) job.exclusive = random.pick(LANES)
    if (random.chance(0.15)) job.pool = random.pick(POOLS)
  }
}

function on(id: string): Dep {
  return { id, on: 'success' }
}
