// Owns the open file: transactions, waiting for somebody else's lock, errors as a caller sees them.
// May never block the process for somebody else's lock longer than BUSY_MS.

import { AxError, isAxError } from '../../core/errors.ts'
import { Connection } from './connection.ts'
import { CODES, type Columns, codeOf, loadLibrary } from './driver.ts'
import type { Host } from './host.ts'
import { checkVersion, migrate } from './schema.ts'

/** How long SQLite itself waits for a lock: the process stands still meanwhile. */
const BUSY_MS = 3

/**
 * Between two tries for a lock that somebody else holds: drawn from up to the first at first, then
 * from twice as much, up to the last. A commit takes a millisecond or two; a shell, minutes.
 */
const SOON_MS = 4
const LATER_MS = 32

/** After so long a lock is no longer what a queue looks like, but an outage. */
const PATIENCE_MS = 30_000

/** A file that is locked as it is opened belongs to somebody who does not share it. */
const OPEN_PATIENCE_MS = 10_000

/** 16 MB of log: pages that change again and again are written back once for all of that. */
const CHECKPOINT_PAGES = 4_000

/** How a file is opened. */
export interface Settings {
  readonly sync: 'normal' | 'full'
  /** Pages of the file at most; undefined: no bound but the disk. */
  readonly maxPages: number | undefined
  /** What each version of the file adds. Default: schema.ts. For tests of what comes after it. */
  readonly steps?: readonly string[]
}

export class File {
  readonly name: string
  readonly #host: Host
  readonly #connection: Connection

  private constructor(name: string, host: Host, connection: Connection) {
    this.name = name
    this.#host = host
    this.#connection = connection
  }

  /** Opens the file, makes it if there is none, and brings it up to date. */
  static async open(name: string, settings: Settings, host: Host): Promise<File> {
    host.checkPath(name)
    const library = await loadLibrary()
    let connection: Connection | undefined
    try {
      connection = new Connection(library.open(name))
      const file = new File(name, host, connection)
      await file.#patiently(() => file.#prepare(settings), OPEN_PATIENCE_MS)
      return file
    } catch (error) {
      connection?.close()
      throw told(error, name)
    }
  }

