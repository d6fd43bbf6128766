// Owns the shape of a zombie, which a scheduler and a runner have in common.
// May never hold code.

/**
 * A body that was told to stop, did not within its grace, and no longer counts. Those of a
 * scheduler have the `id` and `type` of their job, those of a runner the `key` of their call:
 * what `zombies()` answers is typed as either.
 */
export interface ZombieRecord {
  readonly id?: string
  readonly type?: string
  readonly key?: string
  /** From 1. */
  readonly attempt: number
  /** Milliseconds since 1970. */
  readonly startedAt: number
  /** When its grace was over. */
  readonly since: number
  /**
   * Who runs it: the holder of the lease, as `job:running` names it, or of a runner the process,
   * as `pid:4711`.
   */
  readonly worker: string
  /** Where its job was submitted, or its type was defined, if that is known. */
  readonly startedFrom?: string
  /** With `trackAsync`: the kinds of what it has open, such as `['TCPWRAP x2', 'Timeout x1']`. */
  readonly asyncResources?: readonly string[]
}

/** A zombie of a scheduler. */
export type JobZombie = ZombieRecord & { readonly id: string; readonly type: string }

/** A zombie of a runner. */
export type CallZombie = ZombieRecord & { readonly key: string }
