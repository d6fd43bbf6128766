// Owns the proof that the engine keeps its promises on SQLite too: the same tests, another store.

import { ON_EVERY_STORE, runOnSqlite } from '../engine/stores.ts'

runOnSqlite(ON_EVERY_STORE[2])