  #prepare({ sync, maxPages, steps }: Settings): void {
    const { db } = this.#connection
    db.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    checkVersion(db, this.name, steps)
    const [mode] = db.prepare('PRAGMA journal_mode = WAL').all() as readonly Columns[]
    if (mode?.journal_mode !== 'wal') throw withoutLog(this.name)
    db.exec(`PRAGMA synchronous = ${sync === 'full' ? 'FULL' : 'NORMAL'}`)
    // Only macOS knows the difference: there, a disk that was waited for may still have forgotten.
    db.exec(`PRAGMA fullfsync = ${sync === 'full' ? 'ON' : 'OFF'}`)
    db.exec('PRAGMA checkpoint_fullfsync = ON')
    db.exec('PRAGMA temp_store = MEMORY')
    db.exec('PRAGMA cache_size = -32000')
    db.prepare(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`).all()
    if (maxPages !== undefined) db.prepare(`PRAGMA max_page_count = ${maxPages}`).all()
    this.#within('BEGIN IMMEDIATE', () => migrate(db, this.name, steps))
    const versionNow = () => this.#connection.first<{ user_version: number }>('userVersion')
    const version = versionNow()?.user_version
    this.#connection.check = () => {
      if (versionNow()?.user_version !== version) checkVersion(db, this.name, steps)
    }
  }

  /** Runs in a write transaction. Resolves when it has been committed. */
  write<T>(act: (connection: Connection) => T): Promise<T> {
    return this.#told(() => this.#within('BEGIN IMMEDIATE', act))
  }

  /** Runs on one state of the file, which others may change meanwhile. */
  read<T>(act: (connection: Connection) => T): Promise<T> {
    return this.#told(() => this.#within('BEGIN', act))
  }

  /** Something cheap, outside of any transaction; undefined while somebody is in the way. */
  peek<T>(act: (connection: Connection) => T): T | undefined {
    try {
      return act(this.#connection)
    } catch {
      return undefined
    }
  }

  /**
   * Leaves one file behind, as far as nobody else has it open. libsql lets go of the file only
   * when its statements are collected, so the log is emptied here and not left to the closing.
   */
  close(): void {
    this.peek(({ db }) => db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all())
    this.#connection.close()
  }

  async #told<T>(act: () => T): Promise<T> {
    try {
      return await this.#patiently(act, PATIENCE_MS)
    } catch (error) {
      throw told(error, this.name)
    }
  }

  /** Asks again, without blocking anybody, as long as somebody else holds the lock. */
  async #patiently<T>(act: () => T, patienceMs: number): Promise<T> {
    const { monotonic, random, sleep } = this.#host
    const start = monotonic()
    for (let ms = SOON_MS; ; ms = Math.min(2 * ms, LATER_MS)) {
      try {
        return act()
      } catch (error) {
        if (!IN_THE_WAY.includes(codeOf(error))) throw error
        if (monotonic() - start > patienceMs) throw error
      }
      await sleep(ms / 4 + random() * ms * (3 / 4))
    }
  }

  #within<T>(begin: string, act: (connection: Connection) => T): T {
    const { db } = this.#connection
    db.exec(begin)
    try {
      const result = act(this.#connection)
      db.exec('COMMIT')
      return result
    } catch (error) {
      this.#undo()
      throw error
    }
  }

  /** Some errors end the transaction by themselves: then there is nothing to undo. */
  #undo(): void {
    this.#connection.forget()
    try {
      this.#connection.db.exec('ROLLBACK')
    } catch {
      return
    }
  }
}

/** The mode of a file cannot be set where processes cannot share memory. */
function withoutLog(file: string): AxError {
  return new AxError(
    'STORE_UNAVAILABLE',
    `${file} cannot be written ahead (journal_mode = WAL), as on network drives, where the locks ` +
      'of SQLite do not hold either. Name a file on a disk of this machine.',
    { retryable: false, file },
  )
}

/** What SQLite says, as an error that names the file and what to do. */
export function told(error: unknown, file: string): unknown {
  if (isAxError(error)) return error
  const said = SAID[codeOf(error)]
  if (said === undefined) return error
  const [remedy, retryable] = said
  return new AxError('STORE_UNAVAILABLE', `${file}: ${remedy}`, { cause: error, retryable, file })
}

const CANNOT_WRITE =
  'the file or its folder cannot be written. SQLite needs to write both: it keeps a -wal and a ' +
  '-shm file beside this one. Grant this user write access, or name a file elsewhere.'

const BROKEN =
  'this is not a SQLite file, or it is damaged. Put a copy of it aside; ' +
  '`sqlite3 FILE .recover` gets out of it what there is.'

const LOCKED =
  'another process has held the lock of this file for too long. Let nobody open it in exclusive ' +
  'mode, or leave a transaction open in a shell; ask again when the lock is gone.'

/** Somebody else is in the way, and will be gone. */
const IN_THE_WAY: readonly number[] = [CODES.busy, CODES.locked, CODES.protocol]

/** By primary result code: what to do, and whether asking again may help. */
const SAID: Readonly<Record<number, readonly [remedy: string, retryable: boolean]>> = {
  [CODES.busy]: [LOCKED, true],
  [CODES.locked]: [LOCKED, true],
  [CODES.protocol]: [LOCKED, true],
  [CODES.full]: [
    'there is no room left, on the disk or up to max_page_count. Nothing of this call was ' +
      'stored. Make room, then ask again.',
    true,
  ],
  [CODES.perm]: [CANNOT_WRITE, false],
  [CODES.readonly]: [CANNOT_WRITE, false],
  [CODES.cantOpen]: [
    'the file cannot be opened. Its folder has to exist, and both have to be readable and ' +
      'writable for this user.',
    false,
  ],
  [CODES.corrupt]: [BROKEN, false],
  [CODES.notADatabase]: [BROKEN, false],
  [CODES.io]: ['the disk could not be read or written. See to the disk, then ask again.', true],
}
