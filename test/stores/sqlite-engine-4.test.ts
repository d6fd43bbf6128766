// Owns the proof that the engine keeps its promises on SQLite too: the same tests, another store.

import { ON_SQLITE, runOnSqlite } from '../engine/stores.ts'

runOnSqlite(ON_SQLITE[3])
