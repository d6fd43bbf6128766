// Owns which store a command works on: what `--store` takes, and the file that is the default.
// May never fall back to another store than the one that was asked for.

import { mkdir, realpath, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AxError } from '../core/errors.ts'
import { memoryStore, type Store } from '../index.ts'
import { sqliteStore } from '../stores/sqlite/index.ts'

/** Under the current folder, made with its folder. */
export const DEFAULT_STORE = join('.ax', 'ax.db')

const SUPPORTED =
  `'memory', a file such as ${DEFAULT_STORE}, or a server: redis:// or rediss://, ` +
  'and ?prefix=NAME behind it for another prefix than ax'

export interface OpenedStore {
  readonly store: Store
  /** The folder of its file. */
  readonly folder?: string
  /** It outlives this process: what is left of a run can be resumed. */
  readonly isDurable: boolean
}

/**
 * Opens what `--store` names. Refuses with INVALID_OPTION what is no store of this version, and
 * with STORE_UNAVAILABLE what cannot be opened.
 */
export async function openStore(given: string | undefined): Promise<OpenedStore> {
  if (given === 'memory') return { store: memoryStore(), isDurable: false }
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//i.exec(given ?? '')?.[1]
  if (scheme !== undefined) return openAddress(given as string, scheme)
  if (given?.trim() === '') {
    const text = `--store is empty. It takes ${SUPPORTED}.`
    throw new AxError('INVALID_OPTION', text, { option: '--store', value: given })
  }
  const file = given ?? DEFAULT_STORE
  if (given === undefined) await makeFolder(dirname(file))
  silenceSqlite()
  const store = sqliteStore(file)
  await store.open()
  return { store, folder: await realpath(dirname(file)), isDurable: true }
}

/** Addresses of a Redis or Valkey server, without and with TLS. */
const REDIS = new Set(['redis', 'rediss'])

/** The store is loaded only when it is asked for; what it lacks, it says when it is opened. */
async function openAddress(address: string, scheme: string): Promise<OpenedStore> {
  if (!REDIS.has(scheme.toLowerCase())) throw unsupported(address, scheme)
  const { redisStore } = await import('../stores/redis/index.ts')
  const store = redisStore(...withPrefix(address))
  await store.open()
  return { store, isDurable: true }
}

/** `?prefix=NAME` is what all keys begin with; whatever else is asked for is for the library. */
function withPrefix(address: string): [address: string, options: { prefix?: string }] {
  const [, before = '', query, after = ''] = /^([^?#]*)\?([^#]*)(.*)$/s.exec(address) ?? []
  if (query === undefined) return [address, {}]
  const words = new URLSearchParams(query)
  const prefix = words.get('prefix')
  if (prefix === null) return [address, {}]
  words.delete('prefix')
  const rest = words.size === 0 ? '' : `?${words}`
  return [before + rest + after, { prefix }]
}

/** What is in it is of this machine: nobody means to commit it. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
    await ignoreForGit(folder)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const why = code === 'EEXIST' ? 'there is a file of that name' : message
    throw new AxError(
      'STORE_UNAVAILABLE',
      `The folder '${folder}' for the store cannot be made here: ${why}. ` +
        'Name a file elsewhere with --store FILE.',
      { retryable: false, cause: error },
    )
  }
}

async function ignoreForGit(folder: string): Promise<void> {
  try {
    await writeFile(join(folder, '.gitignore'), '*\n', { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

function unsupported(value: string, scheme: string): AxError {
  return new AxError(
    'INVALID_OPTION',
    `--store ${hidden(value)} cannot be used: there is no store for '${scheme}://' in this ` +
      `version of ax. What it takes now is ${SUPPORTED}.`,
    { option: '--store', value: hidden(value) },
  )
}

/** An address may have a password in it, and messages end up in logs. */
function hidden(address: string): string {
  return address.replace(/\/\/.*@/s, '//***@').replace(/\?.*/s, '?***')
}

/** Node says of its own SQLite that it is experimental, on every start, to people who run jobs. */
function silenceSqlite(): void {
  const emit = process.emitWarning.bind(process)
  process.emitWarning = ((warning: string | Error, ...rest: []) => {
    if (!String(warning).includes('SQLite is an experimental feature')) emit(warning, ...rest)
  }) as typeof process.emitWarning
}
