// Owns the port on one prefix of a server: each call is one script, and each answer is read here.
// May never answer what the server has not said, or hold a rule: those are in the scripts.

import { AxError } from '../../core/errors.ts'
import type { JobEvent, Move, NewJob, StoredJob } from '../../core/job.ts'
import { LIMITS } from '../../store/limits.ts'
import type {
  Change,
  ExtendAsk,
  Hint,
  InsertAnswer,
  InsertGroup,
  LeaseAsk,
  ListPage,
  ListQuery,
  OverdueAsk,
  ReplaceGroup,
  Store,
  Told,
  Traits,
  WorkerBeat,
} from '../../store/store.ts'
import { readExtended, readInserted, readLeased, readMoved, readOverdue } from './answers.ts'
import {
  beatAsk,
  changesAsk,
  extendAsk,
  insertAsk,
  listAsk,
  movesAsk,
  replaceAsk,
} from './asking.ts'
import { Connection, type Waiting } from './connection.ts'
import type { After } from './deadline.ts'
import type { RedisClient } from './driver.ts'
import { readPage, readTold } from './events.ts'
import { readCounted, readSettings, readStanding, readWorkers } from './figures.ts'
import { checkFits, type Load } from './fit.ts'
import { Heads } from './heads.ts'
import { Held } from './held.ts'
import { inspect } from './inspection.ts'
import { type Packable, Reader } from './pack.ts'
import { readJobs, type Sharing, Unknown } from './rows.ts'
import type { ScriptName } from './statements.ts'
import { readHint, Watch } from './watch.ts'

/** How the store is set. */
export interface Settings {
  readonly prefix: string
  readonly address: string
  readonly waiting: Waiting
  /** The clock of a test; undefined: that of the server. */
  readonly now: (() => number) | undefined
  /** By which this process knows its own hints. */
  readonly me: string
  readonly after: After
}

/** What every answer begins with, and what is left of it. */
interface Answer<T> {
  readonly value: T
  readonly events: readonly JobEvent[]
  readonly hint: Hint | undefined
  readonly now: number
}

type Read<T> = (reader: Reader, sharing: Sharing, now: number) => T

export class RedisStore implements Store {
  readonly traits: Traits = { name: 'redis', keepsLive: false, lossyHints: true }
  readonly #settings: Settings
  readonly #connection: Connection
  readonly #watch: Watch
  /** Jobs that were leased here: what they are need not be said again when they end. */
  readonly #held = new Held()
  /**
   * Whose leases have not been answered. Calls are answered in the order in which the server
   * serves them: when another is, these have yet to see what it has done.
   */
  readonly #leasing = new Set<{ readonly holder: string }>()
  #isClosed = false

  constructor(given: RedisClient | string, settings: Settings) {
    const { address, prefix, waiting, me, after } = settings
    this.#settings = settings
    this.#connection = new Connection(given, address, prefix, waiting, after)
    this.#watch = new Watch(this.#connection, me)
  }

