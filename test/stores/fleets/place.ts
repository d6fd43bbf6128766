// Owns where a fleet has its jobs: a file of SQLite, or a prefix of a Redis server.
// May never open what it names; the store does that.

import type { Store } from '../../../src/store/store.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'

const PREFIX = 'fleet'

/** `redis://...`, or the path of a file. */
export function storeAt(place: string): Store {
  return place.startsWith('redis:') ? redisStore(place, { prefix: PREFIX }) : sqliteStore(place)
}
