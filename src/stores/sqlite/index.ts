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
   * What was acknowledged survives the end of every process, however it ends, either way.
   *
   * `normal` (the default): the disk is waited for only when the log of the file is emptied into
   * it. If the system itself stops (a crash of the kernel, a power cut), the latest commits may be
   * missing: all of them after some moment, none from between. On Linux that moment is some 30
   * seconds back at the most. The file is whole. Jobs that had been added after it are gone, and
   * such as had ended after it run again.
   *
   * `full`: each commit waits for the disk. Nothing that was acknowledged is missing after a
   * crash of the system or a power cut, as far as the disk tells the truth about what it has
   * written. Calls of one turn share a commit, and with it the wait.
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
 * Needs Node 22.5 or later, or the package `libsql` on an earlier one. Not for a network drive
 * (NFS, SMB, a folder that is mounted into virtual machines): there the locks of SQLite may not
 * hold, and its processes have to share memory, so two machines would start the same jobs and
 * damage the file. A drive on which the file cannot have a log is refused; others look like a disk.
 *
 * Refuses with `INVALID_OPTION`, or, when it is opened and cannot be used, with
 * `STORE_UNAVAILABLE` and a message that says what to do.
 */
export function sqliteStore(file: string, options: SqliteOptions = {}): Store {
  if (typeof file !== 'string' || file === '' || file.includes('\0')) {
    refuseValue('file', file, 'the path of a file')
  }
  if (file === ':memory:') refuseValue('file', file, 'a path; for jobs in memory use memoryStore()')
  plain('options of sqliteStore', options)
  refuseUnknown('sqliteStore', options, ['sync', 'maxPages', 'now', 'runtime'])
  const { sync = 'normal', runtime = systemRuntime } = options
  const { now = () => runtime.now() } = options
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
