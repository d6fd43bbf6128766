// Owns the shape of a plan: all that one seed decides before anything runs. A plan is data, so
// that a failing one can be made smaller by leaving parts of it out.
// May never draw a number, and may never run anything.

import type { RateTerms } from '../../core/gcra.ts'
import type { DepMode } from '../../core/job.ts'
import type { PoolOptions, PoolOptionsChange, RateOptions, TypePolicy } from '../../core/types.ts'

/** What one body does at its n-th attempt; the last list counts for all later ones. */
export type Step =
  /** `soft`: told to stop, it goes on at once instead of throwing. */
  | { readonly do: 'wait'; readonly ms: number; readonly soft?: boolean }
  /** Shows progress every so often for so long. */
  | { readonly do: 'beat'; readonly ms: number; readonly every: number }
  | {
      readonly do: 'throw'
      readonly code?: string
      readonly status?: number
      readonly retryable?: boolean
      readonly retryAfter?: number
    }
  | { readonly do: 'submit'; readonly jobs: readonly Spec[] }
  | { readonly do: 'crash' }
  | { readonly do: 'stall'; readonly ms: number }
  /** From here on it ignores the abort for so long; Infinity: for ever. */
  | { readonly do: 'deaf'; readonly ms: number }
  | { readonly do: 'return'; readonly what: 'nothing' | 'object' | 'unstorable' | 'large' }

export interface Script {
  /** Which operation submitted it: two submissions with one id differ in it. */
  readonly op: number
  readonly attempts: readonly (readonly Step[])[]
  /** What `confirm` says when it is asked for the n-th time; the last one counts for all later. */
  readonly answers?: readonly ConfirmAnswer[]
  /** Left by the schema of its type. */
  readonly shaped?: boolean
  /** The schema of its type refuses it. */
  readonly misshapen?: boolean
}

/** `hang`: until it is told to stop; `deaf`: for longer. */
export type ConfirmAnswer = 'done' | 'not' | 'throw' | 'nonsense' | 'hang' | 'deaf'

export interface Spec {
  readonly id?: string
  readonly type: string
  readonly script: Script
  /** The job carries its own body instead of relying on the handler of its type. */
  readonly live?: boolean
  readonly priority?: number
  readonly deps?: readonly { readonly id: string; readonly on: 'success' | 'end' }[]
  readonly depMode?: DepMode
  readonly timeout?: number
  readonly retries?: number
  readonly backoff?: { readonly type: 'fixed' | 'exponential'; readonly delay: number }
  readonly delay?: number
  readonly enqueueTimeout?: number
  readonly key?: string
  readonly dedupeMs?: number
  readonly exclusive?: string
  readonly pool?: string
  readonly flow?: string
  readonly idempotent?: boolean
  readonly heartbeat?: number
}

/** Something a user does through the scheduler of one node. */
export type OpAction =
  | { readonly kind: 'add'; readonly jobs: readonly Spec[] }
  | { readonly kind: 'invalid'; readonly variant: Invalid }
  | { readonly kind: 'cancel' | 'explain' | 'job' | 'result'; readonly id: string }
  | { readonly kind: 'retry'; readonly id: string; readonly downstream: boolean }
  | { readonly kind: 'pause' | 'resume'; readonly pool: string }
  | { readonly kind: 'configure'; readonly pool: string; readonly change: PoolOptionsChange }
  | { readonly kind: 'set'; readonly what: Setting }
  | { readonly kind: 'schedule'; readonly schedule: ScheduleSpec }
  | { readonly kind: 'unschedule'; readonly name: string }
  | { readonly kind: 'retryWhere'; readonly makeUp: MakeUpSpec }
  | { readonly kind: 'snapshot' | 'zombies' | 'events' | 'jobs' | 'doctor' | 'advise' }

/** What a process of another version sets as it starts, straight in the store. */
export type Setting =
  | { readonly ageing: AgeingSpec | null }
  | { readonly budget: RateTerms | null }
  | { readonly type: string; readonly concurrency: number | null }

export interface AgeingSpec {
  readonly every: number
  readonly ceiling: number
}

