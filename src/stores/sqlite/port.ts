// Owns the port on one file: calls of one turn share a transaction, answers come after the commit.
// May never answer what is not in the file yet, or hold the process up for somebody else's lock.

import { AxError, isAxError } from '../../core/errors.ts'
import type { Move } from '../../core/job.ts'
import { LIMITS } from '../../store/limits.ts'
import type {
  Change,
  ExtendAsk,
  Hint,
  InsertAnswer,
  InsertGroup,
  LeaseAsk,
  ListQuery,
  OverdueAsk,
  ReplaceGroup,
  Store,
  Told,
  Traits,
  WorkerBeat,
} from '../../store/store.ts'
import { type Announced, Board } from './board.ts'
import type { Connection } from './connection.ts'
import { readable } from './driver.ts'
import { File, type Settings } from './file.ts'
import type { Host } from './host.ts'
import { insertGroups } from './insertion.ts'
import { inspect } from './inspection.ts'
import { extend, lease, overdue } from './leasing.ts'
import { list } from './listing.ts'
import { applyMoves } from './moves.ts'
import { count, dependents, events, settingsOf, standing, workersOf } from './reading.ts'
import { replaceJobs, Undone } from './replacement.ts'
import { Session } from './session.ts'
import { setSchedule } from './timetable.ts'
import { freeTheDead, Watch } from './watch.ts'

/** A call that waits for the transaction of its turn. */
interface Call {
  readonly tell: boolean
  readonly act: (board: Board) => unknown
  readonly weight: number
  readonly order: Order
  readonly resolve: (told: Told<unknown>) => void
  readonly reject: (error: unknown) => void
}

/**
 * In what order calls share a transaction: a lease finds the slots that have been freed and the
 * jobs that were added beside it; whoever asks for the next deadline is told of its leases.
 */
const ORDER = { first: 0, lease: 1, overdue: 2 } as const
type Order = (typeof ORDER)[keyof typeof ORDER]

interface Done {
  readonly session: Session
  readonly told: ReadonlyMap<Call, Told<unknown>>
  readonly hint: Hint
}

/**
 * Steps of the promise queue that a transaction waits for whoever else has something for it: from
 * giving slots back until asking for the next jobs, the engine takes fewer.
 */
const HOPS = 8

/** How much one transaction takes on: a second or less, and nobody waits longer for the lock. */
const MAX_WEIGHT = LIMITS.batch

const NOWHERE = Number.POSITIVE_INFINITY

export class SqliteStore implements Store {
  readonly traits: Traits = { name: 'sqlite', keepsLive: false, lossyHints: true }
  readonly #name: string
  readonly #settings: Settings
  readonly #host: Host
  readonly #announced: Announced = { wait: NOWHERE, quiet: NOWHERE }
  readonly #watch: Watch
  /** Holders of which the file knows that this process is theirs. */
  readonly #mine = new Set<string>()
  #opening: Promise<File> | undefined
  #waiting: Call[] = []
  #isBusy = false
  #isClosed = false
  #idle: Promise<void> = Promise.resolve()

  constructor(name: string, settings: Settings, host: Host) {
    this.#name = name
    this.#settings = settings
    this.#host = host
    this.#watch = new Watch(host, this.#announced)
  }

  async insert(groups: readonly InsertGroup[], tell: boolean) {
    const weight = groups.reduce((sum, { jobs }) => sum + jobs.length, 0)
    return this.#write(tell, (board) => insertGroups(board, groups), weight)
  }

  async replace(group: ReplaceGroup, tell: boolean): Promise<Told<InsertAnswer>> {
    const weight = group.jobs.length + group.gone.length
    try {
      return await this.#write(tell, (board) => replaceJobs(board, group), weight)
    } catch (error) {
      if (error instanceof Undone) return { answer: error.answer, events: NO_EVENTS }
      throw error
    }
  }

  async lease(ask: LeaseAsk, tell: boolean) {
    const act = (board: Board) => {
      const answer = lease(board, ask)
      if (answer.jobs.length > 0) this.#sign(board, ask.holder)
      return answer
    }
    return this.#write(tell, act, 1, ORDER.lease)
  }

