// Owns the proof that the engine keeps its promises on Redis too: the same tests, another store.

import { ON_EVERY_STORE, runOnRedis } from '../engine/stores.ts'

runOnRedis(ON_EVERY_STORE[3])
