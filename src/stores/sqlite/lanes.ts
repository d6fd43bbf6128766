// Owns lanes and keys: who holds what, and who is next.
// May never change a status: it answers what follows, and the board moves.

import { isBefore } from '../../core/rank.ts'
import type { Row } from './row.ts'
import type { Session } from './session.ts'

interface Lane {
  readonly holder: number
  /** Whether the holder has been leased since it was admitted: until then it may have to yield. */
  readonly started: number
}

export class Lanes {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** Asks for the lane: it is free or its own; the holder yields; or the job has to wait. */
  ask(row: Row, name: string): 'free' | 'wait' | Row {
    if (!row.inLane) {
      row.inLane = true
      this.#session.touch(row)
    }
    const claim = this.claimOn(name)
    if (claim?.by === row) return 'free'
    if (claim === undefined) {
      this.#session.run('setLane', name, row.seq)
      return 'free'
    }
    const { by, yields } = claim
    if (!yields || !isBefore(row.rank, row.seq, by.rank, by.seq)) return 'wait'
    this.#session.run('setLane', name, row.seq)
    return by
  }

  /** Who holds a lane by this name, and whether it would yield to somebody better. */
  claimOn(name: string): { readonly by: Row; readonly yields: boolean } | undefined {
    const lane = this.#session.first<Lane>('lane', name)
    const by = lane === undefined ? undefined : this.#session.bySeq(lane.holder)
    if (lane === undefined || by === undefined) return undefined
    return { by, yields: by.status === 'ready' && lane.started === 0 }
  }

  started(row: Row): void {
    if (row.lane !== undefined && row.inLane) this.#session.run('startLane', row.lane)
  }

  /** A job has ended for good. Answers the job that is admitted in its place. */
  release(row: Row): Row | undefined {
    if (row.lane === undefined || !row.inLane) return undefined
    row.inLane = false
    this.#session.touch(row)
    const lane = this.#session.first<Lane>('lane', row.lane)
    if (lane?.holder !== row.seq) return undefined
    const [next] = this.#session.rows('laneNext', row.lane)
    if (next === undefined) this.#session.run('removeLane', row.lane)
    else this.#session.run('setLane', row.lane, next.seq)
    return next
  }

  /** Who holds the lane of a job that waits for it. */
  holderOf(row: Row): string | undefined {
    if (row.lane === undefined || !row.inLane) return undefined
    const by = this.claimOn(row.lane)?.by
    return by === row ? undefined : by?.id
  }
}

export class Keys {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  /** The job that owns a key now. A window that is over is taken over by whoever comes. */
  ownerOf(key: string): Row | undefined {
    const held = this.#session.first<{ owner: number; until: number }>('key', key)
    if (held === undefined) return undefined
    const isHeld = held.until === 0 || held.until > this.#session.now
    return isHeld ? this.#session.bySeq(held.owner) : undefined
  }

  take({ key, seq }: Row): void {
    if (key !== undefined) this.#session.run('setKey', key, seq, 0)
  }

  /** Frees the key at once, or after the window; only if this job is its owner. */
  release({ key, seq }: Row, until: number): void {
    if (key === undefined) return
    const held = this.#session.first<{ owner: number }>('key', key)
    if (held?.owner !== seq) return
    if (until > 0) this.#session.run('setKey', key, seq, until)
    else this.#session.run('removeKey', key)
  }
}
