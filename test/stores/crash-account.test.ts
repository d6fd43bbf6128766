// Owns the proof that the account of the crash suite can find something wrong.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { StoredJob } from '../../src/core/job.ts'
import { decide } from '../../src/core/machine.ts'
import { memoryStore } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import { KEEP } from '../../src/testing/cases-bench.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { Account } from './crash/account.ts'
import { type Entry, Ledger } from './crash/ledger.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-account-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0

/** A store with one job, `a`, that has succeeded at its first attempt, and the account of it. */
async function faultsOf(
  entries: readonly Entry[],
  change: (store: Store) => Store = (store) => store,
): Promise<string> {
  files += 1
  const path = join(folder, `${files}.txt`)
  const store = memoryStore()
  const jobs = [newJob('a', { payload: '{"id":"a"}' })]
  await store.insert([{ jobs, unknownDeps: 'wait' }], false)
  const ask = { holder: 'w', leaseMs: 10_000, max: 1, types: ['alpha'] }
  const [job] = (await store.lease(ask, false)).answer.jobs
  const move = decide(job as StoredJob, { type: 'succeeded', result: '"a"' }, KEEP)
  await store.apply(move === null ? [] : [move], false)
  const ledger = new Ledger(path)
  for (const entry of entries) ledger.note(...entry)
  ledger.close()
  return (await new Account(change(store), path).faults()).join('\n')
}

const GOOD: readonly Entry[] = [
  ['ask', 'a'],
  ['ack', 'a'],
  ['start', 'a', '1', 'key of a'],
  ['effect', 'a', '1', 'key of a'],
  ['result', 'a'],
]

/** The same store, one of whose jobs reads otherwise. */
const recording = (more: Partial<StoredJob>) => (store: Store) =>
  new Proxy(store, {
    get: (target, name) => {
      if (name !== 'list') return Reflect.get(target, name).bind(target)
      return async (query: Parameters<Store['list']>[0]) => {
        const page = await target.list(query)
        return { ...page, jobs: page.jobs.map((job) => ({ ...job, ...more })) }
      }
    },
  })

describe('the account of a file', () => {
  it('finds nothing where nothing is wrong', async () => {
    expect(await faultsOf(GOOD)).toBe('')
  })

  const wrong: readonly (readonly [what: string, entries: readonly Entry[]])[] = [
    ['b was acknowledged, and is lost', [...GOOD, ['ack', 'b']]],
    ['of one call of 2, a alone is stored', [...GOOD, ['ask', 'a', 'b']]],
    ['a ran attempt 1 twice', [...GOOD, ['start', 'a', '1', 'key of a']]],
    ['a ran, and the log knows no such start', [...GOOD, ['start', 'a', '2', 'key of a']]],
    ['b was told to have succeeded', [...GOOD, ['result', 'b']]],
    ['a has succeeded, with 2 effects', [...GOOD, ['effect', 'a', '1', 'another key']]],
    ['a has succeeded without its last attempt', GOOD.slice(0, 3)],
    ['a is stored, and nobody has submitted it', GOOD.slice(1)],
    ['a and b share an idempotency key', [...GOOD, ['effect', 'b', '1', 'key of a']]],
  ]

  it.each(wrong)('finds that %s', async (what, entries) => {
    expect(await faultsOf(entries)).toContain(what)
  })

  const stored: readonly (readonly [what: string, more: Partial<StoredJob>])[] = [
    ['the log leads a to success after 1; it is running', { status: 'running' }],
    ['a has another result', { result: '"b"' }],
    ['a has another payload', { payload: '{}' }],
    ['a is failed', { status: 'failed' }],
  ]

  it.each(stored)('finds in a record that %s', async (what, more) => {
    expect(await faultsOf(GOOD, recording(more))).toContain(what)
  })
})