  async insert(
    groups: readonly InsertGroup[],
    tell: boolean,
  ): Promise<Told<readonly InsertAnswer[]>> {
    checkFits(
      'payload',
      groups.flatMap(({ jobs }) => jobs.map(loadOfJob)),
    )
    const ask = insertAsk(groups, (terms) => this.#connection.packTerms(terms))
    return this.#write('insert', tell, ask, (reader, sharing) => {
      return readInserted(reader, sharing, groups)
    })
  }

  async replace(group: ReplaceGroup, tell: boolean): Promise<Told<InsertAnswer>> {
    checkFits('payload', group.jobs.map(loadOfJob))
    const ask = replaceAsk(group, (terms) => this.#connection.packTerms(terms))
    return this.#write('replace', tell, ask, (reader, sharing) => {
      return readInserted(reader, sharing, [group])[0] as InsertAnswer
    })
  }

  async lease({ holder, leaseMs, max, types }: LeaseAsk, tell: boolean) {
    const ask = { holder, leaseMs, max, types }
    const told = await this.#write('lease', tell, ask, readLeased)
    this.#held.add(told.answer.jobs)
    return told
  }

  async overdue({ limit, keepLogMs }: OverdueAsk, tell: boolean) {
    return this.#write('overdue', tell, { limit, keepLogMs }, readOverdue)
  }

  async apply(moves: readonly Move[], tell: boolean) {
    checkFits('result', moves.map(loadOfMove))
    const mine = moves.map(({ id }) => this.#held.get(id))
    const told = await this.#write('apply', tell, movesAsk(moves, mine), (reader, sharing) => {
      return readMoved(reader, sharing, moves, mine)
    })
    for (const { id } of moves) this.#held.remove(id)
    return told
  }

  async extend(ask: ExtendAsk, tell: boolean) {
    return this.#write('extend', tell, extendAsk(ask), (reader) => readExtended(reader, ask))
  }

  async configure(...changes: readonly Change[]): Promise<void> {
    await this.#write('configure', false, changesAsk(changes), (reader) => reader.flag())
  }

  async beat(worker: WorkerBeat): Promise<void> {
    await this.#write('beat', false, beatAsk(worker), (reader) => reader.flag())
  }

  async settings() {
    return this.#read('settings', {}, readSettings)
  }

  async workers() {
    return this.#read('workers', {}, readWorkers)
  }

  async get(ids: readonly string[]) {
    return this.#read('get', { ids }, (reader, sharing) => {
      reader.list()
      const found = reader.value() as boolean[]
      const jobs = readJobs(reader, sharing)
      let next = 0
      return found.map((isThere) => {
        if (!isThere) return null
        next += 1
        return jobs[next - 1] as StoredJob
      })
    })
  }

  /** Asks on as long as a page has room and the server has only looked at so many. */
  async list(query: ListQuery): Promise<ListPage> {
    const jobs: StoredJob[] = []
    const most = Math.min(query.limit, LIMITS.page)
    let after = query.after
    for (;;) {
      const ask = listAsk({ ...query, after, limit: most - jobs.length })
      const page = await this.#read('list', ask, (reader, sharing) => {
        reader.list()
        return { jobs: readJobs(reader, sharing), after: reader.numberOr(null) }
      })
      jobs.push(...page.jobs)
      if (page.after === null || jobs.length >= most) return { jobs, after: page.after }
      after = page.after
    }
  }

  async count() {
    return this.#read('count', {}, readCounted)
  }

  async dependents(id: string, after: number, limit: number) {
    const ask = { id, after, limit: Math.min(limit, LIMITS.page) }
    return this.#read('dependents', ask, (reader, sharing) => readJobs(reader, sharing))
  }

  async standing(id: string) {
    return this.#read('standing', { id }, readStanding)
  }

  async inspect() {
    const part = (name: string, cursor: string) => ({ part: name, cursor })
    return inspect({
      page: (name, cursor) =>
        this.#read('inspect', part(name, cursor), (reader) => {
          reader.list()
          const [found, next] = [reader.value(), reader.textOr(false as const)]
          return { found, next, at: `${reader.number()} ${reader.number()}` }
        }),
      expired: () =>
        this.#read('inspect', part('expired', '0'), (reader, sharing) => {
          reader.list()
          return readJobs(reader, sharing)
        }),
      ageing: async () => (await this.settings()).ageing,
      lineOf: (line) => this.#connection.lines.get(line),
    })
  }

  async events(after: number, limit: number) {
    const most = Math.min(limit, LIMITS.events)
    return this.#read('events', { after, limit: most }, (reader) => readPage(reader, after, most))
  }

  async watch(onHint: (hint: Hint) => void): Promise<() => Promise<void>> {
    this.#check()
    return this.#watch.add(onHint)
  }

  async time(): Promise<number> {
    return this.#read('get', { ids: [] }, (_reader, _sharing, now) => now)
  }

  async open(): Promise<void> {
    this.#isClosed = false
    await this.time()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#watch.stop()
    await this.#connection.close()
  }

  #check(): void {
    if (!this.#isClosed) return
    const { address } = this.#settings
    throw new AxError('CLOSED', `The store on ${address} is closed. Call open() to go on.`)
  }

  async #write<T>(
    name: ScriptName,
    tell: boolean,
    ask: { readonly [name: string]: Packable },
    read: Read<T>,
  ): Promise<Told<T>> {
    const answer = await this.#call(name, { ...ask, tell, me: this.#settings.me }, read)
    await this.#connection.settle()
    if (answer.hint !== undefined) this.#watch.tell(answer.hint)
    return { answer: answer.value, events: answer.events }
  }

  async #read<T>(
    name: ScriptName,
    ask: { readonly [name: string]: Packable },
    read: Read<T>,
  ): Promise<T> {
    return (await this.#call(name, ask, read)).value
  }

  /** One script. Terms that nobody has told yet are asked for, and the answer is read again. */
  async #call<T>(
    name: ScriptName,
    ask: { readonly [name: string]: Packable },
    read: Read<T>,
  ): Promise<Answer<T>> {
    this.#check()
    const { now } = this.#settings
    const clock = now === undefined ? false : Math.floor(now())
    const lease = name === 'lease' ? { holder: ask.holder as string } : undefined
    if (lease !== undefined) this.#leasing.add(lease)
    let bytes: Buffer
    try {
      bytes = await this.#connection.run(name, { ...ask, now: clock })
    } finally {
      if (lease !== undefined) this.#leasing.delete(lease)
    }
    // At once: those that were asked for earlier are answered by now.
    const served = Array.from(this.#leasing, ({ holder }) => holder)
    for (;;) {
      const unknown = new Unknown()
      const { hint, ...answer } = this.#readAnswer(bytes, unknown, read)
      const told = hint && (served.length === 0 ? hint : { ...hint, served })
      if (unknown.terms.size === 0) return { ...answer, hint: told }
      await this.#connection.learnTerms([...unknown.terms])
    }
  }

  #readAnswer<T>(bytes: Buffer, unknown: Unknown, read: Read<T>): Answer<T> {
    const reader = new Reader(bytes)
    reader.list()
    this.#connection.forgetSome()
    for (let left = reader.list(); left > 0; left -= 3) {
      this.#connection.learnLine(reader.number(), reader.text(), reader.text())
    }
    const hint = reader.skipFalse() ? undefined : readHint(reader.bytes())
    const { events, now } = readTold(reader)
    const sharing: Sharing = {
      lineOf: (line) => this.#connection.lineOf(line),
      termsOf: (number) => this.#connection.termsOf(number),
      unknown,
      heads: new Heads((line) => this.#connection.lineOf(line)),
    }
    return { value: read(reader, sharing, now), events, hint, now }
  }
}

function loadOfJob({ id, payload }: NewJob): Load {
  return { id, text: payload }
}

function loadOfMove({ id, result }: Move): Load {
  return { id, text: result }
}
