// Owns hints: those of this process at once, those of others by looking whether the file changed.
// May never be the truth: a hint that is lost costs a poll.

import type { JobEvent } from '../../core/job.ts'
import type { Hint } from '../../store/store.ts'
import type { Announced, Board } from './board.ts'
import type { Connection } from './connection.ts'
import { type Batch, eventsOf } from './entries.ts'
import type { File } from './file.ts'
import type { Host, ProcessId } from './host.ts'

/** Between two looks while somebody watches: one costs about 3 us, so 0.02 % of a core. */
const LOOK_MS = 20

/** Between two looks at the processes that hold leases; one costs some 20 us for each. */
const ALIVE_MS = 250

/** Entries of the log that are read for one hint; whoever changed more is asked about, not told. */
const ENTRIES = 1_000

/** Rows of the log that are looked at for that: one is what one transaction has written. */
const BATCHES = 64

type Listener = (hint: Hint) => void

export class Watch {
  readonly #host: Host
  readonly #announced: Announced
  readonly #listeners = new Set<Listener>()
  #stop: (() => void) | undefined
  #version = -1
  #event = 0
  #settings = 0
  readonly #told = new Map<string, number>()
  #aliveAt = Number.NEGATIVE_INFINITY
  #isSuspect = false

  constructor(host: Host, announced: Announced) {
    this.#host = host
    this.#announced = announced
  }

  add(file: File, listener: Listener): () => void {
    const each: Listener = (hint) => listener(hint)
    this.#listeners.add(each)
    if (this.#stop === undefined) {
      file.peek((connection) => this.#changes(connection))
      this.#stop = this.#host.every(LOOK_MS, () => this.#look(file))
    }
    return () => {
      this.#listeners.delete(each)
      if (this.#listeners.size === 0) this.stop()
    }
  }

  stop(): void {
    this.#stop?.()
    this.#stop = undefined
    this.#version = -1
  }

  tell(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint)
  }

  #look(file: File): void {
    const hint = file.peek((connection) => this.#changes(connection))
    if (hint !== undefined && hint !== null) this.tell(hint)
    if (!this.#isTime()) return
    const dead = file.peek((connection) => deadHolders(connection, this.#host)) ?? []
    this.#isSuspect = dead.length > 0
    if (this.#isSuspect) this.tell({ ...NOTHING, overdue: true })
  }

  /** Whether somebody may have died since the last look: that is not done all the time. */
  maySomebodyBeDead(): boolean {
    const isSuspect = this.#isSuspect
    this.#isSuspect = false
    return isSuspect || this.#isTime()
  }

  #isTime(): boolean {
    const now = this.#host.monotonic()
    if (now - this.#aliveAt < ALIVE_MS) return false
    this.#aliveAt = now
    return true
  }

  /** What others have changed since the last look; null for nothing. */
  #changes(connection: Connection): Hint | null {
    const version = connection.first<{ data_version: number }>('dataVersion')?.data_version ?? 0
    if (version === this.#version) return null
    this.#version = version
    const state = connection.first<{ settings: number }>('state')
    const settings = state?.settings ?? 0
    const hint: Hint = {
      ready: connection.first('anyQueued') !== undefined,
      overdue: this.#isSooner(connection),
      ...this.#news(connection),
      settings: settings !== this.#settings,
      room: this.#room(connection),
    }
    this.#settings = settings
    return hint
  }

  /** Whether there is a deadline before the one that this process sleeps until. */
  #isSooner(connection: Connection): boolean {
    const at = (name: 'nextWait' | 'nextEnd' | 'nextSchedule') =>
      connection.first<{ at: number | null }>(name)?.at ?? Number.POSITIVE_INFINITY
    const wait = Math.min(at('nextWait'), at('nextSchedule'))
    const quiet = at('nextEnd')
    const announced = this.#announced
    const isUnfinished = connection.first('fanOuts') !== undefined
    const isSooner = wait < announced.wait || quiet < announced.quiet
    announced.wait = Math.min(announced.wait, wait)
    announced.quiet = Math.min(announced.quiet, quiet)
    return isUnfinished || isSooner
  }

  /** Who ended, and whose lease has become a hold, by the log; who has to give way, by the rows. */
  #news(connection: Connection): Pick<Hint, 'ended' | 'holders'> {
    const ended: string[] = []
    const holders = connection.all<{ holder: string }>('evicted').map(({ holder }) => holder)
    const batches = connection.all<Batch>('news', this.#event, BATCHES)
    for (const { job, event, from, to, worker } of newest(batches, this.#event)) {
      if (ENDS.has(to) || event === 'job:revived') ended.push(job)
      if (to === 'cancelled' && from === 'running' && worker !== undefined) holders.push(worker)
    }
    this.#event = Math.max(this.#event, batches[0]?.last ?? 0)
    return { ended, holders }
  }

  #room(connection: Connection): readonly string[] {
    const rooms: string[] = []
    for (const { pool, told } of connection.all<{ pool: string; told: number }>('told')) {
      if (this.#told.get(pool) !== told) rooms.push(pool)
      this.#told.set(pool, told)
    }
    return rooms
  }
}

/** The newest entries, ENTRIES of them and what else their rows hold. */
function newest(batches: readonly Batch[], after: number): readonly JobEvent[] {
  const events: JobEvent[] = []
  for (const batch of batches) {
    if (events.length < ENTRIES) events.push(...eventsOf(batch, after))
  }
  return events
}

const ENDS: ReadonlySet<string> = new Set(['success', 'failed', 'cancelled'])

const NOTHING: Hint = {
  ready: false,
  overdue: false,
  ended: [],
  holders: [],
  settings: false,
  room: [],
}

/** Holders of leases on this machine whose process is gone. */
function deadHolders(connection: Connection, host: Host): readonly string[] {
  const me = host.process
  const found = connection.all<Omit<ProcessId, 'host'> & { holder: string }>('processes', me.host)
  const isMine = ({ pid, began }: Omit<ProcessId, 'host'>) => pid === me.pid && began === me.began
  const others = found.filter((each) => !isMine(each))
  const dead = others.filter(({ pid, began }) => {
    return !host.isAlive({ host: me.host, pid, began })
  })
  return dead.map(({ holder }) => holder)
}

/**
 * The leases of a process that is gone run out now: whoever decides about what is overdue finds
 * them at once, instead of at the end of the lease. That is no decision: it only knows earlier.
 */
export function freeTheDead(board: Board, host: Host): void {
  const { session } = board
  for (const holder of deadHolders(session.connection, host)) {
    for (const row of session.rows('heldBy', holder)) {
      if (row.deadline > session.now) board.setDeadline(row, session.now)
    }
    session.run('removeWorker', holder)
    session.run('removeProcess', holder)
  }
}
