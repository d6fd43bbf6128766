// Owns the promise that trouble with a file does it no harm, and that the same store goes on as
// soon as the cause is gone.

import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { isAxError } from '../../src/core/errors.ts'
import type { Store } from '../../src/store/store.ts'
import { type Database, loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { children } from './processes.ts'
import { allJobs, illsOf } from './reading.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-sqlite-trouble-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0

/** In a folder of its own. */
function fresh(): string {
  files += 1
  const place = join(folder, String(files))
  mkdirSync(place)
  return join(place, 'ax.db')
}

const PAYLOAD = JSON.stringify('x'.repeat(2_000))

async function add(store: Store, ...ids: readonly string[]): Promise<void> {
  const jobs = ids.map((id) => newJob(id, { payload: PAYLOAD }))
  await store.insert([{ jobs, unknownDeps: 'wait' }], false)
}

/** The code of the error that a promise rejects with. */
async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => 'nothing',
    (thrown: unknown) => thrown,
  )
  return isAxError(error) ? error.code : String(error)
}

/** The ids in a file, which has to be well. */
async function idsIn(store: Store, file: string): Promise<readonly string[]> {
  const ills = (await illsOf(store, file)).filter((ill) => !/no-handler|no-timeout/.test(ill))
  expect(ills).toEqual([])
  return [...(await allJobs(store)).keys()]
}

/** Adds jobs one by one until one is refused; answers those that were acknowledged. */
async function fill(store: Store): Promise<readonly string[]> {
  const kept: string[] = []
  for (let number = 0; number < 10_000; number += 1) {
    const code = await codeOf(add(store, `j${number}`))
    if (code === 'nothing') kept.push(`j${number}`)
    else if (code === 'STORE_UNAVAILABLE') return kept
    else throw new Error(code)
  }
  throw new Error('it never was full')
}

/** What is wrong, how it is brought about, and how it is mended again. */
interface Trouble {
  readonly what: string
  readonly code: string
  spoil(file: string): Promise<() => void>
}

async function sql(file: string, text: string): Promise<Database> {
  const raw = (await loadLibrary()).open(file)
  raw.exec(text)
  return raw
}

/** Another file lies in its place, and is to be left as it is. */
function inItsPlace(file: string, write: (file: string) => void): () => void {
  renameSync(file, `${file}.aside`)
  write(file)
  const before = readFileSync(file)
  return () => {
    expect(readFileSync(file).equals(before)).toBe(true)
    renameSync(`${file}.aside`, file)
  }
}

const TROUBLES: readonly Trouble[] = [
  {
    what: 'a folder lay in its place',
    code: 'INVALID_OPTION',
    spoil: async (file) => {
      renameSync(file, `${file}.aside`)
      mkdirSync(file)
      return () => {
        rmdirSync(file)
        renameSync(`${file}.aside`, file)
      }
    },
  },
  {
    what: 'its folder was not there',
    code: 'INVALID_OPTION',
    spoil: async (file) => {
      renameSync(dirname(file), `${dirname(file)}-away`)
      return () => renameSync(`${dirname(file)}-away`, dirname(file))
    },
  },
  {
    what: 'something else lay in its place',
    code: 'STORE_UNAVAILABLE',
    spoil: async (file) =>
      inItsPlace(file, (path) => writeFileSync(path, 'Dear diary'.repeat(999))),
  },
  {
    what: 'a file that is cut off lay in its place',
    code: 'STORE_UNAVAILABLE',
    spoil: async (file) =>
      inItsPlace(file, (path) => {
        writeFileSync(path, readFileSync(`${file}.aside`).subarray(0, 4_096 * 2 + 100))
      }),
  },
  {
    what: 'a file of a later version lay in its place',
    code: 'STORE_UNAVAILABLE',
    spoil: async (file) => {
      copyFileSync(file, `${file}.later`)
      ;(await sql(`${file}.later`, 'PRAGMA user_version = 900')).close()
      return inItsPlace(file, (path) => copyFileSync(`${file}.later`, path))
    },
  },
  {
    what: 'somebody held it for himself',
    code: 'STORE_UNAVAILABLE',
    spoil: async (file) => {
      const raw = await sql(file, 'BEGIN EXCLUSIVE')
      return () => {
        raw.exec('ROLLBACK')
        raw.close()
      }
    },
  },
  {
    what: 'it could not be written',
    code: 'STORE_UNAVAILABLE',
    spoil: async (file) => {
      const isRoot = process.getuid?.() === 0
      // Root may write anything: for as long as this takes, it is nobody, who cannot make a file
      // here. (One that is there would be opened for reading: access(2) asks for who root is.)
      if (isRoot) renameSync(file, `${file}.aside`)
      else chmodSync(file, 0o444)
      chmodSync(folder, 0o755)
      chmodSync(dirname(file), 0o555)
      if (isRoot) process.seteuid?.(65_534)
      return () => {
        if (isRoot) process.seteuid?.(0)
        chmodSync(dirname(file), 0o755)
        if (isRoot) renameSync(`${file}.aside`, file)
        else chmodSync(file, 0o644)
      }
    },
  },
]

describe('a SQLite store that could not be opened', () => {
  it.each(TROUBLES)(
    'because $what goes on when that is mended',
    async ({ code, spoil }) => {
      const file = fresh()
      const first = sqliteStore(file)
      await add(first, 'a', 'b')
      await first.close()

      const store = sqliteStore(file)
      const mend = await spoil(file)
      try {
        expect(await codeOf(add(store, 'c'))).toBe(code)
      } finally {
        mend()
      }
      await add(store, 'd')
      expect(await idsIn(store, file)).toEqual(['a', 'b', 'd'])
      await store.close()
    },
    30_000,
  )
})

const processes = children('trouble', { child: 'test/stores/trouble/child.ts' })

describe('a SQLite store without room', () => {
  it('keeps what it has acknowledged, can be read, and goes on with more pages', async () => {
    const file = fresh()
    const small = sqliteStore(file, { maxPages: 150 })
    const kept = await fill(small)
    expect(kept.length).toBeGreaterThan(20)
    expect(await codeOf(add(small, 'one', 'more'))).toBe('STORE_UNAVAILABLE')
    expect(await idsIn(small, file)).toEqual(kept)
    await small.close()

    const large = sqliteStore(file, { maxPages: 300 })
    await add(large, 'one', 'more')
    expect(await idsIn(large, file)).toEqual([...kept, 'one', 'more'])
    await large.close()
  })

  it('survives a disk that takes nothing more in the midst of a write', async () => {
    const file = fresh()
    const child = processes.start(processes.path('child'), {
      args: [file],
      within: ['sh', '-c', 'ulimit -f 6000; exec "$@"', 'sh'],
    })
    const { kept, refused, code, isReadable } = JSON.parse((await child.said('{')) || '{}')
    expect(await child.ended, child.output()).toBe(0)
    expect([code, isReadable]).toEqual(['STORE_UNAVAILABLE', true])
    expect(kept.length).toBeGreaterThan(20)
    const store = sqliteStore(file)
    await store.open()
    const ids = await idsIn(store, file)
    expect(ids).toEqual(expect.arrayContaining(kept))
    expect(ids.filter((id) => refused.includes(id))).toEqual([])
    await add(store, 'after')
    expect(await idsIn(store, file)).toContain('after')
    await store.close()
  }, 30_000)
})
