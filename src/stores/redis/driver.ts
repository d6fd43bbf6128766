// Owns what is asked of a client of Redis, and where the library that makes one comes from.
// May never be imported for its side effects: the library is loaded when a URL is opened.

import { AxError } from '../../core/errors.ts'
import { refuseValue } from '../../core/options.ts'

/** The few calls that are made of a client; `Redis` and `Cluster` of ioredis have them. */
export interface RedisClient {
  /** Whether it is one of a cluster. */
  readonly isCluster?: boolean
  readonly options?: {
    readonly commandTimeout?: number | undefined
    readonly db?: number | undefined
    readonly enableAutoPipelining?: boolean | undefined
    readonly enableOfflineQueue?: boolean | undefined
    readonly keyPrefix?: string | undefined
    readonly redisOptions?: { readonly keyPrefix?: string | undefined } | undefined
  }
  /** Of one that has connected: the database that it is in, as it thinks. */
  readonly condition?: { readonly select?: number | undefined } | null | undefined
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
export const ANSWER_MS = 30_000

/** How long an answer may take, where the longest call takes so long by itself. */
export function answerMs(waitMs: number): number {
  return Math.max(ANSWER_MS, waitMs + CONNECT_MS)
}

/**
 * How a client of our own is set. A call that was under way when the connection broke is never
 * sent a second time, as it may have happened; and none waits for more than the next try.
 */
const OPTIONS = {
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: true,
  enableAutoPipelining: false,
  connectTimeout: CONNECT_MS,
  retryStrategy: (times: number) => Math.min(SOON_MS * 2 ** Math.min(times, 10), LATER_MS),
} as const

/** What is said first wins: texts that a URL brings along change none of it. */
type Constructor = new (options: object, url: string) => RedisClient

/**
 * A client for a URL. It connects with the first call. `waitMs`: how long the longest call may take
 * by itself. Every call is told of an outage itself: somebody has to listen to its errors.
 */
export async function connect(url: string, waitMs: number): Promise<RedisClient> {
  const Redis = await load()
  return new Redis({ ...OPTIONS, commandTimeout: answerMs(waitMs) }, url)
}

/** The database that a client names; 0 is there always. */
export function databaseOf({ isCluster, condition, options }: RedisClient): number {
  return isCluster === true ? 0 : (condition?.select ?? options?.db ?? 0)
}

/** That a server does not have the database, as an error that names the option. */
export function refuseDatabase(isUrl: boolean, database: number): never {
  const expected = 'a database that the server has: it says that it has not'
  return isUrl
    ? refuseValue('url', `/${database}`, expected)
    : refuseValue('client', `db ${database}`, expected)
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
