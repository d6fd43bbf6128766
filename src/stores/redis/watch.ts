// Owns hints: those of this process at once, those of others by a channel of the server.
// May never be the truth: a hint that is lost costs a poll.

import type { Hint } from '../../store/store.ts'
import type { Connection } from './connection.ts'
import type { RedisClient } from './driver.ts'
import { explained, newsOf } from './news.ts'
import { Reader } from './pack.ts'
import { keyOf } from './schema.ts'
import { told } from './trouble.ts'

type Listener = (hint: Hint) => void

/** After an outage nobody knows what was missed. */
const ANYTHING: Hint = {
  ready: true,
  overdue: true,
  settings: true,
  ended: [],
  holders: [],
  room: [],
}

/** A hint as the scripts pack it, after the name of the process that called. */
export function readHint(bytes: Buffer): Hint {
  const reader = new Reader(bytes)
  reader.list()
  reader.text()
  const [ready, overdue, settings] = [reader.flag(), reader.flag(), reader.flag()]
  const [ended, holders, room] = [reader.texts(), reader.texts(), reader.texts()]
  return { ready, overdue, settings, ended, holders, room }
}

/** The name of the process whose call has hinted. */
function callerIn(bytes: Buffer): string {
  const reader = new Reader(bytes)
  reader.list()
  return reader.text()
}

/**
 * From here on the library subscribes again by itself, after each outage, and tells nobody if that
 * is given up: so it never is.
 */
function subscribed(client: RedisClient): void {
  const { options } = client as { readonly options?: Record<string, unknown> }
  if (options === undefined) return
  options.maxRetriesPerRequest = null
  options.commandTimeout = undefined
}

export class Watch {
  readonly #connection: Connection
  readonly #me: string
  readonly #listeners = new Set<Listener>()
  #subscriber: Promise<RedisClient> | undefined
  /** The client that listens, or is about to. */
  #client: RedisClient | undefined

  constructor(connection: Connection, me: string) {
    this.#connection = connection
    this.#me = me
  }

  async add(listener: Listener): Promise<() => Promise<void>> {
    const each: Listener = (hint) => listener(hint)
    this.#listeners.add(each)
    this.#subscriber ??= this.#subscribe()
    try {
      await this.#subscriber
    } catch (error) {
      this.#listeners.delete(each)
      this.#subscriber = undefined
      throw told(error, this.#connection.address, false)
    }
    return async () => {
      this.#listeners.delete(each)
      if (this.#listeners.size === 0) await this.stop()
    }
  }

  tell(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint)
  }

  async stop(): Promise<void> {
    this.#listeners.clear()
    const subscriber = this.#subscriber
    this.#subscriber = undefined
    // At once, also while it waits for the server: then it is told that it waits no more.
    if (this.#client === undefined) subscriber?.then((late) => late.disconnect()).catch(() => {})
    else this.#client.disconnect()
    this.#client = undefined
  }

  /** A connection of its own: one that listens can do nothing else. */
  async #subscribe(): Promise<RedisClient> {
    const client = (await this.#connection.client()).duplicate()
    const news = newsOf(client)
    this.#client = client
    try {
      client.on('messageBuffer', (_channel: unknown, message: unknown) => {
        const bytes = message as Buffer
        if (callerIn(bytes) !== this.#me) this.tell(readHint(bytes))
      })
      await this.#connection.within(client.subscribe(keyOf(this.#connection.prefix, 'hint')))
      subscribed(client)
      // From here on, whenever it is ready it has been away.
      client.on('ready', () => this.tell(ANYTHING))
    } catch (error) {
      client.disconnect()
      this.#client = undefined
      throw explained(error, news)
    }
    return client
  }
}
