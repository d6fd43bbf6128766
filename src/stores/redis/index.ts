// Owns the public face of the Redis store: 'ax-scheduler/redis'.
// May never hold a rule of its own. It hands a name for this process in, and no clock: that of the
// server counts.

import { integer, plain, refuseUnknown, refuseValue } from '../../core/options.ts'
import { type Runtime, systemRuntime } from '../../kit/runtime.ts'
import type { Store } from '../../store/store.ts'
import type { RedisClient } from './driver.ts'
import { RedisStore } from './port.ts'
import { checkPrefix, DEFAULT_PREFIX } from './schema.ts'
import { addressOf } from './trouble.ts'

export type { RedisClient } from './driver.ts'

export interface RedisOptions {
  /**
   * What all keys begin with, in braces, which keep them in one slot of a cluster. Stores with
   * different prefixes know nothing of each other. Default: `ax`.
   */
  readonly prefix?: string
  /**
   * After each write, so many replicas have to have it before the call resolves; if they have not
   * after `waitMs`, it rejects with `STORE_UNAVAILABLE`, though it has happened. Default: 0. With
   * a client of a cluster it is refused.
   */
  readonly waitReplicas?: number
  /**
   * After each write, so many servers have to have it on disk, this one first. Needs Redis 7.2
   * and `appendonly yes`. Default: 0. With a client of a cluster it is refused.
   */
  readonly waitAof?: number
  /** How long either is waited for. Default: 1,000. */
  readonly waitMs?: number
  /** The store's clock, epoch milliseconds. Default: the server's. For tests. */
  readonly now?: () => number
  /**
   * Randomness, for the name of this process among others, and timers, for calls that are not
   * answered. Default: Node's. For tests.
   */
  readonly runtime?: Runtime
}

const OPTIONS = ['prefix', 'waitReplicas', 'waitAof', 'waitMs', 'now', 'runtime'] as const

/** What a client has to have to be used as one. */
const METHODS: readonly (keyof RedisClient)[] = ['callBuffer', 'duplicate', 'subscribe']

const MAX_WAIT_MS = 60_000

/**
 * Keeps jobs on a Redis or Valkey server (6.2 or later), for any number of processes anywhere.
 * What survives a crash of the server is what its persistence keeps: with `appendonly yes` and
 * the usual `appendfsync everysec`, all but the last second.
 *
 *     const store = redisStore('redis://localhost:6379')
 *
 * Needs the package `ioredis`. A URL makes a connection of the store's own, which `close()` ends.
 * A client that is handed in is used and never closed, one of a cluster as well; give it
 * `maxRetriesPerRequest: 0`, and one of a cluster `retryDelayOnFailover: 0` and the former within
 * `redisOptions`, so that no call is sent twice when the connection breaks: what was done by the
 * first one would answer `stale` to the second. Its calls end after 30 s with `STORE_UNAVAILABLE`
 * unless it limits them itself (`commandTimeout`). Give either a `socketTimeout`: without one, a
 * connection that is dead and does not say so is not given up.
 *
 * While the slot of a prefix moves from node to node, a client of a cluster asks again, and in the
 * end rejects with `STORE_UNAVAILABLE`; no call ever sees a half of the keys.
 *
 * The server must not evict keys (`maxmemory-policy noeviction`).
 *
 * Refuses with `INVALID_OPTION`, or, when it is opened and cannot be used, with
 * `STORE_UNAVAILABLE` and a message that says what to do.
 */
export function redisStore(urlOrClient: string | RedisClient, options: RedisOptions = {}): Store {
  plain('options of redisStore', options)
  refuseUnknown('redisStore', options, OPTIONS)
  const { prefix = DEFAULT_PREFIX, waitReplicas = 0, waitAof = 0, waitMs = 1_000, now } = options
  const { runtime = systemRuntime } = options
  integer('waitReplicas', waitReplicas, 0)
  integer('waitAof', waitAof, 0)
  integer('waitMs', waitMs, 1, MAX_WAIT_MS)
  const server = checkServer(urlOrClient)
  if (typeof server !== 'string' && server.isCluster === true) {
    checkNoWait('waitReplicas', waitReplicas)
    checkNoWait('waitAof', waitAof)
  }
  return new RedisStore(server, {
    prefix: checkPrefix(prefix),
    address: typeof urlOrClient === 'string' ? addressOf(urlOrClient) : 'the client handed in',
    waiting: { replicas: waitReplicas, aof: waitAof, ms: waitMs },
    now,
    me: runtime.random().toString(36).slice(2),
    after: (ms, run) => runtime.after(ms, run),
  })
}

/** A client of a cluster asks any node how many have it, and not the one that was written to. */
function checkNoWait(option: string, value: number): void {
  if (value > 0) refuseValue(option, value, '0 with a client of a cluster, which cannot wait')
}

function checkServer(given: unknown): string | RedisClient {
  if (typeof given === 'string') {
    if (isUsable(given)) return given
    return refuseValue('url', addressOf(given), 'a URL such as redis://localhost:6379/0')
  }
  const client = given as Record<string, unknown> | null | undefined
  const isClient =
    (typeof client === 'object' || typeof client === 'function') &&
    client !== null &&
    METHODS.every((name) => typeof client[name] === 'function')
  if (!isClient) return refuseValue('client', given, 'a URL, or a client of ioredis')
  const { options } = given as RedisClient
  if (options?.enableAutoPipelining === true) {
    refuseValue('client', 'enableAutoPipelining', 'a client without enableAutoPipelining')
  }
  // The client that listens would be asked before it is connected, and never listen.
  if (options?.enableOfflineQueue === false) {
    refuseValue(
      'client',
      'enableOfflineQueue: false',
      'a client that keeps calls until it is ready',
    )
  }
  // The channel of hints would have another name than the one that is listened to.
  if ((options?.keyPrefix ?? options?.redisOptions?.keyPrefix ?? '') !== '') {
    refuseValue('client', 'keyPrefix', 'a client without keyPrefix: ax has a prefix of its own')
  }
  return given as RedisClient
}

/** Whether the library will find everything in it: host, user, password, and a database. */
function isUsable(given: string): boolean {
  try {
    const { protocol, pathname, username, password, searchParams } = new URL(given)
    decodeURIComponent(username + password)
    const isRedis = protocol === 'redis:' || protocol === 'rediss:'
    const [path, query] = [pathname.replace(/^\//, ''), searchParams.get('db')]
    const database = query === null || path === '' || path === query ? (query ?? path) : 'two'
    return isRedis && /^\d*$/.test(database) && !searchParams.has('keyPrefix')
  } catch {
    return false
  }
}
