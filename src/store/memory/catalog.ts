// Owns what listings need: jobs by seq, and an ordered index for each thing they can be asked by.
// May never walk jobs that do not match: a page costs what it returns, times the conditions.

import { hasEnded, type JobStatus, STATUSES } from '../../core/job.ts'
import { Integers } from '../../kit/integers.ts'
import { LIMITS } from '../limits.ts'
import type { ListPage, ListQuery } from '../store.ts'
import type { JobRecord } from './record.ts'

const ROWS = 1024

export class Catalog {
  readonly #rows = new Map<number, { readonly records: (JobRecord | undefined)[]; live: number }>()
  readonly #all = new Integers()
  readonly #statuses: Readonly<Record<JobStatus, Integers>>
  readonly #live: Ordered
  readonly #types = new Index()
  readonly #pools = new Index()
  readonly #flows = new Index()
  readonly #codes = new Index()
  readonly #keys = new Index()

  constructor() {
    const sets = STATUSES.map((status) => [status, new Integers()] as const)
    this.#statuses = Object.fromEntries(sets) as Record<JobStatus, Integers>
    const live = STATUSES.filter((status) => !hasEnded(status))
    this.#live = union(live.map((status) => this.#statuses[status]))
  }

  add(record: JobRecord): void {
    const { seq } = record
    const chunk = Math.floor(seq / ROWS)
    let rows = this.#rows.get(chunk)
    if (rows === undefined) {
      rows = { records: new Array(ROWS), live: 0 }
      this.#rows.set(chunk, rows)
    }
    rows.records[seq % ROWS] = record
    rows.live += 1
    this.#all.add(seq)
    this.#statuses[record.status].add(seq)
    this.#types.add(record.type, seq)
    this.#pools.add(record.pool, seq)
    if (record.flow !== undefined) this.#flows.add(record.flow, seq)
    if (record.key !== undefined) this.#keys.add(record.key, seq)
  }

  remove(record: JobRecord): void {
    const { seq } = record
    const chunk = Math.floor(seq / ROWS)
    const rows = this.#rows.get(chunk)
    if (rows !== undefined) {
      rows.records[seq % ROWS] = undefined
      rows.live -= 1
      if (rows.live === 0) this.#rows.delete(chunk)
    }
    this.#all.delete(seq)
    this.#statuses[record.status].delete(seq)
    this.#types.remove(record.type, seq)
    this.#pools.remove(record.pool, seq)
    if (record.flow !== undefined) this.#flows.remove(record.flow, seq)
    if (record.key !== undefined) this.#keys.remove(record.key, seq)
    if (record.code !== undefined) this.#codes.remove(record.code, seq)
  }

  changeStatus(seq: number, from: JobStatus, to: JobStatus): void {
    this.#statuses[from].delete(seq)
    this.#statuses[to].add(seq)
  }

  changeCode(seq: number, from: string | undefined, to: string | undefined): void {
    if (from === to) return
    if (from !== undefined) this.#codes.remove(from, seq)
    if (to !== undefined) this.#codes.add(to, seq)
  }

  /** The first job after a seq that has not ended. */
  nextLive(after: number): JobRecord | undefined {
    const seq = this.#live.next(after + 1)
    return seq < 0 ? undefined : this.#at(seq)
  }

  /** One page of what matches, in order of seq. */
  page(query: ListQuery): ListPage {
    const sets = this.#setsOf(query)
    const limit = Math.min(query.limit, LIMITS.page)
    const jobs: JobRecord[] = []
    let at = sets === null ? -1 : meet(sets, this.#start(query))
    while (sets !== null && at >= 0 && jobs.length < limit) {
      const record = this.#at(at) as JobRecord
      if (record.createdAt >= (query.createdBefore ?? Number.POSITIVE_INFINITY)) at = -1
      else {
        jobs.push(record)
        at = meet(sets, at + 1)
      }
    }
    const last = jobs.at(-1)
    return { jobs, after: at < 0 || last === undefined ? null : last.seq }
  }

  #at(seq: number): JobRecord | undefined {
    return this.#rows.get(Math.floor(seq / ROWS))?.records[seq % ROWS]
  }

