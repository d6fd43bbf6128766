// Owns what is asked of a client of Redis, and where the library that makes one comes from.
// May never be imported for its side effects: the library is loaded when a URL is opened.

import { AxError } from '../../core/errors.ts'
import { refuseValue } from '../../core/options.ts'

/** The few calls that are made of a client; `Redis` and `Cluster` of ioredis have them. */
export interface RedisClient {
  /** Whether it is one of a cluster. */
  readonly isCluster?: boolean
  readonly options?: {
    readonly enableAutoPipelining?: boolean | undefined
    readonly keyPrefix?: string | undefined
    readonly redisOptions?: { readonly keyPrefix?: string | undefined } | undefined
  }
  callBuffer(command: string, ...args: (string | number | Buffer)[]): Promise<unknown>
  duplicate(): RedisClient
  /** Of a cluster: a client for each node. */
  nodes?(role: 'master'): readonly RedisClient[]
  subscribe(channel: string): Promise<unknown>
  quit(): Promise<unknown>
  /** `reconnect`: this connection alone is over, and the client makes another one. */
  disconnect(reconnect?: boolean): void
  on(event: string, listener: (...args: unknown[]) => void): unknown
}

/** Between two tries to connect again. */
const SOON_MS = 50
const LATER_MS = 1_000

/** A server that cannot be reached, or that has not answered: after so long it is an outage. */
const CONNECT_MS = 5_000
const ANSWER_MS = 30_000

/**
 * How a client of our own is set. A call that was under way when the connection broke is never
 * sent a second time, as it may have happened; and none waits for more than the next try.
 */
const OPTIONS = {
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  connectTimeout: CONNECT_MS,
  retryStrategy: (times: number) => Math.min(SOON_MS * 2 ** Math.min(times, 10), LATER_MS),
} as const

type Constructor = new (url: string, options: object) => RedisClient

/**
 * A client for a URL. It connects with the first call. `onError`: why there is no connection.
 * `waitMs`: how long the longest call may take by itself.
 */
export async function connect(
  url: string,
  onError: (error: unknown) => void,
  waitMs: number,
): Promise<RedisClient> {
  const Redis = await load()
  const commandTimeout = Math.max(ANSWER_MS, waitMs + CONNECT_MS)
  const client = new Redis(url, { ...OPTIONS, commandTimeout })
  // Every call is told of an outage itself; without a listener the process would be told, too.
  client.on('error', onError)
  const database = Number(new URL(url).pathname.slice(1))
  if (database > 0) await select(client, database)
  return client
}

/** The library goes on in database 0 where the server does not have the one that was named. */
async function select(client: RedisClient, database: number): Promise<void> {
  try {
    await client.callBuffer('select', database)
  } catch (error) {
    client.disconnect()
    if (!/DB index|invalid DB/i.test(String(error))) throw error
    refuseValue('url', `/${database}`, 'a database that the server has: it says that it has not')
  }
}

async function load(): Promise<Constructor> {
  const name = 'ioredis'
  const found = await import(name).catch((error: unknown) => missing(error))
  return (found as { readonly Redis: Constructor }).Redis
}

function missing(cause: unknown): never {
  throw new AxError(
    'STORE_UNAVAILABLE',
    'redisStore needs the package ioredis beside ax-scheduler, and it cannot be loaded: run ' +
      '`npm install ioredis`.',
    { retryable: false, cause },
  )
}