  async overdue(ask: OverdueAsk, tell: boolean) {
    const act = (board: Board) => {
      if (this.#watch.maySomebodyBeDead()) freeTheDead(board, this.#host)
      return overdue(board, ask)
    }
    return this.#write(tell, act, 1, ORDER.overdue)
  }

  async apply(moves: readonly Move[], tell: boolean) {
    return this.#write(tell, (board) => applyMoves(board, moves), moves.length)
  }

  async extend(ask: ExtendAsk, tell: boolean) {
    return this.#write(tell, (board) => extend(board, ask), ask.held.length)
  }

  async configure(...changes: readonly Change[]): Promise<void> {
    await this.#write(false, (board) => {
      for (const change of changes) configure(board, change)
    })
  }

  async settings() {
    return this.#read(settingsOf)
  }

  async workers() {
    return this.#read(workersOf)
  }

  async inspect() {
    return this.#read(inspect)
  }

  async beat(worker: WorkerBeat): Promise<void> {
    await this.#write(false, (board) => {
      const { session } = board
      const { holder, name, types, full, zombies, settings, ttlMs } = worker
      if (ttlMs === 0) {
        session.run('removeWorker', holder)
        if (session.first('held1', holder) === undefined) this.#forgetProcess(board, holder)
        return
      }
      const said = [name, JSON.stringify(types), Number(full), zombies, settings]
      session.run('setWorker', holder, ...said, readable(session.now + ttlMs))
      session.run('dropWorkers', session.now)
      session.run('dropProcesses', this.#host.process.host)
      this.#sign(board, holder)
    })
  }

  async get(ids: readonly string[]) {
    return this.#read(({ session }) => {
      session.prepare(ids)
      return ids.map((id) => session.view(id))
    })
  }

  async list(query: ListQuery) {
    return this.#read((board) => list(board, query))
  }

  async count() {
    return this.#read(count)
  }

  async dependents(id: string, after: number, limit: number) {
    return this.#read((board) => dependents(board, id, after, limit))
  }

  async standing(id: string) {
    return this.#read((board) => standing(board, id))
  }

  async events(after: number, limit: number) {
    return this.#read((board) => events(board, after, limit))
  }

  async watch(onHint: (hint: Hint) => void): Promise<() => Promise<void>> {
    const file = await this.#opened()
    const stop = this.#watch.add(file, onHint)
    return async () => stop()
  }

  async time(): Promise<number> {
    return this.#read(({ session }) => session.now)
  }

  async open(): Promise<void> {
    this.#isClosed = false
    await this.#opened()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#watch.stop()
    await this.#idle
    const opening = this.#opening
    this.#opening = undefined
    const file = await opening?.catch(() => undefined)
    file?.close()
  }

  #opened(): Promise<File> {
    if (this.#opening !== undefined) return this.#opening
    if (this.#isClosed) {
      throw new AxError('CLOSED', `The store on ${this.#name} is closed. Call open() to go on.`)
    }
    const opening = File.open(this.#name, this.#settings, this.#host)
    this.#opening = opening
    this.#mine.clear()
    opening.catch(() => {
      if (this.#opening === opening) this.#opening = undefined
    })
    return opening
  }

  /** Writes down which process a holder is: if that is gone, so are its leases. */
  #sign({ session }: Board, holder: string): void {
    if (this.#mine.has(holder)) return
    const { host, pid, began } = this.#host.process
    session.run('setProcess', holder, host, pid, began)
    this.#mine.add(holder)
  }

  /** A holder that has said goodbye, and holds nothing, cannot be found dead. */
  #forgetProcess({ session }: Board, holder: string): void {
    session.run('removeProcess', holder)
    this.#mine.delete(holder)
  }

  async #read<T>(act: (board: Board) => T): Promise<T> {
    const file = await this.#opened()
    return file.read((connection) => act(this.#boardOn(connection, false)))
  }

  #boardOn(connection: Connection, isWrite: boolean): Board {
    const session = new Session(connection, () => this.#host.now(), isWrite)
    return new Board(session, this.#announced)
  }

  /**
   * Calls of one turn share a transaction. The engine gathers moves and small groups of its own;
   * this is for what it does not: several schedulers on one store, and the lease beside a finish,
   * which so costs no commit of its own. kit/coalesce.ts is out of reach here, and could not do
   * this: one that fails must not take the others with it.
   */
  #write<T>(
    tell: boolean,
    act: (board: Board) => T,
    weight = 1,
    order: Order = ORDER.first,
  ): Promise<Told<T>> {
    return new Promise((resolve, reject) => {
      const pass = ({ answer, events }: Told<unknown>) => resolve({ answer: answer as T, events })
      this.#waiting.push({ tell, act, weight, order, resolve: pass, reject })
      if (this.#isBusy) return
      this.#isBusy = true
      this.#idle = this.#work()
    })
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      for (let hop = 0; hop < HOPS; hop += 1) await undefined
      const calls: Call[] = []
      for (let weight = 0; weight < MAX_WEIGHT && this.#waiting.length > 0; ) {
        const call = this.#waiting.shift() as Call
        calls.push(call)
        weight += call.weight
      }
      await this.#commit(calls.sort((a, b) => a.order - b.order))
    }
    this.#isBusy = false
  }

  /** All in one transaction, in this order; if one of them fails, each in its own. */
  async #commit(calls: readonly Call[]): Promise<void> {
    try {
      const file = await this.#opened()
      const { told, hint, session } = await file.write((connection) => this.#run(connection, calls))
      session.keep()
      for (const [call, answer] of told) call.resolve(answer)
      this.#watch.tell(hint)
    } catch (error) {
      this.#announced.wait = NOWHERE
      this.#announced.quiet = NOWHERE
      this.#mine.clear()
      // An outage is everybody's; what one call has done wrong is its own.
      const isShared = isAxError(error)
      if (calls.length === 1 || isShared) for (const call of calls) call.reject(error)
      else for (const call of calls) await this.#commit([call])
    }
  }

  #run(connection: Connection, calls: readonly Call[]): Done {
    const board = this.#boardOn(connection, true)
    const { session } = board
    const told = new Map<Call, Told<unknown>>()
    for (const call of calls) {
      session.events = []
      session.tells = call.tell
      const answer = call.act(board)
      told.set(call, { answer, events: session.events })
    }
    const { ready, overdue: late, settings, ended, holders } = session.signs
    const room = board.pools.takeRoom()
    session.finish()
    return { session, told, hint: { ready, overdue: late, settings, ended, holders, room } }
  }
}

const NO_EVENTS: readonly never[] = Object.freeze([])

function configure(board: Board, change: Change): void {
  const { session, pools } = board
  if ('pool' in change) pools.configure(change)
  else if ('type' in change) pools.setType(change.type, change.setting)
  else if ('ageing' in change) {
    session.setAgeing(change.ageing)
    if (session.state.unranked > 0) session.signs.overdue = true
  } else if ('budget' in change) session.setBudget(change.budget)
  else setSchedule(board, change.schedule, change.row)
  session.state.settings += 1
  session.signs.ready = true
  session.signs.settings = true
}