  /** Creation times grow with seq, so the first one late enough is found by bisection. */
  #start(query: ListQuery): number {
    const from = query.after + 1
    const { createdAfter } = query
    if (createdAfter === undefined) return from
    let low = from
    let high = from
    for (let step = 1; this.#isBefore(high, createdAfter); step *= 2) {
      low = high + 1
      high += step
    }
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (this.#isBefore(middle, createdAfter)) low = middle + 1
      else high = middle
    }
    return low
  }

  #isBefore(seq: number, time: number): boolean {
    const next = this.#all.next(seq)
    return next >= 0 && (this.#at(next) as JobRecord).createdAt < time
  }

  /** The sets whose intersection is asked for; null if one of them is empty. */
  #setsOf(query: ListQuery): readonly Ordered[] | null {
    const sets: (Ordered | undefined)[] = []
    const { statuses } = query
    if (statuses !== undefined) sets.push(union(statuses.map((each) => this.#statuses[each])))
    if (query.type !== undefined) sets.push(this.#types.get(query.type))
    if (query.pool !== undefined) sets.push(this.#pools.get(query.pool))
    if (query.flow !== undefined) sets.push(this.#flows.get(query.flow))
    if (query.code !== undefined) sets.push(this.#codes.get(query.code))
    if (query.key !== undefined) sets.push(this.#keys.get(query.key))
    if (sets.length === 0) sets.push(this.#all)
    return sets.every((set) => set !== undefined) ? sets : null
  }
}

/** An ordered set, as far as a walk needs it. */
interface Ordered {
  next(from: number): number
}

function union(sets: readonly Ordered[]): Ordered {
  if (sets.length === 1) return sets[0] as Ordered
  return {
    next(from) {
      let best = -1
      for (const set of sets) {
        const next = set.next(from)
        if (next >= 0 && (best < 0 || next < best)) best = next
      }
      return best
    },
  }
}

/** The smallest number, at least `from`, that is in all of the sets; -1 if there is none. */
function meet(sets: readonly Ordered[], from: number): number {
  let at = from
  for (let agreed = 0, turn = 0; agreed < sets.length; turn += 1) {
    const next = (sets[turn % sets.length] as Ordered).next(at)
    if (next < 0) return -1
    agreed = next === at && agreed > 0 ? agreed + 1 : 1
    at = next
  }
  return at
}

/** Members of one value: a short sorted array, or, once there are many, a set of bits. */
const FEW = 32

class Index {
  readonly #values = new Map<string, number[] | Integers>()

  get(value: string): Ordered | undefined {
    const members = this.#values.get(value)
    if (!Array.isArray(members)) return members
    return { next: (from) => members.find((each) => each >= from) ?? -1 }
  }

  add(value: string, seq: number): void {
    const members = this.#values.get(value)
    if (members === undefined) this.#values.set(value, [seq])
    else if (!Array.isArray(members)) members.add(seq)
    else if (members.length < FEW) insert(members, seq)
    else {
      const many = new Integers()
      for (const each of members) many.add(each)
      many.add(seq)
      this.#values.set(value, many)
    }
  }

  remove(value: string, seq: number): void {
    const members = this.#values.get(value)
    if (members === undefined) return
    if (Array.isArray(members)) members.splice(members.indexOf(seq), 1)
    else members.delete(seq)
    const left = Array.isArray(members) ? members.length : members.size
    if (left === 0) this.#values.delete(value)
  }
}

function insert(members: number[], seq: number): void {
  let at = members.length
  while (at > 0 && (members[at - 1] as number) > seq) at -= 1
  members.splice(at, 0, seq)
}