export interface ScheduleSpec {
  readonly name: string
  readonly cron: string
  readonly timeZone?: string
  readonly missed: 'skip' | 'one' | 'all'
  readonly job: Spec
  /** As if it had been stored so long ago, and nobody had looked since. */
  readonly staleMs?: number
}

export interface MakeUpSpec {
  readonly status?: 'failed' | 'cancelled'
  readonly type?: string
  readonly pool?: string
  readonly per?: RateOptions
  readonly untilMs?: number
}

export type Invalid =
  | 'no such type of value'
  | 'quorum'
  | 'dedupe without key'
  | 'unknown option'
  | 'unstorable payload'
  | 'too large'
  | 'too many'
  | 'pool option'

export type Op = OpAction & {
  readonly index: number
  readonly at: number
  readonly node: string
}

/** Something that happens to a process or to the store at a certain time. */
export type FaultAction =
  | { readonly kind: 'crash'; readonly downMs: number }
  | { readonly kind: 'stall'; readonly ms: number }
  | { readonly kind: 'jump'; readonly ms: number }
  | { readonly kind: 'partition'; readonly ms: number; readonly way: 'both' | 'to' | 'from' }
  /** A rolling deploy: the new process starts, the old one drains, both at once. */
  | { readonly kind: 'deploy'; readonly drainMs: number; readonly overlapMs: number }
  | { readonly kind: 'drain'; readonly drainMs: number; readonly downMs: number }
  /** Of the store: what is on its way is lost, and so are hints for a while. */
  | { readonly kind: 'store restart'; readonly ms: number }

export type Fault = FaultAction & { readonly at: number; readonly node: string }

/** How a link treats packets; each number is a probability per packet unless it says ms. */
export interface LinkSettings {
  readonly latencyMs: number
  readonly jitterMs: number
  readonly reorder: boolean
  readonly loseRequest: number
  readonly loseAnswer: number
  readonly duplicate: number
  readonly late: number
  /** How late a late packet is: often more than a lease. */
  readonly lateMs: number
  readonly busy: number
  readonly failBefore: number
  readonly failAfter: number
  readonly loseHint: number
  readonly duplicateHint: number
  readonly crashOnSend: number
  readonly crashOnAnswer: number
  readonly clientTimeoutMs: number
}

/** A policy as data: `asks` has a confirm, `shaped` a schema. */
export type PolicySpec = Omit<TypePolicy, 'retryable' | 'confirm' | 'schema' | 'backoff'> & {
  readonly backoff?: {
    readonly type: 'fixed' | 'exponential'
    readonly delay: number
    readonly max?: number
  }
  readonly asks?: boolean
  readonly shaped?: boolean
}

export interface Brought {
  readonly pools: Readonly<Record<string, PoolOptions>>
  readonly ageing?: AgeingSpec | false
  readonly retryBudget?: RateOptions | false
  /** Caps of types over all pools. */
  readonly caps: Readonly<Record<string, number>>
}

export interface NodePlan {
  readonly name: string
  readonly types: readonly string[]
  readonly concurrency: number
  /** It brings no policies of types: it goes by what is stored. */
  readonly bare: boolean
  readonly offsetMs: number
  readonly drift: number
}

export interface Settings {
  readonly leaseMs: number
  readonly graceMs: number
  readonly maxZombies: number
  readonly keepMs: {
    readonly success: number
    readonly failed: number
    readonly cancelled: number
    readonly outcomes: number
    readonly log: number
  }
  readonly unknownDeps: 'wait' | 'reject'
  readonly types: Readonly<Record<string, PolicySpec>>
  /** What processes bring along; the n-th life of a process brings the n-th, from the beginning. */
  readonly brought: readonly Brought[]
  readonly link: LinkSettings
  /** True time at the beginning: some runs go through a change of clocks. */
  readonly startAt: number
  /** How long the safety phase lasts. */
  readonly phaseMs: number
}

export interface Plan {
  readonly seed: number
  /** Which features and faults the swarm switched on. */
  readonly features: readonly string[]
  readonly settings: Settings
  readonly nodes: readonly NodePlan[]
  readonly ops: readonly Op[]
  readonly faults: readonly Fault[]
}
