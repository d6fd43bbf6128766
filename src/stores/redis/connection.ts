// Owns the calls on one connection, and what has been learnt of lines and terms.
// May never send a call twice: whoever is not answered does not know whether it has happened.

import { AxError } from '../../core/errors.ts'
import type { Terms } from '../../core/job.ts'
import { Calls } from './calls.ts'
import { type After, hasLimit, within } from './deadline.ts'
import { answerMs, connect, databaseOf, type RedisClient, refuseDatabase } from './driver.ts'
import { termsIn } from './heads.ts'
import { explained, type News, newsOf, saysNoDatabase } from './news.ts'
import { type Packable, pack } from './pack.ts'
import { keyOf, nowhereOf, stateKeyOf, VERSION } from './schema.ts'
import type { ScriptName } from './statements.ts'
import { isOfServer, told, writtenByLater } from './trouble.ts'

/** A pool and a type: which line they are never changes. */
export interface Line {
  readonly pool: string
  readonly type: string
}

/** Lines and terms that a process keeps in mind; beyond it all are learnt anew. */
const MOST_KNOWN = 10_000

/** So long an end in good order may take. */
const CLOSE_MS = 2_000

/** After each write, so many replicas have to have it before the call is answered. */
export interface Waiting {
  readonly replicas: number
  readonly aof: number
  readonly ms: number
}

export class Connection {
  readonly prefix: string
  readonly address: string
  readonly lines = new Map<number, Line>()
  readonly #terms = new Map<number, Terms>()
  readonly #packed = new WeakMap<Terms, Buffer>()
  readonly #given: RedisClient | string
  readonly #waiting: Waiting
  readonly #calls: Calls
  readonly #after: After
  #client: Promise<RedisClient> | undefined
  #isChecked = false
  /** Why there was no connection at last, until a call is answered. */
  #news: News = { error: undefined, elsewhere: undefined }

  constructor(
    given: RedisClient | string,
    address: string,
    prefix: string,
    waiting: Waiting,
    after: After,
  ) {
    this.#given = given
    this.#after = after
    this.address = address
    this.prefix = prefix
    this.#calls = new Calls([stateKeyOf(prefix), nowhereOf(prefix)], (loads) => this.within(loads))
    this.#waiting = waiting
  }

