// Owns lanes and keys: who holds what, and who is next.
// May never change a status: it answers what follows, and the store moves.

import { isBefore } from '../../core/rank.ts'
import { Heap } from '../../kit/heap.ts'
import type { JobRecord } from './record.ts'

/** Jobs that run one at a time. */
export interface Lane {
  readonly name: string
  holder: JobRecord | undefined
  /** Whether the holder has been leased since it was admitted: until then it may have to yield. */
  started: boolean
  /** Made for the first waiter: most lanes never have one. */
  queue: Heap<JobRecord> | undefined
}

interface Claim {
  readonly by: JobRecord
  readonly yields: boolean
}

export class Lanes {
  readonly #lanes = new Map<string, Lane>()

  /** Asks for the lane: it is free or its own; the holder yields; or the job has to wait. */
  ask(record: JobRecord, name: string): 'free' | 'wait' | JobRecord {
    const lane = this.#laneOf(record, name)
    const holder = lane.holder
    if (holder === record) return 'free'
    if (holder === undefined) {
      this.#admit(lane, record)
      return 'free'
    }
    const mayYield = holder.status === 'ready' && !lane.started
    if (mayYield && isBefore(record.rank, record.seq, holder.rank, holder.seq)) {
      this.#admit(lane, record)
      return holder
    }
    return 'wait'
  }

  /** Who holds a lane by this name, and whether it would yield to somebody better. */
  claimOn(name: string): (Pick<JobRecord, 'rank' | 'seq'> & Claim) | undefined {
    const lane = this.#lanes.get(name)
    const holder = lane?.holder
    if (lane === undefined || holder === undefined) return undefined
    const yields = holder.status === 'ready' && !lane.started
    return { by: holder, rank: holder.rank, seq: holder.seq, yields }
  }

  /** The rank of a job in line has changed. Who holds the lane goes on holding it. */
  ranked(record: JobRecord): void {
    record.has.lane?.queue?.update(record.at, record.rank, record.seq)
  }

  /** Puts a job in line, with the rank that it has now. */
  wait(record: JobRecord): void {
    const lane = record.has.lane
    if (lane === undefined) return
    lane.queue ??= new Heap((waiter, index) => {
      waiter.at = index
    })
    lane.queue.push(record, record.rank, record.seq)
  }

  /** Takes a job out of the line. */
  leave(record: JobRecord): void {
    record.has.lane?.queue?.remove(record.at)
  }

  started(record: JobRecord): void {
    if (record.has.lane !== undefined) record.has.lane.started = true
  }

  /** A job has ended for good. Answers the job that is admitted in its place. */
  release(record: JobRecord): JobRecord | undefined {
    const lane = record.has.lane
    if (lane === undefined) return undefined
    record.rare.lane = undefined
    if (lane.holder !== record) {
      this.#drop(lane)
      return undefined
    }
    lane.holder = undefined
    const next = lane.queue?.pop()
    if (next === undefined) this.#drop(lane)
    else this.#admit(lane, next)
    return next
  }

  holderOf(record: JobRecord): string | undefined {
    const holder = record.has.lane?.holder
    return holder === record ? undefined : holder?.id
  }

  #admit(lane: Lane, record: JobRecord): void {
    lane.holder = record
    lane.started = false
  }

  #laneOf(record: JobRecord, name: string): Lane {
    const rare = record.rare
    if (rare.lane !== undefined) return rare.lane
    let lane = this.#lanes.get(name)
    if (lane === undefined) {
      lane = { name, holder: undefined, started: false, queue: undefined }
      this.#lanes.set(name, lane)
    }
    rare.lane = lane
    return lane
  }

  #drop(lane: Lane): void {
    if (lane.holder === undefined && (lane.queue?.size ?? 0) === 0) this.#lanes.delete(lane.name)
  }
}

/** A key as it is held. */
export interface Hold {
  readonly owner: JobRecord
  /** 0 while the owner has not ended. */
  readonly until: number
}

export class Keys {
  readonly #keys = new Map<string, Hold>()

  /** The job that owns a key now. A window that is over is forgotten on the way. */
  ownerOf(key: string, now: number): JobRecord | undefined {
    const hold = this.#keys.get(key)
    if (hold === undefined) return undefined
    if (hold.until === 0 || hold.until > now) return hold.owner
    this.#keys.delete(key)
    return undefined
  }

  /** Every key with its owner; windows that are over may be among them. */
  entries(): Iterable<readonly [key: string, hold: Hold]> {
    return this.#keys
  }

  take(record: JobRecord): void {
    if (record.key !== undefined) this.#keys.set(record.key, { owner: record, until: 0 })
  }

  /** Frees the key at once, or after the window; only if this job is its owner. */
  release(record: JobRecord, until: number): void {
    const { key } = record
    if (key === undefined || this.#keys.get(key)?.owner !== record) return
    if (until > 0) this.#keys.set(key, { owner: record, until })
    else this.#keys.delete(key)
  }
}
