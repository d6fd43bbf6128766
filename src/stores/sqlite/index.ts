// Owns the public face of the SQLite store: 'ax-scheduler/sqlite'.
// May never hold a rule of its own. It hands the machine's clock and timers in: SQLite has no
// server whose clock could count, and all who share a file share the machine.

import { integer, plain, refuseUnknown, refuseValue } from '../../core/options.ts'
import { type Runtime, systemRuntime } from '../../kit/runtime.ts'
import type { Store } from '../../store/store.ts'
import { type Clockwork, hostOf } from './host.ts'
import { SqliteStore } from './port.ts'

export interface SqliteOptions {
  /**
   * `normal` (the default): what was acknowledged survives the end of every process; a power cut
   * may take the last moments. `full`: it survives a power cut too; each commit waits for the disk.
   */
  readonly sync?: 'normal' | 'full'
  /**
   * The largest size of the file, in pages of 4 KiB; beyond it nothing more is stored, and calls
   * reject with `STORE_UNAVAILABLE`. Default: as much as the disk holds.
   */
  readonly maxPages?: number
  /** The store's clock, epoch milliseconds. Default: the machine's. For tests. */
  readonly now?: () => number
  /** Timers and randomness. Default: Node's. For tests. */
  readonly runtime?: Runtime
}

/** What SQLite can count. */
const MAX_PAGES = 2 ** 32 - 2

/**
 * Keeps jobs in one file, for any number of processes of one machine. A promise resolves after
 * the commit. The file is made if there is none; its folder has to exist.
 *
 *     const store = sqliteStore('ax.db')
 *
 * Needs Node 22.5 or later, or the package `libsql` on an earlier one. Not for a network drive:
 * SQLite's locks do not hold there. Refuses with `INVALID_OPTION`, or, when it is opened and
 * cannot be used, with `STORE_UNAVAILABLE` and a message that says what to do.
 */
export function sqliteStore(file: string, options: SqliteOptions = {}): Store {
  if (typeof file !== 'string' || file === '' || file.includes('\0')) {
    refuseValue('file', file, 'the path of a file')
  }
  if (file === ':memory:') refuseValue('file', file, 'a path; for jobs in memory use memoryStore()')
  plain('options of sqliteStore', options)
  refuseUnknown('sqliteStore', options, ['sync', 'maxPages', 'now', 'runtime'])
  const { sync = 'normal', runtime = systemRuntime, now = runtime.now } = options
  if (sync !== 'normal' && sync !== 'full') refuseValue('sync', sync, "'normal' or 'full'")
  const { maxPages } = options
  if (maxPages !== undefined) integer('maxPages', maxPages, 1, MAX_PAGES)
  return new SqliteStore(file, { sync, maxPages }, hostOf(clockwork(runtime, now)))
}

function clockwork(runtime: Runtime, now: () => number): Clockwork {
  return {
    now,
    monotonic: () => runtime.monotonic(),
    random: () => runtime.random(),
    turn: () => new Promise((done) => runtime.soon(done)),
    sleep: (ms) => new Promise((done) => runtime.after(ms, done)),
    every: (ms, run) => {
      let isOn = true
      const again = () => {
        const turn = () => {
          if (!isOn) return
          run()
          again()
        }
        runtime.after(ms, turn, { ref: false })
      }
      again()
      return () => {
        isOn = false
      }
    },
  }
}