  client(): Promise<RedisClient> {
    this.#client ??= this.#connect(this.#given).catch((error: unknown) => {
      this.#client = undefined
      throw told(this.#explained(error), this.address, false)
    })
    return this.#client
  }

  /** The library goes on in database 0 where the server does not have the one that was named. */
  async #connect(given: RedisClient | string): Promise<RedisClient> {
    const isUrl = typeof given === 'string'
    const client = isUrl ? await connect(given, this.#waitMs) : given
    this.#news = newsOf(client)
    if (isUrl) client.on('error', (error) => saysNoDatabase(error) && client.disconnect(true))
    const database = databaseOf(client)
    if (database > 0) await this.#select(client, database, isUrl)
    return isUrl ? client : this.#limited(client)
  }

  async #select(client: RedisClient, database: number, isUrl: boolean): Promise<void> {
    try {
      await this.within(client.callBuffer('select', database))
    } catch (error) {
      if (isUrl) client.disconnect()
      if (saysNoDatabase(this.#explained(error))) refuseDatabase(isUrl, database)
      throw error
    }
  }

  /** A client that was handed in may wait for ever, or go on in a database that was not named. */
  #limited(given: RedisClient): RedisClient {
    const callBuffer: RedisClient['callBuffer'] = async (command, ...words) => {
      if (this.#news.elsewhere !== undefined) throw this.#news.elsewhere
      const answer = given.callBuffer(command, ...words)
      return hasLimit(given) ? answer : this.within(answer)
    }
    return Object.create(given, { callBuffer: { value: callBuffer } }) as RedisClient
  }

  /** What a client answers, or an error if it does not within 30 s. */
  within<T>(answer: Promise<T>): Promise<T> {
    return within(this.#after, answerMs(this.#waitMs), answer)
  }

  get #waitMs(): number {
    const { replicas, aof, ms } = this.#waiting
    return replicas + aof > 0 ? ms : 0
  }

  /** Ends our own connection; one that was handed in goes on. A server that is silent is left. */
  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    if (client === undefined || typeof this.#given !== 'string') return
    const quit = client.then((mine) => mine.quit())
    await within(this.#after, CLOSE_MS, quit).catch(() => {
      client.then((mine) => mine.disconnect()).catch(() => {})
    })
  }

  /** One call: one argument, one answer. */
  async run(name: ScriptName, ask: { readonly [name: string]: Packable }): Promise<Buffer> {
    const packed = pack(ask)
    const client = await this.client()
    if (!this.#isChecked) await this.#checkPolicy(client)
    try {
      const answer = await this.#calls.send(client, name, packed)
      this.#news.error = undefined
      return answer
    } catch (failure) {
      const error = this.#explained(failure)
      this.#giveUp(client, error)
      const [, version] = /AXVERSION (\d+)/.exec(String(error)) ?? []
      if (version !== undefined) throw writtenByLater(this.address, version, VERSION)
      throw told(error, this.address, true)
    }
  }

  /** A server that evicts any key would lose jobs without a word. Who may not ask goes on. */
  async #checkPolicy(client: RedisClient): Promise<void> {
    const text = await client.callBuffer('info', 'memory').then(String, (failure) => {
      if (isOfServer(failure)) return undefined
      const error = this.#explained(failure)
      this.#giveUp(client, error)
      throw told(error, this.address, false)
    })
    if (text === undefined) return
    const [, policy] = /^maxmemory_policy:(allkeys-\S+)/m.exec(text) ?? []
    if (policy !== undefined && !/^maxmemory:0\b/m.test(text)) throw evicts(this.address, policy)
    this.#isChecked = true
  }

  /** To a call between two tries, the library only says that there is no connection. */
  #explained(error: unknown): unknown {
    return explained(error, this.#news)
  }

  /** A connection that has not answered in time may be dead, and nobody would say so: a new one. */
  #giveUp(client: RedisClient, error: unknown): void {
    const isOwn = typeof this.#given === 'string'
    if (isOwn && String(error).includes('Command timed out')) client.disconnect(true)
  }

  /** After a write: waits for replicas, or for the disk, as far as the options ask for it. */
  async settle(): Promise<void> {
    const { replicas, aof, ms } = this.#waiting
    if (replicas > 0) await this.#await('WAIT', [replicas], ms, 'replicas')
    if (aof > 0) await this.#await('WAITAOF', [1, aof - 1], ms, 'disks')
  }

  /** `wanted`: how many have to have it; of WAITAOF, of this server and of its replicas. */
  async #await(command: string, wanted: number[], ms: number, what: string): Promise<void> {
    const client = await this.client()
    const answer = await client.callBuffer(command, ...wanted, ms).catch((error: unknown) => {
      if (/unknown command/i.test(String(error))) throw tooOld(this.address)
      throw told(this.#explained(error), this.address, false)
    })
    const counts = (Array.isArray(answer) ? answer : [answer]).map(Number)
    if (wanted.every((count, at) => (counts[at] ?? 0) >= count)) return
    const sumOf = (all: readonly number[]) => all.reduce((sum, each) => sum + each, 0)
    throw new AxError(
      'STORE_UNAVAILABLE',
      `Redis at ${this.address}: the call has happened, but only ${sumOf(counts)} of ` +
        `${sumOf(wanted)} ${what} had it after ${ms} ms. See to the replicas; a failover may ` +
        'undo the call.',
      { retryable: true, address: this.address },
    )
  }

  // Lines and terms

  /** Before an answer is read: it names all lines that it speaks of. */
  forgetSome(): void {
    if (this.lines.size > MOST_KNOWN) this.lines.clear()
  }

  learnLine(line: number, pool: string, type: string): void {
    this.lines.set(line, { pool, type })
  }

  lineOf(line: number): Line {
    const known = this.lines.get(line)
    if (known === undefined) throw new Error(`there is no line ${line}`)
    return known
  }

  termsOf(number: number): Terms | undefined {
    return this.#terms.get(number)
  }

  /** Terms as they are kept: the same bytes for the same terms. */
  packTerms(terms: Terms): Buffer {
    const known = this.#packed.get(terms)
    if (known !== undefined) return known
    const packed = pack(terms as unknown as Packable)
    this.#packed.set(terms, packed)
    return packed
  }

  /** What a number of terms means never changes: it need not be asked in the same step. */
  async learnTerms(numbers: readonly number[]): Promise<void> {
    const client = await this.client()
    const key = keyOf(this.prefix, 'terms')
    const found = (await client.callBuffer('HMGET', key, ...numbers).catch((error: unknown) => {
      throw told(this.#explained(error), this.address, false)
    })) as (Buffer | null)[]
    if (this.#terms.size >= MOST_KNOWN) this.#terms.clear()
    for (const [at, number] of numbers.entries()) {
      const packed = found[at]
      if (packed === null || packed === undefined) throw new Error(`there are no terms ${number}`)
      this.#terms.set(number, termsIn(packed))
    }
  }
}

function evicts(address: string, policy: string): AxError {
  return new AxError(
    'STORE_UNAVAILABLE',
    `Redis at ${address} throws keys away when it is full (maxmemory-policy ${policy}), ` +
      'and with them jobs that it has acknowledged. Run `CONFIG SET maxmemory-policy ' +
      'noeviction` there, or use another server.',
    { retryable: false, address, policy },
  )
}

function tooOld(address: string): AxError {
  return new AxError(
    'INVALID_OPTION',
    `Redis at ${address} does not know WAITAOF, which waitAof needs: Redis 7.2 or later does. ` +
      'Leave waitAof out, or use a later server.',
    { option: 'waitAof', address },
  )
}
