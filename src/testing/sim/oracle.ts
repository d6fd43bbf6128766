// Owns what the oracles have in common: the run they watch, and how they complain.
// May never repair anything: the first violation ends the run.

import type { JobEvent, StoredJob } from '../../core/job.ts'
import type { Store } from '../../store/store.ts'
import type { Coverage } from './coverage.ts'
import { type Invariant, Violation } from './invariants.ts'
import type { Call } from './link.ts'
import type { Script } from './plan.ts'
import type { View } from './view.ts'
import type { World } from './world.ts'

/** What a body did and said under a lease, as far as it matters to those who judge. */
export interface Words {
  /** Of the error that it threw. */
  readonly retryable?: boolean
  readonly retryAfter?: number
  readonly transient?: boolean
  /** What came of asking whether an earlier attempt had taken effect. */
  readonly confirmed?: 'done' | 'not' | 'failed'
  /** For how long it had shown no progress when it was told to stop. */
  readonly silentMs?: number
  /** It was told to give way, and settled later than at once. */
  readonly late?: boolean
  readonly evicted?: boolean
}

/** What every oracle is given. */
export interface Watch {
  readonly world: World
  readonly view: View
  readonly coverage: Coverage
  /** The store itself, behind all links. */
  readonly raw: Store
  /** What the body of a job was told to do. */
  scriptOf(job: StoredJob): Script | undefined
  /** Whether a body has begun under that lease. */
  hasBegun(lease: number): boolean
  /** What its body has said under a lease. */
  wordsOf(lease: number): Words | undefined
  /** A body that goes on under that lease, awake all the time and not told to stop. */
  goesOn(lease: number): boolean
}

/** One write, with everything that it has done. */
export interface Commit {
  readonly call: Call
  readonly answer: unknown
  readonly now: number
  readonly events: readonly JobEvent[]
  /** The records as they were before and are now, by id; `after` is null for one that is gone. */
  readonly before: ReadonlyMap<string, StoredJob>
  readonly after: ReadonlyMap<string, StoredJob | null>
}

/** Complains unless `holds`; either way, the invariant has been put to the test. */
export function expect(
  watch: Watch,
  invariant: Invariant,
  holds: boolean,
  text: () => string,
  jobs: readonly string[] = [],
): void {
  watch.coverage.checked(invariant)
  if (holds) return
  const violation = new Violation(invariant, text(), jobs)
  // What is thrown inside a body is caught by the engine, and is not forgotten all the same.
  watch.world.failed ??= violation
  throw violation
}
